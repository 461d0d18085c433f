//! The rows of the screen, for any width and height. Pure.
//!
//! On a low screen, what needs a person comes first: the state, what waits, the latest events, then the sources. On a
//! narrow one, columns are left out, the least important first.
//!
//! Invariant: no row is wider than the screen, and all text in it is escaped.
#![forbid(unsafe_code)]

use super::view::{EventLine, SourceLine, View, WaitingItem};
use crate::{
  command::shared::evidence::trust_words,
  engine::EventKind,
  stats::Counts,
  terminal::{
    escape::{Escape, width},
    output::{Style, count},
    table::{Cell, Column, Piece, Table},
    time,
  },
};

/// One row: pieces of text with their styles.
pub(super) type Row = Vec<Piece>;

/// Columns of the name of a line.
const NAMES: usize = 14;
/// The rows of a table above its content: an empty one and the titles.
const TITLE: usize = 2;
/// Events and sources that are shown before items beyond the selected one (a choice).
const LEAST: usize = 3;
/// Rows from which on several problems are shown (a choice: a screen of 24 rows has no room for them).
const TALL: usize = 30;
/// Problems on such a screen.
const PROBLEMS: usize = 4;
/// Items, events and sources in print (a choice: with everything else two screens of 24 rows).
const PRINTED: Shares = Shares { items: 10, are_all_quoted: true, events: 10, sources: 8 };

/// The keys in the last row; without an item, the first two do nothing.
const ITEM_KEYS: [(&str, &str); 2] = [("j/k", "select"), ("Enter", "review")];
const KEYS: [(&str, &str); 2] = [("?", "help"), ("q", "quit")];

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
  pub(super) columns: usize,
  pub(super) rows: usize,
}

/// The rows of a screen, as many as it has. `selected` is the number of an item; `note` replaces the keys.
pub(super) fn screen(view: &View, room: Room, selected: usize, note: Option<&str>) -> Vec<Row> {
  let Room { columns, rows: n_rows } = room;
  let n_problems = if n_rows < TALL { 1 } else { PROBLEMS };
  let mut rows = head(view, columns, n_problems);
  add_clock(&mut rows, view.now, columns);
  let left = n_rows.saturating_sub(rows.len() + 1);
  let shares = Shares::of(view, left);
  rows.extend(body(view, columns, shares, Some(selected)));
  rows.truncate(n_rows.saturating_sub(1));
  rows.resize(n_rows.saturating_sub(1), Row::new());
  let of_items = ITEM_KEYS.iter().filter(|_| !view.items.is_empty());
  rows.push(note.map_or_else(
    || keys(of_items.chain(&KEYS), columns),
    |note| vec![(cut(note, columns), Style::Yellow)],
  ));
  rows.into_iter().map(|row| clipped(row, columns)).collect()
}

/// The rows for a pipe, a file, or a terminal without a moving cursor.
pub(super) fn plain(view: &View, columns: usize) -> Vec<Row> {
  let mut rows = head(view, columns, PROBLEMS);
  let shares = Shares {
    items: PRINTED.items.min(view.items.len()),
    events: PRINTED.events.min(view.events.len()),
    sources: PRINTED.sources.min(view.day.sources.len()),
    ..PRINTED
  };
  rows.extend(body(view, columns, shares, None));
  rows
}

/// The help, as many rows as the screen has.
pub(super) fn help(room: Room) -> Vec<Row> {
  const KEYS: [(&str, &str); 7] = [
    ("j k, arrows", "select another item that waits"),
    ("Home End", "select the newest or the oldest one"),
    ("Enter r", "review the selected item; a loss is shown"),
    ("?", "this help; any key leaves it"),
    ("Ctrl-L", "draw the screen again"),
    ("q Esc Ctrl-C", "quit"),
    ("", ""),
  ];
  const WORDS: [&str; 6] = [
    "The screen follows the ledger once a second. Times are UTC.",
    "The sources and their counts are those of the last 24 hours:",
    "  SEEN: judged blocks, KEPT, FLAGGED or QUARANTINED",
    "Everything here is also printed by another command:",
    "  memfw status, memfw list, memfw log, memfw stats",
    "A review asks before it changes anything; this screen changes nothing.",
  ];
  let mut rows = vec![vec![("memfw top".to_owned(), Style::Bold)], Row::new()];
  rows.extend(KEYS.iter().map(|(key, what)| {
    let text = cut(what, room.columns.saturating_sub(NAMES + 2));
    vec![(format!("  {key:<NAMES$}"), Style::Cyan), (text, Style::Plain)]
  }));
  rows.extend(WORDS.iter().map(|line| vec![(cut(line, room.columns), Style::Plain)]));
  rows.truncate(room.rows);
  rows
}

/// How many rows of each kind are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
  items: usize,
  /// Whether the words of all items are shown, or only those of the selected one.
  are_all_quoted: bool,
  events: usize,
  sources: usize,
}

