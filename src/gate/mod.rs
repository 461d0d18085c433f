//! The gate: readers of memory wait until layer 1 has passed the bytes that they would see.
//!
//! An optional process beside the daemon. The gate has only the rights of the user whose memory it
//! guards, opens no memory file, writes nothing, and has access to neither ledger nor key: it asks
//! the daemon ([`message`]) and lets readers through. `reader_thread` answers from what is known,
//! `event_loop` asks and keeps deadlines, [`waiting`] and [`writers`] are their state, as pure
//! data.
//!
//! Invariants: no reader is refused; no reader waits longer than the bound; every reader that gets
//! bytes that were not passed is counted and reported; the daemon, and any process that holds
//! memfw's write lock, never waits, because the answer may be waiting for that process.
#![forbid(unsafe_code)]

#[cfg(linux)]
mod event;
#[cfg(linux)]
pub mod event_loop;
pub mod message;
#[cfg(linux)]
mod reader_thread;
pub mod waiting;
pub mod writers;

use std::{fmt, time::Duration};

/// The longest time between an agent's write and its own verifying read (docs/adr/0002: measured
/// 0.2 to 0.6 ms, and more than 50 ms on a loaded machine): as long as the engine waits for it.
pub const READ_BACK: Duration = Duration::from_secs(3);

/// Why a reader got bytes that were not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
  /// No daemon is connected.
  NoDaemon,
  /// The daemon does not answer at all.
  Silent,
  /// The daemon answers, but this file was not passed in time.
  Slow,
  /// Too many readers wait already.
  Crowd,
  /// The kernel could not queue all readers.
  Lost,
}

impl Why {
  /// All reasons.
  pub const ALL: [Self; 5] = [Self::NoDaemon, Self::Silent, Self::Slow, Self::Crowd, Self::Lost];

  /// The reason as it is sent.
  pub const fn code(self) -> u8 {
    match self {
      Self::NoDaemon => 1,
      Self::Silent => 2,
      Self::Slow => 3,
      Self::Crowd => 4,
      Self::Lost => 5,
    }
  }

  /// The reason of a code.
  pub fn from_code(code: u8) -> Option<Self> {
    Self::ALL.into_iter().find(|why| why.code() == code)
  }
}

impl fmt::Display for Why {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(match self {
      Self::NoDaemon => "no daemon was running",
      Self::Silent => "the daemon did not answer",
      Self::Slow => "a file was not passed in time",
      Self::Crowd => "too many readers waited at once",
      Self::Lost => "the kernel's queue of readers was full",
    })
  }
}
