//! `memfw restore`: lists, compares and restores earlier versions of a memory file.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use clap::{Args as ClapArgs, ValueHint};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::shared::{ask, lookup::find_file};
use crate::{
  app::{context::Context, exit::Status},
  engine::{Engine, Target, event::shown, pending, restore::Restored},
  files::RealFs,
  memory::{BlockId, ContentHash},
  os::{Clock as _, SystemClock, clock::deadline},
  plural::choose,
  store::{Ledger, Version},
  terminal::{
    diff::{Change, DiffLine, counts, unified},
    escape::{Escape, lossy, terminal},
    failure::Failure,
    moment::moment,
    output::{Style, count},
    table::{Cell, Column, Table},
    time,
  },
};

/// `memfw restore`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw restore ~/notes/MEMORY.md --diff --at \"2h ago\"")]
pub struct RestoreArgs {
  /// A memory file; it may have been deleted
  #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub file: PathBuf,

  /// The version of that time (`2026-11-20 14:00`, `2h ago`), or the beginning of its hash;
  /// without it, the newest version that differs from the file
  #[arg(long, value_name = "TIME|VERSION")]
  pub at: Option<String>,

  /// List the versions, newest first, and change nothing
  #[arg(long, conflicts_with_all = ["at", "diff", "print", "yes"])]
  pub list: bool,

  /// Show what would change, and change nothing
  #[arg(long, conflicts_with_all = ["print", "yes"])]
  pub diff: bool,

  /// Print the version instead of restoring it
  #[arg(long, conflicts_with_all = ["yes", "json"])]
  pub print: bool,

  /// Restore without asking
  #[arg(long)]
  pub yes: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Digits of the hash by which a version is shown; they distinguish four billion versions of a
/// file.
const SHOWN_DIGITS: usize = 8;
/// The fewest digits that select a version: `3d` is three days.
const LEAST_DIGITS: usize = 6;
/// How long to look for a shorter difference; for memory files, milliseconds are enough.
const DIFF_PATIENCE: Duration = Duration::from_secs(2);

/// Carries the command out.
pub fn run(context: &Context, args: RestoreArgs) -> Result<Status, Failure> {
  let ledger = context.ledger_with_key()?;
  let path = find_file(&ledger, &args.file)?;
  let versions = ledger.versions(&path)?;
  if args.list {
    return list(context, &ledger, &versions, args.json);
  }
  if versions.is_empty() {
    return Err(
      Failure::unavailable(format!("no version of `{}` is kept", shown(&path)))
        .hint("`memfw status` says how many files are not kept yet"),
    );
  }
  if args.print {
    let version = match &args.at {
      Some(at) => at_time(&versions, at, &path)?,
      None => versions.first().ok_or_else(|| Failure::internal("no version"))?,
    };
    return print(context, &ledger.version_bytes(version.hash)?);
  }
  drop(ledger);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let target = pending::target_of(engine.ledger(), &path)?.ok_or_else(|| {
    Failure::unavailable(format!("`{}` is in no guarded workspace", shown(&path)))
  })?;
  let present = engine.present(&target)?;
  // `present` judges changes of the file first, and may thus store another version.
  let versions = engine.ledger().versions(&path)?;
  let standing = present.as_deref().map(ContentHash::of);
  let version = match &args.at {
    Some(at) => Some(at_time(&versions, at, &path)?),
    None => versions.iter().find(|version| Some(version.hash) != standing),
  };
  let Some(version) = version else { return nothing(context, &path, args.json) };
  let text = engine.ledger().version_bytes(version.hash)?;
  let ask = Ask { path: &path, version, present: present.as_deref(), text: &text };
  if args.diff {
    return ask.diff(context, args.json);
  }
  if args.at.is_none() && !args.yes && !ask.agreed(context)? {
    context.out.line("nothing was changed")?;
    return Ok(Status::No);
  }
  bring_back(context, &mut engine, &target, version, args.json)
}

/// The version that the file had at a time, or the one whose hash begins with `at`.
fn at_time<'v>(versions: &'v [Version], at: &str, path: &Path) -> Result<&'v Version, Failure> {
  let typed = at.trim().to_ascii_lowercase();
  if typed.len() >= LEAST_DIGITS && typed.bytes().all(|byte| byte.is_ascii_hexdigit()) {
    let mut named = versions.iter().filter(|one| one.hash.to_hex().starts_with(&typed));
    if let Some(first) = named.next() {
      if named.any(|other| other.hash != first.hash) {
        return Err(Failure::usage(format!("`{at}` is ambiguous")).hint("give more digits"));
      }
      return Ok(first);
    }
  }
  let hint = format!("`memfw restore {} --list` shows the versions", shown(path));
  let Some(moment) = moment(at, SystemClock.now(), &TimeZone::system()) else {
    let error = format!("`{at}` is neither a version of this file nor a time");
    let example = "write a time as `2026-11-20 14:00`, `2026-11-20T14:00:00Z` or `2h ago`";
    return Err(Failure::usage(error).hint(hint).hint(example));
  };
  versions.iter().find(|version| version.seen_at <= moment).ok_or_else(|| {
    let oldest = versions.last().map(|version| time::rfc3339(version.seen_at)).unwrap_or_default();
    Failure::unavailable(format!(
      "`{}` has no version from before {}; the oldest one is from {oldest}",
      shown(path),
      time::rfc3339(moment)
    ))
    .hint(hint)
  })
}

