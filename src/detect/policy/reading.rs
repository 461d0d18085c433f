//! What follows from the answer of a model that reads (layer 3): the answer may take text out, and
//! releases only text that is held because of a probability alone, where the configuration allows
//! that.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{Outcome, Party, PolicyInput, decide, power};
use crate::detect::{
  Code, Finding, Layer, RuleKind, Severity,
  effects::{Effect, Novelty},
  reading::{Reading, Ruling},
};

/// From which probability on a text from outside is asked about that has no effect and no finding: a choice, far
/// below every threshold, because questions have a budget.
pub const ASK_FROM: f32 = 0.05;

/// Codes of text that is hidden or kept from the owner: a text with one of them is not released.
const NEVER_RELEASED: &[Code] = &[
  Code::EncodedText,
  Code::CovertChannel,
  Code::Concealment,
  Code::MixedScript,
  Code::ForeignSecrecy,
];

/// The finding that follows from an answer about a text of this party; `all` is the span of the
/// whole text.
pub fn ruled(reading: &Reading, all: Range<usize>, input: &PolicyInput<'_>) -> Option<Finding> {
  if reading.ruling == Ruling::Keep || input.party.has_all_powers() {
    return None;
  }
  // If the origin is unknown, one opinion is not enough to take a text out.
  let severity = if input.party == Party::Unknown { Severity::Medium } else { Severity::High };
  let what = reading.effect.map_or("something that has to go", Effect::as_str);
  let why = format!("a model that read it with its source takes it for {what}");
  let (code, layer, kind) = (Code::JudgedHarmful, Layer::Judge, RuleKind::Trigger);
  Some(Finding { code, layer, severity, kind, span: all, why, rule: None })
}

/// Whether a judge model is asked about the text: it comes from outside, some evidence is against
/// it, and an answer could change the outcome. For text that leaves its file without an answer, the
/// model is asked only where an answer could release the text.
pub fn wants_reading(findings: &[Finding], all: Range<usize>, input: &PolicyInput<'_>) -> bool {
  if input.party.has_all_powers() || input.baseline {
    return false;
  }
  let probability = input.probabilities.most().max(input.authority.unwrap_or_default());
  let is_suspect = !input.effects.is_empty()
    || probability >= ASK_FROM
    || findings.iter().any(|finding| finding.severity > Severity::Info);
  let would = |ruling| {
    let reading = Reading { ruling, effect: None, quote: String::new(), lines: None };
    let input = PolicyInput { reading: Some(&reading), ..*input };
    let mut findings = findings.to_vec();
    findings.extend(ruled(&reading, all.clone(), &input));
    decide(&findings, &input).action
  };
  is_suspect && {
    let now = decide(findings, &PolicyInput { reading: None, ..*input });
    let may_change = input.may_release || !now.leaves();
    may_change && (would(Ruling::Take) != now.action || would(Ruling::Keep) != now.action)
  }
}

/// A text from outside is held; with evidence of another kind it is quarantined. A text of unknown
/// origin is held only with such evidence.
pub(super) fn outcome(finding: &Finding, counted: &[&Finding], input: &PolicyInput<'_>) -> Outcome {
  let is_backed = power::is_backed(finding, counted, input);
  match (finding.severity >= Severity::High, is_backed) {
    (true, true) => Outcome::Quarantine,
    (true, false) | (false, true) => Outcome::Hold,
    (false, false) => Outcome::Flag,
  }
}

