//! What memfw asks over the network, where a user has configured it: vectors of texts, and the opinion of a model
//! that reads.
//!
//! Nothing here is on the way of a redaction, and without a configuration nothing here is made. Each
//! question has a deadline and each answer a cap; TLS is required except to this very machine, no
//! redirect is followed and no proxy is asked, so that a text goes to the one host that the user named.
//!
//! Invariant: neither a key nor a text stands in an error or in the log.
#![forbid(unsafe_code)]

mod answer;
mod breaker;
mod chat;
#[cfg(test)]
mod chat_tests;
mod embedding;
#[cfg(test)]
mod embedding_tests;
mod post;
#[cfg(test)]
mod testing;
mod url;

pub use breaker::Breaker;
pub use chat::{CHAT_DEADLINE, Chat, ChatSettings};
pub use embedding::{Client, Form, MAX_TEXT, Settings};
pub use post::{Clock, NetError};
pub use url::check_url;
