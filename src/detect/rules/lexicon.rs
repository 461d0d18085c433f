//! Word classes: all words of all rules found in one pass.
//!
//! A class is a set of words that mean the same to a rule. A word matches whole, `word*` at its
//! start, `*word` at its end, `*word*` anywhere; case of ASCII letters does not matter.
#![forbid(unsafe_code)]

use std::{collections::HashMap, ops::Range};

pub(in crate::detect) use super::classes::{Class, Classes, MAX_CLASSES};
use super::{
  rule::Pattern,
  trie::{Trie, is_word},
};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// One word of a class, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::detect) struct WordMatch {
  /// The number of the word's class.
  pub class: Class,
  /// Where it starts.
  pub start: u32,
  /// Where it ends.
  pub end: u32,
}

/// The classes of the words in a sentence; `next` is the first of `words`, which are sorted by
/// place, that may be in it, and afterwards the first behind it. A word that continues over the end
/// of a sentence does not count.
pub(in crate::detect) fn classes_in(
  words: &[WordMatch],
  next: &mut usize,
  sentence: &Range<usize>,
) -> Classes {
  let mut classes = Classes::default();
  while let Some(word) = words.get(*next).filter(|word| (word.start as usize) < sentence.end) {
    if word.start as usize >= sentence.start && word.end as usize <= sentence.end {
      classes.insert(word.class);
    }
    *next += 1;
  }
  classes
}

/// Collects words before the automaton is built.
#[derive(Debug, Default)]
pub(in crate::detect) struct LexiconBuilder {
  starts: Literals,
  anywhere: Literals,
  wide: Literals,
  names: HashMap<String, Class>,
  kinds: Vec<Kind>,
}

/// Words and what they are used for, by number.
#[derive(Debug, Default)]
struct Literals {
  texts: Vec<String>,
  uses: Vec<Vec<Use>>,
  index: HashMap<String, usize>,
}

/// How the words of a class count.
#[derive(Debug, Default)]
pub(in crate::detect) struct Kind {
  /// What must match around a word.
  pub(in crate::detect) confirm: Option<Pattern>,
  /// Words inside an address or a path do not count: an attacker chooses his host names.
  pub(in crate::detect) prose: bool,
}

#[derive(Clone, Copy, Debug)]
struct Use {
  class: Class,
  /// Whether it must not follow a letter or digit.
  left: bool,
  /// Whether no letter or digit may follow it.
  right: bool,
}

impl LexiconBuilder {
  /// A new class; `None` when there is no room.
  pub(in crate::detect) fn class(&mut self, name: Option<&str>, kind: Kind) -> Option<Class> {
    let number = self.kinds.len();
    if number >= MAX_CLASSES {
      return None;
    }
    self.kinds.push(kind);
    if let Some(name) = name {
      self.names.insert(name.to_owned(), number as Class);
    }
    Some(number as Class)
  }

  /// The class of that name.
  pub(in crate::detect) fn named(&self, name: &str) -> Option<Class> {
    self.names.get(name).copied()
  }

  /// The names so far.
  pub(in crate::detect) fn names(&self) -> impl Iterator<Item = &str> {
    self.names.keys().map(String::as_str)
  }

