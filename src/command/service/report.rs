//! The output about the service for a person or a program, and the next command to type.
#![forbid(unsafe_code)]

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use serde_json::json;

use super::{
  control::shown,
  facts::{Facts, Sandbox},
  supervisor::Supervisor,
  unit::Unit,
};
use crate::{
  app::{context::Context, judge_report::JudgeReport},
  engine::event,
  os::managed_file::Change,
  terminal::{
    escape::{Escape, terminal},
    failure::Failure,
    output::Style,
  },
};

/// Where systemd records the users whose services run without a login.
const LINGER: &str = "/var/lib/systemd/linger";

/// How the installed file compares with the file that memfw would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
  /// There is no file.
  Missing,
  /// The file is not memfw's.
  Foreign(&'static str),
  /// The file has the expected content.
  Current(Sandbox),
  /// The file has another content.
  Outdated(Sandbox),
  /// The expected content is not known, for this reason.
  Unknown(String),
}

impl Standing {
  const fn as_str(&self) -> &'static str {
    match self {
      Self::Missing => "missing",
      Self::Foreign(_) => "foreign",
      Self::Current(_) => "current",
      Self::Outdated(_) => "outdated",
      Self::Unknown(_) => "unknown",
    }
  }
}

/// Prints the file that would be written, and the commands that would be run.
pub(super) fn file(context: &Context, unit: &Unit, text: &str) -> Result<(), Failure> {
  let supervisor = unit.supervisor;
  let comment = |line: &str| supervisor.comment(&terminal(line));
  // A program gets the exact text.
  if context.out.is_terminal() {
    context.out.text(&Escape::default().keep_lines().apply(text))?;
  } else {
    context.out.text(text)?;
  }
  context.out.line(&comment(&format!("to be written to {}; then:", unit.file.display())))?;
  for words in supervisor.start(&unit.job(), false, true) {
    context.out.line(&comment(&format!("  {}", shown(supervisor, &words))))?;
  }
  Ok(())
}

/// Prints what would be removed.
pub(super) fn removal(context: &Context, unit: &Unit, is_there: bool) -> Result<(), Failure> {
  if !is_there {
    return context.out.line("nothing is installed, and nothing would be done");
  }
  let supervisor = unit.supervisor;
  let reload = supervisor.reload();
  for words in supervisor.stop(&unit.job(), true) {
    row(context, "would run", shown(supervisor, &words))?;
  }
  row(context, "would remove", unit.file.display().to_string())?;
  reload.map_or(Ok(()), |words| row(context, "would run", shown(supervisor, &words)))
}

/// Prints how the file was changed.
pub(super) fn change(context: &Context, unit: &Unit, change: &Change) -> Result<(), Failure> {
  let file = unit.file.display();
  match change {
    Change::None => row(context, "unchanged", file.to_string()),
    Change::New => row(context, "wrote", file.to_string()),
    Change::Replaced(earlier) => {
      row(context, "replaced", file.to_string())?;
      row(context, "kept", earlier.display().to_string())
    }
  }
}

/// Prints a command that was run.
pub(super) fn ran(context: &Context, command: &str) -> Result<(), Failure> {
  row(context, "ran", command.to_owned())
}

/// Prints the path of a file that was removed.
pub(super) fn removed(context: &Context, path: &Path) -> Result<(), Failure> {
  row(context, "removed", path.display().to_string())
}

/// Prints the result of an installation, and what to type next.
pub(super) fn installed(context: &Context, unit: &Unit, facts: &Facts) -> Result<(), Failure> {
  for workspace in &facts.workspaces {
    row(context, "guards", workspace.display().to_string())?;
  }
  match unit.supervisor {
    Supervisor::Launchd => row(context, "order", "launchd knows none: the agent may start first")?,
    _ => row(context, "before", facts.before.join(" "))?,
  }
  row(context, "sandbox", sandbox(unit.supervisor, facts.sandbox))?;
  let config = context.config().unwrap_or_default().config;
  row(context, "judge", JudgeReport::find(&config, None)?.line())?;
  if let (Some(words), Sandbox::Whole) = (unit.supervisor.restart(&unit.job()), facts.sandbox) {
    let command = shown(unit.supervisor, &words);
    for path in facts.writable.iter().filter(|path| !path.exists()) {
      row(context, "later", format!("once {} is there: {command}", path.display()))?;
    }
  }
  context.out.line("")?;
  let prefix = unit.user.as_ref().map(|user| format!("sudo -u {user} ")).unwrap_or_default();
  next(context, &format!("{prefix}memfw status --wait 30"), "what is protected")?;
  next(context, &unit.supervisor.follow(&unit.name, &unit.home), "what happens")?;
  logged_out(context, unit)?;
  next(context, &unit.command("uninstall"), "undo the installation")
}

