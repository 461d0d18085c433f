//! The one place that reads the time.
#![forbid(unsafe_code)]

use std::{
  sync::OnceLock,
  time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Two clocks: one for people, one for intervals.
pub trait Clock: Send + Sync {
  /// Microseconds since 1970, UTC; may jump when the system clock is set.
  fn now(&self) -> i64;
  /// Time since some fixed moment; never goes back.
  fn monotonic(&self) -> Duration;
  /// Waits. Only between two tries of something that has a deadline on this clock.
  fn pause(&self, wait: Duration) {
    pause(wait);
  }
}

/// The clocks of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
  #[expect(clippy::disallowed_methods, reason = "this is the clock")]
  fn now(&self) -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
      Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
      // A clock set before 1970 counts backwards, as it should.
      Err(before) => {
        i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)
      }
    }
  }

  #[expect(clippy::disallowed_methods, reason = "this is the clock")]
  fn monotonic(&self) -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
  }
}

/// Waits. Only between two tries of something that has a deadline.
#[expect(clippy::disallowed_methods, reason = "the one place that waits")]
pub fn pause(wait: Duration) {
  std::thread::sleep(wait);
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_system_clock_is_after_this_was_written_and_intervals_do_not_go_back() {
    // 2026-01-01T00:00:00Z.
    assert!(SystemClock.now() > 1_767_225_600_000_000);
    let first = SystemClock.monotonic();
    assert!(SystemClock.monotonic() >= first);
  }
}
