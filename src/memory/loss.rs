//! What a memory file has lost between two of its versions.
//!
//! A line counts by its words: a sweep that changes bullets, numbers of a list, ticks or spaces loses nothing. Equal
//! lines count once, so a sweep that removes repetitions loses nothing either. memfw's own comments are no text.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::memory::LineHash;

/// How much a file may lose before a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
  /// The share of its lines, in percent; nothing exceeds 100.
  pub max_percent: u64,
  /// The smallest number of lines that is a loss.
  pub min_lines: u64,
}

impl Tolerance {
  /// Whether a version of `n_lines` lines that has lost `n_lost` of them has lost too many.
  pub fn is_exceeded(self, n_lost: usize, n_lines: usize) -> bool {
    let (n_lost, n_lines) = (n_lost as u128, n_lines as u128);
    n_lost >= u128::from(self.min_lines) && n_lost * 100 > n_lines * u128::from(self.max_percent)
  }

  /// Whether any loss exceeds it.
  pub const fn is_off(self) -> bool {
    self.max_percent >= 100
  }
}

/// The lines of a version that have words, each once.
pub fn readable_lines(text: &[u8]) -> HashSet<LineHash> {
  text
    .split(|byte| matches!(byte, b'\n' | b'\r'))
    .map(words)
    .filter(|words| !words.is_empty())
    .map(|words| LineHash::of([words.as_bytes()]))
    .collect()
}

/// The letters and digits of a line, in lower case, without what marks an entry of a list and without memfw's comments.
fn words(line: &[u8]) -> String {
  let text: String = line.utf8_chunks().map(|chunk| chunk.valid()).collect();
  let text = without_comments(&text);
  let entry = without_mark(text.trim_start());
  if is_short_placeholder(entry.trim_end()) {
    return String::new();
  }
  entry.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A line without memfw's comments. In one pass, because a program may write a line of nothing else.
fn without_comments(line: &str) -> String {
  const OPENING: &str = "<!-- ";
  let mut text = String::with_capacity(line.len());
  let mut rest = line;
  while let Some((before, inside)) = rest.split_once(OPENING) {
    text.push_str(before);
    rest = if ["memfw:", "/memfw"].iter().any(|own| inside.starts_with(own)) {
      inside.split_once("-->").map_or("", |(_, after)| after)
    } else {
      text.push_str(OPENING);
      inside
    };
  }
  text + rest
}

/// An entry of a list without its number and its tick.
fn without_mark(line: &str) -> &str {
  let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
  let rest = if rest.len() < line.len() { rest.strip_prefix(['.', ')']) } else { None };
  let rest = rest.or_else(|| line.strip_prefix(['-', '*', '+']));
  let entry = rest.filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line).trim_start();
  ["[ ]", "[x]", "[X]"].iter().find_map(|tick| entry.strip_prefix(tick)).unwrap_or(entry)
}

/// Whether a line is the form of a placeholder for lines that are too short for a comment.
fn is_short_placeholder(line: &str) -> bool {
  let id = line.strip_prefix("memfw:").unwrap_or_default();
  (6..=16).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn n_lost(before: &str, after: &str) -> usize {
    let (before, after) = (readable_lines(before.as_bytes()), readable_lines(after.as_bytes()));
    before.difference(&after).count()
  }

  #[test]
  fn a_line_counts_by_its_words() {
    for (before, after, lost) in [
      ("- tea at four\n", "* Tea, at four.\r\n", 0),
      ("1. tea\n2. milk\n", "3) tea\n1) milk\n", 0),
      ("- [ ] call Ann\n", "- [x] call Ann\n", 0),
      ("- tea\n- tea\n- tea\n", "- tea\n", 0),
      ("---\n\n```\n***\n", "", 0),
      ("- tea\n- milk\n", "- tea with milk\n", 2),
      ("## 2026\n", "## 2025\n", 1),
      ("- 茶\n- чай\n", "", 2),
      ("", "- tea\n", 0),
    ] {
      assert_eq!(n_lost(before, after), lost, "{before:?} {after:?}");
    }
  }

  #[test]
  fn comments_of_memfw_are_no_text() {
    for text in [
      "<!-- memfw:a1b2c3 quarantined -->\n",
      "<!-- memfw:a1b2c3 quarantined                 -->\n",
      "<!-- memfw:id=a1b2c3 source=x trust=trusted ts=x -->\n<!-- /memfw -->\n",
      "- <!-- memfw:a1b2c3 quarantined -->\n",
      "  memfw:a1b2c3  \n",
      "<!-- memfw:never ends\n",
    ] {
      assert!(readable_lines(text.as_bytes()).is_empty(), "{text}");
    }
    assert_eq!(n_lost("- tea <!-- memfw:a1b2c3 -->\n", "- tea\n"), 0);
    assert_eq!(n_lost("- <!-- a --> tea <!-- memfw:a1 --> b <!-- /memfw -->\n", "- a tea b\n"), 0);
    assert_eq!(n_lost("memfw: a firewall\n<!-- note: tea -->\n", ""), 2);
  }

  #[test]
  fn a_line_of_many_comments_takes_one_pass() {
    // 14 MB: with one move of the rest a comment this would take hours.
    assert!(readable_lines("<!-- memfw:-->".repeat(1_000_000).as_bytes()).is_empty());
  }

  #[test]
  fn more_than_the_share_and_not_a_few_lines() {
    let tolerance = Tolerance { max_percent: 50, min_lines: 10 };
    for (lost, of, is) in [(10, 20, false), (11, 20, true), (9, 9, false), (10, 10, true)] {
      assert_eq!(tolerance.is_exceeded(lost, of), is, "{lost} of {of}");
    }
    let off = Tolerance { max_percent: 100, min_lines: 1 };
    assert!(off.is_off() && !off.is_exceeded(100, 100));
    assert!(!tolerance.is_exceeded(0, 0));
  }

  proptest! {
    #[test]
    fn any_bytes_have_lines(bytes: Vec<u8>) {
      let lines = readable_lines(&bytes);
      let twice = [&bytes[..], b"\n", &bytes].concat();
      prop_assert_eq!(readable_lines(&twice), lines);
    }
  }
}
