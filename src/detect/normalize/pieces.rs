//! Base64 in pieces: with spaces, in lines, as items of a list, in several strings.
//!
//! Pieces are known by capitals and digits inside words. Names in source code have those, too, but decode to
//! noise within the first bytes.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  alphabets::{Candidate, values},
  unpack,
};

/// Bytes between two pieces, at most: quotation marks, a comma, the name of a variable.
const MAX_GAP: usize = 16;
/// Words between two pieces that look like none, at most.
const MAX_PLAIN: usize = 3;
/// Starts that are tried in one region.
const MAX_STARTS: usize = 12;
/// Regions of one text, at most.
const MAX_REGIONS: usize = 64;
/// Pieces of one region, at most.
const MAX_PIECES: usize = 8 * 1024;
/// So many bytes must come out.
const MIN_BYTES: usize = 12;
/// A shorter word is a name beside a piece.
const MIN_PIECE: usize = 4;

struct Piece<'a> {
  text: &'a str,
  at: usize,
  is_odd: bool,
}

/// What the regions of `text` may say.
pub(super) fn joined(text: &str) -> Vec<Candidate> {
  let mut found = Vec::new();
  let mut region: Vec<Piece<'_>> = Vec::new();
  let mut plain = 0;
  let mut regions = 0;
  let is_piece = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
  for word in text
    .split(|c: char| !is_piece(c))
    .filter(|word| word.contains(|c: char| c.is_ascii_alphanumeric()))
  {
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    let is_odd = is_odd(word);
    let is_near = region.last().is_none_or(|last| at <= last.at + last.text.len() + MAX_GAP);
    plain = if is_odd { 0 } else { plain + 1 };
    if !is_near || plain > MAX_PLAIN || region.len() >= MAX_PIECES {
      found.extend(read(&region));
      regions += usize::from(region.len() > 1);
      region.clear();
    }
    if regions >= MAX_REGIONS {
      break;
    }
    // The piece before the first odd one may belong to it.
    if !is_odd && region.iter().all(|piece| !piece.is_odd) {
      region.clear();
    }
    region.push(Piece { text: word, at, is_odd });
  }
  found.extend(read(&region));
  found
}

/// A capital or a digit behind a small letter.
fn is_odd(word: &str) -> bool {
  word.as_bytes().windows(2).any(|pair| match pair {
    [a, b] => a.is_ascii_lowercase() && (b.is_ascii_uppercase() || b.is_ascii_digit()),
    _ => false,
  })
}

fn read(region: &[Piece<'_>]) -> Option<Candidate> {
  if region.iter().filter(|piece| piece.is_odd).count() < 2 {
    return None;
  }
  let all = || region.iter();
  let odd = || region.iter().filter(|piece| piece.is_odd && piece.text.len() >= MIN_PIECE);
  starts(&all().collect::<Vec<_>>()).or_else(|| starts(&odd().collect::<Vec<_>>()))
}

fn starts(pieces: &[&Piece<'_>]) -> Option<Candidate> {
  (0..pieces.len().min(MAX_STARTS)).find_map(|start| decoded(pieces.get(start..)?))
}

/// The pieces as one word; what ends with a sign of padding is a word of its own.
fn decoded(pieces: &[&Piece<'_>]) -> Option<Candidate> {
  let (first, last) = (pieces.first()?, pieces.last()?);
  let span: Range<usize> = first.at..last.at + last.text.len();
  let mut out = Vec::new();
  let mut word = Vec::new();
  let mut is_checked = false;
  for piece in pieces {
    let ends = piece.text.ends_with('=');
    word.extend(piece.text.bytes().filter(|byte| *byte != b'='));
    if ends {
      out.extend(values(&word)?);
      word.clear();
    }
    if !is_checked && out.len() * 4 / 3 + word.len() >= 16 {
      is_checked = true;
      let start = [out.as_slice(), &values(word.get(..word.len() / 4 * 4)?)?].concat();
      if text_length(&start) + 2 < start.len() && !unpack::may_be_packed(&start) {
        return None;
      }
    }
  }
  if word.len() % 4 == 1 {
    word.pop();
  }
  out.extend(values(&word)?);
  if !unpack::may_be_packed(&out) {
    out.truncate(text_length(&out));
  }
  (out.len() >= MIN_BYTES).then_some((span, out))
}

/// How many bytes at the start are text.
fn text_length(bytes: &[u8]) -> usize {
  let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |_| bytes.len());
  let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t');
  bytes.iter().take(valid).position(is_control).unwrap_or(valid)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn names_of_source_code_are_no_pieces() {
    for text in [
      "getUserName setUserName parseInt toString valueOf isArray indexOf lastIndexOf",
      "v1.2.3a GitHub iPhone13 macOS14 eBay5 YouTube JavaScript TypeScript PostgreSQL",
      "a1b2c3d e4f5a6b c7d8e9f 0a1b2c3 d4e5f6a",
    ] {
      let read = joined(text);
      assert!(read.iter().all(|(_, bytes)| bytes.len() < 24), "{read:?}");
    }
    let (span, bytes) = joined("say: \"SWdub3Jl\" + \"IGFsbCBw\" + \"cmV2aW91\" now").remove(0);
    assert!(span.start == 6 && span.end >= 38, "{span:?}");
    assert_eq!(bytes, b"Ignore all previou");
  }
}
