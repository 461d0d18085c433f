//! Which call of a tool wrote a text.
//!
//! A call is known by what it was given: the new text of an edit, the content of a write, the added
//! lines of a patch, or a command that says the text or names the file. Old text in an edit, other
//! files of a patch, and calls that failed did not write it.
#![forbid(unsafe_code)]

use std::{
  cell::OnceCell,
  collections::{HashMap, HashSet},
  path::Path,
};

use serde_json::Value;

use super::{
  super::transcript::{Call, Message, Outcome, Record},
  material::PATH_KEYS,
  path::{self, Names},
  shell,
};
use crate::provenance::words::squeezed;

/// Most bytes of a call that are looked at.
const MAX_CONTENT_BYTES: usize = 512 * 1024;
/// How far the clocks of a file system and of the records may be apart, in microseconds.
const SLACK: i64 = 2_000_000;
/// The slack where both clocks are of one machine.
const SMALL_SLACK: i64 = 50_000;
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

/// The file that is asked about, as an agent sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
  /// Where the agent works.
  pub(super) home: &'a Path,
  /// Where the file lies.
  pub(super) workspace: &'a Path,
  /// The file, relative to that.
  pub(super) file: &'a Path,
}

impl Place<'_> {
  fn names(&self, named: &str) -> Option<Names> {
    path::names(named, self.home, self.workspace, self.file)
  }

  /// Whether a command may have written there: from another workspace only where it says so.
  fn is_reached_by(&self, parts: &[String]) -> bool {
    let name = self.workspace.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    self.home == self.workspace || parts.iter().any(|part| mentions(part, name))
  }
}

/// What a call put into the file, as far as the call says.
#[derive(Debug, Default)]
struct Content {
  parts: Vec<String>,
  /// For parts, by their number: the lines that the same edit replaced. An edit repeats them to add to them.
  replaced: HashMap<usize, HashSet<String>>,
  /// Whole lines that its patches take out of the file.
  removed: Vec<String>,
  /// Whether it replaces text, and whether some of that does not end with a line.
  replaces: bool,
  is_within_line: bool,
  /// Whether some of it was too large to be searched.
  is_cut: bool,
  whole: OnceCell<HashSet<String>>,
}

/// A text as lines that can be recognised in a call.
#[derive(Debug)]
pub(super) struct Lines<'t> {
  /// In letters and digits.
  lines: Vec<String>,
  raw: Vec<&'t str>,
}

