//! The protocol of `memfw link`: JSON lines between a plugin inside an agent and memfw (docs/link.md).
//!
//! [`message`] has the requests and replies, [`limits`] their sizes, [`session`] reads lines and keeps the
//! handshake, [`change`] computes the text that a tool call would leave in a file, with `edits`, `patch` and
//! `hunk` as the agent's tools do it, [`recall`] is about what the agent reads, [`chat`] about what its owner asks.
//! Nothing is judged and no file is read here.
//!
//! Invariant: everything read is hostile. Each size has a limit, and any bytes give a request or a reply
//! that says what is wrong.
#![forbid(unsafe_code)]

pub mod change;
pub mod chat;
mod edits;
mod hunk;
mod lenient;
pub mod limits;
pub mod message;
pub mod outcome;
mod patch;
pub mod recall;
pub mod session;

pub use {
  change::Change,
  chat::{Chat, News, Order, Told},
  message::{Call, Decision, Failed, Heard, HeardKind, Hello, Reason, Reply, Request},
  outcome::{Files, Outcome},
  recall::{Handing, Inject, Recall, Recalled, RunNames, Wanted},
  session::{Ask, Question, Session},
};
