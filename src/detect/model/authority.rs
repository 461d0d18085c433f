//! One calibrated probability that a text gives an outside source power, from all parts: logistic
//! regression, as in `fusion`.
//!
//! Its numbers are in `models/authority.toml`, made by the recipe in `training/recipe`: one set for
//! texts that the encoder has read and one for texts that only the heads have read. The probability
//! is one at the share that the file names (`prior`); what follows from it is for `policy::power`
//! to say.
//!
//! Invariant: a higher logit, a stronger finding, a plainer effect or a value less known never makes the
//! probability lower. What is only context, as the kind of source and what was asked, may do either.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{
  Damage, Opinion,
  context::{Context, Kind},
  context_head::Spoken,
  fusion::length,
};
use crate::detect::effects::{Effect, FoundEffect, Novelty, Strength, asks_to_keep};

/// Logits count up to this size, so that no single part can drown all others.
const MOST: f32 = 30.0;

/// What is known about a block from outside.
#[derive(Clone, Debug)]
pub struct AuthorityEvidence<'a> {
  /// What the context head says.
  pub head: Spoken,
  /// What the encoder says of authority, if it has looked.
  pub encoder: Option<Spoken>,
  /// What the n-gram heads say of injection and poison.
  pub heads: Opinion,
  /// What the encoder says of injection and poison; with `encoder` or not at all.
  pub close: Option<Opinion>,
  /// How strong the findings of the rules are, from 0 to 1.
  pub rules: f32,
  /// Length of the block in bytes.
  pub bytes: usize,
  /// The known facts about the text.
  pub context: Context<'a>,
  /// The effects of the block.
  pub effects: Vec<FoundEffect>,
}

/// The parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityFusion {
  /// Version of the format: 1.
  pub version: u32,
  /// The share of blocks to be taken out at which the probabilities are calibrated.
  pub prior: f32,
  /// While only the heads have looked.
  pub heads: AuthorityWeights,
  /// With the encoder.
  pub encoder: AuthorityWeights,
}

/// The parameters of one set. Those of `Rising` are zero or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityWeights {
  /// The constant term.
  pub bias: f32,
  /// For each unit of [`length`].
  pub length: f32,
  /// For each kind of source: person, page, mail, webhook, file, output.
  pub kinds: [f32; 6],
  /// Where nothing was asked; where the owner asked to keep something.
  pub asked: [f32; 2],
  /// Where all values that the effects depend on are known.
  pub known: f32,
  /// For the findings of the rules. From here on all are zero or more.
  pub rules: f32,
  /// The context head: whole, sentence.
  pub head: [f32; 2],
  /// The encoder: whole, sentence.
  pub encoder: [f32; 2],
  /// The n-gram heads: injection, poison; then the encoder: injection, poison.
  pub likely: [f32; 4],
  /// Effects that are refused to the outside (said at least weakly, plainly, blatantly).
  pub refused: [f32; 3],
  /// Payment, contact, endpoint.
  pub places: [f32; 3],
  /// Standing order, promotion, safety.
  pub doubted: [f32; 3],
  /// A value is new; a value contradicts what is known.
  pub novelty: [f32; 2],
}

/// How many inputs there are, and how many of them, the first, may have either sign.
pub const INPUTS: usize = 31;
/// The first that may not be below zero.
pub const RISING: usize = 11;

/// What the weights are multiplied with, in the order of the fields of [`AuthorityWeights`].
pub type AuthorityInputs = [f32; INPUTS];

