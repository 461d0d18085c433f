//! Text that a reader could take for a frame of memfw.
//!
//! A frame begins with a bracket and the word `memfw`. In text of memory, [`defuse`] puts `not-` before that
//! word wherever it follows a bracket, in any case, in letters that look alike, and with signs, spaces or
//! invisible characters in between. Nothing is removed. A backslash would not do: a text can bring one that
//! escapes it. A link, `[memfw](...)`, stays.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// The word after the bracket of a frame.
const WORD: &[u8; 5] = b"memfw";
/// What is put before it.
const NOT: &str = "not-";

/// How a character counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
  /// A letter or digit, as the ASCII letter that it looks like, or 0.
  Letter(u8),
  /// A reader does not see it, or takes it for emphasis.
  Hidden,
  /// It opens a bracket that a frame could have.
  Opening,
  /// It ends a line.
  LineEnd,
  /// Any other sign.
  Sign,
}

/// The text without the beginning of a frame; it is borrowed where there was none.
pub fn defuse(text: &str) -> Cow<'_, str> {
  let mut out = String::new();
  let mut copied = 0;
  // Whether only signs came after the last bracket, and how much of the word.
  let mut is_open = false;
  let (mut n_matched, mut start) = (0, 0);
  for (at, c) in text.char_indices() {
    match kind(c) {
      Kind::Hidden => {}
      Kind::Opening => (is_open, n_matched) = (true, 0),
      Kind::LineEnd => (is_open, n_matched) = (false, 0),
      Kind::Sign => {
        is_open &= n_matched == 0;
        n_matched = 0;
      }
      Kind::Letter(letter) => {
        if n_matched == 0 {
          start = at;
        }
        is_open &= WORD.get(n_matched) == Some(&letter);
        n_matched = if is_open { n_matched + 1 } else { 0 };
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        if n_matched == WORD.len() {
          if !rest.starts_with("](") {
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(NOT);
            copied = start;
          }
          (is_open, n_matched) = (false, 0);
        }
      }
    }
  }
  if copied == 0 && out.is_empty() {
    return Cow::Borrowed(text);
  }
  out.push_str(text.get(copied..).unwrap_or_default());
  Cow::Owned(out)
}

fn kind(c: char) -> Kind {
  if is_line_end(c) {
    return Kind::LineEnd;
  }
  if c.is_ascii() {
    return match c {
      '[' | '<' | '{' => Kind::Opening,
      '*' | '_' | '`' | '~' | '\\' => Kind::Hidden,
      _ if c.is_ascii_alphanumeric() => Kind::Letter(c.to_ascii_lowercase() as u8),
      _ if c.is_ascii_control() && c != '\t' => Kind::Hidden,
      _ => Kind::Sign,
    };
  }
  if is_bracket(c) {
    return Kind::Opening;
  }
  if c.is_alphanumeric() {
    return Kind::Letter(letter(c));
  }
  match c.general_category_group() {
    GeneralCategoryGroup::Mark | GeneralCategoryGroup::Other => Kind::Hidden,
    // Circled and other enclosed letters.
    GeneralCategoryGroup::Symbol if letter(c) != 0 => Kind::Letter(letter(c)),
    _ => Kind::Sign,
  }
}

/// Whether a reader sees a new line after this character.
pub fn is_line_end(c: char) -> bool {
  matches!(
    c,
    '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
  )
}

/// Brackets that look like a square, angle or curly one. Quotation marks are none of them.
const fn is_bracket(c: char) -> bool {
  matches!(
    c,
    '［'
      | '＜'
      | '｛'
      | '﹝'
      | '﹛'
      | '﹤'
      | '︷'
      | '︹'
      | '︻'
      | '﹇'
      | '【'
      | '〔'
      | '〖'
      | '〘'
      | '〚'
      | '⁅'
      | '‹'
      | '≪'
      | '⌈'
      | '⌊'
      | '⌜'
      | '⟦'
      | '⟨'
      | '⟪'
      | '⟬'
      | '⎡'
      | '⎢'
      | '⎣'
      | '⦃'
      | '⦋'
      | '⦍'
      | '⦏'
      | '⦑'
      | '⦗'
      | '⧼'
      | '⸢'
      | '⸤'
      | '❬'
      | '❮'
      | '❰'
      | '❲'
      | '❴'
      | '〈'
      | '⟮'
  )
}

/// The lower-case ASCII letter that a character looks like, or 0.
fn letter(c: char) -> u8 {
  let ascii = |c: char| if c.is_ascii_alphabetic() { c.to_ascii_lowercase() as u8 } else { 0 };
  let mut buffer = [0; 4];
  // A compatibility form of one letter, such as a mathematical or a circled one, with or without accents.
  let composed: &str = c.encode_utf8(&mut buffer);
  let found = composed.nfkd().next().map_or(0, ascii);
  if found != 0 {
    return found;
  }
  let lower = c.to_lowercase().next().unwrap_or(c);
  for shape in [c, lower] {
    let mut skeleton = unicode_security::skeleton(shape.encode_utf8(&mut buffer));
    match (skeleton.next(), skeleton.next()) {
      // The table of look-alikes takes `m` apart.
      (Some('r'), Some('n')) => return b'm',
      (Some(first), _) if ascii(first) != 0 => return ascii(first),
      _ => {}
    }
  }
  0
}
