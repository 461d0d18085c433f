//! Doing what is due: a file is passed, adopted or reshaped, and the outcome says when it is due again.
#![forbid(unsafe_code)]

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use super::{
  DaemonError, Guard,
  queue::{Kind, Waiting},
  rescan::Look,
};
use crate::{
  engine::{
    Consequence, EngineError, Hint, LazyOutcome, Outcome, RACY, Target, UNLEASED_AFTER,
    VERIFIED_AFTER, adopt::BATCH,
  },
  os::pause,
  store::{FileStatus, Pending},
};

/// First pause between two tries for a lease within one turn, doubled each time: most writers close
/// right after their last write, whose event comes first. The loop's timers are no finer than a
/// millisecond, so the first tries are made here.
const LEASE_PAUSE: Duration = Duration::from_micros(50);
/// How soon a lease is asked for again while a verifying reader is there (it stays for 0.1 to 0.3 ms;
/// the loop's timers are no finer).
const READER_PAUSE: Duration = Duration::from_millis(1);
/// Tries for a lease to write markers, within about a second; whoever has the file open for longer is waited
/// for.
const MAX_BUSY: u32 = 8;
/// A file that changes under our hands so often in a row is left for the next turn.
const MAX_CHANGED: u32 = 16;

impl Guard {
  /// Does one piece of work that is due; `false` when there is none.
  pub fn work(&mut self) -> Result<bool, DaemonError> {
    let now = self.now();
    if self.trouble.is_waiting(now) {
      return Ok(false);
    }
    self.take_over();
    self.looks.extend(self.retries.take(now));
    self.look();
    self.ask_again(now);
    if self.poll() {
      return Ok(true);
    }
    for (kind, target) in self.held.take(now) {
      self.try_held(kind, target);
    }
    if !self.queue.is_urgent(now) && self.hear_records()? {
      return Ok(true);
    }
    let Some((kind, target, waiting)) = self.queue.take(now, &self.busy()) else {
      self.end_trouble();
      return Ok(self.run_judge() || self.keep_one()? || self.run_errands() || self.summarise());
    };
    if kind == Kind::Urgent && waiting.tries == 0 && self.baseline.contains(&target) {
      return self.adopt(target, waiting);
    }
    self.work_on(kind, target, waiting)
  }

