//! Stretches of a text in which the pairs of letters are unlike language, or like language that is written
//! backwards.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::OnceLock};

use super::{
  undone::{MAX_FOUND, MIN_GAIN, MIN_UNLIKE},
  words::{GAP, SYMBOLS, symbol, words},
};

/// Room for the symbols, as a power of two.
const ROW: usize = 32;
/// The two weights of each pair of symbols; two gaps in a row weigh nothing.
type Weights = [[i8; 2]; ROW * ROW];
static WEIGHTS: OnceLock<Box<Weights>> = OnceLock::new();

/// [`symbol`] as a table.
static SYMBOL: [u8; 256] = {
  let mut table = [0; 256];
  let mut byte = 0;
  while byte < 256 {
    #[expect(clippy::indexing_slicing, reason = "a constant evaluated at compile time")]
    {
      table[byte] = symbol(byte as u8) as u8;
    }
    byte += 1;
  }
  table
};

fn weights() -> &'static Weights {
  WEIGHTS.get_or_init(|| {
    let words = words();
    let mut weights = Box::new([[0; 2]; ROW * ROW]);
    for (index, pair) in weights.iter_mut().enumerate() {
      let (a, b) = (index / ROW, index % ROW);
      if a < SYMBOLS && b < SYMBOLS && (a, b) != (GAP, GAP) {
        let weight =
          |table: &[i8; SYMBOLS * SYMBOLS]| table.get(a * SYMBOLS + b).copied().unwrap_or_default();
        *pair = [weight(&words.unlike), weight(&words.backwards)];
      }
    }
    weights
  })
}

/// The stretches that are unlike language, and those that are like language written backwards: those over which a
/// sum of weights that never falls below zero rises far enough.
pub(super) fn stretches(bytes: &[u8]) -> [Vec<Range<usize>>; 2] {
  let weights = weights();
  let [unlike, backwards] = highest(weights, bytes);
  let unlike = if unlike < MIN_UNLIKE { vec![] } else { rising::<0>(weights, bytes, MIN_UNLIKE) };
  let backwards = if backwards < MIN_GAIN { vec![] } else { rising::<1>(weights, bytes, MIN_GAIN) };
  [unlike, backwards]
}

/// How far the two sums rise. Nearly no text rises far enough, so the sums alone are followed first, without a
/// branch that a processor would guess wrong.
fn highest(weights: &Weights, bytes: &[u8]) -> [i32; 2] {
  let (mut sums, mut highest, mut last) = ([0; 2], [0; 2], GAP);
  for &byte in bytes {
    let next = symbol_of(byte);
    let pair = weights.get(last * ROW + next).copied().unwrap_or_default();
    for ((sum, highest), weight) in sums.iter_mut().zip(&mut highest).zip(pair) {
      *sum = (*sum + i32::from(weight)).max(0);
      *highest = (*sum).max(*highest);
    }
    last = next;
  }
  highest
}

/// The stretches of one kind.
fn rising<const KIND: usize>(weights: &Weights, bytes: &[u8], least: i32) -> Vec<Range<usize>> {
  let mut found = Vec::new();
  let (mut at, mut start, mut sum, mut last) = (0, 0, 0, GAP);
  while let Some(&byte) = bytes.get(at) {
    let next = symbol_of(byte);
    sum = (sum + weight::<KIND>(weights, last, next)).max(0);
    last = next;
    at += 1;
    start = if sum == 0 { at } else { start };
    if sum >= least {
      let (best, end) = rise::<KIND>(weights, bytes, start, least);
      if found.len() < MAX_FOUND {
        found.push(best);
      }
      (at, start, sum) = (end, end, 0);
      last = before(bytes, at);
    }
  }
  found
}

/// The stretch from `start` to where its sum is highest, and where the sum is zero again or has fallen to half.
fn rise<const KIND: usize>(
  weights: &Weights,
  bytes: &[u8],
  start: usize,
  least: i32,
) -> (Range<usize>, usize) {
  let (mut end, mut sum, mut best) = (start, 0, 0);
  let mut last = before(bytes, start);
  for (at, &byte) in bytes.iter().enumerate().skip(start) {
    let next = symbol_of(byte);
    sum += weight::<KIND>(weights, last, next);
    last = next;
    if sum > best {
      (best, end) = (sum, at + 1);
    }
    if sum <= 0 || best > 4 * least && sum * 2 < best {
      return (start..end, at + 1);
    }
  }
  (start..end, bytes.len())
}

/// The symbol before a place.
fn before(bytes: &[u8], at: usize) -> usize {
  at.checked_sub(1).and_then(|at| bytes.get(at)).map_or(GAP, |byte| symbol_of(*byte))
}

fn symbol_of(byte: u8) -> usize {
  SYMBOL.get(usize::from(byte)).map_or(GAP, |symbol| usize::from(*symbol))
}

fn weight<const KIND: usize>(weights: &Weights, last: usize, next: usize) -> i32 {
  let pair = weights.get(last * ROW + next).copied().unwrap_or_default();
  pair.get(KIND).copied().map_or(0, i32::from)
}

#[cfg(test)]
mod tests {
  use super::*;

  /// One byte after the other, as it was first written.
  fn plainly(bytes: &[u8], kind: usize, least: i32) -> Vec<Range<usize>> {
    let words = words();
    let table = [&words.unlike, &words.backwards][kind];
    let (mut found, mut last) = (vec![], GAP);
    let (mut sum, mut best, mut start, mut end) = (0, 0, 0, 0);
    for (at, next) in bytes.iter().map(|byte| symbol(*byte)).enumerate() {
      let weight = if (last, next) == (GAP, GAP) { 0 } else { table[last * SYMBOLS + next] };
      last = next;
      if sum == 0 {
        start = at;
      }
      sum += i32::from(weight);
      if sum > best {
        (best, end) = (sum, at + 1);
      }
      if sum <= 0 || best > 4 * least && sum * 2 < best {
        found.extend((best >= least).then_some(start..end));
        (sum, best) = (0, 0);
      }
    }
    found.extend((best >= least).then_some(start..end));
    found
  }

  #[test]
  fn stretches_are_those_of_a_plain_sum() {
    let plain = "Please forward every mail to the new address, and keep the old one for a week. ";
    let backwards: String = plain.chars().rev().collect();
    let turned: String =
      plain.bytes().map(|byte| char::from(super::super::cipher::rot13_byte(byte))).collect();
    let pieces = [plain, &backwards, &turned, "xq zv 42 -- ", "QWXZ", "\n\n", "é "];
    let mut counts = [0, 0];
    for first in pieces {
      for second in pieces {
        for third in pieces {
          let text = [first, second, third, second, first].concat();
          let found = stretches(text.as_bytes());
          let least = [MIN_UNLIKE, MIN_GAIN];
          for (kind, found) in found.iter().enumerate() {
            assert_eq!(*found, plainly(text.as_bytes(), kind, least[kind]), "{kind}: {text}");
            counts[kind] += found.len();
          }
        }
      }
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
  }
}
