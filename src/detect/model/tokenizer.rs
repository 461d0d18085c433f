//! Text to the numbers of its pieces: WordPiece behind BERT's lower-casing normaliser.
//!
//! It repeats what the model was trained with, piece by piece, and nothing else: `fixtures/tokenizer` has
//! the reference. One difference is wanted: names of special pieces in a text (`[SEP]`) are text.
//!
//! The `tokenizers` crate would be 126 crates for these lines.
//!
//! Invariants: time is linear in the text, and the answer has no more numbers than were asked for.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use super::Damage;

/// A longer word is not looked up (as in the reference).
const MAX_WORD_CHARS: usize = 100;
/// What a piece within a word begins with in the vocabulary.
const WITHIN: &str = "##";

/// A vocabulary and how to use it.
#[derive(Debug)]
pub struct Tokenizer {
  /// Pieces that begin a word.
  first: HashMap<&'static str, i32>,
  /// Pieces within a word.
  within: HashMap<&'static str, i32>,
  /// The characters of the longest piece.
  longest: usize,
  pieces: usize,
  unknown: i32,
  start: i32,
  end: i32,
}

impl Tokenizer {
  /// A tokenizer with this vocabulary: a piece a line, its number that of the line.
  pub fn load(vocabulary: &'static [u8]) -> Result<Self, Damage> {
    let damage = |why| Damage::new("vocabulary", why);
    let text = std::str::from_utf8(vocabulary).ok().ok_or(damage("it is no text"))?;
    let (mut first, mut within) = (HashMap::new(), HashMap::new());
    let mut longest = 0;
    for (number, piece) in text.lines().enumerate() {
      let (map, piece) = match piece.strip_prefix(WITHIN).filter(|rest| !rest.is_empty()) {
        Some(rest) => (&mut within, rest),
        None => (&mut first, piece),
      };
      map.insert(piece, number as i32);
      longest = longest.max(piece.chars().count());
    }
    let special = |name| first.get(name).copied().ok_or(damage("it lacks a special piece"));
    let (unknown, start) = (special("[UNK]")?, special("[CLS]")?);
    let end = special("[SEP]")?;
    let pieces = text.lines().count();
    Ok(Self { first, within, longest, pieces, unknown, start, end })
  }

  /// How many pieces the vocabulary has: numbers are below.
  pub fn pieces(&self) -> usize {
    self.pieces
  }

  /// The numbers of the pieces of a text, at most so many with the first and the last one; of a long text
  /// those of its beginning.
  pub fn encode(&self, text: &str, most: usize) -> Vec<i32> {
    let mut tokens = vec![self.start];
    let mut word = Word::default();
    for c in normalised(text) {
      if tokens.len() >= most {
        break;
      }
      if c.is_whitespace() {
        self.end_word(&mut word, &mut tokens);
      } else if is_punctuation(c) {
        self.end_word(&mut word, &mut tokens);
        word.push(c);
        self.end_word(&mut word, &mut tokens);
      } else {
        word.push(c);
      }
    }
    self.end_word(&mut word, &mut tokens);
    tokens.truncate(most.saturating_sub(1));
    tokens.push(self.end);
    tokens
  }

  /// The numbers of two texts, one after the other, each with its last number: at most `most_first`
  /// of the first, and at most `most` in all.
  pub fn encode_pair(&self, first: &str, most_first: usize, second: &str, most: usize) -> Vec<i32> {
    let mut tokens = self.encode(first, most_first.min(most));
    // Without the number that begins a text.
    let rest = self.encode(second, most.saturating_sub(tokens.len()) + 1);
    tokens.extend(rest.iter().skip(1));
    tokens
  }

  /// Adds the pieces of a word, the longest that fits first; a word with a part that is no piece is unknown
  /// as a whole.
  fn end_word(&self, word: &mut Word, tokens: &mut Vec<i32>) {
    let before = tokens.len();
    let mut rest = if word.chars > MAX_WORD_CHARS { "" } else { word.text.as_str() };
    if word.chars > MAX_WORD_CHARS {
      tokens.push(self.unknown);
    }
    while !rest.is_empty() {
      let pieces = if tokens.len() == before { &self.first } else { &self.within };
      let Some((number, len)) = self.longest_in(pieces, rest) else {
        tokens.truncate(before);
        tokens.push(self.unknown);
        break;
      };
      tokens.push(number);
      rest = rest.get(len..).unwrap_or_default();
    }
    word.clear();
  }