impl Shares {
  fn of(view: &View, left: usize) -> Self {
    let (all_items, all_events) = (view.items.len(), view.events.len());
    let all_sources = view.day.sources.len();
    let titled = |n: usize| if n == 0 { 0 } else { TITLE + n };
    let (mut events, mut sources) = (all_events.min(LEAST), all_sources.min(LEAST));
    // The selected item and its words.
    let least = titled(2 * all_items.min(1));
    if least + titled(events) + titled(sources) > left {
      sources = 0;
    }
    if least + titled(events) > left {
      events = 0;
    }
    let room = left.saturating_sub(titled(events) + titled(sources));
    let (items, are_all_quoted) = match room.checked_sub(titled(2)) {
      None => (0, false),
      Some(_) if titled(2 * all_items) <= room => (all_items, true),
      Some(more) => (all_items.min(1 + more), false),
    };
    let used = if are_all_quoted { titled(2 * items) } else { titled(items) + items.min(1) };
    let mut rest = room.saturating_sub(used);
    // Sources get a third of what is left over, events the rest, and sources what events do not need.
    for (shown, all, part) in [(&mut sources, all_sources, 3), (&mut events, all_events, 1)] {
      let more = if *shown == 0 { 0 } else { (all - *shown).min(rest / part) };
      *shown += more;
      rest -= more;
    }
    if sources > 0 {
      sources += (all_sources - sources).min(rest);
    }
    Self { items, are_all_quoted, events, sources }
  }
}

fn head(view: &View, columns: usize, n_problems: usize) -> Vec<Row> {
  let Counts { kept, flagged, quarantined, returned, .. } = view.day.counts;
  let back = match returned {
    0 => String::new(),
    n => format!(", {n} came back"),
  };
  let at_least = if view.day.is_cut { "more than " } else { "" };
  let seen = count(view.day.counts.seen(), "block");
  let day =
    format!("{at_least}{seen}: {kept} kept, {flagged} flagged, {quarantined} quarantined{back}");
  let waiting = view.waiting.as_deref();
  let waiting_style = if waiting.is_some() { Style::Yellow } else { Style::Plain };
  let mut rows = vec![view.title.iter().filter(|piece| !piece.0.is_empty()).cloned().collect()];
  rows.push(fact(view.extent.0, &view.extent.1, Style::Plain, columns));
  rows.push(fact("waiting", waiting.unwrap_or("nothing"), waiting_style, columns));
  if view.problems.is_empty() {
    rows.push(fact("problems", "none", Style::Plain, columns));
  }
  for (index, problem) in view.problems.iter().take(n_problems).enumerate() {
    let more = match view.problems.len() - index - 1 {
      n @ 1.. if index + 1 == n_problems => format!(" (and {n} more)"),
      _ => String::new(),
    };
    let name = if index == 0 { "problems" } else { "" };
    let text = cut(problem, columns.saturating_sub(NAMES + more.len())) + &more;
    rows.push(fact(name, &text, Style::Red, columns));
  }
  rows.push(fact("exposure", &view.exposure, Style::Plain, columns));
  rows.push(fact("last 24 h", &day, Style::Plain, columns));
  rows
}

/// The time at the end of the title, by which a person sees that the screen is alive.
fn add_clock(rows: &mut [Row], now: i64, columns: usize) {
  let clock = format!("{} UTC", time::exact(now, now));
  let Some(title) = rows.first_mut() else { return };
  let used: usize = title.iter().map(|(text, _)| width(text)).sum();
  if let Some(gap @ 2..) = columns.checked_sub(used + width(&clock)) {
    title.push((" ".repeat(gap), Style::Plain));
    title.push((clock, Style::Dim));
  }
}

fn body(view: &View, columns: usize, shares: Shares, selected: Option<usize>) -> Vec<Row> {
  let mut rows = Vec::new();
  if shares.items > 0 {
    let last = view.items.len().saturating_sub(shares.items);
    let first = selected.unwrap_or(0).saturating_sub(shares.items / 2).min(last);
    let selected = selected.map(|at| at.saturating_sub(first));
    let items = view.items.get(first..first + shares.items).unwrap_or_default();
    rows.extend(waiting(items, (view.now, columns), shares.are_all_quoted, selected));
    let more = view.n_items.saturating_sub(shares.items);
    if selected.is_none() && more > 0 {
      rows.push(vec![(format!("and {more} more: memfw list"), Style::Plain)]);
    }
  }
  if shares.events > 0 {
    rows.push(Row::new());
    let events = view.events.get(..shares.events).unwrap_or_default();
    rows.extend(event_table(events, view.now).rows(columns));
  }
  if shares.sources > 0 {
    rows.push(Row::new());
    let sources = view.day.sources.get(..shares.sources).unwrap_or_default();
    rows.extend(source_table(sources).rows(columns));
    let more = view.day.sources.len().saturating_sub(shares.sources);
    if selected.is_none() && more > 0 {
      rows.push(vec![(format!("and {more} more: memfw stats --days 1"), Style::Plain)]);
    }
  }
  rows
}

