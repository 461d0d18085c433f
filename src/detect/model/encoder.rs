//! The encoder: a small transformer that reads what n-grams cannot.
//!
//! It gives two numbers a text: injection, memory poison. A third number, authority, comes from a
//! second run over the known facts and then the text, through layers of its own above the lowest
//! ones; a text without known facts has no second run. `fusion` and `power` decide what the numbers
//! mean. `weights` reads the file, `network` is the transformer, `numbers` its arithmetic.
//!
//! Each text is run alone. The numbers inside are quantised by the range of all that is run together, so
//! in a batch the score of a text would depend on its neighbours, whom an attacker may choose.
//!
//! Invariant: the same text has the same logits, bit by bit, on every processor, whatever else was scored
//! and on how many threads (docs/adr/0011).
#![forbid(unsafe_code)]

mod network;
mod numbers;
mod packed;
mod weights;

use rayon::{ThreadPool, ThreadPoolBuilder};

use self::{
  network::RunBuffers,
  packed::Packed,
  weights::{Upper, Weights},
};
use super::{Damage, Logits, Tokenizer};

/// The pieces of a text that are read, the first and the last included: as many as in training.
pub const MAX_TOKENS: usize = 128;

/// The pieces that are read of what is known about a text, the first and the last included: as many as in
/// training.
pub const MAX_CONTEXT: usize = 40;

/// A model with its vocabulary.
pub struct Encoder {
  weights: Weights,
  upper: Upper,
  tokenizer: Tokenizer,
}

thread_local! {
  /// Keeps a product on the thread that asks for it: in the background of a daemon more threads
  /// would only slow down other programs, and a scan in bulk already keeps all of them busy.
  static ALONE: Option<ThreadPool> =
    ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok();
}

impl Encoder {
  /// An encoder from two compressed ONNX files, of which the second has the layers of the third output, and
  /// their vocabulary.
  pub fn load(model: &[u8], authority: &[u8], vocabulary: &'static [u8]) -> Result<Self, Damage> {
    let tokenizer = Tokenizer::load(vocabulary)?;
    let unpacked =
      |name, file| Packed::new(file).ok_or(Damage::new(name, "it cannot be decompressed"));
    let weights = Weights::read(unpacked("encoder", model)?);
    let weights = weights.ok_or(Damage::new("encoder", "it is not of the expected shape"))?;
    if !weights.cover(tokenizer.pieces(), MAX_TOKENS) {
      return Err(Damage::new("encoder", "it does not fit the vocabulary"));
    }
    let upper = Upper::read(unpacked("authority", authority)?, &weights);
    let upper = upper.ok_or(Damage::new("authority", "it does not fit the encoder"))?;
    let encoder = Self { weights, upper, tokenizer };
    // Files that cannot be run are found here and not in the middle of the work.
    encoder.logits(&[""])?;
    encoder.authority("", &[""])?;
    Ok(encoder)
  }

  /// What it says about each of these texts, on the thread that asks.
  pub fn logits(&self, texts: &[&str]) -> Result<Vec<Logits>, Damage> {
    if !ALONE.with(Option::is_some) {
      return Err(Damage::new("encoder", "its thread cannot be set apart"));
    }
    let mut desk = RunBuffers::default();
    texts.iter().map(|text| self.of_text(text, &mut desk)).collect()
  }

  /// How much authority each of these texts takes, behind what is known about all of them, on the thread that
  /// asks.
  pub fn authority(&self, context: &str, texts: &[&str]) -> Result<Vec<f32>, Damage> {
    if !ALONE.with(Option::is_some) {
      return Err(Damage::new("encoder", "its thread cannot be set apart"));
    }
    let mut desk = RunBuffers::default();
    let of_text = |text: &&str| {
      let ids = self.tokenizer.encode_pair(context, MAX_CONTEXT, text, MAX_TOKENS);
      let logit = self.weights.authority(&self.upper, &ids, &mut desk);
      let logit = logit.ok_or(Damage::new("authority", "it does not run"))?;
      if logit.is_finite() {
        Ok(logit)
      } else {
        Err(Damage::new("authority", "it gives no number"))
      }
    };
    texts.iter().map(of_text).collect()
  }

  fn of_text(&self, text: &str, desk: &mut RunBuffers) -> Result<Logits, Damage> {
    let ids = self.tokenizer.encode(text, MAX_TOKENS);
    let logits = self.weights.logits(&ids, desk, |_states| {});
    let [injection, poison] = logits.ok_or(Damage::new("encoder", "it does not run"))?;
    if !(injection.is_finite() && poison.is_finite()) {
      return Err(Damage::new("encoder", "it gives no number"));
    }
    Ok(Logits { injection, poison })
  }
}

impl std::fmt::Debug for Encoder {
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.debug_struct("Encoder").finish_non_exhaustive()
  }
}

#[cfg(test)]
mod tests {
  use std::fmt::Write as _;

