//! Messages to the service manager. The loop itself sends them, so a loop that hangs sends none.
#![forbid(unsafe_code)]

use std::{io, time::Duration};

use crate::os::systemd;

/// How often a long start is announced, and for how long each announcement extends the start (choices).
const EXTEND_EVERY: Duration = Duration::from_secs(10);
const EXTEND_BY: Duration = Duration::from_mins(1);

/// When the next messages are due.
#[derive(Debug)]
pub(super) struct Service {
  /// How often to report that the daemon is alive; `None` without a watchdog.
  interval: Option<Duration>,
  ping_at: Duration,
  extend_at: Duration,
}

impl Service {
  /// Reads the watchdog interval that the service manager asks for.
  pub(super) fn new(now: Duration) -> Self {
    Self { interval: systemd::watchdog_interval(), ping_at: now, extend_at: now }
  }

  /// Sends what is due, because the loop has made progress.
  pub(super) fn progress(&mut self, now: Duration, is_starting: bool) {
    if let Some(interval) = self.interval.filter(|_| now >= self.ping_at) {
      self.ping_at = now + interval;
      tell(systemd::watchdog());
    }
    if is_starting && now >= self.extend_at {
      self.extend_at = now + EXTEND_EVERY;
      tell(systemd::extend(EXTEND_BY));
    }
  }

  /// How long until the next watchdog message.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    self.interval.map(|_| self.ping_at.saturating_sub(now))
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeup(&self) -> Option<String> {
    let interval = self.interval?;
    Some(format!("pings the service manager every {}", seconds(interval)))
  }
}

/// Logs a failed message: it is no reason to stop guarding.
pub(super) fn tell(told: io::Result<()>) {
  if let Err(error) = told {
    tracing::debug!(target: "memfw", %error, "the service manager was not notified");
  }
}

/// A time in seconds, without trailing zeros.
pub(super) fn seconds(time: Duration) -> String {
  format!("{} s", time.as_secs_f64())
}
