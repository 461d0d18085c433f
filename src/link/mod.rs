//! The protocol of `memfw link`: JSON lines between a plugin inside an agent and memfw (docs/link.md).
//!
//! [`message`] has the requests and replies, [`limits`] their sizes, [`session`] reads lines and keeps the handshake,
//! [`change`] computes the text that a tool call would leave in a file, with `edits`, `patch` and `hunk` as OpenClaw's tools do it. Nothing is judged and no file is read here.
//!
//! Invariant: everything read is hostile. Each size has a limit, and any bytes give a request or a reply
//! that says what is wrong.
#![forbid(unsafe_code)]

pub mod change;
mod edits;
mod hunk;
pub mod limits;
pub mod message;
mod patch;
pub mod session;

pub use {
  change::{Change, Files, Outcome},
  message::{Call, Decision, Failed, Heard, HeardKind, Hello, Reason, Reply, Request},
  session::{Ask, Session},
};