  use rten_gemm::{GemmInputA, GemmInputB, GemmOptions, QuantParams};
  use rten_tensor::NdTensorView;

  use super::*;
  use crate::detect::model::digest::EMBEDDED;

  const MODEL: &[u8] = include_bytes!("../../../fixtures/encoder/tiny.onnx");
  const VOCABULARY: &[u8] = include_bytes!("../../../fixtures/tokenizer/vocabulary.txt");

  fn packed(model: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(model, 1).unwrap()
  }
  const REFERENCE: &str = include_str!("../../../fixtures/encoder/tiny.jsonl");
  /// Another run time rounds elsewhere, and one number that is rounded to its neighbour moves the result
  /// by a few thousandths; a wrong operator or weight moves it by tenths.
  const TOLERANCE: f32 = 0.02;

  fn encoder() -> Encoder {
    Encoder::load(&packed(MODEL), &packed(&weights::tests::upper()), VOCABULARY).unwrap()
  }

  fn embedded() -> Encoder {
    Encoder::load(EMBEDDED.encoder, EMBEDDED.authority, EMBEDDED.vocabulary).unwrap()
  }

  fn references() -> Vec<(String, Logits)> {
    let lines = REFERENCE.lines().map(|line| {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let logits: [f32; 2] = serde_json::from_value(one["logits"].clone()).unwrap();
      let logits = Logits { injection: logits[0], poison: logits[1] };
      (one["text"].as_str().unwrap().to_owned(), logits)
    });
    lines.collect()
  }

  #[test]
  fn it_says_what_the_reference_run_time_says() {
    let encoder = encoder();
    let references = references();
    assert!(references.len() > 40);
    for (text, expected) in &references {
      let found = encoder.logits(&[text]).unwrap()[0];
      let off = (found.injection - expected.injection).abs();
      let off = off.max((found.poison - expected.poison).abs());
      assert!(off < TOLERANCE, "{text:?}: {found:?}, expected {expected:?}");
    }
  }

  #[test]
  fn the_shipped_encoder_says_layer_by_layer_what_its_training_said() {
    let reference = include_str!("../../../fixtures/encoder/reference.jsonl");
    let encoder = embedded();
    let mut all = Vec::new();
    for line in reference.lines() {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let text = one["text"].as_str().unwrap();
      let ids: Vec<i32> = serde_json::from_value(one["ids"].clone()).unwrap();
      assert_eq!(encoder.tokenizer.encode(text, MAX_TOKENS), ids, "{text:?}");
      let off = |numbers: &[f32], expected: &serde_json::Value| {
        let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
        assert!(numbers.iter().all(|x| x.is_finite()), "{numbers:?}");
        let pairs = numbers.iter().zip(&expected);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
      };
      let mut states = Vec::new();
      let shown = |all: &[f32]| states.push(all.to_vec());
      let logits = encoder.weights.logits(&ids, &mut RunBuffers::default(), shown).unwrap();
      let expected = one["hidden"].as_array().unwrap();
      assert_eq!(states.len(), expected.len());
      for (layer, (state, expected)) in states.iter().zip(expected).enumerate() {
        let off = off(state, expected);
        assert!(off < 0.05, "layer {layer} of {text:?} is off by {off}");
      }
      all.push(off(&logits, &one["logits"]));
    }
    all.sort_by(f32::total_cmp);
    assert!(all.len() > 20, "{} references", all.len());
    // A number that is rounded elsewhere moves a logit, by 0.09 at most in these 58 texts.
    let at = |share: usize| all.get(all.len() * share / 100).copied().unwrap_or(f32::NAN);
    assert!(at(50) < 0.001 && at(90) < 0.1 && at(99) < 0.2, "{all:?}");
  }

  #[test]
  fn the_shipped_encoder_reads_behind_a_context_what_its_training_read() {
    let reference = include_str!("../../../fixtures/encoder/authority.jsonl");
    let encoder = embedded();
    let mut all = Vec::new();
    for line in reference.lines() {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let of = |name: &str| one[name].as_str().unwrap();
      let context = format!("{}. asked: {}", of("kind"), of("asked"));
      let ids: Vec<i32> = serde_json::from_value(one["ids"].clone()).unwrap();
      let found = encoder.tokenizer.encode_pair(&context, MAX_CONTEXT, of("text"), MAX_TOKENS);
      assert_eq!(found, ids, "{context:?}");
      let logit = encoder.authority(&context, &[of("text")]).unwrap()[0];
      all.push((logit - one["authority"].as_f64().unwrap() as f32).abs());
    }
    all.sort_by(f32::total_cmp);
    assert!(all.len() > 20, "{} references", all.len());
    let at = |share: usize| all.get(all.len() * share / 100).copied().unwrap_or(f32::NAN);
    assert!(at(50) < 0.02 && at(90) < 0.15 && at(99) < 0.3, "{all:?}");
  }

