//! What is decided, case by case.

use super::*;
use crate::detect::{
  Layer,
  effects::{Effect, Strength},
};

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
  assert_eq!(verdict(Signature, Severity::Medium, &at(Trust::Hostile, false)), Verdict::Quarantine);
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

fn assessed(injection: f32, poison: f32) -> Assessment {
  let probabilities = Probabilities { injection, poison };
  let nearest = Some(crate::detect::model::Nearest { name: "a swap".into(), likeness: 0.5 });
  let depth = crate::detect::model::Depth::Encoder;
  Assessment { probabilities, authority: None, sentence: Some(3..9), nearest, depth }
}

fn by_model(poison: f32, further: &[Finding], input: &PolicyInput<'_>) -> Decision {
  let assessment = assessed(0.01, poison);
  let input = PolicyInput { probabilities: assessment.probabilities, ..*input };
  let mut all = likely(&assessment, 0..20, &input);
  all.extend_from_slice(further);
  decide(&all, &input)
}

#[test]
fn the_model_alone_flags_by_the_threshold_of_the_trust() {
  for threshold in THRESHOLDS {
    let Threshold { trust, encoder: Limits { flag, quarantine }, .. } = threshold;
    let input = PolicyInput { trust, ..Default::default() };
    assert_eq!(by_model(flag - 0.01, &[], &input).verdict, Verdict::Pass, "{trust}");
    assert_eq!(by_model(flag, &[], &input).verdict, Verdict::Flag, "{trust}");
    assert_eq!(by_model(0.999, &[], &input).verdict, Verdict::Flag, "{trust}");
    assert!(quarantine.is_none_or(|quarantine| quarantine > flag));
  }
  for depth in [Depth::Heads, Depth::Encoder] {
    let flags: Vec<f32> = THRESHOLDS.iter().map(|one| one.at(depth).flag).collect();
    assert!(flags.is_sorted_by(|a, b| a > b), "less trust, lower threshold");
    assert!(flags.iter().all(|flag| *flag > NOTABLE), "the encoder reads all that the heads flag");
  }
}

#[test]
fn the_model_and_other_evidence_quarantine() {
  let unseen = PolicyInput::default();
  let seen = PolicyInput { source_observed: true, ..unseen };
  let of_untrusted = THRESHOLDS.iter().find(|one| one.trust == Trust::Untrusted).unwrap();
  let second = of_untrusted.encoder.quarantine.unwrap();
  assert_eq!(by_model(second, &[], &seen).verdict, Verdict::Quarantine);
  assert_eq!(by_model(second - 0.01, &[], &seen).verdict, Verdict::Flag);
  let endpoint =
    Finding { code: Code::ExfiltrationEndpoint, ..finding(RuleKind::Trigger, Severity::Low) };
  assert_eq!(by_model(0.96, std::slice::from_ref(&endpoint), &unseen).verdict, Verdict::Quarantine);
  let mention = Finding { severity: Severity::Info, ..endpoint.clone() };
  assert_eq!(by_model(0.96, &[mention], &unseen).verdict, Verdict::Flag);
  let trusted = PolicyInput { trust: Trust::Trusted, ..seen };
  assert_eq!(by_model(1.0, &[endpoint], &trusted).verdict, Verdict::Flag);
  let baseline = PolicyInput { baseline: true, trust: Trust::Verified, ..seen };
  assert_eq!(by_model(1.0, &[], &baseline).verdict, Verdict::Flag);
}

#[test]
fn sensitivity_moves_the_odds_by_three() {
  let moved = |probability: f32, by: f32| 1.0 - 1.0 / (1.0 + odds(probability) * by);
  assert!((moved(0.75, 3.0) - 0.9).abs() < 1e-6 && (moved(0.75, 1.0 / 3.0) - 0.5).abs() < 1e-6);
  let of_untrusted = THRESHOLDS.iter().find(|one| one.trust == Trust::Untrusted).unwrap();
  let flag = of_untrusted.encoder.flag;
  let low = PolicyInput { sensitivity: Sensitivity::Low, ..Default::default() };
  assert_eq!(by_model(moved(flag, 2.9), &[], &low).verdict, Verdict::Pass);
  assert_eq!(by_model(moved(flag, 3.1), &[], &low).verdict, Verdict::Flag);
  let high = PolicyInput { sensitivity: Sensitivity::High, ..Default::default() };
  assert_eq!(by_model(moved(flag, 0.35), &[], &high).verdict, Verdict::Flag);
}

#[test]
fn the_model_says_how_sure_it_is_and_what_it_is_reminded_of() {
  let found = likely(&assessed(0.1, 0.912), 0..20, &PolicyInput::default());
  let [one] = found.as_slice() else { panic!("{found:?}") };
  assert_eq!((one.code, one.span.clone()), (Code::LikelyPoison, 3..9));
  let why = "the model classifies it as poison in the form of memory, probability 0.91; \
    the nearest known attack: a swap";
  assert_eq!(one.why, why);
  let decision = by_model(0.912, &[], &PolicyInput::default());
  assert!((decision.score - 0.912).abs() < 1e-6);
}

#[test]
fn the_encoder_reads_what_is_little_trusted_or_notable() {
  let heads = |poison| Probabilities { injection: 0.0, poison };
  assert!(wants_encoder(Trust::Untrusted, heads(0.0)) && wants_encoder(Trust::Hostile, heads(0.0)));
  assert!(!wants_encoder(Trust::Verified, heads(NOTABLE - 0.01)));
  assert!(wants_encoder(Trust::Trusted, heads(NOTABLE)));
}

