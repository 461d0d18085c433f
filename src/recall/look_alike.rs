//! Text that a reader could take for a frame of memfw.
//!
//! A frame begins with a bracket and the word `memfw`. In text of memory, [`defuse`] puts `not-` before that
//! word wherever it follows a bracket, in any case, in letters that look alike or that an entity names, and with
//! signs, spaces, tags or invisible characters in between. At the beginning of a line a round bracket or a box is
//! enough, if the word has the colon or the id of a frame. Nothing is removed. A backslash would not do: a text can
//! bring one that escapes it. A link, `[memfw](...)`, stays.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// The word after the bracket of a frame.
const WORD: &[u8; 5] = b"memfw";
/// What is put before it.
const NOT: &str = "not-";

/// Entities for brackets, and for what a reader does not see.
const ENTITIES: [(&str, char); 12] = [
  ("lbrack", '['),
  ("lsqb", '['),
  ("lt", '<'),
  ("lcub", '{'),
  ("lbrace", '{'),
  ("lpar", '('),
  ("shy", '\u{ad}'),
  ("zwj", '\u{200d}'),
  ("zwnj", '\u{200c}'),
  ("ZeroWidthSpace", '\u{200b}'),
  ("NoBreak", '\u{2060}'),
  ("InvisibleTimes", '\u{2062}'),
];
/// The longest entity and the longest tag that are taken for one, in bytes (a choice).
const MAX_ENTITY: usize = 20;
const MAX_TAG: usize = 64;

/// How a character counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
  /// A letter or digit, as the ASCII letter that it looks like, or 0.
  Letter(u8),
  /// A reader does not see it, or takes it for emphasis.
  Hidden,
  /// It opens a bracket that a frame could have.
  Opening,
  /// It opens another bracket or a box, which is no frame in the middle of a line.
  Box,
  /// It ends a line.
  LineEnd,
  /// Any other sign.
  Sign,
}

/// What was read of a line so far.
#[derive(Clone, Copy, Default)]
struct Seen {
  /// Whether only signs came after the last bracket.
  is_open: bool,
  /// Whether that is one that a frame could have.
  is_bracket: bool,
  /// Whether a bracket was opened, whatever came after it.
  is_inside: bool,
  /// Whether a letter came.
  has_letters: bool,
  /// Whether the last character is a letter.
  is_in_word: bool,
  /// How much of the word was read, and where it begins.
  n_matched: usize,
  start: usize,
}

/// The text without the beginning of a frame; it is borrowed where there was none.
pub fn defuse(text: &str) -> Cow<'_, str> {
  let mut out = String::new();
  let mut copied = 0;
  let mut seen = Seen::default();
  let mut at = 0;
  while let Some((kind, mut len)) = unit(text, at) {
    match kind {
      Kind::Hidden => {}
      Kind::Opening => {
        let has_letters = seen.has_letters;
        seen = Seen { is_open: true, is_bracket: true, is_inside: true, has_letters, ..seen };
        (seen.n_matched, seen.is_in_word) = (0, false);
      }
      Kind::Box if !seen.has_letters => {
        (seen.is_open, seen.is_bracket) = (true, false);
        (seen.n_matched, seen.is_in_word) = (0, false);
      }
      Kind::LineEnd => seen = Seen::default(),
      Kind::Sign | Kind::Box => {
        seen.is_open &= seen.n_matched == 0;
        (seen.n_matched, seen.is_in_word) = (0, false);
      }
      Kind::Letter(letter) => {
        let wanted = WORD.get(seen.n_matched).copied().unwrap_or_default();
        let after = at + len;
        let is_new = !seen.is_in_word;
        seen.has_letters = true;
        seen.is_in_word = true;
        if is_new {
          (seen.start, seen.n_matched) = (at, 0);
        }
        let two = second(text, after, letter, wanted);
        let is_next = letter == wanted || (letter, wanted) == (b'3', b'e') || two.is_some();
        let may_go_on = is_new || seen.n_matched > 0;
        if is_next && may_go_on {
          seen.n_matched += 1;
          len = two.map_or(len, |end| end - at);
        } else {
          (seen.is_open, seen.n_matched) = (false, 0);
        }
        let rest = text.get(at + len..).unwrap_or_default();
        if seen.n_matched == WORD.len() {
          if seen.is_frame(text, rest) {
            out.push_str(text.get(copied..seen.start).unwrap_or_default());
            out.push_str(NOT);
            copied = seen.start;
          }
          (seen.is_open, seen.n_matched) = (false, 0);
        }
      }
    }
    at += len;
  }
  if copied == 0 && out.is_empty() {
    return Cow::Borrowed(text);
  }
  out.push_str(text.get(copied..).unwrap_or_default());
  Cow::Owned(out)
}

impl Seen {
  /// Whether a reader could take the word for the beginning of a frame, by what is before it and after it.
  fn is_frame(&self, text: &str, rest: &str) -> bool {
    if self.is_open && self.is_bracket {
      return !is_link(rest);
    }
    let is_named = || {
      let id = rest.trim_start_matches([' ', '\t']);
      let n_digits = id.bytes().take_while(u8::is_ascii_hexdigit).count();
      n_digits >= 6
        && id.len() < rest.len()
        && id.get(n_digits..).unwrap_or_default().starts_with(':')
    };
    let is_done = text.get(..self.start).is_some_and(|before| before.ends_with(NOT));
    (self.is_open && rest.starts_with(':') || (self.is_open || self.is_inside) && is_named())
      && !is_done
  }
}

