//! `memfw settle`: waits until every pending change has been processed.
#![forbid(unsafe_code)]

use std::time::Duration;

use clap::Args as ClapArgs;

use crate::{
  app::{context::Context, daemon_state::DaemonState, exit::Status},
  engine::settled,
  files::RealFs,
  os::{Clock as _, SystemClock, pause},
  terminal::{escape::terminal, failure::Failure, output::count},
};

/// How often the ledger is asked while waiting.
const POLL: Duration = Duration::from_millis(20);

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
  let ledger = context.ledger()?;
  let shapes = context.shapes(&context.config().unwrap_or_default().config);
  loop {
    let daemon = DaemonState::find(context, Some(&ledger))?;
    let roots = daemon.workspaces(context)?;
    let unsettled = settled::unsettled(&RealFs::default(), &ledger, &roots, &shapes)?;
    let ready = daemon.is_guarding() || daemon.pid.is_none();
    if unsettled.is_empty() && ready {
      return Ok(Status::Yes);
    }
    if daemon.pid.is_none() {
      return Err(
        Failure::unavailable(format!(
          "{} pending and no daemon is running",
          pending(unsettled.len())
        ))
        .hint("start it with `memfw run`, or process them with `memfw run --once`"),
      );
    }
    if SystemClock.monotonic().saturating_sub(start) >= patience {
      for one in unsettled.iter().take(5) {
        context.out.line(&format!("still pending: {}", terminal(one.to_string())))?;
      }
      return Ok(Status::No);
    }
    pause(POLL);
  }
}

/// So many changes, with their verb.
fn pending(n: usize) -> String {
  format!("{} {}", count(n as u64, "change"), if n == 1 { "is" } else { "are" })
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
