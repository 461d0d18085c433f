//! The parts of a text that the encoder reads: it sees only the beginning of its input, and a block
//! may be long.
//!
//! Invariants: together the windows hold every word of a text of up to `MAX_WINDOWS` windows; of a longer
//! one those are read that the heads suspect most. The work for one text is bounded.
#![forbid(unsafe_code)]

use std::{cmp::Reverse, ops::Range};

use super::{Heads, Logits};
use crate::detect::rules::sentences;

/// The size of a window in quarters of a piece: an ASCII character is about a quarter, any other one or
/// more. Just below what the encoder reads of a text.
const WINDOW: usize = 4 * 120;
/// The size of a window after the known facts about the text.
const WINDOW_BEHIND: usize = 4 * 84;
/// Windows that are read, at most: about 30 kB of English.
pub(super) const MAX_WINDOWS: usize = 64;
/// Sentences that are read on their own, at most; as many as in training.
const MAX_SENTENCES: usize = 16;
/// A sentence with fewer characters is not read alone; in a script without spaces this many.
const MIN_CHARS: usize = 12;
const MIN_WIDE: usize = 5;

/// The passages of one text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passages {
  /// Stretches of whole sentences as long as the encoder reads.
  pub(super) windows: Vec<Range<usize>>,
  /// Sentences; none where there is only one.
  pub(super) sentences: Vec<Range<usize>>,
}

impl Passages {
  pub(super) fn of(text: &str, heads: &Heads) -> Self {
    Self::of_size(text, heads, WINDOW)
  }

  /// The passages that are read behind what is known about the text.
  pub(super) fn behind(text: &str, heads: &Heads) -> Self {
    Self::of_size(text, heads, WINDOW_BEHIND)
  }

  fn of_size(text: &str, heads: &Heads, size: usize) -> Self {
    let all = sentences(text);
    let windows = windows(text, &all, size);
    let long = |span: &Range<usize>| {
      let part = text.get(span.clone()).unwrap_or_default();
      let least = if part.chars().any(is_wide) { MIN_WIDE } else { MIN_CHARS };
      part.chars().nth(least - 1).is_some()
    };
    let mut apart: Vec<Range<usize>> = all.into_iter().filter(long).collect();
    if apart.len() < 2 {
      apart.clear();
    }
    Self {
      windows: most_suspicious(text, heads, windows, MAX_WINDOWS),
      sentences: most_suspicious(text, heads, apart, MAX_SENTENCES),
    }
  }
}

/// The passages that the heads suspect most, in order; all where there are no more than that.
fn most_suspicious(
  text: &str,
  heads: &Heads,
  mut passages: Vec<Range<usize>>,
  most: usize,
) -> Vec<Range<usize>> {
  if passages.len() <= most {
    return passages;
  }
  let suspicion = |span: &Range<usize>| {
    let Logits { injection, poison } = heads.logits(text.get(span.clone()).unwrap_or_default());
    // As a whole number, for order.
    (injection.max(poison) * 1000.0) as i64
  };
  passages.sort_by_cached_key(|span| Reverse(suspicion(span)));
  passages.truncate(most);
  passages.sort_by_key(|span| span.start);
  passages
}

/// Stretches of sentences in a row, each as long as a window is.
fn windows(text: &str, sentences: &[Range<usize>], most: usize) -> Vec<Range<usize>> {
  let mut windows: Vec<Range<usize>> = Vec::new();
  let mut size = 0;
  for sentence in sentences {
    for piece in pieces(text, sentence, most) {
      let gap = windows.last().map_or(0, |last| piece.start.saturating_sub(last.end));
      let more = gap + size_of(text, &piece);
      match windows.last_mut() {
        Some(last) if size + more <= most => {
          last.end = piece.end;
          size += more;
        }
        _ => {
          size = more - gap;
          windows.push(piece);
        }
      }
    }
  }
  windows
}

/// A sentence in pieces that fit into a window, cut behind spaces where there are any.
fn pieces(text: &str, sentence: &Range<usize>, most: usize) -> Vec<Range<usize>> {
  let mut pieces = Vec::new();
  let mut start = sentence.start;
  let (mut size, mut space) = (0, None);
  let part = text.get(sentence.clone()).unwrap_or_default();
  for (at, c) in part.char_indices() {
    let at = sentence.start + at;
    while size + cost(c) > most {
      let end = space.filter(|end| *end > start).unwrap_or(at);
      pieces.push(start..end);
      start = end;
      size = size_of(text, &(end..at));
      space = None;
    }
    size += cost(c);
    if c.is_whitespace() {
      space = Some(at + c.len_utf8());
    }
  }
  if start < sentence.end {
    pieces.push(start..sentence.end);
  }
  pieces
}

fn size_of(text: &str, span: &Range<usize>) -> usize {
  text.get(span.clone()).unwrap_or_default().chars().map(cost).sum()
}

const fn cost(c: char) -> usize {
  if c.is_ascii() { 1 } else { 4 }
}

/// Letters of scripts that are written without spaces.
const fn is_wide(c: char) -> bool {
  matches!(c, '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn cut(text: &str) -> Vec<&str> {
    windows(text, &sentences(text), WINDOW).into_iter().filter_map(|span| text.get(span)).collect()
  }

  #[test]
  fn a_short_text_is_one_window() {
    assert_eq!(cut("One. Two! Three?"), ["One. Two! Three?"]);
    assert!(cut(" \n ").is_empty());
  }

  #[test]
  fn a_long_text_is_cut_between_sentences_and_a_long_sentence_behind_a_space() {
    let sentence = "A sentence of forty characters, or so it seems. ";
    let parts = cut(&sentence.repeat(25)).len();
    assert_eq!(parts, 3);
    let words = "word ".repeat(130);
    assert!(cut(&words).iter().all(|part| part.trim().split(' ').all(|word| word == "word")));
    assert_eq!(cut(&"漢".repeat(200)).len(), 2);
  }

  proptest! {
    #[test]
    fn every_word_is_in_a_window_that_is_no_longer_than_one(text in "(\\PC{0,40}[ .!\n]){0,60}") {
      let spans = windows(&text, &sentences(&text), WINDOW);
      let is_blank = |from: usize, to: usize| text.get(from..to).unwrap().trim().is_empty();
      let mut end = 0;
      for span in &spans {
        prop_assert!(span.start >= end && is_blank(end, span.start));
        prop_assert!(size_of(&text, span) <= WINDOW);
        end = span.end;
      }
      prop_assert!(is_blank(end, text.len()));
    }
  }
}
