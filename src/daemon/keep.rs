//! Versions that are kept when nothing else is due.
#![forbid(unsafe_code)]

use super::{DaemonError, Guard};
use crate::engine::Consequence;

impl Guard {
  /// Keeps one version that is due; `false` when none is.
  pub(super) fn keep_one(&mut self) -> Result<bool, DaemonError> {
    let Some(target) = self.unkept.pop() else { return Ok(false) };
    match self.engine.keep_present(&target) {
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // The file is guarded all the same, and its next change is kept.
      Err(error) => tracing::debug!(target: "memfw", %error, "a version is not kept"),
      Ok(()) => {}
    }
    self.count_opens();
    Ok(true)
  }
}
