//! One thing that a layer saw in a text.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::Arc};

use serde::{Deserialize, Serialize};

use super::Code;

/// The layer that saw it.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  Serialize,
  Deserialize,
  strum::Display,
  strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Layer {
  /// The normaliser or a rule.
  Rules,
  /// The effects of the text, and who has a right to them.
  Effects,
  /// The embedded model.
  Model,
  /// The optional judge.
  Judge,
}

impl Layer {
  /// The word used in JSON and logs.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// How bad it would be if it were meant.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  Serialize,
  Deserialize,
  strum::Display,
  strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
  /// Worth knowing.
  Info,
  /// Could be part of something.
  Low,
  /// Steers the agent.
  Medium,
  /// Harms the user.
  High,
  /// Harms the user and hides it, or takes the agent over.
  Critical,
}

impl Severity {
  /// The word used in rules, JSON and logs.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// Whether a finding may decide alone.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  Serialize,
  Deserialize,
  strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum RuleKind {
  /// Only asks for a closer look.
  Trigger,
  /// May quarantine alone.
  Signature,
}

impl RuleKind {
  /// The word used in rules and JSON.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// What a rule is called, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleName {
  /// Unique in the rule set.
  pub id: String,
  /// `rules/NAME.toml` for a file that is built in, `rules.d/NAME.toml` for a user's.
  pub file: String,
}

impl RuleName {
  /// Whether it is one of memfw's own.
  pub fn is_built_in(&self) -> bool {
    self.file.starts_with("rules/")
  }

  /// What people read: the file is only of use where they can edit it.
  pub fn shown(&self) -> String {
    if self.is_built_in() { self.id.clone() } else { format!("{} in {}", self.id, self.file) }
  }
}

/// One thing seen in a text. The `span` is in bytes of the judged input, so that it can be shown,
/// masked or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FindingRecord", into = "FindingRecord")]
pub struct Finding {
  /// What it is: a heading in docs/findings.md.
  pub code: Code,
  /// Who saw it.
  pub layer: Layer,
  /// How bad.
  pub severity: Severity,
  /// Whether it may decide alone.
  pub kind: RuleKind,
  /// Where, in bytes of the judged input.
  pub span: Range<usize>,
  /// Why this is a finding, in memfw's plain words, never the text's.
  pub why: String,
  /// The rule that saw it; `None` where something else did.
  pub rule: Option<Arc<RuleName>>,
}

impl Finding {
  /// This finding with its span relative to `start`, within a text of `len` bytes.
  #[must_use]
  pub fn within(&self, start: usize, len: usize) -> Self {
    let relative = |at: usize| at.saturating_sub(start).min(len);
    Self { span: relative(self.span.start)..relative(self.span.end), ..self.clone() }
  }
}

/// Findings as the ledger keeps them: an array in JSON, like that of `scan --json` and `quarantine show --json`.
/// They are read only where a person asks for them. They never have text of the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptFindings(String);

impl KeptFindings {
  /// These findings.
  pub fn new(findings: &[Finding]) -> Self {
    Self(serde_json::to_string(findings).unwrap_or_default())
  }

  /// The findings in a part of a file that begins at `start` and has `len` bytes, with spans relative to it.
  pub fn within(findings: &[Finding], start: usize, len: usize) -> Self {
    let within: Vec<Finding> = findings.iter().map(|finding| finding.within(start, len)).collect();
    Self::new(&within)
  }

  /// The findings of such an array.
  pub const fn from_json(json: String) -> Self {
    Self(json)
  }

  /// The array; the empty text if nothing was ever kept.
  pub fn as_json(&self) -> &str {
    &self.0
  }

  /// Whether nothing was ever kept.
  pub const fn is_empty(&self) -> bool {
    self.0.is_empty()
  }

  /// The findings, without those that this version cannot read.
  pub fn read(&self) -> Vec<Finding> {
    let list: Vec<serde_json::Value> = serde_json::from_str(&self.0).unwrap_or_default();
    list.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
  }
}

/// A finding in JSON.
#[derive(Serialize, Deserialize)]
struct FindingRecord {
  code: Code,
  layer: Layer,
  severity: Severity,
  kind: RuleKind,
  start: usize,
  end: usize,
  #[serde(default)]
  why: String,
  #[serde(default)]
  rule: Option<String>,
  #[serde(default)]
  rule_file: Option<String>,
}

impl From<Finding> for FindingRecord {
  fn from(finding: Finding) -> Self {
    let Finding { code, layer, severity, kind, span, why, rule } = finding;
    let (rule, rule_file) = rule.map(|rule| (rule.id.clone(), rule.file.clone())).unzip();
    Self { code, layer, severity, kind, start: span.start, end: span.end, why, rule, rule_file }
  }
}

impl From<FindingRecord> for Finding {
  fn from(record: FindingRecord) -> Self {
    let FindingRecord { code, layer, severity, kind, start, end, why, rule, rule_file } = record;
    let rule = rule.zip(rule_file).map(|(id, file)| Arc::new(RuleName { id, file }));
    Self { code, layer, severity, kind, span: start..end, why, rule }
  }
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::*;

  fn record() -> serde_json::Value {
    json!({
      "code": "concealment", "layer": "rules", "severity": "high", "kind": "signature",
      "start": 3, "end": 9, "why": "it hides", "rule": "hide-1", "rule_file": "rules/a.toml",
    })
  }

  #[test]
  fn a_finding_is_read_back_and_decides_alone() {
    let found = KeptFindings::from_json(json!([record()]).to_string()).read();
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.code, finding.span.clone()), (Code::Concealment, 3..9));
    assert_eq!(finding.rule.as_ref().map(|rule| rule.file.as_str()), Some("rules/a.toml"));
    assert_eq!(KeptFindings::new(&found).read(), found);
    assert_eq!(finding.within(5, 2).span, 0..2);
  }

  #[test]
  fn findings_of_every_layer_severity_and_kind_come_back() {
    for layer in [Layer::Rules, Layer::Effects, Layer::Model, Layer::Judge] {
      let mut record = record();
      record["layer"] = json!(layer.as_str());
      let found = KeptFindings::from_json(json!([record]).to_string()).read();
      assert_eq!(found.first().map(|finding| finding.layer), Some(layer));
      assert_eq!(serde_json::to_value(&found[0]).unwrap()["layer"], layer.as_str());
    }
    for severity in
      [Severity::Info, Severity::Low, Severity::Medium, Severity::High, Severity::Critical]
    {
      assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
    }
    for kind in [RuleKind::Trigger, RuleKind::Signature] {
      assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
  }

  #[test]
  fn what_cannot_be_read_is_left_out() {
    assert_eq!(KeptFindings::from_json("[{}, [1], 7]".to_owned()).read(), []);
    assert_eq!(KeptFindings::from_json("no JSON".to_owned()).read(), []);
    for key in ["code", "layer", "severity", "kind", "start", "end"] {
      let mut broken = record();
      broken[key] = json!("nonsense");
      let found = KeptFindings::from_json(json!([broken, record()]).to_string()).read();
      assert_eq!(found.len(), 1, "{key}");
    }
  }
}
