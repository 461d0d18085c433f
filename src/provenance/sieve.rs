//! A fast test that a word is not in a set of words, by its first bytes: most words of a page are not in
//! a text, and need no lookup.
//!
//! Invariant: every word in the set passes, and every word that begins with the first four bytes of one.
#![forbid(unsafe_code)]

/// Bits of the filter: 16,384, so that about sixty of a thousand other words pass.
const BITS: usize = 1 << 14;
/// Multiplier that spreads neighbouring numbers (2^32 divided by the golden ratio).
const SPREAD: u32 = 0x9e37_79b1;

/// The first bytes of a set of words.
#[derive(Clone, Debug)]
pub(super) struct Sieve(Box<[u64]>);

impl Default for Sieve {
  fn default() -> Self {
    Self(vec![0; BITS / 64].into_boxed_slice())
  }
}

impl Sieve {
  pub(super) fn add(&mut self, word: &str) {
    let (index, bit) = place(word);
    if let Some(bits) = self.0.get_mut(index) {
      *bits |= bit;
    }
  }

  /// Whether a word may be in the set, or may begin like a word of the set.
  pub(super) fn passes(&self, word: &str) -> bool {
    let (index, bit) = place(word);
    self.0.get(index).is_none_or(|bits| bits & bit != 0)
  }
}

/// The number and the bit of a word. Short words are padded with zeros.
fn place(word: &str) -> (usize, u64) {
  let mut begin = [0; 4];
  begin.iter_mut().zip(word.bytes()).for_each(|(byte, of_word)| *byte = of_word);
  let place = (u32::from_le_bytes(begin).wrapping_mul(SPREAD) >> (32 - BITS.ilog2())) as usize;
  (place / 64, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[test]
  fn most_other_words_do_not_pass() {
    let mut sieve = Sieve::default();
    (0..100).for_each(|n| sieve.add(&format!("w{n}")));
    let n_passed = (100..10_000).filter(|n| sieve.passes(&format!("x{n}"))).count();
    assert!(n_passed < 500, "{n_passed}");
  }

  proptest! {
    #[test]
    fn what_is_in_it_passes_with_any_end(words in proptest::collection::vec("\\PC{0,9}", 0..9), end in "\\PC{0,5}") {
      let mut sieve = Sieve::default();
      for word in &words {
        sieve.add(word);
      }
      for word in &words {
        prop_assert!(sieve.passes(word));
        let bent = [word.as_str(), end.as_str()].concat();
        prop_assert!(word.len() < 4 || sieve.passes(&bent));
      }
    }
  }
}
