//! The steps of a file after its urgent pass: attribution, reading by the model, and the judge. Each of them asks
//! for the next one.
#![forbid(unsafe_code)]

use std::{sync::Arc, time::Duration};

use super::{
  action::Action,
  asked_again::{AskedAgain, INFERRED, UNREAD},
  attribution_worker::{self, AttributionWorker, Matter},
  core::Core,
  error::DaemonError,
  housekeeping::Housekeeping,
  judge::Judge,
  model_worker::ModelWorker,
  notifications::{Helpers, Notifications},
  queue::{Kind, Waiting},
};
use crate::{
  engine::{
    Attributing, Consulting, EngineError, Reading, Target, attribution_request::AttributionRequest,
    pending,
  },
  provenance::Answer,
  store::Pending,
};

/// What does the steps of a file after its pass, and what follows them outside of the file.
pub(super) struct Steps {
  /// The thread that asks the agent's records.
  pub(super) attribution_worker: AttributionWorker,
  /// Files about which the agent's records could not be read.
  pub(super) unread: AskedAgain<Target>,
  /// Files with young text whose origin is only inferred: the record of the write may come late.
  pub(super) inferred: AskedAgain<Target>,
  /// The thread on which the model scores texts.
  pub(super) model_worker: ModelWorker,
  /// The judge (layer 3).
  pub(super) judge: Judge,
  /// What follows a quarantine outside of the file.
  pub(super) notifications: Notifications,
  pub(super) housekeeping: Housekeeping,
}

impl Steps {
  /// Nothing is asked so far; these programs can be run.
  pub(super) fn with(helpers: Helpers) -> Self {
    Self {
      attribution_worker: AttributionWorker::default(),
      unread: AskedAgain::at(&UNREAD),
      inferred: AskedAgain::at(&INFERRED),
      model_worker: ModelWorker::default(),
      judge: Judge::default(),
      notifications: Notifications::new(helpers),
      housekeeping: Housekeeping::default(),
    }
  }

  /// Goes on with other programs: those that tell people, renew an index, or ask the judge.
  pub(super) fn set_helpers(
    &mut self,
    core: &mut Core,
    helpers: Helpers,
  ) -> Result<(), EngineError> {
    core.engine.judge_queue().start()?;
    let (via, now) = (helpers.judge.clone(), core.now());
    let mut actions = self.judge.configure(via, now);
    actions.push(self.notifications.configure(helpers));
    for action in actions {
      match action {
        Action::Degrade(part, why) => core.engine.degrade(part, &why)?,
        Action::Recover(part) => core.engine.recovered(part)?,
        _ => {}
      }
    }
    Ok(())
  }

  /// The kinds of work for which the queue must hand out nothing, because their thread is busy.
  pub(super) fn busy(&self) -> Vec<Kind> {
    let asker = self.attribution_worker.is_busy().then_some(Kind::Attribute);
    let scorer = self.model_worker.is_busy().then_some(Kind::Model);
    asker.into_iter().chain(scorer).collect()
  }

  /// Whether no step is in progress.
  pub(super) fn is_idle(&self) -> bool {
    self.housekeeping.next_due(Duration::ZERO).is_none()
      && self.model_worker.is_idle()
      && !self.attribution_worker.is_busy()
  }

