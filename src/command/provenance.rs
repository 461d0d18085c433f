//! `memfw provenance`: who wrote each line of memory, as `git blame` shows it: the line beside its source and
//! time.
//!
//! The argument may be an id that a marker in a file has; then only the blocks of that marker are shown.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use clap::Args as ClapArgs;
use serde_json::json;

use super::shared::{
  evidence,
  json::{object, of_revision},
  lookup,
  since::time_of,
};
use crate::{
  app::{context::Context, engine::read_file, exit::Status},
  engine::{event::shown, stamp_row},
  files::{Fs as _, RealFs, Workspace},
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::{State, Trust},
  store::{BlockRow, FileRow, Ledger, Revision, StoreError},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    preview::one_line,
    table::{Cell, Column, Table},
    time,
  },
};

/// The bytes of a line that are shown, where the terminal is wide enough (a choice).
const MAX_LINE: usize = 200;

/// `memfw provenance`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw provenance ~/notes/MEMORY.md:12")]
pub struct ProvenanceArgs {
  /// A memory file, one line of it, or the id in a marker
  #[arg(value_name = "FILE[:LINE]|ID")]
  pub place: String,

  /// Only lines that are flagged
  #[arg(long)]
  pub flagged: bool,

  /// Only lines that memfw saw after this time, such as `2d`
  #[arg(long, value_name = "TIME")]
  pub since: Option<String>,

  /// Show the baseline line by line, too
  #[arg(long)]
  pub all: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// The file with the blocks of a marker, and their ids, by the id of the marker.
fn of_marker(
  ledger: &Ledger,
  typed: &str,
) -> Result<(Option<FileRow>, Option<HashSet<BlockId>>), Failure> {
  let places = match ledger.marked(lookup::bare_id(typed)) {
    Ok((_, places)) => places,
    Err(StoreError::UnknownId { .. }) => return Ok((None, None)),
    Err(error) => return Err(error.into()),
  };
  let Some(first) = places.first() else { return Ok((None, None)) };
  let file = ledger.file(&first.path)?;
  Ok((file, Some(places.into_iter().map(|place| place.block.id).collect())))
}

/// Neighbouring lines of one revision.
struct Stretch<'a> {
  start_line: u32,
  end_line: u32,
  block: &'a BlockRow,
  revision: &'a Revision,
}

