//! One calibrated probability for each kind, from all parts: logistic regression over logits.
//!
//! Its numbers are in `models/fusion.toml`, made by the recipe in `training/recipe`: one set for
//! texts that the encoder has read and one for texts that only the heads have read. A probability
//! is one at the share of attacks that the file names (`prior`); what follows from it is for
//! `policy` to say.
//!
//! Invariant: a higher logit, or a stronger finding of the rules, never makes a probability lower.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{Damage, Logits, Probabilities};

/// Logits count up to this size, so that no single part can drown all others. The largest that
/// training lines reach is about a third of it.
const MOST: f32 = 30.0;

/// What is known about a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
  /// What the n-gram heads say.
  pub heads: Opinion,
  /// What the encoder says, if it has looked.
  pub encoder: Option<Opinion>,
  /// How strong the findings of the rules are, from 0 to 1: [`crate::detect::Decision::score`].
  pub rules: f32,
  /// How like the nearest known attack it is, from 0 to 1; 0 while only the heads have looked.
  pub likeness: f32,
  /// Length of the block in bytes.
  pub bytes: usize,
}

/// What one part of the model says about a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Opinion {
  /// Of all of it.
  pub whole: Logits,
  /// Of its most suspicious sentence, a kind each; the same as `whole` if it has but one.
  pub sentence: Logits,
}

/// The parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
  /// Version of the format: 2.
  pub version: u32,
  /// The share of attacks at which the probabilities are calibrated.
  pub prior: f32,
  /// While only the heads have looked.
  pub heads: Kinds,
  /// With the encoder.
  pub encoder: Kinds,
}

/// The parameters of either kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
  /// Of an instruction to the agent.
  pub injection: Weights,
  /// Of poison in the form of memory.
  pub poison: Weights,
}

/// The parameters of one kind. All but `bias` and `length` are zero or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
  /// The constant term.
  pub bias: f32,
  /// For each unit of [`length`]; of either sign.
  pub length: f32,
  /// For the findings of the rules.
  pub rules: f32,
  /// For the likeness to the nearest known attack.
  pub likeness: f32,
  /// For the logits of the heads: whole and sentence of injection, whole and sentence of poison.
  pub heads: [f32; 4],
  /// For the logits of the encoder, in that order.
  pub encoder: [f32; 4],
}

impl Fusion {
  /// Reads and checks the file.
  pub fn load(bytes: &[u8]) -> Result<Self, Damage> {
    let damage = |why| Damage::new("fusion", why);
    let text = str::from_utf8(bytes).ok().ok_or(damage("it is not text"))?;
    let fusion: Self = toml::from_str(text).ok().ok_or(damage("it is not in its format"))?;
    if fusion.version != 2 {
      return Err(damage("it is of another version"));
    }
    if !(fusion.prior > 0.0 && fusion.prior < 1.0) {
      return Err(damage("its prior is not between 0 and 1"));
    }
    let all = [&fusion.heads, &fusion.encoder].map(|kinds| [&kinds.injection, &kinds.poison]);
    if !all.iter().flatten().all(|weights| weights.are_sound()) {
      return Err(damage("a weight would turn evidence into its opposite"));
    }
    Ok(fusion)
  }

  /// The probability of each kind.
  pub fn probabilities(&self, seen: &Evidence) -> Probabilities {
    let kinds = if seen.encoder.is_some() { &self.encoder } else { &self.heads };
    let inputs = inputs(seen);
    Probabilities {
      injection: sigmoid(kinds.injection.logit(&inputs)),
      poison: sigmoid(kinds.poison.logit(&inputs)),
    }
  }
}

/// What a kind's weights are multiplied with: one, length, rules, likeness, heads, encoder.
pub type Inputs = [f32; 12];

/// The inputs that `seen` gives.
pub fn inputs(seen: &Evidence) -> Inputs {
  let share = |number: f32| if number.is_finite() { number.clamp(0.0, 1.0) } else { 0.0 };
  in_order(
    [1.0, length(seen.bytes), share(seen.rules), share(seen.likeness)],
    four(seen.heads),
    four(seen.encoder.unwrap_or_default()),
  )
}

fn in_order(first: [f32; 4], heads: [f32; 4], encoder: [f32; 4]) -> Inputs {
  let mut all = first.into_iter().chain(heads).chain(encoder);
  std::array::from_fn(|_| all.next().unwrap_or(0.0))
}

fn four(opinion: Opinion) -> [f32; 4] {
  let Opinion { whole, sentence } = opinion;
  [whole.injection, sentence.injection, whole.poison, sentence.poison]
    .map(|logit| if logit.is_nan() { 0.0 } else { logit.clamp(-MOST, MOST) })
}

