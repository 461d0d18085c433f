//! The one place that decides. Pure: findings and facts in, a decision out.
//!
//! | findings | verdict |
//! |---|---|
//! | a signature of severity high or critical | quarantine; from a `trusted` source only a critical one, else flag |
//! | a signature of severity medium | flag; quarantine from a `hostile` source, or from an `untrusted` one that was observed |
//! | a trigger of severity low or higher | flag; from a `trusted` source from medium on |
//! | triggers of severity info (any address, any command, any secret named) | pass; two families of them in one sentence are a `trigger-combination` of severity low, which the rules report |
//! | anything in a text that was there before memfw | at most flag, unless `baseline.action = "quarantine"` |
//! | anything in a file of instructions | at most flag, unless the file is one of `files.quarantine`; triggers in what was there before memfw from medium on, for such files are full of them |
//! | a code that a person excused for this text | as if it were not there |
//!
//! `sensitivity` moves the two thresholds by one step of severity: `high` flags nothing less and
//! lets a medium signature quarantine from any source but a trusted one; `low` flags only from
//! medium on and quarantines `verified` sources only for critical signatures.
#![forbid(unsafe_code)]

use super::{Code, Finding, RuleKind, Severity, rules::words};
use crate::provenance::Trust;

/// What is thought of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
  /// Nothing to say.
  Pass,
  /// Stays, marked.
  Flag,
  /// Goes.
  Quarantine,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
  /// It stays as it is.
  Keep,
  /// It stays, its marker says why.
  Annotate,
  /// It stays without its dangerous spans.
  Mask,
  /// It goes, sealed.
  Quarantine,
  /// It goes because of policy, not because of its content, and waits for a person.
  Hold,
}

/// How cautious the installation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Sensitivity {
  /// Fewer interruptions.
  Low,
  /// As measured and published.
  #[default]
  Medium,
  /// Fewer misses.
  High,
}

/// What happens to findings in text that was there before memfw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum BaselineAction {
  /// They are announced; the file stays as it is.
  #[default]
  Flag,
  /// They are treated like new text.
  Quarantine,
}

words!(
  Verdict,
  "verdict",
  "`pass`, `flag` or `quarantine`",
  Pass = "pass",
  Flag = "flag",
  Quarantine = "quarantine",
);
words!(
  Action,
  "action",
  "`keep`, `annotate`, `mask`, `quarantine` or `hold`",
  Keep = "keep",
  Annotate = "annotate",
  Mask = "mask",
  Quarantine = "quarantine",
  Hold = "hold",
);
words!(
  Sensitivity,
  "sensitivity",
  "`low`, `medium` or `high`",
  Low = "low",
  Medium = "medium",
  High = "high",
);
words!(
  BaselineAction,
  "baseline action",
  "`flag` or `quarantine`",
  Flag = "flag",
  Quarantine = "quarantine",
);

/// Facts about the text that the text itself cannot change.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
  /// How far its source is trusted.
  pub trust: Trust,
  /// Whether the source was seen in the agent framework's records, not merely assumed.
  pub source_observed: bool,
  /// How cautious the installation is.
  pub sensitivity: Sensitivity,
  /// Whether the text was there before memfw.
  pub baseline: bool,
  /// What happens to findings in such text.
  pub baseline_action: BaselineAction,
  /// Whether it stands in a file of instructions, which are only reported on.
  pub instructions: bool,
  /// Codes that a person excused for this text.
  pub excused: &'a [Code],
}

impl Default for PolicyInput<'_> {
  /// What is known of a new block while nothing is known: untrusted, not observed.
  fn default() -> Self {
    Self {
      trust: Trust::Untrusted,
      source_observed: false,
      sensitivity: Sensitivity::Medium,
      baseline: false,
      baseline_action: BaselineAction::Flag,
      instructions: false,
      excused: &[],
    }
  }
}

