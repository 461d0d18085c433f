//! The one place that reads the time.
#![forbid(unsafe_code)]

use std::{
  sync::OnceLock,
  time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use jiff::{Timestamp, tz::TimeZone};

/// Two clocks: one for people, one for intervals.
pub trait Clock: Send + Sync {
  /// Microseconds since 1970, UTC; may jump when the system clock is set.
  fn now(&self) -> i64;
  /// Time since some fixed moment; never goes back.
  fn monotonic(&self) -> Duration;
  /// Waits. Used only between two attempts that have a deadline on this clock.
  fn pause(&self, wait: Duration) {
    pause(wait);
  }
  /// The total time for which the machine was suspended, during which the monotonic clock stops.
  fn asleep(&self) -> Duration {
    Duration::ZERO
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
      // A clock set before 1970 gives negative times.
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

  #[cfg(linux)]
  fn asleep(&self) -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
      let now = clock_gettime(clock);
      Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    };
    // This order, because the time between the two readings must not look like a suspension.
    let with_sleep = read(ClockId::Boottime);
    with_sleep.saturating_sub(read(ClockId::Monotonic))
  }
}

/// Waits. Used only between two attempts that have a deadline.
#[expect(clippy::disallowed_methods, reason = "the one place that waits")]
pub fn pause(wait: Duration) {
  std::thread::sleep(wait);
}

/// A time of [`Clock::now`] as RFC 3339 in UTC, whole seconds: `2026-11-21T14:32:00Z`.
///
/// A time outside the representable years is shown as the first or last representable one.
pub fn rfc3339(micros: i64) -> String {
  timestamp(micros).to_string()
}

/// How much the machine's local time is ahead of UTC at a time of [`Clock::now`], in microseconds; negative west of
/// Greenwich.
pub fn local_ahead(micros: i64) -> i64 {
  let zone = TimeZone::system();
  i64::from(zone.to_offset(timestamp(micros)).seconds()) * 1_000_000
}

/// A time of [`Clock::now`] in whole seconds, or the nearest representable one.
pub fn timestamp(micros: i64) -> Timestamp {
  let limit = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
  Timestamp::from_second(micros.div_euclid(1_000_000)).unwrap_or(limit)
}

/// A moment after which an attempt is given up.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the time")]
pub fn deadline(after: Duration) -> Instant {
  Instant::now() + after
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