  /// Adds a word to a class. The text after the stars are gone must not be empty.
  pub(in crate::detect) fn word(&mut self, class: Class, word: &str) -> Result<(), &'static str> {
    let (left, word) = word.strip_prefix('*').map_or((true, word), |rest| (false, rest));
    let (right, word) = word.strip_suffix('*').map_or((true, word), |rest| (false, rest));
    if word.trim().is_empty() {
      return Err("an empty word would match everywhere");
    }
    let word = word.to_lowercase();
    // Scripts without spaces have no word edges; neither have signs.
    let left = left && word.chars().next().is_some_and(has_edges);
    let right = right && word.chars().next_back().is_some_and(has_edges);
    if !word.is_ascii() {
      // The automaton folds ASCII only.
      let mut chars = word.chars();
      let capital: String =
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect();
      if capital != word {
        self.literal(capital, Use { class, left, right });
      }
    }
    self.literal(word, Use { class, left, right });
    Ok(())
  }

  fn literal(&mut self, word: String, as_word: Use) {
    let literals = if Trie::takes(&word, as_word.left) {
      &mut self.starts
    } else if word.is_ascii() {
      &mut self.anywhere
    } else {
      &mut self.wide
    };
    let at = *literals.index.entry(word.clone()).or_insert_with(|| {
      literals.texts.push(word);
      literals.uses.push(Vec::new());
      literals.texts.len() - 1
    });
    if let Some(uses) = literals.uses.get_mut(at) {
      uses.push(as_word);
    }
  }

  /// Builds what finds the words.
  pub(crate) fn build(self) -> Result<Lexicon, String> {
    let starts = Trie::of(self.starts.texts.iter().map(String::as_str));
    Ok(Lexicon {
      starts: starts.ok_or("there are too many words")?,
      start_uses: self.starts.uses,
      anywhere: Words::new(self.anywhere)?,
      wide: Words::new(self.wide)?,
      kinds: self.kinds,
    })
  }
}

/// Words that may start anywhere.
#[derive(Debug)]
struct Words {
  /// `None` when there are none, so that no text is searched.
  automaton: Option<AhoCorasick>,
  uses: Vec<Vec<Use>>,
}

impl Words {
  fn new(literals: Literals) -> Result<Self, String> {
    if literals.texts.is_empty() {
      return Ok(Self { automaton: None, uses: Vec::new() });
    }
    let bytes: usize = literals.texts.iter().map(String::len).sum();
    let automaton = AhoCorasick::builder()
      .ascii_case_insensitive(true)
      .match_kind(MatchKind::Standard)
      // Each byte of all memory goes through it: speed is worth the table, as long as it is no larger than
      // some megabytes.
      .kind(Some(if bytes > MAX_TABLE {
        AhoCorasickKind::ContiguousNFA
      } else {
        AhoCorasickKind::DFA
      }))
      .build(&literals.texts)
      .map_err(|error| error.to_string())?;
    Ok(Self { automaton: Some(automaton), uses: literals.uses })
  }
}

/// All words of all classes: those that start at the start of a word or at a sign, the few that may
/// start inside a word, and those that are not ASCII and are looked for only in text that is not.
#[derive(Debug)]
pub(crate) struct Lexicon {
  starts: Trie,
  start_uses: Vec<Vec<Use>>,
  anywhere: Words,
  wide: Words,
  kinds: Vec<Kind>,
}

/// Bytes of all words for which there is a table of every step, at most: it takes some 400 bytes for each.
const MAX_TABLE: usize = 48 * 1024;
/// How much around a word its confirming pattern sees, in bytes.
const CONFIRM_REACH: usize = 80;

impl Lexicon {
  /// Every word of a class in `text`, in order of their starts.
  pub(crate) fn scan(&self, text: &str) -> Vec<WordMatch> {
    let mut found = Vec::new();
    self.starts.scan(text.as_bytes(), |number, start, end| {
      if let Some(uses) = self.start_uses.get(number) {
        self.check(uses, text, &(start..end), &mut found);
      }
    });
    let sorted = found.len();
    self.find(&self.anywhere, text, &mut found);
    if !text.is_ascii() {
      self.find(&self.wide, text, &mut found);
    }
    if found.len() > sorted {
      found.sort_by_key(|word| word.start);
    }
    found
  }

  fn find(&self, words: &Words, text: &str, found: &mut Vec<WordMatch>) {
    let hits = words.automaton.iter().flat_map(|automaton| automaton.find_overlapping_iter(text));
    for hit in hits {
      if let Some(uses) = words.uses.get(hit.pattern().as_usize()) {
        self.check(uses, text, &hit.range(), found);
      }
    }
  }

  fn check(&self, uses: &[Use], text: &str, range: &Range<usize>, found: &mut Vec<WordMatch>) {
    let (left, right) = edges_at(text, range);
    for word in uses {
      if (word.left && !left) || (word.right && !right) {
        continue;
      }
      if let Some(kind) = self.kinds.get(usize::from(word.class))
        && ((kind.prose && is_in_address(text, range))
          || kind.confirm.as_ref().is_some_and(|pattern| !confirms(pattern, text, range)))
      {
        continue;
      }
      found.push(WordMatch { class: word.class, start: range.start as u32, end: range.end as u32 });
    }
  }
}

