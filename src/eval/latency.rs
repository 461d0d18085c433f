//! How long judging a text takes.
#![forbid(unsafe_code)]

use std::time::Duration;

use serde::Serialize;

/// Percentiles in microseconds; by the nearest rank, so each is a measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
  /// The median.
  pub p50_us: f64,
  /// The 90th percentile.
  pub p90_us: f64,
  /// The 99th percentile.
  pub p99_us: f64,
  /// The maximum.
  pub max_us: f64,
}

impl Latency {
  /// `None` without measurements.
  pub fn of(times: &[Duration]) -> Option<Self> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = |percent: usize| {
      let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
      sorted.get(index).map(|time| (time.as_nanos() as f64 / 100.0).round() / 10.0)
    };
    Some(Self { p50_us: rank(50)?, p90_us: rank(90)?, p99_us: rank(99)?, max_us: rank(100)? })
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn percentiles_are_times_that_were_measured() {
    let times: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
    let expected = Latency { p50_us: 100.0, p90_us: 180.0, p99_us: 198.0, max_us: 200.0 };
    assert_eq!(Latency::of(&times), Some(expected));
    assert_eq!(Latency::of(&[]), None);
    let one = Latency { p50_us: 1.4, p90_us: 1.4, p99_us: 1.4, max_us: 1.4 };
    assert_eq!(Latency::of(&[Duration::from_nanos(1_449)]), Some(one));
  }
}
