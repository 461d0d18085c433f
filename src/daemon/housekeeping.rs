//! Housekeeping: storing versions and pruning old records when nothing else is due.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{Daemon, DaemonError};
use crate::engine::{Consequence, Target};

/// The time between two prunings (a choice).
const DAY: Duration = Duration::from_hours(24);

/// What is to be done when nothing else is due.
#[derive(Default)]
pub(super) struct Housekeeping {
  /// Files whose content is to be stored as a version.
  pub(super) due_versions: Vec<Target>,
  /// When old records were last pruned.
  pruned_at: Option<Duration>,
}

impl Daemon {
  /// Stores one version that is due, or prunes old records. Returns `false` if there was nothing to do.
  pub(super) fn keep_one(&mut self) -> Result<bool, DaemonError> {
    let Some(target) = self.housekeeping.due_versions.pop() else { return Ok(self.retain_daily()) };
    match self.engine.keep_present(&target) {
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // The file is guarded anyway, and its next change stores a version.
      Err(error) => tracing::debug!(target: "memfw", %error, "a version is not kept"),
      Ok(()) => {}
    }
    self.count_opens();
    Ok(true)
  }

  /// Prunes old records once a day, when something else has woken the process: there is no timer for it.
  fn retain_daily(&mut self) -> bool {
    let now = self.now();
    if self.housekeeping.pruned_at.is_some_and(|at| now.saturating_sub(at) < DAY) {
      return false;
    }
    let mut more = false;
    self.report(|daemon| {
      more = daemon.engine.retain()?;
      Ok(())
    });
    if !more {
      self.housekeeping.pruned_at = Some(now);
    }
    more
  }
}
