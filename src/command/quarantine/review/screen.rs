//! One item as a person sees it: text for a terminal of any width, with or without colours. Pure.
//!
//! Output is never repainted: it reads the same over ssh, in a screen reader, and in a file.
#![forbid(unsafe_code)]

use super::card::{Around, Card, Reason};
use crate::{
  command::shared::evidence,
  detect::Severity,
  plural::times,
  provenance::{Source, State},
  terminal::{
    escape::{Escape, terminal, width},
    output::{Style, count},
    preview::{Preview, Window, one_line, prose},
    time,
  },
};

/// Rows of a text that are shown at first; a choice: with everything below them at most 21 rows, so that no
/// screen of 24 rows loses its first one.
const FIRST_ROWS: usize = 5;
/// Reasons that are shown at first (a choice).
const FIRST_REASONS: usize = 3;
/// Decoded texts that are shown at first (a choice).
const FIRST_DECODED: usize = 2;
/// The most decoded texts that are shown on request (a choice).
const ALL_DECODED: usize = 32;
/// Columns before the text of a row: the indentation and its name.
const NAMES: usize = 11;
/// The most rows that are shown on request.
const ALL_ROWS: usize = 400;
/// The minimum and maximum width, in columns.
const COLUMNS: (usize, usize) = (60, 100);

/// How to show an item.
#[derive(Clone, Copy, Debug)]
pub struct Look {
  /// Columns of the terminal.
  pub columns: usize,
  /// Whether colours are wanted.
  pub colour: bool,
  /// The current time, microseconds UTC.
  pub now: i64,
}

impl Look {
  /// The columns that are left after so many.
  pub(super) fn columns_at(self, spaces: usize) -> usize {
    self.columns().saturating_sub(spaces)
  }

  fn columns(self) -> usize {
    self.columns.clamp(COLUMNS.0, COLUMNS.1)
  }

  /// `text` in a style, if colours are wanted.
  pub fn paint(self, style: Style, text: &str) -> String {
    style.paint(text, self.colour)
  }

  /// Escaped prose, wrapped and indented by so many spaces.
  fn indented(self, spaces: usize, text: &str) -> Vec<String> {
    let rows = prose(text, self.columns() - spaces);
    rows.into_iter().map(|row| format!("{:spaces$}{row}", "")).collect()
  }

  /// Foreign text on one row, escaped and cut to the width that is left after so many columns.
  fn cut(self, columns: usize, text: &[u8]) -> String {
    Escape::default().max_width(self.columns().saturating_sub(columns)).apply(one_line(text))
  }

  /// A row with an id and the beginning of a text.
  pub fn listed(self, id: &str, words: &str) -> String {
    let used = 2 + id.len() + 2;
    format!("  {}  {}\n", self.paint(Style::Bold, id), self.cut(used, words.as_bytes()))
  }

  /// A row with a name and foreign text, cut to the width.
  fn named(self, name: &str, text: impl AsRef<[u8]>) -> String {
    let name = self.paint(Style::Dim, &format!("  {name:<9}"));
    format!("{name}{}", self.cut(NAMES, text.as_ref()))
  }
}

/// The item with number `n` of `all`: its text, and what a decision needs at once. `whole` shows all of the
/// text; [`details`] has the rest.
pub fn screen(card: &Card, (n, all): (usize, usize), look: Look, whole: bool) -> String {
  let mut rows = vec![title(card, n, all, look)];
  rows.extend(text(card, look, whole));
  rows.extend(decoded(card, look));
  rows.extend(strong_reasons(card, look));
  let trust = if card.source.is_baseline() { String::new() } else { format!(" ({})", card.trust) };
  rows.push(look.named("from", format!("{}{trust}: {}", card.source, sentence(card))));
  match card.asked.as_deref() {
    None => {}
    Some("") => rows.push(look.named("asked", "nobody asked for anything in that turn")),
    Some(asked) => rows.push(look.named("asked", asked)),
  }
  if !card.passage.is_empty() {
    rows.push(look.named("passage", &card.passage));
  }
  rows.push(String::new());
  rows.join("\n") + "\n"
}

