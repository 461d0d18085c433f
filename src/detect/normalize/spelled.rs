//! Text that is spelled in numbers, signs and pieces, and words with signs between them.
#![forbid(unsafe_code)]

use std::{collections::HashSet, ops::Range};

use super::{
  alphabets, cipher, decode, joined,
  language::is_language,
  numbers, pieces,
  shape::Shape,
  strings,
  undone::{How, MAX_FOUND, MAX_PASSAGE, MIN_WORDS, Undone, floor, tokens},
  unpack,
  words::words,
};

/// So many signs of one sort open the gates of escapes.
const MIN_SIGNS: usize = 6;

/// Rows of words side by side that are read in one text, at most: nearly every text has some.
const MAX_ROWS: usize = 32;

/// What is spelled in numbers and signs.
pub(super) fn spelled(text: &str, shape: &Shape, layers: usize, found: &mut Vec<Undone>) {
  let mut candidates = Vec::new();
  let count = |sign: u8| text.bytes().filter(|byte| *byte == sign).count();
  if shape.are_numbers() {
    candidates.extend(numbers::lists(text).into_iter().map(|one| (How::Numbers, one)));
  }
  if shape.is_long() {
    candidates.extend(alphabets::long_words(text).into_iter().map(|one| (How::Numbers, one)));
  }
  if text.contains("begin ") || shape.is_long() {
    candidates.extend(alphabets::uuencoded(text).into_iter().map(|one| (How::Numbers, one)));
  }
  if shape.are_odd() {
    candidates.extend(pieces::joined(text).into_iter().map(|one| (How::Pieces, one)));
  }
  let is_call =
    |(at, _): (usize, &str)| text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit);
  if text.match_indices('(').any(is_call) {
    candidates.extend(strings::calls(text).into_iter().map(|one| (How::Numbers, one)));
  }
  for sign in [b'=', b'\\'] {
    if count(sign) >= MIN_SIGNS {
      candidates.extend(alphabets::escapes(text, sign).map(|one| (How::Escaped, one)));
    }
  }
  // A dump of a program has words in it, too, but is no text.
  let is_text = |bytes: &[u8]| {
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t');
    unpack::may_be_packed(bytes) || !bytes.iter().any(is_control)
  };
  let candidates = candidates.into_iter().filter(|(_, (_, bytes))| is_text(bytes));
  let said = candidates.filter_map(|(how, (span, bytes))| {
    decode::language(bytes, layers).map(|text| Undone { span, text, how })
  });
  found.extend(said.take(MAX_FOUND));
  if shape.is_rot47() {
    found.extend(by_lines(text, How::Rot47, cipher::rot47));
  }
  if shape.is_morse() {
    let said = alphabets::morse(text).into_iter().filter(|(_, text)| is_language(text));
    found.extend(said.map(|(span, text)| Undone { span, text, how: How::Morse }));
  }
}

/// The text of words side by side, and of words without the signs in them.
pub(super) fn joined_words(text: &str, shape: &Shape, found: &mut Vec<Undone>) {
  let most = found.len() + MAX_ROWS;
  let mut add = |span: Range<usize>, text: String, how: How| {
    if found.len() < most {
      found.push(Undone { span, text, how });
    }
  };
  if strings::are_in(text) {
    for row in strings::rows(text) {
      add(row.span, row.text, if row.is_cut { How::Strings } else { How::Joined });
    }
  }
  let mut rows = Vec::new();
  if shape.is_row() {
    rows.extend(joined::rows(text));
  }
  if shape.has_inner() || shape.is_short() || text.contains("-\n") {
    rows.extend(joined::unsplit(text, shape.is_short()));
  }
  if shape.has_run() {
    rows.extend(joined::runs(text));
  }
  for row in rows {
    add(row.span, row.text, if row.is_split { How::Split } else { How::Joined });
  }
}

/// The lines of `text` that have several common words when they are turned, and more than before.
fn by_lines(text: &str, how: How, turn: impl Fn(&str) -> String) -> Vec<Undone> {
  let words = words();
  let known = |text: &str| -> usize {
    let known = tokens(text).filter(|word| word.len() >= 3 && words.knows(word));
    known.map(str::to_ascii_lowercase).collect::<HashSet<_>>().len()
  };
  let mut found = Vec::new();
  let mut start = 0;
  for line in text.split_inclusive('\n') {
    let span = start..start + line.len();
    start = span.end;
    let mut cut = line.len().min(MAX_PASSAGE);
    let turned = turn(line.get(..floor(line, &mut cut)).unwrap_or_default());
    if found.len() < MAX_FOUND && known(&turned) >= MIN_WORDS.max(known(line) + 1) {
      found.push(Undone { span, text: turned, how });
    }
  }
  found
}
