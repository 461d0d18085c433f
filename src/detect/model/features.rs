//! What the linear heads see of a text: hashed n-grams of words, and of characters within words.
//!
//! Not a tokenizer for people: addresses, numbers, identifiers and the placeholder names of scrubbed
//! corpora become classes, so that no head can learn them by heart. Scripts without spaces are read
//! by character. Training and run time use this one file, so they cannot drift apart.
//!
//! Invariant: the time is linear in the text, a character makes at most 23 features,
//! and the hashes are the same on every machine.
#![forbid(unsafe_code)]

use super::address::{self, Token};

/// Characters of a word that are looked at together; a longer run of letters is several words.
const MAX_WORD: usize = 40;
/// Highest order of word n-grams that a file of weights may ask for.
const MAX_WORDS: u8 = 3;
/// Highest order of character n-grams that a file of weights may ask for.
const MAX_CHARS: u8 = 6;
/// Which n-grams are made. Part of the file of weights, for it says what the weights are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
  /// Words in a row, from 1 to this many.
  pub words: u8,
  /// Whether two words with one between them are a feature.
  pub gaps: bool,
  /// Fewest characters of a character n-gram.
  pub least: u8,
  /// Most characters of a character n-gram; 0 for none.
  pub most: u8,
}

impl Shape {
  /// The shape that is trained: chosen by measurement (docs/detection.md).
  pub const CHOSEN: Self = Self { words: 2, gaps: true, least: 3, most: 5 };

  /// Whether this is a shape that the code knows.
  pub const fn is_known(self) -> bool {
    self.words <= MAX_WORDS && self.most <= MAX_CHARS && (self.most == 0 || self.least >= 1)
  }
}

/// Hashes of the features of `text`, each once, ascending; appended to nothing: `out` is cleared.
/// Returns the number of words.
pub fn extract(text: &str, shape: Shape, out: &mut Vec<u32>) -> usize {
  out.clear();
  let mut reader = Reader { shape, out, before: [0; 3], n_words: 0, word: Vec::with_capacity(16) };
  address::tokens(text, |token| reader.take(token));
  let n_words = reader.n_words;
  out.sort_unstable();
  out.dedup();
  n_words
}

/// Hashes tokens as they come.
struct Reader<'o> {
  shape: Shape,
  out: &'o mut Vec<u32>,
  /// Hashes of the last words, the latest first.
  before: [u64; 3],
  n_words: usize,
  /// The word at hand, in small letters.
  word: Vec<char>,
}

impl Reader<'_> {
  fn take(&mut self, token: Token<'_>) {
    match token {
      Token::Class(class) => {
        let hash = class.bytes().fold(seed(Group::Class), |hash, byte| mix(hash, u64::from(byte)));
        self.word_seen(hash);
      }
      Token::Word(text) => {
        let mut chars = text.chars().flat_map(char::to_lowercase).map(plain_digit);
        loop {
          self.word.clear();
          self.word.extend(chars.by_ref().take(MAX_WORD));
          if self.word.is_empty() {
            break;
          }
          let hash = self.word.iter().fold(seed(Group::Word), |hash, c| mix(hash, u64::from(*c)));
          self.word_seen(hash);
          self.inside_word();
        }
      }
      Token::Unspaced(text) => {
        let mut rest = text.chars().peekable();
        while rest.peek().is_some() {
          self.word.clear();
          self.word.extend(rest.by_ref().take(MAX_WORD));
          self.n_words += self.word.len().div_ceil(2);
          self.grams(Group::Unspaced, 1, 4);
        }
        self.before = [0; 3];
      }
    }
  }

  /// A word: alone, with the ones before it, and with the one before the last.
  fn word_seen(&mut self, hash: u64) {
    self.n_words += 1;
    let [last, second, _] = self.before;
    if self.shape.words >= 1 {
      self.out.push(finish(hash));
    }
    if self.shape.words >= 2 && last != 0 {
      self.out.push(finish(mix(mix(seed(Group::Two), last), hash)));
    }
    if self.shape.words >= 3 && second != 0 {
      self.out.push(finish(mix(mix(mix(seed(Group::Three), second), last), hash)));
    }
    if self.shape.gaps && second != 0 {
      self.out.push(finish(mix(mix(seed(Group::Gap), second), hash)));
    }
    self.before = [hash, last, second];
  }

  /// Character n-grams of the word at hand, with a mark at either end.
  fn inside_word(&mut self) {
    if self.shape.most == 0 {
      return;
    }
    // A syllable of Hangul holds as much as two or three letters of an alphabet.
    if self.word.iter().all(|c| matches!(c, '\u{ac00}'..='\u{d7a3}')) {
      self.grams(Group::Unspaced, 1, 3);
      return;
    }
    self.word.insert(0, '^');
    self.word.push('$');
    self.grams(Group::Chars, self.shape.least, self.shape.most);
  }

  fn grams(&mut self, group: Group, least: u8, most: u8) {
    if self.shape.most == 0 {
      return;
    }
    for start in 0..self.word.len() {
      let mut hash = seed(group);
      for (index, c) in self.word.iter().skip(start).take(usize::from(most)).enumerate() {
        hash = mix(hash, u64::from(*c));
        if index + 1 >= usize::from(least) {
          self.out.push(finish(hash));
        }
      }
    }
  }
}

