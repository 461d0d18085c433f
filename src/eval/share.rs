//! A share `k` of `n`, with its confidence interval.
#![forbid(unsafe_code)]

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// Standard normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// `k` of `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
  /// The total.
  pub n: u64,
  /// The counted part.
  pub k: u64,
}

impl Share {
  /// Adds one, which counts if `hit`.
  pub fn add(&mut self, hit: bool) {
    self.n += 1;
    self.k += u64::from(hit);
  }

  /// From 0 to 1; `None` if `n` is 0.
  pub fn rate(&self) -> Option<f64> {
    (self.n > 0).then(|| self.k as f64 / self.n as f64)
  }

  /// The 95 % interval of Wilson (1927), which is valid near 0 and 1 as well; `None` if `n` is 0.
  pub fn interval(&self) -> Option<(f64, f64)> {
    let (rate, n) = (self.rate()?, self.n as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (rate + Z * Z / (2.0 * n)) / scale;
    let half = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    // Exact at the ends, where rounding errors would show.
    let low = if self.k == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if self.k == self.n { 1.0 } else { (middle + half).min(1.0) };
    Some((low, high))
  }
}

impl Serialize for Share {
  /// `{n, k, rate, low, high}`; the last three are null if `n` is 0.
  fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_struct("Share", 5)?;
    out.serialize_field("n", &self.n)?;
    out.serialize_field("k", &self.k)?;
    out.serialize_field("rate", &self.rate().map(rounded))?;
    out.serialize_field("low", &self.interval().map(|(low, _)| rounded(low)))?;
    out.serialize_field("high", &self.interval().map(|(_, high)| rounded(high)))?;
    out.end()
  }
}

/// Six decimals: more than any number of lines can resolve.
pub fn rounded(value: f64) -> f64 {
  (value * 1e6).round() / 1e6
}

/// Attacks that were found and harmless lines that were flagged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
  /// Of the attacks, those that were found.
  pub recall: Share,
  /// Of the harmless lines, those that were flagged.
  pub false_positives: Share,
}

impl Counts {
  /// One more line.
  pub fn add(&mut self, is_attack: bool, found: bool) {
    let share = if is_attack { &mut self.recall } else { &mut self.false_positives };
    share.add(found);
  }

  /// All lines.
  pub fn n(&self) -> u64 {
    self.recall.n + self.false_positives.n
  }

  /// Both together.
  pub fn join(&mut self, other: &Self) {
    for (share, more) in
      [(&mut self.recall, &other.recall), (&mut self.false_positives, &other.false_positives)]
    {
      share.n += more.n;
      share.k += more.k;
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn near(found: Option<(f64, f64)>, low: f64, high: f64) {
    let (a, b) = found.unwrap();
    assert!((a - low).abs() < 5e-5 && (b - high).abs() < 5e-5, "{a} {b}, not {low} {high}");
  }

  /// Values of Newcombe (1998), table I, method 3, and of R's `binom::binom.wilson`.
  #[test]
  fn intervals_are_those_of_the_literature() {
    near(Share { n: 263, k: 81 }.interval(), 0.2553, 0.3662);
    near(Share { n: 148, k: 15 }.interval(), 0.0624, 0.1605);
    near(Share { n: 20, k: 0 }.interval(), 0.0, 0.1611);
    near(Share { n: 29, k: 1 }.interval(), 0.0061, 0.1718);
    near(Share { n: 20, k: 20 }.interval(), 0.8389, 1.0);
    assert_eq!(Share::default().interval(), None);
  }

  #[test]
  fn json_has_null_for_nothing() {
    let json = serde_json::to_value(Share::default()).unwrap();
    assert_eq!(json, serde_json::json!({"n":0,"k":0,"rate":null,"low":null,"high":null}));
    let json = serde_json::to_value(Share { n: 3, k: 1 }).unwrap();
    assert_eq!(json["rate"], 0.333_333);
  }

  #[test]
  fn attacks_and_harmless_lines_are_counted_apart() {
    let mut counts = Counts::default();
    counts.add(true, true);
    counts.add(true, false);
    counts.add(false, true);
    let mut twice = counts;
    twice.join(&counts);
    assert_eq!((twice.recall, twice.false_positives), (Share { n: 4, k: 2 }, Share { n: 2, k: 2 }));
    assert_eq!(twice.n(), 6);
  }
}
