//! Recognises text that was taken out of memory in text that was not judged yet.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;

use crate::memory::line::{LineKind, line_end};

/// Lines with fewer bytes are in too many texts to show anything (a choice).
const MIN_BYTES: usize = 8;

/// The shortest text that is recognised as a part of a longer one that was taken out, in bytes (a choice).
const MIN_PART: usize = 16;

/// The lines of all texts that were taken out.
#[derive(Debug, Default)]
pub struct Withheld {
  lines: Option<AhoCorasick>,
  /// The words of all texts, each text on a line.
  texts: String,
}

impl Withheld {
  /// From the texts; `None` if there are too many of them to compare.
  pub fn new<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Option<Self> {
    let mut lines: Vec<String> = Vec::new();
    let mut all = String::new();
    for text in texts {
      let mut at = 0;
      while at < text.len() {
        let end = line_end(text, at);
        let line = words(text.get(at..end).unwrap_or_default());
        if line.len() >= MIN_BYTES {
          lines.push(line);
        }
        at = end;
      }
      // A short text is compared as a whole.
      let whole = words(text);
      all.push_str(&whole);
      all.push('\n');
      if !whole.is_empty() && whole.len() < MIN_BYTES {
        lines.push(whole);
      }
    }
    lines.sort_unstable();
    lines.dedup();
    if lines.is_empty() {
      return Some(Self::default());
    }
    let built = AhoCorasick::new(lines);
    built.ok().map(|lines| Self { lines: Some(lines), texts: all })
  }

  /// Whether a text contains a line that was taken out, or is a part of such a text; the breaks of its lines do not
  /// matter.
  pub fn is_in(&self, text: &[u8]) -> bool {
    let Some(lines) = &self.lines else { return false };
    let text = words(text);
    lines.is_match(&text) || text.len() >= MIN_PART && self.texts.contains(&text)
  }
}

/// The words of a text in lower case, each after one space, without list markers and invisible characters.
fn words(text: &[u8]) -> String {
  let mut words = String::with_capacity(text.len());
  let mut at = 0;
  while at < text.len() {
    let end = line_end(text, at);
    let line: String = core(text.get(at..end).unwrap_or_default())
      .utf8_chunks()
      .flat_map(|chunk| {
        let bad = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        chunk.valid().chars().chain(bad)
      })
      .filter(|c| !is_invisible(*c))
      .collect();
    for word in line.split_whitespace() {
      if !words.is_empty() {
        words.push(' ');
      }
      words.extend(word.chars().flat_map(char::to_lowercase));
    }
    at = end;
  }
  words
}

const fn is_invisible(c: char) -> bool {
  matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// A line without its list marker and the space before it.
fn core(line: &[u8]) -> &[u8] {
  let start = line.iter().position(|b| LineKind::of(&[*b]) == LineKind::Text);
  line.get(start.unwrap_or(line.len())..).unwrap_or_default()
}
