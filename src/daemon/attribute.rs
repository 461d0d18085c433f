//! Asking the agent's records who wrote what, behind everything that is urgent.
#![forbid(unsafe_code)]

use super::{Guard, queue::Waiting};
use crate::engine::{Attributing, EngineError, Target};

impl Guard {
  /// A file was looked at: what is new in it is asked about next.
  pub(super) fn ask_about(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.engine.is_attribution_pending(target)? {
      let now = self.now();
      self.queue.attribute(target.clone(), now);
    }
    Ok(())
  }

  /// At a start: what nobody could tell before, perhaps because the records could not be read.
  pub(super) fn ask_about_all(&mut self) -> Result<(), EngineError> {
    let now = self.now();
    for target in self.engine.attributions_due()? {
      if self.workspaces.contains(&target.root) {
        self.queue.attribute(target, now);
      }
    }
    Ok(())
  }

  /// Asks about one file.
  pub(super) fn attribute(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let waited = self.now().saturating_sub(waiting.since);
    let outcome = self.engine.attribute(target, waited);
    self.count_opens();
    let outcome = outcome?;
    let now = self.now();
    match outcome {
      Attributing::Later => self.queue.ask_again(target.clone(), waiting, now),
      Attributing::NotNow => {
        self.queue.back_off(super::queue::Kind::Attribute, target.clone(), waiting, now);
      }
      Attributing::Done { reshape_due } => self.mark_after(target, reshape_due),
      Attributing::Unreadable => self.mark_after(target, true),
    }
    Ok(())
  }

  /// Markers have waited until it was known what they have to say.
  fn mark_after(&mut self, target: &Target, reshape_due: bool) {
    if reshape_due {
      let due = self.now() + self.engine.config().reshape_idle;
      self.queue.reshape(target.clone(), due);
    }
  }
}
