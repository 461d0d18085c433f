//! Measured times, as people read them.
#![forbid(unsafe_code)]

/// From so many measured times on, the 90th percentile is not the slowest one.
pub const FOR_P90: u64 = 10;
/// From so many on, the 99th percentile is not.
pub const FOR_P99: u64 = 100;

/// A time in microseconds, with its significant digits.
pub fn duration(us: f64) -> String {
  match us {
    us if us < 5.0 => "under 0.01 ms".to_owned(),
    us if us < 100.0 => format!("{:.2} ms", us / 1e3),
    us if us < 99_950.0 => format!("{:.1} ms", us / 1e3),
    us if us < 9_999_500.0 => format!("{:.0} ms", us / 1e3),
    us => format!("{:.1} s", us / 1e6),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_time_is_never_nothing_and_never_a_long_number() {
    for (us, text) in [
      (1.0, "under 0.01 ms"),
      (12.0, "0.01 ms"),
      (100.0, "0.1 ms"),
      (1_249.0, "1.2 ms"),
      (99_949.0, "99.9 ms"),
      (99_950.0, "100 ms"),
      (250_000.0, "250 ms"),
      (9_999_499.0, "9999 ms"),
      (96_000_000.0, "96.0 s"),
    ] {
      assert_eq!(duration(us), text);
    }
  }
}
