//! What OpenClaw wrote down about its sessions, read for attribution: one model, two stores.
//!
//! Since 2026.8.1 a transcript is rows of a SQLite database per agent, some of them compressed; before,
//! it is a JSONL file per session. Everything in there is hostile: sizes are capped, unknown records
//! are skipped, and nothing is ever written. [`Stores`] joins both over all agents.

mod database;
mod describe;
mod entry;
mod envelope;
mod gather;
mod json;
mod jsonl;
mod lines;
pub mod model;
pub mod parse;
mod sqlite;
pub mod stores;
mod tables;

pub use model::{
  Call, Message, Outcome, ReadResult, Record, Sender, Session, Sessions, UNSEEN, Window,
  is_local_channel,
};
pub use stores::Stores;