impl PolicyInput<'_> {
  /// One step higher for what comes into a file of instructions: it rules every turn.
  fn sensitivity_here(&self) -> Sensitivity {
    match (self.instructions && !self.baseline, self.sensitivity) {
      (false, sensitivity) => sensitivity,
      (true, Sensitivity::Low) => Sensitivity::Medium,
      (true, Sensitivity::Medium | Sensitivity::High) => Sensitivity::High,
    }
  }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
  /// What is thought of the text.
  pub verdict: Verdict,
  /// What is done with it.
  pub action: Action,
  /// How sure, from 0 to 1; grows with every finding.
  pub score: f32,
  /// The codes of all findings that were not excused, sorted, each once.
  pub codes: Vec<Code>,
}

/// Decides.
pub fn decide(findings: &[Finding], input: &PolicyInput<'_>) -> Decision {
  let counted: Vec<&Finding> =
    findings.iter().filter(|finding| !input.excused.contains(&finding.code)).collect();
  let mut codes: Vec<Code> = counted.iter().map(|finding| finding.code).collect();
  codes.sort_unstable();
  codes.dedup();
  let worst =
    counted.iter().map(|finding| verdict_of(finding, input)).max().unwrap_or(Verdict::Pass);
  let spared =
    input.instructions || input.baseline && input.baseline_action == BaselineAction::Flag;
  let verdict = if spared { worst.min(Verdict::Flag) } else { worst };
  let action = match verdict {
    Verdict::Pass => Action::Keep,
    Verdict::Flag => Action::Annotate,
    Verdict::Quarantine => Action::Quarantine,
  };
  Decision { verdict, action, score: score(&codes, &counted), codes }
}

fn verdict_of(finding: &Finding, input: &PolicyInput<'_>) -> Verdict {
  let sensitivity = input.sensitivity_here();
  let quarantines = finding.kind == RuleKind::Signature && {
    let medium = match input.trust {
      Trust::Hostile => true,
      Trust::Untrusted => input.source_observed || sensitivity == Sensitivity::High,
      Trust::Verified => sensitivity == Sensitivity::High,
      Trust::Trusted => false,
    };
    let least = match (medium, input.trust, sensitivity) {
      (true, _, _) => Severity::Medium,
      (false, Trust::Trusted, _) | (false, Trust::Verified, Sensitivity::Low) => Severity::Critical,
      (false, _, _) => Severity::High,
    };
    finding.severity >= least
  };
  if quarantines {
    return Verdict::Quarantine;
  }
  let by_nature = input.instructions && input.baseline;
  let least = if input.trust == Trust::Trusted || sensitivity == Sensitivity::Low || by_nature {
    Severity::Medium
  } else {
    Severity::Low
  };
  if finding.severity >= least { Verdict::Flag } else { Verdict::Pass }
}

/// Each code counts once, with its worst finding, as independent evidence.
fn score(codes: &[Code], findings: &[&Finding]) -> f32 {
  let doubt: f32 = codes
    .iter()
    .map(|code| {
      let weight = findings
        .iter()
        .filter(|finding| finding.code == *code)
        .map(|finding| weight(finding))
        .fold(0.0, f32::max);
      1.0 - weight
    })
    .product();
  (1.0 - doubt).clamp(0.0, 1.0)
}