/// Carries the command out.
pub fn run(context: &Context, args: ProvenanceArgs) -> Result<Status, Failure> {
  let since = args.since.as_deref().map(time_of).transpose()?;
  let ledger = context.ledger()?;
  let (known, line, marked) = match lookup::find_anywhere(&ledger, &args.place)? {
    None => {
      let (file, marked) = of_marker(&ledger, &args.place)?;
      (file, None, marked)
    }
    Some((file, line)) => (Some(file), line, None),
  };
  let Some(file) = known else {
    let (path, _) = lookup::place(&args.place);
    let near = lookup::meant(&ledger, &path);
    return Err(
      Failure::unavailable(format!("`{}` is not a guarded memory file", shown(&path))).hint(
        near.map_or(lookup::GUARDED.to_owned(), |near| format!("did you mean `{}`?", shown(&near))),
      ),
    );
  };
  let mut rows = ledger.blocks(file.id)?;
  rows.retain(|row| marked.as_ref().is_none_or(|marked| marked.contains(&row.id)));
  let is_narrow = line.is_some() || marked.is_some();
  let is_chosen = |stretch: &Stretch<'_>| {
    let Stretch { block, revision, .. } = stretch;
    (!args.flagged || state(block, revision) == State::Flagged)
      && since.is_none_or(|since| revision.at >= since)
  };
  let current = is_current(&file);
  let stretches: Vec<Stretch<'_>> = rows
    .iter()
    .flat_map(stretches)
    .filter(|stretch| {
      line.is_none_or(|line| {
        (stretch.start_line as usize..=stretch.end_line as usize).contains(&line)
      })
    })
    .filter(is_chosen)
    .collect();
  if args.json {
    let list: Vec<_> = stretches
      .iter()
      .map(|Stretch { start_line, end_line, block, revision }| {
        let mut value = object(json!({
          "id": block.id.as_str(),
          "marker_id": block.marker.as_ref().map(BlockId::as_str),
          "start_line": start_line,
          "end_line": end_line,
          "state": state(block, revision).as_str(),
        }));
        value.extend(of_revision(revision));
        value.extend(object(json!({
          "ts": time::rfc3339(revision.at),
          "content_hash": block.hash.to_hex(),
          "current": current,
        })));
        value
      })
      .collect();
    context.out.json(&list)?;
    return Ok(if list.is_empty() && is_narrow { Status::No } else { Status::Yes });
  }
  context.out.page();
  if !current {
    context.out.line("the file has changed since: these are its lines at the last scan")?;
  }
  if stretches.is_empty() {
    let what = if args.flagged || since.is_some() {
      format!("no line of `{}` is like that", shown(&file.path))
    } else if marked.is_some() {
      format!("no block with that id is in `{}` any more", shown(&file.path))
    } else if line.is_some() {
      "there is no block at that line".to_owned()
    } else {
      format!("there is no block in `{}`", shown(&file.path))
    };
    context.out.line(&what)?;
    return Ok(if is_narrow { Status::No } else { Status::Yes });
  }
  // The text of lines is known only as long as their numbers are right.
  let lines = if current { lines_of(context, &file) } else { vec![] };
  let are_folded = !is_narrow && !args.all;
  table(&rows_of(&stretches, are_folded), &lines).write(&context.out)?;
  // The evidence does not fit into the table.
  for Stretch { start_line, block, revision, .. } in &stretches {
    if let Some(line) = evidence::line(&revision.trail.evidence_json) {
      context.out.line(&format!("{}:{start_line}  {}", block.id, terminal(line)))?;
    }
  }
  Ok(Status::Yes)
}

/// One row: a stretch, or several neighbouring ones of the baseline.
struct Row<'s, 'a> {
  first: &'s Stretch<'a>,
  end_line: u32,
  /// How many blocks are folded into the row; none where it is a stretch.
  n_folded: usize,
}

/// The rows of stretches; the baseline is folded where nothing was found in it.
fn rows_of<'s, 'a>(stretches: &'s [Stretch<'a>], are_folded: bool) -> Vec<Row<'s, 'a>> {
  let mut rows: Vec<Row<'s, 'a>> = Vec::new();
  for stretch in stretches {
    let is_plain = are_folded
      && stretch.revision.source.is_baseline()
      && state(stretch.block, stretch.revision) == State::Validated;
    match rows.last_mut() {
      Some(last) if is_plain && last.n_folded > 0 => {
        last.end_line = stretch.end_line;
        last.n_folded += 1;
      }
      _ => rows.push(Row {
        first: stretch,
        end_line: stretch.end_line,
        n_folded: usize::from(is_plain),
      }),
    }
  }
  rows
}

