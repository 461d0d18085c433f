//! Limits that detection must not fall below, for selected lines, from a TOML file.
//!
//! ```toml
//! [[floor]]
//! name = "memory poison, English"
//! where = { set = ["written_dev"], lang = ["en"] }
//! not = { kind = ["hard_benign"] }
//! recall = 0.85          # at least
//! false_positives = 0.08 # at most
//! pairs = 0.9            # ranked right, at least
//! out = 0.75             # of the attacks, those taken out of memory, at least
//! lost = 0.04            # of harmless text, what is taken out of memory, at most
//! ```
//!
//! Invariant: a floor that matches no line is missed, so no floor is met because its lines are
//! gone.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{
  case::Case,
  share::{Counts, Share},
};
use crate::provenance::Trust;

/// Largest number of floors in a file: a bound on work.
const MAX_FLOORS: usize = 512;

/// Why the floors cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FloorError {
  /// The TOML is invalid.
  #[error("{0}")]
  Syntax(String),
  /// A limit is not a share.
  #[error("floor `{0}`: expected limits from 0 to 1, and at least one of them")]
  Limits(String),
  /// There are too many floors.
  #[error("more than {MAX_FLOORS} floors")]
  TooMany,
}

/// Selected lines and their limits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
  /// The name of the floor, for the report.
  pub name: String,
  /// Conditions that a line must meet.
  #[serde(default, rename = "where")]
  chosen: Choice,
  /// Conditions that a line must not meet.
  #[serde(default)]
  not: Choice,
  recall: Option<f64>,
  false_positives: Option<f64>,
  pairs: Option<f64>,
  out: Option<f64>,
  lost: Option<f64>,
}

/// The measurements of the lines of a floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
  /// Attacks that were found and harmless lines that were flagged.
  pub counts: Counts,
  /// Pairs that were ranked right.
  pub pairs: Share,
  /// The share of attacks that are taken out of memory.
  pub out: Share,
  /// The share of harmless lines that are taken out of memory.
  pub lost: Share,
}

impl Measured {
  /// One more line.
  pub fn add(&mut self, is_attack: bool, found: bool, leaves: bool) {
    self.counts.add(is_attack, found);
    let share = if is_attack { &mut self.out } else { &mut self.lost };
    share.add(leaves);
  }
}

/// Allowed words for each name of a line; an empty list allows any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Choice {
  set: Vec<String>,
  kind: Vec<String>,
  form: Vec<String>,
  lang: Vec<String>,
  transform: Vec<String>,
  trust: Vec<String>,
}

impl Choice {
  fn names<'a>(&'a self, case: &'a Case, trust: Trust) -> [(&'a [String], &'a str); 6] {
    [
      (&self.set, &case.set),
      (&self.kind, &case.kind),
      (&self.form, &case.form),
      (&self.lang, &case.lang),
      (&self.transform, &case.transform),
      (&self.trust, trust.as_str()),
    ]
  }
}

impl Floor {
  /// Whether the floor applies to this line.
  pub fn is_about(&self, case: &Case, trust: Trust) -> bool {
    let has = |words: &[String], name: &str| words.iter().any(|word| word == name);
    self.chosen.names(case, trust).iter().all(|(words, name)| words.is_empty() || has(words, name))
      && !self.not.names(case, trust).iter().any(|(words, name)| has(words, name))
  }

  /// Compares its limits with the measurements.
  pub fn judged(&self, measured: &Measured) -> Vec<Judged> {
    let Measured { counts, pairs, out, lost } = *measured;
    let judged = |measure, limit: Option<f64>, share: Share, at_least: bool| {
      let limit = limit?;
      let met =
        share.rate().is_some_and(|rate| if at_least { rate >= limit } else { rate <= limit });
      Some(Judged { name: self.name.clone(), measure, limit, share, met })
    };
    [
      judged("recall", self.recall, counts.recall, true),
      judged("false_positives", self.false_positives, counts.false_positives, false),
      judged("pairs", self.pairs, pairs, true),
      judged("out", self.out, out, true),
      judged("lost", self.lost, lost, false),
    ]
    .into_iter()
    .flatten()
    .collect()
  }
}

/// One limit and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
  /// The name of the floor.
  pub name: String,
  /// `recall`, `pairs` (ranked right) and `out` are at least the limit, `false_positives` and `lost` at most.
  pub measure: &'static str,
  /// The lowest or highest share that passes, 0 to 1.
  pub limit: f64,
  /// What was measured.
  #[serde(flatten)]
  pub share: Share,
  /// Whether the limit is met; never without a line.
  pub met: bool,
}

