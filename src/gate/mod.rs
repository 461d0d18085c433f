//! The gate: readers of memory wait until layer 1 has passed the bytes that they would see.
//!
//! An optional process beside the daemon. It holds no rights but those of the user whose memory it
//! guards, opens no memory file, writes nothing, and knows neither ledger nor key: it asks the daemon
//! ([`message`]) and lets readers go on. `porter` answers from what is known, `desk` asks and keeps
//! the time, [`waiting`] and [`writers`] are what they know, as pure data.
//!
//! Invariants: nobody is refused; nobody waits longer than the bound; whoever is let through to bytes
//! that nobody has passed is counted and said; the daemon, and whoever holds memfw's write lock, never
//! waits, for the answer may be waiting for them.
#![forbid(unsafe_code)]

#[cfg(linux)]
pub mod event_loop;
pub mod message;
#[cfg(linux)]
mod reader_thread;
pub mod waiting;
pub mod writers;

use std::{fmt, time::Duration};

/// How long an agent's own verifying read may come after its write (docs/adr/0002: measured 0.2 to
/// 0.6 ms, and more than 50 ms on a loaded machine): as long as the engine waits for it.
pub const READ_BACK: Duration = Duration::from_secs(3);

/// Why somebody was let through to bytes that nobody had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
  /// There is no daemon to ask.
  NoDaemon,
  /// The daemon says nothing at all.
  Silent,
  /// The daemon answers, but this file was not passed in time.
  Slow,
  /// Too many wait already.
  Crowd,
  /// The kernel could not queue all who wanted to read.
  Lost,
}

impl Why {
  /// All reasons.
  pub const ALL: [Self; 5] = [Self::NoDaemon, Self::Silent, Self::Slow, Self::Crowd, Self::Lost];

  /// The reason as it travels.
  pub const fn code(self) -> u8 {
    match self {
      Self::NoDaemon => 1,
      Self::Silent => 2,
      Self::Slow => 3,
      Self::Crowd => 4,
      Self::Lost => 5,
    }
  }

  /// The reason behind a code.
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
