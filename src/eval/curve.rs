//! The results of a score at every threshold, and its calibration.
#![forbid(unsafe_code)]

use serde::Serialize;

use super::share::{Share, rounded};

/// False-positive rates at which the recall is reported (docs/detection.md: those of the four
/// trusts).
const BUDGETS: [f64; 5] = [0.0001, 0.0005, 0.005, 0.01, 0.05];
/// Bins of the calibration curve, of equal width: the usual number.
const BINS: usize = 10;
/// Smallest distance of two kept points, on either axis of a drawing: less than a line's width.
const STEP: f64 = 1.0 / 128.0;
/// Decades of the false-positive rate that a drawing shows.
pub const DECADES: f64 = 4.0;

/// One threshold: all lines with at least this score count as attacks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
  /// The threshold.
  pub score: f64,
  /// The share of the harmless lines at or above it.
  pub false_positives: f64,
  /// The share of the attacks at or above it.
  pub recall: f64,
}

/// The highest recall within a budget of false positives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AtBudget {
  /// The largest share of harmless lines.
  pub budget: f64,
  /// The threshold that meets it; null if there is none.
  pub score: Option<f64>,
  /// The recall at that threshold.
  pub recall: Share,
}

/// Lines whose score lies in one tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bin {
  /// The lower bound.
  pub from: f64,
  /// The mean score in it; null where it is empty.
  pub mean: Option<f64>,
  /// The share of attacks among its lines.
  pub attacks: Share,
}

/// The measurements of a score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
  /// The area under the receiver operating characteristic; ties count half. Null unless there are
  /// lines of both labels.
  pub auc: Option<f64>,
  /// The recall within budgets of false positives.
  pub at: Vec<AtBudget>,
  /// The mean distance between score and label over the bins, weighted by their lines.
  pub ece: Option<f64>,
  /// The mean squared distance between score and label.
  pub brier: Option<f64>,
  /// The calibration curve.
  pub bins: Vec<Bin>,
  /// The receiver operating characteristic, from the strictest threshold on, with some points left
  /// out.
  pub points: Vec<Point>,
}

impl Curve {
  /// Measures scores from 0 to 1 against whether the line was an attack.
  pub fn of(scores: &[(f32, bool)]) -> Self {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let n =
      Share { n: sorted.len() as u64, k: sorted.iter().filter(|(_, hit)| *hit).count() as u64 };
    let all = steps(&sorted, n);
    let points = all.iter().map(|step| step.point(n)).collect::<Vec<_>>();
    let (ece, brier, bins) = calibration(scores);
    let at = BUDGETS.iter().map(|&budget| at_budget(&all, n, budget)).collect();
    Self { auc: auc(&points, n), at, ece, brier, bins, points: thinned(&points) }
  }
}

/// How many lines have at least this score.
#[derive(Clone, Copy)]
struct Step {
  score: f32,
  attacks: u64,
  benign: u64,
}

impl Step {
  fn point(&self, n: Share) -> Point {
    let of = |k: u64, n: u64| rounded(Share { n, k }.rate().unwrap_or(0.0));
    Point {
      score: rounded(f64::from(self.score)),
      false_positives: of(self.benign, n.n - n.k),
      recall: of(self.attacks, n.k),
    }
  }
}

/// One step for each different score, from the highest down; `n.k` of the `n.n` lines are attacks.
fn steps(sorted: &[(f32, bool)], n: Share) -> Vec<Step> {
  let mut steps: Vec<Step> = Vec::new();
  let (mut attacks, mut benign) = (0, 0);
  for &(score, is_attack) in sorted {
    attacks += u64::from(is_attack);
    benign += u64::from(!is_attack);
    match steps.last_mut() {
      Some(last) if last.score.total_cmp(&score).is_eq() => {
        *last = Step { score, attacks, benign };
      }
      _ => steps.push(Step { score, attacks, benign }),
    }
  }
  debug_assert!(attacks + benign == n.n);
  steps
}

/// Trapezia, so that a tie counts half.
fn auc(points: &[Point], n: Share) -> Option<f64> {
  if n.k == 0 || n.k == n.n {
    return None;
  }
  let mut area = 0.0;
  let (mut x, mut y) = (0.0, 0.0);
  for point in points {
    area += (point.false_positives - x) * f64::midpoint(point.recall, y);
    (x, y) = (point.false_positives, point.recall);
  }
  Some(rounded(area))
}

fn at_budget(steps: &[Step], n: Share, budget: f64) -> AtBudget {
  let benign = n.n - n.k;
  let most = (benign as f64 * budget).floor() as u64;
  let best = steps.iter().rfind(|step| step.benign <= most);
  AtBudget {
    budget,
    score: best.map(|step| rounded(f64::from(step.score))),
    recall: Share { n: n.k, k: best.map_or(0, |step| step.attacks) },
  }
}

