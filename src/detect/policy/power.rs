//! Who may do what: rows by effect, columns by whose words a text is.
//!
//! Text from outside may inform; only the owner gives orders. A text from outside may state a fact;
//! it may not become an order, a permission, a place to pay or to call, or a secret.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{Outcome, PolicyInput, SECOND_KIND, is_disguise_from_outside, is_overruled};
use crate::{
  detect::{
    Code, Finding, Layer, RuleKind, Severity,
    effects::{Effect, FoundEffect, Novelty, Strength},
    rules::words,
  },
  provenance::{Source, Trust},
};

/// Whose words a text is: the columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Party {
  /// The owner wrote or said the text.
  Owner,
  /// The agent in its own words, nothing foreign in the turn.
  Agent,
  /// From outside, and the owner asked to keep it.
  Asked,
  /// Nothing is on record.
  #[default]
  Unknown,
  /// From outside, observed.
  Outside,
  /// From a place where adversaries are to be expected.
  Hostile,
}

words!(
  Party,
  "party",
  "`owner`, `agent`, `asked`, `unknown`, `outside` or `hostile`",
  Owner = "owner",
  Agent = "agent",
  Asked = "asked",
  Unknown = "unknown",
  Outside = "outside",
  Hostile = "hostile",
);

impl Party {
  /// Whether it may have any effect.
  pub const fn has_all_powers(self) -> bool {
    matches!(self, Self::Owner | Self::Agent)
  }

  /// Whether it is somebody outside to whom the owner gave nothing to say.
  pub const fn is_outside(self) -> bool {
    matches!(self, Self::Outside | Self::Hostile)
  }

  /// The column of a text: `observed` says whether the source was seen in the agent's records, `asked` whether
  /// the owner had asked to keep what that source says.
  pub fn of(source: &Source, trust: Trust, observed: bool, asked: bool) -> Self {
    let is_nobody = matches!(source.kind(), "unknown" | "external-edit" | "baseline");
    let is_agent = source.kind() == "agent" && trust == Trust::Verified;
    if trust == Trust::Hostile {
      Self::Hostile
    } else if is_nobody {
      Self::Unknown
    } else if trust == Trust::Trusted && source.as_str() == "user:owner" {
      Self::Owner
    } else if trust == Trust::Trusted || is_agent {
      // A source that the configuration trusts like the owner counts as the agent, not as the
      // owner.
      Self::Agent
    } else if asked || trust == Trust::Verified {
      Self::Asked
    } else if observed {
      Self::Outside
    } else {
      Self::Unknown
    }
  }

  /// The column of a text with these findings: a text that is written so that a filter does not
  /// read it does not inform.
  #[must_use]
  pub fn with(self, findings: &[Finding]) -> Self {
    let is_disguised = findings.iter().any(|one| one.code == Code::DisguisedText);
    if self == Self::Outside && is_disguised { Self::Hostile } else { self }
  }
}

/// Whether text that policy holds leaves its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Hold {
  /// It waits outside its file for a person.
  #[default]
  On,
  /// It stays, flagged.
  Off,
}

words!(Hold, "hold", "`on` or `off`", On = "on", Off = "off");

/// What may be done with an effect that a party has no right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Power {
  /// The party may have the effect.
  Granted,
  /// The text is taken out where the values that the effect depends on are new, or contradict known
  /// values.
  IfKnown,
  /// The text is taken out where the values contradict known values.
  UnlessContradicted,
  /// The text is taken out where the model's probability is over its limit.
  Doubted,
  /// The text is taken out.
  Refused,
}

/// The table.
const fn power(effect: Effect, party: Party) -> Power {
  use Effect as E;
  match party {
    Party::Owner | Party::Agent => Power::Granted,
    Party::Unknown | Party::Outside | Party::Hostile => match effect {
      E::Secrecy
      | E::Suppression
      | E::Permission
      | E::Identity
      | E::Disclosure
      | E::Command
      | E::Trigger => Power::Refused,
      E::Payment | E::Contact | E::Endpoint => Power::IfKnown,
      E::StandingOrder | E::Promotion | E::SafetyFact => Power::Doubted,
    },
    Party::Asked => match effect {
      // A request to note a page's text is no request to obey it.
      E::Secrecy
      | E::Permission
      | E::Suppression
      | E::Identity
      | E::Disclosure
      | E::Trigger
      | E::StandingOrder => Power::Refused,
      E::Payment | E::Contact | E::Endpoint | E::Command | E::Promotion | E::SafetyFact => {
        Power::UnlessContradicted
      }
    },
  }
}

/// From which probability of authority on an effect counts, by how plainly the text says it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
  /// The words alone.
  pub weak: f32,
  /// An order with its object.
  pub plain: f32,
  /// No effect was read in it at all.
  pub none: f32,
  /// From here on a text is flagged, whatever its effects.
  pub flag: f32,
  /// From here on a text is taken out whose words alone the model takes for an attack.
  pub shared: f32,
}

