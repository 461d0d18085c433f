//! `memfw openclaw retrust`: makes OpenClaw load a memory file again that it has dropped.
//!
//! The command first shows what OpenClaw will trust. It copies the row before it changes the row, and
//! changes only the row that it has shown. It works without the daemon.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use serde_json::json;

use super::RetrustArgs;
use crate::{
  app::{agent::installations, context::Context, exit::Status, paths::resolved},
  command::shared::ask,
  engine::{Event, EventKind, event::shown},
  memory::{ContentHash, Document, Known},
  openclaw::{
    LedgerRow, OpenClawRecords,
    ledger_row::{DROPPED, TRUSTED},
  },
  os::{Clock as _, SystemClock, WriteLock, paths},
  plural,
  provenance::State,
  store::{BlockRow, FileRow, Ledger},
  terminal::{
    escape::{Escape, terminal},
    failure::Failure,
    output::{Style, count},
    time,
  },
};

/// The most columns that are shown of a line of an entry.
const PREVIEW_COLUMNS: usize = 100;
/// The most lines that are shown of an entry.
const PREVIEW_LINES: usize = 40;
/// How long to wait for another memfw that is writing.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The file that OpenClaw is about to trust.
struct Case {
  path: PathBuf,
  workspace: PathBuf,
  file: PathBuf,
  row: LedgerRow,
  bytes: Vec<u8>,
  hash: ContentHash,
  blocks: Vec<BlockRow>,
  /// Reasons against trusting the file, as far as memfw knows.
  doubts: Vec<String>,
}

/// Carries the command out.
pub(super) fn run(context: &Context, args: &RetrustArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  let found = installations(&context.surroundings.env, &config);
  let path = resolved(&args.file);
  let workspace = found
    .iter()
    .flat_map(|one| &one.agents)
    .filter_map(|agent| agent.workspace.canonicalize().ok())
    .filter(|root| path.starts_with(root))
    .max_by_key(|root| root.as_os_str().len());
  let (Some(workspace), Some(records)) = (workspace, OpenClawRecords::of(found)) else {
    return Err(
      Failure::unavailable(format!("`{}` is in no workspace of OpenClaw", shown(&path)))
        .hint("`memfw openclaw status` names them"),
    );
  };
  let file = path.strip_prefix(&workspace).unwrap_or(&path).to_owned();
  let row = records.row(&workspace, &file).map_err(|why| {
    Failure::unavailable(why).hint("nothing was changed: this memfw does not know that form")
  })?;
  let ledger = context.ledger_to_read()?;
  let max = config.max_file_bytes;
  let Some(row) = row else {
    context.out.line(&format!(
      "{}: OpenClaw has no record of it, so it loads normally",
      terminal(shown(&path))
    ))?;
    return Ok(Status::Yes);
  };
  let case = Case::of(path, workspace, file, row, max, ledger.as_ref())?;
  if case.row.class.as_deref() == Some(TRUSTED) && case.row.hash == case.hash {
    context.out.line(&format!("{}: OpenClaw trusts it already", terminal(shown(&case.path))))?;
    return Ok(Status::Yes);
  }
  case.show(context)?;
  if !args.yes {
    case.refuse_in_doubt()?;
    if !case.agreed(context)? {
      context.out.line("nothing was changed")?;
      return Ok(Status::No);
    }
  }
  case.carry_out(context, &records, max)
}

impl Case {
  fn of(
    path: PathBuf,
    workspace: PathBuf,
    file: PathBuf,
    row: LedgerRow,
    max: u64,
    ledger: Option<&Ledger>,
  ) -> Result<Self, Failure> {
    let bytes = read(&path, max)?;
    let hash = ContentHash::of(&bytes);
    let (mut blocks, mut known) = (vec![], None);
    if let Some(ledger) = ledger
      && let Some(file) = ledger.file(&path)?
    {
      blocks = ledger.blocks(file.id)?;
      known = Some(file);
    }
    let doubts = doubts(known.as_ref(), hash, &blocks);
    Ok(Self { path, workspace, file, row, bytes, hash, blocks, doubts })
  }