fn calibration(scores: &[(f32, bool)]) -> (Option<f64>, Option<f64>, Vec<Bin>) {
  let mut sums = [0.0_f64; BINS];
  let mut bins = [Bin::default(); BINS];
  let mut squares = 0.0;
  for &(score, is_attack) in scores {
    let score = f64::from(score).clamp(0.0, 1.0);
    let index = ((score * BINS as f64) as usize).min(BINS - 1);
    if let (Some(sum), Some(bin)) = (sums.get_mut(index), bins.get_mut(index)) {
      *sum += score;
      bin.attacks.add(is_attack);
    }
    squares += (score - f64::from(u8::from(is_attack))).powi(2);
  }
  let mut distance = 0.0;
  for (index, (bin, sum)) in bins.iter_mut().zip(sums).enumerate() {
    bin.from = rounded(index as f64 / BINS as f64);
    if let Some(rate) = bin.attacks.rate() {
      let mean = sum / bin.attacks.n as f64;
      bin.mean = Some(rounded(mean));
      distance += (mean - rate).abs() * bin.attacks.n as f64;
    }
  }
  let n = scores.len() as f64;
  let of_all = |sum: f64| (!scores.is_empty()).then(|| rounded(sum / n));
  (of_all(distance), of_all(squares), bins.to_vec())
}

/// The position of a rate on an axis of [`DECADES`] decades, from 0 to 1.
pub fn on_log_axis(rate: f64) -> f64 {
  if rate <= 0.0 { 0.0 } else { (1.0 + libm::log10(rate) / DECADES).clamp(0.0, 1.0) }
}

/// The points that are distinguishable in a drawing: a bounded number.
fn thinned(points: &[Point]) -> Vec<Point> {
  let mut kept: Vec<Point> = Vec::new();
  for (index, point) in points.iter().enumerate() {
    let moved = kept.last().is_none_or(|last| {
      point.recall - last.recall >= STEP
        || on_log_axis(point.false_positives) - on_log_axis(last.false_positives) >= STEP
    });
    if moved || index + 1 == points.len() {
      kept.push(*point);
    }
  }
  kept
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*};

  #[test]
  fn a_score_that_tells_apart_and_one_that_does_not() {
    let good = Curve::of(&[(0.9, true), (0.8, true), (0.2, false), (0.1, false)]);
    assert_eq!(good.auc, Some(1.0));
    assert_eq!(good.at[0].recall, Share { n: 2, k: 2 });
    assert_eq!(good.at[0].score, Some(0.8));
    let none = Curve::of(&[(0.5, true), (0.5, false), (0.5, false)]);
    assert_eq!((none.auc, none.points.len()), (Some(0.5), 1), "a tie counts half");
    assert_eq!((none.at[4].recall, none.at[4].score), (Share { n: 1, k: 0 }, None));
    let wrong = Curve::of(&[(0.1, true), (0.9, false)]);
    assert_eq!(wrong.auc, Some(0.0));
    assert_eq!(Curve::of(&[(0.1, true)]).auc, None);
    assert_eq!(Curve::of(&[]).ece, None);
  }

  /// By hand: six pairs right, one tied, out of eight.
  #[test]
  fn the_area_is_the_share_of_pairs_ranked_right() {
    let curve = Curve::of(&[
      (0.9, true),
      (0.4, true),
      (0.4, false),
      (0.7, false),
      (0.1, false),
      (0.0, false),
    ]);
    assert_eq!(curve.auc, Some(rounded((4.0 + 2.5) / 8.0)));
  }

  #[test]
  fn a_budget_is_kept() {
    let mut scores: Vec<(f32, bool)> = (0..200).map(|i| (i as f32 / 400.0, false)).collect();
    scores.extend([(0.9, true), (0.4975, true), (0.495, true), (0.1, true)]);
    let at = Curve::of(&scores).at;
    // One in 200 lies within 0.005; it has the score 0.4975.
    assert_eq!(at[2].recall, Share { n: 4, k: 2 });
    assert_eq!(at[1].recall, Share { n: 4, k: 1 });
  }

  #[test]
  fn a_calibrated_score_has_no_distance() {
    let mut scores = vec![(0.25, true), (0.25, false), (0.25, false), (0.25, false)];
    scores.extend([(0.75, true), (0.75, true), (0.75, true), (0.75, false)]);
    let curve = Curve::of(&scores);
    assert_eq!((curve.ece, curve.brier), (Some(0.0), Some(0.1875)));
    assert_eq!(curve.bins[2].attacks, Share { n: 4, k: 1 });
    assert_eq!(Curve::of(&[(1.0, false), (0.0, true)]).ece, Some(1.0));
  }

  proptest! {
    #[test]
    fn curves_rise_and_stay_small(scores in proptest::collection::vec((0_f32..=1.0, any::<bool>()), 0..2_000)) {
      let curve = Curve::of(&scores);
      prop_assert!(curve.points.len() <= 400);
      for pair in curve.points.windows(2) {
        prop_assert!(pair[0].score >= pair[1].score);
        prop_assert!(pair[0].recall <= pair[1].recall);
        prop_assert!(pair[0].false_positives <= pair[1].false_positives);
      }
      prop_assert!(curve.auc.is_none_or(|auc| (0.0..=1.0).contains(&auc)));
      prop_assert_eq!(curve.bins.iter().map(|bin| bin.attacks.n).sum::<u64>(), scores.len() as u64);
    }
  }
}