/// How long a block is: 0 at 128 bytes, 1 more for each doubling, from -3 to 5. Short lines have
/// noisier logits.
pub fn length(bytes: usize) -> f32 {
  (libm::log2f(bytes.max(1) as f32) - 7.0).clamp(-3.0, 5.0)
}

impl Weights {
  /// In the order of [`Inputs`].
  pub fn from_inputs(weights: &Inputs) -> Self {
    let [bias, length, rules, likeness, heads @ .., _, _, _, _] = *weights;
    let [.., first, second, third, fourth] = *weights;
    Self { bias, length, rules, likeness, heads, encoder: [first, second, third, fourth] }
  }

  /// The log odds.
  pub fn logit(&self, inputs: &Inputs) -> f32 {
    let first = [self.bias, self.length, self.rules, self.likeness];
    let weights = in_order(first, self.heads, self.encoder);
    weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum()
  }

  fn are_sound(&self) -> bool {
    let rising = self.heads.iter().chain(&self.encoder).chain([&self.rules, &self.likeness]);
    self.bias.is_finite()
      && self.length.is_finite()
      && rising.into_iter().all(|weight| weight.is_finite() && *weight >= 0.0)
  }
}

fn sigmoid(logit: f32) -> f32 {
  1.0 / (1.0 + libm::expf(-logit))
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn shipped() -> Fusion {
    Fusion::load(include_bytes!("../../../models/fusion.toml")).unwrap()
  }

  fn evidence(numbers: &[f32; 8], rules: f32, has_encoder: bool, bytes: usize) -> Evidence {
    let logits = |at: usize| Logits { injection: numbers[at], poison: numbers[at + 1] };
    let heads = Opinion { whole: logits(0), sentence: logits(2) };
    let encoder = Opinion { whole: logits(4), sentence: logits(6) };
    let likeness = if has_encoder { rules } else { 0.0 };
    Evidence { heads, encoder: has_encoder.then_some(encoder), rules, likeness, bytes }
  }

  proptest! {
    #[test]
    fn more_evidence_never_lowers_a_probability(
      numbers in prop::array::uniform8(-40.0_f32..40.0),
      rules in 0.0_f32..1.0,
      has_encoder: bool,
      bytes in 0_usize..100_000,
      which in 0_usize..9,
      more in 0.0_f32..20.0,
    ) {
      let fusion = shipped();
      let before = fusion.probabilities(&evidence(&numbers, rules, has_encoder, bytes));
      let (mut numbers, mut rules) = (numbers, rules);
      match numbers.get_mut(which) {
        Some(number) => *number += more,
        None => rules += more,
      }
      let after = fusion.probabilities(&evidence(&numbers, rules, has_encoder, bytes));
      prop_assert!(after.injection >= before.injection && after.poison >= before.poison);
      prop_assert!((0.0..=1.0).contains(&after.injection) && (0.0..=1.0).contains(&after.poison));
    }
  }

  #[test]
  fn numbers_that_are_none_are_no_evidence() {
    let numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::NAN, 1.0, 2.0, f32::NAN];
    let found = shipped().probabilities(&evidence(&numbers, f32::NAN, true, usize::MAX));
    assert!(found.injection.is_finite() && found.poison.is_finite());
  }

  #[test]
  fn what_is_plainly_an_attack_and_what_is_not_come_out_apart() {
    let fusion = shipped();
    for has_encoder in [false, true] {
      let low = fusion.probabilities(&evidence(&[-6.0; 8], 0.0, has_encoder, 100));
      let high = fusion.probabilities(&evidence(&[6.0; 8], 0.9, has_encoder, 100));
      assert!(low.injection < 0.02 && low.poison < 0.02, "{low:?}");
      assert!(high.injection > 0.9 && high.poison > 0.9, "{high:?}");
    }
  }

  #[test]
  fn a_file_that_is_not_ours_is_damage() {
    let good = toml::to_string(&shipped()).unwrap();
    assert!(Fusion::load(good.as_bytes()).is_ok());
    for (from, to) in [
      ("version = 2", "version = 1"),
      ("prior = 0.", "prior = 7."),
      ("heads = [", "heads = [-1.0, "),
      ("rules = ", "rules = -"),
      ("bias = ", "bias = nan #"),
      ("[heads.poison]", "[heads.other]"),
    ] {
      let bad = good.replacen(from, to, 1);
      assert_ne!(bad, good, "{from}");
      assert!(Fusion::load(bad.as_bytes()).is_err(), "{to}");
    }
    assert!(Fusion::load(b"\xff").is_err());
  }
}