/// The inputs that `seen` gives.
pub fn authority_inputs(seen: &AuthorityEvidence<'_>) -> AuthorityInputs {
  let Context { kind, asked, .. } = seen.context;
  let effects = &seen.effects;
  let is = |truth: bool| if truth { 1.0 } else { 0.0 };
  let kinds = [Kind::Person, Kind::Page, Kind::Mail, Kind::Webhook, Kind::File, Kind::Output]
    .map(|one| is(one == kind));
  let novelty = effects.iter().filter_map(FoundEffect::novelty).max();
  let spoken = |one: Spoken| [number(one.whole), number(one.sentence)];
  let likely = |one: Opinion| {
    let most = one.whole.max(one.sentence);
    [number(most.injection), number(most.poison)]
  };
  let groups = [Group::Refused, Group::Places, Group::Doubted].map(|group| {
    let own = effects.iter().filter(|one| group_of(one.effect) == group);
    let most = own.map(|one| one.strength).max();
    [Strength::Weak, Strength::Plain, Strength::Blatant].map(|least| is(most >= Some(least)))
  });
  let empty = Spoken::default();
  let rules = if seen.rules.is_finite() { seen.rules.clamp(0.0, 1.0) } else { 0.0 };
  let mut all = [1.0, length(seen.bytes)]
    .into_iter()
    .chain(kinds)
    .chain([is(asked.trim().is_empty()), is(asks_to_keep(asked))])
    .chain([is(novelty == Some(Novelty::Known))])
    .chain([rules])
    .chain(spoken(seen.head))
    .chain(spoken(seen.encoder.unwrap_or(empty)))
    .chain(likely(seen.heads))
    .chain(seen.close.map_or([0.0; 2], likely))
    .chain(groups.into_iter().flatten())
    .chain([is(novelty >= Some(Novelty::New)), is(novelty == Some(Novelty::Contradicts))]);
  std::array::from_fn(|_| all.next().unwrap_or(0.0))
}

/// Which effects count alike: a row of the power table a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
  Refused,
  Places,
  Doubted,
}

const fn group_of(effect: Effect) -> Group {
  match effect {
    Effect::Secrecy
    | Effect::Suppression
    | Effect::Permission
    | Effect::Identity
    | Effect::Disclosure
    | Effect::Command
    | Effect::Trigger => Group::Refused,
    Effect::Payment | Effect::Contact | Effect::Endpoint => Group::Places,
    Effect::StandingOrder | Effect::Promotion | Effect::SafetyFact => Group::Doubted,
  }
}

fn number(logit: f32) -> f32 {
  if logit.is_nan() { 0.0 } else { logit.clamp(-MOST, MOST) }
}

impl AuthorityWeights {
  /// In the order of [`AuthorityInputs`].
  pub fn inputs(&self) -> AuthorityInputs {
    let mut all = [self.bias, self.length]
      .into_iter()
      .chain(self.kinds)
      .chain(self.asked)
      .chain([self.known, self.rules])
      .chain(self.head)
      .chain(self.encoder)
      .chain(self.likely)
      .chain(self.refused)
      .chain(self.places)
      .chain(self.doubted)
      .chain(self.novelty);
    std::array::from_fn(|_| all.next().unwrap_or(0.0))
  }

  /// From that order.
  pub fn from_inputs(weights: &AuthorityInputs) -> Self {
    let mut all = weights.iter().copied();
    let mut next = || all.next().unwrap_or(0.0);
    Self {
      bias: next(),
      length: next(),
      kinds: std::array::from_fn(|_| next()),
      asked: std::array::from_fn(|_| next()),
      known: next(),
      rules: next(),
      head: std::array::from_fn(|_| next()),
      encoder: std::array::from_fn(|_| next()),
      likely: std::array::from_fn(|_| next()),
      refused: std::array::from_fn(|_| next()),
      places: std::array::from_fn(|_| next()),
      doubted: std::array::from_fn(|_| next()),
      novelty: std::array::from_fn(|_| next()),
    }
  }

  fn logit(&self, inputs: &AuthorityInputs) -> f32 {
    self.inputs().iter().zip(inputs).map(|(weight, input)| weight * input).sum()
  }
}

impl AuthorityFusion {
  /// Reads and checks the file.
  pub fn load(bytes: &[u8]) -> Result<Self, Damage> {
    let damage = |why| Damage::new("authority fusion", why);
    let text = str::from_utf8(bytes).ok().ok_or(damage("it is not text"))?;
    let fusion: Self = toml::from_str(text).ok().ok_or(damage("it is not in its format"))?;
    if fusion.version != 1 {
      return Err(damage("it is of another version"));
    }
    if !(fusion.prior > 0.0 && fusion.prior < 1.0) {
      return Err(damage("its prior is not between 0 and 1"));
    }
    for set in [&fusion.heads, &fusion.encoder] {
      let weights = set.inputs();
      let falls = weights.iter().skip(RISING).any(|weight| *weight < 0.0);
      if falls || weights.iter().any(|weight| !weight.is_finite()) {
        return Err(damage("a weight would turn evidence into its opposite"));
      }
    }
    Ok(fusion)
  }

