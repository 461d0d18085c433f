//! Entries that OpenClaw has promoted from a note into long-term memory, by a process of its own that is in no
//! transcript. Each names the note that it was taken from; the ledger has the origin of the note's lines.
//!
//! Invariant: nothing but an entry that is in the named note, and the few forms that OpenClaw adds to it, gets the
//! origin of that entry; several equal entries give the least trusted one.
#![forbid(unsafe_code)]

use super::{Inquiry, memory::worst, rank::rank};
use crate::provenance::{Attribution, Evidence, Remembered, Request, words::squeezed};

/// How the deep phase and `memory promote` end an entry, before OpenClaw 2026.8 and where they only append.
const SCORE: &str = " [score=";
/// How the deep phase of OpenClaw 2026.9 ends an entry that it merges.
const SOURCE: &str = " Source: ";
/// What OpenClaw writes above an entry, with a key behind it.
const KEYS: [&str; 2] = ["<!-- openclaw-memory-promotion:", "<!-- openclaw-memory-lineage:"];
/// What it writes behind an entry, with words behind it.
const NOTES: [&str; 3] = ["trigger: ", "importance: ", "project: "];
/// The longest words of them; OpenClaw's triggers are three of at most 64 characters.
const MAX_WORDS: usize = 240;
/// The longest key.
const MAX_KEY: usize = 120;
/// The most lines of a note that one entry joins (a choice).
const MAX_LINES: usize = 16;
/// The fewest bytes of an entry that may be the beginning of a longer one: OpenClaw cuts at 640 characters.
const MIN_CUT: usize = 500;

impl Inquiry<'_> {
  /// The origin of entries that OpenClaw has promoted, where a text consists of such entries and
  /// the named file contains each entry exactly.
  pub(super) fn promoted(&self, text: &str) -> Option<Attribution> {
    let mut origin: Option<&Remembered> = None;
    let (frame, lines): (Vec<&str>, Vec<&str>) =
      text.lines().map(str::trim).partition(|line| is_frame(line));
    let mut places: Vec<(String, &str)> = Vec::new();
    for line in lines {
      let (entry, file) = entry(line)?;
      let known = self.question.memory.iter().filter(|one| one.file.as_os_str() == file);
      let known = known.filter(|one| contains(one, &entry)).min_by_key(|one| order(one))?;
      origin = match origin {
        Some(other) if order(other) <= order(known) => Some(other),
        _ => Some(known),
      };
      places.push((squeezed(&entry), file));
    }
    // A key is a name that OpenClaw chose, and no room for words of others.
    if !frame.iter().filter_map(|line| key(line)).all(|key| is_plain_key(key, &places)) {
      return None;
    }
    let known = origin?;
    let note = format!("promoted from {}", Evidence::capped(&known.file.to_string_lossy()));
    Some(Attribution {
      source: known.source.clone(),
      fed_by: known.fed_by.clone(),
      attestation: known.attestation,
      session: None,
      evidence: Evidence { note: Some(note), ..Evidence::default() },
      request: Some(Request::new("", &known.text)),
    })
  }
}

/// The place of a remembered text among all, least trusted first.
fn order(one: &Remembered) -> u8 {
  worst(one).map_or(u8::MAX, rank)
}

/// Whether a line is one that OpenClaw puts around promoted entries, and has no words of others.
fn is_frame(line: &str) -> bool {
  let is_dated = |rest: &str| {
    let day = rest.strip_prefix('(').and_then(|day| day.strip_suffix(')'));
    day.is_some_and(|day| day.len() == 10 && day.chars().all(|c| c.is_ascii_digit() || c == '-'))
  };
  let dated = ["## Promoted From Short-Term Memory ", "## Consolidated Memory "];
  line.is_empty()
    || matches!(line, "# Long-Term Memory" | "### Global")
    || dated.iter().any(|head| line.strip_prefix(head).is_some_and(is_dated))
    || key(line).is_some()
}

/// The key in the comment above an entry.
fn key(line: &str) -> Option<&str> {
  let rest = KEYS.iter().find_map(|head| line.strip_prefix(head))?;
  rest.strip_suffix(" -->").filter(|key| !key.is_empty() && key.len() <= MAX_KEY)
}

/// Whether a key says nothing but where an entry was (`memory:FILE:3:3:0f1e2d3c`), or what it is about, in words of
/// the entry.
fn is_plain_key(key: &str, places: &[(String, &str)]) -> bool {
  if key.contains(|c: char| c.is_whitespace() || c == '<' || c == '>') {
    return false;
  }
  let is_digits =
    |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
  let is_hash = |part: &str| is_digits(part) && part.bytes().any(|byte| byte.is_ascii_digit());
  let of_place = |rest: &str| rest.split(':').all(is_digits);
  places.iter().any(|(words, file)| {
    let place =
      key.strip_prefix("memory:").and_then(|key| key.strip_prefix(file)?.strip_prefix(':'));
    let parts = || key.split(|c: char| !c.is_alphanumeric());
    place.is_some_and(of_place)
      || parts().all(|part| is_hash(part) || words.contains(&squeezed(part)))
  })
}

