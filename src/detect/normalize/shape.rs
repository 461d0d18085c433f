//! What one pass sees of the words of a text: which of the slower readers have anything to read.
#![forbid(unsafe_code)]

use super::numbers::{MIN_DIGITS, MIN_NUMBERS};

/// White space of ASCII.
const BLANK: u8 = 1;
/// Digits of hexadecimal numbers and the signs of their prefixes.
const NUMBER: u8 = 2;
/// Signs between numbers.
const BETWEEN: u8 = 4;
/// What lower-case letters are in rot47.
const ROT47: u8 = 8;
/// Other signs that can be seen.
const OTHER: u8 = 16;
const LOWER: u8 = 32;
const UPPER: u8 = 64;
/// Letters, and all bytes of characters outside ASCII but signs and emoji.
const LETTER: u8 = 128;

/// So long must a word be to be encoded in signs.
const LONG: u32 = 25;
/// So many more signs of rot47 than others open its gate.
const MANY_ROT47: u32 = 24;
/// So many words with a capital inside, or digits, in a row.
const MANY_ODD: u32 = 3;

/// So many words with something between them.
const MIN_ROW: u32 = 4;
/// Letters in a row that are several words.
const LONG_RUN: u32 = 20;
/// So many signs between letters.
const MANY_INNER: u32 = 4;
/// Average length, in quarters of a letter, below which words have their letters set apart; and how
/// many such words open the gate.
const SHORT: u32 = 15;
const MANY_WORDS: u32 = 12;

/// So many dots and dashes without a letter between them.
const MANY_DOTS: u32 = 32;

const CLASSES: [u8; 256] = classes();

#[expect(
  clippy::indexing_slicing,
  reason = "constants know no `get_mut`, and the place is below the length"
)]
const fn classes() -> [u8; 256] {
  let mut table = [0; 256];
  let mut at = 0;
  while at < 256 {
    let byte = at as u8;
    let mut class = 0;
    if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
      class |= BLANK | BETWEEN;
    } else if byte > b' ' && byte < 0x7f {
      class |= if byte >= b'2' && byte <= b'K' { ROT47 } else { OTHER };
    }
    if byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'o' | b'U' | b'+' | b'\\' | b'#' | b'&') {
      class |= NUMBER;
    }
    if matches!(
      byte,
      b','
        | b';'
        | b':'
        | b'-'
        | b'['
        | b']'
        | b'('
        | b')'
        | b'{'
        | b'}'
        | b'"'
        | b'\''
        | b'|'
        | b'/'
        | b'_'
        | b'.'
    ) {
      class |= BETWEEN;
    }
    if byte.is_ascii_lowercase() {
      class |= LOWER;
    }
    if byte.is_ascii_uppercase() || byte.is_ascii_digit() {
      class |= UPPER;
    }
    if byte.is_ascii_alphabetic() || byte >= 0x80 && byte != 0xe2 && byte != 0xf0 {
      class |= LETTER;
    }
    table[at] = class;
    at += 1;
  }
  table
}

/// Counts.
#[derive(Default)]
pub(super) struct Shape {
  word: u32,
  is_long: bool,
  part: u32,
  is_number: bool,
  numbers: u32,
  digits: u32,
  are_numbers: bool,
  rot47: u32,
  is_rot47: bool,
  last: u8,
  is_odd: bool,
  odd: u32,
  are_odd: bool,
  has_sign: bool,
  blanks: u32,
  letters: u32,
  all_letters: u32,
  words: u32,
  row: u32,
  is_row: bool,
  has_run: bool,
  inner: u32,
  dots: u32,
  run: u32,
  is_morse: bool,
}

impl Shape {
  pub(super) fn step(&mut self, byte: u8) {
    let class = CLASSES.get(usize::from(byte)).copied().unwrap_or_default();
    if class & BLANK == 0 {
      self.word += 1;
      self.is_long |= self.word >= LONG;
    } else {
      self.word = 0;
    }
    if class & ROT47 != 0 {
      self.rot47 += 1;
      self.is_rot47 |= self.rot47 >= MANY_ROT47;
    } else if class & (OTHER | LOWER) != 0 {
      self.rot47 = self.rot47.saturating_sub(2);
    }
    if class & BETWEEN == 0 {
      if self.part == 0 {
        (self.is_number, self.is_odd) = (true, false);
      }
      self.part += 1;
      self.is_number &= class & NUMBER != 0;
      self.is_odd |= self.last & LOWER != 0 && class & UPPER != 0;
    } else if self.part > 0 {
      self.end();
    }
    self.letter(byte, class);
    self.last = class;
  }

