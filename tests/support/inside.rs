//! The daemon's guard inside of a test, with a clock that can be moved.

use {
  super::pace,
  memfw::{
    daemon::Guard,
    os::{Clock, SystemClock},
    seal::MasterKey,
    store::{Access, Ledger},
  },
  std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
  },
};

/// The machine's clock, and by how many milliseconds it is ahead.
#[derive(Default)]
pub(crate) struct Ahead {
  /// The clock on the wall.
  pub(crate) wall: AtomicU64,
  pub(crate) monotonic: AtomicU64,
  /// How long the machine slept.
  pub(crate) asleep: AtomicU64,
}

impl Clock for Ahead {
  fn now(&self) -> i64 {
    SystemClock.now() + self.wall.load(Relaxed) as i64 * 1_000
  }

  fn monotonic(&self) -> Duration {
    SystemClock.monotonic() + Duration::from_millis(self.monotonic.load(Relaxed))
  }

  fn asleep(&self) -> Duration {
    Duration::from_millis(self.asleep.load(Relaxed))
  }
}

/// The ledger of such a guard.
pub(crate) fn ledger_in(dir: &Path, access: Access) -> Ledger {
  Ledger::open(&dir.join("ledger.sqlite"), access, Some(MasterKey::new([7; 32]))).unwrap()
}

/// Does all work that is due within some seconds, as the loop does.
pub(crate) fn settle(guard: &mut Guard) {
  loop {
    if !guard.work().unwrap() {
      guard.finish_start().unwrap();
      match guard.next_due() {
        Some(wait) if wait < Duration::from_secs(10) => pace(wait),
        _ => return,
      }
    }
  }
}