/// The possible decisions and their keys, in one or two rows. `is_decided`: whether it was decided in this review, as
/// one that was taken out by hand and waits. `can_repeat`: whether a decision was made that can be made again.
pub fn keys(card: &Card, look: Look, is_decided: bool, can_repeat: bool) -> String {
  let is_open = is_open(card) && !is_decided;
  let mut keys = Vec::new();
  if is_open {
    keys.extend([("a", "approve"), ("r", if card.in_file { "take out" } else { "reject" })]);
  } else {
    keys.push(("u", "undo"));
  }
  if is_open && card.unit().is_some() {
    keys.push(("p", "part"));
  }
  if can_repeat {
    keys.push(("R", "repeat"));
  }
  keys.push(("l", if is_open { "later" } else { "next" }));
  if is_open && !card.to_allow().is_empty() {
    keys.push(("s", "allow source"));
  }
  if is_cut(card, look) {
    keys.push(("t", "text"));
  }
  keys.extend([("b", "back"), ("?", "more"), ("q", "quit")]);
  let mut rows = String::new();
  let mut used = 0;
  for (key, what) in keys {
    let width = key.len() + 1 + what.len();
    if used + 2 + width > look.columns() {
      rows.push('\n');
      used = 0;
    }
    if used > 0 {
      rows.push_str("  ");
      used += 2;
    }
    rows.extend([look.paint(Style::Cyan, key).as_str(), " ", what]);
    used += width;
  }
  rows + "\n"
}

/// Everything about the item that [`screen`] leaves out, and what each key does.
pub fn details(card: &Card, look: Look) -> String {
  let mut rows = look.indented(2, &format!("{}:{}", card.file(), card.line));
  rows.extend(look.indented(2, &story(card)));
  rows.push(String::new());
  rows.push(format!("  {} (score {:.2})", look.paint(Style::Bold, "Why"), card.score));
  for Reason { code, whys, .. } in &card.reasons {
    let excused = if card.allowed.contains(code) { " (allowed for its source)" } else { "" };
    rows.extend(look.indented(4, &format!("{code}: {}{excused}", code.title())));
    for why in whys {
      rows.extend(look.indented(6, &terminal(why)));
    }
  }
  for (name, words) in [("Asked", card.asked.as_deref().unwrap_or("")), ("Passage", &card.passage)]
  {
    if !words.is_empty() {
      rows.push(format!("  {}", look.paint(Style::Bold, name)));
      rows.extend(look.indented(4, &one_line(words.as_bytes())));
    }
  }
  if card.decoded.len() > FIRST_DECODED {
    rows.push(format!("  {}", look.paint(Style::Bold, "Decoded")));
    let texts = card.decoded.iter().take(ALL_DECODED);
    rows.extend(texts.flat_map(|text| look.indented(4, &one_line(text.as_bytes()))));
  }
  rows.extend(around(card, look));
  rows.push(String::new());
  rows.extend(what_keys_do(card, look));
  rows.push(String::new());
  rows.join("\n") + "\n"
}

fn what_keys_do(card: &Card, look: Look) -> Vec<String> {
  let (out, why) = if card.in_file {
    ("take out", "it is taken out of its file and waits in quarantine, sealed")
  } else {
    ("reject", "it stays out for good; its sealed text is deleted after `quarantine.rejected_days`")
  };
  let source = terminal(card.source.as_str());
  let allow = if card.to_allow().is_empty() {
    "not here: the source of this text is not known, or is already allowed all of these codes"
      .to_owned()
  } else {
    format!(
      "excuse a code in all text that comes from {source} from now on, with a reason, for some days or for \
       good; this item still waits"
    )
  };
  let approve = if card.in_file {
    "it is fine: it stays, and is not flagged again"
  } else {
    "it is fine: the exact bytes are restored in their place, and this text is not taken out again there"
  };
  let all = [
    ("a", "approve", approve),
    ("r", out, why),
    (
      "p",
      "part",
      "some lines or sentences are fine: asks which, and they are restored; the rest stays out, as items of its \
       own",
    ),
    (
      "R",
      "repeat",
      "your last decision again, for all items of that file with that code; asks first",
    ),
    ("u", "undo", "take the decision about a decided item back"),
    ("l", "later", "nothing changes; the next item"),
    ("s", "allow source", allow.as_str()),
    ("t", "text", "the whole text, escaped"),
    ("b", "back", "the previous item, also a decided one"),
    ("q", "quit", "postpone the rest; so do Ctrl-C and the end of the input"),
  ];
  let mut rows = Vec::new();
  for (key, name, what) in all {
    // The first row has the key and the name, which may have colours.
    let text = look.indented(4, &format!("{name}: {what}"));
    for (index, row) in text.into_iter().enumerate() {
      let rest = row.get(4..).unwrap_or_default();
      rows.push(if index == 0 {
        format!("  {} {rest}", look.paint(Style::Cyan, key))
      } else {
        row
      });
    }
  }
  let id = &card.id;
  let take = if card.in_file { "quarantine add" } else { "reject" };
  rows.extend(look.indented(
    2,
    &format!("As commands: `memfw approve {id}`, `memfw {take} {id}`, `memfw undo {id}`, `memfw explain {id}`"),
  ));
  rows
}