#[test]
fn what_comes_from_outside_goes_by_the_models_word_where_both_outputs_agree() {
  let word = Finding { layer: Layer::Model, ..finding(RuleKind::Trigger, Severity::High) };
  let action = |party, authority| {
    let input = PolicyInput { party, authority, source_observed: true, ..PolicyInput::default() };
    decide(std::slice::from_ref(&word), &input).action
  };
  for (party, least) in [(Party::Asked, 0.5), (Party::Outside, 0.3), (Party::Hostile, 0.12)] {
    assert_eq!(action(party, Some(least + 0.01)), Action::Quarantine, "{party}");
    assert_eq!(action(party, Some(least - 0.01)), Action::Annotate, "{party}");
    assert_eq!(action(party, None), Action::Quarantine, "{party}: nobody was asked");
  }
}

#[test]
fn what_nobody_is_known_to_have_written_is_reported_where_the_model_suspects_it() {
  let effect = |strength| {
    let why = "it asks for secrecy".into();
    FoundEffect {
      effect: Effect::Secrecy,
      strength,
      span: 0..9,
      slots: vec![],
      why,
      is_unasked: false,
    }
  };
  let told = |strength, poison, read| {
    let probabilities = Probabilities { injection: 0.0, poison };
    let input = PolicyInput { probabilities, read, ..PolicyInput::default() };
    !usurped(&[effect(strength)], 0..20, &input).is_empty()
  };
  assert!(told(Strength::Blatant, 0.51, true) && !told(Strength::Blatant, 0.49, true));
  assert!(told(Strength::Blatant, 0.63, false) && !told(Strength::Blatant, 0.61, false));
  assert!(!told(Strength::Plain, 0.99, true));
}

#[test]
fn disguised_words_from_outside_go_with_what_they_would_do() {
  let found = |effect, strength| {
    [FoundEffect {
      effect,
      span: 0..9,
      strength,
      slots: vec![],
      why: String::new(),
      is_unasked: false,
    }]
  };
  let hidden = Finding {
    code: Code::ZeroWidth,
    layer: Layer::Rules,
    severity: Severity::Low,
    kind: RuleKind::Trigger,
    span: 0..3,
    why: String::new(),
    rule: None,
  };
  let sends = found(Effect::Disclosure, Strength::Plain);
  let named = found(Effect::Disclosure, Strength::Weak);
  let action = |effects: &[FoundEffect], party| {
    let input = PolicyInput { party, effects, ..PolicyInput::default() };
    decide(std::slice::from_ref(&hidden), &input).action
  };
  for party in [Party::Asked, Party::Outside, Party::Hostile] {
    assert_eq!(action(&sends, party), Action::Hold, "{party}");
    assert_eq!(action(&named, party), Action::Annotate, "{party}");
    assert_eq!(action(&[], party), Action::Annotate, "{party}");
  }
  assert_eq!(action(&sends, Party::Unknown), Action::Annotate);
  assert_eq!(action(&sends, Party::Owner), Action::Keep);
}

#[test]
fn words_round_trip() {
  for verdict in Verdict::ALL {
    assert_eq!(verdict.as_str().parse(), Ok(*verdict));
  }
  assert!("maybe".parse::<Sensitivity>().is_err());
}

#[test]
fn the_encoder_overrules_triggers_of_memfw_and_nothing_else() {
  use std::sync::Arc;

  use crate::detect::RuleName;

  let named = |file: &str, code, kind, severity| Finding {
    code,
    rule: Some(Arc::new(RuleName { id: "a".to_owned(), file: file.to_owned() })),
    ..finding(kind, severity)
  };
  let ours = |severity| named("rules/memory.toml", Code::Concealment, RuleKind::Trigger, severity);
  let at = |poison, read| PolicyInput {
    probabilities: Probabilities { injection: 0.0, poison },
    read,
    ..PolicyInput::default()
  };
  let verdict = |finding: &Finding, input: &PolicyInput<'_>| {
    decide(std::slice::from_ref(finding), input).verdict
  };
  let unlikely = at(0.1, true);
  let trigger = ours(Severity::Medium);
  assert_eq!(verdict(&trigger, &unlikely), Verdict::Pass);
  assert!(decide(std::slice::from_ref(&trigger), &unlikely).score < 0.1);
  assert_eq!(verdict(&trigger, &at(0.1, false)), Verdict::Flag, "the heads' word is not enough");
  assert_eq!(verdict(&trigger, &at(0.12, true)), Verdict::Flag);
  let high = PolicyInput { sensitivity: Sensitivity::High, ..unlikely };
  assert_eq!(verdict(&trigger, &high), Verdict::Flag);
  for stays in [
    ours(Severity::High),
    named("rules/memory.toml", Code::Concealment, RuleKind::Signature, Severity::Medium),
    named("rules/memory.toml", Code::EncodedInstruction, RuleKind::Trigger, Severity::Low),
    named("rules.d/mine.toml", Code::Concealment, RuleKind::Trigger, Severity::Low),
    finding(RuleKind::Trigger, Severity::Low),
  ] {
    assert_eq!(verdict(&stays, &unlikely), Verdict::Flag, "{stays:?}");
  }
}

#[test]
fn who_disguises_a_text_from_outside_is_taken_for_an_adversary() {
  let mut disguised = finding(RuleKind::Trigger, Severity::Info);
  disguised.code = Code::DisguisedText;
  let found = [disguised];
  let others = [Party::Owner, Party::Agent, Party::Asked, Party::Unknown, Party::Hostile];
  assert!(others.iter().all(|party| party.with(&found) == *party));
  assert_eq!(Party::Outside.with(&[]), Party::Outside);
  let goes = |party: Party| {
    let input = PolicyInput { party, authority: Some(0.3), read: true, ..Default::default() };
    let findings = usurped(&[], 0..1, &input);
    decide(&findings, &input).leaves()
  };
  assert!(!goes(Party::Outside));
  assert!(goes(Party::Outside.with(&found)));
}