  /// How long until one of them has something to do; the notifications are apart.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let versions = self.housekeeping.next_due(now);
    let attribution = self.attribution_worker.next_due(now);
    let again = self.unread.next_due(now).into_iter().chain(self.inferred.next_due(now)).min();
    [versions, attribution, again, self.judge.next_due(now)].into_iter().flatten().min()
  }

  /// Requests attribution again, after a pause, for files about which the records could not be read, or
  /// did not explain young text.
  pub(super) fn ask_again(&mut self, core: &mut Core, now: Duration) {
    for retries in [&mut self.unread, &mut self.inferred] {
      for target in retries.take(now) {
        if core.directories.workspaces.contains(&target.root) {
          core.queue.attribute(target, now);
        } else {
          retries.ended(&target);
        }
      }
    }
  }

  /// Does one chore, and tells people what it finds. Returns `false` if there was none.
  pub(super) fn do_chore(&mut self, core: &mut Core) -> Result<bool, DaemonError> {
    let Self { housekeeping, notifications, .. } = self;
    housekeeping.work(core, || notifications.stir_flags())
  }

  /// Starts an attribution request for one file; there is one request at a time.
  pub(super) fn attribute(
    &mut self,
    core: &mut Core,
    target: &Target,
    waiting: Waiting,
  ) -> Result<(), EngineError> {
    let request = core.engine.attribution_request(target);
    core.count_opens();
    let now = core.now();
    match request? {
      None => core.queue.back_off(Kind::Attribute, target.clone(), waiting, now),
      Some(request) => {
        let request = Arc::new(request);
        let question = attribution_worker::origin(core.engine.agent(), Arc::clone(&request));
        self.attribution_worker.ask(
          target.clone(),
          Matter::Origin(waiting, request),
          now,
          question,
        );
      }
    }
    Ok(())
  }

  /// Records the answer of the agent's records about a file.
  pub(super) fn record_origin(
    &mut self,
    core: &mut Core,
    target: &Target,
    waiting: Waiting,
    request: &AttributionRequest,
    answers: Option<Vec<Answer>>,
  ) -> Result<(), EngineError> {
    let answers = answers.unwrap_or_else(|| request.unreadable("their reader failed"));
    let waited = core.now().saturating_sub(waiting.since);
    let outcome = core.engine.answered(target, request, &answers, waited);
    core.count_opens();
    // A block whose known source leads to its redaction leaves the file only here, so the notifications
    // are started.
    if core.engine.take_departed() {
      self.notifications.stir();
    }
    let outcome = outcome?;
    self.notifications.stir_flags();
    let now = core.now();
    match outcome {
      Attributing::Later => core.queue.ask_again(target.clone(), waiting, now),
      Attributing::NotNow => core.queue.back_off(Kind::Attribute, target.clone(), waiting, now),
      Attributing::Done { reshape_due, is_inferred } => {
        self.unread.ended(target);
        // New text starts the pauses from the first one.
        if request.has_new() || !is_inferred {
          self.inferred.ended(target);
        }
        if is_inferred {
          self.inferred.failed(target, now);
        }
        request_reshape(core, target, reshape_due);
      }
      Attributing::Unreadable => {
        self.unread.failed(target, now);
        request_reshape(core, target, true);
      }
    }
    self.request_scores(core, target)
  }

  /// After a pass: requests scores for new text, once its origin is known.
  pub(super) fn request_scores(
    &mut self,
    core: &mut Core,
    target: &Target,
  ) -> Result<(), EngineError> {
    if self.model_worker.is_wanted(core.engine.ledger(), target)? {
      let now = core.now();
      if core.is_starting() {
        core.queue.read(target.clone(), now);
      } else {
        core.queue.read_first(target.clone(), now);
      }
      return Ok(());
    }
    consult_about(core, target)
  }

  /// At a start, and after an adoption: requests scores for all text without one.
  pub(super) fn request_all_scores(&mut self, core: &mut Core) -> Result<(), EngineError> {
    for target in pending::scores(core.engine.ledger())? {
      if core.directories.workspaces.contains(&target.root)
        && self.model_worker.is_wanted(core.engine.ledger(), &target)?
      {
        let now = core.now();
        core.queue.read(target, now);
      }
    }
    Ok(())
  }

  /// Gives the texts of one file to the thread, or records their scores.
  pub(super) fn read(
    &mut self,
    core: &mut Core,
    target: &Target,
    waiting: Waiting,
  ) -> Result<(), EngineError> {
    let Some(model) = core.engine.model() else { return Ok(()) };
    if self.model_worker.is_reading(target) {
      return Ok(());
    }
    let reading = match self.model_worker.take_back(target) {
      None => core.engine.scoring(target),
      Some(mut scored) => {
        let reading = core.engine.scored(&mut scored);
        if reading.is_err() {
          // The scores are recorded when the ledger can be written again, or when no smaller file is due.
          self.model_worker.keep_back(target, scored);
        }
        if core.engine.take_departed() {
          self.notifications.stir();
        }
        self.notifications.stir_flags();
        reading
      }
    };
    core.count_opens();
    match reading? {
      Reading::Nothing { reshape_due } => {
        request_reshape(core, target, reshape_due);
        consult_about(core, target)?;
      }
      Reading::Texts(scoring) => self.model_worker.give(model, scoring),
      // The attribution comes first and requests the scores afterwards.
      Reading::NotNow if pending::is_pending(core.engine.ledger(), target, Pending::ATTRIBUTE)? => {
      }
      Reading::NotNow => {
        let now = core.now();
        core.queue.back_off(Kind::Model, target.clone(), waiting, now);
      }
    }
    Ok(())
  }

  /// Records questions about one file, and carries out what answers lead to.
  pub(super) fn consult(
    &mut self,
    core: &mut Core,
    target: &Target,
    waiting: Waiting,
  ) -> Result<(), EngineError> {
    let consulting = core.engine.consult(target);
    core.count_opens();
    // A block that is redacted because of an answer leaves the file only here, so the notifications are
    // started.
    if core.engine.take_departed() {
      self.notifications.stir();
    }
    let now = core.now();
    self.judge.stir(now);
    match consulting? {
      Consulting::Done { reshape_due } => request_reshape(core, target, reshape_due),
      // The pending attribution or model score brings the file back here.
      Consulting::NotNow
        if pending::is_pending(core.engine.ledger(), target, Pending::ATTRIBUTE)?
          || pending::is_pending(core.engine.ledger(), target, Pending::MODEL)? => {}
      Consulting::NotNow => core.queue.back_off(Kind::Judge, target.clone(), waiting, now),
    }
    Ok(())
  }
}

