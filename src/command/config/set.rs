//! `memfw config set`: changes one value of the file, and checks the result before it writes.
//!
//! Invariant: no other file is written, the file is replaced as a whole or not at all, and the written
//! configuration is valid.
#![forbid(unsafe_code)]

use super::{args::SetArgs, shown, unknown};
use crate::{
  app::{
    configuration::{ConfigError, MAX_BYTES, parse, read, version},
    context::Context,
    daemon_state::DaemonState,
    exit::Status,
  },
  config::{ConfigProblem, Effective, Key, ValueOrigin, edit, find},
  os::{Clock as _, SystemClock, paths, pause},
  terminal::{
    escape::terminal,
    failure::{Failure, unavailable},
    progress::Progress,
  },
};
use serde_json::json;
use std::{path::Path, time::Duration};

/// How long to wait for the daemon: it reads the file a quarter of a second after the last change.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the ledger is asked meanwhile.
const POLL: Duration = Duration::from_millis(20);

/// Carries the command out.
pub(super) fn run(context: &Context, args: &SetArgs) -> Result<Status, Failure> {
  let key = find(&args.key).ok_or_else(|| unknown(&args.key, None))?;
  let home = context.surroundings.home();
  let file = context.config_file()?;
  let value = if args.default {
    None
  } else {
    let value = edit::value_of(key, &args.values, home.as_deref());
    Some(value.map_err(|no| Failure::usage(no.message).maybe_hint(no.hint))?)
  };
  let found = read(&file, MAX_BYTES)
    .map_err(|why| Failure::from(ConfigError::Unreadable { file: file.clone(), why }))?;
  let exists = found.is_some();
  let text = found.unwrap_or_default();
  // The user may be repairing an invalid file, so only the new text must be valid.
  let before = parse(&text, None, home.as_deref(), true).ok();
  let changed = match &value {
    Some(value) => edit::set(&text, key, value),
    None => edit::unset(&text, key),
  };
  let broken = |problems| ConfigError::Broken { file: file.clone(), problems };
  let Some(changed) = changed else {
    return Err(match parse(&text, None, home.as_deref(), true) {
      Err(problems) => broken(problems).into(),
      Ok(_) => Failure::config(format!("`{}` cannot be set in `{}`", key.name, file.display()))
        .hint("change it by hand: `$EDITOR \"$(memfw config path)\"`"),
    });
  };
  let after = parse(&changed, None, home.as_deref(), true).map_err(|problems| {
    let text = parse(&text, None, home.as_deref(), true).err().unwrap_or_default();
    Failure::all(refusals(&file, &text, problems))
      .unwrap_or_else(|| Failure::internal("a broken file without a problem"))
  })?;
  let is_changed = changed != text || (!exists && value.is_some());
  let taken = if is_changed {
    write(context, &file, exists, &changed)?;
    await_daemon(context, &file)?
  } else {
    None
  };
  let told = SetOutcome { file: &file, before: before.as_ref(), after: &after, is_changed, taken };
  tell(context, args, key, &told)
}

/// Replaces the file, or the file that a link points to; creates the directory of a missing file.
pub(in crate::command) fn write(
  context: &Context,
  file: &Path,
  exists: bool,
  text: &str,
) -> Result<(), Failure> {
  if exists {
    let target = file.canonicalize().map_err(unavailable)?;
    return paths::replace_own(&target, text.as_bytes()).map_err(unavailable);
  }
  context.home()?.create().map_err(unavailable)?;
  paths::write_private(file, text.as_bytes()).map_err(unavailable)
}

/// What became of the change.
struct SetOutcome<'a> {
  file: &'a Path,
  before: Option<&'a Effective>,
  after: &'a Effective,
  is_changed: bool,
  /// Whether the running daemon uses it; `None` where none runs.
  taken: Option<bool>,
}

fn tell(
  context: &Context,
  args: &SetArgs,
  key: &Key,
  told: &SetOutcome<'_>,
) -> Result<Status, Failure> {
  let SetOutcome { file, before, after, is_changed, taken } = *told;
  let value = key.value(&after.config);
  let was = before.map(|before| key.value(&before.config));
  let by = match after.origin(key) {
    ValueOrigin::File { .. } => String::new(),
    ValueOrigin::Preset(preset) => format!(" (preset {preset})"),
    _ => " (default)".to_owned(),
  };
  if args.json {
    context.out.json(&json!({
      "file": shown(file), "key": key.name, "value": value, "was": was, "changed": is_changed,
      "active": taken.map(|taken| taken && key.section() != "log"),
    }))?;
    return Ok(Status::Yes);
  }
  let was = match was.filter(|was| *was != value) {
    Some(was) => format!(", was {was}"),
    None if is_changed => String::new(),
    None => ", unchanged".to_owned(),
  };
  context.out.note(&terminal(format!("{} = {value}{by}{was}", key.name)))?;
  let Some(taken) = taken else { return Ok(Status::Yes) };
  context.out.note(match taken {
    _ if key.section() == "log" => "it takes effect at the daemon's next start",
    true => "active: the daemon has taken it",
    false => "the daemon has not taken it yet; `memfw status` says why",
  })?;
  Ok(Status::Yes)
}

/// Waits until the running daemon uses this content of the file. `None` where no daemon runs.
pub(in crate::command) fn await_daemon(
  context: &Context,
  file: &Path,
) -> Result<Option<bool>, Failure> {
  let (start, wanted) = (SystemClock.monotonic(), version(file));
  let mut progress = Progress::waiting(start).unless(context.out.is_quiet());
  loop {
    // A ledger that cannot be read now is another command's matter.
    let ledger = context.ledger_if_there().unwrap_or(None);
    let daemon = DaemonState::find(context, ledger.as_ref())?;
    if daemon.pid.is_none() {
      return Ok(None);
    }
    let health = daemon.health.filter(|health| Some(health.pid) == daemon.pid);
    if health.and_then(|health| health.configuration).is_some_and(|used| used == wanted) {
      return Ok(Some(true));
    }
    let now = SystemClock.monotonic();
    if now.saturating_sub(start) >= PATIENCE {
      return Ok(Some(false));
    }
    progress.say(|| "the daemon has not taken it yet".to_owned(), now);
    pause(POLL);
  }
}

/// Why a value is refused: mistakes that the file had before with their places, and those that come from the value
/// without one, because it is in no line of the file.
fn refusals(file: &Path, before: &[ConfigProblem], problems: Vec<ConfigProblem>) -> Vec<Failure> {
  let failure = |problem: ConfigProblem| {
    let known = before.iter().find(|one| one.message == problem.message);
    let ConfigProblem { message, hint, .. } = problem;
    let text = known.map_or(message.clone(), |one| {
      format!("{}:{}:{}: {message}", file.display(), one.line, one.column)
    });
    Failure::config(text).maybe_hint(hint)
  };
  problems.into_iter().map(failure).collect()
}
