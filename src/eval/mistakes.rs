//! The worst mistakes: attacks that passed with the lowest scores, and harmless lines that did not
//! with the highest.
//!
//! Texts are cut and not made safe for a terminal: who prints them does that.
#![forbid(unsafe_code)]

use serde::Serialize;

use super::{case::Case, share::rounded};

/// Longest text of a mistake, in characters: enough to know the line again.
const MAX_TEXT: usize = 300;

/// Where a line stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
  /// The file.
  pub file: String,
  /// The line, from 1.
  pub line: u64,
}

/// One line that was taken for what it is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mistake {
  /// Where it stands.
  #[serde(flatten)]
  pub place: Place,
  /// Its set.
  pub set: String,
  /// Its kind.
  pub kind: String,
  /// Its language.
  pub lang: String,
  /// How sure detection was that it is an attack.
  pub score: f64,
  /// What was found in it.
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

/// The few worst of many, in order; of equal ones those that came first.
#[derive(Debug)]
pub struct Worst {
  most: usize,
  highest: bool,
  kept: Vec<Mistake>,
}

impl Worst {
  /// Keeps so many, those of the highest scores or of the lowest.
  pub fn new(most: usize, highest: bool) -> Self {
    Self { most, highest, kept: Vec::new() }
  }

  /// Looks at one more, which is made only if it is among the worst.
  pub fn offer(&mut self, score: f32, mistake: impl FnOnce() -> Mistake) {
    let rounded = rounded(f64::from(score));
    let is_before = |kept: &Mistake| {
      let order = kept.score.total_cmp(&rounded);
      if self.highest { order.is_ge() } else { order.is_le() }
    };
    let at = self.kept.partition_point(is_before);
    if at < self.most {
      self.kept.insert(at, mistake());
      self.kept.truncate(self.most);
    }
  }

  /// What was kept, the worst first.
  pub fn into_kept(self) -> Vec<Mistake> {
    self.kept
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn kept(highest: bool, scores: &[f32]) -> Vec<(f64, u64)> {
    let case = Case::parse(br#"{"text":"x","label":1}"#, "s").unwrap();
    let mut worst = Worst::new(3, highest);
    for (line, &score) in (1..).zip(scores) {
      let place = Place { file: "f".to_owned(), line };
      worst.offer(score, || Mistake::new(place, &case, score, vec![]));
    }
    worst.into_kept().into_iter().map(|mistake| (mistake.score, mistake.place.line)).collect()
  }

  #[test]
  fn the_worst_are_kept_in_order() {
    let scores = [0.25, 0.5, 0.0, 0.5, 0.75, 0.0];
    assert_eq!(kept(true, &scores), [(0.75, 5), (0.5, 2), (0.5, 4)]);
    assert_eq!(kept(false, &scores), [(0.0, 3), (0.0, 6), (0.25, 1)]);
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
