//! The one place that decides. Pure: findings and facts in, a decision out.
//!
//! | findings | verdict |
//! |---|---|
//! | a signature of severity high or critical | quarantine; from a `trusted` source only a critical one, else flag |
//! | a signature of severity medium | flag; quarantine from a `hostile` source, or from an `untrusted` one that was observed |
//! | a trigger of severity low or higher | flag; from a `trusted` source from medium on; one of ours up to medium passes where the encoder has read the text and finds both kinds unlikely ([`UNLIKELY`]) |
//! | triggers of severity info (any address, any command, any secret named) | pass; two families of them in one sentence are a `trigger-combination` of severity low, which the rules report |
//! | the model's probability over the threshold for the trust of the source ([`THRESHOLDS`]) | flag; over the second threshold and with evidence of another kind, quarantine |
//! | anything in a text that was there before memfw | at most flag, unless `baseline.action = "quarantine"` |
//! | anything in a file of instructions | at most flag, unless the file is one of `files.quarantine`; triggers in what was there before memfw from medium on, for such files are full of them |
//! | a code that a person excused for this text | as if it were not there |
//!
//! `sensitivity` moves the two thresholds by one step of severity: `high` flags nothing less and
//! lets a medium signature quarantine from any source but a trusted one; `low` flags only from
//! medium on and quarantines `verified` sources only for critical signatures.
#![forbid(unsafe_code)]

use super::{
  Code, Finding, Layer, RuleKind, Severity,
  model::{Assessment, Depth, Probabilities},
  rules::words,
};
use crate::provenance::Trust;

/// From which probability on the model's word counts, for a source of one trust.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
  /// The trust.
  pub trust: Trust,
  /// While only the heads have looked.
  pub heads: Limits,
  /// Where the encoder has looked as well.
  pub encoder: Limits,
}

/// Limits of the higher of the two probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
  /// From here to the threshold of a quarantine a text is borderline: a judge that reads it may say more
  /// than the model can.
  pub doubt: f32,
  /// From here on a text is flagged.
  pub flag: f32,
  /// From here on it is quarantined, where there is evidence of another kind; `None` for never.
  pub quarantine: Option<f32>,
}

impl Threshold {
  const fn new(trust: Trust, heads: Limits, encoder: Limits) -> Self {
    Self { trust, heads, encoder }
  }

  /// The limits for a text that was looked at so closely.
  pub const fn at(&self, depth: Depth) -> Limits {
    match depth {
      Depth::Heads => self.heads,
      Depth::Encoder => self.encoder,
    }
  }
}

/// The thresholds at sensitivity `medium`: the probabilities above which one, five, fifteen and five hundred
/// of ten thousand harmless blocks of real workspaces lie that the model was not trained on, for a source
/// that is trusted, verified, untrusted and hostile. With the next stricter rate a text is quarantined where
/// other evidence stands beside it, and from the next laxer one on a judge may be asked. Fifteen and not
/// fifty for untrusted sources: above 0.50 lie 3 % of talk about security and 2 % of business mail, and
/// workspaces are not all that such a source writes about. `train-heads fuse` measures them, and
/// docs/detection.md has what each rests on, with intervals.
pub const THRESHOLDS: [Threshold; 4] = [
  Threshold::new(Trust::Trusted, limits(0.71, 0.76, None), limits(0.74, 0.79, None)),
  Threshold::new(Trust::Verified, limits(0.62, 0.71, Some(0.76)), limits(0.50, 0.74, Some(0.79))),
  Threshold::new(Trust::Untrusted, limits(0.20, 0.62, Some(0.71)), limits(0.11, 0.50, Some(0.74))),
  Threshold::new(Trust::Hostile, limits(0.11, 0.20, Some(0.62)), limits(0.05, 0.11, Some(0.50))),
];

const fn limits(doubt: f32, flag: f32, quarantine: Option<f32>) -> Limits {
  Limits { doubt, flag, quarantine }
}