  /// Shows exactly what OpenClaw will trust.
  fn show(&self, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let now = SystemClock.now();
    out.line(&out.paint(Style::Bold, &terminal(shown(&self.path))))?;
    out.line(&format!("  sha256    {}", self.hash.to_hex()))?;
    out.line(&format!("  bytes     {}", self.bytes.len()))?;
    let class = self.row.class.as_deref().unwrap_or("none");
    let since =
      self.row.observed_at.map(|at| format!(" since {}", time::rfc3339(at))).unwrap_or_default();
    let by = self.row.session_id.as_deref().map(|id| format!(", by session {id}"));
    out.line(&format!(
      "  class     {}",
      terminal(format!("{class}{since}{}", by.unwrap_or_default()))
    ))?;
    if self.row.hash != self.hash {
      out.line("            of another version: it was edited since OpenClaw wrote it")?;
    }
    for block in &self.blocks {
      let (source, trust, at) = block.live().min_by_key(|one| one.trust).map_or_else(
        || ("unknown".to_owned(), "untrusted".to_owned(), 0),
        |one| (one.source.as_str().to_owned(), one.trust.to_string(), one.at),
      );
      let lines = match (block.start_line, block.end_line) {
        (start, end) if start == end => format!("line {start}"),
        (start, end) => format!("lines {start}-{end}"),
      };
      let style = if is_doubtful(block) { Style::Red } else { Style::Plain };
      let codes: Vec<&str> = block.codes.iter().map(|code| code.as_str()).collect();
      let codes = if codes.is_empty() { String::new() } else { format!(" {}", codes.join(" ")) };
      out.line(&format!(
        "  {lines}: {}, {trust}, {}, {}{codes}",
        terminal(source),
        out.paint(style, block.state.as_str()),
        time::short(at, now),
      ))?;
      self.preview(context, block.start_line as usize, block.end_line as usize)?;
    }
    // Text that the ledger does not know is shown as it is in the file.
    if self.blocks.is_empty() {
      for (start, end) in self.entries() {
        out.line(&format!("  line {start}"))?;
        self.preview(context, start, end)?;
      }
    }
    for doubt in &self.doubts {
      out.line(&format!("  {}     {}", out.paint(Style::Red, "doubt"), terminal(doubt)))?;
    }
    out.line("  OpenClaw does not support this: memfw changes its row about the file")
  }

  /// The first and last lines of all entries, from 1.
  fn entries(&self) -> Vec<(usize, usize)> {
    let document = Document::parse(&self.bytes, &Known::default());
    document.blocks().iter().map(|block| (block.start_line, block.end_line)).collect()
  }

  /// Prints lines of the file, escaped.
  fn preview(&self, context: &Context, start: usize, end: usize) -> Result<(), Failure> {
    let out = &context.out;
    let safe = Escape::default().max_width(PREVIEW_COLUMNS);
    let lines = self.bytes.split(|&byte| byte == b'\n').skip(start.saturating_sub(1));
    let lines: Vec<&[u8]> = lines
      .take((end + 1).saturating_sub(start))
      .map(<[u8]>::trim_ascii_end)
      .filter(|line| !line.is_empty())
      .collect();
    for line in lines.iter().take(PREVIEW_LINES) {
      out.line(&format!("    {} {}", out.paint(Style::Dim, "|"), safe.apply(line)))?;
    }
    match lines.len().saturating_sub(PREVIEW_LINES) {
      0 => Ok(()),
      more => out.line(&format!("    ... and {} more", count(more as u64, "line"))),
    }
  }

  fn refuse_in_doubt(&self) -> Result<(), Failure> {
    if self.doubts.is_empty() {
      return Ok(());
    }
    Err(
      Failure::usage(format!("`{}` is in doubt; nothing was changed", shown(&self.path)))
        .hint("review it: `memfw list --status flagged`")
        .hint("pass `--yes` to trust it anyway"),
    )
  }

