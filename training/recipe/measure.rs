//! Thresholds, shares and intervals.

/// The lowest threshold that at most `share` of `scores` lie above.
pub(crate) fn threshold(scores: &[f32], share: f64) -> f32 {
  let mut sorted = scores.to_vec();
  sorted.sort_by(f32::total_cmp);
  let above = (share * sorted.len() as f64) as usize;
  sorted.len().checked_sub(above + 1).and_then(|at| sorted.get(at)).copied().unwrap_or(f32::MIN)
}

/// A share of a number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
  /// How many are so.
  pub(crate) yes: usize,
  /// Out of how many.
  pub(crate) all: usize,
}

impl Share {
  /// Counts.
  pub(crate) fn of(all: impl Iterator<Item = bool>) -> Self {
    all.fold(Self::default(), |share, yes| Self {
      yes: share.yes + usize::from(yes),
      all: share.all + 1,
    })
  }

  /// In percent.
  pub(crate) fn percent(self) -> f64 {
    100.0 * self.yes as f64 / self.all.max(1) as f64
  }

  /// Wilson's interval of 95 %, in percent.
  pub(crate) fn interval(self) -> (f64, f64) {
    let (n, p) = (self.all.max(1) as f64, self.percent() / 100.0);
    let z2 = 1.96_f64 * 1.96;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = 1.96 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    (100.0 * (middle - half), 100.0 * (middle + half))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_threshold_lets_the_asked_share_through() {
    let scores: Vec<f32> = (0..1000).map(|n| n as f32).collect();
    let at = threshold(&scores, 0.005);
    assert_eq!(scores.iter().filter(|score| **score > at).count(), 5);
    assert_eq!(threshold(&[], 0.1), f32::MIN);
  }

  #[test]
  fn intervals_are_those_of_the_textbook() {
    let (low, high) = Share { yes: 5, all: 1000 }.interval();
    assert!((low - 0.214).abs() < 0.01 && (high - 1.165).abs() < 0.01, "{low} {high}");
  }
}
