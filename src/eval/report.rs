//! The report of an evaluation; its JSON form is a contract (docs/json.md).
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

/// The whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
  /// The settings of the measurement.
  #[serde(flatten)]
  pub setup: Setup,
  /// The numbers of lines.
  pub cases: Cases,
  /// The results over all lines.
  pub all: Counts,
  /// The results by the fields of the lines.
  pub by: Groups,
  /// The results on pairs.
  pub pairs: PairCounts,
  /// The results on entries with an origin; null if there are none.
  pub scenarios: Option<ScenarioReport>,
  /// The judge's questions and answers; omitted if no judge was used.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub judge: Option<JudgeCounts>,
  /// The limits, and whether they are met.
  pub floors: Vec<Judged>,
  /// The curves of the scores.
  pub curves: Vec<ScoreCurve>,
  /// How long the judgements took, by percentile.
  pub latency: Latencies,
  /// The worst mistakes.
  pub mistakes: Mistakes,
}

impl Report {
  /// Whether every limit is met; also true without limits.
  pub fn is_met(&self) -> bool {
    self.floors.iter().all(|floor| floor.met)
  }
}

/// The judge's questions and answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JudgeCounts {
  /// Entries that a judge is asked about, each once.
  pub asked: u64,
  /// Entries with an accepted answer.
  pub answered: u64,
  /// The number of rejected answers, by reason.
  pub refused: BTreeMap<String, u64>,
}

/// The settings of the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
  /// The paths of the files, as they were given.
  pub inputs: Vec<String>,
  /// The selected layers.
  pub layers: &'static str,
  /// Whether a model was used.
  pub model: bool,
  /// The trust that was set for all lines; null if each line has its own, or `untrusted`.
  pub trust: Option<&'static str>,
  /// The source that was set for all lines; null if each line has its own, or `unknown`.
  pub source: Option<String>,
  /// The sensitivity of the policy.
  pub sensitivity: &'static str,
}

/// The numbers of lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cases {
  /// Lines of label 1.
  pub attacks: u64,
  /// Lines of label 0.
  pub benign: u64,
  /// Unreadable lines.
  pub bad: u64,
  /// The first unreadable lines.
  pub bad_lines: Vec<BadLine>,
}

/// An unreadable line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
  /// The file and line of the case.
  #[serde(flatten)]
  pub place: Place,
  /// The reason, in memfw's words.
  pub why: String,
}

/// The lines of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
  /// The value by which the cases are grouped.
  pub name: String,
  /// The results on these lines.
  #[serde(flatten)]
  pub counts: Counts,
}

/// The results by the fields of the lines, each sorted by name. A line without a field is in none
/// of its rows.
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
  /// By the trust with which they were judged.
  pub trust: Vec<Group>,
  /// By the way in which they were hidden or encoded.
  pub transform: Vec<Group>,
}

impl Groups {
  /// All tables with their names.
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
  /// `decision` is the score of `scan`, `model` the model's probability.
  pub score: &'static str,
  /// What it could do.
  #[serde(flatten)]
  pub curve: Curve,
}

/// The latencies, measured while all cores are busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
  /// Normaliser, rules and policy, per text.
  pub rules: Option<Latency>,
  /// The model, per text.
  pub model: Option<Latency>,
  /// All lines together, including reading, in seconds.
  pub took_s: f64,
  /// Lines per second.
  pub cases_per_s: f64,
}

/// The worst mistakes. Their texts are hostile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mistakes {
  /// Missed attacks, the lowest scores first.
  pub missed: Vec<Mistake>,
  /// Harmless lines that were flagged, the highest scores first.
  pub false_alarms: Vec<Mistake>,
}
