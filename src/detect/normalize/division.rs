//! Divides letters without gaps into words.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::{undone::MIN_WORDS, words::Words};

/// The longest word that is looked for where no gap shows the words.
const MAX_WORD: usize = 16;

/// Letters without gaps as words: the division that leaves the fewest letters in no known word.
pub(super) fn divide(words: &Words, text: &str) -> Option<String> {
  let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
  // For each end: letters left over, and where its last word starts.
  let mut best: Vec<(usize, usize)> = vec![(0, 0)];
  for end in 1..=letters.len() {
    let mut here = (best.get(end - 1)?.0 + 1, end - 1);
    for start in end.saturating_sub(MAX_WORD)..end.saturating_sub(1) {
      let word: String = letters.get(start..end)?.iter().collect();
      let left = best.get(start)?.0;
      if left < here.0 && words.knows(&word) {
        here = (left, start);
      }
    }
    best.push(here);
  }
  let mut pieces: Vec<String> = Vec::new();
  let mut end = letters.len();
  while end > 0 {
    let start = best.get(end)?.1;
    pieces.push(letters.get(start..end)?.iter().collect());
    end = start;
  }
  pieces.reverse();
  let left = best.last()?.0;
  let long: HashSet<&String> = pieces.iter().filter(|piece| piece.chars().count() >= 3).collect();
  (left * 4 <= letters.len() && long.len() >= MIN_WORDS).then(|| join(&pieces))
}

/// Words with gaps between them; letters that are in no word stay together.
fn join(pieces: &[String]) -> String {
  let mut text = String::new();
  let mut last_single = false;
  for piece in pieces {
    let single = piece.chars().count() == 1;
    if !(text.is_empty() || single && last_single) {
      text.push(' ');
    }
    text.push_str(piece);
    last_single = single;
  }
  text
}