/// The words of a promoted entry, and the file that it names; `None` for any other line.
fn entry(line: &str) -> Option<(String, &str)> {
  let (line, notes) = notes(line);
  let (entry, file) = if let Some(scored) = line.strip_suffix(']') {
    let (entry, fields) = scored.rsplit_once(SCORE)?;
    let mut fields = fields.split(' ');
    let mut place = None;
    is_number(fields.next()?).then_some(())?;
    for field in fields {
      match field.split_once('=')? {
        ("signals" | "recalls" | "avg", value) if place.is_none() && is_number(value) => {}
        ("source", value) if place.is_none() => place = Some(value),
        _ => return None,
      }
    }
    let (file, lines) = place?.rsplit_once(':')?;
    let (first, last) = lines.split_once('-')?;
    (is_whole(first) && is_whole(last)).then_some((entry, file))?
  } else {
    let (entry, place) = line.rsplit_once(SOURCE)?;
    let (file, lines) = place.rsplit_once("#L")?;
    let (first, last) = lines.split_once("-L")?;
    (is_whole(first) && is_whole(last) && !file.contains(char::is_whitespace))
      .then_some((entry, file))?
  };
  let words = squeezed(&format!("{entry} {file}"));
  let is_plain = notes.iter().all(|note| is_plain_note(note, &words));
  let entry = plain(entry);
  (is_plain && !entry.is_empty()).then_some((entry, file))
}

fn is_whole(text: &str) -> bool {
  !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
  let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
  is_whole(whole) && is_whole(part)
}

/// A line without the comments behind it that OpenClaw's recall reads, and these comments.
fn notes(line: &str) -> (&str, Vec<&str>) {
  let (mut rest, mut notes) = (line.trim_end(), Vec::new());
  while let Some((before, note)) =
    rest.strip_suffix(" -->").and_then(|open| open.rsplit_once(" <!-- "))
  {
    if !NOTES.iter().any(|kind| note.starts_with(kind)) || note.len() > MAX_WORDS {
      break;
    }
    notes.push(note);
    rest = before.trim_end();
  }
  (rest, notes)
}

/// Whether a comment behind an entry has no words but those of the entry and its file: triggers are tags that
/// OpenClaw finds in them.
fn is_plain_note(note: &str, words: &str) -> bool {
  // What follows the end of a comment is no comment.
  if note.contains(['<', '>']) {
    return false;
  }
  match note.split_once(": ") {
    Some(("importance", n)) => is_whole(n),
    Some(("trigger", tags)) => {
      let mut tags = tags.split(|c: char| !c.is_alphanumeric());
      tags.all(|tag| words.contains(&squeezed(tag)))
    }
    Some(("project", key)) => !key.contains(char::is_whitespace) && key.len() <= MAX_KEY,
    _ => false,
  }
}

/// The words of an entry as OpenClaw takes them over: without a bullet, and with single spaces.
fn plain(text: &str) -> String {
  let text = text.trim();
  let bare = text.strip_prefix(['-', '*', '+']).filter(|rest| rest.starts_with(' '));
  bare.unwrap_or(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line of a note as OpenClaw takes it over: without memfw's comments and its own.
fn remembered_line(line: &str) -> String {
  let mut text = notes(line).0;
  while let Some((before, _)) =
    text.strip_suffix("-->").and_then(|open| open.rsplit_once("<!-- memfw:"))
  {
    text = notes(before).0;
  }
  text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a remembered text has an entry, as one line or several joined. A part of one counts only where it comes from
/// outside: what was left out may have limited what the owner said, or forbidden it.
fn contains(one: &Remembered, entry: &str) -> bool {
  let is_others = worst(one).is_some();
  let mut lines = Vec::new();
  let mut is_list = false;
  for raw in one.text.lines() {
    let line = remembered_line(raw);
    if line.is_empty() {
      continue;
    }
    let is_item = is_top_item(raw);
    is_list = if lines.is_empty() { is_item } else { is_list };
    // Items below other words are about these: they are no entries of their own.
    lines.push((line, lines.is_empty() || is_list && is_item));
  }
  (0..lines.len()).any(|first| {
    let mut joined = String::new();
    for (at, (line, begins)) in lines.iter().enumerate().skip(first).take(MAX_LINES) {
      if at == first && !begins && !is_others {
        return false;
      }
      if !joined.is_empty() {
        joined.push(' ');
      }
      joined.push_str(line);
      let words = plain(&joined);
      let is_cut = is_others && entry.len() >= MIN_CUT && words.starts_with(entry);
      let is_whole = is_others || lines.get(at + 1).is_none_or(|(_, begins)| *begins);
      if is_cut || is_whole && words == entry {
        return true;
      }
      if words.len() > entry.len() {
        break;
      }
    }
    false
  })
}

/// Whether a line begins an item of a list that is in no other item.
fn is_top_item(line: &str) -> bool {
  let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
  let is_numbered = number.len() < line.len() && number.starts_with([')', '.']);
  line.starts_with(['-', '*', '+']) || is_numbered
}