/// After a pass: requests attribution of the file's new text.
pub(super) fn request_attribution(core: &mut Core, target: &Target) -> Result<(), EngineError> {
  if pending::is_pending(core.engine.ledger(), target, Pending::ATTRIBUTE)? {
    let now = core.now();
    core.queue.attribute(target.clone(), now);
  }
  Ok(())
}

/// At a start: requests attribution of all text without an origin, which may be because the records
/// could not be read.
pub(super) fn request_all_attributions(core: &mut Core) -> Result<(), EngineError> {
  let now = core.now();
  let mut targets = pending::attributions(core.engine.ledger())?;
  targets.extend(core.engine.inferred_files()?);
  for target in targets {
    if core.directories.workspaces.contains(&target.root) {
      core.queue.attribute(target, now);
    }
  }
  Ok(())
}

/// Requests the lazy pass, which waited for the origins that markers show.
pub(super) fn request_reshape(core: &mut Core, target: &Target, reshape_due: bool) {
  if reshape_due {
    let due = core.now() + core.engine.config().reshape_idle;
    core.queue.reshape(target.clone(), due);
  }
}

/// After a pass: makes the queue consider the judge for new text of a file.
pub(super) fn consult_about(core: &mut Core, target: &Target) -> Result<(), EngineError> {
  if pending::is_pending(core.engine.ledger(), target, Pending::JUDGE)? {
    let now = core.now();
    core.queue.consult(target.clone(), now);
  }
  Ok(())
}

/// At a start, and now and then: considers the judge for all files that need it, also because of other
/// processes.
pub(super) fn consult_all(core: &mut Core) -> Result<(), EngineError> {
  for target in pending::judgements(core.engine.ledger())? {
    core.enqueue_guarded(Kind::Judge, target);
  }
  Ok(())
}
