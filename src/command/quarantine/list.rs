//! `memfw list`: what waits for a person, one row an item, with the words that were taken out.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  path::{Path, PathBuf},
};

use serde_json::Value;

use super::{FilterArgs, QuarantineListArgs, filter::Unless, in_file::FlaggedTexts, loss, to_json};
use crate::{
  app::{advice::BEGIN, context::Context, exit::Status},
  command::shared::finding,
  detect::{Code, Severity},
  engine::event::shown,
  os::{Clock as _, SystemClock},
  plural::choose,
  provenance::{Source, State},
  store::{Item, ItemFilter, Ledger, Loss, StoreError},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    preview::one_line,
    table::{Cell, Column, Table},
    time,
  },
};

/// From how many alike items on they share a row (a choice: fewer rows than these are read at a glance).
const ALIKE: usize = 4;
/// The bytes of a text that its row shows, where the terminal is wide enough (a choice).
const SNIPPET: usize = 160;

/// Carries the command out.
pub(super) fn run(
  context: &Context,
  args: &QuarantineListArgs,
  unless: Unless,
) -> Result<Status, Failure> {
  let Some(ledger) = context.ledger_to_read()? else {
    return nothing(context, &args.filter, unless, args.json);
  };
  let items = args.filter.items(&ledger, unless)?;
  // What was lost is in no quarantine.
  let losses = if unless == Unless::Open { args.filter.losses(&ledger)? } else { vec![] };
  if args.json {
    let mut values: Vec<Value> = items.iter().map(to_json).collect();
    for loss in &losses {
      values.push(loss::to_json(&ledger, loss)?);
    }
    context.out.json(&values)?;
    return Ok(Status::Yes);
  }
  if items.is_empty() && losses.is_empty() {
    return nothing(context, &args.filter, unless, false);
  }
  // Without the key the list has everything but the words.
  let ledger = context.ledger_with_key().unwrap_or(ledger);
  let rows = rows(&items, !args.each);
  context.out.page();
  // A row stays one line in a pipe as well; `--json` has everything uncut.
  let directory =
    common(items.iter().map(|item| &item.path).chain(losses.iter().map(|loss| &loss.path)));
  // Commands that need the configuration report an invalid one.
  let max_file_bytes = context.config().unwrap_or_default().config.max_file_bytes;
  let texts = FlaggedTexts::new(&ledger, max_file_bytes);
  let table = table(&ledger, (&rows, &losses), texts, (&directory, args.filter.status.len() == 1));
  context.out.text(&table.render(context.out.columns(), context.out.colour()))?;
  context.out.line("")?;
  for line in footer(&ledger, (&items, losses.len()), (&directory, args, unless))? {
    context.out.line(&line)?;
  }
  Ok(Status::Yes)
}

/// Says that there is no such item, and how many there are without the filters; before the first start of the daemon,
/// that nothing is guarded.
pub(super) fn nothing(
  context: &Context,
  filter: &FilterArgs,
  unless: Unless,
  json: bool,
) -> Result<Status, Failure> {
  let line = if json {
    context.out.json(&[(); 0])?;
    return Ok(Status::Yes);
  } else if let Some(ledger) = context.ledger_to_read()? {
    let all = FilterArgs::default();
    let losses = if unless == Unless::Open { all.losses(&ledger)?.len() } else { 0 };
    let items = all.items(&ledger, unless)?;
    // What is approved and not back yet is decided.
    match (items.iter().filter(|item| !item.awaited).count() + losses) as u64 {
      _ if filter.is_empty() => "nothing waits for you".to_owned(),
      0 => "no item fits these options, and nothing waits for you".to_owned(),
      n => {
        let waits = choose(n, "waits", "wait");
        format!("no item fits these options; without them, {} {waits} for you", count(n, "item"))
      }
    }
  } else {
    format!("memfw has not guarded anything yet: {BEGIN}")
  };
  context.out.line(&line)?;
  Ok(Status::Yes)
}

/// One row: an item, and how many others are like it.
struct Row<'i> {
  item: &'i Item,
  code: Option<Code>,
  n: usize,
}

/// What alike items have in common.
type Kind<'i> = (&'i Path, &'i Source, State, Option<Code>);

/// The rows of items, each at the place of its oldest item.
fn rows(items: &[Item], are_grouped: bool) -> Vec<Row<'_>> {
  let kinds: Vec<Kind<'_>> = items
    .iter()
    .map(|item| (item.path.as_path(), &item.source, item.status, strongest(item)))
    .collect();
  // How many items of each kind there are; none once a row stands for all of them.
  let mut left: HashMap<Kind<'_>, usize> = HashMap::new();
  for kind in &kinds {
    *left.entry(*kind).or_default() += 1;
  }
  let mut rows: Vec<Row<'_>> = Vec::new();
  for (item, kind) in items.iter().zip(&kinds) {
    let n = left.get(kind).copied().unwrap_or_default();
    if !are_grouped || (1..ALIKE).contains(&n) {
      rows.push(Row { item, code: kind.3, n: 1 });
    } else if n > 0 {
      rows.push(Row { item, code: kind.3, n });
      left.insert(*kind, 0);
    }
  }
  rows
}

/// The most severe code of an item; of several, the one that is found first.
pub(in crate::command) fn strongest(item: &Item) -> Option<Code> {
  let found = finding::counted(item);
  let severity = |code: Code| -> Option<Severity> {
    found.iter().filter(|one| one.code == code).map(|one| one.severity).max()
  };
  item.codes.iter().copied().rev().max_by_key(|code| severity(*code))
}