/// All floors of a file.
#[derive(Clone, Debug, Default)]
pub struct Floors {
  /// In the order of the file.
  pub list: Vec<Floor>,
}

impl Floors {
  /// Reads a file of floors.
  pub fn parse(text: &str) -> Result<Self, FloorError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
      #[serde(default)]
      floor: Vec<Floor>,
    }
    let File { floor: list } =
      toml::from_str(text).map_err(|error| FloorError::Syntax(error.to_string()))?;
    if list.len() > MAX_FLOORS {
      return Err(FloorError::TooMany);
    }
    for floor in &list {
      let limits: Vec<f64> =
        [floor.recall, floor.false_positives, floor.pairs, floor.out, floor.lost]
          .into_iter()
          .flatten()
          .collect();
      if limits.is_empty() || !limits.iter().all(|limit| (0.0..=1.0).contains(limit)) {
        return Err(FloorError::Limits(floor.name.clone()));
      }
    }
    Ok(Self { list })
  }

  /// The indices of the floors that apply to a line.
  pub fn about(&self, case: &Case, trust: Trust) -> Vec<usize> {
    let floors = self.list.iter().enumerate();
    floors.filter(|(_, floor)| floor.is_about(case, trust)).map(|(index, _)| index).collect()
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn case(set: &str, lang: &str, kind: &str) -> Case {
    let line = format!(r#"{{"text":"x","label":1,"set":"{set}","lang":"{lang}","kind":"{kind}"}}"#);
    Case::parse(line.as_bytes(), "file").unwrap()
  }

  #[test]
  fn a_floor_is_about_the_lines_that_it_names() {
    let floors = Floors::parse(
      r#"
      [[floor]]
      name = "all"
      recall = 0.5
      [[floor]]
      name = "others"
      where = { set = ["a", "b"], trust = ["untrusted"] }
      not = { lang = ["en"], kind = ["twin"] }
      recall = 0.5
      "#,
    )
    .unwrap();
    let about = |set, lang, kind, trust| floors.about(&case(set, lang, kind), trust);
    assert_eq!(about("a", "de", "x", Trust::Untrusted), [0, 1]);
    assert_eq!(about("b", "de", "x", Trust::Untrusted), [0, 1]);
    assert_eq!(about("c", "de", "x", Trust::Untrusted), [0]);
    assert_eq!(about("a", "en", "x", Trust::Untrusted), [0]);
    assert_eq!(about("a", "de", "twin", Trust::Untrusted), [0]);
    assert_eq!(about("a", "de", "x", Trust::Hostile), [0]);
  }

  #[test]
  fn limits_are_held_and_nothing_is_met_by_no_line() {
    let floors =
      Floors::parse("[[floor]]\nname = \"x\"\nrecall = 0.5\nfalse_positives = 0.1\npairs = 1.0\nout = 0.5\nlost = 0.1\n")
        .unwrap();
    let met = |recall, alarms, pairs| -> Vec<bool> {
      let counts = Counts { recall, false_positives: alarms };
      let measured = Measured { counts, pairs, out: recall, lost: alarms };
      floors.list[0].judged(&measured).iter().map(|one| one.met).collect()
    };
    let of = |k, n| Share { n, k };
    assert_eq!(met(of(1, 2), of(1, 10), of(3, 3)), [true; 5]);
    assert_eq!(met(of(49, 100), of(11, 100), of(2, 3)), [false; 5]);
    assert_eq!(met(of(0, 0), of(0, 0), of(0, 0)), [false; 5]);
  }

  #[test]
  fn a_bad_file_is_reported() {
    for (text, expected) in [
      ("[[floor]]\nname = \"x\"", "at least one"),
      ("[[floor]]\nname = \"x\"\nrecall = 1.5", "from 0 to 1"),
      ("[[floor]]\nname = \"x\"\nrecal = 0.5", "recal"),
      ("[[floor]]\nname = \"x\"\nrecall = 0.5\nwhere = { sets = [] }", "sets"),
      ("[[flor]]", "flor"),
    ] {
      let error = Floors::parse(text).unwrap_err().to_string();
      assert!(error.contains(expected), "{error}");
    }
    let many = "[[floor]]\nname = \"x\"\nrecall = 0.5\n".repeat(MAX_FLOORS + 1);
    assert_eq!(Floors::parse(&many).unwrap_err(), FloorError::TooMany);
  }
}
