//! Doing the work that is due, one piece at a time, and what the parts of the daemon want done.
#![forbid(unsafe_code)]

use std::{path::Path, sync::atomic::Ordering::SeqCst};

use super::{
  action::{Action, Silent, Surroundings},
  attribution_worker::{AttributionWorker, Matter, Reply},
  error::DaemonError,
  gate,
  gate_request::GateRequests,
  judge::Judge,
  model_worker::ModelWorker,
  notifications::Notifications,
  queue::{Kind, Waiting},
  rescan::Scan,
  skills::Skills,
  state::Daemon,
  summary::SummaryUntil,
};
use crate::{
  engine::{Consequence, EngineError, Event, EventKind, Outcome, Passed, Scored, Target},
  store::{NewEvent, PartKind},
};

impl Daemon {
  /// Does one piece of work that is due, for readers at the gate first. Returns `false` when none is due.
  pub(super) fn turn(&mut self) -> Result<bool, DaemonError> {
    let gate = |gate: &mut GateRequests, around: &Surroundings<'_>| Ok(gate.work(around));
    Ok(self.run_part(|daemon| &mut daemon.gate, gate)? || self.work()?)
  }

  /// Does one piece of work that is due. Returns `false` when none is due.
  pub fn work(&mut self) -> Result<bool, DaemonError> {
    let now = self.core.now();
    if self.core.outage.is_waiting(now) {
      return Ok(false);
    }
    self.rescans.take_over(&mut self.core);
    self.rescans.rescan_due(&mut self.core);
    self.steps.ask_again(&mut self.core, now);
    if self.rescans.poll(&mut self.core) {
      return Ok(true);
    }
    for (kind, target) in self.passes.open_files.take(now) {
      self.core.enqueue(kind, target);
    }
    // An answer of the records costs little, and would otherwise wait as long as files become dirty.
    let records =
      |worker: &mut AttributionWorker, around: &Surroundings<'_>| Ok(worker.work(around));
    if self.run_part(|daemon| &mut daemon.steps.attribution_worker, records)? {
      return Ok(true);
    }
    let Some((kind, target, waiting)) = self.core.queue.take(now, &self.steps.busy()) else {
      self.end_outage();
      self.conclude_first_scan();
      return Ok(
        self.run_part(|daemon| &mut daemon.steps.judge, Judge::work)?
          || self.steps.do_chore(&mut self.core)?
          || self.run_part(|daemon| &mut daemon.steps.notifications, Notifications::work)?
          || self.summarise()?
          || self.check_skills()?,
      );
    };
    // A large file that was interrupted continues alone.
    let is_new = kind == Kind::Urgent && waiting.tries == 0 && !self.core.queue.is_large(&target);
    if is_new && self.core.adoption.baseline.contains(&target) {
      return self.adopt(target, waiting);
    }
    self.run_step(kind, target, waiting)
  }

  /// Logs the summary of the past days, if that was not done. Returns whether there was something to log.
  pub(super) fn summarise(&mut self) -> Result<bool, DaemonError> {
    Ok(
      !self.core.is_starting()
        && self.run_part(|daemon| &mut daemon.summary, SummaryUntil::work)?,
    )
  }

  /// Records whether the gate is expected.
  pub(super) fn start_gate(&mut self) -> Result<(), DaemonError> {
    let actions = self.gate.start(self.core.engine.clock().now());
    self.carry_out(actions)
  }

  /// Closes the gate's listener.
  pub(super) fn stop_gate(&mut self) -> Result<(), DaemonError> {
    let actions = self.gate.stop();
    self.carry_out(actions)
  }

  /// Handles a connection or a message of the gate.
  pub(super) fn hear_gate(&mut self, said: gate::FromGate) -> Result<(), DaemonError> {
    self.passes.interrupts.gate_flag().store(false, SeqCst);
    let hear = |gate: &mut GateRequests, around: &Surroundings<'_>| Ok(gate.hear(said, around));
    self.run_part(|daemon| &mut daemon.gate, hear).map(drop)
  }

  /// Takes the scores of a file.
  pub(super) fn hear_scores(&mut self, scored: Scored) -> Result<(), DaemonError> {
    let hear =
      |worker: &mut ModelWorker, around: &Surroundings<'_>| Ok(worker.hear(scored, around));
    self.run_part(|daemon| &mut daemon.steps.model_worker, hear).map(drop)
  }

  /// Goes on with the checks of skills.
  fn check_skills(&mut self) -> Result<bool, DaemonError> {
    if !self.skills.is_due(self.core.now()) {
      return Ok(false);
    }
    let rules = self.core.engine.judge().rules_in_force();
    let check = |skills: &mut Skills, around: &Surroundings<'_>| skills.work(around, rules);
    self.run_part(|daemon| &mut daemon.skills, check)
  }

