//! The worst mistakes: missed attacks with the lowest scores, and flagged harmless lines with the
//! highest.
//!
//! Texts are truncated but not escaped for a terminal: the code that prints them escapes them.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use serde::Serialize;

use super::{case::Case, share::rounded};

/// Longest text of a mistake, in characters: enough to recognise the line.
const MAX_TEXT: usize = 300;

/// The place of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
  /// The file of the line, as it was given.
  pub file: String,
  /// The line, from 1.
  pub line: u64,
}

/// One misclassified line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mistake {
  /// The file and line of the case.
  #[serde(flatten)]
  pub place: Place,
  /// The `set` of the line.
  pub set: String,
  /// The `kind` of the line.
  pub kind: String,
  /// Its language.
  pub lang: String,
  /// The score of the decision, 0 to 1.
  pub score: f64,
  /// The finding codes.
  pub codes: Vec<&'static str>,
  /// Its beginning.
  pub text: String,
}

impl Mistake {
  /// A mistake about a case.
  pub fn new(place: Place, case: &Case, score: f32, codes: Vec<&'static str>) -> Self {
    let mut text: String = case.text.chars().take(MAX_TEXT).collect();
    if text.len() < case.text.len() {
      text.push('…');
    }
    Self {
      place,
      set: case.set.clone(),
      kind: case.kind.clone(),
      lang: case.lang.clone(),
      score: rounded(f64::from(score)),
      codes,
      text,
    }
  }
}

/// Largest number of kinds that are counted separately; more than any real data has.
const MAX_KINDS: usize = 1_000;

/// The worst few of many, in order. Among equal scores the first of each kind come first, because
/// rules give many lines an equal score, and mistakes of different kinds are more informative.
#[derive(Debug)]
pub struct Worst {
  most: usize,
  highest: bool,
  kept: Vec<(usize, Mistake)>,
  seen: HashMap<String, usize>,
}

impl Worst {
  /// Keeps `n` mistakes, those with the highest scores or with the lowest.
  pub fn new(most: usize, highest: bool) -> Self {
    Self { most, highest, kept: Vec::new(), seen: HashMap::new() }
  }

  /// Considers one more mistake, which is built only if it is among the worst.
  pub fn offer(&mut self, case: &Case, score: f32, mistake: impl FnOnce() -> Mistake) {
    let nth = self.nth(case);
    let score = rounded(f64::from(score));
    let at = self.kept.partition_point(|(kept_nth, kept)| {
      let order = kept.score.total_cmp(&score);
      let order = if self.highest { order.reverse() } else { order };
      order.then(kept_nth.cmp(&nth)).is_le()
    });
    if at < self.most {
      self.kept.insert(at, (nth, mistake()));
      self.kept.truncate(self.most);
    }
  }

  /// How many earlier mistakes have its kind.
  fn nth(&mut self, case: &Case) -> usize {
    let kind = format!("{} {}", case.set, case.kind);
    let kind = if self.seen.len() < MAX_KINDS { kind } else { String::new() };
    let seen = self.seen.entry(kind).or_default();
    *seen += 1;
    *seen - 1
  }

  /// The kept mistakes, the worst first.
  pub fn into_kept(self) -> Vec<Mistake> {
    self.kept.into_iter().map(|(_, mistake)| mistake).collect()
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn kept(highest: bool, scores: &[(f32, &str)]) -> Vec<(f64, u64)> {
    let mut worst = Worst::new(3, highest);
    for (line, (score, kind)) in (1..).zip(scores) {
      let case = format!(r#"{{"text":"x","label":1,"kind":"{kind}"}}"#);
      let case = Case::parse(case.as_bytes(), "s").unwrap();
      let place = Place { file: "f".to_owned(), line };
      worst.offer(&case, *score, || Mistake::new(place, &case, *score, vec![]));
    }
    worst.into_kept().into_iter().map(|mistake| (mistake.score, mistake.place.line)).collect()
  }

  #[test]
  fn the_worst_are_kept_in_order() {
    let scores = [(0.25, "a"), (0.5, "a"), (0.0, "a"), (0.5, "a"), (0.75, "a"), (0.0, "a")];
    assert_eq!(kept(true, &scores), [(0.75, 5), (0.5, 2), (0.5, 4)]);
    assert_eq!(kept(false, &scores), [(0.0, 3), (0.0, 6), (0.25, 1)]);
  }

  #[test]
  fn equal_ones_are_of_many_kinds() {
    let scores = [(0.0, "a"), (0.0, "a"), (0.0, "a"), (0.0, "b"), (0.5, "c")];
    assert_eq!(kept(false, &scores), [(0.0, 1), (0.0, 4), (0.0, 2)]);
  }

  #[test]
  fn long_texts_are_cut_between_characters() {
    let line = format!(r#"{{"text":"{}","label":1}}"#, "ä".repeat(1_000));
    let case = Case::parse(line.as_bytes(), "s").unwrap();
    let mistake = Mistake::new(Place { file: String::new(), line: 1 }, &case, 0.0, vec![]);
    assert_eq!(mistake.text.chars().count(), MAX_TEXT + 1);
    assert!(mistake.text.ends_with('…'));
  }
}
