//! The one place that decides. Pure: findings and facts in, a decision out.
//!
//! | findings | verdict |
//! |---|---|
//! | a signature of severity high or critical | quarantine; from a `trusted` source only a critical one, else flag |
//! | a signature of severity medium | flag; quarantine from a `hostile` source, or from an `untrusted` one that was observed |
//! | a trigger of severity low or higher | flag; from a `trusted` source from medium on; one of memfw's rules up to medium passes where the encoder has read the text and finds both kinds unlikely ([`UNLIKELY`]) |
//! | triggers of severity info (any address, any command, any secret named) | pass; two families of them in one sentence are a `trigger-combination` of severity low, which the rules report |
//! | the model's probability over the threshold for the trust of the source ([`THRESHOLDS`]) | flag; over the second threshold and with evidence of another kind, quarantine |
//! | anything in a text that was there before memfw | at most flag, unless `baseline.action = "quarantine"` |
//! | anything in a file of instructions | at most flag, unless the file is one of `files.quarantine`; triggers in what was there before memfw from medium on, for such files are full of them |
//! | an effect that the party behind the text has no right to ([`power`]), of severity high | hold; quarantine where there is evidence of another kind |
//! | such an effect of severity low | flag |
//! | disguised words from outside beside an effect of the kinds that go whatever the model says | hold |
//! | a model that reads ([`reading`]) says that a text from outside has to go | hold; quarantine where there is evidence of another kind; flag where the origin is unknown, and hold with such evidence |
//! | it says that the text may stay, and `judge.may_release` | what rests on a probability alone is as if it were not there, unless something is hidden, a signature, a secret or a contradiction |
//! | the owner's own words | nothing goes for its meaning: only what is hidden, encoded or forged; signatures of severity critical are flagged |
//! | a code that a person excused for this text | as if it were not there |
//!
//! `sensitivity` moves the two thresholds by one step of severity: `high` flags nothing less and
//! lets a medium signature quarantine from any source but a trusted one; `low` flags only from
//! medium on and quarantines `verified` sources only for critical signatures.
#![forbid(unsafe_code)]

pub mod power;
pub mod reading;
pub mod threshold;

pub use power::{Hold, Party, is_out_of_sight, usurped};
pub use reading::{ruled, wants_reading};
pub use threshold::{Limits, THRESHOLDS, Threshold};

use super::{
  Code, Finding, Layer, RuleKind, Severity,
  effects::FoundEffect,
  model::{Assessment, Depth, Probabilities},
  reading::Reading,
  rules::words,
};
use crate::provenance::Trust;

/// By how much a step of sensitivity moves the odds of a threshold (docs/detection.md: a factor of
/// three in the rate of false alarms).
const SENSITIVITY_ODDS: f32 = 3.0;
/// From which probability by the n-gram heads on the encoder reads a text, whatever its source.
pub const NOTABLE: f32 = 0.10;

/// Below this probability the encoder overrules a trigger of memfw's, which only asks for a closer look: 95 %
/// of harmless blocks of real workspaces lie below it. It takes a third of the false alarms about notes
/// away, and of two hundred attacks that were found one (docs/adr/0010).
pub const UNLIKELY: f32 = 0.11;

/// Codes that are evidence of another kind than the model's probability: destinations of data,
/// secrets, and text that a reader does not see. A mere mention (severity info) is none.
const SECOND_KIND: &[Code] = &[
  Code::ExfiltrationEndpoint,
  Code::EndpointSwap,
  Code::CredentialHarvest,
  Code::KeyPath,
  Code::CovertChannel,
  Code::RemoteExecution,
  Code::HiddenCss,
  Code::HiddenInstruction,
  Code::EncodedText,
  Code::DisguisedText,
  Code::EncodedInstruction,
  Code::TagCharacters,
  Code::ZeroWidth,
  Code::BidiControl,
  Code::MixedScript,
  Code::ForgedFrame,
  Code::ForgedMarker,
];

/// The judgement about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
  /// No finding counts.
  Pass,
  /// Stays, marked.
  Flag,
  /// The text is taken out of its file.
  Quarantine,
}

/// What memfw does with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
  /// It stays unchanged.
  Keep,
  /// It stays, its marker says why.
  Annotate,
  /// It stays without its dangerous spans. No row of the policy leads here yet: the word is a part of the contract of
  /// `--json`, so that programs handle it before memfw uses it.
  Mask,
  /// It is taken out of its file and sealed.
  Quarantine,
  /// It is taken out because of policy, not because of its content, and waits for a person.
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
  /// Whether it is in a file of instructions, which are only reported on.
  pub instructions: bool,
  /// Codes that a person excused for this text.
  pub excused: &'a [Code],
  /// What the model thinks of it; nothing where it was not asked.
  pub probabilities: Probabilities,
  /// Whether these probabilities are the encoder's.
  pub read: bool,
  /// Whose words the text is.
  pub party: Party,
  /// What it would do.
  pub effects: &'a [FoundEffect],
  /// How likely the text gives an outside source power, from 0 to 1; `None` where the model was not
  /// asked.
  pub authority: Option<f32>,
  /// Whether text that policy holds leaves its file.
  pub hold: Hold,
  /// The answer of a model that read the text; `None` where no model was asked, or none gave an
  /// answer that counts.
  pub reading: Option<&'a Reading>,
  /// Whether such an answer may release text that is held only because of a probability.
  pub may_release: bool,
}