  /// Adopts a file of a first scan together with the next ones in the queue.
  fn adopt(&mut self, target: Target, waiting: Waiting) -> Result<bool, DaemonError> {
    let mut batch = vec![(target, waiting)];
    let baseline = &self.core.adoption.baseline;
    let (began, more) = (self.core.now(), self.first_scan.batch().saturating_sub(1));
    batch.extend(self.core.queue.take_more(began, more, |next| baseline.contains(next)));
    let targets: Vec<Target> = batch.iter().map(|(target, _)| target.clone()).collect();
    // If the batch fails, each file is processed alone and reports its own error.
    let adopted = self.core.engine.adopt(&targets).unwrap_or_else(|_| vec![None; targets.len()]);
    self.core.count_opens();
    self.first_scan.took(self.core.now().saturating_sub(began));
    for (index, (target, waiting)) in batch.into_iter().enumerate() {
      match adopted.get(index) {
        Some(Some(outcome)) => {
          if matches!(outcome, Outcome::Done { recheck: true, .. }) {
            let due = self.core.now() + self.core.engine.settles_in(&target)?;
            self.core.queue.dirty(target.clone(), due);
          }
          self.core.forget(&target);
        }
        Some(None) => {
          self.run_step(Kind::Urgent, target, waiting)?;
        }
        None => self.core.queue.dirty(target, waiting.due),
      }
    }
    Ok(true)
  }

  fn run_step(
    &mut self,
    kind: Kind,
    target: Target,
    waiting: Waiting,
  ) -> Result<bool, DaemonError> {
    let others = !self.core.watching.heard.is_empty() || self.core.queue.has_small(self.core.now());
    self.passes.interrupts.set(others, self.core.watching.watcher.descriptor());
    // When the other installation has ended, the takeover scans such files again.
    match self.core.may_write(&target.root) {
      Ok(true) => {}
      Ok(false) => {
        self.core.forget(&target);
        return Ok(true);
      }
      Err(error) => return self.finish_step(kind, target, waiting, Err(error)),
    }
    let (core, steps) = (&mut self.core, &mut self.steps);
    let result = match kind {
      Kind::Urgent => self.passes.urgent(core, steps, &target, waiting),
      Kind::Attribute => steps.attribute(core, &target, waiting),
      Kind::Scored | Kind::Model => steps.read(core, &target, waiting),
      Kind::Judge => steps.consult(core, &target, waiting),
      Kind::Lazy => self.passes.lazy(core, &target, waiting),
    };
    self.finish_step(kind, target, waiting, result)
  }

  /// Handles the result of a piece of work: requeues the file, or reports the error.
  pub(super) fn finish_step(
    &mut self,
    kind: Kind,
    target: Target,
    waiting: Waiting,
    result: Result<(), EngineError>,
  ) -> Result<bool, DaemonError> {
    match result {
      Ok(()) => {
        self.core.outage.unblock(&target);
        self.end_outage();
      }
      // The next turn continues where the pass was interrupted.
      Err(EngineError::Preempted) => {
        let now = self.core.now();
        match kind {
          Kind::Urgent => self.core.queue.give_way(target, waiting),
          // Dirty files come before it.
          Kind::Scored | Kind::Model => self.core.queue.scored(target, now),
          _ => self.core.queue.back_off(kind, target, waiting, now),
        }
      }
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // If the directory is gone, its files are found again when it is back.
      Err(EngineError::Root(_)) => {
        self.core.engine.files().forget_root(&target.root);
        self.core.outage.unblock(&target);
        self.core.adoption.first.remove(&target);
        self.core.report(|core| self.rescans.scan(core, &target.root, Scan::Again));
      }
      Err(EngineError::Store(error)) if error.is_outage() => {
        self.core.outage.block(&target);
        self.core.begin_outage(&error);
        let now = self.core.now();
        self.core.queue.back_off(kind, target, waiting, now);
      }
      Err(error) => {
        let part = target.part(PartKind::File);
        let text = error.to_string();
        if kind == Kind::Lazy && matches!(error, EngineError::Fs(_)) {
          let now = self.core.now();
          self.passes.unwritten.failed(&target, now);
        }
        self.core.report(|core| core.engine.degrade(part, &text));
        self.core.adoption.first.remove(&target);
        let now = self.core.now();
        self.core.queue.back_off(kind, target, waiting, now);
      }
    }
    Ok(true)
  }

  /// Ends an outage in which no file is blocked any more.
  fn end_outage(&mut self) {
    if self.core.end_outage() {
      self.rescans.rescan_later(&self.core, None);
    }
  }

  /// Checks one file out of turn, for a reader that waits at the gate.
  pub(super) fn check_for_gate(&mut self, path: &Path) -> Result<Passed, DaemonError> {
    let Some(target) = self.core.directories.target(path) else { return Ok(Passed::Never) };
    let now = self.core.now();
    let mut answer = self.core.engine.passed(&target);
    if matches!(answer, Ok(Passed::NotYet)) {
      self.core.queue.hurry(target.clone(), now);
      self.work()?;
      answer = self.core.engine.passed(&target);
    }
    self.core.count_opens();
    match answer {
      Err(error) if error.consequence() == Consequence::Stop => Err(error.into()),
      // The pass of the file meets this error again and reports it.
      Err(_) => {
        self.core.queue.dirty(target, now);
        Ok(Passed::NotYet)
      }
      Ok(answer) => Ok(answer),
    }
  }