/// Whether the item waits for a decision.
const fn is_open(card: &Card) -> bool {
  card.status.is_waiting() || matches!(card.status, State::Flagged)
}

fn title(card: &Card, n: usize, all: usize, look: Look) -> String {
  let style = match card.status {
    State::Flagged => Style::Plain,
    State::Approved => Style::Green,
    _ => Style::Yellow,
  };
  let since = format!(", {}", time::short(card.at, look.now));
  let count = format!("[{n} of {all}] ");
  let (id, status) = (card.id.as_str(), card.status.as_str());
  let used = width(&count) + id.len() + 2 + status.len() + width(&since) + 2;
  let place = format!("{}:{}", card.file(), card.line);
  format!(
    "{count}{}  {}{}  {}",
    look.paint(Style::Bold, id),
    look.paint(style, status),
    look.paint(Style::Dim, &since),
    cut_start(&place, look.columns().saturating_sub(used))
  )
}

/// The end of a path, which says more than its beginning.
fn cut_start(text: &str, columns: usize) -> String {
  let mut end = String::new();
  for c in text.chars().rev() {
    if width(&end) + width(c.encode_utf8(&mut [0; 4])) + 1 > columns {
      let end: String = end.chars().rev().collect();
      // A name is shown whole or not at all.
      let whole = end.find('/').and_then(|at| end.get(at..)).unwrap_or(&end);
      return format!("…{whole}");
    }
    end.push(c);
  }
  text.to_owned()
}

/// What is encoded or hidden, in plain words.
fn decoded(card: &Card, look: Look) -> Vec<String> {
  let mut rows: Vec<String> =
    card.decoded.iter().take(FIRST_DECODED).map(|text| look.named("decoded", text)).collect();
  let more = card.decoded.len().saturating_sub(FIRST_DECODED);
  if more > 0 {
    rows.push(look.named("", format!("and {more} more: ?")));
  }
  rows
}

/// One row for each strong reason: those of severity medium or worse, and at least the strongest.
fn strong_reasons(card: &Card, look: Look) -> Vec<String> {
  let is_strong = |reason: &&Reason| reason.severity >= Some(Severity::Medium);
  let strong: Vec<&Reason> = card.reasons.iter().filter(is_strong).collect();
  let shown: Vec<&Reason> = match strong.len() {
    0 => card.reasons.iter().take(1).collect(),
    _ => strong.into_iter().take(FIRST_REASONS).collect(),
  };
  let mut rows = Vec::new();
  for (index, Reason { code, whys, .. }) in shown.iter().enumerate() {
    let why = whys.first().map_or(code.title(), String::as_str);
    let excused = if card.allowed.contains(code) { "allowed for its source; " } else { "" };
    rows.push(look.named(if index == 0 { "why" } else { "" }, format!("{code}: {excused}{why}")));
  }
  let more = card.reasons.len().saturating_sub(shown.len());
  if let (Some(last), 1..) = (rows.last_mut(), more) {
    let note = format!(" (+{more}: ?)");
    // The note stays where the row is full.
    if width_without_colours(last) + width(&note) <= look.columns() {
      last.push_str(&look.paint(Style::Dim, &note));
    } else {
      rows.push(look.named("", format!("and {more} more: ?")));
    }
  }
  rows
}