/// Groups that are hashed separately, so that a word and its letters within another word are two
/// features.
#[derive(Clone, Copy)]
enum Group {
  Word = 1,
  Class,
  Two,
  Three,
  Gap,
  Chars,
  Unspaced,
}

const fn seed(group: Group) -> u64 {
  (group as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// One step of a multiplicative hash (constants: the golden ratio, and Stafford's mix 13 below).
const fn mix(hash: u64, value: u64) -> u64 {
  (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

const fn finish(hash: u64) -> u32 {
  let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
  (hash >> 32) as u32
}

/// A feature of what is known about a text: a number in a group that no n-gram has.
pub(super) fn joined(group: u64, number: u64) -> u32 {
  finish(mix(group.wrapping_mul(0xd6e8_feb8_6659_fd93), number))
}

/// All digits count as one: the number of a version or port is no evidence.
const fn plain_digit(c: char) -> char {
  if c.is_ascii_digit() { '0' } else { c }
}

#[cfg(test)]
mod tests {
  use super::*;

  /// Features that one character can give rise to: each order of characters, as a word of its own each
  /// order of words and the pair with a gap, and the marks of a word's two ends.
  const MAX_PER_CHAR: usize = 3 * MAX_CHARS as usize + MAX_WORDS as usize + 2;

  fn features(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    extract(text, Shape::CHOSEN, &mut out);
    out
  }

  #[test]
  fn what_was_scrubbed_cannot_be_distinguished() {
    for (one, other) in [
      ("mail user@example.com now", "mail jo.b+x@backup-desk.test now"),
      ("runs on 192.0.2.10 only", "runs on 10.31.7.4 only"),
      ("see https://a.example/x for it", "see https://docs.host.invalid/y for it"),
      ("push to a.example then", "push to mirror.other-host.com then"),
      ("chat 1000000001 is ours", "chat 74 is ours"),
      ("ask Alex about it", "ask alexdev about it"),
      ("ask @user07 about it", "ask @bo_b about it"),
      ("on 2026-01-28 we left", "on 2025-11-02 we left"),
    ] {
      assert_eq!(features(one), features(other), "{one:?} {other:?}");
    }
    assert_ne!(features("mail a@b.test now"), features("mail https://b.test now"));
  }

  #[test]
  fn every_script_gives_features_of_its_own() {
    for (text, near, far) in [
      ("backups are deleted", "backup deleting", "ferns grow tall"),
      ("резервные копии удаляем", "резервная копия", "солнце светит"),
      ("备份文件已经删除", "备份已经删除", "今天天气很好"),
      ("バックアップを削除する", "バックアップは削除", "天気がいいです"),
      ("백업은 삭제한다", "백업을 삭제했다", "오늘 날씨 좋다"),
      ("बैकअप हटा दिया", "बैकअप हटाना", "मौसम अच्छा है"),
      ("تم حذف النسخ", "حذف النسخة", "الطقس جميل اليوم"),
    ] {
      let (text, near, far) = (features(text), features(near), features(far));
      let shared = |other: &[u32]| other.iter().filter(|one| text.contains(one)).count();
      assert!(shared(&near) >= 5 && shared(&near) > 4 * shared(&far), "{text:?}");
    }
  }

  #[test]
  fn case_and_digits_do_not_matter_but_order_does() {
    assert_eq!(features("Push To P0"), features("push to p7"));
    assert_ne!(features("never push to main"), features("main to push never"));
  }

  #[test]
  fn features_are_bounded() {
    for text in ["a".repeat(5000), "備".repeat(5000), "a ".repeat(5000), "1.".repeat(3000)] {
      let mut out = Vec::new();
      extract(&text, Shape { words: 3, gaps: true, least: 1, most: 6 }, &mut out);
      assert!(out.len() <= text.chars().count() * MAX_PER_CHAR + MAX_PER_CHAR);
      assert!(out.windows(2).all(|pair| pair[0] < pair[1]));
    }
  }
}
