//! Where one statement ends and the next begins.
//!
//! Rules look at one sentence, or at a sentence and its neighbours. The units tile the text except
//! for white space, and none is longer than [`MAX_UNIT`] by more than one word.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A longer sentence is cut at the next space.
const MAX_UNIT: usize = 700;

/// Bytes that a sentence may end at. The last four are the last bytes of `。`, `！`, `？`, `；`.
static MAY_END: [bool; 256] = {
  let mut table = [false; 256];
  let ends = b"\n\r.!?;\x82\x81\x9f\x9b";
  let mut index = 0;
  while index < ends.len() {
    #[expect(clippy::indexing_slicing, reason = "a constant evaluated at compile time")]
    {
      table[ends[index] as usize] = true;
    }
    index += 1;
  }
  table
};

/// The sentences of `text`.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
  let bytes = text.as_bytes();
  let mut units = Vec::with_capacity(text.len() / 64 + 1);
  let (mut start, mut at) = (0, 0);
  // Where the next sign is that may end a sentence; it stays where a long sentence is cut before it.
  let mut sign = next_sign(bytes, 0);
  loop {
    // The first space that makes the sentence too long.
    let long = (start + MAX_UNIT).max(at);
    let cut = bytes.get(long..sign).and_then(|rest| rest.iter().position(|byte| *byte == b' '));
    if let Some(cut) = cut {
      at = long + cut + 1;
      push(&mut units, bytes, start..at);
      start = at;
      continue;
    }
    let Some(&byte) = bytes.get(sign) else { break };
    at = sign + 1;
    let ends = match byte {
      b'\n' | b'\r' => true,
      b'.' | b'!' | b'?' | b';' => ends_sentence(bytes, at),
      0x82 => bytes.get(at.saturating_sub(3)..at) == Some("。".as_bytes()),
      _ => {
        let sign = bytes.get(at.saturating_sub(3)..at);
        sign == Some("！".as_bytes())
          || sign == Some("？".as_bytes())
          || sign == Some("；".as_bytes())
      }
    };
    if ends {
      while matches!(byte, b'.' | b'!' | b'?')
        && let Some(b'"' | b'\'' | b')' | b']') = bytes.get(at)
      {
        at += 1;
      }
      push(&mut units, bytes, start..at);
      start = at;
    }
    sign = next_sign(bytes, at);
  }
  push(&mut units, bytes, start..bytes.len());
  units
}

fn next_sign(bytes: &[u8], from: usize) -> usize {
  let may_end = |byte: &u8| MAY_END.get(usize::from(*byte)).copied().unwrap_or(false);
  let rest = bytes.get(from..).unwrap_or_default();
  rest.iter().position(may_end).map_or(bytes.len(), |at| from + at)
}

fn push(units: &mut Vec<Range<usize>>, bytes: &[u8], range: Range<usize>) {
  let slice = bytes.get(range.clone()).unwrap_or_default();
  let lead = slice.iter().take_while(|b| b.is_ascii_whitespace()).count();
  let tail = slice.iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
  if lead < slice.len() {
    units.push(range.start + lead..range.end - tail);
  }
}

/// Whether the sign before `at` ends a sentence: white space follows, after closing quotes, and it
/// is no abbreviation.
fn ends_sentence(bytes: &[u8], at: usize) -> bool {
  let mut next = at;
  while let Some(b'"' | b'\'' | b')' | b']') = bytes.get(next) {
    next += 1;
  }
  if !bytes.get(next).is_none_or(u8::is_ascii_whitespace) {
    return false;
  }
  if bytes.get(at - 1) != Some(&b'.') {
    return true;
  }
  let word: Vec<u8> = bytes
    .get(at.saturating_sub(6)..at - 1)
    .unwrap_or_default()
    .iter()
    .rev()
    .take_while(|b| b.is_ascii_alphabetic() || **b == b'.')
    .map(u8::to_ascii_lowercase)
    .collect();
  // Written backwards, as it was read.
  !matches!(word.as_slice(), b"g.e" | b"e.i" | b"rm" | b"sm" | b"srm" | b"rd" | b"sv" | b"lcni")
    && word.len() != 1
}

#[cfg(test)]
mod tests {
  use super::*;

  fn split(text: &str) -> Vec<&str> {
    sentences(text).into_iter().filter_map(|range| text.get(range)).collect()
  }

  #[test]
  fn sentences_end_where_they_end() {
    assert_eq!(split("One. Two! Three?"), ["One.", "Two!", "Three?"]);
    assert_eq!(split("a\n\n b "), ["a", "b"]);
    assert_eq!(split("see example.test and v1.2 now"), ["see example.test and v1.2 now"]);
    assert_eq!(split("Ms. Duarte, e.g. here. End"), ["Ms. Duarte, e.g. here.", "End"]);
    assert_eq!(split("He said \"no.\" Then"), ["He said \"no.\"", "Then"]);
    assert_eq!(split("第一。第二！第三"), ["第一。", "第二！", "第三"]);
    assert!(split(" \n ").is_empty());
  }

  #[test]
  fn long_lines_are_cut() {
    let text = "word ".repeat(1000);
    assert!(sentences(&text).iter().all(|range| range.len() <= MAX_UNIT + 8));
  }

  #[test]
  fn long_lines_are_cut_at_the_first_space_that_is_too_far() {
    let (a, b) = ("a".repeat(MAX_UNIT), "b".repeat(2 * MAX_UNIT));
    for sign in ["", " see v1.2", " \u{442}\u{43e}", " One. "] {
      // Signs that end nothing, and those that do, stand before, between and after the cuts.
      let text = format!("{sign}{a} {b}{sign} {a}{sign} c{sign}\n{sign}{b} d");
      let mut slow = vec![];
      let (mut start, bytes) = (0, text.as_bytes());
      for at in 1..=bytes.len() {
        let ends = match bytes[at - 1] {
          b'\n' => true,
          b'.' => ends_sentence(bytes, at),
          b' ' => at - start > MAX_UNIT,
          _ => false,
        };
        if ends || at == bytes.len() {
          push(&mut slow, bytes, start..at);
          start = at;
        }
      }
      assert!(slow.len() > 4);
      assert_eq!(sentences(&text), slow, "{sign:?}");
    }
  }
}