fn nothing(context: &Context, path: &Path, as_json: bool) -> Result<Status, Failure> {
  if as_json {
    context.out.json(&Value::Null)?;
  } else {
    let path = terminal(shown(path));
    context.out.line(&format!("{path}: no version differs from the current content"))?;
  }
  Ok(Status::No)
}

/// The hash of a version, as it is shown to people.
fn short(hash: ContentHash) -> String {
  hash.to_hex().chars().take(SHOWN_DIGITS).collect()
}

fn list(
  context: &Context,
  ledger: &Ledger,
  versions: &[Version],
  as_json: bool,
) -> Result<Status, Failure> {
  let mut changes = Vec::with_capacity(versions.len());
  for (index, version) in versions.iter().enumerate() {
    let before = match versions.get(index + 1) {
      Some(before) => ledger.version_bytes(before.hash)?.to_vec(),
      None => Vec::new(),
    };
    changes.push(counts(&before, &ledger.version_bytes(version.hash)?));
  }
  if as_json {
    let values: Vec<Value> =
      versions.iter().zip(&changes).map(|(version, changes)| to_json(version, *changes)).collect();
    context.out.json(&values)?;
    return Ok(Status::Yes);
  }
  if versions.is_empty() {
    context.out.line("no version is kept")?;
    return Ok(Status::Yes);
  }
  context.out.page();
  let now = SystemClock.now();
  let mut table = Table::new([
    Column::new("VERSION"),
    Column::new("SEEN"),
    Column::new("AGE").dispensable(),
    Column::new("BYTES").right(),
    Column::new("LINES"),
    Column::new("BY"),
    Column::new("REPLACED"),
  ]);
  for (version, (come, gone)) in versions.iter().zip(&changes) {
    table.row([
      Cell::styled(short(version.hash), Style::Cyan),
      Cell::from(time::rfc3339(version.seen_at)),
      Cell::from(time::short(version.seen_at, now)),
      Cell::from(version.len.to_string()),
      Cell::from(format!("+{come} -{gone}")),
      Cell::from(version.writer.as_str()),
      Cell::from(version.replaced_at.map_or("-".to_owned(), |at| time::short(at, now))),
    ]);
  }
  table.write(&context.out)?;
  Ok(Status::Yes)
}

fn to_json(version: &Version, (come, gone): (u64, u64)) -> Value {
  json!({
    "version": version.hash.to_hex(),
    "seen_at": time::rfc3339(version.seen_at),
    "replaced_at": version.replaced_at.map(time::rfc3339),
    "bytes": version.len,
    "lines_added": come,
    "lines_removed": gone,
    "by": version.writer.as_str(),
  })
}

/// Prints the exact bytes into a pipe or a file; on a terminal, the text is escaped.
fn print(context: &Context, text: &[u8]) -> Result<Status, Failure> {
  if context.out.is_terminal() {
    context.out.text(&Escape::default().keep_lines().apply(text))?;
  } else {
    context.out.bytes(text)?;
  }
  Ok(Status::Yes)
}

