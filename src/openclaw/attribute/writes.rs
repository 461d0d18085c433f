//! Which call of a tool wrote a text.
//!
//! A call is known by what it was given: the new text of an edit, the content of a write, the added
//! lines of a patch, or a command that says the text or names the file. Old text in an edit, other
//! files of a patch, and calls that failed are not what wrote it.
#![forbid(unsafe_code)]

use std::{cell::OnceCell, collections::HashSet, path::Path};

use serde_json::Value;

use super::{
  super::transcript::{Call, Message, Outcome, Record},
  material::PATH_KEYS,
  path::{self, Names},
};
use crate::provenance::words::squeezed;

/// Most bytes of a call that are looked at.
const MAX_CONTENT_BYTES: usize = 512 * 1024;
/// Shortest line that is searched within others, in letters and digits. Shorter ones stand in any text.
const MIN_SEARCHED_CHARS: usize = 10;
/// Most lines that are searched within others; the rest must be whole lines of the call.
const MAX_SEARCHED_LINES: usize = 64;
/// How far the clocks of a file system and of the records may be apart, in microseconds.
const SLACK: i64 = 2_000_000;
/// How long a command may still write when its answer is not on record, in microseconds.
const UNANSWERED: i64 = 600_000_000;

/// A call that may have written to the file.
#[derive(Debug)]
pub(super) struct Write<'r> {
  pub(super) call: &'r Call,
  /// The time of its record.
  pub(super) at: i64,
  /// Whether OpenClaw had marked the turn as tainted when the call was made.
  pub(super) is_marked: bool,
  /// The answer, its time and its place.
  pub(super) answer: Option<(&'r Outcome, i64, i64)>,
  pub(super) is_command: bool,
  names: Option<Names>,
  content: Content,
}

/// What a call put into the file, as far as the call says.
#[derive(Debug, Default)]
struct Content {
  parts: Vec<String>,
  /// Whole lines that its patches take out of the file.
  removed: Vec<String>,
  squeezed: OnceCell<(String, HashSet<String>)>,
}

/// A text as lines that can be recognised in a call.
#[derive(Debug)]
pub(super) struct Lines<'t> {
  lines: Vec<String>,
  raw: Vec<&'t str>,
}

/// Calls in `records` that may have written to `file`, oldest first.
pub(super) fn writes<'r>(records: &'r [Record], workspace: &Path, file: &Path) -> Vec<Write<'r>> {
  let mut found: Vec<Write<'r>> = Vec::new();
  let mut open: Vec<(&'r str, usize)> = Vec::new();
  for record in records {
    match &record.message {
      Message::Assistant { calls, tainted, .. } => {
        for call in calls {
          let Some(mut write) = write_of(call, workspace, file) else { continue };
          (write.at, write.is_marked) = (record.at, *tainted);
          open.push((&call.id, found.len()));
          found.push(write);
        }
      }
      Message::Tool(outcome) => {
        // Ids may come again in a later turn: the latest open call is meant.
        let Some(place) = open.iter().rposition(|(id, _)| *id == outcome.call) else { continue };
        let (_, number) = open.remove(place);
        if let Some(write) = found.get_mut(number) {
          write.answered(outcome, record, workspace, file);
        }
      }
      _ => {}
    }
  }
  found
}

fn write_of<'r>(call: &'r Call, workspace: &Path, file: &Path) -> Option<Write<'r>> {
  let tool = call.tool.as_str();
  if READERS.contains(&tool) {
    return None;
  }
  let is_command = COMMANDS.contains(&tool);
  let mut content = Content::default();
  let mut names = None;
  if is_command {
    content.take(&call.arguments, 0);
    let name = file.file_name().and_then(|name| name.to_str())?;
    names = content.parts.iter().any(|part| mentions(part, name)).then_some(Names::File);
  } else {
    if let Some(arguments) = call.arguments.as_object() {
      let named = arguments.iter().filter(|(key, _)| PATH_KEYS.contains(&key.as_str()));
      let named = named.filter_map(|(_, value)| path::names(value.as_str()?, workspace, file));
      names = named.max();
    }
    for text in patches(&call.arguments) {
      names = names.max(content.take_patch(text, workspace, file));
    }
    names?;
    content.take(&call.arguments, 0);
  }
  Some(Write { call, at: 0, is_marked: false, answer: None, is_command, names, content })
}

impl<'r> Write<'r> {
  fn answered(&mut self, outcome: &'r Outcome, record: &Record, workspace: &Path, file: &Path) {
    self.answer = Some((outcome, record.at, record.seq));
    // A patch in the answer has whole lines where the edit replaced a part of one.
    if let Some(patch) = outcome.details.get("patch").and_then(Value::as_str) {
      self.content.take_patch(patch, workspace, file);
    }
  }