/// The limits for texts from outside: with them less than 5 % of what an agent rightly keeps from outside leaves
/// memory, on the four calibrating authors of scenarios (`memfw eval`; docs/detection.md has the figures). A
/// blatant effect needs no probability.
pub const OUTSIDE: Limits =
  Limits { weak: 0.50, plain: 0.50, none: 0.50, flag: 0.40, shared: 0.30 };
/// The limits where the owner asked to keep what a source says: of 254 such lines five must go, so
/// that there is nothing to gain, and much to lose.
pub const ASKED: Limits = Limits { weak: 0.95, plain: 0.95, none: 0.95, flag: 0.90, shared: 0.50 };
/// The limits for hostile sources: a third of the odds.
pub const HOSTILE: Limits =
  Limits { weak: 0.25, plain: 0.25, none: 0.25, flag: 0.18, shared: 0.12 };

fn limits(party: Party) -> Option<Limits> {
  match party {
    Party::Owner | Party::Agent | Party::Unknown => None,
    Party::Asked => Some(ASKED),
    Party::Outside => Some(OUTSIDE),
    Party::Hostile => Some(HOSTILE),
  }
}

/// The code of an effect that a party has no right to.
pub const fn code_of(effect: Effect) -> Code {
  match effect {
    Effect::StandingOrder => Code::ForeignOrder,
    Effect::Command => Code::ForeignCommand,
    Effect::Payment => Code::ForeignPayment,
    Effect::Contact => Code::ForeignContact,
    Effect::Endpoint => Code::ForeignEndpoint,
    Effect::Permission => Code::ForeignPermission,
    Effect::Identity => Code::ForeignIdentity,
    Effect::Secrecy => Code::ForeignSecrecy,
    Effect::Trigger => Code::ForeignTrigger,
    Effect::Suppression => Code::ForeignSuppression,
    Effect::Promotion => Code::ForeignPromotion,
    Effect::Disclosure => Code::ForeignDisclosure,
    Effect::SafetyFact => Code::ForeignSafetyFact,
  }
}

/// The effects that the party behind a text has no right to, and the model's probability of
/// authority, as findings: of severity high where the text must be taken out of its file, low where
/// it is flagged. `all` is the span of the whole text.
pub fn usurped(
  effects: &[FoundEffect],
  all: Range<usize>,
  input: &PolicyInput<'_>,
) -> Vec<Finding> {
  judged(effects, all, input, limits(input.party).as_ref())
}

/// The findings of [`usurped`] with other limits, to measure them.
pub fn usurped_at(
  effects: &[FoundEffect],
  all: Range<usize>,
  input: &PolicyInput<'_>,
  limits: &Limits,
) -> Vec<Finding> {
  judged(effects, all, input, Some(limits))
}

fn judged(
  effects: &[FoundEffect],
  all: Range<usize>,
  input: &PolicyInput<'_>,
  limits: Option<&Limits>,
) -> Vec<Finding> {
  let mut findings: Vec<Finding> =
    effects.iter().filter_map(|effect| of_effect(effect, input, limits)).collect();
  let goes = findings.iter().any(|one| one.severity >= Severity::High);
  if let (false, Some(limits), Some(authority)) = (goes, limits, input.authority) {
    let severity = if input.is_over(authority, limits.none) {
      Some(Severity::High)
    } else {
      (findings.is_empty() && input.is_over(authority, limits.flag)).then_some(Severity::Low)
    };
    let why =
      format!("the model says that it gives somebody outside a power, probability {authority:.2}");
    findings.extend(severity.map(|severity| finding(Code::LikelyAuthority, severity, all, why)));
  }
  findings
}

fn of_effect(
  found: &FoundEffect,
  input: &PolicyInput<'_>,
  limits: Option<&Limits>,
) -> Option<Finding> {
  let novelty = found.novelty();
  // A request to keep things of other kinds does not ask for this one.
  let is_outside = input.party == Party::Asked && found.is_unasked;
  let (party, limits) =
    if is_outside { (Party::Outside, Some(&OUTSIDE)) } else { (input.party, limits) };
  let power = power(found.effect, party);
  let is_refused = match power {
    Power::Granted => false,
    Power::IfKnown => novelty.is_some_and(|novelty| novelty > Novelty::Known),
    Power::UnlessContradicted => novelty == Some(Novelty::Contradicts),
    Power::Doubted | Power::Refused => true,
  };
  if !is_refused {
    return None;
  }
  let severity = severity(found, power, input, limits)?;
  let whose = match input.party {
    Party::Unknown => "its author is unknown",
    _ => "it comes from outside",
  };
  let beside = match novelty {
    Some(Novelty::Contradicts) => "; a value contradicts what is known",
    Some(Novelty::New) => "; a value is new",
    Some(Novelty::Known) | None => "",
  };
  let why = format!("{}, and {whose}{beside}", found.why);
  Some(finding(code_of(found.effect), severity, found.span.clone(), why))
}

