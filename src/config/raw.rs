//! The first step: comparing a parsed document with the table of known keys.
//!
//! Nothing is interpreted here. Every key is either known, and kept with its value and place, or a
//! problem; every syntax error is a problem as well.
#![forbid(unsafe_code)]

use {
  super::{
    key::{KEYS, Key},
    nearest::nearest,
    problem::{ConfigProblem, place},
    setting::kind,
  },
  std::collections::BTreeSet,
  toml::{
    Spanned,
    de::{DeTable, DeValue},
  },
};

/// The hint for a key without a similar known name.
const LIST_KEYS: &str = "`memfw config example` prints every key";

/// The keys that a document sets.
#[derive(Debug)]
pub struct Raw<'t> {
  pub(super) text: &'t str,
  pub(super) entries: Vec<Entry<'t>>,
  pub(super) problems: Vec<ConfigProblem>,
  /// Lines that are not TOML; further problems in them are not reported.
  broken: BTreeSet<usize>,
}

/// A known key and its value in the document.
#[derive(Debug)]
pub(super) struct Entry<'t> {
  pub(super) key: &'static Key,
  pub(super) value: Spanned<DeValue<'t>>,
  /// The line of the key, from 1.
  pub(super) line: usize,
}

/// The hint for a mistake in an array over several lines: the parser finds it only on a later line.
fn unclosed(text: &str, offset: usize) -> Option<String> {
  let (line, _) = place(text, offset);
  let begins = |line: &str| {
    let (_, value) = line.split_once('=')?;
    (value.trim_start().starts_with('[') && !value.contains(']')).then_some(())
  };
  let above: Vec<&str> = text.lines().take(line.saturating_sub(1)).collect();
  let first = above.iter().rposition(|line| begins(line).is_some())? + 1;
  Some(format!("the array that begins on line {first} may have no `]`, or a line of it no comma"))
}

impl<'t> Raw<'t> {
  /// Reads a document. Never fails: problems are collected.
  pub fn parse(text: &'t str) -> Self {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut raw = Self { text, entries: Vec::new(), problems: Vec::new(), broken: BTreeSet::new() };
    for error in errors {
      let offset = error.span().map_or(text.len(), |span| span.start);
      let message = error.message().trim().replace('\n', ", ");
      let hint = if message.contains("array") { unclosed(text, offset) } else { None };
      let problem = ConfigProblem::at(text, offset, message, hint);
      // One mistake can break a line in several ways; report only the first.
      if raw.broken.insert(problem.line) {
        raw.problems.push(problem);
      }
    }
    raw.table(document.into_inner(), "");
    raw
  }

  /// The problems so far.
  pub fn problems(&self) -> &[ConfigProblem] {
    &self.problems
  }

  fn table(&mut self, table: DeTable<'t>, section: &str) {
    for (name, value) in table {
      let offset = name.span().start;
      let full = match section {
        "" => name.get_ref().to_string(),
        section => format!("{section}.{}", name.get_ref()),
      };
      if let Some(key) = KEYS.iter().find(|key| key.name == full) {
        let (line, _) = place(self.text, offset);
        self.entries.push(Entry { key, value, line });
      } else if is_section(&full) {
        match value.into_inner() {
          DeValue::Table(table) => self.table(table, &full),
          other => {
            let message = format!("`{full}` must be a table, found {}", kind(&other));
            self.complain(offset, message, Some(format!("write `[{full}]` on its own line")));
          }
        }
      } else {
        self.unknown(offset, section, name.get_ref(), value.get_ref().is_table());
      }
    }
  }

  fn unknown(&mut self, offset: usize, section: &str, name: &str, is_table: bool) {
    if is_table && section.is_empty() {
      let hint = nearest(name, KEYS.iter().map(Key::section))
        .filter(|section| !section.is_empty())
        .map_or_else(|| LIST_KEYS.to_owned(), |section| format!("did you mean `[{section}]`?"));
      self.complain(offset, format!("unknown table `[{name}]`"), Some(hint));
      return;
    }
    let neighbours = KEYS.iter().filter(|key| key.section() == section).map(Key::leaf);
    // Compare with the keys of this table first, then with all keys: the table may be the mistake.
    let hint =
      nearest(name, neighbours).map(|leaf| format!("did you mean `{leaf}`?")).or_else(|| {
        let leaf = nearest(name, KEYS.iter().map(Key::leaf))?;
        let key = KEYS.iter().find(|key| key.leaf() == leaf)?;
        Some(match key.section() {
          "" => format!("did you mean `{leaf}`, which must be above all tables?"),
          section => format!("did you mean `{leaf}` under `[{section}]`?"),
        })
      });
    let hint = hint.unwrap_or_else(|| LIST_KEYS.to_owned());
    let place = if section.is_empty() { String::new() } else { format!(" in `[{section}]`") };
    self.complain(offset, format!("unknown key `{name}`{place}"), Some(hint));
  }

  pub(super) fn complain(&mut self, offset: usize, message: String, hint: Option<String>) {
    let problem = ConfigProblem::at(self.text, offset, message, hint);
    if !self.broken.contains(&problem.line) {
      self.problems.push(problem);
    }
  }
}

fn is_section(name: &str) -> bool {
  KEYS.iter().any(|key| key.section() == name)
}