  /// Whether the file was changed while the call ran.
  pub(super) fn was_running(&self, changed_at: i64) -> bool {
    let end = self.answer.map_or(self.at.saturating_add(UNANSWERED), |(_, at, _)| at);
    changed_at >= self.at.saturating_sub(SLACK) && changed_at <= end.saturating_add(SLACK)
  }

  /// Whether a tool said that it did not write. A command that fails may have written before.
  pub(super) fn failed(&self) -> bool {
    !self.is_command && self.answer.is_some_and(|(outcome, ..)| outcome.is_error)
  }

  /// Whole lines that it took out of the file, as far as a patch says so.
  pub(super) fn removed(&self) -> &[String] {
    &self.content.removed
  }

  /// Whether it is a command with the file's name in it.
  pub(super) fn is_naming_command(&self) -> bool {
    self.is_command && self.names.is_some()
  }

  /// How surely the call is about the file: its very path, the file's name in a command, an ending.
  pub(super) fn certainty(&self) -> u8 {
    match (self.is_command, self.names) {
      (false, Some(Names::File)) => 3,
      (true, Some(_)) => 2,
      (false, Some(Names::Ending)) => 1,
      _ => 0,
    }
  }

  /// Whether a part of the line is what an edit put there, for answers without a patch.
  pub(super) fn has_part_of(&self, line: &str) -> bool {
    !self.is_command
      && self.names == Some(Names::File)
      && self.content.parts.iter().any(|part| {
        let part = squeezed(part);
        part.chars().count() >= 2 && line.contains(&part)
      })
  }

  /// Which of the lines the call was given; one flag for each.
  pub(super) fn lines(&self, lines: &Lines<'_>) -> Vec<bool> {
    let (text, whole) = self.content.squeezed();
    let mut n_searched = 0;
    let mut has = |line: &String| {
      if whole.contains(line) {
        return true;
      }
      // In a command a line stands among quotes and other words.
      let is_long = line.chars().count() >= MIN_SEARCHED_CHARS || !line.is_ascii();
      n_searched += usize::from(is_long);
      is_long && n_searched <= MAX_SEARCHED_LINES && text.contains(line.as_str())
    };
    lines.lines.iter().map(&mut has).collect()
  }
}

impl<'t> Lines<'t> {
  /// The lines of a text, in letters and digits; lines without any are left out.
  pub(super) fn new(text: &'t str) -> Self {
    let both = text.lines().map(|line| (squeezed(line), line));
    let (lines, raw) = both.filter(|(line, _)| !line.is_empty()).unzip();
    Self { lines, raw }
  }

  /// The lines that are in both, as they stand in the text.
  pub(super) fn text(&self, one: &[bool], other: &[bool]) -> String {
    let both = self.raw.iter().zip(one).zip(other).filter(|((_, one), other)| **one && **other);
    both.map(|((line, _), _)| *line).collect::<Vec<_>>().join("\n")
  }

  pub(super) fn len(&self) -> usize {
    self.lines.len()
  }

  pub(super) fn get(&self, index: usize) -> &str {
    self.lines.get(index).map_or("", String::as_str)
  }
}

impl Content {
  fn size(&self) -> usize {
    self.parts.iter().chain(&self.removed).map(String::len).sum()
  }

  fn push(&mut self, text: &str) {
    if self.size() + text.len() <= MAX_CONTENT_BYTES {
      self.parts.push(text.to_owned());
    }
  }

  /// All text in the arguments but paths, patches and what was there before.
  fn take(&mut self, value: &Value, depth: usize) {
    match value {
      Value::String(text) => self.push(text),
      Value::Array(values) if depth < 8 => values.iter().for_each(|v| self.take(v, depth + 1)),
      Value::Object(fields) if depth < 8 => {
        for (key, value) in fields {
          let key = key.as_str();
          if !PATH_KEYS.contains(&key) && !OLD_KEYS.contains(&key) && !is_patch(value) {
            self.take(value, depth + 1);
          }
        }
      }
      _ => {}
    }
  }

  /// The lines that a patch adds to `file` and those that it takes out, and how well the patch names it.
  fn take_patch(&mut self, patch: &str, workspace: &Path, file: &Path) -> Option<Names> {
    let mut best = None;
    let mut here = None;
    let mut added = String::new();
    for line in patch.lines() {
      let header = ["*** Add File: ", "*** Update File: ", "*** Move to: ", "+++ b/", "+++ "]
        .iter()
        .find_map(|start| line.strip_prefix(start));
      if let Some(named) = header {
        let named = named.split('\t').next().unwrap_or_default();
        here = path::names(named, workspace, file);
        best = best.max(here);
      } else if line.starts_with("*** ") || line.starts_with("--- ") {
        here = None;
      } else if let (Some(_), Some(line)) = (here, line.strip_prefix('+')) {
        added.push_str(line);
        added.push('\n');
      } else if let (Some(_), Some(line)) = (here, line.strip_prefix('-'))
        && self.size() + line.len() <= MAX_CONTENT_BYTES
      {
        self.removed.push(line.to_owned());
      }
    }
    self.push(&added);
    best
  }