/// A version, and the file that it would replace.
struct Ask<'a> {
  path: &'a Path,
  version: &'a Version,
  /// The content of the file; `None` if there is no file.
  present: Option<&'a [u8]>,
  text: &'a [u8],
}

impl Ask<'_> {
  fn diff(&self, context: &Context, as_json: bool) -> Result<Status, Failure> {
    let present = self.present.unwrap_or_default();
    let lines = unified(present, self.text, deadline(DIFF_PATIENCE));
    let seen = time::rfc3339(self.version.seen_at);
    if as_json {
      let (come, gone) = counts(present, self.text);
      let texts: Vec<String> = lines.iter().map(|line| lossy(&line.text)).collect();
      context.out.json(&json!({
        "file": shown(self.path),
        "exists": self.present.is_some(),
        "version": self.version.hash.to_hex(),
        "seen_at": seen,
        "lines_added": come,
        "lines_removed": gone,
        "diff": texts,
      }))?;
      return Ok(Status::Yes);
    }
    let out = &context.out;
    let path = terminal(shown(self.path));
    if lines.is_empty() && self.present.is_some() {
      out.line(&format!("{path}: version {} is the current content", short(self.version.hash)))?;
      return Ok(Status::Yes);
    }
    let now = if self.present.is_some() { "now" } else { "gone" };
    let heads =
      [format!("--- {path} {now}"), format!("+++ {path} {} {seen}", short(self.version.hash))];
    for head in heads {
      out.line(&out.paint(Style::Bold, &head))?;
    }
    for DiffLine { change, text } in &lines {
      let style = match change {
        Change::Head => Style::Cyan,
        Change::Same => Style::Plain,
        Change::Gone => Style::Red,
        Change::Come => Style::Green,
      };
      out.line(&out.paint(style, &terminal(text)))?;
    }
    Ok(Status::Yes)
  }

  /// Asks the person at the terminal; without a terminal, `--yes` is required.
  fn agreed(&self, context: &Context) -> Result<bool, Failure> {
    let path = shown(self.path);
    let name = short(self.version.hash);
    if !ask::is_possible(context) {
      return Err(
        Failure::usage(format!(
          "version {name} of `{path}` would be restored; nothing was changed"
        ))
        .hint(format!("see what would change: `memfw restore {path} --diff`"))
        .hint("pass `--yes`, or name the version with `--at`"),
      );
    }
    let (come, gone) = counts(self.present.unwrap_or_default(), self.text);
    let seen = time::short(self.version.seen_at, SystemClock.now());
    let now = if self.present.is_some() { "" } else { ", which is gone," };
    let question = format!(
      "Restore version {name} of {}{now}, seen {seen} (lines: +{come} -{gone})?",
      terminal(path)
    );
    ask::agreed(context, &question)
  }
}

fn bring_back(
  context: &Context,
  engine: &mut Engine<RealFs>,
  target: &Target,
  version: &Version,
  as_json: bool,
) -> Result<Status, Failure> {
  let Restored { unchanged, created, before, quarantined, left: _ } =
    engine.restore(target, version.hash, &context.user())?;
  if as_json {
    context.out.json(&json!({
      "file": shown(&target.path()),
      "version": version.hash.to_hex(),
      "seen_at": time::rfc3339(version.seen_at),
      "changed": !unchanged,
      "created": created,
      "before": before.map(ContentHash::to_hex),
      "quarantined": quarantined.iter().map(BlockId::as_str).collect::<Vec<_>>(),
    }))?;
    return Ok(Status::Yes);
  }
  let out = &context.out;
  let path = terminal(shown(&target.path()));
  let name = short(version.hash);
  if unchanged {
    out.line(&format!("{path}: version {name} is the current content"))?;
    return Ok(Status::Yes);
  }
  out.note(&format!("{path}: version {name} of {} is restored", time::rfc3339(version.seen_at)))?;
  if created {
    out.note("  the file was missing and was created; only its owner may read it")?;
  }
  if !quarantined.is_empty() {
    let n = quarantined.len() as u64;
    let (what, were) = (count(n, "block"), choose(n, "was", "were"));
    out.line(&format!("  {what} of it {were} taken out again: memfw list"))?;
  }
  if let Some(before) = before {
    out.note(&format!("  undo: memfw restore {path} --at {}", short(before)))?;
  }
  Ok(Status::Yes)
}
