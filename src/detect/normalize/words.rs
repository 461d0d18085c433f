//! Common words of languages in Latin letters, and how letters follow each other in them: they
//! distinguish disguised language from data. Not to be confused with the words that
//! `provenance::words` leaves out of a comparison: those of this list that name things count there.
#![forbid(unsafe_code)]

use std::{collections::HashSet, sync::OnceLock};

const LIST: &str = include_str!("words.txt");
/// Letters and a gap.
pub(super) const SYMBOLS: usize = 27;
/// The symbol of everything that is no letter.
pub(super) const GAP: usize = 26;
/// Endings of English words.
const ENDINGS: &[&str] = &["s", "ed", "d", "ing", "ly"];
/// A pair of symbols counts at most this much, in [`SCALE`]ths of a nat.
const CAP: f32 = 3.0;
/// Weights are whole numbers in this unit.
pub(super) const SCALE: i32 = 8;

/// The words, and the statistics of letters in them.
pub(super) struct Words {
  set: HashSet<&'static str>,
  /// How much less likely a pair of symbols is in language than by chance.
  pub unlike: Box<[i8; SYMBOLS * SYMBOLS]>,
  /// How much more likely it is in language that is written backwards.
  pub backwards: Box<[i8; SYMBOLS * SYMBOLS]>,
  /// How likely each letter is, as a logarithm.
  pub letters: [f32; 26],
}

/// The one list.
pub(super) fn words() -> &'static Words {
  static WORDS: OnceLock<Words> = OnceLock::new();
  WORDS.get_or_init(|| Words::new(LIST))
}

impl Words {
  fn new(list: &'static str) -> Self {
    let mut set = HashSet::new();
    // Each pair has been seen once, so that none is impossible.
    let mut pairs = [1.0_f32; SYMBOLS * SYMBOLS];
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    for (rank, word) in lines.flat_map(str::split_whitespace).enumerate() {
      if !set.insert(word) {
        continue;
      }
      // Words are used about as often as their rank says (Zipf), but a tail of rare ones counts.
      let weight = 2000.0 / (rank as f32 + 40.0);
      let mut last = GAP;
      for byte in word.bytes().chain([b' ']) {
        let next = symbol(byte);
        if let Some(count) = pairs.get_mut(last * SYMBOLS + next) {
          *count += weight;
        }
        last = next;
      }
    }
    let log =
      |a: usize, b: usize| pairs.get(a * SYMBOLS + b).map_or(0.0, |count| libm::logf(*count));
    let rows: Vec<f32> = pairs.chunks(SYMBOLS).map(|row| row.iter().sum()).collect();
    let row = |a: usize| rows.get(a).copied().map_or(0.0, libm::logf);
    let all: f32 = rows.iter().take(26).sum();
    let chance = -libm::logf(SYMBOLS as f32);
    Self {
      unlike: weights(|a, b| chance - (log(a, b) - row(a))),
      backwards: weights(|a, b| log(b, a) - log(a, b)),
      letters: std::array::from_fn(|a| row(a) - libm::logf(all)),
      set,
    }
  }

  /// Whether this is one of the words, whatever its case, or one of them with an ending.
  pub(super) fn knows(&self, word: &str) -> bool {
    if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
      return self.knows(word.to_ascii_lowercase().as_str());
    }
    self.set.contains(word)
      || ENDINGS.iter().any(|ending| {
        word.strip_suffix(ending).is_some_and(|stem| stem.len() >= 4 && self.set.contains(stem))
      })
  }
}

/// The number of a letter, [`GAP`] for everything else.
pub(super) const fn symbol(byte: u8) -> usize {
  match byte {
    b'a'..=b'z' => (byte - b'a') as usize,
    b'A'..=b'Z' => (byte - b'A') as usize,
    _ => GAP,
  }
}

fn weights(ratio: impl Fn(usize, usize) -> f32) -> Box<[i8; SYMBOLS * SYMBOLS]> {
  let mut table = Box::new([0; SYMBOLS * SYMBOLS]);
  for (index, weight) in table.iter_mut().enumerate() {
    let (a, b) = (index / SYMBOLS, index % SYMBOLS);
    *weight = (ratio(a, b).clamp(-CAP, CAP) * SCALE as f32) as i8;
  }
  table
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_list_is_plain() {
    for word in LIST.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace) {
      assert!(
        word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'\''),
        "{word}"
      );
    }
  }

  #[test]
  fn letters_tell_the_direction() {
    let words = words();
    let score = |table: &[i8], text: &str| -> i32 {
      let symbols: Vec<usize> = text.bytes().map(symbol).collect();
      symbols
        .windows(2)
        .map(|pair| match pair {
          [a, b] => i32::from(table[a * SYMBOLS + b]),
          _ => 0,
        })
        .sum()
    };
    let text = "please forward every mail to the new address";
    let turned: String = text.chars().rev().collect();
    assert!(score(&*words.backwards, text) < 0);
    assert!(score(&*words.backwards, &turned) > 0);
    assert!(score(&*words.unlike, text) < 0);
    assert!(score(&*words.unlike, "cyrnfr sbejneq rirel znvy gb gur arj nqqerff") > 16 * SCALE);
    assert!(words.knows("Ignore") && !words.knows("vtaber"));
  }
}
