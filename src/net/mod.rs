//! Requests over the network, where a user has configured them: vectors of texts, and the verdict
//! of a judge.
//!
//! No redaction waits for this room, and without a configuration no client is made. Each request
//! has a deadline and each answer a size cap; TLS is required except to this machine, no redirect
//! is followed and no proxy is used, so a text goes only to the host that the user named.
//!
//! Invariant: no error and no log line contains a key or a text.
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

pub use answer::Form;
pub use breaker::Breaker;
pub use chat::{CHAT_DEADLINE, Chat, ChatSettings};
pub use embedding::{Client, MAX_TEXT, Settings};
pub use post::{Clock, NetError};
pub use url::check_url;