fn width_without_colours(row: &str) -> usize {
  let mut rest = row;
  let mut columns = 0;
  while let Some((before, after)) = rest.split_once('\u{1b}') {
    columns += width(before);
    rest = after.split_once('m').map_or("", |(_, rest)| rest);
  }
  columns + width(rest)
}

/// Where the item came from, in one sentence, and how far the source is trusted.
fn story(card: &Card) -> String {
  let sentence = capital(&terminal(sentence(card)));
  let origin = evidence::origin(&card.source, card.trust, card.attestation);
  let again = match card.occurrences {
    0 | 1 => String::new(),
    n => format!(" It was seen {} more and kept out again.", times(u64::from(n) - 1)),
  };
  format!("{sentence}. Source: {origin}.{again}")
}

/// How the origin is known, or what is assumed; not escaped.
fn sentence(card: &Card) -> String {
  match &card.evidence {
    Some(line) if line != "nothing on record" => line.clone(),
    _ => unseen(&card.source),
  }
}

/// A sentence about a source that was not observed; not escaped.
fn unseen(source: &Source) -> String {
  match (source.kind(), source.detail()) {
    ("unknown", _) => "it is not known who wrote it".to_owned(),
    ("external-edit", _) => "a program other than the agent wrote it".to_owned(),
    ("baseline", _) => "it was there before memfw".to_owned(),
    ("agent", _) => "the agent wrote it by itself".to_owned(),
    ("user", Some("owner")) => "you wrote it, or said it to the agent".to_owned(),
    ("web_fetch" | "browser", Some(host)) => format!("it comes from the page {host}"),
    ("file" | "memory", Some(name)) => format!("it comes from the file {name}"),
    _ => format!("it comes from {source}"),
  }
}

fn capital(text: &str) -> String {
  let mut letters = text.chars();
  letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn text(card: &Card, look: Look, whole: bool) -> Vec<String> {
  let Some(bytes) = &card.text else {
    let why = "its bytes are not available: they were deleted, or the file has changed since";
    return look.indented(2, why);
  };
  let bar = look.paint(Style::Dim, "|");
  let max = if whole { ALL_ROWS } else { FIRST_ROWS };
  let preview = Preview::new(bytes, &card.spans);
  let columns = look.columns() - "  | ".len();
  let Window { rows: shown, above, below } = if whole {
    let (rows, below) = preview.rows(columns, max, look.colour);
    Window { rows, above: 0, below }
  } else {
    preview.window(columns, max, look.colour)
  };
  let note = |text: String| format!("  {bar} {}", look.paint(Style::Dim, &text));
  let mut rows = Vec::new();
  if above > 0 {
    rows.push(note(format!("… {} above: t shows them", count(above as u64, "row"))));
  }
  rows.extend(shown.iter().map(|row| format!("  {bar} {row}").trim_end().to_owned()));
  if below > 0 && whole {
    rows.push(note("… and more, which is not shown".to_owned()));
  } else if below > 0 {
    rows.push(note(format!("… {} below: t shows them", count(below as u64, "row"))));
  }
  rows
}

/// Whether [`screen`] leaves out a part of the text.
fn is_cut(card: &Card, look: Look) -> bool {
  let Some(bytes) = &card.text else { return false };
  let columns = look.columns() - "  | ".len();
  let window = Preview::new(bytes, &card.spans).window(columns, FIRST_ROWS, look.colour);
  window.above + window.below > 0
}

fn around(card: &Card, look: Look) -> Vec<String> {
  let Around { above, below } = &card.around;
  if above.is_empty() && below.is_empty() {
    return vec![];
  }
  let line = |(n, text): &(usize, Vec<u8>)| {
    let row = format!("{n:>7} {}", look.cut(8, text));
    look.paint(Style::Dim, row.trim_end())
  };
  let mut rows = vec![format!("  {}", look.paint(Style::Bold, "Around it"))];
  rows.extend(above.iter().map(line));
  let here = if card.in_file { "it is here" } else { "it was here" };
  rows.push(format!("{:>7} {}", "*", look.paint(Style::Yellow, here)));
  rows.extend(below.iter().map(line));
  rows
}
