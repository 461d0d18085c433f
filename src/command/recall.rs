//! `memfw recall`: what an agent may read of guarded memory, by trust.
//!
//! Files and ledger are only read. What is handed out, and in which form, is decided in [`crate::recall`].
#![forbid(unsafe_code)]

use std::{
  num::NonZeroUsize,
  path::{Path, PathBuf},
};

use clap::{Args as ClapArgs, ValueHint};
use serde_json::{Value, json};

use super::shared::lookup::find_file;
use crate::{
  app::{context::Context, exit::Status, paths::resolved},
  config::Config,
  engine::{event::shown, readable::Readable},
  files::{Fs as _, Kind, RealFs, Workspace},
  os::{Clock as _, SystemClock, paths},
  provenance::Trust,
  recall::{Entry, Excerpts, Item, Rules, Selection, Sheet, Terms, frame, sheet},
  store::{FileRow, FileStatus, Ledger, full_text},
  terminal::{
    escape::{Escape, lossy},
    failure::Failure,
    time,
  },
};

/// The most text that a query searches: more than any agent's memory has (a choice).
const MAX_SEARCHED_BYTES: usize = 64 << 20;

/// `memfw recall`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw recall \"trip to Lisbon\"")]
pub struct RecallArgs {
  /// Words to look for; without them, everything is printed in order
  #[arg(value_name = "QUERY", value_hint = ValueHint::FilePath)]
  pub first: Option<PathBuf>,

  /// Memory files; without any, all guarded files
  #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub files: Vec<PathBuf>,

  /// Words to look for, which are never taken for a file
  #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
  pub query: Option<String>,

  /// Leave out text of less trust than this
  #[arg(long, value_name = "TRUST")]
  pub min_trust: Option<Trust>,

  /// Print at most this many entries
  #[arg(long, value_name = "N")]
  pub max_results: Option<NonZeroUsize>,

  /// Print text that was not judged yet as well, in a frame
  #[arg(long)]
  pub include_unvalidated: bool,

  /// Print only the sentence that explains the frames
  #[arg(long)]
  pub explain_frames: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: RecallArgs) -> Result<Status, Failure> {
  if args.explain_frames {
    context.out.line(&frame::note(None, frame::EXPLANATION))?;
    return Ok(Status::Yes);
  }
  let config = context.config()?.config;
  let rules = Rules {
    min_trust: args.min_trust.unwrap_or(config.recall_min_trust),
    include_unvalidated: args.include_unvalidated || config.recall_include_unvalidated,
  };
  let ledger = context.ledger_with_key()?;
  let (query, files) = asked(&ledger, &args)?;
  let (excerpts, unread_files) = read(&ledger, &files, &config, rules)?;
  let mut selection = Selection::of(&excerpts, rules);
  selection.left_out.unread_files = unread_files;
  if let Some(query) = &query {
    let max = args.max_results.map_or(config.recall_max_results as usize, NonZeroUsize::get);
    selection = search(selection, query, max)?;
  } else if let Some(max) = args.max_results {
    selection = selection.at_most(max.get());
  }
  let is_found = query.is_none() || !selection.items.is_empty();
  if args.json {
    context.out.json(&to_json(&selection, query.as_deref()))?;
  } else {
    let text = match query {
      Some(_) => Sheet::of_hits(&selection),
      None => Sheet::of_files(&selection),
    };
    if context.out.is_terminal() {
      context.out.page();
      context.out.text(&Escape::default().keep_lines().apply(text))?;
    } else {
      context.out.bytes(&text)?;
    }
  }
  Ok(if is_found { Status::Yes } else { Status::No })
}

/// The query and the named files. The first word is a file if there is one of this name, or if it ends like
/// one.
fn asked(ledger: &Ledger, args: &RecallArgs) -> Result<(Option<String>, Vec<FileRow>), Failure> {
  let mut query = args.query.clone();
  let mut named: Vec<&Path> = Vec::new();
  if let Some(first) = &args.first {
    let is_file = || first.exists() || ledger.file(&resolved(first)).is_ok_and(|row| row.is_some());
    let ends_like_one = || {
      let text = first.to_string_lossy();
      text.ends_with(".md") && !text.contains(char::is_whitespace)
    };
    if query.is_some() || is_file() || ends_like_one() {
      named.push(first);
    } else {
      query = Some(first.to_string_lossy().into_owned());
    }
  }
  named.extend(args.files.iter().map(PathBuf::as_path));
  let mut files: Vec<FileRow> = Vec::new();
  for name in named {
    let path = find_file(ledger, name)?;
    if let Some(row) = ledger.file(&path)?.filter(|row| files.iter().all(|one| one.id != row.id)) {
      files.push(row);
    }
  }
  Ok((query, files))
}

