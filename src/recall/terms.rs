//! The words of a query, and the text in which they are searched.
//!
//! A query may come from anybody. Only its words are used, each one quoted, so no syntax of the search engine
//! can be in them; their number and length are limited.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

/// The most words of a query that count (a choice).
const MAX_TERMS: usize = 32;
/// The most characters of a word that count (a choice: the longest words of German memory have fewer).
const MAX_TERM_CHARS: usize = 64;

/// The words of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms(Vec<String>);

impl Terms {
  /// The words of a text.
  pub fn of(query: &str) -> Self {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(u32::from(c), 0x300..=0x36f);
    let words = query.split(|c| !is_inside(c)).filter(|word| word.contains(char::is_alphanumeric));
    let mut terms: Vec<String> = Vec::new();
    for word in words {
      let term: String = word.chars().take(MAX_TERM_CHARS).collect();
      if !terms.contains(&term) {
        terms.push(term);
      }
      if terms.len() == MAX_TERMS {
        break;
      }
    }
    Self(terms)
  }

  /// The query for FTS5: entries with any of the words; `None` without a word.
  pub fn expression(&self) -> Option<String> {
    let mut out = String::new();
    for term in &self.0 {
      let or = if out.is_empty() { "" } else { " OR " };
      // Writing to a String cannot fail. A word has no quotation mark.
      write!(out, "{or}\"{}\"", searchable(term).trim()).ok();
    }
    (!out.is_empty()).then_some(out)
  }
}

/// A text as it is indexed: characters of scripts without spaces are words of their own.
pub fn searchable(text: &str) -> String {
  let mut out = String::with_capacity(text.len());
  for c in text.chars() {
    if is_unspaced(c) {
      out.extend([' ', c, ' ']);
    } else {
      out.push(if c == '\0' { ' ' } else { c });
    }
  }
  out
}

/// Whether a character belongs to a script that writes no spaces between words, or joins endings to them.
const fn is_unspaced(c: char) -> bool {
  matches!(c as u32,
    0xe00..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x31f0..=0x31ff
    | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0x20000..=0x323af)
}
