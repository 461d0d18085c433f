//! An attack and its harmless twin, which differs from the attack as little as possible.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde::Serialize;

use super::share::Share;

/// Results on attacks and their twins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PairCounts {
  /// The share of pairs in which the attack has the higher score: the model's, or the decision's if
  /// no model was used.
  pub right: Share,
  /// The share of pairs with equal scores; the remaining pairs are ranked wrong.
  pub tied: Share,
  /// The share of pairs in which the attack was found and the twin was not flagged.
  pub told_apart: Share,
  /// The share of flagged twins.
  pub twins_flagged: Share,
}

/// One line of a pair.
#[derive(Clone, Copy, Debug)]
struct Half {
  score: f32,
  found: bool,
}

/// The halves seen so far. Of several attacks or twins with one name the first counts.
#[derive(Debug, Default)]
pub struct Pairs {
  halves: HashMap<(usize, String), Pair>,
}

#[derive(Debug, Default)]
struct Pair {
  attack: Option<Half>,
  twin: Option<Half>,
  /// Floors that apply to the attack.
  floors: Vec<usize>,
}

impl Pairs {
  /// Adds a line; pairs of different files are different.
  pub fn add(
    &mut self,
    place: (usize, String),
    is_attack: bool,
    score: f32,
    found: bool,
    floors: &[usize],
  ) {
    let pair = self.halves.entry(place).or_default();
    let half = if is_attack { &mut pair.attack } else { &mut pair.twin };
    if half.is_none() {
      *half = Some(Half { score, found });
      if is_attack {
        pair.floors = floors.to_vec();
      }
    }
  }

  /// All pairs that have both halves.
  pub fn counts(&self) -> PairCounts {
    self.counts_where(|_| true)
  }

  /// The pairs whose attack a floor applies to.
  pub fn counts_of(&self, floor: usize) -> PairCounts {
    self.counts_where(|pair| pair.floors.contains(&floor))
  }

  fn counts_where(&self, wanted: impl Fn(&Pair) -> bool) -> PairCounts {
    let mut counts = PairCounts::default();
    for pair in self.halves.values().filter(|pair| wanted(pair)) {
      let (Some(attack), Some(twin)) = (pair.attack, pair.twin) else { continue };
      let order = attack.score.total_cmp(&twin.score);
      counts.right.add(order.is_gt());
      counts.tied.add(order.is_eq());
      counts.told_apart.add(attack.found && !twin.found);
      counts.twins_flagged.add(twin.found);
    }
    counts
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn pairs_are_counted_once_and_only_when_whole() {
    let mut pairs = Pairs::default();
    let mut add = |file, name: &str, attack, score, found| {
      let floors: &[usize] = if name == "a" { &[3] } else { &[] };
      pairs.add((file, name.to_owned()), attack, score, found, floors);
    };
    add(0, "a", true, 0.9, true);
    add(0, "a", false, 0.1, false);
    add(0, "b", false, 0.5, true);
    add(0, "b", true, 0.5, true);
    add(0, "b", true, 0.9, true);
    add(0, "c", true, 0.2, false);
    add(1, "c", false, 0.2, false);
    add(1, "a", true, 0.0, false);
    add(1, "a", false, 0.3, true);
    let counts = pairs.counts();
    assert_eq!(counts.right, Share { n: 3, k: 1 });
    assert_eq!(counts.tied, Share { n: 3, k: 1 });
    assert_eq!(counts.told_apart, Share { n: 3, k: 1 });
    assert_eq!(counts.twins_flagged, Share { n: 3, k: 2 });
    assert_eq!(pairs.counts_of(3).right, Share { n: 2, k: 1 });
    assert_eq!(pairs.counts_of(1), PairCounts::default());
  }
}