  /// Lets a part decide, and does what it wants done. Returns whether it wanted anything. What a part reads
  /// does not include the part itself, so that it can be taken out meanwhile.
  pub(super) fn run_part<P: Default>(
    &mut self,
    part: fn(&mut Self) -> &mut P,
    step: impl FnOnce(&mut P, &Surroundings<'_>) -> Result<Vec<Action>, EngineError>,
  ) -> Result<bool, DaemonError> {
    let mut taken = std::mem::take(part(self));
    let actions = step(&mut taken, &self.surroundings());
    *part(self) = taken;
    let mut found = vec![];
    self.core.report(|_| actions.map(|actions| found = actions));
    let is_any = !found.is_empty();
    self.carry_out(found)?;
    Ok(is_any)
  }

  /// Does what a part wants done. An error of the ledger that a later try may not meet is reported here; only
  /// one that ends the daemon is returned.
  pub(super) fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), DaemonError> {
    for action in actions {
      self.carry_out_one(action)?;
    }
    Ok(())
  }

  fn carry_out_one(&mut self, action: Action) -> Result<(), DaemonError> {
    match action {
      Action::Degrade(part, why) => self.core.report(|core| core.engine.degrade(part, &why)),
      Action::Recover(part) => self.core.report(|core| core.engine.recovered(part)),
      Action::Store(key, json) => self.core.report(|core| {
        let at = core.engine.clock().now();
        Ok(core.engine.ledger_mut().set_state(&key, &json, at)?)
      }),
      Action::Remove(key) => {
        self.core.report(|core| Ok(core.engine.ledger_mut().remove_state(&key)?));
      }
      Action::Tell(kind, text) => {
        self.core.report(|core| core.engine.tell(Event::new(kind).detail(text)));
      }
      Action::RecordSkill(found, events) => self.core.report(|core| {
        let at = core.engine.clock().now();
        let rows: Vec<NewEvent> = events.iter().map(Event::row).collect();
        core.engine.ledger_mut().record_skill(&found, &rows, at)?;
        for event in &events {
          event.log(None);
        }
        Ok(())
      }),
      Action::LoseSkill(dir) => self.core.report(|core| {
        let at = core.engine.clock().now();
        let event = Event::new(EventKind::SkillGone).path(&dir);
        core.engine.ledger_mut().lose_skill(&dir, &[event.row()], at)?;
        event.log(None);
        Ok(())
      }),
      Action::Queue(kind, target) => self.core.enqueue_guarded(kind, target),
      Action::AskIndex(target, is_asked, texts) => {
        let (agent, of, now) = (self.core.engine.agent(), target.clone(), self.core.now());
        self.steps.attribution_worker.ask(target, Matter::Index(is_asked), now, move || {
          let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
          Reply::Index(agent.still_indexed(&of.root, &of.rel, &texts))
        });
      }
      Action::UseIndexAnswer(target, is_asked, holds) => {
        let now = self.core.now();
        let actions = self.steps.notifications.index_answered(target, is_asked, holds, now);
        self.carry_out(actions)?;
      }
      Action::RecordOrigin(target, waiting, request, answers) => {
        let result = self.steps.record_origin(&mut self.core, &target, waiting, &request, answers);
        self.finish_step(Kind::Attribute, target, waiting, result)?;
      }
      Action::NextQuestion => self.core.report(|core| {
        let turn = core.engine.judge_queue().next_question();
        let (at, now) = (core.engine.clock().now(), core.now());
        self.steps.judge.take_turn(turn, at, now)
      }),
      Action::RecordAnswer(request, answer) => self.core.report(|core| {
        match core.engine.judge_queue().take_answer(&request, &answer)? {
          Ok((_, files)) => {
            for target in files {
              core.enqueue_guarded(Kind::Judge, target);
            }
          }
          Err(why) => tracing::debug!(target: "memfw", error = %why, "an answer does not count"),
        }
        Ok(())
      }),
      Action::RecordSilence(hash, silent) => self.core.report(|core| {
        let mut queue = core.engine.judge_queue();
        match silent {
          Silent::Unreached => queue.not_answered(hash, false),
          Silent::Reached => queue.not_answered(hash, true),
          Silent::ToThis => queue.no_answer(hash),
        }
      }),
      Action::WakeQuestions => self.core.report(|core| core.engine.judge_queue().wake()),
      Action::CheckForGate(path) => {
        let answer = self.check_for_gate(&path)?;
        let now = self.core.now();
        let actions = self.gate.answered(answer, now);
        self.carry_out(actions)?;
      }
    }
    Ok(())
  }
}
