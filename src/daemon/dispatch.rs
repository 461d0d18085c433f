//! Doing the work that is due: a file is passed, adopted or reshaped, and the outcome says when it is
//! due again.
#![forbid(unsafe_code)]

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use super::{
  Daemon, DaemonError,
  action::Surroundings,
  attribution_worker::AttributionWorker,
  exposure::Exposure,
  judge::Judge,
  notifications::Notifications,
  queue::{Kind, Waiting},
  rescan::Scan,
};
use crate::{
  engine::{
    Consequence, EngineError, Hint, LazyOutcome, Outcome, RACY, Target, UNLEASED_AFTER,
    VERIFIED_AFTER, adopt::BATCH, pending,
  },
  os::pause,
  store::{FileStatus, Pending},
};

/// First pause between two tries for a lease within one turn, doubled each time. Most writers close
/// right after their last write, whose event comes first; the loop's timers are no finer than a
/// millisecond, so the first tries are made here.
const LEASE_PAUSE: Duration = Duration::from_micros(50);
/// Tries for a lease to write markers, within about a second; a file that is open for longer joins the
/// open files.
const MAX_BUSY: u32 = 8;
/// How often in a row a file may change during its pass before it is left for the next turn.
const MAX_CHANGED: u32 = 16;

impl Daemon {
  /// Does one piece of work that is due. Returns `false` when none is due.
  pub fn work(&mut self) -> Result<bool, DaemonError> {
    let now = self.now();
    if self.outage.is_waiting(now) {
      return Ok(false);
    }
    self.take_over();
    self.directories.rescans.extend(self.directories.retries.take(now));
    self.rescan_due();
    self.ask_again(now);
    if self.poll() {
      return Ok(true);
    }
    for (kind, target) in self.open_files.take(now) {
      self.enqueue(kind, target);
    }
    // An answer of the records costs little, and would otherwise wait as long as files become dirty.
    let records =
      |worker: &mut AttributionWorker, around: &Surroundings<'_>| Ok(worker.work(around));
    if self.run_part(|daemon| &mut daemon.attribution_worker, records)? {
      return Ok(true);
    }
    let Some((kind, target, waiting)) = self.queue.take(now, &self.busy()) else {
      self.end_outage();
      return Ok(
        self.run_part(|daemon| &mut daemon.judge, Judge::work)?
          || self.keep_house()?
          || self.run_part(|daemon| &mut daemon.notifications, Notifications::work)?
          || self.summarise()?,
      );
    };
    // A large file that was interrupted continues alone.
    let is_new = kind == Kind::Urgent && waiting.tries == 0 && !self.queue.is_large(&target);
    if is_new && self.adoption.baseline.contains(&target) {
      return self.adopt(target, waiting);
    }
    self.run_step(kind, target, waiting)
  }

