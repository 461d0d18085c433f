//! `memfw service`: a service manager starts memfw before the agent, and keeps memfw running.
//!
//! Programs are run by an argument vector, never by a shell. `install` writes one file, which a line of
//! memfw's identifies: no other file is replaced or removed, and memory, ledger and configuration are
//! never changed.
#![forbid(unsafe_code)]

pub mod args;
mod control;
pub mod facts;
mod installation;
pub mod plist;
mod report;
pub mod setup;
pub mod supervisor;
pub mod systemd;
pub mod unit;

pub use args::ServiceArgs;

use std::ffi::OsString;

use super::service::{
  args::{ChangeArgs, ServiceCommand, StatusArgs},
  control::Control,
  facts::{Facts, Sandbox, Unsayable},
  supervisor::Supervisor,
  unit::Unit,
};
use crate::{
  app::{context::Context, exit::Status, lost_ledger},
  os::{
    DaemonLock,
    managed_file::{Change, FileState},
  },
  terminal::failure::{Failure, unavailable},
};

/// Carries the command out.
pub fn run(context: &Context, args: &ServiceArgs) -> Result<Status, Failure> {
  match &args.command {
    ServiceCommand::Install(args) => install(context, args),
    ServiceCommand::Uninstall(args) => uninstall(context, args),
    ServiceCommand::Status(args) => status(context, args),
  }
}

fn install(context: &Context, args: &ChangeArgs) -> Result<Status, Failure> {
  let unit = Unit::of(context, &args.target)?;
  if args.print {
    let text = unit.supervisor.render(&installation::facts(context, &unit)?)?;
    report::file(context, &unit, &text)?;
    return Ok(Status::Yes);
  }
  let facts = put_in_place(context, &unit)?;
  report::installed(context, &unit, &facts)?;
  Ok(Status::Yes)
}

/// Writes the file of a service, starts the service, and prints each change.
fn put_in_place(context: &Context, unit: &Unit) -> Result<Facts, Failure> {
  let mut facts = installation::facts(context, unit)?;
  let (control, runs) = installable(context, unit, unit.supervisor.reload())?;
  if facts.sandbox == Sandbox::Whole && !control.can_sandbox() {
    facts.sandbox = Sandbox::NoNamespaces;
  }
  let text = unit.supervisor.render(&facts)?;
  make_own_directories(unit)?;
  let change = unit.placed().put(&text).map_err(unavailable)?;
  report::change(context, unit, &change)?;
  for words in unit.supervisor.start(&unit.job(), runs, change != Change::None) {
    control.run(&words).map_err(|failure| not_started(context, unit, failure))?;
    report::ran(context, &control.shown(&words))?;
  }
  // The service itself may not write there.
  if unit.user.is_none() {
    lost_ledger::note_place(&unit.own);
  }
  Ok(facts)
}

/// Checks that a service may be installed, before anything is written; `probe` is a command that succeeds if the
/// manager can be reached. Returns the access to the manager, and whether the service runs.
fn installable(
  context: &Context,
  unit: &Unit,
  probe: Option<Vec<OsString>>,
) -> Result<(Control, bool), Failure> {
  allow(unit, "install")?;
  let is_new = match unit.placed().look().map_err(unavailable)? {
    FileState::Foreign(what) => return Err(foreign(unit, what)),
    FileState::Nothing => true,
    FileState::Ours(_) => false,
  };
  let control = Control::find(context, unit)?;
  if let Some(words) = probe {
    control.run(&words)?;
  }
  let runs = control.says_yes(&unit.supervisor.asks_whether_it_runs(&unit.job()));
  if is_new
    && !runs
    && let Ok(Some(holder)) = DaemonLock::holder(&unit.own.data)
  {
    let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    return Err(
      Failure::unavailable(format!("another memfw is guarding already{pid}, and only one can run"))
        .hint("stop it, for instance with Ctrl-C in its terminal, and try again"),
    );
  }
  Ok((control, runs))
}

/// Whether the service of this user is installed.
pub(super) fn is_installed(context: &Context) -> bool {
  let target = args::TargetArgs { manager: Supervisor::native(), user: None };
  let unit = Unit::of(context, &target);
  unit.is_ok_and(|unit| matches!(unit.placed().look(), Ok(FileState::Ours(_))))
}

fn uninstall(context: &Context, args: &ChangeArgs) -> Result<Status, Failure> {
  let unit = Unit::of(context, &args.target)?;
  if args.print {
    report::removal(context, &unit, is_there(&unit)?)?;
    return Ok(Status::Yes);
  }
  let was_there = take_away(context, &unit)?;
  report::left(context, &unit, was_there)?;
  Ok(Status::Yes)
}

