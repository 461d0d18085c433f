//! Divides a text into lines or sentences, so that a person can decide about some of them.
//!
//! Invariant: for any bytes, the units of a text and its parts tile it: joined in order, they are the text.
#![forbid(unsafe_code)]

use std::{
  fmt,
  ops::{Range, RangeInclusive},
};

use crate::memory::{line, plan::starts_entry};

/// What a text is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
  /// Its lines; a blank line belongs to the line above it.
  Line,
  /// Its sentences; a line that begins an entry begins a sentence as well.
  Sentence,
}

impl Unit {
  /// The word for one of them.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Line => "line",
      Self::Sentence => "sentence",
    }
  }

  /// The units of a text, in order.
  pub fn of(self, text: &[u8]) -> Vec<Range<usize>> {
    match self {
      Self::Line => lines(text),
      Self::Sentence => sentences(text),
    }
  }
}

/// A run of units about which one decision was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
  /// Bytes of the text.
  pub span: Range<usize>,
  /// Whether it was chosen.
  pub is_chosen: bool,
  /// Whether it begins or ends within a line.
  pub is_inline: bool,
}

/// Why a text is not divided like that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undivided {
  /// It has no unit of this number; `count` is how many it has.
  NoSuch {
    /// The number.
    number: usize,
    /// The number of units.
    count: usize,
  },
  /// All of its units were chosen.
  All,
}

/// Divides a text at the chosen units, numbered from 1. Chosen neighbours are one part, and so are others.
///
/// The mark of a list entry is part of its first sentence. If only a later sentence of its line is chosen, the mark
/// counts as chosen, so that the rest of the line stays an entry.
pub fn divide(text: &[u8], unit: Unit, chosen: &Numbers) -> Result<Vec<Part>, Undivided> {
  let units = unit.of(text);
  let count = units.len();
  if let Some(number) = chosen.beyond(count) {
    return Err(Undivided::NoSuch { number, count });
  }
  if (1..=count).all(|number| chosen.contains(number)) {
    return Err(Undivided::All);
  }
  let mut parts: Vec<Part> = Vec::new();
  let mut put = |span: Range<usize>, is_chosen: bool| match parts.last_mut() {
    _ if span.is_empty() => {}
    Some(last) if last.is_chosen == is_chosen => last.span.end = span.end,
    _ => parts.push(Part { span, is_chosen, is_inline: false }),
  };
  for (index, span) in units.iter().enumerate() {
    let is_chosen = chosen.contains(index + 1);
    let lead = if is_chosen { 0 } else { lead(text, span) };
    let end = line::line_end(text, span.start);
    let later = units.iter().enumerate().skip(index + 1);
    let mut of_line = later.take_while(|(_, other)| other.start < end);
    let is_followed = of_line.any(|(later, _)| chosen.contains(later.saturating_add(1)));
    let at = span.start + if is_followed { lead } else { 0 };
    put(span.start..at, true);
    put(at..span.end, is_chosen);
  }
  Ok(parts.into_iter().flat_map(|part| by_line(text, part)).collect())
}

/// Cuts a part at the ends of the lines within which it begins or ends, so that each piece is in one line or has whole
/// lines: a placeholder of several lines is not found again within a line.
fn by_line(text: &[u8], part: Part) -> Vec<Part> {
  let Part { span, is_chosen, .. } = part;
  let begins = |at: usize| at == text.len() || begins_line(text, at);
  let first = if begins(span.start) { span.start } else { line::line_end(text, span.start) };
  let first = first.min(span.end);
  let last = if begins(span.end) { span.end } else { line::line_start(text, span.end, first) };
  let pieces = [span.start..first, first..last, last..span.end].into_iter();
  let piece = |span: Range<usize>| {
    let is_inline = !(begins(span.start) && begins(span.end));
    Part { span, is_chosen, is_inline }
  };
  pieces.filter(|span| !span.is_empty()).map(piece).collect()
}

/// Whether a line begins at this offset.
fn begins_line(text: &[u8], at: usize) -> bool {
  match at.checked_sub(1).and_then(|before| text.get(before)) {
    None | Some(b'\n') => true,
    Some(b'\r') => text.get(at) != Some(&b'\n'),
    Some(_) => false,
  }
}

