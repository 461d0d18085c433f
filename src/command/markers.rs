//! `memfw markers`: removes memfw's comments from memory files, keeps them out, or adds them again.
//!
//! The choice is stored in the ledger, so a running daemon obeys it. The command edits files as the
//! daemon does: in place and under a lease. Placeholders stay, and the output explains them.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};

use super::shared::lookup::find_file;
use crate::{
  app::{context::Context, exit::Status},
  engine::{
    Engine, EngineError, Target, event::shown, marker_preference, pending, unmark::Remarked,
  },
  files::RealFs,
  memory::BlockId,
  plural::choose,
  store::FileStatus,
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
  },
};

/// `memfw markers`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: memfw markers remove")]
pub struct MarkersArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: MarkersCommand,
}

/// What to do with the markers.
#[derive(Clone, Debug, Subcommand)]
pub enum MarkersCommand {
  /// Remove the comments, and write none until `memfw markers add`
  #[command(after_help = "Example: memfw markers remove ~/notes/MEMORY.md")]
  Remove(MarkersFiles),
  /// Write the comments again
  #[command(after_help = "Example: memfw markers add")]
  Add(MarkersFiles),
}

/// `memfw markers remove|add`
#[derive(Clone, Debug, Args)]
pub struct MarkersFiles {
  /// Memory files; without any, all guarded files and those added later
  #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub files: Vec<PathBuf>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// The result for one file.
struct Done {
  path: PathBuf,
  answer: Result<Remarked, Failure>,
}

/// Carries the command out.
pub fn run(context: &Context, args: MarkersArgs) -> Result<Status, Failure> {
  let (wanted, MarkersFiles { files, json }) = match args.command {
    MarkersCommand::Remove(files) => (false, files),
    MarkersCommand::Add(files) => (true, files),
  };
  let ledger = context.ledger()?;
  let paths = files.iter().map(|file| find_file(&ledger, file)).collect::<Result<Vec<_>, _>>()?;
  drop(ledger);
  let mut engine = context.engine(&context.config()?.config)?;
  let at = engine.clock().now();
  let targets = if files.is_empty() {
    marker_preference::want(engine.ledger_mut(), wanted, at)?;
    all(&engine)?
  } else {
    let mut targets = Vec::new();
    for path in &paths {
      marker_preference::want_in(engine.ledger_mut(), path, wanted, at)?;
      targets.extend(pending::target_of(engine.ledger(), path)?);
    }
    targets
  };
  // A failure with one file does not stop the others.
  let done: Vec<Done> = targets
    .iter()
    .map(|target| Done {
      path: target.path(),
      answer: engine.remark(target).map_err(Failure::from),
    })
    .collect();
  if json {
    context.out.json(&done.iter().map(Done::to_json).collect::<Vec<_>>())?;
  } else {
    print(context, &done, wanted)?;
  }
  Ok(if done.iter().all(|one| one.is_right(wanted)) { Status::Yes } else { Status::No })
}

/// All guarded files that exist.
fn all(engine: &Engine<RealFs>) -> Result<Vec<Target>, EngineError> {
  let rows = engine.ledger().files()?.into_iter();
  let watched = rows.filter(|row| row.status == FileStatus::Watched);
  Ok(
    watched
      .filter_map(|row| {
        let rel = row.path.strip_prefix(&row.workspace).ok()?;
        Some(Target::new(&row.workspace, rel))
      })
      .collect(),
  )
}

impl Done {
  /// Whether the file has the requested state. After `add`, missing markers are no error: they depend on
  /// the configuration, and `memfw status` reports them.
  fn is_right(&self, wanted: bool) -> bool {
    self.answer.as_ref().is_ok_and(|found| wanted || (found.marks == 0 && found.why.is_none()))
  }

  fn why(&self) -> Option<&str> {
    match &self.answer {
      Ok(found) => found.why.as_deref(),
      Err(failure) => Some(&failure.error),
    }
  }

  fn placeholders(&self) -> &[(usize, BlockId)] {
    self.answer.as_ref().map(|found| found.placeholders.as_slice()).unwrap_or_default()
  }

  fn is_changed(&self) -> bool {
    self.answer.as_ref().is_ok_and(|found| found.changed)
  }

  fn to_json(&self) -> Value {
    let place = |(line, id): &(usize, BlockId)| json!({ "line": line, "id": id.as_str() });
    json!({
      "file": shown(&self.path),
      "changed": self.is_changed(),
      "comments": self.answer.as_ref().ok().map(|found| found.marks),
      "placeholders": self.placeholders().iter().map(place).collect::<Vec<_>>(),
      "why": self.why(),
    })
  }
}

fn print(context: &Context, done: &[Done], wanted: bool) -> Result<(), Failure> {
  let out = &context.out;
  for one in done.iter().filter(|one| one.is_changed()) {
    let word = if wanted { "markers written" } else { "markers taken out" };
    out.line(&format!("{}: {word}", terminal(shown(&one.path))))?;
  }
  for one in done {
    if let Some(why) = one.why().filter(|_| !wanted || one.answer.is_err()) {
      let path = terminal(shown(&one.path));
      out.line(&format!("{path}: {}: {}", out.paint(Style::Red, "not done"), terminal(why)))?;
    }
  }
  let changed = done.iter().filter(|one| one.is_changed()).count();
  let failed = done.iter().filter(|one| !one.is_changed() && !one.is_right(wanted)).count();
  let rest = done.len() - changed - failed;
  let files = count(changed as u64, "file");
  let failed = if failed == 0 { String::new() } else { format!(", {failed} not done") };
  out.line(&if wanted {
    format!(
      "{files} changed, {rest} unchanged{failed}; `memfw status` says which files have fewer markers, and why"
    )
  } else {
    format!(
      "{files} changed, {rest} had none{failed}; memfw writes none there until `memfw markers add`"
    )
  })?;
  if wanted {
    return Ok(());
  }
  let places: Vec<_> = done
    .iter()
    .flat_map(|one| one.placeholders().iter().map(move |(line, id)| (&one.path, line, id)))
    .collect();
  if !places.is_empty() {
    let n = places.len() as u64;
    let stays = choose(n, "stays", "stay");
    out.line(&format!("{} {stays} in the files:", count(n, "placeholder")))?;
    for (path, line, id) in places {
      let id = out.paint(Style::Cyan, id.as_str());
      out.line(&format!("  {id}  {}:{line}", terminal(shown(path))))?;
    }
    out.line("  to restore a text in its place:  memfw approve ID")?;
    out.line("  to remove the placeholder:       memfw reject ID")?;
  }
  Ok(())
}
