//! `memfw settle`: waits until every pending change has been processed.
#![forbid(unsafe_code)]

use std::{path::PathBuf, time::Duration};

use clap::Args as ClapArgs;

use crate::{
  app::{context::Context, daemon_state::DaemonState, exit::Status},
  engine::settled,
  files::RealFs,
  os::{Clock as _, DaemonLock, Shown, SystemClock, pause},
  plural::choose,
  store::{FileStatus, Ledger},
  terminal::{escape::terminal, failure::Failure, output::count, progress::Progress},
};

/// How often the ledger is asked while waiting.
const POLL: Duration = Duration::from_millis(20);

/// How long `settle` waits for a daemon that was just started and does not hold its lock yet.
const START: Duration = Duration::from_secs(2);

/// `memfw settle`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw settle 30")]
pub struct SettleArgs {
  /// Give up after SECS seconds
  #[arg(value_name = "SECS", default_value_t = 60)]
  pub secs: u32,
}

/// Carries the command out.
pub fn run(context: &Context, args: SettleArgs) -> Result<Status, Failure> {
  let patience = Duration::from_secs(u64::from(args.secs));
  let start = SystemClock.monotonic();
  let is_starting = |context: &Context| {
    let holder = context.home().map(|home| DaemonLock::holder(&home.data));
    let waited = SystemClock.monotonic().saturating_sub(start);
    matches!(holder, Ok(Ok(Some(_)))) && waited < patience
  };
  let mut progress = Progress::waiting(start).unless(context.out.is_quiet());
  // A daemon that was just started may have no ledger yet.
  let ledger = loop {
    match context.ledger() {
      Err(_) if is_starting(context) => pause(POLL),
      answer => break answer?,
    }
  };
  let shapes = context.shapes(&context.config().unwrap_or_default().config);
  loop {
    let daemon = DaemonState::find(context, Some(&ledger))?;
    let roots = known(context, &daemon, &ledger)?;
    let unsettled = settled::unsettled(&RealFs::default(), &ledger, &roots, &shapes)?;
    let ready = daemon.is_guarding() || daemon.pid.is_none();
    if unsettled.is_empty() && ready {
      return Ok(Status::Yes);
    }
    let now = SystemClock.monotonic();
    let waited = now.saturating_sub(start);
    if daemon.pid.is_none() && waited >= patience.min(START) {
      progress.clear();
      let places = roots.iter().filter(|root| !shapes.is_elsewhere(root));
      let again = places.fold("memfw run --once".to_owned(), |command, root| {
        format!("{command} --workspace {}", Shown(root).to_string().trim_matches('`'))
      });
      return Err(
        Failure::unavailable(format!(
          "{} pending and no daemon is running",
          pending(unsettled.len())
        ))
        .hint(format!(
          "start it with `{}`, or process them with `{again}`",
          super::doctor::mending::start(context)
        )),
      );
    }
    if waited >= patience {
      progress.clear();
      for one in unsettled.iter().take(5) {
        context.out.line(&format!("still pending: {}", terminal(one.to_string())))?;
      }
      return Ok(Status::No);
    }
    progress.say(|| waits_for(&daemon, unsettled.len()), now);
    pause(POLL);
  }
}

/// What `settle` waits for.
fn waits_for(daemon: &DaemonState, n_pending: usize) -> String {
  match daemon.scan_progress() {
    Some(progress) => progress,
    None => format!("{} pending", pending(n_pending)),
  }
}

/// The workspaces to settle: those of the daemon, or all that the ledger knows while no daemon runs.
fn known(
  context: &Context,
  daemon: &DaemonState,
  ledger: &Ledger,
) -> Result<Vec<PathBuf>, Failure> {
  let mut roots = daemon.workspaces(context)?;
  if daemon.pid.is_none() {
    for row in ledger.files()? {
      if row.status != FileStatus::Missing && !roots.contains(&row.workspace) {
        roots.push(row.workspace);
      }
    }
  }
  Ok(roots)
}

/// A number of changes, with its verb.
fn pending(n: usize) -> String {
  let n = n as u64;
  format!("{} {}", count(n, "change"), choose(n, "is", "are"))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn one_change_is_pending_and_two_are() {
    assert_eq!(pending(1), "1 change is");
    assert_eq!(pending(2), "2 changes are");
  }
}
