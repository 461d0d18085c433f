//! The steps of a file after its urgent pass: attribution, reading by the model, and the judge. Each of them asks
//! for the next one.
#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc, time::Duration};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  Daemon, DaemonError,
  attribution_worker::{self, Matter, Reply},
  queue::{Kind, Waiting},
};
use crate::{
  engine::{
    Attributing, Consequence, Consulting, EngineError, Passed, Reading, Target,
    attribute::AttributionRequest, pending,
  },
  store::Pending,
};

impl Daemon {
  /// Makes the attribution worker send to `wake` for each answer; without it the loop waits for each
  /// answer.
  pub fn ask_elsewhere(&mut self, wake: UnboundedSender<()>) {
    self.attribution_worker.wake_by(wake);
  }

  /// After a pass: requests attribution of the file's new text.
  pub(super) fn request_attribution(&mut self, target: &Target) -> Result<(), EngineError> {
    if pending::is_pending(self.engine.ledger(), target, Pending::ATTRIBUTE)? {
      let now = self.now();
      self.queue.attribute(target.clone(), now);
    }
    Ok(())
  }

  /// At a start: requests attribution of all text without an origin, which may be because the records
  /// could not be read.
  pub(super) fn request_all_attributions(&mut self) -> Result<(), EngineError> {
    let now = self.now();
    for target in pending::attributions(self.engine.ledger())? {
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

  /// Records the answer of the agent's records about a file.
  pub(super) fn record_origin(
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

  /// After a pass: requests scores for new text, once its origin is known.
  pub(super) fn request_scores(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.model_worker.is_wanted(self.engine.ledger(), target)? {
      let now = self.now();
      if self.is_starting() {
        self.queue.read(target.clone(), now);
      } else {
        self.queue.read_first(target.clone(), now);
      }
      return Ok(());
    }
    self.consult_about(target)
  }

  /// At a start, and after an adoption: requests scores for all text without one.
  pub(super) fn request_all_scores(&mut self) -> Result<(), EngineError> {
    for target in pending::scores(self.engine.ledger())? {
      if self.directories.workspaces.contains(&target.root)
        && self.model_worker.is_wanted(self.engine.ledger(), &target)?
      {
        let now = self.now();
        self.queue.read(target, now);
      }
    }
    Ok(())
  }

  /// Gives the texts of one file to the thread, or records their scores.
  pub(super) fn read(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let Some(model) = self.engine.model() else { return Ok(()) };
    if self.model_worker.is_reading(target) {
      return Ok(());
    }
    let reading = match self.model_worker.take_back(target) {
      None => self.engine.scoring(target),
      Some(scored) => {
        let reading = self.engine.scored(&scored);
        if reading.is_err() {
          // The scores are recorded when the ledger can be written again.
          self.model_worker.keep_back(target, scored);
        }
        if self.engine.take_departed() {
          self.notifications.stir();
        }
        reading
      }
    };
    self.count_opens();
    match reading? {
      Reading::Nothing { reshape_due } => {
        self.request_reshape(target, reshape_due);
        self.consult_about(target)?;
      }
      Reading::Texts(scoring) => self.model_worker.give(model, scoring),
      // The attribution comes first and requests the scores afterwards.
      Reading::NotNow if pending::is_pending(self.engine.ledger(), target, Pending::ATTRIBUTE)? => {
      }
      Reading::NotNow => {
        let now = self.now();
        self.queue.back_off(Kind::Model, target.clone(), waiting, now);
      }
    }
    Ok(())
  }

  /// After a pass: makes the queue consider the judge for new text of a file.
  pub(super) fn consult_about(&mut self, target: &Target) -> Result<(), EngineError> {
    if pending::is_pending(self.engine.ledger(), target, Pending::JUDGE)? {
      let now = self.now();
      self.queue.consult(target.clone(), now);
    }
    Ok(())
  }

  /// At a start, and now and then: considers the judge for all files that need it, also because of other
  /// processes.
  pub(super) fn consult_all(&mut self) -> Result<(), EngineError> {
    for target in pending::judgements(self.engine.ledger())? {
      self.enqueue_guarded(Kind::Judge, target);
    }
    Ok(())
  }

  /// Records questions about one file, and carries out what answers lead to.
  pub(super) fn consult(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let consulting = self.engine.consult(target);
    self.count_opens();
    // A block that is redacted because of an answer leaves the file only here, so the notifications are
    // started.
    if self.engine.take_departed() {
      self.notifications.stir();
    }
    let now = self.now();
    self.judge.stir(now);
    match consulting? {
      Consulting::Done { reshape_due } => self.request_reshape(target, reshape_due),
      // The pending attribution or model score brings the file back here.
      Consulting::NotNow
        if pending::is_pending(self.engine.ledger(), target, Pending::ATTRIBUTE)?
          || pending::is_pending(self.engine.ledger(), target, Pending::MODEL)? => {}
      Consulting::NotNow => self.queue.back_off(Kind::Judge, target.clone(), waiting, now),
    }
    Ok(())
  }

  /// Checks one file out of turn, for a reader that waits at the gate.
  pub(super) fn check_for_gate(&mut self, path: &Path) -> Result<Passed, DaemonError> {
    let Some(target) = self.target(path) else { return Ok(Passed::Never) };
    let now = self.now();
    let mut answer = self.engine.passed(&target);
    if matches!(answer, Ok(Passed::NotYet)) {
      self.queue.hurry(target.clone(), now);
      self.work()?;
      answer = self.engine.passed(&target);
    }
    self.count_opens();
    match answer {
      Err(error) if error.consequence() == Consequence::Stop => Err(error.into()),
      // The pass of the file meets this error again and reports it.
      Err(_) => {
        self.queue.dirty(target, now);
        Ok(Passed::NotYet)
      }
      Ok(answer) => Ok(answer),
    }
  }
}
