//! The findings of an item, read back from the ledger.
#![forbid(unsafe_code)]

use std::ops::Range;

use serde_json::Value;

use crate::{
  detect::{Code, Decision, Finding, Layer, PolicyInput, RuleKind, Severity, policy},
  store::Item,
};

/// A finding as the ledger stores it: in memfw's words, with its place in the bytes of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFinding {
  /// The finding code.
  pub code: Code,
  /// The layer that reported the finding.
  pub layer: Layer,
  /// The severity.
  pub severity: Severity,
  /// Whether the finding may decide alone.
  pub kind: RuleKind,
  /// Where, in bytes of the item.
  pub span: Range<usize>,
  /// Why it is a finding, in plain words.
  pub why: String,
  /// The rule that reported the finding, and the file of the rule.
  pub rule: Option<(String, String)>,
}

impl StoredFinding {
  /// What policy would decide if this were the only finding.
  pub fn alone(&self, input: &PolicyInput<'_>) -> Decision {
    let finding = Finding {
      code: self.code,
      layer: self.layer,
      severity: self.severity,
      kind: self.kind,
      span: self.span.clone(),
      why: self.why.clone(),
      rule: None,
    };
    policy::decide(&[finding], input)
  }
}

/// The findings of an item; unreadable ones are left out.
pub fn told(item: &Item) -> Vec<StoredFinding> {
  let list: Vec<Value> = serde_json::from_str(&item.findings_json).unwrap_or_default();
  list.iter().filter_map(one).collect()
}

/// The findings that count for the item: the ledger also has excused ones, which do not.
pub fn counted(item: &Item) -> Vec<StoredFinding> {
  let mut found = told(item);
  found.retain(|one| item.codes.contains(&one.code));
  found
}

fn one(value: &Value) -> Option<StoredFinding> {
  let word = |key: &str| value.get(key).and_then(Value::as_str);
  let number = |key: &str| value.get(key).and_then(Value::as_u64).map(|number| number as usize);
  let layers = [Layer::Rules, Layer::Model, Layer::Context, Layer::Judge];
  let severities =
    [Severity::Info, Severity::Low, Severity::Medium, Severity::High, Severity::Critical];
  Some(StoredFinding {
    code: word("code")?.parse().ok()?,
    layer: layers.into_iter().find(|one| word("layer") == Some(one.as_str()))?,
    severity: severities.into_iter().find(|one| word("severity") == Some(one.as_str()))?,
    kind: [RuleKind::Trigger, RuleKind::Signature]
      .into_iter()
      .find(|one| word("kind") == Some(one.as_str()))?,
    span: number("start")?..number("end")?,
    why: word("why").unwrap_or_default().to_owned(),
    rule: word("rule").zip(word("rule_file")).map(|(id, file)| (id.to_owned(), file.to_owned())),
  })
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::*;
  use crate::detect::Verdict;

  fn finding() -> Value {
    json!({
      "code": "concealment", "layer": "rules", "severity": "high", "kind": "signature",
      "start": 3, "end": 9, "why": "it hides", "rule": "hide-1", "rule_file": "rules/a.toml",
    })
  }

  #[test]
  fn a_finding_is_read_back_and_says_what_it_would_do_alone() {
    let found = one(&finding()).unwrap();
    assert_eq!((found.code, found.span.clone()), (Code::Concealment, 3..9));
    assert_eq!(found.rule, Some(("hide-1".to_owned(), "rules/a.toml".to_owned())));
    assert_eq!(found.alone(&PolicyInput::default()).verdict, Verdict::Quarantine);
  }

  #[test]
  fn what_cannot_be_read_is_none() {
    assert!(one(&json!({})).is_none() && one(&json!([1])).is_none());
    for key in ["code", "layer", "severity", "kind", "start", "end"] {
      let mut broken = finding();
      broken[key] = json!("nonsense");
      assert!(one(&broken).is_none(), "{key}");
    }
  }
}