/// The excerpts of the named files, or of all guarded ones, and how many could not be read.
fn read(
  ledger: &Ledger,
  named: &[FileRow],
  config: &Config,
  rules: Rules,
) -> Result<(Vec<Excerpts>, usize), Failure> {
  let all = if named.is_empty() { ledger.files()? } else { Vec::new() };
  let mut unread = 0;
  let mut found: Vec<(&FileRow, Vec<u8>)> = Vec::new();
  for row in named.iter().chain(all.iter().filter(|row| row.status != FileStatus::Missing)) {
    match bytes_of(row, config) {
      Ok(Some(bytes)) => found.push((row, bytes)),
      // A file may be deleted at any moment.
      Ok(None) if named.is_empty() => {}
      Ok(None) => {
        return Err(Failure::unavailable(format!("`{}` does not exist", shown(&row.path))));
      }
      Err(failure) if !named.is_empty() => return Err(failure),
      Err(_) => unread += 1,
    }
  }
  let mut readable = Readable::new(ledger, SystemClock.now())?;
  if rules.include_unvalidated && !readable.compare_withheld()? {
    return Err(
      Failure::unavailable("text that was not judged cannot be compared with quarantined text")
        .hint("run it without `--include-unvalidated`, or see `memfw doctor`"),
    );
  }
  let mut excerpts = Vec::with_capacity(found.len());
  for (row, bytes) in found {
    excerpts.push(readable.excerpts(row, bytes)?);
  }
  Ok((excerpts, unread))
}

/// The content of a file; `None` if it does not exist. Opened for reading only, which wakes no daemon.
pub(super) fn bytes_of(row: &FileRow, config: &Config) -> Result<Option<Vec<u8>>, Failure> {
  let refused = |why: String| {
    Failure::unavailable(format!("`{}` cannot be read: {why}", shown(&row.path)))
      .hint("`memfw status` lists what is not guarded")
  };
  if row.status == FileStatus::Unscannable {
    return Err(refused(row.note.clone().unwrap_or_else(|| "it is not judged".to_owned())));
  }
  let fs = RealFs::default();
  let Ok(workspace) = Workspace::open(&fs, &row.workspace) else { return Ok(None) };
  let Ok(rel) = row.path.strip_prefix(&row.workspace) else { return Ok(None) };
  match fs.kind(workspace.root(), rel) {
    Ok(Some(Kind::File)) => {}
    Ok(None) => return Ok(None),
    Ok(Some(kind)) => return Err(refused(format!("it is a {kind}"))),
    Err(error) => return Err(refused(error.to_string())),
  }
  paths::read_own(&row.path, config.max_file_bytes).map_err(|error| refused(error.to_string()))
}

/// The entries that match a query, the best first.
fn search<'a>(
  mut selection: Selection<'a>,
  query: &str,
  max: usize,
) -> Result<Selection<'a>, Failure> {
  let texts = selection.texts(MAX_SEARCHED_BYTES);
  let ranked = match Terms::of(query).expression() {
    Some(expression) => {
      full_text::rank(texts.iter().map(|(_, text)| text.as_str()), &expression, max)?
    }
    None => Vec::new(),
  };
  let hits = ranked.iter().filter_map(|one| Some((texts.get(one.position)?.0, one.score)));
  Ok(selection.ranked(&hits.collect::<Vec<_>>()))
}

fn to_json(selection: &Selection<'_>, query: Option<&str>) -> Value {
  let mut entries: Vec<Value> = Vec::new();
  let mut blocked: Vec<Value> = Vec::new();
  for item in &selection.items {
    match item {
      Item::Entry(entry) => entries.push(entry_json(entry)),
      Item::Blocked { file, line, blocked: one } => blocked.push(json!({
        "id": one.id.as_str(),
        "file": file,
        "line": line,
        "state": one.state.as_str(),
        "codes": one.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
      })),
    }
  }
  let left_out = &selection.left_out;
  json!({
    "frames": frame::note(None, frame::EXPLANATION),
    "query": query,
    "entries": entries,
    "blocked": blocked,
    "left_out": {
      "blocked": left_out.blocked,
      "not_judged": left_out.not_judged,
      "below_trust": left_out.below_trust,
      "beyond_max": left_out.beyond_max,
      "not_searched": left_out.not_searched,
      "unread_files": left_out.unread_files,
    },
  })
}

fn entry_json(entry: &Entry<'_>) -> Value {
  let parts = entry.shown.iter().map(|shown| {
    let known = shown.known;
    json!({
      "id": known.map(|known| known.id.as_str()),
      "start_line": shown.excerpt.start_line,
      "end_line": shown.excerpt.end_line,
      "source": known.map(|known| known.label.as_str()),
      "trust": known.map(|known| known.trust.as_str()),
      "attestation": known.map(|known| known.attestation.as_str()),
      "state": known.map(|known| known.state.as_str()),
      "codes": known.map(|known| {
        known.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>()
      }),
      "ts": known.map(|known| time::rfc3339(known.at)),
      "framed": shown.frame.is_some(),
      "text": lossy(&sheet::text(shown)),
    })
  });
  json!({
    "file": entry.file,
    "line": entry.line(),
    "score": entry.score,
    "parts": parts.collect::<Vec<_>>(),
  })
}