/// Ordered so that a signature outweighs any single trigger; not probabilities.
fn weight(finding: &Finding) -> f32 {
  match (finding.kind, finding.severity) {
    (RuleKind::Signature, Severity::Critical) => 0.98,
    (RuleKind::Signature, Severity::High) => 0.92,
    (RuleKind::Signature, _) => 0.75,
    (RuleKind::Trigger, Severity::Critical | Severity::High) => 0.6,
    (RuleKind::Trigger, Severity::Medium) => 0.45,
    (RuleKind::Trigger, Severity::Low) => 0.25,
    (RuleKind::Trigger, Severity::Info) => 0.05,
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::Layer;

  fn finding(kind: RuleKind, severity: Severity) -> Finding {
    Finding {
      code: Code::Concealment,
      layer: Layer::Rules,
      severity,
      kind,
      span: 0..1,
      why: String::new(),
      rule: None,
    }
  }

  fn verdict(kind: RuleKind, severity: Severity, input: &PolicyInput<'_>) -> Verdict {
    decide(&[finding(kind, severity)], input).verdict
  }

  #[test]
  fn signatures_decide_and_triggers_flag() {
    use RuleKind::{Signature, Trigger};
    let input = PolicyInput::default();
    assert_eq!(verdict(Signature, Severity::Critical, &input), Verdict::Quarantine);
    assert_eq!(verdict(Signature, Severity::High, &input), Verdict::Quarantine);
    assert_eq!(verdict(Signature, Severity::Medium, &input), Verdict::Flag);
    assert_eq!(verdict(Trigger, Severity::Critical, &input), Verdict::Flag);
    assert_eq!(verdict(Trigger, Severity::Low, &input), Verdict::Flag);
    assert_eq!(verdict(Trigger, Severity::Info, &input), Verdict::Pass);
  }

  #[test]
  fn trust_and_observation_move_the_threshold() {
    use RuleKind::Signature;
    let at = |trust, source_observed| PolicyInput { trust, source_observed, ..Default::default() };
    assert_eq!(
      verdict(Signature, Severity::Medium, &at(Trust::Hostile, false)),
      Verdict::Quarantine
    );
    assert_eq!(
      verdict(Signature, Severity::Medium, &at(Trust::Untrusted, true)),
      Verdict::Quarantine
    );
    assert_eq!(verdict(Signature, Severity::High, &at(Trust::Verified, true)), Verdict::Quarantine);
    assert_eq!(verdict(Signature, Severity::High, &at(Trust::Trusted, true)), Verdict::Flag);
    assert_eq!(
      verdict(Signature, Severity::Critical, &at(Trust::Trusted, true)),
      Verdict::Quarantine
    );
  }

  #[test]
  fn baseline_text_stays_unless_asked() {
    let found = [finding(RuleKind::Signature, Severity::Critical)];
    let mut input = PolicyInput { baseline: true, ..Default::default() };
    assert_eq!(decide(&found, &input).action, Action::Annotate);
    input.baseline_action = BaselineAction::Quarantine;
    assert_eq!(decide(&found, &input).action, Action::Quarantine);
  }

  #[test]
  fn instructions_are_reported_on_and_never_taken_out() {
    use RuleKind::{Signature, Trigger};
    let fresh = PolicyInput { instructions: true, ..Default::default() };
    assert_eq!(verdict(Signature, Severity::Critical, &fresh), Verdict::Flag);
    assert_eq!(verdict(Trigger, Severity::Low, &fresh), Verdict::Flag);
    let low = PolicyInput { sensitivity: Sensitivity::Low, ..fresh };
    assert_eq!(verdict(Trigger, Severity::Low, &low), Verdict::Flag);
    let before = PolicyInput { baseline: true, ..fresh };
    assert_eq!(verdict(Trigger, Severity::Low, &before), Verdict::Pass);
    assert_eq!(verdict(Trigger, Severity::Medium, &before), Verdict::Flag);
    let asked = PolicyInput { baseline_action: BaselineAction::Quarantine, ..before };
    assert_eq!(verdict(Signature, Severity::Critical, &asked), Verdict::Flag);
  }

  #[test]
  fn an_excused_code_does_not_count() {
    let found = [finding(RuleKind::Signature, Severity::Critical)];
    let input = PolicyInput { excused: &[Code::Concealment], ..Default::default() };
    let decision = decide(&found, &input);
    assert_eq!(decision.verdict, Verdict::Pass);
    assert!(decision.codes.is_empty() && decision.score == 0.0);
  }

  #[test]
  fn more_evidence_never_lowers_verdict_or_score() {
    let mut found = vec![finding(RuleKind::Trigger, Severity::Low)];
    let one = decide(&found, &PolicyInput::default());
    found.push(Finding { code: Code::PaymentSwap, ..finding(RuleKind::Signature, Severity::High) });
    let two = decide(&found, &PolicyInput::default());
    assert!(two.score > one.score && two.verdict > one.verdict);
    assert_eq!(two.codes.len(), 2);
  }

  #[test]
  fn words_round_trip() {
    for verdict in Verdict::ALL {
      assert_eq!(verdict.as_str().parse(), Ok(*verdict));
    }
    assert!("maybe".parse::<Sensitivity>().is_err());
  }
}