  #[test]
  fn every_processor_gives_these_bits() {
    let reference = include_str!("../../../fixtures/encoder/reference.jsonl");
    let encoder = embedded();
    let mut found = String::new();
    // Not all of them: this runs on emulated processors, too (`tests/processors.sh`).
    for line in reference.lines().step_by(6) {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let text = one["text"].as_str().unwrap();
      let Logits { injection, poison } = encoder.logits(&[text]).unwrap()[0];
      let words: String = text.chars().take(30).collect();
      let line = format!("{:08x} {:08x} {words:?}\n", injection.to_bits(), poison.to_bits());
      found.push_str(&line);
    }
    let reference = include_str!("../../../fixtures/encoder/authority.jsonl");
    for line in reference.lines().step_by(8) {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let of = |name: &str| one[name].as_str().unwrap();
      let context = format!("{}. asked: {}", of("kind"), of("asked"));
      let authority = encoder.authority(&context, &[of("text")]).unwrap()[0];
      let words: String = of("text").chars().take(30).collect();
      writeln!(found, "authority {:08x} {words:?}", authority.to_bits()).unwrap();
    }
    insta::assert_snapshot!(found);
  }

  #[test]
  fn products_with_bytes_are_exact() {
    // The largest of either sign, so that sums of two would overflow sixteen bits with larger weights.
    let (rows, inputs, outputs) = (5, 1536, 48);
    let left: Vec<u8> = (0..rows * inputs).map(|n| if n % 7 < 5 { 255 } else { n as u8 }).collect();
    let right: Vec<i8> = (0..inputs * outputs).map(|n| [64, 64, -64, 63][n % 11 % 4]).collect();
    let multiplier = weights::Multiplier::new();
    println!("multiplied by {}", multiplier.kernel_name());
    let packed = multiplier.prepack_b(NdTensorView::from_data([inputs, outputs], right.as_slice()));
    let view = NdTensorView::from_data([rows, inputs], left.as_slice());
    let mut found = vec![0; rows * outputs];
    let (a, b) = (GemmInputA::Unpacked(view), GemmInputB::Packed(&packed));
    let a_quant = Some(QuantParams { zero_point: &[131; 5] });
    multiplier.gemm(&mut found, a, b, GemmOptions { a_quant, ..GemmOptions::default() }).unwrap();
    let expected: Vec<i32> = left
      .chunks(inputs)
      .flat_map(|row| {
        let right = &right;
        (0..outputs).map(move |column| {
          let column = right.iter().skip(column).step_by(outputs);
          row.iter().zip(column).map(|(x, y)| (i32::from(*x) - 131) * i32::from(*y)).sum()
        })
      })
      .collect();
    assert_eq!(found, expected);
  }

  #[test]
  fn neighbours_and_threads_change_nothing() {
    let encoder = encoder();
    let references = references();
    let texts: Vec<&str> = references.iter().map(|(text, _)| text.as_str()).collect();
    let alone: Vec<Logits> =
      texts.iter().flat_map(|text| encoder.logits(&[text]).unwrap()).collect();
    assert_eq!(encoder.logits(&texts).unwrap(), alone);
    std::thread::scope(|scope| {
      let abreast = [(); 3].map(|()| scope.spawn(|| encoder.logits(&texts).unwrap()));
      for one in abreast {
        assert_eq!(one.join().unwrap(), alone);
      }
    });
    assert!(encoder.logits(&[]).unwrap().is_empty());
    let context = "web page. asked: the hours";
    let authority: Vec<f32> =
      texts.iter().flat_map(|text| encoder.authority(context, &[text]).unwrap()).collect();
    assert_eq!(encoder.authority(context, &texts).unwrap(), authority);
    assert_ne!(encoder.authority("mail. asked: the hours", &texts).unwrap(), authority);
  }

  #[test]
  fn a_file_that_is_no_encoder_is_damaged() {
    let upper = packed(&weights::tests::upper());
    assert!(Encoder::load(b"", &upper, VOCABULARY).is_err());
    assert!(Encoder::load(MODEL, &upper, VOCABULARY).is_err(), "it is not compressed");
    assert!(Encoder::load(&packed(MODEL), b"", VOCABULARY).is_err());
    assert!(Encoder::load(&packed(MODEL), &packed(MODEL), VOCABULARY).is_err());
    assert!(
      Encoder::load(&packed(MODEL), EMBEDDED.authority, VOCABULARY).is_err(),
      "of another one"
    );
    let half = MODEL.get(..MODEL.len() / 2).unwrap();
    assert!(Encoder::load(&packed(half), &upper, VOCABULARY).is_err());
    assert!(Encoder::load(&packed(MODEL), &upper, b"[PAD]\n").is_err());
    assert!(Encoder::load(&packed(MODEL), &upper, EMBEDDED.vocabulary).is_err(), "of another one");
  }
}