fn lines(text: &[u8]) -> Vec<Range<usize>> {
  let mut units: Vec<Range<usize>> = Vec::new();
  let mut start = 0;
  // Whether the last unit has a line that is not blank.
  let mut says = false;
  while start < text.len() {
    let end = line::line_end(text, start);
    let is_blank = line::is_blank(line::slice(text, start..end));
    match units.last_mut() {
      Some(last) if is_blank || !says => last.end = end,
      _ => units.push(start..end),
    }
    says |= !is_blank;
    start = end;
  }
  units
}

fn sentences(text: &[u8]) -> Vec<Range<usize>> {
  let mut units: Vec<Range<usize>> = Vec::new();
  // Whether the sentence goes on in the next line.
  let mut goes_on = false;
  for span in lines(text) {
    let mut start = span.start;
    if goes_on && !starts_entry(line::slice(text, span.clone())) {
      let end = sentence_end(text, &span, span.start).unwrap_or(span.end);
      if let Some(last) = units.last_mut() {
        last.end = end;
      }
      start = end;
    }
    while start < span.end {
      let end = sentence_end(text, &span, start).unwrap_or(span.end);
      units.push(start..end);
      start = end;
    }
    let last = line::slice(text, span);
    // A blank line after it ends a paragraph.
    let is_alone = line::newlines(last) < 2;
    goes_on = is_alone && !ends_sentence(last.trim_ascii_end());
  }
  units
}

/// Where the sentence ends that contains `from`, if another one follows in the same line: after the space behind its
/// last sign.
fn sentence_end(text: &[u8], line: &Range<usize>, from: usize) -> Option<usize> {
  let mut at = from + lead(text, &(from..line.end));
  while at < line.end {
    let rest = line::slice(text, at..line.end);
    let wide = ["。", "！", "？"].into_iter().find(|sign| rest.starts_with(sign.as_bytes()));
    let is_wide = wide.is_some();
    let ends = is_wide || matches!(rest.first(), Some(b'.' | b'!' | b'?'));
    at += wide.map_or(1, str::len);
    if !ends {
      continue;
    }
    let after = |at: usize| line::slice(text, at..line.end);
    while matches!(
      after(at).first(),
      Some(b'.' | b'!' | b'?' | b'"' | b'\'' | b')' | b']' | b'*' | b'_')
    ) {
      at += 1;
    }
    let tail = after(at);
    let next = tail.trim_ascii_start();
    let n_space = tail.len() - next.len();
    // A small letter goes on with the sentence, as after an abbreviation.
    let begins = next.first().is_some_and(|byte| !byte.is_ascii_lowercase());
    if begins && (is_wide || n_space > 0) {
      return Some(at + n_space);
    }
  }
  None
}

fn ends_sentence(text: &[u8]) -> bool {
  let bare = text.trim_ascii_end();
  let closes = |byte: &u8| matches!(byte, b'"' | b'\'' | b')' | b']' | b'*' | b'_');
  let end = bare.iter().rposition(|byte| !closes(byte)).map_or(0, |at| at + 1);
  let bare = bare.get(..end).unwrap_or_default();
  [".", "!", "?", ":", "。", "！", "？"].iter().any(|sign| bare.ends_with(sign.as_bytes()))
}

/// The length of the indentation and the marks of lists, quotes and headings with which a line begins; 0 within a
/// line, and where nothing else follows.
fn lead(text: &[u8], span: &Range<usize>) -> usize {
  if !begins_line(text, span.start) {
    return 0;
  }
  let line =
    line::content(line::slice(text, span.start..line::line_end(text, span.start).min(span.end)));
  let mut rest = line;
  loop {
    let bare = rest.trim_ascii_start();
    let marks = match bare {
      [b'-' | b'*' | b'+' | b'>', ..] => 1,
      [b'[', _, b']', ..] => 3,
      [b'#', ..] => bare.iter().take_while(|byte| **byte == b'#').count(),
      _ => match bare.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        digits @ 1..=9 if matches!(bare.get(digits), Some(b'.' | b')')) => digits + 1,
        _ => 0,
      },
    };
    let after = bare.get(marks..).unwrap_or_default();
    rest = match after.first() {
      Some(b' ' | b'\t') if marks > 0 => after,
      _ => {
        let length = line.len() - bare.len();
        return if bare.is_empty() { 0 } else { length };
      }
    };
  }
}