impl Default for PolicyInput<'_> {
  /// The assumptions about a block without known facts: untrusted, not observed.
  fn default() -> Self {
    Self {
      trust: Trust::Untrusted,
      source_observed: false,
      sensitivity: Sensitivity::Medium,
      baseline: false,
      baseline_action: BaselineAction::Flag,
      instructions: false,
      excused: &[],
      probabilities: Probabilities::default(),
      read: false,
      party: Party::Unknown,
      effects: &[],
      authority: None,
      hold: Hold::On,
      reading: None,
      may_release: false,
    }
  }
}

impl PolicyInput<'_> {
  /// Whether a probability is over a threshold at the sensitivity that holds.
  pub(super) fn is_over(&self, probability: f32, threshold: f32) -> bool {
    is_over(probability, threshold, self)
  }

  /// Whether the model alone would have the text flagged.
  pub(super) fn is_suspected(&self) -> bool {
    let limits = THRESHOLDS.iter().find(|one| one.trust == self.trust);
    let depth = if self.read { Depth::Encoder } else { Depth::Heads };
    limits.is_some_and(|one| self.is_over(self.probabilities.most(), one.at(depth).flag))
  }

  /// One step higher for text in a file of instructions, because the agent follows that file in
  /// every turn.
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
  /// The judgement about the text.
  pub verdict: Verdict,
  /// What memfw does with the text.
  pub action: Action,
  /// How sure, from 0 to 1; grows with every finding.
  pub score: f32,
  /// The codes of all findings that were not excused, sorted, each once.
  pub codes: Vec<Code>,
}

impl Decision {
  /// Whether the text leaves its file.
  pub fn leaves(&self) -> bool {
    matches!(self.action, Action::Quarantine | Action::Hold)
  }
}

/// The decision about a text from its findings and the facts about it.
pub fn decide(findings: &[Finding], input: &PolicyInput<'_>) -> Decision {
  let counted: Vec<&Finding> =
    findings.iter().filter(|finding| !input.excused.contains(&finding.code)).collect();
  let mut codes: Vec<Code> = counted.iter().map(|finding| finding.code).collect();
  codes.sort_unstable();
  codes.dedup();
  let is_backed = is_backed(&counted, input);
  let outcomes = counted.iter().map(|finding| match finding.layer {
    _ if input.party == Party::Owner => power::of_owner(finding),
    _ if reading::is_released(finding, &counted, input) => Outcome::Pass,
    Layer::Judge => reading::outcome(finding, &counted, input),
    Layer::Model => verdict_of_model(finding, is_backed && power::shares_doubt(input)).into(),
    Layer::Effects => power::outcome(finding, &counted, input),
    _ if is_overruled(finding, input) => Outcome::Pass,
    Layer::Rules => {
      Outcome::from(verdict_of(finding, input)).max(power::of_disguise(finding, input))
    }
  });
  let worst = outcomes.max().unwrap_or(Outcome::Pass);
  let spared =
    input.instructions || input.baseline && input.baseline_action == BaselineAction::Flag;
  let outcome = match worst {
    Outcome::Hold if input.hold == Hold::Off => Outcome::Flag,
    Outcome::Hold | Outcome::Quarantine if spared => Outcome::Flag,
    outcome => outcome,
  };
  let (verdict, action) = match outcome {
    Outcome::Pass => (Verdict::Pass, Action::Keep),
    Outcome::Flag => (Verdict::Flag, Action::Annotate),
    Outcome::Hold => (Verdict::Flag, Action::Hold),
    Outcome::Quarantine => (Verdict::Quarantine, Action::Quarantine),
  };
  Decision { verdict, action, score: score(&codes, &counted, input), codes }
}

/// The outcome of one finding for a text, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
  Pass,
  Flag,
  Hold,
  Quarantine,
}

impl From<Verdict> for Outcome {
  fn from(verdict: Verdict) -> Self {
    match verdict {
      Verdict::Pass => Self::Pass,
      Verdict::Flag => Self::Flag,
      Verdict::Quarantine => Self::Quarantine,
    }
  }
}

/// How strong findings of the rules are, from 0 to 1: the value that the model gets.
pub fn strength(findings: &[Finding]) -> f32 {
  decide(findings, &PolicyInput::default()).score
}

