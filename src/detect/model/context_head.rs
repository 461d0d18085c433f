//! The head that sees a text in its context: one linear model over hashed features, for authority.
//!
//! Its file: a magic, the bits of a hash that are used, the shape of the n-grams, scale and bias as floats, then
//! a weight of eight bits a bucket.
#![forbid(unsafe_code)]

use super::{
  Damage,
  context::Context,
  context_features::{Parts, Prepared},
  features::Shape,
};
use crate::detect::{effects::FoundEffect, rules::sentences};

const MAGIC: &[u8] = b"memfwc1\0";
const HEADER: usize = MAGIC.len() + 8 + 2 * 4;
/// Bits of a hash that a file may use.
const BITS: std::ops::RangeInclusive<u8> = 10..=20;
/// A sentence with fewer words is not read alone.
const MIN_WORDS: usize = 2;
/// Sentences that are read on their own, at most.
const MAX_SENTENCES: usize = 256;

/// The weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextHead {
  bits: u8,
  shape: Shape,
  scale: f32,
  bias: f32,
  weights: Vec<i8>,
}

/// The logits of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spoken {
  /// Of all of it.
  pub whole: f32,
  /// Of its most suspicious sentence; the same as `whole` if it has but one.
  pub sentence: f32,
}

impl ContextHead {
  /// Reads what [`ContextHead::bytes`] wrote.
  pub fn load(bytes: &[u8]) -> Result<Self, Damage> {
    let damage = |why| Damage::new("context head", why);
    let (header, rest) = bytes.split_at_checked(HEADER).ok_or(damage("it is cut short"))?;
    let (magic, header) = header.split_at(MAGIC.len());
    if magic != MAGIC {
      return Err(damage("it is of another kind or version"));
    }
    let &[bits, words, gaps @ 0..=1, least, most, 0, 0, 0, ref numbers @ ..] = header else {
      return Err(damage("its header is not memfw's"));
    };
    let shape = Shape { words, gaps: gaps == 1, least, most };
    if !BITS.contains(&bits) || !shape.is_known() {
      return Err(damage("its shape is not known"));
    }
    if rest.len() != 1 << bits {
      return Err(damage("its size is not the one it names"));
    }
    let (floats, _) = numbers.as_chunks();
    let mut floats = floats.iter().map(|chunk| f32::from_le_bytes(*chunk));
    let (Some(scale), Some(bias)) = (floats.next(), floats.next()) else {
      return Err(damage("it is cut short"));
    };
    if !(scale.is_finite() && bias.is_finite()) {
      return Err(damage("one of its numbers is not finite"));
    }
    let weights = rest.iter().map(|weight| weight.cast_signed()).collect();
    Ok(Self { bits, shape, scale, bias, weights })
  }

  /// Rounds trained weights to eight bits. Their number must be a power of two.
  pub fn quantise(shape: Shape, weights: &[f32], bias: f32) -> Self {
    let bits = weights.len().ilog2() as u8;
    let largest = weights.iter().fold(f32::MIN_POSITIVE, |most, weight| most.max(weight.abs()));
    let scale = largest / 127.0;
    let round = |weight: &f32| (weight / scale).round().clamp(-127.0, 127.0) as i8;
    Self { bits, shape, scale, bias, weights: weights.iter().map(round).collect() }
  }

  /// The file.
  pub fn bytes(&self) -> Vec<u8> {
    let Shape { words, gaps, least, most } = self.shape;
    let mut bytes = MAGIC.to_vec();
    bytes.extend([self.bits, words, u8::from(gaps), least, most, 0, 0, 0]);
    bytes.extend(self.scale.to_le_bytes());
    bytes.extend(self.bias.to_le_bytes());
    bytes.extend(self.weights.iter().map(|weight| weight.cast_unsigned()));
    bytes
  }

  /// Reads `text`, the folded view of a block, in its context.
  pub fn read(&self, text: &str, context: &Context<'_>, effects: &[FoundEffect]) -> Spoken {
    self.read_parts(text, context, effects, Parts::ALL)
  }