/// Whether the answer cancels the outcome of a finding.
pub(super) fn is_released(
  finding: &Finding,
  counted: &[&Finding],
  input: &PolicyInput<'_>,
) -> bool {
  let is_kept = input.reading.is_some_and(|reading| reading.ruling == Ruling::Keep);
  if !input.may_release || !is_kept || !power::rests_on_probability(finding, input) {
    return false;
  }
  let stands = |other: &&Finding| {
    other.kind == RuleKind::Signature && other.severity >= Severity::Medium
      || power::OUT_OF_SIGHT.contains(&other.code)
      || NEVER_RELEASED.contains(&other.code)
  };
  let is_barred = input
    .effects
    .iter()
    .any(|found| found.effect == Effect::Secrecy || found.novelty() == Some(Novelty::Contradicts));
  !is_barred && !counted.iter().any(stands)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::{
    Action,
    effects::{FoundEffect, Slot, SlotKind, Strength},
    model::Probabilities,
    policy::usurped,
  };

  fn reading(ruling: Ruling) -> Reading {
    Reading { ruling, effect: Some(Effect::Payment), quote: "x".to_owned(), lines: None }
  }

  fn effect(effect: Effect, strength: Strength, novelty: Option<Novelty>) -> FoundEffect {
    let slot = |novelty| Slot { kind: SlotKind::Iban, span: 0..1, value: "x".to_owned(), novelty };
    let slots = novelty.map(slot).into_iter().collect();
    FoundEffect {
      effect,
      span: 0..9,
      strength,
      slots,
      why: "it says so".to_owned(),
      is_unasked: false,
    }
  }

  fn action(input: &PolicyInput<'_>, more: &[Finding]) -> Action {
    let mut findings = usurped(input.effects, 0..9, input);
    findings.extend(input.reading.and_then(|reading| ruled(reading, 0..9, input)));
    findings.extend_from_slice(more);
    decide(&findings, input).action
  }

  fn hidden(code: Code, kind: RuleKind) -> Finding {
    let severity = Severity::Medium;
    Finding {
      code,
      layer: Layer::Rules,
      severity,
      kind,
      span: 0..1,
      why: String::new(),
      rule: None,
    }
  }

  #[test]
  fn a_text_from_outside_is_held_where_a_reader_takes_it() {
    let take = reading(Ruling::Take);
    let of = |party| PolicyInput { party, reading: Some(&take), ..PolicyInput::default() };
    for (party, expected) in [
      (Party::Owner, Action::Keep),
      (Party::Agent, Action::Keep),
      (Party::Asked, Action::Hold),
      (Party::Unknown, Action::Annotate),
      (Party::Outside, Action::Hold),
      (Party::Hostile, Action::Hold),
    ] {
      assert_eq!(action(&of(party), &[]), expected, "{party}");
    }
    let second = [hidden(Code::ExfiltrationEndpoint, RuleKind::Trigger)];
    assert_eq!(action(&of(Party::Outside), &second), Action::Quarantine);
    assert_eq!(action(&of(Party::Unknown), &second), Action::Hold);
    let found = [effect(Effect::Command, Strength::Blatant, None)];
    let with_effect = PolicyInput { effects: &found, ..of(Party::Outside) };
    assert_eq!(action(&with_effect, &[]), Action::Quarantine);
    let off = PolicyInput { hold: super::super::Hold::Off, ..of(Party::Outside) };
    assert_eq!(action(&off, &[]), Action::Annotate);
  }

  #[test]
  fn only_what_a_probability_alone_has_held_is_released() {
    let keep = reading(Ruling::Keep);
    let plain = [effect(Effect::Payment, Strength::Plain, Some(Novelty::New))];
    let base = PolicyInput {
      party: Party::Outside,
      effects: &plain,
      authority: Some(0.9),
      reading: Some(&keep),
      may_release: true,
      ..PolicyInput::default()
    };
    assert_eq!(action(&base, &[]), Action::Keep);
    assert_eq!(action(&PolicyInput { may_release: false, ..base }, &[]), Action::Hold);
    assert_eq!(action(&PolicyInput { reading: None, ..base }, &[]), Action::Hold);
    for stays in [
      effect(Effect::Payment, Strength::Plain, Some(Novelty::Contradicts)),
      effect(Effect::Secrecy, Strength::Plain, None),
      effect(Effect::Command, Strength::Blatant, None),
    ] {
      let found = [stays, plain[0].clone()];
      let input = PolicyInput { effects: &found, ..base };
      assert!(matches!(action(&input, &[]), Action::Hold | Action::Quarantine), "{found:?}");
    }
    for (code, kind) in [
      (Code::HiddenCss, RuleKind::Trigger),
      (Code::Concealment, RuleKind::Trigger),
      (Code::RemoteExecution, RuleKind::Signature),
    ] {
      let left = action(&base, &[hidden(code, kind)]);
      assert!(matches!(left, Action::Hold | Action::Quarantine), "{code}");
    }
  }

  #[test]
  fn nobody_is_asked_where_no_answer_changes_anything() {
    let wants =
      |input: &PolicyInput<'_>, findings: &[Finding]| wants_reading(findings, 0..9, input);
    let found = [effect(Effect::Contact, Strength::Weak, None)];
    let outside = PolicyInput { party: Party::Outside, effects: &found, ..PolicyInput::default() };
    assert!(wants(&outside, &[]));
    assert!(!wants(&PolicyInput { effects: &[], ..outside }, &[]), "nothing speaks against it");
    let probabilities = Probabilities { injection: 0.0, poison: ASK_FROM };
    assert!(wants(&PolicyInput { effects: &[], probabilities, ..outside }, &[]));
    assert!(wants(&PolicyInput { effects: &[], authority: Some(0.2), ..outside }, &[]));
    for party in [Party::Owner, Party::Agent] {
      assert!(!wants(&PolicyInput { party, ..outside }, &[]), "{party}");
    }
    assert!(!wants(&PolicyInput { baseline: true, ..outside }, &[]));
    let runs = [effect(Effect::Command, Strength::Blatant, None)];
    let held = PolicyInput { effects: &runs, ..outside };
    let why = usurped(&runs, 0..9, &held);
    assert_eq!(action(&held, &[]), Action::Hold);
    assert!(!wants(&held, &why), "nothing could bring it back");
    assert!(wants(&PolicyInput { may_release: true, ..held }, &why));
    let mut signature = hidden(Code::RemoteExecution, RuleKind::Signature);
    signature.severity = Severity::Critical;
    assert!(!wants(&PolicyInput { may_release: true, ..outside }, &[signature]), "it is out");
  }
}