  /// All of it in letters and digits, and its lines one by one.
  fn squeezed(&self) -> &(String, HashSet<String>) {
    self.squeezed.get_or_init(|| {
      let mut all = String::new();
      let mut lines = HashSet::new();
      for part in &self.parts {
        let unescaped = unescaped(part);
        for text in [Some(part.as_str()), unescaped.as_deref()].into_iter().flatten() {
          for line in text.lines() {
            let line = squeezed(line);
            all.push_str(&line);
            lines.insert(line);
          }
          all.push('\n');
        }
      }
      (all, lines)
    })
  }
}

/// Tools that only read, whatever path they are given.
const READERS: &[&str] = &[
  "read",
  "read_file",
  "view",
  "memory_get",
  "memory_search",
  "web_fetch",
  "web_search",
  "browser",
  "grep",
  "glob",
  "find",
  "ls",
  "image",
  "pdf",
];
/// Tools that run a command.
const COMMANDS: &[&str] = &[
  "exec",
  "bash",
  "shell",
  "process",
  "terminal",
  "run",
  "run_command",
  "code_execution",
  "python",
  "system.run",
  "nodes",
];
/// Argument names for what an edit replaces.
const OLD_KEYS: &[&str] = &[
  "oldText",
  "old_text",
  "oldString",
  "old_string",
  "old_str",
  "search",
  "find",
  "description",
  "cwd",
  "workdir",
];

/// Whether a value is the text of a patch, which names its files itself.
fn is_patch(value: &Value) -> bool {
  value.as_str().is_some_and(|text| {
    text.trim_start().starts_with("*** Begin Patch")
      || (text.contains("\n+++ ") && text.contains("\n@@"))
  })
}

fn patches(arguments: &Value) -> impl Iterator<Item = &str> {
  let fields = arguments.as_object().into_iter().flat_map(|fields| fields.values());
  fields.filter(|value| is_patch(value)).filter_map(Value::as_str)
}

/// Whether a command has the name of the file in it as a word of its own.
fn mentions(command: &str, name: &str) -> bool {
  let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
  command.match_indices(name).any(|(at, _)| {
    let before = command.get(..at).and_then(|text| text.chars().next_back());
    let after = command.get(at + name.len()..).and_then(|text| text.chars().next());
    !before.is_some_and(is_part) && !after.is_some_and(|c| is_part(c) && c != '.')
  })
}

/// The text with the escapes of shells and of source code undone; `None` where there are none.
fn unescaped(text: &str) -> Option<String> {
  if !text.contains('\\') {
    return None;
  }
  let mut plain = String::with_capacity(text.len());
  let mut bytes: Vec<u8> = Vec::new();
  let mut rest = text.chars().peekable();
  while let Some(c) = rest.next() {
    if c != '\\' {
      flush(&mut bytes, &mut plain);
      plain.push(c);
      continue;
    }
    let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix, max| {
      let mut digits = String::new();
      while digits.len() < max && rest.peek().is_some_and(|c| c.is_digit(radix)) {
        digits.extend(rest.next());
      }
      u32::from_str_radix(&digits, radix).ok()
    };
    match rest.next() {
      Some('n' | 'r') => {
        flush(&mut bytes, &mut plain);
        plain.push('\n');
      }
      Some('t') => plain.push('\t'),
      // Bytes of a character come one by one.
      Some('x') => bytes.extend(number(&mut rest, 16, 2).map(|n| n as u8)),
      Some(digit @ '0'..='3') => {
        let more = number(&mut rest, 8, 2).unwrap_or_default();
        bytes.push((digit as u32 - '0' as u32) as u8 * 64 + more as u8);
      }
      Some('u') => {
        flush(&mut bytes, &mut plain);
        plain.extend(number(&mut rest, 16, 4).and_then(char::from_u32));
      }
      Some(other) => {
        flush(&mut bytes, &mut plain);
        plain.push(other);
      }
      None => {}
    }
  }
  flush(&mut bytes, &mut plain);
  Some(plain)
}

fn flush(bytes: &mut Vec<u8>, plain: &mut String) {
  if !bytes.is_empty() {
    plain.extend(bytes.utf8_chunks().map(|chunk| chunk.valid()));
    bytes.clear();
  }
}
