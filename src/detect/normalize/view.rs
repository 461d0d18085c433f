//! A reading of a text, with the way back to the bytes that it was made from.
//!
//! Invariant: for every range of a view's text, [`Map::span`] is a non-empty or empty range within
//! the input, start not after end, and a longer range never maps to a smaller one.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

/// What was done to the text to get this view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewKind {
  /// The unchanged text; invalid bytes are U+FFFD.
  Raw,
  /// Compatibility forms, look-alikes, emphasis, line breaks and HTML resolved, invisible characters
  /// removed.
  Folded,
  /// Text that a reader of the rendered page does not see: comments, hidden elements, characters
  /// without a glyph.
  Hidden,
  /// Text that was base64, hexadecimal or percent encoded.
  Decoded,
  /// Words with signs between them, side by side. Much ordinary text (lists, paths, names in source
  /// code) has such a reading, so only strong rules read it.
  Joined,
}

/// One reading of the input.
#[derive(Clone, Debug)]
pub struct View<'a> {
  /// How it was made.
  pub kind: ViewKind,
  /// What it says.
  pub text: Cow<'a, str>,
  /// From offsets in `text` to offsets in the raw text.
  pub map: Map,
}

/// From offsets in a view to offsets in the text that it was made from.
#[derive(Clone, Debug)]
pub enum Map {
  /// Every offset is shifted by a constant.
  Shift(usize),
  /// The view as a whole represents one range (an encoded word).
  Whole(Range<usize>),
  /// Piece by piece, in ascending order of both sides.
  Pieces(Vec<Piece>),
}

/// A stretch of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
  /// Where it starts in the view.
  out: u32,
  /// Where it starts in the input.
  input: u32,
  /// How many bytes of the input it represents.
  len: u32,
  /// Whether its bytes are those of the input, one to one.
  linear: bool,
}

impl Map {
  /// The input range that `range` of the view represents.
  pub fn span(&self, range: &Range<usize>) -> Range<usize> {
    match self {
      Self::Shift(by) => range.start + by..range.end.max(range.start) + by,
      Self::Whole(whole) => whole.clone(),
      Self::Pieces(pieces) => {
        let start = locate(pieces, range.start).map_or(0, |(piece, inside)| {
          piece.input as usize + if piece.linear { inside.min(piece.len as usize) } else { 0 }
        });
        let end = locate(pieces, range.end.saturating_sub(1).max(range.start)).map_or(
          start,
          |(piece, inside)| {
            let len = piece.len as usize;
            piece.input as usize + if piece.linear { (inside + 1).min(len) } else { len }
          },
        );
        start..end.max(start)
      }
    }
  }
}

/// The piece that offset `at` of the view lies in, and how far inside.
fn locate(pieces: &[Piece], at: usize) -> Option<(&Piece, usize)> {
  let next = pieces.partition_point(|piece| piece.out as usize <= at);
  let piece = pieces.get(next.checked_sub(1)?)?;
  Some((piece, at - piece.out as usize))
}

/// Writes a view and its map together.
#[derive(Debug, Default)]
pub(super) struct Builder {
  text: String,
  pieces: Vec<Piece>,
}

impl Builder {
  /// An empty view with room for `bytes`.
  pub(super) fn with_capacity(bytes: usize) -> Self {
    Self { text: String::with_capacity(bytes), pieces: Vec::new() }
  }

  /// Appends text that the input has at `input`.
  pub(super) fn copy(&mut self, text: &str, input: usize) {
    if text.is_empty() {
      return;
    }
    let out = self.text.len() as u32;
    let len = text.len() as u32;
    match self.pieces.last_mut() {
      Some(last)
        if last.linear
          && last.out + last.len == out
          && last.input as usize + last.len as usize == input =>
      {
        last.len += len;
      }
      _ => self.pieces.push(Piece { out, input: input as u32, len, linear: true }),
    }
    self.text.push_str(text);
  }

  /// Appends text that represents the input range `input`.
  pub(super) fn replace(&mut self, text: &str, input: Range<usize>) {
    if text.is_empty() {
      return;
    }
    let out = self.text.len() as u32;
    self.pieces.push(Piece {
      out,
      input: input.start as u32,
      len: input.len() as u32,
      linear: false,
    });
    self.text.push_str(text);
  }

  /// The last byte written.
  pub(super) fn last(&self) -> Option<u8> {
    self.text.as_bytes().last().copied()
  }

  /// Turns the last character, a space, into a line break.
  pub(super) fn break_line(&mut self) {
    if self.text.pop().is_some() {
      self.text.push('\n');
      // A line break is as long as a space, so the map stays right.
    }
  }

  /// Joins a combining mark, which ends at `end` of the input, to the ASCII letter before it: one
  /// character where there is one, else the bare letter.
  pub(super) fn join_mark(&mut self, mark: char, end: usize) {
    let Some(base) = self.text.chars().next_back().filter(char::is_ascii_alphabetic) else {
      return;
    };
    let Some(joined) = unicode_normalization::char::compose(base, mark) else { return };
    let Some(last) = self.pieces.last_mut() else { return };
    if !last.linear || last.len == 0 {
      return;
    }
    last.len -= 1;
    let start = (last.input + last.len) as usize;
    if last.len == 0 {
      self.pieces.pop();
    }
    self.text.pop();
    let mut buffer = [0; 4];
    self.replace(joined.encode_utf8(&mut buffer), start..end.max(start));
  }

  /// The finished text and its map.
  pub(super) fn finish(self) -> (String, Map) {
    (self.text, Map::Pieces(self.pieces))
  }
}

/// The input as text, each invalid sequence one U+FFFD, as `String::from_utf8_lossy` does it, but
/// with the way back.
pub(super) fn lossy(bytes: &[u8]) -> (Cow<'_, str>, Map) {
  if let Ok(text) = std::str::from_utf8(bytes) {
    return (Cow::Borrowed(text), Map::Shift(0));
  }
  let mut builder = Builder::with_capacity(bytes.len() + bytes.len() / 8);
  let mut at = 0;
  for chunk in bytes.utf8_chunks() {
    builder.copy(chunk.valid(), at);
    at += chunk.valid().len();
    let bad = chunk.invalid().len();
    if bad > 0 {
      builder.replace("\u{fffd}", at..at + bad);
      at += bad;
    }
  }
  let (text, map) = builder.finish();
  (Cow::Owned(text), map)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn copied_and_replaced_text_maps_back() {
    let mut builder = Builder::default();
    builder.copy("ab", 3);
    builder.copy("cd", 5);
    builder.replace("x", 7..12);
    builder.copy("e", 14);
    let (text, map) = builder.finish();
    assert_eq!(text, "abcdxe");
    assert_eq!(map.span(&(0..4)), 3..7);
    assert_eq!(map.span(&(3..5)), 6..12);
    assert_eq!(map.span(&(4..5)), 7..12);
    assert_eq!(map.span(&(5..6)), 14..15);
    assert_eq!(map.span(&(0..6)), 3..15);
  }

  #[test]
  fn invalid_bytes_become_replacement_characters_with_right_spans() {
    let (text, map) = lossy(b"a\xffb\xe2\x82c");
    assert_eq!(text, "a\u{fffd}b\u{fffd}c");
    let c = text.find('c').unwrap();
    assert_eq!(map.span(&(c..c + 1)), 5..6);
    assert_eq!(map.span(&(1..4)), 1..2);
  }

  #[test]
  fn valid_text_is_borrowed() {
    assert!(matches!(lossy("schön".as_bytes()), (Cow::Borrowed("schön"), Map::Shift(0))));
  }
}
