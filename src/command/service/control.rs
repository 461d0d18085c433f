//! The program that controls a service manager.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::{supervisor::Supervisor, unit::Unit};
use crate::{
  app::context::Context,
  os::{program, subprocess},
  terminal::failure::Failure,
};

/// How long one command may take. A start waits for the first scan, which takes seconds for ten thousand
/// notes.
const LIMIT: Duration = Duration::from_mins(2);
/// The program that tests a sandbox.
const TRIAL: &str = "systemd-run";

/// Access to a service manager.
pub(super) struct Control {
  supervisor: Supervisor,
  program: PathBuf,
  /// The path of `systemd-run`.
  trial: Option<PathBuf>,
  /// A hint for a manager that cannot be reached.
  hint: Option<String>,
}

impl Control {
  /// Finds the program; fails if there is none.
  pub(super) fn find(context: &Context, unit: &Unit) -> Result<Self, Failure> {
    let env = &context.surroundings.env;
    let name = unit.supervisor.program();
    let program = program::find(env, name).ok_or_else(|| {
      Failure::unavailable(format!("there is no `{name}` in PATH"))
        .hint("`memfw run` guards without a service manager")
        .hint(format!("{} shows the file", unit.command("install --print")))
    })?;
    let is_lost = unit.supervisor == Supervisor::User && env.get("XDG_RUNTIME_DIR").is_none();
    let hint = is_lost.then(|| {
      format!("without a login session: export XDG_RUNTIME_DIR=/run/user/{}", unit.job().uid)
    });
    let trial = program::find(env, TRIAL);
    Ok(Self { supervisor: unit.supervisor, program, trial, hint })
  }

  /// Runs the program with these arguments.
  pub(super) fn run(&self, words: &[OsString]) -> Result<(), Failure> {
    subprocess::run(&self.line(words), LIMIT)
      .map_err(|why| Failure::unavailable(why).maybe_hint(self.hint.clone()))
  }

  /// Whether the program succeeds with these arguments.
  pub(super) fn says_yes(&self, words: &[OsString]) -> bool {
    subprocess::run(&self.line(words), LIMIT).is_ok()
  }

  /// Whether a user manager can make user namespaces, which parts of the sandbox need; true if this
  /// cannot be tested.
  pub(super) fn can_sandbox(&self) -> bool {
    let Some(trial) = self.trial.as_ref().filter(|_| self.supervisor == Supervisor::User) else {
      return true;
    };
    let words = [
      "--user",
      "--wait",
      "--quiet",
      "--collect",
      "--property=PrivateUsers=yes",
      "--property=ProtectSystem=strict",
      "--property=PrivateDevices=yes",
      "--",
    ];
    let mut line = vec![trial.clone().into_os_string()];
    line.extend(words.map(OsString::from));
    // A program that certainly exists.
    line.extend([self.program.clone().into_os_string(), "--version".into()]);
    subprocess::run(&line, LIMIT).is_ok()
  }

  /// A command as a person would type it.
  pub(super) fn shown(&self, words: &[OsString]) -> String {
    shown(self.supervisor, words)
  }

  fn line(&self, words: &[OsString]) -> Vec<OsString> {
    [self.program.clone().into_os_string()].into_iter().chain(words.iter().cloned()).collect()
  }
}

/// A command as a person would type it.
pub(super) fn shown(supervisor: Supervisor, words: &[OsString]) -> String {
  let words = words.iter().map(|word| word.display().to_string());
  [supervisor.program().to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