/// Whether a host name, a mail address or a path goes on before or after `range`.
fn is_in_address(text: &str, range: &Range<usize>) -> bool {
  let bytes = text.as_bytes();
  let joins = |at: usize| matches!(bytes.get(at), Some(b'.' | b'@' | b'/' | b':'));
  let word = |at: usize| bytes.get(at).copied().is_some_and(is_word);
  (joins(range.end) && word(range.end + 1))
    || (range.start >= 2 && joins(range.start - 1) && word(range.start - 2))
}

fn confirms(pattern: &Pattern, text: &str, range: &Range<usize>) -> bool {
  let Some(pattern) = pattern.regex() else { return false };
  let start = floor(text, range.start.saturating_sub(CONFIRM_REACH));
  let end = floor(text, range.end.saturating_add(CONFIRM_REACH).min(text.len()));
  text.get(start..end).is_some_and(|window| {
    pattern
      .find_iter(window)
      .any(|hit| hit.start() + start <= range.start && hit.end() + start >= range.end)
  })
}

/// The character boundary at or before `at`.
pub(in crate::detect) fn floor(text: &str, mut at: usize) -> usize {
  while !text.is_char_boundary(at) {
    at -= 1;
  }
  at
}

/// Whether no word goes on before and after `range`.
fn edges_at(text: &str, range: &Range<usize>) -> (bool, bool) {
  let bytes = text.as_bytes();
  let left = match range.start.checked_sub(1).and_then(|index| bytes.get(index)) {
    None => true,
    Some(byte) if byte.is_ascii() => !is_word(*byte),
    Some(_) => !text.get(..range.start).and_then(|t| t.chars().next_back()).is_some_and(has_edges),
  };
  let right = match bytes.get(range.end) {
    None => true,
    Some(byte) if byte.is_ascii() => !is_word(*byte),
    Some(_) => !text.get(range.end..).and_then(|t| t.chars().next()).is_some_and(has_edges),
  };
  (left, right)
}

/// Letters and digits of scripts that put spaces between words.
fn has_edges(c: char) -> bool {
  c.is_alphanumeric() && !matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x9fff | 0xe00..=0xeff)
    || c == '_'
}

#[cfg(test)]
mod tests {
  use super::*;

  fn words(list: &[&str], text: &str) -> Vec<String> {
    let mut builder = LexiconBuilder::default();
    let class = builder.class(Some("test"), Kind::default()).unwrap();
    for word in list {
      builder.word(class, word).unwrap();
    }
    let found = builder.build().unwrap().scan(text);
    found
      .into_iter()
      .filter_map(|hit| text.get(hit.start as usize..hit.end as usize).map(str::to_owned))
      .collect()
  }

  #[test]
  fn edges_are_respected() {
    assert_eq!(words(&["send"], "Send resend sender send_all send."), ["Send", "send"]);
    assert_eq!(words(&["send*"], "sending resend"), ["send"]);
    assert_eq!(words(&["*end"], "send ender"), ["end"]);
    assert_eq!(words(&["ключ*"], "ключи включ"), ["ключ"]);
    assert_eq!(words(&["忽略"], "请忽略之前"), ["忽略"]);
  }

  #[test]
  fn sets_of_classes() {
    let mut a = Classes::default();
    let mut b = Classes::default();
    a.insert(3);
    a.insert(200);
    b.insert(200);
    assert!(a.contains_all(&b) && a.intersects(&b) && !b.contains_all(&a));
    assert_eq!(a.common(&b).collect::<Vec<_>>(), [200]);
    assert_eq!(a.union(&b), a);
  }

  #[test]
  fn an_empty_word_is_refused() {
    let mut builder = LexiconBuilder::default();
    let class = builder.class(None, Kind::default()).unwrap();
    assert!(builder.word(class, "**").is_err());
  }
}
