//! The program by which a service manager is told what to do.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf, time::Duration};

use super::{supervisor::Supervisor, unit::Unit};
use crate::{
  app::context::Context,
  os::{program, subprocess},
  terminal::failure::Failure,
};

/// How long one command may take. A start waits for the first scan, which takes seconds where there are
/// ten thousand notes.
const LIMIT: Duration = Duration::from_mins(2);
/// The program that tries a sandbox out.
const TRIAL: &str = "systemd-run";

/// A way to a service manager.
pub(super) struct Control {
  supervisor: Supervisor,
  program: PathBuf,
  /// Where `systemd-run` is.
  trial: Option<PathBuf>,
  /// What may be wrong where it cannot be reached.
  hint: Option<String>,
}

impl Control {
  /// Finds the program; a failure where there is none.
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

  /// Runs it with these words.
  pub(super) fn run(&self, words: &[OsString]) -> Result<(), Failure> {
    subprocess::run(&self.line(words), LIMIT)
      .map_err(|why| Failure::unavailable(why).maybe_hint(self.hint.clone()))
  }

  /// Whether it answers these words with success.
  pub(super) fn says_yes(&self, words: &[OsString]) -> bool {
    subprocess::run(&self.line(words), LIMIT).is_ok()
  }

  /// Whether the manager can do what a user manager can do only in a user namespace; what cannot be tried
  /// is believed.
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
    // A program that surely is there.
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
