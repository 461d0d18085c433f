//! Words that are made to look like other words: scripts and look-alikes (UTS 39).
//!
//! Only whole words are judged, and only those that no honest writer types: a word that mixes Latin
//! with look-alikes of another script, or one made of look-alikes alone inside Latin text. Honest
//! Cyrillic, Greek or Armenian has letters that look like nothing Latin, and is not changed.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Scripts that have letters in common with Latin in shape; all others are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
  Latin,
  /// Cyrillic, Greek, Armenian, Cherokee, Coptic, Lisu, Deseret and the like.
  Neighbour,
  Other,
  /// Digits, marks, connectors: belong to any.
  Common,
}

fn script(c: char) -> Script {
  match u32::from(c) {
    // Mathematical letters and letterlike symbols are compatibility forms of Latin.
    0x41..=0x5a
    | 0x61..=0x7a
    | 0xc0..=0xd6
    | 0xd8..=0xf6
    | 0xf8..=0x2af
    | 0x1e00..=0x1eff
    | 0x2100..=0x214f
    | 0x24b6..=0x24e9
    | 0x2c60..=0x2c7f
    | 0xa722..=0xa7ff
    | 0xff21..=0xff3a
    | 0xff41..=0xff5a
    | 0x1d400..=0x1d6a5 => Script::Latin,
    0x370..=0x52f
    | 0x531..=0x58f
    | 0x13a0..=0x13ff
    | 0x1c80..=0x1c8f
    | 0x1f00..=0x1fff
    | 0x2c80..=0x2cff
    | 0x2de0..=0x2dff
    | 0xa4d0..=0xa4ff
    | 0xa640..=0xa69f
    | 0xab70..=0xabbf
    | 0x10400..=0x1044f => Script::Neighbour,
    0x300..=0x36f | 0x30..=0x39 | 0x5f => Script::Common,
    _ if c.is_alphabetic() => Script::Other,
    _ => Script::Common,
  }
}

/// The lower case of `c`. Letters of ASCII keep their case, which encoded words need; patterns ignore it.
pub(super) fn lower(c: char) -> impl Iterator<Item = char> {
  let ascii = c.is_ascii().then_some(c);
  let other = (!c.is_ascii()).then(|| c.to_lowercase());
  ascii.into_iter().chain(other.into_iter().flatten())
}

/// The ASCII letter or digit that `c` looks like.
pub(super) fn look_alike(c: char) -> Option<char> {
  if c.is_ascii() {
    return None;
  }
  match c {
    // The table says `l`, which is right for the shape and wrong for the word.
    '\u{406}' | '\u{399}' | '\u{4c0}' | '\u{2c92}' | '\u{a4f2}' => return Some('I'),
    _ => {}
  }
  let mut buffer = [0; 4];
  let mut skeleton = unicode_security::skeleton(c.encode_utf8(&mut buffer));
  let first = skeleton.next()?;
  // Accents that the decomposition leaves behind (`ї` is `i` and a diaeresis) do not matter here.
  let rest_is_marks = skeleton.all(|mark| matches!(u32::from(mark), 0x300..=0x36f));
  (first.is_ascii_alphanumeric() && rest_is_marks).then_some(first)
}

/// Words to fold, in order of the text, and what they say about it.
#[derive(Debug, Default)]
pub(super) struct Disguised {
  /// Byte ranges of the words whose look-alikes are folded.
  pub words: Vec<Range<usize>>,
}

/// Finds disguised words. `invisible` says which characters to look through.
pub(super) fn disguised(text: &str, invisible: impl Fn(char) -> bool) -> Disguised {
  let mut mixed = Vec::new();
  let mut alike = Vec::new();
  let mut honest_neighbour = false;
  let mut latin_words = 0_usize;
  let mut word: Option<Word> = None;
  let end = text.len();
  for (at, c) in text.char_indices().chain(std::iter::once((end, ' '))) {
    let inside = c.is_alphanumeric() || matches!(u32::from(c), 0x300..=0x36f);
    if inside {
      let current = word.get_or_insert_with(|| Word::new(at));
      current.add(c);
    } else if at < end && invisible(c) {
      // A hidden character does not end a word.
    } else if let Some(done) = word.take() {
      let range = done.start..at;
      honest_neighbour |= done.neighbours > done.alike;
      if done.other == 0 && done.neighbours > 0 && done.neighbours == done.alike {
        if done.latin > 0 && done.latin + done.neighbours >= 3 {
          mixed.push(range);
        } else if done.latin == 0 && done.neighbours >= 3 {
          alike.push(range);
        }
      } else if done.latin >= 2 && done.neighbours == 0 {
        latin_words += 1;
      }
    }
  }
  if !honest_neighbour && latin_words > alike.len() {
    mixed.append(&mut alike);
    mixed.sort_by_key(|range| range.start);
  }
  Disguised { words: mixed }
}

struct Word {
  start: usize,
  latin: u32,
  neighbours: u32,
  alike: u32,
  other: u32,
}

impl Word {
  fn new(start: usize) -> Self {
    Self { start, latin: 0, neighbours: 0, alike: 0, other: 0 }
  }

  fn add(&mut self, c: char) {
    match script(c) {
      Script::Latin => self.latin += 1,
      Script::Neighbour => {
        self.neighbours += 1;
        self.alike += u32::from(look_alike(c).is_some());
      }
      Script::Other => self.other += 1,
      Script::Common => {}
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn words(text: &str) -> Vec<&str> {
    disguised(text, |_| false)
      .words
      .into_iter()
      .map(|range| text.get(range).expect("whole characters"))
      .collect()
  }

  #[test]
  fn mixed_words_are_found() {
    // `Ignоre` with a Cyrillic o, `раssword` with Cyrillic p and a.
    assert_eq!(
      words("Ign\u{43e}re the \u{440}\u{430}ssword"),
      ["Ign\u{43e}re", "\u{440}\u{430}ssword"]
    );
  }

  #[test]
  fn look_alike_words_in_latin_text_are_found() {
    // `сору` is all Cyrillic.
    assert_eq!(words("please \u{441}\u{43e}\u{440}\u{443} this"), ["\u{441}\u{43e}\u{440}\u{443}"]);
  }

  #[test]
  fn honest_scripts_are_left_alone() {
    for text in [
      "Привет, это обычный текст про нос и рот",
      "Η μετάφραση του κειμένου",
      "10 μs, Δt, λ-calculus, Ωmega, 5 µm",
      "Мы используем GitHub и SMSки, IDшник",
      "这是中文 with English",
      "سلام دنیا hello",
      "Cегодня я написал",
    ] {
      assert_eq!(words(text), Vec::<&str>::new(), "{text}");
    }
  }

  #[test]
  fn capital_i_look_alikes_fold_to_i() {
    assert_eq!(look_alike('\u{406}'), Some('I'));
    assert_eq!(look_alike('\u{430}'), Some('a'));
    assert_eq!(look_alike('я'), None);
  }
}