  /// Reads `text` with some parts of its context only.
  pub fn read_parts(
    &self,
    text: &str,
    context: &Context<'_>,
    effects: &[FoundEffect],
    parts: Parts,
  ) -> Spoken {
    let prepared = Prepared::new(context, effects, parts);
    let (mut out, mut spare) = (Vec::with_capacity(1024), Vec::with_capacity(256));
    let mut unit = |text: &str| self.unit(&prepared, text, (&mut out, &mut spare));
    let (whole, _) = unit(text);
    let all = sentences(text);
    let mut sentence: Option<f32> = None;
    if all.len() > 1 {
      for range in all.into_iter().take(MAX_SENTENCES) {
        let (logit, n_words) = unit(text.get(range).unwrap_or_default());
        if n_words >= MIN_WORDS {
          sentence = Some(sentence.map_or(logit, |most| most.max(logit)));
        }
      }
    }
    Spoken { whole, sentence: sentence.unwrap_or(whole) }
  }

  fn unit(
    &self,
    prepared: &Prepared,
    text: &str,
    (out, spare): (&mut Vec<u32>, &mut Vec<u32>),
  ) -> (f32, usize) {
    let n_words = prepared.extract(text, self.shape, out, spare);
    let weight = |hash: &u32| self.weights.get((hash >> (32 - self.bits)) as usize).copied();
    let sum: i32 = out.iter().filter_map(weight).map(i32::from).sum();
    // The features are a vector of length one, so that long texts are not louder than short ones.
    let unit = 1.0 / (out.len().max(1) as f32).sqrt();
    (self.bias + self.scale * (sum as f32 * unit), n_words)
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::model::context::Kind;

  const SHAPE: Shape = Shape { words: 1, gaps: false, least: 3, most: 0 };
  const PAGE: Context<'static> = Context { kind: Kind::Page, asked: "", known: &[] };

  /// A head that fears one word, and fears it more on a page.
  fn taught() -> ContextHead {
    let mut weights = vec![0.0; 1 << 12];
    let (mut plain, mut page, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    let of = |context: &Context<'_>, out: &mut Vec<u32>, spare: &mut Vec<u32>| {
      Prepared::new(context, &[], Parts::ALL).extract("wallet", SHAPE, out, spare)
    };
    of(&Context::default(), &mut plain, &mut spare);
    of(&PAGE, &mut page, &mut spare);
    for hash in page.iter().filter(|hash| !plain.contains(hash)) {
      weights[(hash >> 20) as usize] = 3.0;
    }
    ContextHead::quantise(SHAPE, &weights, -2.0)
  }

  #[test]
  fn a_file_is_read_as_it_was_written_and_nothing_else_is_read() {
    let head = taught();
    let bytes = head.bytes();
    assert_eq!(ContextHead::load(&bytes).unwrap(), head);
    for length in [0, 7, HEADER - 1, HEADER, bytes.len() - 1] {
      assert!(ContextHead::load(&bytes[..length]).is_err(), "{length}");
    }
    assert!(ContextHead::load(&[bytes.as_slice(), &[0]].concat()).is_err());
    for (at, value) in [(0, b'x'), (8, 13), (8, 40), (9, 9), (10, 2), (12, 77), (15, 1)] {
      let mut bad = bytes.clone();
      bad[at] = value;
      assert!(ContextHead::load(&bad).is_err(), "byte {at}");
    }
    let mut bad = bytes;
    bad[16..20].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(ContextHead::load(&bad).is_err());
  }

  #[test]
  fn the_source_counts_and_the_worst_sentence_stands_out() {
    let head = taught();
    let note = "It rained a lot on the way home. The wallet goes to him. Ann slept.";
    let (page, nobody) = (head.read(note, &PAGE, &[]), head.read(note, &Context::default(), &[]));
    assert!(page.sentence > page.whole && page.whole > nobody.whole, "{page:?} {nobody:?}");
    let alone = head.read("The wallet goes to him.", &PAGE, &[]);
    assert_eq!(alone.whole.to_bits(), alone.sentence.to_bits());
    assert_eq!(head.read("", &Context::default(), &[]).whole.to_bits(), (-2.0_f32).to_bits());
  }
}