/// Calls in `records` that may have written to `file`, oldest first.
pub(super) fn writes<'r>(records: &'r [Record], place: &Place<'_>) -> Vec<Write<'r>> {
  let mut found: Vec<Write<'r>> = Vec::new();
  let mut open: Vec<(&'r str, usize)> = Vec::new();
  for record in records {
    match &record.message {
      Message::Assistant { calls, tainted, .. } => {
        for call in calls {
          let Some(mut write) = write_of(call, place) else { continue };
          (write.at, write.is_marked) = (record.at, *tainted);
          open.push((&call.id, found.len()));
          found.push(write);
        }
      }
      Message::Tool(outcome) => {
        // Ids may come again in a later turn: the latest open call is meant.
        let Some(index) = open.iter().rposition(|(id, _)| *id == outcome.call) else { continue };
        let (_, number) = open.remove(index);
        if let Some(write) = found.get_mut(number) {
          write.answered(outcome, record, place);
        }
      }
      _ => {}
    }
  }
  found
}

fn write_of<'r>(call: &'r Call, place: &Place<'_>) -> Option<Write<'r>> {
  let tool = call.tool.as_str();
  if READERS.contains(&tool) {
    return None;
  }
  let is_command = COMMANDS.contains(&tool);
  let mut content = Content::default();
  let mut names = None;
  if is_command {
    content.take(&call.arguments, 0);
    if !place.is_reached_by(&content.parts) {
      return None;
    }
    let name = place.file.file_name().and_then(|name| name.to_str())?;
    names = content.parts.iter().any(|part| mentions(part, name)).then_some(Names::File);
  } else {
    if let Some(arguments) = call.arguments.as_object() {
      let named = arguments.iter().filter(|(key, _)| PATH_KEYS.contains(&key.as_str()));
      let named = named.filter_map(|(_, value)| place.names(value.as_str()?));
      names = named.max();
    }
    for text in patches(&call.arguments) {
      names = names.max(content.take_patch(text, place));
    }
    names?;
    content.take(&call.arguments, 0);
  }
  Some(Write { call, at: 0, is_marked: false, answer: None, is_command, names, content })
}

impl<'r> Write<'r> {
  fn answered(&mut self, outcome: &'r Outcome, record: &Record, place: &Place<'_>) {
    self.answer = Some((outcome, record.at, record.seq));
    // A patch in the answer has whole lines where the edit replaced a part of one.
    if let Some(patch) = outcome.details.get("patch").and_then(Value::as_str) {
      self.content.take_patch(patch, place);
    }
  }

  /// Whether the file was changed while the call ran.
  pub(super) fn was_running(&self, changed_at: i64) -> bool {
    self.ran_at(changed_at, SLACK)
  }

  /// Whether the file was changed while this call ran, which is done, by clocks that agree.
  pub(super) fn surely_ran(&self, changed_at: i64) -> bool {
    self.answer.is_some() && self.ran_at(changed_at, SMALL_SLACK)
  }

  fn ran_at(&self, moment: i64, slack: i64) -> bool {
    let end = self.answer.map_or(self.at.saturating_add(UNANSWERED), |(_, at, _)| at);
    moment >= self.at.saturating_sub(slack) && moment <= end.saturating_add(slack)
  }

  /// Whether a tool said that it did not write. A command that fails may have written before.
  pub(super) fn failed(&self) -> bool {
    !self.is_command && self.answer.is_some_and(|(outcome, ..)| outcome.is_error)
  }

  /// Whole lines that it took out of the file, as far as a patch says so.
  pub(super) fn removed(&self) -> &[String] {
    &self.content.removed
  }

  /// What it was given to write; of a command nothing.
  pub(super) fn given(&self) -> String {
    if self.is_command { String::new() } else { self.content.parts.join("\n\n") }
  }

  /// Whether it is a command with the file's name in it.
  pub(super) fn is_naming_command(&self) -> bool {
    self.is_command && self.names.is_some()
  }

  /// Whether it is a command that runs another author's code.
  pub(super) fn runs_foreign_code(&self) -> bool {
    self.is_command && self.content.parts.iter().any(|part| shell::runs_foreign_code(part))
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

  /// Whether it may have made one of the lines out of what was there: a command may always have;
  /// other calls put their text into the file unchanged, or as a part of a line.
  pub(super) fn may_have_made(&self, lines: &Lines<'_>) -> bool {
    let is_in = |part: &str| {
      let part = squeezed(part);
      !part.is_empty() && lines.lines.iter().any(|line| line.contains(&part))
    };
    let content = &self.content;
    self.is_command
      || content.is_cut
      || content.parts.iter().any(|part| {
        // The end of a line that it puts into one leaves a part of that.
        content.replaces && part.starts_with('\n')
          || content.is_within_line && part.ends_with('\n')
          || squeezed(part).is_empty()
          || part.lines().any(is_in)
      })
  }

  /// Which of the lines the call was given; one flag for each.
  pub(super) fn lines(&self, lines: &Lines<'_>) -> Vec<bool> {
    let given = self.content.whole(self.is_command);
    lines.raw.iter().map(|line| given.contains(&plain(line))).collect()
  }

  /// Whether the call was given all of the lines.
  pub(super) fn has_all(&self, lines: &Lines<'_>) -> bool {
    self.lines(lines).into_iter().all(|has| has)
  }
}

/// Letters and digits of a line, and the first sign of those between two digits: 1.5 is not 15. An
/// agent may have read and written back a comment of memfw at its end.
fn plain(line: &str) -> String {
  let is_comment = |rest: &str| rest.trim_end().find("-->") == rest.trim_end().len().checked_sub(3);
  let text = match line.split_once("<!-- memfw:") {
    Some((text, rest)) if is_comment(rest) => text,
    _ => line,
  };
  let mut plain = String::with_capacity(text.len());
  let mut from = 0;
  // The last letter or digit, and the signs since then.
  let (mut before, mut sign) = (None::<char>, None::<char>);
  for (at, c) in text.char_indices() {
    if !c.is_alphanumeric() {
      sign = sign.filter(|sign| !sign.is_whitespace()).or(Some(c));
      continue;
    }
    if let (Some(sign), Some(true)) = (sign, before.map(char::is_numeric))
      && c.is_numeric()
    {
      plain.push_str(&squeezed(text.get(from..at).unwrap_or_default()));
      plain.push(sign);
      from = at;
    }
    (before, sign) = (Some(c), None);
  }
  plain.push_str(&squeezed(text.get(from..).unwrap_or_default()));
  plain
}

impl<'t> Lines<'t> {
  /// The lines of a text, in letters and digits; lines without any are left out.
  pub(super) fn new(text: &'t str) -> Self {
    let both = text.lines().map(|line| (squeezed(line), line));
    let (lines, raw) = both.filter(|(line, _)| !line.is_empty()).unzip();
    Self { lines, raw }
  }

  /// The lines that are in both, in their form in the text.
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
    } else {
      self.is_cut = true;
    }
  }

  /// All text in the arguments but paths, patches and what was there before.
  fn take(&mut self, value: &Value, depth: usize) {
    match value {
      Value::String(text) => self.push(text),
      Value::Array(values) if depth < 8 => values.iter().for_each(|v| self.take(v, depth + 1)),
      Value::Object(fields) if depth < 8 => {
        let old = fields.iter().filter(|(key, _)| REPLACED_KEYS.contains(&key.as_str()));
        let old: HashSet<String> =
          old.filter_map(|(_, old)| old.as_str()).flat_map(str::lines).map(plain).collect();
        for (key, value) in fields {
          let key = key.as_str();
          let is_old = REPLACED_KEYS.contains(&key);
          self.replaces |= is_old;
          self.is_within_line |= is_old && value.as_str().is_none_or(|old| !old.ends_with('\n'));
          if !PATH_KEYS.contains(&key) && !is_old && !ASIDE_KEYS.contains(&key) && !is_patch(value)
          {
            let number = self.parts.len();
            self.take(value, depth + 1);
            if value.is_string() && self.parts.len() > number && !old.is_empty() {
              self.replaced.insert(number, old.clone());
            }
          }
        }
      }
      _ => {}
    }
  }

  /// The lines that a patch adds to `file` and those that it takes out, and how well the patch names it.
  fn take_patch(&mut self, patch: &str, place: &Place<'_>) -> Option<Names> {
    let mut best = None;
    let mut here = None;
    let mut added = String::new();
    for line in patch.lines() {
      let header = ["*** Add File: ", "*** Update File: ", "*** Move to: ", "+++ b/", "+++ "]
        .iter()
        .find_map(|start| line.strip_prefix(start));
      if let Some(named) = header {
        let named = named.split('\t').next().unwrap_or_default();
        here = place.names(named);
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
    if let Some(added) = added.strip_suffix('\n') {
      self.push(added);
    }
    best
  }

  /// Its whole lines, as they are compared.
  fn whole(&self, is_command: bool) -> &HashSet<String> {
    self.whole.get_or_init(|| {
      let mut whole = HashSet::new();
      for (number, part) in self.parts.iter().enumerate() {
        let old = self.replaced.get(&number);
        let is_new = |line: &String| old.is_none_or(|old| !old.contains(line));
        let mut add = |text: &str| whole.extend(text.lines().map(plain).filter(is_new));
        let texts = if is_command { shell::said(part) } else { vec![part.clone()] };
        for text in &texts {
          add(text);
          if let Some(text) = unescaped(text) {
            add(&text);
          }
        }
      }
      whole
    })
  }
}

/// Tools that only read, whatever path they are given.
#[rustfmt::skip]
const READERS: &[&str] = &[
  "read", "read_file", "view", "memory_get", "memory_search", "web_fetch", "web_search", "browser",
  "grep", "glob", "find", "ls", "image", "pdf",
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
const REPLACED_KEYS: &[&str] =
  &["oldText", "old_text", "oldString", "old_string", "old_str", "search", "find"];
/// Names of arguments that the tool writes to no file.
const ASIDE_KEYS: &[&str] = &["description", "cwd", "workdir"];

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
