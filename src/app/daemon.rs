//! Puts the daemon together: its ledger, its engine, its workspaces, and the files that SIGHUP
//! reads again.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Duration};

use super::{
  context::Context,
  engine::file_system,
  lost_ledger,
  paths::{KEY, LEDGER},
};
use crate::{
  config::Config,
  daemon::{self, DaemonError, Discovery, Ending, Options, Reload},
  detect::rules::Rules,
  engine::{Event, EventKind},
  os::{Alarm, DaemonLock, descriptors, pause},
  store::{Ledger, newest},
  terminal::failure::{Failure, FailureKind},
};

/// Pauses between two attempts to open a ledger that is locked or whose disk is full.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The limit of open files that memfw asks for. Each memory file that another program keeps open takes one
/// descriptor until that program closes it, and any program can use up the usual limit of 1,024.
const WANTED_DESCRIPTORS: u64 = 65_536;

/// Guards the workspaces until a signal ends it; `flags` name workspaces that replace the configured ones. With
/// `once` it processes pending changes and ends.
pub fn guard(context: &Context, flags: &[PathBuf], once: bool) -> Result<Ending, Failure> {
  let config = context.config()?.config;
  context.discover(&config, flags)?;
  context.start_log(&config)?;
  loop {
    if let End::Done(ending) = guard_on_one_ledger(context, flags, once)? {
      return Ok(ending);
    }
    let text = "another ledger is in the place of the one that was removed or replaced";
    Event::new(EventKind::Restored).detail(text).log(None);
  }
}

/// Why the daemon stopped guarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
  /// A signal arrived, or all pending changes are processed.
  Done(Ending),
  /// Another ledger has replaced the opened one: the daemon starts again.
  Replaced,
}

/// Guards until this ledger ends.
fn guard_on_one_ledger(context: &Context, flags: &[PathBuf], once: bool) -> Result<End, Failure> {
  let config = context.config()?.config;
  let found = context.discover(&config, flags)?;
  let home = context.home()?;
  home.create().map_err(|error| Failure::unavailable(error.to_string()))?;
  let _alone = DaemonLock::acquire(&home.data, env!("CARGO_PKG_VERSION"))
    .map_err(|error| Failure::unavailable(error.to_string()))?;
  descriptors::raise(WANTED_DESCRIPTORS);
  let alarm = Alarm::open(&home.data)
    .inspect_err(|error| tracing::error!(target: "memfw", %error, "the alarm file cannot be made"))
    .ok();
  let last_written = newest::last_written(&home.data.join(LEDGER));
  let mut ledger = open(context, once, alarm.as_ref())?;
  let is_key_older = home.data.join(KEY).exists() && !ledger.needs_key()?;
  // Files that changed since the lost ledger was last written are no baseline.
  let lost_since =
    if is_key_older { last_written } else { ledger.is_older_copy()?.then_some(i64::MIN) };
  lost_ledger::note_place(&home);
  // Without the key nothing can be sealed, so nothing is redacted; findings are still reported.
  let keyless = context.unlock(&mut ledger)?.err();
  let mut engine = context.engine_on(ledger, &config)?;
  // An error in a rule file must not leave memory unguarded.
  let rules = context.rules();
  let bad_rules = rules.as_ref().err().map(|failure| {
    format!(
      "your rules are invalid, and only the built-in rules are used: {}",
      in_one_line(failure)
    )
  });
  engine.judge().set_rules(rules.unwrap_or_default());
  let options = Options {
    found,
    fs: file_system(&config),
    alarm,
    is_key_older,
    lost_since,
    report_only: keyless.as_ref().map(in_one_line),
    bad_rules,
  };
  let ending = match daemon::run(engine, options, once, &Again { context, workspaces: flags }) {
    Ok(ending) => ending,
    Err(DaemonError::Replaced) => return Ok(End::Replaced),
    Err(DaemonError::Engine(error)) => return Err(error.into()),
    Err(error) => return Err(Failure::unavailable(error.to_string())),
  };
  match keyless.filter(|_| once) {
    Some(failure) => Err(failure),
    None => Ok(End::Done(ending)),
  }
}

/// Opens the ledger. A daemon waits until the ledger can be opened, and reports the wait.
fn open(context: &Context, once: bool, alarm: Option<&Alarm>) -> Result<Ledger, Failure> {
  let mut wait = FIRST_RETRY;
  let mut said = String::new();
  loop {
    let error = match context.open_ledger()? {
      Ok(ledger) => {
        if let Some(Err(error)) = alarm.map(Alarm::silence) {
          tracing::error!(target: "memfw", %error, "the alarm file could not be written");
        }
        return Ok(ledger);
      }
      Err(error) if once || !error.is_passing() => return Err(error.into()),
      Err(error) => error,
    };
    let text = format!("{error}; nothing is guarded until it can be opened");
    if said != text {
      if let Some(Err(error)) = alarm.map(|alarm| alarm.raise(&text)) {
        tracing::error!(target: "memfw", %error, "the alarm file could not be written");
      }
      Event::new(EventKind::Degraded).detail(&text).log(None);
      said = text;
    }
    pause(wait);
    wait = wait.saturating_mul(2).min(LAST_RETRY);
  }
}

/// The files that SIGHUP, or a change of the configuration, makes the daemon read again.
struct Again<'c> {
  context: &'c Context,
  workspaces: &'c [PathBuf],
}

impl Reload for Again<'_> {
  fn file(&self) -> Option<PathBuf> {
    self.context.config_file().ok()
  }

  fn version(&self) -> String {
    self
      .context
      .config_file()
      .map_or_else(|_| String::new(), |file| super::configuration::version(&file))
  }

  fn configuration(&self) -> Result<Config, String> {
    let config = self.context.config().map(|found| found.config);
    config.map_err(|failure| in_one_line(&failure))
  }

  fn discover(&self, config: &Config) -> Result<Discovery, String> {
    let found = self.context.discover(config, self.workspaces);
    found.map_err(|failure| in_one_line(&failure))
  }

  fn rules(&self) -> Result<Rules, String> {
    self.context.rules().map_err(|failure| in_one_line(&failure))
  }

  fn unlock(&self, ledger: &mut Ledger) -> Result<(), String> {
    let answer = self.context.unlock(ledger).and_then(|answer| answer);
    answer.map_err(|failure| in_one_line(&failure))
  }
}

/// A failure for the log and for `status`.
fn in_one_line(failure: &Failure) -> String {
  let mut parts = vec![failure.error.clone()];
  parts.extend(failure.hints.iter().cloned());
  if failure.kind == FailureKind::Config && !failure.also.is_empty() {
    parts.push(format!("{} more; `memfw config check` lists them", failure.also.len()));
  }
  parts.join("; ")
}