  /// Adopts a file of a first scan together with those that come next.
  fn adopt(&mut self, target: Target, waiting: Waiting) -> Result<bool, DaemonError> {
    let mut batch = vec![(target, waiting)];
    let baseline = &self.baseline;
    batch.extend(self.queue.take_more(self.now(), BATCH - 1, |next| baseline.contains(next)));
    let targets: Vec<Target> = batch.iter().map(|(target, _)| target.clone()).collect();
    // Where not even that works, each file says on its own why.
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
          self.work_on(Kind::Urgent, target, waiting)?;
        }
        None => self.queue.dirty(target, waiting.due),
      }
    }
    Ok(true)
  }

  fn work_on(&mut self, kind: Kind, target: Target, waiting: Waiting) -> Result<bool, DaemonError> {
    let others = !self.heard.is_empty() || self.queue.has_small(self.now());
    self.interrupts.set(others, self.watcher.descriptor());
    // What the ledger knows of it is made up for when the other installation has ended.
    if self.locks.is_foreign(&target.root) {
      self.forget(&target);
      return Ok(true);
    }
    let result = match kind {
      Kind::Urgent => self.urgent(&target, waiting),
      Kind::Attribute => self.attribute(&target, waiting),
      Kind::Scored | Kind::Model => self.read(&target, waiting),
      Kind::Judge => self.consult(&target, waiting),
      Kind::Lazy => self.lazy(&target, waiting),
    };
    self.worked_on(kind, target, waiting, result)
  }

  /// What follows from how it went.
  pub(super) fn worked_on(
    &mut self,
    kind: Kind,
    target: Target,
    waiting: Waiting,
    result: Result<(), EngineError>,
  ) -> Result<bool, DaemonError> {
    match result {
      Ok(()) => {
        self.trouble.unblock(&target);
        self.end_trouble();
      }
      // It goes on from there.
      Err(EngineError::Preempted) => {
        let now = self.now();
        match kind {
          Kind::Urgent => self.queue.give_way(target, waiting, now),
          _ => self.queue.back_off(kind, target, waiting, now),
        }
      }
      Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
      // The files of a workspace that is gone are looked for when it is back.
      Err(EngineError::Root(_)) => {
        self.engine.forget_root(&target.root);
        self.trouble.unblock(&target);
        self.first.remove(&target);
        self.report(|guard| guard.look_at(&target.root, Look::Again));
      }
      Err(EngineError::Store(error)) if error.is_outage() => {
        self.trouble.block(&target);
        self.trouble_with(&error);
        let now = self.now();
        self.queue.back_off(kind, target, waiting, now);
      }
      Err(error) => {
        let key = target.key();
        let text = error.to_string();
        self.report(|guard| guard.engine.degrade(&key, &text));
        self.first.remove(&target);
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
        opened_since_close: self.readers.was_read(target),
        adopting: self.baseline.contains(target),
      };
      let Self { engine, watcher, readers, heard, .. } = self;
      let mut was_read = |own_opens| {
        let taken = watcher.take();
        heard.extend(taken.events);
        taken.is_all && readers.would_be_read(target, own_opens, &*heard)
      };
      let outcome = engine.pass_seen_by(target, &hint, &mut was_read);
      self.count_opens();
      if self.exposure.note(&mut self.engine, target, waiting.since) {
        self.errands.stir();
      }
      let outcome = outcome?;
      let now = self.now();
      match outcome {
        // A reader at the gate is answered first: it may be why there is no lease.
        Outcome::Busy
          if now.saturating_sub(waiting.since) < UNLEASED_AFTER && !self.is_asked.load(SeqCst) =>
        {
          pause(pause_for);
          pause_for = pause_for.saturating_mul(2);
        }
        Outcome::Changed if n_changed < MAX_CHANGED => n_changed += 1,
        Outcome::Busy | Outcome::Changed | Outcome::HeldOpen => {
          if outcome == Outcome::HeldOpen {
            self.first.remove(target);
            self.exposure.looked(target, began);
          }
          self.queue.back_off(Kind::Urgent, target.clone(), waiting, now);
          return Ok(());
        }
        Outcome::HoldOff(wait) => {
          // Once the reader has come, it will be gone in a moment.
          let due = now + if hint.opened_since_close { READER_PAUSE } else { wait };
          self.queue.put_off(Kind::Urgent, target.clone(), waiting, due);
          return Ok(());
        }
        Outcome::Done { reshape_due, recheck } | Outcome::Unchanged { reshape_due, recheck } => {
          if recheck {
            self.queue.dirty(target.clone(), now + self.engine.settles_in(target)?);
          }
          self.calm(target)?;
          self.ask_about(target)?;
          self.read_closely(target)?;
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::StillOpen { reshape_due } => {
          self.calm(target)?;
          self.ask_about(target)?;
          self.read_closely(target)?;
          self.exposure.looked(target, began);
          self.held.keep(Kind::Urgent, target.clone(), now);
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::Unsealed => {
          self.first.remove(target);
          return Ok(());
        }
        Outcome::Gone => {
          // Its directory may follow, or be gone already: that is told once nobody has it open.
          self.engine.close_root(&target.root);
          return self.calm(target);
        }
        Outcome::Unscannable => return self.calm(target),
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
    // A tool that has read the file writes next, and its agent's record must then be about what it read.
    if let Some(at) = self.readers.latest(target) {
      let rest = (at + VERIFIED_AFTER).saturating_sub(self.now());
      if !rest.is_zero() && self.engine.is_recorded(target)? {
        let due = self.now() + rest;
        self.queue.reshape(target.clone(), due);
        return Ok(());
      }
    }
    self.readers.forget_latest(target);
    let idle = self.engine.config().reshape_idle;
    let is_left = self.engine.bring_back_again(target)?;
    let outcome = self.engine.lazy(target, idle);
    self.count_opens();
    let outcome = outcome?;
    let now = self.now();
    match outcome {
      // Somebody had the file open, or wrote, when approved text was to go back.
      LazyOutcome::Done if is_left => {
        self.engine.still_due(&target.path(), Pending::RESHAPE)?;
        self.queue.back_off(Kind::Lazy, target.clone(), waiting, now);
      }
      LazyOutcome::Done if self.held.kept(target) == Some(Kind::Lazy) => self.held.release(target),
      LazyOutcome::Done => {}
      LazyOutcome::NotIdle(rest) => self.queue.reshape(target.clone(), now + rest),
      LazyOutcome::Busy if waiting.tries >= MAX_BUSY => {
        self.held.keep(Kind::Lazy, target.clone(), now);
      }
      LazyOutcome::Busy => self.queue.back_off(Kind::Lazy, target.clone(), waiting, now),
      LazyOutcome::Dirty => self.queue.dirty(target.clone(), now),
    }
    Ok(())
  }

  /// A writer closed a file.
  pub(super) fn note_close(&mut self, path: &std::path::Path) {
    if let Some(target) = self.target(path) {
      self.engine.closed_by_writer(&target);
      self.readers.closed(target);
    }
  }

  /// Somebody opened a file, who may have been ourselves.
  pub(super) fn note_reader(&mut self, target: &Target, is_foreign: bool) {
    if is_foreign {
      self.engine.opened_by_reader(target);
    }
  }

  /// Opens of our own are events, too.
  pub(super) fn count_opens(&mut self) {
    for opened in self.engine.take_opens() {
      self.readers.opened_by_us(&opened);
    }
  }

  /// A file was processed: what was wrong about it is over.
  fn calm(&mut self, target: &Target) -> Result<(), EngineError> {
    // A version that was read while it was being written is not kept at once.
    self.unkept.push(target.clone());
    self.held.release(target);
    self.exposure.forget(target);
    self.forget(target);
    let now = self.now();
    let row = self.engine.ledger().file(&target.path())?;
    let is_noted = row.is_some_and(|row| row.note.is_some() && row.status != FileStatus::Missing);
    self.held.note(target, is_noted.then_some(now));
    let key = target.key();
    self.engine.recovered(&key)
  }

  fn forget(&mut self, target: &Target) {
    self.queue.ended(target);
    self.readers.forget(target);
    self.baseline.remove(target);
    self.first.remove(target);
  }
}
