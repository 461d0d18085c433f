//! Recognises text that was taken out of memory in text that was not judged yet.
#![forbid(unsafe_code)]

use aho_corasick::AhoCorasick;

use crate::memory::line::{LineKind, line_end};

/// Lines with fewer bytes are in too many texts to show anything (a choice).
const MIN_BYTES: usize = 8;

/// The lines of all texts that were taken out.
#[derive(Debug, Default)]
pub struct Withheld {
  lines: Option<AhoCorasick>,
}

impl Withheld {
  /// From the texts; `None` if there are too many of them to compare.
  pub fn new<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Option<Self> {
    let mut lines: Vec<&[u8]> = Vec::new();
    for text in texts {
      let mut at = 0;
      while at < text.len() {
        let end = line_end(text, at);
        let line = core(text.get(at..end).unwrap_or_default());
        if line.len() >= MIN_BYTES {
          lines.push(line);
        }
        at = end;
      }
      // A short text is compared as a whole.
      let whole = core(text);
      if !whole.is_empty() && whole.len() < MIN_BYTES {
        lines.push(whole);
      }
    }
    lines.sort_unstable();
    lines.dedup();
    if lines.is_empty() {
      return Some(Self::default());
    }
    let built = AhoCorasick::builder().ascii_case_insensitive(true).build(lines);
    built.ok().map(|lines| Self { lines: Some(lines) })
  }

  /// Whether a text contains a line that was taken out.
  pub fn is_in(&self, text: &[u8]) -> bool {
    self.lines.as_ref().is_some_and(|lines| lines.is_match(text))
  }
}

/// A line without its list marker and the space around it.
fn core(line: &[u8]) -> &[u8] {
  let start = line.iter().position(|b| LineKind::of(&[*b]) == LineKind::Text);
  line.get(start.unwrap_or(line.len())..).unwrap_or_default().trim_ascii_end()
}
