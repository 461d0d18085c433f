//! What wakes the gate's loop.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::message::{ToGate, Unreadable};
use crate::files::gate::Reader;

/// Everything that can wake the loop apart from its own due times.
#[derive(Debug)]
pub(super) enum Event {
  /// A process wants to read bytes that are not known to be passed.
  Came(Held),
  /// The kernel let readers through because it could not queue their events.
  Lost,
  /// A reader thread is reading: check that it does not block for long.
  Active,
  /// The daemon of this connection sent a message.
  Heard(u32, Result<ToGate, Unreadable>),
  /// This connection is closed.
  Gone(u32),
  /// There is no reader thread any more.
  Broken(String),
}

/// A reader that needs a question to the daemon.
#[derive(Debug)]
pub(super) struct Held {
  pub(super) reader: Reader,
  pub(super) path: PathBuf,
}