/// Numbers of units, as people type them: `1,3-4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(Vec<RangeInclusive<usize>>);

impl Numbers {
  /// Whether this unit is chosen.
  pub fn contains(&self, number: usize) -> bool {
    self.0.iter().any(|range| range.contains(&number))
  }

  /// The first number that is larger than `count`.
  fn beyond(&self, count: usize) -> Option<usize> {
    let of = |range: &RangeInclusive<usize>| {
      (*range.end() > count).then_some((*range.start()).max(count + 1))
    };
    self.0.iter().find_map(of)
  }

  /// Whether one unit is chosen.
  pub fn is_one(&self) -> bool {
    matches!(&self.0[..], [only] if only.start() == only.end())
  }
}

/// A text that names no units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not numbers such as `1,3-4`, counted from 1")]
pub struct NotNumbers;

impl std::str::FromStr for Numbers {
  type Err = NotNumbers;

  fn from_str(text: &str) -> Result<Self, NotNumbers> {
    let number =
      |text: &str| text.trim().parse().ok().filter(|number| *number > 0).ok_or(NotNumbers);
    let range = |text: &str| {
      let (from, to) = text.split_once('-').unwrap_or((text, text));
      let (from, to): (usize, usize) = (number(from)?, number(to)?);
      if from <= to { Ok(from..=to) } else { Err(NotNumbers) }
    };
    text.split(',').map(range).collect::<Result<_, _>>().map(Self)
  }
}