/// The directory that all files have in common.
fn common<'p>(files: impl Iterator<Item = &'p PathBuf>) -> PathBuf {
  let mut paths = files.filter_map(|path| path.parent());
  let first = paths.next().unwrap_or(Path::new("/")).to_owned();
  paths.fold(first, |common, path| {
    let above = common.ancestors().find(|above| path.starts_with(above));
    above.unwrap_or(Path::new("/")).to_owned()
  })
}

/// The table of rows whose files are below `directory`.
fn table(
  ledger: &Ledger,
  (rows, losses): (&[Row<'_>], &[Loss]),
  mut texts: FlaggedTexts<'_>,
  (directory, is_one_status): (&Path, bool),
) -> Table {
  let now = SystemClock.now();
  let is_mixed = !is_one_status
    && (!losses.is_empty() || rows.iter().any(|row| row.item.status != State::Quarantined));
  let mut columns = vec![Column::new("ID")];
  if is_mixed {
    columns.push(Column::new("STATUS").dispensable());
  }
  columns.extend([
    Column::new("WHY").cut_end(12),
    Column::new("FILE").cut_start(12),
    Column::new("SINCE").dispensable(),
    Column::new("TEXT").cut_end(16),
  ]);
  let mut table = Table::new(columns);
  for row in rows {
    let item = row.item;
    let mut cells = vec![Cell::styled(item.id.as_str(), Style::Cyan)];
    if is_mixed {
      cells.push(Cell::from(state_words(item)));
    }
    cells.extend([
      Cell::from(why(row)),
      Cell::from(place(row, directory)),
      Cell::from(time::short(item.quarantined_at, now)),
      Cell::from(words(ledger, item, &mut texts)),
    ]);
    table.row(cells);
  }
  for loss in losses {
    table.row([
      Cell::styled(loss.id.as_str(), Style::Cyan),
      Cell::from(loss.found.state.shown()),
      Cell::from("loss"),
      Cell::from(shown(loss.path.strip_prefix(directory).unwrap_or(&loss.path))),
      Cell::from(time::short(loss.found_at, now)),
      Cell::from(loss::extent(loss)),
    ]);
  }
  table
}

fn why(row: &Row<'_>) -> String {
  match row.n {
    1 => code_words(row.item, row.code),
    n => format!("{n} × {}", row.code.map(Code::as_str).unwrap_or_default()),
  }
}

/// A code of an item, and how many more there are.
pub(in crate::command) fn code_words(item: &Item, code: Option<Code>) -> String {
  let code = code.map(Code::as_str).unwrap_or_default();
  match item.codes.len() {
    0 | 1 => code.to_owned(),
    n => format!("{code} +{}", n - 1),
  }
}

/// The state of an item; of an approved one also that its text is not in its file yet.
pub(in crate::command) fn state_words(item: &Item) -> &'static str {
  if item.awaited { "approved, not back" } else { item.status.as_str() }
}

fn place(row: &Row<'_>, directory: &Path) -> String {
  let path = shown(row.item.path.strip_prefix(directory).unwrap_or(&row.item.path));
  if row.n == 1 { format!("{path}:{}", row.item.line) } else { path }
}

/// The beginning of a text, harmless for a terminal.
pub(in crate::command) fn words(
  ledger: &Ledger,
  item: &Item,
  texts: &mut FlaggedTexts<'_>,
) -> String {
  let beginning = |text: &[u8]| {
    let text = text.trim_ascii();
    one_line(text.get(..SNIPPET).unwrap_or(text))
  };
  match ledger.unseal(&item.id) {
    Ok(text) => beginning(&text),
    // The text of a flagged block is in its file.
    Err(StoreError::UnknownId { .. }) => match texts.of(item) {
      Ok(Some(text)) => beginning(&text),
      _ => "in its file".to_owned(),
    },
    Err(StoreError::Deleted { .. }) => "deleted".to_owned(),
    Err(_) => "cannot be unsealed".to_owned(),
  }
}

/// How many there are, and what to do next.
fn footer(
  ledger: &Ledger,
  (items, n_losses): (&[Item], usize),
  (directory, args, unless): (&Path, &QuarantineListArgs, Unless),
) -> Result<Vec<String>, Failure> {
  let directory = terminal(shown(directory));
  let is_open = |item: &&Item| item.status.is_waiting() || item.status == State::Flagged;
  let n_waiting = items.iter().filter(is_open).count();
  let mut lines = Vec::new();
  if n_waiting == items.len() {
    let n = n_waiting + n_losses;
    let waits = if n == 1 { "waits" } else { "wait" };
    lines.push(format!("{} {waits} for you in {directory}", count(n as u64, "item")));
    lines.push(next(items, n_losses).to_owned());
  } else {
    lines.push(format!("{} in {directory}", count((items.len() + n_losses) as u64, "item")));
  }
  if args.filter.is_empty() && unless == Unless::Out {
    let flagged = ItemFilter { statuses: vec![State::Flagged], path: None };
    let n_flagged = ledger.items(&flagged)?.len();
    if n_flagged > 0 {
      let blocks = count(n_flagged as u64, "flagged block");
      lines.push(format!("{blocks} in files: `memfw list`"));
    }
  }
  Ok(lines)
}

/// What to do about items that wait.
fn next(items: &[Item], n_losses: usize) -> &'static str {
  if n_losses > 0 {
    "next: `memfw show ID`, then `memfw approve ID`, or `memfw reject ID`, which restores what was lost"
  } else if items.iter().all(|item| item.in_file) {
    "next: `memfw review`, or `memfw approve ID`, `memfw quarantine add ID`"
  } else {
    "next: `memfw review`, or `memfw approve ID`, `memfw reject ID`"
  }
}