/// High where the text is to leave its file.
fn severity(
  found: &FoundEffect,
  power: Power,
  input: &PolicyInput<'_>,
  limits: Option<&Limits>,
) -> Option<Severity> {
  let Some(limits) = limits else {
    // Without a record of the source, a blatant effect is reported if the model would also flag the
    // text. A lower limit finds one attack more in three hundred, and flags one line of business
    // mail more in fifty.
    let is_told = found.strength == Strength::Blatant && input.is_suspected();
    return is_told.then_some(Severity::Low);
  };
  let needed = match (found.strength, power) {
    (Strength::Weak, _) => limits.weak,
    (Strength::Plain, _) | (Strength::Blatant, Power::Doubted) => limits.plain,
    (Strength::Blatant, _) => return Some(Severity::High),
  };
  let authority = input.authority?;
  if input.is_over(authority, needed) { Some(Severity::High) } else { None }
}

/// Whether the probability of authority, which knows the source and the request, also suspects a
/// text that the model takes for an attack; true where it was not computed.
pub(super) fn shares_doubt(input: &PolicyInput<'_>) -> bool {
  match (limits(input.party), input.authority) {
    (Some(limits), Some(authority)) => input.is_over(authority, limits.shared),
    _ => true,
  }
}

fn finding(code: Code, severity: Severity, span: Range<usize>, why: String) -> Finding {
  Finding { code, layer: Layer::Effects, severity, kind: RuleKind::Trigger, span, why, rule: None }
}

/// Codes of hidden, encoded or forged text: only these take the owner's own words out of a file.
pub(super) const OUT_OF_SIGHT: &[Code] = &[
  Code::ForgedMarker,
  Code::QuarantineContinued,
  Code::ManualQuarantine,
  Code::ZeroWidth,
  Code::BidiControl,
  Code::TagCharacters,
  Code::AnsiEscape,
  Code::HiddenCss,
  Code::HiddenInstruction,
  Code::EncodedInstruction,
  Code::ChatTemplateToken,
  Code::ForgedFrame,
  Code::CompactionPayload,
];

/// Whether a code is about hidden, encoded or forged text.
pub fn is_out_of_sight(code: Code) -> bool {
  OUT_OF_SIGHT.contains(&code)
}

/// Whether a finding depends on a probability of the model.
pub(super) fn rests_on_probability(finding: &Finding, input: &PolicyInput<'_>) -> bool {
  let by_model = |found: &FoundEffect| {
    found.strength < Strength::Blatant || power(found.effect, input.party) == Power::Doubted
  };
  let mut behind = input
    .effects
    .iter()
    .filter(|found| code_of(found.effect) == finding.code && found.span == finding.span)
    .peekable();
  match finding.layer {
    Layer::Model => true,
    Layer::Effects if finding.code == Code::LikelyAuthority => true,
    Layer::Effects => behind.peek().is_some() && behind.all(by_model),
    Layer::Rules | Layer::Judge => false,
  }
}

/// The owner may give any order; text that the owner cannot have seen is not the owner's.
pub(super) fn of_owner(finding: &Finding) -> Outcome {
  let is_signature = finding.kind == RuleKind::Signature;
  match (OUT_OF_SIGHT.contains(&finding.code), finding.severity) {
    (true, Severity::High | Severity::Critical) if is_signature => Outcome::Quarantine,
    (true, Severity::Medium | Severity::High | Severity::Critical) => Outcome::Flag,
    (false, Severity::Critical) if is_signature => Outcome::Flag,
    _ => Outcome::Pass,
  }
}

/// A text from outside is taken out if its words are disguised and it has an effect to which it has
/// no right: disguise shows the author's purpose. A zero-width character in a word is enough of a
/// disguise in a hostile text, and chance elsewhere.
pub(super) fn of_disguise(finding: &Finding, input: &PolicyInput<'_>) -> Outcome {
  let is_foreign = matches!(input.party, Party::Asked | Party::Outside | Party::Hostile);
  let hides = matches!(finding.code, Code::ZeroWidth | Code::DisguisedText);
  let is_refused = |found: &FoundEffect| {
    let refused = matches!(power(found.effect, input.party), Power::Refused);
    found.strength >= Strength::Plain && refused
  };
  if is_foreign && hides && input.effects.iter().any(is_refused) {
    Outcome::Hold
  } else {
    Outcome::Pass
  }
}

/// An effect without right holds the text; with evidence of another kind it is quarantined.
pub(super) fn outcome(finding: &Finding, counted: &[&Finding], input: &PolicyInput<'_>) -> Outcome {
  if finding.severity < Severity::High {
    return Outcome::Flag;
  }
  if is_backed(finding, counted, input) { Outcome::Quarantine } else { Outcome::Hold }
}

/// Whether there is evidence of another kind beside a finding.
pub(super) fn is_backed(finding: &Finding, counted: &[&Finding], input: &PolicyInput<'_>) -> bool {
  let is_other = |other: &&Finding| match other.layer {
    _ if other.code == finding.code => false,
    Layer::Effects | Layer::Model | Layer::Judge => other.severity >= Severity::High,
    Layer::Rules => {
      (other.kind == RuleKind::Signature || SECOND_KIND.contains(&other.code))
        && (other.severity > Severity::Info || is_disguise_from_outside(other, input))
        && !is_overruled(other, input)
    }
  };
  counted.iter().any(is_other)
}
