//! `memfw status --wait`: until the daemon has finished its first scan.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::{
  app::{context::Context, daemon_state::DaemonState, exit::Status},
  os::{Clock as _, SystemClock, pause},
  terminal::{failure::Failure, progress::Progress},
};

/// How often the ledger is asked while waiting.
const POLL: Duration = Duration::from_millis(20);

/// Waits until the running daemon has finished its first scan.
pub(in crate::command) fn run(context: &Context, patience: Duration) -> Result<Status, Failure> {
  let start = SystemClock.monotonic();
  let mut progress = Progress::waiting(start).unless(context.out.is_quiet());
  loop {
    let ledger = context.ledger_if_there()?;
    let daemon = DaemonState::find(context, ledger.as_ref())?;
    if daemon.is_guarding() {
      return Ok(Status::Yes);
    }
    let now = SystemClock.monotonic();
    if now.saturating_sub(start) >= patience {
      return Ok(Status::No);
    }
    progress.say(
      || {
        daemon.scan_progress().unwrap_or_else(|| match daemon.pid {
          Some(_) => "the daemon is still starting".to_owned(),
          None => "the daemon is not running yet".to_owned(),
        })
      },
      now,
    );
    pause(POLL);
  }
}
