//! Versions that are kept, and old records that are taken away, when nothing else is due.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{DaemonError, Guard};
use crate::engine::Consequence;

/// How long after old records were looked for they are looked for again.
const DAY: Duration = Duration::from_hours(24);

impl Guard {
  /// Keeps one version that is due, or takes old records away; `false` when nothing is to be done.
  pub(super) fn keep_one(&mut self) -> Result<bool, DaemonError> {
    let Some(target) = self.unkept.pop() else { return Ok(self.retain_daily()) };
    match self.engine.keep_present(&target) {
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // The file is guarded all the same, and its next change is kept.
      Err(error) => tracing::debug!(target: "memfw", %error, "a version is not kept"),
      Ok(()) => {}
    }
    self.count_opens();
    Ok(true)
  }

  /// Takes old records away, once a day, while something else has woken us: there is no timer for it.
  fn retain_daily(&mut self) -> bool {
    let now = self.now();
    if self.retained_at.is_some_and(|at| now.saturating_sub(at) < DAY) {
      return false;
    }
    let mut more = false;
    self.report(|guard| {
      more = guard.engine.retain()?;
      Ok(())
    });
    if !more {
      self.retained_at = Some(now);
    }
    more
  }
}