/// The items that wait, with the beginning of their texts below each or below the selected one.
fn waiting(
  items: &[WaitingItem],
  (now, columns): (i64, usize),
  are_all_quoted: bool,
  selected: Option<usize>,
) -> Vec<Row> {
  // The columns are in the order in which they are read, and the last ones are left out first.
  let mut table = Table::new([
    Column::new("ID"),
    Column::new("WHY").cut_end(12),
    Column::new("FILE").cut_start(12),
    Column::new("SINCE"),
    Column::new("SOURCE").cut_end(9).dispensable(),
    Column::new("STATUS").dispensable(),
  ]);
  for item in items {
    table.row([
      Cell::styled(item.id.as_str(), Style::Cyan),
      Cell::from(&item.why),
      Cell::from(&item.place),
      Cell::from(time::short(item.at, now)),
      Cell::from(&item.source),
      Cell::from(item.status),
    ]);
  }
  let margin = if selected.is_some() { 2 } else { 0 };
  let mut rows = vec![Row::new()];
  for (index, row) in table.rows(columns.saturating_sub(margin)).into_iter().enumerate() {
    let item = index.checked_sub(1);
    let is_selected = item.is_some() && item == selected;
    let mark = if is_selected { "> " } else { "  " };
    let mark = mark.get(..margin).unwrap_or_default();
    rows.push(std::iter::once((mark.to_owned(), Style::Bold)).chain(row).collect());
    if let Some(item) = item.and_then(|at| items.get(at))
      && (are_all_quoted || is_selected)
    {
      let words = cut(&item.words, columns.saturating_sub(margin + 4));
      let bar = (format!("{:margin$}  | ", ""), Style::Dim);
      rows.push(vec![bar, (words, Style::Plain)]);
    }
  }
  rows
}

fn event_table(events: &[EventLine], now: i64) -> Table {
  let mut table = Table::new([
    Column::new("TIME (UTC)"),
    Column::new("EVENT"),
    Column::new("SOURCE").cut_end(9),
    Column::new("FILE").cut_start(11),
    Column::new("BLOCK").dispensable(),
    Column::new("WHAT").cut_end(11).dispensable(),
  ]);
  for event in events {
    let name = match event.n {
      1 => event.event.as_str().to_owned(),
      n => format!("{n} × {}", event.event),
    };
    table.row([
      Cell::from(time::exact(event.at, now)),
      Cell::styled(name, event_style(event.event)),
      Cell::from(&event.source),
      Cell::from(&event.file),
      Cell::from(&event.block),
      Cell::from(&event.what),
    ]);
  }
  table
}

/// The colour of an event, beside its word.
const fn event_style(event: EventKind) -> Style {
  use EventKind as E;
  match event {
    E::Quarantined | E::Held | E::Returned | E::Degraded | E::Unguarded | E::LetThrough => {
      Style::Red
    }
    E::Flagged | E::Lost | E::ForgedMarker | E::SkillFlagged | E::SkillChanged => Style::Yellow,
    E::Approved | E::Restored | E::Started => Style::Green,
    _ => Style::Plain,
  }
}

fn source_table(sources: &[SourceLine]) -> Table {
  let mut table = Table::new([
    Column::new("SOURCE (24 H)").cut_end(13),
    Column::new("SEEN").right(),
    Column::new("KEPT").right(),
    Column::new("FLAGGED").right(),
    Column::new("QUARANTINED").right(),
    Column::new("TRUST").dispensable(),
  ]);
  for source in sources {
    let Counts { kept, flagged, quarantined, .. } = source.counts;
    let styled =
      |n: u64, style| Cell::styled(n.to_string(), if n > 0 { style } else { Style::Plain });
    table.row([
      Cell::from(&source.name),
      Cell::from(source.counts.seen().to_string()),
      Cell::from(kept.to_string()),
      styled(flagged, Style::Yellow),
      styled(quarantined, Style::Red),
      Cell::from(source.trust.map_or("", |trust| trust_words(&source.name, trust))),
    ]);
  }
  table
}

/// A name, and a text cut to the width.
fn fact(name: &str, text: &str, style: Style, columns: usize) -> Row {
  let names = NAMES.min(columns);
  let name = cut(&format!("  {name:<0$}", NAMES - 2), names);
  vec![(name, Style::Plain), (cut(text, columns - names), style)]
}

/// Keys and what they do, as many as there is room for.
fn keys<'k>(all: impl Iterator<Item = &'k (&'k str, &'k str)>, columns: usize) -> Row {
  let mut row = Row::new();
  let mut used = 0;
  for (key, what) in all {
    let gap = if row.is_empty() { 0 } else { 2 };
    used += gap + key.len() + 1 + what.len();
    if used > columns {
      break;
    }
    row.push((format!("{:gap$}{key}", ""), Style::Cyan));
    row.push((format!(" {what}"), Style::Plain));
  }
  row
}

/// A row without what is beyond the width: a table has a least width.
fn clipped(row: Row, columns: usize) -> Row {
  let mut left = columns;
  row
    .into_iter()
    .map(|(text, style)| {
      let text = if width(&text) > left { cut(&text, left) } else { text };
      left = left.saturating_sub(width(&text));
      (text, style)
    })
    .collect()
}

/// A text that is escaped and cut to a width.
fn cut(text: &str, columns: usize) -> String {
  Escape::default().max_width(columns).apply(text)
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