/// Stops a service, removes its file, and prints each change; returns whether there was one.
fn take_away(context: &Context, unit: &Unit) -> Result<bool, Failure> {
  let is_there = is_there(unit)?;
  allow(unit, "uninstall")?;
  // A manager without its program runs nothing, so only the file must be removed.
  let control = Control::find(context, unit).ok();
  if let (true, Some(control)) = (is_there, &control) {
    let runs = control.says_yes(&unit.supervisor.asks_whether_it_runs(&unit.job()));
    for words in unit.supervisor.stop(&unit.job(), runs) {
      control.run(&words)?;
      report::ran(context, &control.shown(&words))?;
    }
  }
  let removed = unit.placed().remove().map_err(unavailable)?;
  for path in &removed {
    report::removed(context, path)?;
  }
  match (&control, unit.supervisor.reload()) {
    (Some(control), Some(words)) if !removed.is_empty() => {
      control.run(&words)?;
      report::ran(context, &control.shown(&words))?;
    }
    _ => {}
  }
  Ok(!removed.is_empty())
}

/// Whether the file of a service is there; fails for a file that is not memfw's.
fn is_there(unit: &Unit) -> Result<bool, Failure> {
  match unit.placed().look().map_err(unavailable)? {
    FileState::Foreign(what) => Err(foreign(unit, what)),
    FileState::Nothing => Ok(false),
    FileState::Ours(_) => Ok(true),
  }
}

fn status(context: &Context, args: &StatusArgs) -> Result<Status, Failure> {
  let unit = Unit::of(context, &args.target)?;
  let found = unit.placed().look().map_err(unavailable)?;
  let standing = standing(context, &unit, &found)?;
  let control = Control::find(context, &unit)?;
  let job = unit.job();
  let runs = control.says_yes(&unit.supervisor.asks_whether_it_runs(&job));
  let is_there = found != FileState::Nothing;
  let starts = match unit.supervisor.asks_whether_it_will(&job) {
    Some(words) => is_there && control.says_yes(&words),
    None => is_there,
  };
  report::status(context, &unit, args.json, &standing, starts, runs)?;
  let is_fine = matches!(standing, report::Standing::Current(_)) && starts && runs;
  Ok(if is_fine { Status::Yes } else { Status::No })
}

/// How the file of a service compares with the one that memfw would write.
fn standing(
  context: &Context,
  unit: &Unit,
  found: &FileState,
) -> Result<report::Standing, Failure> {
  Ok(match (found, installation::facts(context, unit)) {
    (FileState::Nothing, _) => report::Standing::Missing,
    (FileState::Foreign(what), _) => report::Standing::Foreign(what),
    // The expected content depends on the configuration, which cannot be read.
    (FileState::Ours(_), Err(failure)) => report::Standing::Unknown(failure.error),
    (FileState::Ours(text), Ok(facts)) => {
      let sandbox = systemd::sandbox_of(text);
      // The abilities of the manager were tested when the file was written.
      let due = match (facts.sandbox, sandbox) {
        (Sandbox::Whole, Sandbox::NoNamespaces) => sandbox,
        (due, _) => due,
      };
      if unit.supervisor.render(&Facts { sandbox: due, ..facts })? == *text {
        report::Standing::Current(sandbox)
      } else {
        report::Standing::Outdated(sandbox)
      }
    }
  })
}

/// Creates memfw's own directories: the service cannot, because it may only write into existing ones.
fn make_own_directories(unit: &Unit) -> Result<(), Failure> {
  match &unit.user {
    None => unit.own.create().map_err(unavailable),
    Some(_) if unit.own.data.is_dir() && unit.own.config.is_dir() => Ok(()),
    // Root must not create directories below a user's: a link there may lead anywhere.
    Some(user) => Err(
      Failure::unavailable(format!("`{}` does not exist", unit.own.data.display())).hint(format!(
        "sudo -u {user} mkdir -p -m 700 {} {}",
        unit.own.data.display(),
        unit.own.config.display()
      )),
    ),
  }
}

fn foreign(unit: &Unit, what: &str) -> Failure {
  Failure::unavailable(format!("`{}` is {what}", unit.file.display()))
    .hint("move it away, or change it by hand")
    .hint(format!("{} shows what memfw would write", unit.command("install --print")))
}

/// Only root may change system services. Checked first, so that nothing is left half done.
fn allow(unit: &Unit, verb: &str) -> Result<(), Failure> {
  match unit.supervisor {
    Supervisor::System if unit.job().uid != 0 => {
      let failure = Failure::unavailable("only root may change system services");
      Err(failure.hint(unit.command(verb)))
    }
    _ => Ok(()),
  }
}

/// The file is installed: print this before the reason why the service does not run.
fn not_started(context: &Context, unit: &Unit, failure: Failure) -> Failure {
  let log = unit.supervisor.follow(&unit.name, &unit.home);
  // If this output fails, there is no other way to report it.
  context.out.flush().ok();
  failure.hint(format!("see its log: {log}")).hint(unit.command("status"))
}

impl From<Unsayable> for Failure {
  fn from(error: Unsayable) -> Self {
    Self::unavailable(error.to_string()).hint("give the directory another name, or a link to it")
  }
}