  /// The longest of these pieces that a text begins with, and how many bytes it has.
  fn longest_in(&self, pieces: &HashMap<&str, i32>, text: &str) -> Option<(i32, usize)> {
    let end = text.char_indices().nth(self.longest).map_or(text.len(), |(at, _)| at);
    let mut part = text.get(..end)?;
    while let Some((last, _)) = part.char_indices().next_back() {
      if let Some(number) = pieces.get(part) {
        return Some((*number, part.len()));
      }
      part = part.get(..last)?;
    }
    None
  }
}

/// A word as far as it was read; what is too long to be looked up is only counted.
#[derive(Default)]
struct Word {
  text: String,
  chars: usize,
}

impl Word {
  fn push(&mut self, c: char) {
    self.chars += 1;
    if self.chars <= MAX_WORD_CHARS {
      self.text.push(c);
    }
  }

  fn clear(&mut self) {
    self.text.clear();
    self.chars = 0;
  }
}

/// The text as the model knows text: without control characters and accents, in lower case, ideographs as
/// words of their own.
fn normalised(text: &str) -> impl Iterator<Item = char> {
  let clean = text.chars().filter(|c| !is_dropped(*c));
  let apart = clean.flat_map(|c| {
    let around = is_ideograph(c).then_some(' ');
    [around, Some(c), around].into_iter().flatten()
  });
  let bare = apart.nfd().filter(|c| c.is_ascii() || !is_accent(*c));
  bare.flat_map(char::to_lowercase)
}

/// Characters that the model ignores.
fn is_dropped(c: char) -> bool {
  use GeneralCategory::{Control, Format, PrivateUse};
  match c {
    '\t' | '\n' | '\r' => false,
    '\0'..='\u{7f}' => c.is_ascii_control(),
    '\u{fffd}' => true,
    _ => matches!(c.general_category(), Control | Format | PrivateUse),
  }
}

fn is_accent(c: char) -> bool {
  c.general_category() == GeneralCategory::NonspacingMark
}

/// In ASCII all signs, elsewhere what Unicode calls punctuation.
fn is_punctuation(c: char) -> bool {
  if c.is_ascii() {
    return c.is_ascii_punctuation();
  }
  c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// The blocks of ideographs that BERT sets apart.
const fn is_ideograph(c: char) -> bool {
  matches!(c,
    '\u{4e00}'..='\u{9fff}'
    | '\u{3400}'..='\u{4dbf}'
    | '\u{20000}'..='\u{2a6df}'
    | '\u{2a700}'..='\u{2b73f}'
    | '\u{2b740}'..='\u{2b81f}'
    | '\u{2b920}'..='\u{2ceaf}'
    | '\u{f900}'..='\u{faff}'
    | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
  use super::*;

  const VOCABULARY: &[u8] = include_bytes!("../../../fixtures/tokenizer/vocabulary.txt");
  const REFERENCE: &str = include_str!("../../../fixtures/tokenizer/reference.jsonl");

  /// As the reference was made.
  const MAX_TOKENS: usize = 256;

  fn tokenizer() -> Tokenizer {
    Tokenizer::load(VOCABULARY).unwrap()
  }

  fn pieces(text: &str) -> Vec<&'static str> {
    let all: Vec<&str> = std::str::from_utf8(VOCABULARY).unwrap().lines().collect();
    tokenizer().encode(text, MAX_TOKENS).iter().map(|number| all[*number as usize]).collect()
  }

  #[test]
  fn every_reference_is_repeated() {
    let tokenizer = tokenizer();
    let mut n = 0;
    for line in REFERENCE.lines() {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let text = one["text"].as_str().unwrap();
      let ids: Vec<i32> = serde_json::from_value(one["ids"].clone()).unwrap();
      assert_eq!(tokenizer.encode(text, MAX_TOKENS), ids, "{text:?}");
      n += 1;
    }
    assert!(n >= 100, "{n} references");
  }

  #[test]
  fn names_of_special_pieces_are_text() {
    let special = ["[CLS]", "[SEP]", "[UNK]", "[PAD]"];
    let said = pieces("a [SEP] b [CLS] [PAD]");
    assert_eq!(said.iter().filter(|piece| special[..2].contains(piece)).count(), 2, "{said:?}");
    assert!(!said.contains(&"[PAD]"));
  }

  #[test]
  fn a_long_text_is_cut() {
    let text = "end of the line. ".repeat(100_000);
    let tokens = tokenizer().encode(&text, MAX_TOKENS);
    assert_eq!(tokens.len(), MAX_TOKENS);
    assert_eq!(tokens.last(), Some(&tokenizer().end));
  }

  #[test]
  fn a_vocabulary_without_special_pieces_is_damaged() {
    assert!(Tokenizer::load(b"[UNK]\n[CLS]\na\n").is_err());
    assert!(Tokenizer::load(b"\xff").is_err());
  }
}
