//! `memfw config set`: changes one value of the file, and checks the result before it writes.
//!
//! Invariant: no other file is written, the file is replaced as a whole or not at all, and the written
//! configuration is valid.
#![forbid(unsafe_code)]

use super::{args::SetArgs, shown, unknown};
use crate::{
  app::{
    configuration::{ConfigError, MAX_BYTES, parse, read},
    context::Context,
    exit::Status,
  },
  config::{Effective, Key, ValueOrigin, edit, find},
  os::{DaemonLock, paths},
  terminal::{
    escape::terminal,
    failure::{Failure, unavailable},
  },
};
use serde_json::json;
use std::path::Path;

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
  let after = parse(&changed, None, home.as_deref(), true).map_err(broken)?;
  let is_changed = changed != text || (!exists && value.is_some());
  if is_changed {
    write(context, &file, exists, &changed)?;
  }
  tell(context, args, key, &file, before.as_ref(), &after, is_changed)
}

/// Replaces the file, or the file that a link points to; creates the directory of a missing file.
fn write(context: &Context, file: &Path, exists: bool, text: &str) -> Result<(), Failure> {
  if exists {
    let target = file.canonicalize().map_err(unavailable)?;
    return paths::replace_own(&target, text.as_bytes()).map_err(unavailable);
  }
  context.home()?.create().map_err(unavailable)?;
  paths::write_private(file, text.as_bytes()).map_err(unavailable)
}

fn tell(
  context: &Context,
  args: &SetArgs,
  key: &Key,
  file: &Path,
  before: Option<&Effective>,
  after: &Effective,
  is_changed: bool,
) -> Result<Status, Failure> {
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
    }))?;
    return Ok(Status::Yes);
  }
  let was = match was.filter(|was| *was != value) {
    Some(was) => format!(", was {was}"),
    None if is_changed => String::new(),
    None => ", unchanged".to_owned(),
  };
  context.out.line(&terminal(format!("{} = {value}{by}{was}", key.name)))?;
  let runs = DaemonLock::holder(&context.home()?.data).ok().flatten().and_then(|holder| holder.pid);
  if let Some(pid) = runs.filter(|_| is_changed) {
    context.out.line(&if key.section() == "log" {
      "this takes effect at the daemon's next start".to_owned()
    } else {
      format!("to apply it now, run: kill -HUP {pid}")
    })?;
  }
  Ok(Status::Yes)
}
