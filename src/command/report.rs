//! `memfw report`: one page about what happened, for a browser or to pass on.
//!
//! The page has text of memory only on request, because every program that can read the file can read
//! the text, including an agent. It is never written into a guarded directory.
#![forbid(unsafe_code)]

mod chart;
mod html;
mod page;

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueHint};
use serde_json::json;

use super::{
  quarantine::FlaggedTexts,
  shared::{
    exposure::Reading,
    figures::{DEFAULT_DAYS, Span},
    page_failure::unwritten,
  },
  status,
};
use crate::{
  app::{context::Context, exit::Status, paths::resolved},
  engine::{EventKind, event::shown},
  os::{Clock as _, SystemClock, report_file::write_page, subprocess},
  store::{Item, ItemFilter, Ledger, StoreError},
  terminal::{escape::terminal, failure::Failure, time},
};
use page::{Facts, MARK, page};

/// The longest time of a report, in days: each column of a drawing is still visible.
const MAX_DAYS: i64 = 366;
/// The most items that are listed, the oldest ones.
const MAX_WAITING: usize = 100;
/// The most events that are listed, the newest ones.
const MAX_EVENTS: u32 = 200;
/// The most bytes of a text that are used; the page shows fewer.
const MAX_TEXT: usize = 1_000;

/// `memfw report`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw report --html report.html")]
pub struct ReportArgs {
  /// Write the page to this file; only an earlier report is overwritten
  #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required = true)]
  pub html: PathBuf,

  /// Cover the last N days, including today
  #[arg(long, value_name = "N", default_value_t = DEFAULT_DAYS,
    value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
  pub days: u32,

  /// Open the page in the browser afterwards
  #[arg(long)]
  pub open: bool,

  /// Include the beginning of each waiting text; it is hostile
  #[arg(long)]
  pub text: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: ReportArgs) -> Result<Status, Failure> {
  let ledger = if args.text { context.ledger_with_key()? } else { context.ledger()? };
  let path = place(context, &ledger, &args.html)?;
  let facts = gather(context, &ledger, args.days, args.text)?;
  write_page(&path, MARK, &page(&facts)).map_err(|error| {
    unwritten(&error, &path, "name a file that does not exist yet, or an earlier report")
  })?;
  if args.json {
    context.out.json(&json!({ "file": shown(&path), "waiting": n_waiting(&facts) }))?;
  } else {
    context.out.note(&format!("written to {}", terminal(shown(&path))))?;
  }
  if args.open {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    subprocess::leave_running(&[opener.into(), path.clone().into()]).map_err(|why| {
      Failure::unavailable(terminal(why))
        .hint(format!("open `{}` in a browser", terminal(shown(&path))))
    })?;
  }
  Ok(Status::Yes)
}

fn n_waiting(facts: &Facts) -> usize {
  facts.waiting.len() + facts.more_waiting
}

/// Where the page goes: never into a guarded directory, because agents read there.
fn place(context: &Context, ledger: &Ledger, typed: &Path) -> Result<PathBuf, Failure> {
  let Some(name) = typed.file_name() else {
    return Err(Failure::usage(format!("`{}` is not a file name", shown(typed))));
  };
  let parent = typed.parent().filter(|parent| !parent.as_os_str().is_empty());
  let directory = resolved(parent.unwrap_or(Path::new(".")));
  let config = context.config().unwrap_or_default().config;
  let mut guarded = context.workspaces(&config, &[]).unwrap_or_default();
  guarded.extend(ledger.files()?.into_iter().map(|row| row.workspace));
  match guarded.iter().find(|workspace| directory.starts_with(workspace)) {
    None => Ok(directory.join(name)),
    Some(workspace) => Err(
      Failure::usage(format!("`{}` is guarded, and an agent reads there", shown(workspace)))
        .hint("name a file elsewhere"),
    ),
  }
}

fn gather(
  context: &Context,
  ledger: &Ledger,
  days: u32,
  with_text: bool,
) -> Result<Facts, Failure> {
  let now = SystemClock.now();
  let span = Span::gather(ledger, days, now, time::local_ahead(now))?;
  let mut items = ledger.items(&ItemFilter::open())?;
  items.truncate(MAX_WAITING);
  let n_waiting = usize::try_from(ledger.counts(now)?.for_a_person()).unwrap_or(usize::MAX);
  let more_waiting = n_waiting.saturating_sub(items.len());
  // Commands that need the configuration report an invalid one.
  let max_file_bytes = context.config().unwrap_or_default().config.max_file_bytes;
  let mut texts = FlaggedTexts::new(ledger, max_file_bytes);
  let mut waiting = Vec::with_capacity(items.len());
  for item in items {
    let text = if with_text { text(ledger, &item, &mut texts)? } else { None };
    waiting.push((item, text));
  }
  let kinds: Vec<EventKind> = EventKind::ALL
    .iter()
    .copied()
    .filter(|kind| kind.level() <= tracing::Level::INFO || *kind == EventKind::Vanished)
    // One for each file of the first scan.
    .filter(|kind| *kind != EventKind::Adopted)
    .collect();
  let mut events = Vec::new();
  let more_events = ledger.each_event(&kinds, span.since, MAX_EVENTS, |row| events.push(row))?;
  events.reverse();
  Ok(Facts {
    exposure: Reading::find(ledger)?.line(now),
    degradations: status::degradations(context, Some(ledger))?,
    span,
    waiting,
    more_waiting,
    events,
    more_events,
  })
}

/// The beginning of a text; `None` if its bytes were deleted, or its file has changed.
fn text(
  ledger: &Ledger,
  item: &Item,
  texts: &mut FlaggedTexts<'_>,
) -> Result<Option<Vec<u8>>, Failure> {
  let text = if item.in_file {
    texts.of(item)?
  } else {
    match ledger.unseal(&item.id) {
      Ok(bytes) => Some(bytes.to_vec()),
      Err(StoreError::Deleted { .. }) => None,
      Err(error) => return Err(error.into()),
    }
  };
  Ok(text.map(|mut bytes| {
    bytes.truncate(MAX_TEXT);
    bytes
  }))
}