/// The rows with the text of their lines; a row of several lines has one table row for each line that
/// says something.
fn table(rows: &[Row<'_, '_>], lines: &[String]) -> Table {
  let now = SystemClock.now();
  let mut columns = vec![
    Column::new("LINE").right(),
    Column::new("ID"),
    Column::new("SOURCE").cut_end(12),
    Column::new("TRUST"),
    Column::new("STATE"),
    Column::new("WHEN"),
  ];
  if !lines.is_empty() {
    columns.push(Column::new("TEXT").cut_end(12));
  }
  let mut table = Table::new(columns);
  for Row { first, end_line, n_folded } in rows {
    let Stretch { start_line, block, revision, .. } = first;
    let style = style_of(revision.trust);
    let number = |line: u32, end: u32| {
      if line == end { line.to_string() } else { format!("{line}-{end}") }
    };
    let says = |line: u32| {
      lines.get((line as usize).saturating_sub(1)).map(String::as_str).unwrap_or_default()
    };
    let mut shown: Vec<(String, String)> = if *n_folded > 0 {
      let blocks = count(*n_folded as u64, "block");
      vec![(number(*start_line, *end_line), format!("({blocks} from before memfw)"))]
    } else if lines.is_empty() {
      vec![(number(*start_line, *end_line), String::new())]
    } else {
      let with_text = (*start_line..=*end_line).filter(|line| !says(*line).is_empty());
      with_text.map(|line| (line.to_string(), says(line).to_owned())).collect()
    };
    if shown.is_empty() {
      shown.push((number(*start_line, *end_line), String::new()));
    }
    for (index, (line, text)) in shown.into_iter().enumerate() {
      // As in `git blame`, each line has its origin; its block is named once.
      let id = if index > 0 || *n_folded > 1 { "" } else { block.id.as_str() };
      let mut cells = vec![
        Cell::from(line),
        Cell::styled(id, Style::Cyan),
        Cell::styled(revision.source.as_str(), style),
        Cell::styled(evidence::trust_words(revision.source.as_str(), revision.trust), style),
        Cell::from(evidence::state_words(&revision.source, state(block, revision))),
        Cell::from(time::short(revision.at, now)),
      ];
      if !lines.is_empty() {
        cells.push(Cell::from(text));
      }
      table.row(cells);
    }
  }
  table
}

/// The colour of a source by its trust.
const fn style_of(trust: Trust) -> Style {
  match trust {
    Trust::Trusted => Style::Green,
    Trust::Verified => Style::Plain,
    Trust::Untrusted => Style::Yellow,
    Trust::Hostile => Style::Red,
  }
}

/// The lines of a file as they are shown: harmless, and memfw's own comments as empty lines.
fn lines_of(context: &Context, file: &FileRow) -> Vec<String> {
  // Commands that need the configuration report an invalid one.
  let max_bytes = context.config().unwrap_or_default().config.max_file_bytes;
  let Ok(workspace) = Workspace::open(&RealFs::default(), &file.workspace) else { return vec![] };
  let Ok(rel) = file.path.strip_prefix(&file.workspace) else { return vec![] };
  let Some(bytes) = read_file(&workspace, rel, max_bytes) else { return vec![] };
  let shown = |line: &[u8]| {
    let line = line.trim_ascii();
    let is_ours = line.starts_with(b"<!-- memfw:") || line == b"<!-- /memfw -->";
    if is_ours { String::new() } else { one_line(line.get(..MAX_LINE).unwrap_or(line)) }
  };
  bytes.split(|&byte| byte == b'\n').map(shown).collect()
}

/// The state of lines: a person's decision about some lines of a block is not about its other lines.
const fn state(block: &BlockRow, revision: &Revision) -> State {
  match block.state {
    _ if revision.approved => State::Approved,
    State::Approved => State::Validated,
    state => state,
  }
}

/// Whether the file is still the version that the ledger knows, by its stamp.
fn is_current(file: &FileRow) -> bool {
  let fs = RealFs::default();
  let Ok(workspace) = Workspace::open(&fs, &file.workspace) else { return false };
  let Ok(rel) = file.path.strip_prefix(&file.workspace) else { return false };
  let stamp = fs.stamp(workspace.root(), rel).ok().flatten();
  file.stamp.is_some() && stamp.map(|stamp| stamp_row(&stamp)) == file.stamp
}

/// The stretches of a block: neighbouring lines of one revision. A placeholder between two lines is in
/// no stretch.
fn stretches(block: &BlockRow) -> Vec<Stretch<'_>> {
  let mut found: Vec<Stretch<'_>> = Vec::new();
  for line in &block.lines {
    let number = block.start_line.saturating_add(line.offset);
    let Some(revision) = block.revision(line.revision) else { continue };
    match found.last_mut() {
      Some(last)
        if last.revision.number == revision.number && number.saturating_sub(last.end_line) < 2 =>
      {
        last.end_line = number;
      }
      _ => found.push(Stretch { start_line: number, end_line: number, block, revision }),
    }
  }
  found
}
