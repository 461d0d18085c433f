//! Stops asking a server that does not answer, and tries again later.
#![forbid(unsafe_code)]

use std::time::Duration;

/// Failures in a row after which requests are paused (a choice: one may be chance).
const FAILURES: u32 = 3;
/// The first pause; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause.
const LAST_PAUSE: Duration = Duration::from_mins(15);

/// A circuit breaker; time is a parameter, on any monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breaker {
  failures: u32,
  closed_until: Duration,
}

impl Breaker {
  /// Whether a request may be sent now.
  pub fn may_ask(&self, now: Duration) -> bool {
    self.failures < FAILURES || now >= self.closed_until
  }

  /// Whether it has failed since it last answered.
  pub const fn has_failed(&self) -> bool {
    self.failures > 0
  }

  /// It answered.
  pub fn succeeded(&mut self) {
    *self = Self::default();
  }

  /// Records a failure. After a pause one request is let through, whose failure begins a longer
  /// pause.
  pub fn failed(&mut self, now: Duration) {
    self.failures = self.failures.saturating_add(1);
    if let Some(more) = self.failures.checked_sub(FAILURES) {
      let pause = FIRST_PAUSE.saturating_mul(1 << more.min(16)).min(LAST_PAUSE);
      self.closed_until = now.saturating_add(pause);
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn three_failures_are_a_pause_and_each_further_one_is_longer() {
    let at = Duration::from_secs;
    let mut breaker = Breaker::default();
    for _ in 0..2 {
      breaker.failed(at(0));
      assert!(breaker.may_ask(at(0)));
    }
    breaker.failed(at(0));
    assert!(!breaker.may_ask(at(29)) && breaker.may_ask(at(30)));
    breaker.failed(at(30));
    assert!(!breaker.may_ask(at(89)) && breaker.may_ask(at(90)));
    for _ in 0..1000 {
      breaker.failed(at(100));
    }
    assert!(!breaker.may_ask(at(100 + 899)) && breaker.may_ask(at(100 + 900)));
    breaker.succeeded();
    breaker.failed(at(2000));
    assert!(breaker.may_ask(at(2000)), "an answer starts the count again");
  }
}
