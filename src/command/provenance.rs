//! `memfw provenance`: who wrote each line of memory.
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
};
use crate::{
  app::{context::Context, exit::Status},
  engine::{event::shown, stamp_row},
  files::{Fs as _, RealFs, Workspace},
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::State,
  store::{BlockRow, FileRow, Ledger, Revision, StoreError},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::Style,
    table::{Cell, Column, Table},
    time,
  },
};

/// `memfw provenance`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw provenance ~/notes/MEMORY.md:12")]
pub struct ProvenanceArgs {
  /// A memory file, one line of it, or the id in a marker
  #[arg(value_name = "FILE[:LINE]|ID")]
  pub place: String,

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
  let (path, line) = lookup::place(&args.place);
  let ledger = context.ledger()?;
  let (known, marked) = match ledger.file(&path)? {
    None => of_marker(&ledger, &args.place)?,
    file => (file, None),
  };
  let Some(file) = known else {
    let near = lookup::meant(&ledger, &path);
    return Err(
      Failure::unavailable(format!("`{}` is not a guarded memory file", shown(&path))).hint(
        near.map_or("`memfw status` lists what is guarded".to_owned(), |near| {
          format!("did you mean `{}`?", shown(&near))
        }),
      ),
    );
  };
  let mut rows = ledger.blocks(file.id)?;
  rows.retain(|row| marked.as_ref().is_none_or(|marked| marked.contains(&row.id)));
  let is_narrow = line.is_some() || marked.is_some();
  let current = is_current(&file);
  let stretches: Vec<Stretch<'_>> = rows
    .iter()
    .flat_map(stretches)
    .filter(|stretch| {
      line.is_none_or(|line| {
        (stretch.start_line as usize..=stretch.end_line as usize).contains(&line)
      })
    })
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
    let what = if marked.is_some() {
      format!("no block with that id is in `{}` any more", shown(&file.path))
    } else {
      "there is no block at that line".to_owned()
    };
    context.out.line(&what)?;
    return Ok(if is_narrow { Status::No } else { Status::Yes });
  }
  let now = SystemClock.now();
  let mut table = Table::new([
    Column::new("LINES").right(),
    Column::new("ID"),
    Column::new("SOURCE").cut_end(12),
    Column::new("TRUST"),
    Column::new("KNOWN").cut_end(8),
    Column::new("STATE"),
    Column::new("WHEN"),
  ]);
  for Stretch { start_line, end_line, block, revision } in &stretches {
    let lines = if start_line == end_line {
      start_line.to_string()
    } else {
      format!("{start_line}-{end_line}")
    };
    table.row([
      Cell::from(lines),
      Cell::styled(block.id.as_str(), Style::Cyan),
      Cell::from(revision.source.as_str()),
      Cell::from(revision.trust.as_str()),
      Cell::from(revision.attestation.as_str()),
      Cell::from(state(block, revision).as_str()),
      Cell::from(time::short(revision.at, now)),
    ]);
  }
  table.write(&context.out)?;
  // The evidence does not fit into the table.
  for Stretch { start_line, block, revision, .. } in &stretches {
    if let Some(line) = evidence::line(&revision.trail.evidence_json) {
      context.out.line(&format!("{}:{start_line}  {}", block.id, terminal(line)))?;
    }
  }
  Ok(Status::Yes)
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