/// Whether the text after the word makes it the name of a link.
fn is_link(rest: &str) -> bool {
  let Some(target) = rest.strip_prefix("](") else { return false };
  let end = target.find(|c: char| c == ')' || c.is_whitespace()).unwrap_or(target.len());
  let target = target.get(..end).unwrap_or_default();
  let is_path = |c: char| c.is_ascii_alphanumeric() || "/._#-~%?=&+".contains(c);
  target.starts_with("https://")
    || target.starts_with("http://")
    || target.contains(['/', '.', '#']) && target.chars().all(is_path)
}

/// Where the second of two letters ends that look like the one that is wanted.
fn second(text: &str, at: usize, first: u8, wanted: u8) -> Option<usize> {
  let other = match (first, wanted) {
    (b'r', b'm') => b'n',
    (b'v', b'w') => b'v',
    _ => return None,
  };
  let mut at = at;
  loop {
    match unit(text, at)? {
      (Kind::Hidden, len) => at += len,
      (Kind::Letter(letter), len) if letter == other => return Some(at + len),
      _ => return None,
    }
  }
}

/// The kind of what is at a place: a character, an entity or a tag, and its length in bytes.
fn unit(text: &str, at: usize) -> Option<(Kind, usize)> {
  let rest = text.get(at..)?;
  let c = rest.chars().next()?;
  let found = match c {
    '&' => entity(rest).map(|(c, len)| (kind(c), len)),
    '<' => tag(rest).map(|len| (Kind::Hidden, len)),
    _ => None,
  };
  Some(found.unwrap_or_else(|| (kind(c), c.len_utf8())))
}

/// The character that an entity stands for, and its length.
fn entity(text: &str) -> Option<(char, usize)> {
  let end = text.bytes().take(MAX_ENTITY).position(|byte| byte == b';')?;
  let name = text.get(1..end)?;
  let c = match name.strip_prefix('#') {
    Some(number) => {
      let hex = number.strip_prefix(['x', 'X']);
      let code = hex.map_or_else(|| number.parse(), |hex| u32::from_str_radix(hex, 16)).ok()?;
      char::from_u32(code)?
    }
    None => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
  };
  Some((c, end + 1))
}

/// The length of a tag or of an empty comment. One that has the word in it is none.
fn tag(text: &str) -> Option<usize> {
  let inner = text.get(1..)?;
  let end = inner.bytes().take(MAX_TAG).position(|byte| matches!(byte, b'>' | b'<' | b'\n'))?;
  let inner = inner.get(..end).filter(|_| text.as_bytes().get(end + 1) == Some(&b'>'))?;
  let is_comment = inner.starts_with("!--") && !inner.contains(char::is_alphanumeric);
  let name = inner.strip_prefix('/').unwrap_or(inner);
  let is_tag = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.is_ascii();
  let has_word = || name.to_ascii_lowercase().contains('m') && name.len() >= WORD.len();
  (is_comment || is_tag && !has_word()).then_some(end + 2)
}

fn kind(c: char) -> Kind {
  if is_line_end(c) {
    return Kind::LineEnd;
  }
  if let Some(letter) = symbol(c) {
    return Kind::Letter(letter);
  }
  if c.is_ascii() {
    return match c {
      '[' | '<' | '{' => Kind::Opening,
      '(' | '|' => Kind::Box,
      '*' | '_' | '`' | '~' | '\\' => Kind::Hidden,
      _ if c.is_ascii_alphanumeric() => Kind::Letter(c.to_ascii_lowercase() as u8),
      _ if c.is_ascii_control() && c != '\t' => Kind::Hidden,
      _ => Kind::Sign,
    };
  }
  if is_bracket(c) {
    return Kind::Opening;
  }
  if is_box(c) {
    return Kind::Box;
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

/// Round and corner brackets, and the beginning of a box.
const fn is_box(c: char) -> bool {
  matches!(
    c,
    '（'
      | '﹙'
      | '⁽'
      | '₍'
      | '❨'
      | '❪'
      | '⦅'
      | '｟'
      | '﴾'
      | '「'
      | '『'
      | '｢'
      | '﹁'
      | '﹃'
      | '˻'
      | '᚛'
      | '‖'
      | '｜'
      | '￤'
      | '\u{2500}'..='\u{257f}'
  )
}

/// The letter of an emoji or of a tag character, which some readers see and some do not.
fn symbol(c: char) -> Option<u8> {
  let base = match c {
    '\u{1f1e6}'..='\u{1f1ff}' => 0x1_f1e6,
    '\u{e0041}'..='\u{e005a}' => 0xe_0041,
    '\u{e0061}'..='\u{e007a}' => 0xe_0061,
    _ => return None,
  };
  u8::try_from(u32::from(c) - base).ok().map(|n| b'a' + n)
}

/// The lower-case ASCII letter that a character looks like, or 0.
fn letter(c: char) -> u8 {
  // Those that the tables below have for another letter, or not at all.
  match c {
    'м' | 'М' | 'ϻ' | 'Ϻ' | 'ᴍ' | 'ɱ' | '₥' | 'ო' | 'ᗰ' => return b'm',
    'є' | 'Є' | 'ɛ' | 'Ɛ' | '℮' | 'ᴇ' | 'ҽ' => return b'e',
    'ƒ' | 'Ƒ' | 'ꞙ' | '₣' | 'ϝ' | 'ғ' | 'Ғ' | 'ſ' | 'ẝ' | 'ꜰ' => return b'f',
    'ш' | 'Ш' | 'щ' | 'ѡ' | 'ω' | 'ꞷ' | 'ⱳ' | 'ɯ' | 'ᴡ' | 'Ꮤ' | 'ᗯ' | 'ա' | 'ԝ' =>
    {
      return b'w';
    }
    _ => {}
  }
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
