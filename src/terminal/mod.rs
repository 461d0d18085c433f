//! How commands print: tables, escaping, colours, progress, the pager, times, and errors as people see
//! them.
//!
//! This room uses neither the ledger nor the engine nor any command.
//!
//! Invariant: everything from memory, file names or the ledger goes through [`escape`] before it
//! reaches a terminal; answers go through [`output::Out`], errors through [`failure::Failure`].
#![forbid(unsafe_code)]

pub mod diff;
pub mod escape;
pub mod failure;
pub mod lines;
pub mod moment;
pub mod output;
pub mod pager;
pub mod preview;
pub mod progress;
pub mod table;
pub mod time;

pub use failure::{Failure, FailureKind};
