//! Attribution: asking the agent's records who wrote a text, after everything that is urgent.
#![forbid(unsafe_code)]

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  Daemon, DaemonError,
  attribution_worker::{self, Matter, Reply},
  queue::{Kind, Waiting},
};
use crate::engine::{Attributing, EngineError, Target, attribute::AttributionRequest};

/// The key of the degradation when the agent's records do not answer.
const KEY: &str = "agent-records";

impl Daemon {
  /// Makes the attribution worker send to `wake` for each answer; without it the loop waits for each
  /// answer.
  pub fn ask_elsewhere(&mut self, wake: UnboundedSender<()>) {
    self.attribution_worker.wake_by(wake);
  }

  /// After a pass: requests attribution of the file's new text.
  pub(super) fn request_attribution(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.engine.is_attribution_pending(target)? {
      let now = self.now();
      self.queue.attribute(target.clone(), now);
    }
    Ok(())
  }

  /// At a start: requests attribution of all text without an origin, which may be because the records
  /// could not be read.
  pub(super) fn request_all_attributions(&mut self) -> Result<(), EngineError> {
    let now = self.now();
    for target in self.engine.attributions_due()? {
      if self.directories.workspaces.contains(&target.root) {
        self.queue.attribute(target, now);
      }
    }
    Ok(())
  }

  /// Requests attribution again, after a pause, for files about which the records could not be read.
  pub(super) fn ask_again(&mut self, now: Duration) {
    for target in self.unread.take(now) {
      if self.directories.workspaces.contains(&target.root) {
        self.queue.attribute(target, now);
      } else {
        self.unread.ended(&target);
      }
    }
  }

  /// Starts an attribution request for one file; there is one request at a time.
  pub(super) fn attribute(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let asking = self.engine.asking(target);
    self.count_opens();
    let now = self.now();
    match asking? {
      None => self.queue.back_off(Kind::Attribute, target.clone(), waiting, now),
      Some(asking) => {
        let asking = Arc::new(asking);
        let question = attribution_worker::origin(self.engine.agent(), Arc::clone(&asking));
        self.attribution_worker.ask(target.clone(), Matter::Origin(waiting, asking), now, question);
      }
    }
    Ok(())
  }

  /// Handles an answer of the agent's records. Returns whether there was one.
  pub(super) fn take_records_answer(&mut self) -> Result<bool, DaemonError> {
    if self.attribution_worker.is_late(self.now()) {
      let why = "the agent's records have not answered a question for half a minute";
      self.report(|daemon| daemon.engine.degrade(KEY, why));
    }
    let Some((target, matter, reply)) = self.attribution_worker.take() else { return Ok(false) };
    self.report(|daemon| daemon.engine.recovered(KEY));
    if !self.directories.workspaces.contains(&target.root) {
      return Ok(true);
    }
    match matter {
      Matter::Index(asked) => {
        // Without an answer the question is asked again later.
        if let Reply::Index(holds) = reply {
          self.report(|daemon| {
            let now = daemon.now();
            let actions = daemon.notifications.index_told(target, asked, holds, now);
            daemon.carry_out(actions)
          });
        }
        Ok(true)
      }
      Matter::Origin(waiting, asking) => {
        let result = self.record_origin(&target, waiting, &asking, reply);
        self.finish_step(Kind::Attribute, target, waiting, result)
      }
    }
  }

  fn record_origin(
    &mut self,
    target: &Target,
    waiting: Waiting,
    asking: &AttributionRequest,
    reply: Reply,
  ) -> Result<(), EngineError> {
    let answers = match reply {
      Reply::Origin(answers) => answers,
      _ => asking.unreadable("their reader failed"),
    };
    let waited = self.now().saturating_sub(waiting.since);
    let outcome = self.engine.answered(target, asking, &answers, waited);
    self.count_opens();
    // A block whose known source leads to its redaction leaves the file only here, so the notifications
    // are started.
    if self.engine.take_departed() {
      self.notifications.stir();
    }
    let outcome = outcome?;
    let now = self.now();
    match outcome {
      Attributing::Later => self.queue.ask_again(target.clone(), waiting, now),
      Attributing::NotNow => self.queue.back_off(Kind::Attribute, target.clone(), waiting, now),
      Attributing::Done { reshape_due } => {
        self.unread.ended(target);
        self.request_reshape(target, reshape_due);
      }
      Attributing::Unreadable => {
        self.unread.failed(target, now);
        self.request_reshape(target, true);
      }
    }
    self.request_scores(target)
  }

  /// Requests the lazy pass, which waited for the origins that markers show.
  pub(super) fn request_reshape(&mut self, target: &Target, reshape_due: bool) {
    if reshape_due {
      let due = self.now() + self.engine.config().reshape_idle;
      self.queue.reshape(target.clone(), due);
    }
  }
}
