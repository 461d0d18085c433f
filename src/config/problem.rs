//! A problem at one place of the configuration file.
#![forbid(unsafe_code)]

use std::fmt;

/// One problem, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
  /// The line, from 1.
  pub line: usize,
  /// The column in characters, from 1.
  pub column: usize,
  /// What was found and what was expected: lower case, names in backticks, no final period.
  pub message: String,
  /// What to type instead, if there is a suggestion.
  pub hint: Option<String>,
}

impl ConfigProblem {
  /// A problem at the byte `offset` of `text`; an offset outside the text means its end.
  pub(super) fn at(text: &str, offset: usize, message: String, hint: Option<String>) -> Self {
    let (line, column) = place(text, offset);
    Self { line, column, message, hint }
  }
}

impl fmt::Display for ConfigProblem {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
  }
}

/// Line and column, both from 1, of a byte offset; columns count characters.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
  let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
  let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
  let line = before.split(|&b| b == b'\n').count();
  // A byte that continues a UTF-8 character adds no column.
  let column = before.iter().skip(line_start).filter(|&&b| b & 0xC0 != 0x80).count() + 1;
  (line, column)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn places_count_lines_and_characters_from_one() {
    assert_eq!(place("", 0), (1, 1));
    assert_eq!(place("a = 1\nb = 2", 6), (2, 1));
    assert_eq!(place("ä = 1", 3), (1, 3));
    assert_eq!(place("a\n", 99), (2, 1));
  }
}