  /// The probability that the text gives an outside source power.
  pub fn probability(&self, seen: &AuthorityEvidence<'_>) -> f32 {
    let weights = if seen.encoder.is_some() { &self.encoder } else { &self.heads };
    1.0 / (1.0 + libm::expf(-weights.logit(&authority_inputs(seen))))
  }
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;
  use crate::detect::model::Logits;

  fn shipped() -> AuthorityFusion {
    AuthorityFusion::load(include_bytes!("../../../models/authority.toml")).unwrap()
  }

  fn effect(effect: Effect, strength: Strength) -> FoundEffect {
    FoundEffect {
      effect,
      span: 0..1,
      strength,
      slots: vec![],
      why: String::new(),
      is_unasked: false,
    }
  }

  fn seen<'a>(
    numbers: &[f32; 8],
    context: Context<'a>,
    effects: &[FoundEffect],
    has_encoder: bool,
  ) -> AuthorityEvidence<'a> {
    let logits = |at: usize| Logits { injection: numbers[at], poison: numbers[at + 1] };
    let opinion = |at| Opinion { whole: logits(at), sentence: logits(at) };
    let spoken = |at: usize| Spoken { whole: numbers[at], sentence: numbers[at + 1] };
    AuthorityEvidence {
      head: spoken(0),
      encoder: has_encoder.then(|| spoken(2)),
      heads: opinion(4),
      close: has_encoder.then(|| opinion(6)),
      rules: 0.2,
      bytes: 90,
      context,
      effects: effects.to_vec(),
    }
  }

  #[test]
  fn the_weights_keep_their_places() {
    let numbers: AuthorityInputs = std::array::from_fn(|n| n as f32);
    let weights = AuthorityWeights::from_inputs(&numbers);
    assert_eq!(weights.inputs().map(f32::to_bits), numbers.map(f32::to_bits));
    assert_eq!(weights.rules.to_bits(), (RISING as f32).to_bits());
    assert_eq!(weights.novelty[1].to_bits(), ((INPUTS - 1) as f32).to_bits());
  }

  #[test]
  fn a_file_that_would_turn_evidence_around_is_refused() {
    let text = toml::to_string(&shipped()).unwrap();
    assert!(AuthorityFusion::load(text.as_bytes()).is_ok());
    let mut bad = shipped();
    bad.encoder.rules = -0.1;
    assert!(AuthorityFusion::load(toml::to_string(&bad).unwrap().as_bytes()).is_err());
    let mut bad = shipped();
    bad.prior = 1.0;
    assert!(AuthorityFusion::load(toml::to_string(&bad).unwrap().as_bytes()).is_err());
    assert!(AuthorityFusion::load(b"version = 1\n").is_err());
  }

  #[test]
  fn a_plainer_effect_is_more_evidence() {
    let fusion = shipped();
    let numbers = [0.0; 8];
    for kind in [Effect::Secrecy, Effect::Payment, Effect::Promotion] {
      let with = |effects: &[FoundEffect]| {
        let context = Context { kind: Kind::Page, ..Context::default() };
        fusion.probability(&seen(&numbers, context, effects, true))
      };
      let strengths = [Strength::Weak, Strength::Plain, Strength::Blatant];
      let [weak, plain, blatant] = strengths.map(|strength| with(&[effect(kind, strength)]));
      assert!(with(&[]) <= weak && weak <= plain && plain <= blatant);
    }
  }

  proptest! {
    #[test]
    fn more_evidence_never_lowers_it(
      numbers in prop::array::uniform8(-20f32..20.0),
      at in 0usize..8,
      more in 0f32..10.0,
      has_encoder in any::<bool>(),
      kind in 0usize..9,
    ) {
      let context = Context { kind: Kind::ALL[kind], asked: "note it", known: &[] };
      let fusion = shipped();
      let before = fusion.probability(&seen(&numbers, context, &[], has_encoder));
      let mut higher = numbers;
      higher[at] += more;
      let after = fusion.probability(&seen(&higher, context, &[], has_encoder));
      prop_assert!(after >= before && (0.0..=1.0).contains(&after));
    }
  }
}