  /// Adopts a file of a first scan together with the next ones in the queue.
  fn adopt(&mut self, target: Target, waiting: Waiting) -> Result<bool, DaemonError> {
    let mut batch = vec![(target, waiting)];
    let baseline = &self.adoption.baseline;
    batch.extend(self.queue.take_more(self.now(), BATCH - 1, |next| baseline.contains(next)));
    let targets: Vec<Target> = batch.iter().map(|(target, _)| target.clone()).collect();
    // If the batch fails, each file is processed alone and reports its own error.
    let adopted = self.engine.adopt(&targets).unwrap_or_else(|_| vec![None; targets.len()]);
    self.count_opens();
    for (index, (target, waiting)) in batch.into_iter().enumerate() {
      match adopted.get(index) {
        Some(Some(outcome)) => {
          if matches!(outcome, Outcome::Done { recheck: true, .. }) {
            let due = self.now() + self.engine.settles_in(&target)?;
            self.queue.dirty(target.clone(), due);
          }
          self.forget(&target);
        }
        Some(None) => {
          self.run_step(Kind::Urgent, target, waiting)?;
        }
        None => self.queue.dirty(target, waiting.due),
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
    let others = !self.watching.heard.is_empty() || self.queue.has_small(self.now());
    self.interrupts.set(others, self.watching.watcher.descriptor());
    // When the other installation has ended, the takeover scans such files again.
    match self.may_write(&target.root) {
      Ok(true) => {}
      Ok(false) => {
        self.forget(&target);
        return Ok(true);
      }
      Err(error) => return self.finish_step(kind, target, waiting, Err(error)),
    }
    let result = match kind {
      Kind::Urgent => self.urgent(&target, waiting),
      Kind::Attribute => self.attribute(&target, waiting),
      Kind::Scored | Kind::Model => self.read(&target, waiting),
      Kind::Judge => self.consult(&target, waiting),
      Kind::Lazy => self.lazy(&target, waiting),
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
        self.outage.unblock(&target);
        self.end_outage();
      }
      // The next turn continues where the pass was interrupted.
      Err(EngineError::Preempted) => {
        let now = self.now();
        match kind {
          Kind::Urgent => self.queue.give_way(target, waiting),
          _ => self.queue.back_off(kind, target, waiting, now),
        }
      }
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // If the directory is gone, its files are found again when it is back.
      Err(EngineError::Root(_)) => {
        self.engine.files().forget_root(&target.root);
        self.outage.unblock(&target);
        self.adoption.first.remove(&target);
        self.report(|daemon| daemon.scan(&target.root, Scan::Again));
      }
      Err(EngineError::Store(error)) if error.is_outage() => {
        self.outage.block(&target);
        self.begin_outage(&error);
        let now = self.now();
        self.queue.back_off(kind, target, waiting, now);
      }
      Err(error) => {
        let key = target.key();
        let text = error.to_string();
        if kind == Kind::Lazy && matches!(error, EngineError::Fs(_)) {
          let now = self.now();
          self.unwritten.failed(&target, now);
        }
        self.report(|daemon| daemon.engine.degrade(&key, &text));
        self.adoption.first.remove(&target);
        let now = self.now();
        self.queue.back_off(kind, target, waiting, now);
      }
    }
    Ok(true)
  }

  fn urgent(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let mut pause_for = LEASE_PAUSE;
    let mut n_changed = 0;
    loop {
      let began = self.now();
      let hint = Hint {
        waited: began.saturating_sub(waiting.since),
        opened_since_close: self.watching.readers.was_read(target),
        adopting: self.adoption.baseline.contains(target),
      };
      let Self { engine, watching, .. } = self;
      let mut was_read = |own_opens| watching.was_read(target, own_opens);
      let outcome = engine.pass_seen_by(target, &hint, &mut was_read);
      self.count_opens();
      let measured = self.engine.take_exposures();
      if !measured.is_empty() {
        self.notifications.stir();
        let note = |exposure: &mut Exposure, around: &Surroundings<'_>| {
          Ok(exposure.note(measured, target, waiting.since, around))
        };
        // A figure that cannot be stored is no failure to guard.
        if let Err(error) = self.run_part(|daemon| &mut daemon.exposure, note) {
          tracing::debug!(target: "memfw", %error, "an exposure was not stored");
        }
      }
      let outcome = outcome?;
      let now = self.now();
      match outcome {
        // A waiting reader at the gate is answered first, because it may be what prevents the lease.
        Outcome::Busy
          if now.saturating_sub(waiting.since) < UNLEASED_AFTER && !self.is_asked.load(SeqCst) =>
        {
          pause(pause_for);
          pause_for = pause_for.saturating_mul(2);
        }
        Outcome::Changed if n_changed < MAX_CHANGED => n_changed += 1,
        Outcome::Busy | Outcome::Changed | Outcome::HeldOpen => {
          if outcome == Outcome::HeldOpen {
            self.adoption.first.remove(target);
            self.exposure.looked(target, began);
          }
          self.queue.back_off(Kind::Urgent, target.clone(), waiting, now);
          return Ok(());
        }
        Outcome::HoldOff(wait) => {
          if hint.opened_since_close {
            self.queue.await_reader(target.clone(), waiting, wait, now);
          } else {
            self.queue.put_off(Kind::Urgent, target.clone(), waiting, now + wait);
          }
          return Ok(());
        }
        Outcome::Done { reshape_due, recheck } | Outcome::Unchanged { reshape_due, recheck } => {
          if recheck {
            self.queue.dirty(target.clone(), now + self.engine.settles_in(target)?);
          }
          self.clear_problems(target)?;
          self.request_attribution(target)?;
          self.request_scores(target)?;
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::StillOpen { reshape_due } => {
          self.clear_problems(target)?;
          self.request_attribution(target)?;
          self.request_scores(target)?;
          self.exposure.looked(target, began);
          self.open_files.keep(Kind::Urgent, target.clone(), now);
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::Unsealed => {
          self.adoption.first.remove(target);
          return Ok(());
        }
        Outcome::Gone => {
          // An open directory is not reported as removed, and this one may be next.
          self.engine.files().close_root(&target.root);
          return self.clear_problems(target);
        }
        Outcome::Unscannable => return self.clear_problems(target),
      }
    }
  }

  fn lazy(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    if self.queue.is_dirty(target) {
      let idle = self.engine.config().reshape_idle;
      let due = self.now() + idle.max(RACY);
      self.queue.reshape(target.clone(), due);
      return Ok(());
    }
    // A tool that has read the file writes next, and then the agent's record must match what the tool
    // has read.
    if let Some(at) = self.watching.readers.latest(target) {
      let rest = (at + VERIFIED_AFTER).saturating_sub(self.now());
      if !rest.is_zero() && self.engine.is_recorded(target)? {
        let due = self.now() + rest;
        self.queue.reshape(target.clone(), due);
        return Ok(());
      }
    }
    self.watching.readers.forget_latest(target);
    let now = self.now();
    if let Some(rest) = self.unwritten.rest(target, now) {
      self.queue.reshape(target.clone(), now + rest);
      return Ok(());
    }
    let idle = self.engine.config().reshape_idle;
    let is_left = self.engine.bring_back_again(target)?;
    let outcome = self.engine.lazy(target, idle);
    self.count_opens();
    let outcome = outcome?;
    self.unwritten.done(target);
    let now = self.now();
    match outcome {
      // Approved text could not be put back, because a program had the file open or wrote to it.
      LazyOutcome::Done if is_left => {
        pending::add(self.engine.ledger_mut(), &target.path(), Pending::RESHAPE)?;
        self.queue.back_off(Kind::Lazy, target.clone(), waiting, now);
      }
      LazyOutcome::Done if self.open_files.kept(target) == Some(Kind::Lazy) => {
        self.open_files.release(target);
      }
      LazyOutcome::Done => {}
      LazyOutcome::NotIdle(rest) => self.queue.reshape(target.clone(), now + rest),
      LazyOutcome::Busy if waiting.tries >= MAX_BUSY => {
        self.open_files.keep(Kind::Lazy, target.clone(), now);
      }
      LazyOutcome::Busy => self.queue.back_off(Kind::Lazy, target.clone(), waiting, now),
      LazyOutcome::Dirty => self.queue.dirty(target.clone(), now),
    }
    Ok(())
  }

  /// Notes that a writer closed a file.
  pub(super) fn note_close(&mut self, path: &std::path::Path) {
    if let Some(target) = self.target(path) {
      self.engine.files().closed_by_writer(&target);
      self.watching.readers.closed(target);
    }
  }

  /// Notes that a program opened a file; `is_foreign` if the open is not memfw's own.
  pub(super) fn note_reader(&mut self, target: &Target, is_foreign: bool) {
    if is_foreign {
      self.engine.files().opened_by_reader(target);
    }
  }

  /// Counts memfw's own opens, because they also cause events.
  pub(super) fn count_opens(&mut self) {
    for opened in self.engine.files().take_opens() {
      self.watching.readers.opened_by_us(&opened);
    }
  }

  /// Clears a file's problems after it was processed.
  fn clear_problems(&mut self, target: &Target) -> Result<(), EngineError> {
    // The version is stored later, because this one may have been read in the middle of a write.
    self.housekeeping.has_changed(target);
    self.open_files.release(target);
    self.exposure.forget(target);
    self.forget(target);
    let now = self.now();
    let row = self.engine.ledger().file(&target.path())?;
    let is_noted = row.is_some_and(|row| row.note.is_some() && row.status != FileStatus::Missing);
    self.open_files.note(target, is_noted.then_some(now));
    let key = target.key();
    self.engine.recovered(&key)
  }

  fn forget(&mut self, target: &Target) {
    self.queue.ended(target);
    self.watching.readers.forget(target);
    self.adoption.baseline.remove(target);
    self.adoption.first.remove(target);
  }
}
