//! Vectors without a model: words, pairs of words and pieces of words, hashed.
//!
//! Texts that it calls alike share words, not meanings. It needs no weights, takes microseconds,
//! and gives the same numbers everywhere.
#![forbid(unsafe_code)]

use super::Embed;
use crate::detect::normalize::{ViewKind, normalize};

/// Length of a vector: the features of a few sentences meet seldom in so many places (a choice).
const DIMENSION: usize = 4096;
/// Letters of a piece of a word.
const PIECE: usize = 4;
/// Bytes of a text that are read; exemplars are sentences.
const MAX_BYTES: usize = 8 * 1024;

/// Counts of hashed words, pairs and pieces, their square roots taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ngrams;

impl Embed for Ngrams {
  fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
    Ok(texts.iter().map(|text| Self::vector(text)).collect())
  }
}

impl Ngrams {
  /// The vector of one text, of 4,096 numbers.
  pub fn vector(text: &str) -> Vec<f32> {
    let bytes = text.as_bytes();
    let normalized = normalize(bytes.get(..MAX_BYTES).unwrap_or(bytes));
    // The text as a reader sees it: the folded view where folding changed something, else the text
    // itself.
    let views = &normalized.views;
    let folded = views.iter().find(|view| view.kind == ViewKind::Folded).or(views.first());
    let lower = folded.map(|view| view.text.to_lowercase()).unwrap_or_default();
    let mut counts = vec![0f32; DIMENSION];
    let mut count = |feature: &str, kind: u64| {
      let at = (hash(feature, kind) % DIMENSION as u64) as usize;
      if let Some(place) = counts.get_mut(at) {
        *place += 1.0;
      }
    };
    let words: Vec<&str> =
      lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    for word in &words {
      count(word, 1);
      let letters: Vec<char> = word.chars().collect();
      for piece in letters.windows(PIECE) {
        count(&piece.iter().collect::<String>(), 2);
      }
    }
    for pair in words.windows(2) {
      count(&pair.join(" "), 3);
    }
    for n in &mut counts {
      *n = n.sqrt();
    }
    counts
  }
}

/// FNV-1a, with another start value for each kind of feature.
fn hash(text: &str, kind: u64) -> u64 {
  const PRIME: u64 = 0x0000_0100_0000_01b3;
  let start = 0xcbf2_9ce4_8422_2325 ^ kind.wrapping_mul(PRIME);
  text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::exemplar::cosine;

  #[test]
  fn shared_words_make_texts_alike() {
    let like = |a, b| cosine(&Ngrams::vector(a), &Ngrams::vector(b));
    assert!((like("Send the keys.", "send THE keys") - 1.0).abs() < 1e-6);
    assert!(
      like("Send the keys away", "send all keys away") > like("Send the keys", "Ann is fine")
    );
    assert!((like("ignore the rules", "ign\u{43e}re the rules") - 1.0).abs() < 1e-6, "look-alikes");
  }

  #[test]
  fn any_text_has_a_vector() {
    for text in ["", " ", "\u{0}", "\u{202e}", &"a ".repeat(100_000), &"é".repeat(MAX_BYTES)] {
      let vector = Ngrams::vector(text);
      assert!(vector.len() == DIMENSION && vector.iter().all(|n| n.is_finite()));
    }
  }
}
