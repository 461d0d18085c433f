//! What an evaluation says; its JSON form is a contract (docs/json.md).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
  curve::Curve,
  floors::Judged,
  latency::Latency,
  mistakes::{Mistake, Place},
  pairs::PairCounts,
  scenario::ScenarioReport,
  share::Counts,
};

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
  /// How it was measured.
  #[serde(flatten)]
  pub setup: Setup,
  /// How many lines there were.
  pub cases: Cases,
  /// Over all of them.
  pub all: Counts,
  /// By what the lines say of themselves.
  pub by: Groups,
  /// Attacks beside their twins.
  pub pairs: PairCounts,
  /// Entries with their origin; null where there is none.
  pub scenarios: Option<ScenarioReport>,
  /// What a judge was asked and said; not there where none took part.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub judge: Option<JudgeCounts>,
  /// Limits, and whether they hold.
  pub floors: Vec<Judged>,
  /// What the scores could do.
  pub curves: Vec<ScoreCurve>,
  /// How long it took.
  pub latency: Latencies,
  /// The worst mistakes.
  pub mistakes: Mistakes,
}

impl Report {
  /// Whether every limit holds; also where there is none.
  pub fn is_met(&self) -> bool {
    self.floors.iter().all(|floor| floor.met)
  }
}

/// What a judge was asked and said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JudgeCounts {
  /// Entries that were asked about, each once.
  pub asked: u64,
  /// Of them, those with an answer that counts.
  pub answered: u64,
  /// Those whose answer does not count, by why not.
  pub refused: BTreeMap<String, u64>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
  /// What was read.
  pub inputs: Vec<String>,
  /// The layers that were asked for.
  pub layers: &'static str,
  /// Whether a model took part.
  pub model: bool,
  /// The trust that was set for all lines; null where each line has its own, or `untrusted`.
  pub trust: Option<&'static str>,
  /// The source that was set for all lines; null where each line has its own, or `unknown`.
  pub source: Option<String>,
  /// How cautious the policy was.
  pub sensitivity: &'static str,
}

/// How many lines there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cases {
  /// Lines of label 1.
  pub attacks: u64,
  /// Lines of label 0.
  pub benign: u64,
  /// Lines that could not be read.
  pub bad: u64,
  /// The first of them.
  pub bad_lines: Vec<BadLine>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
  /// Where it stands.
  #[serde(flatten)]
  pub place: Place,
  /// Why, in words of ours.
  pub why: String,
}

/// The lines of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
  /// The name.
  pub name: String,
  /// What was found of them.
  #[serde(flatten)]
  pub counts: Counts,
}

/// The lines by what they say of themselves, each sorted by name. A line that says nothing is in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Groups {
  /// By set.
  pub set: Vec<Group>,
  /// By kind.
  pub kind: Vec<Group>,
  /// By form.
  pub form: Vec<Group>,
  /// By language.
  pub lang: Vec<Group>,
  /// By the trust that they were judged with.
  pub trust: Vec<Group>,
  /// By the way in which they were hidden.
  pub transform: Vec<Group>,
}

impl Groups {
  /// All tables with the word that they are about.
  pub fn tables(&self) -> [(&'static str, &[Group]); 6] {
    [
      ("set", &self.set),
      ("kind", &self.kind),
      ("form", &self.form),
      ("lang", &self.lang),
      ("trust", &self.trust),
      ("transform", &self.transform),
    ]
  }
}

/// A score and its curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreCurve {
  /// `decision` is the score that `scan` answers, `model` the model's probability.
  pub score: &'static str,
  /// What it could do.
  #[serde(flatten)]
  pub curve: Curve,
}

/// How long it took, measured while all cores work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
  /// Normaliser, rules and policy, a text.
  pub rules: Option<Latency>,
  /// The model, a text.
  pub model: Option<Latency>,
  /// All lines together, reading included, in seconds.
  pub took_s: f64,
  /// Lines a second.
  pub cases_per_s: f64,
}

/// The worst mistakes. Their texts are hostile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mistakes {
  /// Attacks that were not found, the lowest scores first.
  pub missed: Vec<Mistake>,
  /// Harmless lines that were flagged, the highest scores first.
  pub false_alarms: Vec<Mistake>,
}
