//! `memfw config`: shows the path and the values of the configuration, checks them, and changes
//! values.
#![forbid(unsafe_code)]

pub mod args;
pub(super) mod set;

pub use args::ConfigArgs;

use super::shared::args::JsonArgs;
use crate::{
  app::{
    configuration::{ConfigError, DISTRUST_HINT, distrust, load},
    context::Context,
    exit::Status,
    rules,
  },
  config::{Config, KEYS, Key, ValueOrigin, edit, example, find, nearest},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    table::{Cell, Column, Table},
  },
};
use args::{ConfigCommand, ShowArgs};
use serde_json::{Value, json};
use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// Carries the command out.
pub fn run(context: &Context, args: ConfigArgs) -> Result<Status, Failure> {
  match args.command {
    ConfigCommand::Path(args) => path(context, args),
    ConfigCommand::Show(args) => show(context, &args),
    ConfigCommand::Set(args) => set::run(context, &args),
    ConfigCommand::Check(args) => check(context, args),
    ConfigCommand::Example(args) => print_example(context, args),
  }
}

fn path(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  if args.json {
    context.out.json(&json!({ "file": shown(&file), "exists": file.exists() }))?;
  } else if context.out.is_terminal() {
    context.out.line(&terminal(file.as_os_str().as_bytes()))?;
  } else {
    // A program gets the exact bytes, so that `"$(memfw config path)"` is the file.
    context.out.bytes(file.as_os_str().as_bytes())?;
    context.out.text("\n")?;
  }
  Ok(Status::Yes)
}

fn show(context: &Context, args: &ShowArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  let wanted = wanted(&args.keys)?;
  let effective = context.config()?;
  let values = effective.values().filter(|(key, ..)| wanted.contains(&key.name));
  if args.json {
    let values: Vec<Value> = values
      .map(|(key, value, origin)| {
        let (origin, line, name) = match origin {
          ValueOrigin::Default => ("default", None, None),
          ValueOrigin::Preset(preset) => ("preset", None, Some(preset.as_str())),
          ValueOrigin::File { line } => ("file", Some(line), None),
          ValueOrigin::Flag(name) => ("flag", None, Some(name)),
          ValueOrigin::Environment(name) => ("environment", None, Some(name)),
        };
        json!({ "key": key.name, "value": value, "origin": origin, "line": line, "name": name })
      })
      .collect();
    let exists = file.exists();
    context.out.json(&json!({ "file": shown(&file), "exists": exists, "values": values }))?;
    return Ok(Status::Yes);
  }
  context.out.page();
  let mut table = Table::new([
    Column::new("KEY"),
    Column::new("VALUE").cut_end(16),
    Column::new("ORIGIN").cut_start(16),
  ]);
  for (key, value, origin) in values {
    let origin = match origin {
      ValueOrigin::Default => Cell::styled("default", Style::Dim),
      ValueOrigin::Preset(preset) => Cell::styled(format!("preset {preset}"), Style::Cyan),
      ValueOrigin::File { line } => Cell::from(format!("{}:{line}", file.display())),
      ValueOrigin::Flag(name) | ValueOrigin::Environment(name) => Cell::styled(name, Style::Cyan),
    };
    table.row([Cell::from(key.name), Cell::from(value.to_string()), origin]);
  }
  table.write(&context.out)?;
  Ok(Status::Yes)
}

/// The keys with these names or in these tables; all keys if there are no names.
fn wanted(names: &[String]) -> Result<Vec<&'static str>, Failure> {
  if names.is_empty() {
    return Ok(KEYS.iter().map(|key| key.name).collect());
  }
  let mut wanted = Vec::new();
  for name in names {
    let of_table = KEYS.iter().filter(|key| !name.is_empty() && key.section() == name);
    let found: Vec<&str> = find(name).into_iter().chain(of_table).map(|key| key.name).collect();
    if found.is_empty() {
      let tables = KEYS.iter().map(Key::section).filter(|table| !table.is_empty());
      return Err(unknown(name, nearest(name, tables)));
    }
    wanted.extend(found);
  }
  Ok(wanted)
}

/// The failure for an unknown key; `near` is a suggestion in case no key is similar.
fn unknown(name: &str, near: Option<&str>) -> Failure {
  Failure::usage(format!("unknown key `{name}`")).hint(edit::suggest(name).or(near).map_or_else(
    || "`memfw config example` prints every key".to_owned(),
    |near| format!("did you mean `{near}`?"),
  ))
}

fn check(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  let loaded = load(&file, context.preset, context.surroundings.home().as_deref());
  let rules = rules::check(&context.home()?.config);
  let distrust = distrust(&file);
  if args.json {
    let mut problems = loaded.as_ref().err().map(ConfigError::problems).unwrap_or_default();
    problems.extend(distrust.as_ref().map(|why| {
      json!({
        "file": shown(&file), "line": null, "column": null, "message": why, "hint": DISTRUST_HINT,
      })
    }));
    if let Err(wrong) = &rules {
      problems.extend(wrong.iter().map(rules::RuleProblem::to_json));
    }
    let files = rules.as_ref().map(|loaded| loaded.files.as_slice()).unwrap_or_default();
    context.out.json(&json!({
      "file": shown(&file),
      "exists": !matches!(loaded, Ok((_, false))),
      "ok": loaded.is_ok() && rules.is_ok() && distrust.is_none(),
      "problems": problems,
      "rules": files.iter().map(|(file, n)| json!({ "file": shown(file), "rules": n })).collect::<Vec<_>>(),
    }))?;
  }
  let failures = loaded.as_ref().err().map(|error| Failure::from(error.clone())).into_iter();
  let failures = failures.chain(distrust.map(|why| Failure::config(why).hint(DISTRUST_HINT)));
  let wrong = rules.as_ref().err().map(Vec::as_slice).unwrap_or_default();
  let failures = failures.chain(wrong.iter().map(|problem| Failure::from(problem.clone())));
  if let Some(failure) = Failure::all(failures) {
    return Err(failure);
  }
  if args.json {
    return Ok(Status::Yes);
  }
  let name = terminal(file.as_os_str().as_bytes());
  match loaded {
    Ok((_, true)) => context.out.note(&format!("{name}: fine"))?,
    _ => context.out.note(&format!("{name}: does not exist, the defaults apply"))?,
  }
  for (file, n) in rules.iter().flat_map(|loaded| &loaded.files) {
    let name = terminal(file.as_os_str().as_bytes());
    context.out.note(&format!("{name}: fine, {}", count(*n as u64, "rule")))?;
  }
  Ok(Status::Yes)
}

fn print_example(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  if args.json {
    let defaults = Config::default();
    let keys: Vec<Value> = KEYS
      .iter()
      .map(|key| {
        let about: Vec<&str> = key.about.iter().map(|line| line.trim()).collect();
        json!({ "key": key.name, "default": key.value(&defaults), "about": about.join(" ") })
      })
      .collect();
    context.out.json(&keys)?;
  } else {
    context.out.text(&example())?;
  }
  Ok(Status::Yes)
}

/// A path for JSON.
fn shown(path: &Path) -> String {
  path.display().to_string()
}