/// Prints how the service guards while its user is logged out, if it does not.
pub(super) fn logged_out(context: &Context, unit: &Unit) -> Result<(), Failure> {
  if unit.supervisor == Supervisor::User
    && let Some(name) = context.surroundings.env.get("USER")
    && !Path::new(LINGER).join(name).exists()
  {
    let command = format!("sudo loginctl enable-linger {}", name.display());
    next(context, &command, "guard while you are logged out, too")?;
  }
  Ok(())
}

/// Prints what an uninstallation leaves in place.
pub(super) fn left(context: &Context, unit: &Unit, was_there: bool) -> Result<(), Failure> {
  if !was_there {
    context.out.line("nothing was installed")?;
  }
  context.out.line("unchanged:")?;
  row(context, "memory", "all files, with memfw's comments and placeholders in them")?;
  let drop_ins = unit.file.with_added_extension("d");
  for (what, path) in
    [("ledger", &unit.own.data), ("config", &unit.own.config), ("drop-ins", &drop_ins)]
  {
    if path.exists() {
      row(context, what, path.display().to_string())?;
    }
  }
  Ok(())
}

/// Prints whether the service is installed and runs.
pub(super) fn status(
  context: &Context,
  unit: &Unit,
  json: bool,
  standing: &Standing,
  starts: bool,
  runs: bool,
) -> Result<(), Failure> {
  let (left_out, detail) = match standing {
    Standing::Current(sandbox) | Standing::Outdated(sandbox) => (sandbox.why(), None),
    Standing::Unknown(why) => (None, Some(why.clone())),
    Standing::Foreign(what) => (None, Some(format!("it is {what}"))),
    Standing::Missing => (None, None),
  };
  if json {
    return context.out.json(&json!({
      "manager": unit.supervisor.as_str(),
      "name": unit.name,
      "file": event::shown(&unit.file),
      "standing": standing.as_str(),
      "detail": detail,
      "sandbox_without": left_out,
      "starts": starts,
      "runs": runs,
    }));
  }
  let word = |is: bool| {
    let (style, word) = if is { (Style::Green, "yes") } else { (Style::Red, "no") };
    context.out.paint(style, word)
  };
  let file = terminal(unit.file.as_os_str().as_bytes());
  context.out.line(&format!("{:<10} {file}", "file"))?;
  let (style, text) = match standing {
    Standing::Missing => (Style::Yellow, "not installed".to_owned()),
    Standing::Current(_) => (Style::Green, "as this memfw would write it".to_owned()),
    Standing::Outdated(_) => (Style::Yellow, "not as this memfw would write it".to_owned()),
    Standing::Foreign(what) => (Style::Yellow, format!("{what}, not memfw's")),
    Standing::Unknown(why) => (Style::Yellow, format!("cannot be compared: {why}")),
  };
  context.out.line(&format!("{:<10} {}", "content", context.out.paint(style, &terminal(&text))))?;
  if let Standing::Current(found) | Standing::Outdated(found) = standing {
    row(context, "sandbox", sandbox(unit.supervisor, *found))?;
  }
  context.out.line(&format!("{:<10} {}", "starts", word(starts)))?;
  context.out.line(&format!("{:<10} {}", "runs", word(runs)))?;
  match standing {
    Standing::Missing | Standing::Outdated(_) => {
      next(context, &unit.command("install"), "write it and start it")
    }
    Standing::Foreign(_) => {
      next(context, &unit.command("install --print"), "what memfw would write")
    }
    Standing::Unknown(_) => next(context, "memfw config check", "what is wrong"),
    Standing::Current(_) if !(starts && runs) => {
      next(context, &unit.command("install"), "start it")?;
      next(context, &unit.supervisor.follow(&unit.name, &unit.home), "what it said")
    }
    Standing::Current(_) => next(context, "memfw status", "what is protected"),
  }
}

fn sandbox(supervisor: Supervisor, sandbox: Sandbox) -> String {
  match (supervisor, sandbox.why()) {
    (Supervisor::Launchd, _) => "none".to_owned(),
    (_, None) => "writes only what it guards, the agent's records and its own data".to_owned(),
    (_, Some(why)) => format!("may write everything that you may: {why}"),
  }
}

fn row(context: &Context, what: &str, text: impl Into<String>) -> Result<(), Failure> {
  context.out.line(&format!("{what:<10} {}", terminal(text.into())))
}

fn next(context: &Context, command: &str, why: &str) -> Result<(), Failure> {
  let text = context.out.paint(Style::Cyan, &terminal(command));
  context.out.line(&format!("next: {text}  # {why}"))
}