  /// Asks the person at the terminal; without a terminal, `--yes` is required.
  fn agreed(&self, context: &Context) -> Result<bool, Failure> {
    if !ask::is_possible(context) {
      return Err(
        Failure::usage(format!("`{}` would be trusted; nothing was changed", shown(&self.path)))
          .hint("say `--yes`"),
      );
    }
    ask::agreed(context, "Have OpenClaw trust exactly this?")
  }

  fn carry_out(
    &self,
    context: &Context,
    records: &OpenClawRecords,
    max: u64,
  ) -> Result<Status, Failure> {
    let home = context.home()?;
    let unavailable = |error: &dyn std::fmt::Display| Failure::unavailable(error.to_string());
    home.create().map_err(|error| unavailable(&error))?;
    // The lock keeps other memfw processes from editing the file, so that the hash is still the file's.
    let _writing =
      WriteLock::acquire(&home.data, LOCK_WAIT).map_err(|error| unavailable(&error))?;
    if ContentHash::of(&read(&self.path, max)?) != self.hash {
      return Err(Failure::unavailable(
        "the file has changed since it was shown; nothing was changed",
      ));
    }
    let at = SystemClock.now();
    let copy = home.data.join(format!("retrusted-{at}.json"));
    let text = json!({
      "at": time::rfc3339(at),
      "file": shown(&self.path),
      "sha256": self.hash.to_hex(),
      "row": self.row.json,
    });
    paths::write_private(&copy, format!("{text:#}\n").as_bytes())
      .map_err(|error| unavailable(&error))?;
    let changed = records
      .retrust(&self.workspace, &self.file, &self.row, self.hash)
      .map_err(|why| Failure::unavailable(why).hint("try again when OpenClaw is less busy"))?;
    if !changed {
      return Err(
        Failure::unavailable("OpenClaw's row has changed since it was shown; nothing was changed")
          .hint("check again: `memfw openclaw status`"),
      );
    }
    let class = self.row.class.as_deref().unwrap_or(DROPPED);
    let event = Event::new(EventKind::Retrusted).path(&self.path).detail(format!(
      "{} by {}, was {class}, sha256 {}",
      TRUSTED,
      context.user(),
      self.hash.to_hex()
    ));
    context.ledger_to_write()?.append_events(&[event.row()], at)?;
    let out = &context.out;
    out.line(&format!("{}: trusted from the next turn on", terminal(shown(&self.path))))?;
    out.line(&format!("  OpenClaw's row as it was: {}", terminal(shown(&copy))))?;
    if ContentHash::of(&read(&self.path, max)?) != self.hash {
      out.line("  it was edited in the meantime: OpenClaw's next write there may drop it again")?;
    }
    Ok(Status::Yes)
  }
}

/// Reads a file. OpenClaw does not load a link, so the caller resolves the path first.
fn read(path: &Path, max: u64) -> Result<Vec<u8>, Failure> {
  let bytes =
    paths::read_own(path, max).map_err(|error| Failure::unavailable(error.to_string()))?;
  bytes.ok_or_else(|| Failure::unavailable(format!("`{}` does not exist", shown(path))))
}

/// Reasons against trusting a file.
fn doubts(known: Option<&FileRow>, hash: ContentHash, blocks: &[BlockRow]) -> Vec<String> {
  let mut doubts = Vec::new();
  match known {
    None => doubts.push("memfw does not guard it and has not judged it".to_owned()),
    Some(row) if row.hash != Some(hash) => {
      doubts.push("it has changed since memfw judged it: run `memfw settle`".to_owned());
    }
    Some(row) => doubts.extend(row.note.clone()),
  }
  if let n @ 1.. = blocks.iter().filter(|block| is_doubtful(block)).count() as u64 {
    let (blocks, are) = (plural::some(n, "block"), plural::choose(n, "is", "are"));
    doubts.push(format!("{blocks} in it {are} flagged or not judged"));
  }
  doubts
}

fn is_doubtful(block: &BlockRow) -> bool {
  matches!(block.state, State::Flagged | State::Unvalidated | State::Quarantined | State::Held)
}
