//! A disguised passage and its reading, and the bounds of the search for such passages.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::words::SCALE;
use crate::detect::Severity;

/// How often one word may be encoded.
pub(super) const MAX_LAYERS: usize = 2;
/// Disguised passages that are undone in one text, at most.
pub(super) const MAX_FOUND: usize = 512;
/// A longer passage is cut: its start is enough to judge it.
pub(super) const MAX_PASSAGE: usize = 16 * 1024;
/// So much more likely (8 nats) must a passage be when it is turned before its words are looked at.
pub(super) const MIN_GAIN: i32 = 8 * SCALE;
/// So unlikely (24 nats) must a passage be before other alphabets are tried: names and acronyms are unlikely,
/// too.
pub(super) const MIN_UNLIKE: i32 = 24 * SCALE;
/// So many different common words must come out.
pub(super) const MIN_WORDS: usize = 3;

/// How much a finding about the form of a text counts; the content is judged in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
  /// It is encoded: a finding of this severity.
  Encoded(Severity),
  /// It is disguised: no evidence in a note of unknown source, evidence in a text from outside.
  Disguised,
  /// No finding: much ordinary text is written so.
  Nothing,
}

/// How words were disguised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
  /// Another alphabet: letters turned by thirteen places or others, or in reverse order.
  Shifted,
  /// The last letter first, and another alphabet.
  Both,
  /// All signs turned by 47 places.
  Rot47,
  /// Digits and signs in place of letters.
  Leet,
  /// A space or sign between all letters.
  Apart,
  /// The last letter first.
  Backwards,
  /// Numbers, or signs of a larger alphabet, in place of letters.
  Numbers,
  /// Letters escaped one by one.
  Escaped,
  /// Dots and dashes.
  Morse,
  /// Base64 in pieces.
  Pieces,
  /// Strings of source code that cut words.
  Strings,
  /// Signs inside words.
  Split,
  /// Something between words.
  Joined,
}

impl How {
  /// What a finding says about it.
  pub(super) const fn why(self) -> &'static str {
    match self {
      Self::Shifted => "words are written in another alphabet, such as rot13",
      Self::Both => "words are written backwards in another alphabet",
      Self::Rot47 => "words are written in rot47",
      Self::Leet => "words are spelled with digits and signs in place of letters",
      Self::Apart => "the letters of words are set apart",
      Self::Backwards => "words are written backwards",
      Self::Numbers => "numbers or signs replace the letters of a text",
      Self::Escaped => "letters of words are escaped one by one",
      Self::Morse => "words are written in dots and dashes",
      Self::Pieces => "an encoded word is in pieces",
      Self::Strings => "words are cut into strings of source code",
      Self::Split => "signs are inside words",
      Self::Joined => "signs are between words",
    }
  }

  /// How much the finding counts: mail and source code escape letters for other reasons.
  pub(super) const fn worth(self) -> Worth {
    match self {
      Self::Escaped | Self::Strings | Self::Split => Worth::Disguised,
      Self::Joined => Worth::Nothing,
      _ => Worth::Encoded(Severity::Low),
    }
  }
}

/// A disguised passage: its place and its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undone {
  /// Its place.
  pub span: Range<usize>,
  /// What it says.
  pub text: String,
  /// How it was disguised.
  pub how: How,
}

/// The next character boundary at or below.
pub(super) fn floor(text: &str, at: &mut usize) -> usize {
  while *at > 0 && !text.is_char_boundary(*at) {
    *at -= 1;
  }
  *at
}

pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
  text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

pub(super) fn is_word(c: char) -> bool {
  c.is_alphanumeric() || c == '\''
}