  /// The same as [`Self::step`] for each of these small letters of ASCII, which follow another one.
  pub(super) fn small_letters(&mut self, letters: &[u8]) {
    let Some(last) = letters.last() else { return };
    let class = |byte: &u8| CLASSES.get(usize::from(*byte)).copied().unwrap_or_default();
    let n = letters.len() as u32;
    self.word += n;
    self.is_long |= self.word >= LONG;
    self.rot47 = self.rot47.saturating_sub(2 * n);
    self.part += n;
    self.is_number = self.is_number && letters.iter().all(|byte| class(byte) & NUMBER != 0);
    self.dots = 0;
    self.letters += n;
    self.all_letters += n;
    self.run += n;
    self.has_run |= self.run >= LONG_RUN;
    self.last = class(last);
  }

  /// The signs between words of letters.
  fn letter(&mut self, byte: u8, class: u8) {
    if class & LETTER != 0 {
      self.dots = 0;
      // The later bytes of a sign are no letters.
      if (0x80..0xc0).contains(&byte) && self.letters == 0 {
        return;
      }
      if self.letters == 0 {
        self.row = if self.has_sign || self.blanks > 1 { self.row + 1 } else { 0 };
        self.is_row |= self.row >= MIN_ROW;
        self.inner += u32::from(self.has_sign && self.blanks == 0);
        (self.has_sign, self.blanks) = (false, 0);
        self.words += 1;
      } else if self.last & LOWER != 0 && byte.is_ascii_uppercase() {
        self.row += 1;
        self.is_row |= self.row >= MIN_ROW;
      }
      self.letters += 1;
      self.all_letters += 1;
      self.run = if byte.is_ascii() { self.run + 1 } else { 0 };
      self.has_run |= self.run >= LONG_RUN;
    } else {
      (self.letters, self.run) = (0, 0);
      if class & BLANK == 0 {
        self.has_sign |= byte != b'\'';
        self.dots += u32::from(matches!(byte, b'.' | b'-'));
        self.is_morse |= self.dots >= MANY_DOTS;
      } else if byte == b'\n' {
        self.blanks += 2;
        self.blanks -= u32::from(self.blanks == 2);
      } else {
        self.blanks += u32::from(self.blanks == 0);
      }
    }
  }

  /// A part of a word is over.
  fn end(&mut self) {
    if self.is_number && self.part >= 2 {
      self.numbers += 1;
      self.digits += self.part;
    } else {
      (self.numbers, self.digits) = (0, 0);
    }
    self.are_numbers |= self.numbers as usize >= MIN_NUMBERS
      || self.numbers > 1 && self.digits as usize >= MIN_DIGITS;
    self.odd = if self.is_odd { self.odd + 1 } else { self.odd.saturating_sub(1) };
    self.are_odd |= self.odd >= MANY_ODD;
    self.part = 0;
  }

  /// Closes the last word.
  pub(super) fn finish(mut self) -> Self {
    if self.part > 0 {
      self.end();
    }
    self
  }

  /// Whether a word is long enough to be encoded in signs.
  pub(super) const fn is_long(&self) -> bool {
    self.is_long
  }

  /// Whether numbers are in a row.
  pub(super) const fn are_numbers(&self) -> bool {
    self.are_numbers
  }

  /// Whether signs are in place of letters.
  pub(super) const fn is_rot47(&self) -> bool {
    self.is_rot47
  }

  /// Whether words have capitals or digits inside, one after another.
  pub(super) const fn are_odd(&self) -> bool {
    self.are_odd
  }

  /// Whether signs are between words, one after another.
  pub(super) const fn is_row(&self) -> bool {
    self.is_row
  }

  /// Whether a row of letters is too long for a word.
  pub(super) const fn has_run(&self) -> bool {
    self.has_run
  }

  /// Whether signs are between letters.
  pub(super) const fn has_inner(&self) -> bool {
    self.inner >= MANY_INNER
  }

  /// Whether words are shorter than language's.
  pub(super) const fn is_short(&self) -> bool {
    self.words >= MANY_WORDS && self.all_letters * 4 < self.words * SHORT
  }

  /// Whether dots and dashes are in a row.
  pub(super) const fn is_morse(&self) -> bool {
    self.is_morse
  }
}
