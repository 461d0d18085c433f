//! Logistic regression by Newton steps on one weight at a time.

/// Holds weights near zero; in lines.
const HOLD: f64 = 2.0;
/// Rounds over all weights.
const ROUNDS: usize = 150;

/// Fits weights to rows, each of which counts so much; those from `rising` on stay at zero or above, and the first
/// is not held. Rounded to four digits.
pub(crate) fn fit<const N: usize>(
  rows: &[[f32; N]],
  is_yes: &[bool],
  counts: &[f64],
  rising: usize,
) -> [f32; N] {
  let mut weights = [0.0_f64; N];
  let mut logits = vec![0.0_f64; rows.len()];
  for _ in 0..ROUNDS {
    for (at, weight) in weights.iter_mut().enumerate() {
      let hold = if at == 0 { 0.0 } else { HOLD };
      let mut slope = hold * *weight;
      let mut bend = hold + 1e-9;
      for (((row, yes), count), logit) in rows.iter().zip(is_yes).zip(counts).zip(&logits) {
        let input = f64::from(row[at]);
        let p = 1.0 / (1.0 + (-logit).exp());
        slope += count * (p - f64::from(u8::from(*yes))) * input;
        bend += count * p * (1.0 - p) * input * input;
      }
      let least = if at < rising { f64::NEG_INFINITY } else { 0.0 };
      // Half a unit at most: far from the minimum a Newton step overshoots.
      let next = (*weight - (slope / bend).clamp(-0.5, 0.5)).max(least);
      let moved = next - *weight;
      *weight = next;
      if moved != 0.0 {
        for (logit, row) in logits.iter_mut().zip(rows) {
          *logit += moved * f64::from(row[at]);
        }
      }
    }
  }
  weights.map(|weight| (weight * 1e4).round() as f32 / 1e4)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_tells_is_weighed_and_nothing_is_turned_around() {
    let rows: Vec<[f32; 3]> =
      (0..400).map(|n| [1.0, (n % 2) as f32, ((n + 1) % 2) as f32]).collect();
    let is_yes: Vec<bool> = (0..400).map(|n| n % 2 == 1 || n % 20 == 0).collect();
    let weights = fit(&rows, &is_yes, &vec![1.0; 400], 1);
    assert!(weights[1] > 2.0, "{weights:?}");
    assert_eq!(weights[2], 0.0, "it would have to be negative");
  }
}
