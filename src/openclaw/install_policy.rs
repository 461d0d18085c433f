//! The questions that OpenClaw asks a command of its owner before it installs or updates a skill or a plugin
//! (`security.installPolicy`, 2026.9.6: docs/tools/skills-config.md, `src/security/install-policy.ts`).
//!
//! OpenClaw refuses the installation unless the answer is complete, so whatever cannot be read is no permission.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde_json::{Value, json};

/// The version of the questions and answers.
const VERSION: u64 = 1;
/// The most findings of an answer (a choice): OpenClaw refuses a warning that has more than 4,000 characters as shown.
const MAX_FINDINGS: usize = 10;

/// What is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
  /// A skill in this directory.
  Skill(PathBuf),
  /// A skill that is no directory, or a question in another form.
  Unreadable,
  /// A plugin.
  Other,
}

/// What may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
  /// It may be installed.
  Allow,
  /// The owner is asked, and why.
  Warn(String),
  /// It may not be installed, and why.
  Block(String),
}

/// One finding in a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFinding {
  /// The code.
  pub code: &'static str,
  /// Whether it alone forbids the installation.
  pub is_critical: bool,
  /// What it says, in memfw's words.
  pub why: String,
  /// The file, without control characters.
  pub file: String,
  /// The line.
  pub line: usize,
}

/// Reads a question; any bytes are answered.
pub fn asked(bytes: &[u8]) -> Asked {
  let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Asked::Unreadable };
  let word = |key: &str| value.get(key).and_then(Value::as_str);
  if value.get("protocolVersion").and_then(Value::as_u64) != Some(VERSION) {
    return Asked::Unreadable;
  }
  match (word("targetType"), word("sourcePathKind"), word("sourcePath")) {
    (Some("skill"), Some("directory"), Some(path)) if path.starts_with('/') => {
      Asked::Skill(PathBuf::from(path))
    }
    (Some("plugin"), ..) => Asked::Other,
    _ => Asked::Unreadable,
  }
}

/// The answer in OpenClaw's form.
pub fn answer(decided: &Decided, findings: &[PolicyFinding]) -> Value {
  let (decision, reason) = match decided {
    Decided::Allow => ("allow", None),
    Decided::Warn(why) => ("warn", Some(why)),
    Decided::Block(why) => ("block", Some(why)),
  };
  let findings = findings.iter().take(MAX_FINDINGS).map(|one| {
    json!({
      "ruleId": one.code,
      "severity": if one.is_critical { "critical" } else { "warn" },
      "message": one.why,
      "file": one.file,
      "line": one.line,
    })
  });
  let mut answer = json!({
    "protocolVersion": VERSION,
    "decision": decision,
    "findings": findings.collect::<Vec<_>>(),
  });
  if let (Some(object), Some(reason)) = (answer.as_object_mut(), reason) {
    object.insert("reason".to_owned(), reason.as_str().into());
  }
  answer
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[test]
  fn only_a_directory_of_a_skill_is_checked() {
    let ask = |change: fn(&mut Value)| {
      let mut question = json!({ "protocolVersion": 1, "targetType": "skill", "targetName": "weather",
        "sourcePath": "/tmp/staged", "sourcePathKind": "directory", "request": { "mode": "install" } });
      change(&mut question);
      asked(question.to_string().as_bytes())
    };
    assert_eq!(ask(|_| ()), Asked::Skill("/tmp/staged".into()));
    assert_eq!(ask(|question| question["targetType"] = "plugin".into()), Asked::Other);
    for change in [
      (|question| question["sourcePathKind"] = "file".into()) as fn(&mut Value),
      |question| question["sourcePath"] = "relative".into(),
      |question| question["sourcePath"] = 7.into(),
      |question| question["protocolVersion"] = 2.into(),
      |question| question["targetType"] = Value::Null,
      |question| question["targetType"] = "Skill".into(),
    ] {
      assert_eq!(ask(change), Asked::Unreadable);
    }
  }

  #[test]
  fn an_answer_has_what_openclaw_demands() {
    let finding = PolicyFinding {
      code: "concealment",
      is_critical: true,
      why: "something is hidden".to_owned(),
      file: "SKILL.md".to_owned(),
      line: 3,
    };
    let many = vec![finding; 11];
    let block = answer(&Decided::Block("poison".to_owned()), &many);
    assert_eq!((&block["decision"], &block["reason"]), (&"block".into(), &"poison".into()));
    assert_eq!(
      (&block["protocolVersion"], block["findings"].as_array().unwrap().len()),
      (&1.into(), 10)
    );
    assert_eq!(block["findings"][0]["severity"], "critical");
    let allow = answer(&Decided::Allow, &[]);
    assert_eq!((&allow["decision"], allow.get("reason")), (&"allow".into(), None));
  }

  proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
      prop_assert_eq!(asked(&bytes), Asked::Unreadable);
    }
  }
}
