//! Whole lines: where they end, whether they are blank, and the hash that identifies a known one.
//!
//! A line ends with `\n`, `\r\n` or a lone `\r`, as in CommonMark, so that no block can start in the middle
//! of a line.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{ContentHash, LineHash};

/// One line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
  /// Bytes of the file, including the line end and comments of memfw inside the line.
  pub span: Range<usize>,
  /// Its number in the file, from 1.
  pub number: usize,
  /// Identifies the line among known ones.
  pub hash: LineHash,
  /// How much its content counts.
  pub kind: LineKind,
  /// Whether it is the end of a line whose beginning is a separate [`Line`].
  pub is_tail: bool,
}

/// How much the content of a line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
  /// Only space. Never fresh, because there is nothing to judge.
  Blank,
  /// Punctuation alone: a rule, a fence, a brace. Too many blocks have such lines for them to show that two
  /// blocks match.
  Punctuation,
  /// Letters, digits or anything beyond ASCII.
  Text,
}

impl LineKind {
  pub(crate) fn of(bytes: &[u8]) -> Self {
    if bytes.iter().any(|b| b.is_ascii_alphanumeric() || !b.is_ascii()) {
      Self::Text
    } else if is_blank(bytes) {
      Self::Blank
    } else {
      Self::Punctuation
    }
  }
}

/// The hash of text with normalised line ends and without the last one, so that it does not depend on the
/// program that saved the text.
pub fn norm_hash(bytes: &[u8]) -> ContentHash {
  let mut text = Vec::with_capacity(bytes.len());
  let mut after_return = false;
  for &byte in bytes {
    match byte {
      b'\r' => text.push(b'\n'),
      b'\n' if after_return => {}
      _ => text.push(byte),
    }
    after_return = byte == b'\r';
  }
  if text.last() == Some(&b'\n') {
    text.pop();
  }
  ContentHash::of(&text)
}

/// The bytes of a span; empty if the span is outside.
pub(crate) fn slice(bytes: &[u8], span: Range<usize>) -> &[u8] {
  bytes.get(span).unwrap_or_default()
}

/// The offset just after the line that contains `from`, including the line end.
pub(crate) fn line_end(bytes: &[u8], from: usize) -> usize {
  let rest = bytes.get(from..).unwrap_or_default();
  match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
    None => bytes.len(),
    Some(at) if slice(rest, at..at + 2) == b"\r\n" => from + at + 2,
    Some(at) => from + at + 1,
  }
}

/// The offset at which the line that contains `at` starts, not before `floor`.
pub(crate) fn line_start(bytes: &[u8], at: usize, floor: usize) -> usize {
  slice(bytes, floor..at)
    .iter()
    .rposition(|b| matches!(b, b'\n' | b'\r'))
    .map_or(floor, |before| floor + before + 1)
}

/// The line end of a line: `\n`, `\r\n`, `\r` or nothing.
pub(crate) fn eol(line: &[u8]) -> &[u8] {
  let length = match line {
    [.., b'\r', b'\n'] => 2,
    [.., b'\n' | b'\r'] => 1,
    _ => 0,
  };
  line.get(line.len() - length..).unwrap_or_default()
}

/// A line without its line end.
pub(crate) fn content(line: &[u8]) -> &[u8] {
  line.get(..line.len() - eol(line).len()).unwrap_or_default()
}

/// Whether markdown ignores these bytes: space, tab, vertical tab, form feed, line ends.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
  bytes.iter().all(|b| matches!(b, b' ' | b'\t' | 0x0b | 0x0c | b'\n' | b'\r'))
}

/// The number of newlines.
pub(crate) fn newlines(bytes: &[u8]) -> usize {
  bytes.split(|b| *b == b'\n').count() - 1
}

/// The hash of a line without its line end, as in [`Line`]; the line must not contain comments of memfw.
pub fn line_hash(line: &[u8]) -> LineHash {
  LineHash::of([line])
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn every_kind_of_line_end_ends_a_line() {
    for (text, ends) in [
      (&b"a\nb"[..], vec![2, 3]),
      (b"a\r\nb\r\n", vec![3, 6]),
      (b"a\rb\r", vec![2, 4]),
      (b"\r\r\n", vec![1, 3]),
    ] {
      let mut found = Vec::new();
      let mut at = 0;
      while at < text.len() {
        at = line_end(text, at);
        found.push(at);
      }
      assert_eq!(found, ends, "{text:?}");
    }
  }

  #[test]
  fn the_start_of_a_line_is_found_backwards() {
    assert_eq!(line_start(b"ab\ncd", 4, 0), 3);
    assert_eq!(line_start(b"ab\ncd", 3, 0), 3);
    assert_eq!(line_start(b"abcd", 3, 1), 1);
  }

  #[test]
  fn blank_is_what_markdown_calls_blank() {
    assert!(is_blank(b" \t\r\n"));
    assert!(!is_blank("\u{a0}".as_bytes()), "a no-break space is text");
    assert!(!is_blank(b"\0"));
  }
}