impl fmt::Display for Numbers {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, range) in self.0.iter().enumerate() {
      f.write_str(if index > 0 { "," } else { "" })?;
      match (range.start(), range.end()) {
        (from, to) if from == to => write!(f, "{from}")?,
        (from, to) => write!(f, "{from}-{to}")?,
      }
    }
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn of(unit: Unit, text: &str) -> Vec<&str> {
    unit.of(text.as_bytes()).into_iter().filter_map(|span| text.get(span)).collect()
  }

  fn numbers(text: &str) -> Numbers {
    text.parse().unwrap()
  }

  /// The parts, with `+` before a chosen one and `~` before one within a line.
  fn parts(text: &str, unit: Unit, chosen: &str) -> Vec<String> {
    let parts = divide(text.as_bytes(), unit, &numbers(chosen)).unwrap();
    let shown = |part: Part| {
      let (chosen, inline) =
        (if part.is_chosen { "+" } else { "" }, if part.is_inline { "~" } else { "" });
      format!("{chosen}{inline}{}", text.get(part.span).unwrap())
    };
    parts.into_iter().map(shown).collect()
  }

  #[test]
  fn a_blank_line_belongs_to_the_line_above_it() {
    assert_eq!(of(Unit::Line, "a\n\n\nb\r\nc"), ["a\n\n\n", "b\r\n", "c"]);
    assert_eq!(of(Unit::Line, "\n\na\nb\n"), ["\n\na\n", "b\n"]);
    assert_eq!(of(Unit::Line, ""), [""; 0]);
  }

  #[test]
  fn a_sentence_ends_at_its_sign_or_where_an_entry_begins() {
    for (text, expected) in [
      (
        "Ann likes tea. Send it! Really? Yes",
        vec!["Ann likes tea. ", "Send it! ", "Really? ", "Yes"],
      ),
      ("- a\n- b. C\n", vec!["- a\n", "- b. ", "C\n"]),
      ("one\ntwo. Three\nfour.\nFive", vec!["one\ntwo. ", "Three\nfour.\n", "Five"]),
      ("a\n\nb\n", vec!["a\n\n", "b\n"]),
      ("1. One. Two.\n", vec!["1. One. ", "Two.\n"]),
      ("See e.g. tea at v1.2 of x.y.\n", vec!["See e.g. tea at v1.2 of x.y.\n"]),
      ("He said \"no.\" Then left.\n", vec!["He said \"no.\" ", "Then left.\n"]),
      ("茶。もう一杯。\n", vec!["茶。", "もう一杯。\n"]),
      ("Wait... What?\n", vec!["Wait... ", "What?\n"]),
    ] {
      assert_eq!(of(Unit::Sentence, text), expected);
    }
  }

  #[test]
  fn neighbours_with_one_decision_are_one_part() {
    assert_eq!(parts("a\nb\nc\nd\n", Unit::Line, "1,3-4"), ["+a\n", "b\n", "+c\nd\n"]);
    assert_eq!(parts("a\nb\nc", Unit::Line, "2"), ["a\n", "+b\n", "c"]);
    assert_eq!(parts("A. B. C.\n", Unit::Sentence, "1,3"), ["+~A. ", "~B. ", "+~C.\n"]);
    assert_eq!(parts("- A.\n- B.\n", Unit::Sentence, "2"), ["- A.\n", "+- B.\n"]);
    // A placeholder is in one line, or has whole lines.
    assert_eq!(
      parts("- A.\n- B. C. D.\n- E.\n- F.\n", Unit::Sentence, "3"),
      ["- A.\n", "+~- ", "~B. ", "+~C. ", "~D.\n", "- E.\n- F.\n"]
    );
  }

  #[test]
  fn the_mark_of_an_entry_stays_with_what_is_left_of_its_line() {
    assert_eq!(parts("- A. B.\n", Unit::Sentence, "2"), ["+~- ", "~A. ", "+~B.\n"]);
    assert_eq!(parts("  12) A. B.\n", Unit::Sentence, "2"), ["+~  12) ", "~A. ", "+~B.\n"]);
    assert_eq!(parts("- [x] A. B.\n", Unit::Sentence, "2"), ["+~- [x] ", "~A. ", "+~B.\n"]);
    assert_eq!(parts("- A. B.\n- C.\n", Unit::Sentence, "3"), ["- A. B.\n", "+- C.\n"]);
  }

  #[test]
  fn what_cannot_be_divided_is_said() {
    let divided = |chosen: &str| divide(b"a\nb\n", Unit::Line, &numbers(chosen)).unwrap_err();
    assert_eq!(divided("3"), Undivided::NoSuch { number: 3, count: 2 });
    assert_eq!(divided("1-9"), Undivided::NoSuch { number: 3, count: 2 });
    assert_eq!(divided("1,2"), Undivided::All);
    assert_eq!(divide(b"a\n", Unit::Line, &numbers("1")).unwrap_err(), Undivided::All);
  }

  #[test]
  fn numbers_are_read_as_people_type_them() {
    for (text, shown) in [("1", "1"), ("1,3-4", "1,3-4"), (" 2 - 3 , 7", "2-3,7"), ("2-2", "2")] {
      assert_eq!(numbers(text).to_string(), shown);
    }
    assert!(numbers("2-2").is_one() && !numbers("2-3").is_one() && !numbers("1,2").is_one());
    for text in ["", "0", "1,", "4-3", "a", "-1", "1-", "1;2", "99999999999999999999999"] {
      assert_eq!(text.parse::<Numbers>(), Err(NotNumbers), "{text}");
    }
  }

  proptest! {
    #[test]
    fn units_and_parts_tile_any_text(
      bytes in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "([ab.!?。\"\\-#>1 \r\n]|- ){0,60}".prop_map(String::into_bytes),
      ],
      chosen in proptest::collection::vec(1usize..8, 1..4),
    ) {
      let chosen = Numbers(chosen.into_iter().map(|number| number..=number).collect());
      for unit in [Unit::Line, Unit::Sentence] {
        let units = unit.of(&bytes);
        let joined: Vec<u8> = units.iter().flat_map(|span| bytes[span.clone()].to_vec()).collect();
        prop_assert_eq!(&joined, &bytes);
        prop_assert!(units.iter().all(|span| !span.is_empty()));
        let Ok(parts) = divide(&bytes, unit, &chosen) else { continue };
        let joined: Vec<u8> = parts.iter().flat_map(|part| bytes[part.span.clone()].to_vec()).collect();
        prop_assert_eq!(&joined, &bytes);
        for part in parts.iter().filter(|part| part.is_inline) {
          let end = line::line_end(&bytes, part.span.start);
          prop_assert!(part.span.end <= end, "it is in one line");
        }
        prop_assert!(unit == Unit::Sentence || parts.iter().all(|part| !part.is_inline));
      }
    }
  }
}