/// By how much a step of sensitivity moves the odds of a threshold (DETECTION: a factor of three in the
/// rate of false alarms).
const SENSITIVITY_ODDS: f32 = 3.0;
/// From which probability by the n-gram heads on the encoder reads a text, whatever its source.
pub const NOTABLE: f32 = 0.10;

/// Below this probability the encoder overrules a trigger of ours, which only asks for a closer look: 95 %
/// of harmless blocks of real workspaces lie below it. It takes a third of the false alarms about notes
/// away, and of two hundred attacks that were found one (docs/adr/0010).
pub const UNLIKELY: f32 = 0.11;

/// Codes that are evidence of another kind beside the model's word: where data goes, secrets, and what is
/// kept from the eyes of a reader. A mere mention (severity info) is none.
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
  Code::EncodedInstruction,
  Code::TagCharacters,
  Code::ZeroWidth,
  Code::BidiControl,
  Code::MixedScript,
  Code::ForgedFrame,
  Code::ForgedMarker,
];

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
  /// What the model thinks of it; nothing where it was not asked.
  pub probabilities: Probabilities,
  /// Whether these probabilities are the encoder's word.
  pub read: bool,
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
      probabilities: Probabilities::default(),
      read: false,
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
  let is_backed = is_backed(&counted, input);
  let verdicts = counted.iter().map(|finding| match finding.layer {
    Layer::Model => verdict_of_model(finding, is_backed),
    _ if is_overruled(finding, input) => Verdict::Pass,
    _ => verdict_of(finding, input),
  });
  let worst = verdicts.max().unwrap_or(Verdict::Pass);
  let spared =
    input.instructions || input.baseline && input.baseline_action == BaselineAction::Flag;
  let verdict = if spared { worst.min(Verdict::Flag) } else { worst };
  let action = match verdict {
    Verdict::Pass => Action::Keep,
    Verdict::Flag => Action::Annotate,
    Verdict::Quarantine => Action::Quarantine,
  };
  Decision { verdict, action, score: score(&codes, &counted, input), codes }
}

/// How strong findings of the rules are, from 0 to 1: what the model is told of them.
pub fn strength(findings: &[Finding]) -> f32 {
  decide(findings, &PolicyInput::default()).score
}

/// What the model's word amounts to for this source: one finding for each kind of attack that it takes
/// the text for. Severity high stands for the second threshold. `all` is the span of the whole text.
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
    let why = format!("the model takes it for {what}, probability {probability:.2}{near}");
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

/// Whether a judge that reads the text may raise or lower what follows from the model's word: above the
/// band nothing is in doubt, below it nobody would ever be asked about anything else.
pub fn is_borderline(assessment: &Assessment, input: &PolicyInput<'_>) -> bool {
  let probability = assessment.probabilities.most();
  let limits = THRESHOLDS.iter().find(|one| one.trust == input.trust);
  limits.is_some_and(|one| {
    let Limits { doubt, quarantine, .. } = one.at(assessment.depth);
    is_over(probability, doubt, input)
      && quarantine.is_none_or(|most| !is_over(probability, most, input))
  })
}

fn odds(probability: f32) -> f32 {
  probability / (1.0 - probability)
}

/// Whether the encoder is to read a text that comes from a source of this trust and of which the heads
/// think this: everything from a low-trust source, else what is notable.
pub fn wants_encoder(trust: Trust, heads: Probabilities) -> bool {
  trust <= Trust::Untrusted || is_notable(heads)
}

/// Whether the encoder is to read a text for what the heads think of it.
pub fn is_notable(heads: Probabilities) -> bool {
  heads.most() >= NOTABLE
}

/// Whether there is evidence beside the model's word.
fn is_backed(counted: &[&Finding], input: &PolicyInput<'_>) -> bool {
  let is_low_and_seen = input.source_observed && input.trust <= Trust::Untrusted;
  let is_second = |finding: &Finding| {
    finding.layer != Layer::Model
      && finding.severity > Severity::Info
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
  if finding.severity >= least { Verdict::Flag } else { Verdict::Pass }
}

/// Whether the encoder has read the text and finds nothing in what a trigger of ours asks about. What is
/// out of sight, what the normaliser saw and what a person wrote a rule for is not asked of a model.
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
