//! What a person sees while `memfw init` scans by itself: how far the scan is, in place of its log.
#![forbid(unsafe_code)]

use std::{
  io,
  sync::mpsc::{Receiver, RecvTimeoutError, channel},
  thread,
  time::Duration,
};

use crate::{
  app::{
    context::{Context, Surroundings},
    daemon_state::DaemonState,
  },
  config::LogLevel,
  os::{Clock as _, SystemClock},
  store::StateKey,
  terminal::{
    escape::terminal,
    failure::{Failure, complain},
    output::Out,
    progress::Progress,
  },
};

/// How often the ledger is asked how far the scan is.
const POLL: Duration = Duration::from_millis(100);

/// A context without output, whose log has warnings only.
pub(super) fn silent(context: &Context) -> Context {
  let out = Out::to(Box::new(io::sink()), false, 0).quiet(context.out.is_quiet());
  let surroundings = context.surroundings.clone();
  Context { out, surroundings, log_level: Some(LogLevel::Warn), preset: None }
}

/// Does the work in a context without output, and shows on a terminal how far it is.
pub(super) fn during<T>(context: &Context, work: impl FnOnce(&Context) -> T) -> T {
  let mut quiet = silent(context);
  if !context.out.is_terminal() {
    return work(&quiet);
  }
  // `warn` has the warnings in the form of this command.
  quiet.log_level = Some(LogLevel::Error);
  let surroundings = context.surroundings.clone();
  let is_quiet = context.out.is_quiet();
  thread::scope(|scope| {
    // The thread ends when the sender is dropped, also by a panic.
    let (sender, ended) = channel();
    scope.spawn(move || watch(surroundings, is_quiet, &ended));
    let answer = work(&quiet);
    drop(sender);
    answer
  })
}

fn watch(surroundings: Surroundings, is_quiet: bool, ended: &Receiver<()>) {
  let out = Out::to(Box::new(io::sink()), false, 0);
  let context = Context { out, surroundings, log_level: None, preset: None };
  let mut progress = Progress::waiting(SystemClock.monotonic()).unless(is_quiet);
  while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
    let line = || {
      let ledger = context.ledger_to_read().unwrap_or_default();
      let daemon = DaemonState::find(&context, ledger.as_ref()).ok();
      let scan = daemon.and_then(|daemon| daemon.scan_progress());
      scan.unwrap_or_else(|| "memory is read and judged".to_owned())
    };
    progress.say(line, SystemClock.monotonic());
  }
}

/// Says on a terminal, where the scan has logged no warnings, what reduces protection after it.
pub(super) fn warn(context: &Context) -> Result<(), Failure> {
  if !context.out.is_terminal() {
    return Ok(());
  }
  let Some(ledger) = context.ledger_to_read()? else { return Ok(()) };
  for (key, json, _) in ledger.states()? {
    if matches!(key, StateKey::Degraded(_)) {
      let why = serde_json::from_str::<String>(&json).unwrap_or(json);
      complain(&format!("warning: {}\n", terminal(why)));
    }
  }
  Ok(())
}