/// The findings that follow from the model's probabilities for this source: one for each kind of
/// attack over its threshold. Severity high means the second threshold. `all` is the span of the
/// whole text.
pub fn likely(
  assessment: &Assessment,
  all: std::ops::Range<usize>,
  input: &PolicyInput<'_>,
) -> Vec<Finding> {
  let Probabilities { injection, poison } = assessment.probabilities;
  let kinds = [
    (Code::LikelyInjection, injection, "an instruction to the agent"),
    (Code::LikelyPoison, poison, "poison in the form of memory"),
  ];
  let found = kinds.into_iter().filter_map(|(code, probability, what)| {
    let severity = severity_of(probability, assessment.depth, input)?;
    let near = assessment.nearest.as_ref();
    let near =
      near.map_or(String::new(), |one| format!("; the nearest known attack: {}", one.name));
    let why = format!("the model classifies it as {what}, probability {probability:.2}{near}");
    let span = assessment.sentence.clone().unwrap_or_else(|| all.clone());
    let (layer, kind) = (Layer::Model, RuleKind::Trigger);
    Some(Finding { code, layer, severity, kind, span, why, rule: None })
  });
  found.collect()
}

/// Which threshold a probability is over.
fn severity_of(probability: f32, depth: Depth, input: &PolicyInput<'_>) -> Option<Severity> {
  let limits = THRESHOLDS.iter().find(|one| one.trust == input.trust)?.at(depth);
  match limits.quarantine {
    Some(quarantine) if is_over(probability, quarantine, input) => Some(Severity::High),
    _ => is_over(probability, limits.flag, input).then_some(Severity::Medium),
  }
}

/// Whether a probability is over a threshold at the sensitivity that holds.
fn is_over(probability: f32, threshold: f32, input: &PolicyInput<'_>) -> bool {
  let by = match input.sensitivity_here() {
    Sensitivity::Low => SENSITIVITY_ODDS,
    Sensitivity::Medium => 1.0,
    Sensitivity::High => SENSITIVITY_ODDS.recip(),
  };
  odds(probability) >= odds(threshold) * by
}

fn odds(probability: f32) -> f32 {
  probability / (1.0 - probability)
}

/// Whether the encoder is to read a text that comes from a source of this trust and of which the heads
/// think this: everything from a low-trust source, else what is notable.
pub fn wants_encoder(trust: Trust, heads: Probabilities) -> bool {
  trust <= Trust::Untrusted || is_notable(heads)
}

/// Whether the encoder reads a text because of the probabilities of the heads.
pub fn is_notable(heads: Probabilities) -> bool {
  heads.most() >= NOTABLE
}

/// Whether there is evidence other than the model's probability.
fn is_backed(counted: &[&Finding], input: &PolicyInput<'_>) -> bool {
  let is_low_and_seen = input.source_observed && input.trust <= Trust::Untrusted;
  let is_second = |finding: &Finding| {
    finding.layer != Layer::Model
      && (finding.severity > Severity::Info || is_disguise_from_outside(finding, input))
      && SECOND_KIND.contains(&finding.code)
  };
  is_low_and_seen || counted.iter().copied().any(is_second)
}

/// The thresholds were asked already.
fn verdict_of_model(finding: &Finding, is_backed: bool) -> Verdict {
  if finding.severity >= Severity::High && is_backed { Verdict::Quarantine } else { Verdict::Flag }
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
  if finding.severity >= least || is_disguise_from_outside(finding, input) {
    Verdict::Flag
  } else {
    Verdict::Pass
  }
}

/// Text from outside that is written so that a filter does not read it is suspicious. In notes of
/// people such text is a heading in small capitals or a piece of source code.
fn is_disguise_from_outside(finding: &Finding, input: &PolicyInput<'_>) -> bool {
  finding.code == Code::DisguisedText && matches!(input.party, Party::Outside | Party::Hostile)
}

/// Whether the encoder has read the text and finds a trigger of memfw's rules harmless. The model
/// does not overrule findings about hidden text, of the normaliser, or of a user's own rule.
fn is_overruled(finding: &Finding, input: &PolicyInput<'_>) -> bool {
  let is_ours = match &finding.rule {
    Some(name) => name.is_built_in(),
    None => finding.code == Code::TriggerCombination,
  };
  input.read
    && is_ours
    && finding.kind == RuleKind::Trigger
    && finding.severity <= Severity::Medium
    && !matches!(finding.code, Code::HiddenInstruction | Code::EncodedInstruction)
    && !is_over(input.probabilities.most(), UNLIKELY, input)
}

/// Each code counts once, with its worst finding, as independent evidence.
fn score(codes: &[Code], findings: &[&Finding], input: &PolicyInput<'_>) -> f32 {
  let Probabilities { injection, poison } = input.probabilities;
  let doubt: f32 = codes
    .iter()
    .map(|code| {
      let weight = findings
        .iter()
        .filter(|finding| finding.code == *code)
        .map(|finding| match (finding.layer, code) {
          (Layer::Model, Code::LikelyInjection) => injection,
          (Layer::Model, _) => poison,
          (Layer::Effects, Code::LikelyAuthority) => input.authority.unwrap_or_default(),
          _ if is_overruled(finding, input) => weight(RuleKind::Trigger, Severity::Info),
          _ => weight(finding.kind, finding.severity),
        })
        .fold(0.0, f32::max);
      1.0 - weight
    })
    .product();
  (1.0 - doubt).clamp(0.0, 1.0)
}

/// Ordered so that a signature outweighs any single trigger; not probabilities.
fn weight(kind: RuleKind, severity: Severity) -> f32 {
  match (kind, severity) {
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
mod tests;
