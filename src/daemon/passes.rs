//! Passes: a file is passed or reshaped, and the outcome says when it is due again.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use super::{
  core::Core,
  exposure::Exposure,
  interrupt::Interrupts,
  open_files::OpenFiles,
  queue::{Kind, Waiting},
  steps::{Steps, request_attribution},
  unwritten::Unwritten,
};
use crate::{
  engine::{EngineError, Hint, LazyOutcome, Outcome, RACY, Target, UNLEASED_AFTER, VERIFIED_AFTER},
  os::pause,
  store::{FileStatus, PartKind, StateKey},
};

/// First pause between two tries for a lease within one turn, doubled each time. Most writers close
/// right after their last write, whose event comes first; the loop's timers are no finer than a
/// millisecond, so the first tries are made here.
const LEASE_PAUSE: Duration = Duration::from_micros(50);
/// The longest pause before a lease is tried again while a reader has the file open (a choice: other readers wait at
/// the gate meanwhile).
const LONGEST_READER_PAUSE: Duration = Duration::from_millis(2);
/// Tries for a lease to write markers, within about a second; a file that is open for longer joins the
/// open files.
const MAX_BUSY: u32 = 8;
/// A file is compared with what it had when it was unchanged for so long, or for the time after which it is idle (a
/// choice: a program that moves text writes two files).
const MEASURE_AFTER: Duration = Duration::from_secs(5);
/// How often in a row a file may change during its pass before it is left for the next turn.
const MAX_CHANGED: u32 = 16;

/// What is known about the passes of files.
pub(super) struct Passes {
  /// Files that another program keeps open.
  pub(super) open_files: OpenFiles,
  /// Files whose idle edit could not be written.
  pub(super) unwritten: Unwritten,
  pub(super) exposure: Exposure,
  /// What interrupts the pass of a large file.
  pub(super) interrupts: Interrupts,
}

impl Passes {
  /// Passes a dirty file.
  pub(super) fn urgent(
    &mut self,
    core: &mut Core,
    steps: &mut Steps,
    target: &Target,
    waiting: Waiting,
  ) -> Result<(), EngineError> {
    let mut pause_for = LEASE_PAUSE;
    let mut n_changed = 0;
    loop {
      let began = core.now();
      let hint = Hint {
        waited: began.saturating_sub(waiting.since),
        opened_since_close: core.watching.readers.was_read(target),
        adopting: core.adoption.baseline.contains(target),
        is_restored: false,
      };
      let Core { engine, watching, .. } = core;
      let mut was_read = |own_opens| watching.was_read(target, own_opens);
      let outcome = engine.pass_seen_by(target, &hint, &mut was_read);
      core.count_opens();
      let measured = core.engine.take_exposures();
      if !measured.is_empty() {
        steps.notifications.stir();
        // A figure that cannot be stored is no failure to guard.
        let (ledger, now) = (core.engine.ledger(), core.now());
        let row = self.exposure.note(measured, target, waiting.since, ledger, now);
        if let Some(json) = row {
          core.report(|core| {
            let at = core.engine.clock().now();
            Ok(core.engine.ledger_mut().set_state(&StateKey::Exposure, &json, at)?)
          });
        }
      }
      let outcome = outcome?;
      let now = core.now();
      match outcome {
        // A waiting reader at the gate is answered first, because it may be what prevents the lease.
        Outcome::Busy
          if now.saturating_sub(waiting.since) < UNLEASED_AFTER && !self.interrupts.is_asked() =>
        {
          pause(pause_for);
          pause_for = pause_for.saturating_mul(2);
        }
        Outcome::Changed if n_changed < MAX_CHANGED => n_changed += 1,
        Outcome::Busy | Outcome::Changed | Outcome::HeldOpen => {
          if outcome == Outcome::HeldOpen {
            core.adoption.first.remove(target);
            self.exposure.looked(target, began);
          }
          core.queue.back_off(Kind::Urgent, target.clone(), waiting, now);
          return Ok(());
        }
        Outcome::HoldOff(wait) => {
          if hint.opened_since_close {
            // Where there are leases, the reader is seen to close the file, and others may be waiting for that.
            let leases = core.engine.files().may_reshape(&target.root);
            let longest = if leases { wait.min(LONGEST_READER_PAUSE) } else { wait };
            core.queue.await_reader(target.clone(), waiting, longest, now);
          } else {
            core.queue.put_off(Kind::Urgent, target.clone(), waiting, now + wait);
          }
          return Ok(());
        }
        Outcome::Done { reshape_due, recheck } | Outcome::Unchanged { reshape_due, recheck } => {
          if recheck {
            core.queue.dirty(target.clone(), now + core.engine.settles_in(target)?);
          }
          self.clear_problems(core, steps, target)?;
          request_attribution(core, target)?;
          steps.request_scores(core, target)?;
          if reshape_due {
            core.queue.reshape(target.clone(), now + core.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::StillOpen { reshape_due } => {
          self.clear_problems(core, steps, target)?;
          request_attribution(core, target)?;
          steps.request_scores(core, target)?;
          self.exposure.looked(target, began);
          self.open_files.keep(Kind::Urgent, target.clone(), now);
          if reshape_due {
            core.queue.reshape(target.clone(), now + core.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::Unsealed => {
          core.adoption.first.remove(target);
          return Ok(());
        }
        Outcome::Gone => {
          // An open directory is not reported as removed, and this one may be next.
          core.engine.files().close_root(&target.root);
          return self.clear_problems(core, steps, target);
        }
        Outcome::Unscannable => return self.clear_problems(core, steps, target),
      }
    }
  }

  /// Writes what waited until a file is idle.
  pub(super) fn lazy(
    &mut self,
    core: &mut Core,
    target: &Target,
    waiting: Waiting,
  ) -> Result<(), EngineError> {
    if core.queue.is_dirty(target) {
      let idle = core.engine.config().reshape_idle;
      let due = core.now() + idle.max(RACY);
      core.queue.reshape(target.clone(), due);
      return Ok(());
    }
    // A tool that has read the file writes next, and then the agent's record must match what the tool
    // has read.
    if let Some(at) = core.watching.readers.latest(target) {
      let rest = (at + VERIFIED_AFTER).saturating_sub(core.now());
      if !rest.is_zero() && core.engine.is_recorded(target)? {
        let due = core.now() + rest;
        core.queue.reshape(target.clone(), due);
        return Ok(());
      }
    }
    core.watching.readers.forget_latest(target);
    let now = core.now();
    if let Some(rest) = self.unwritten.rest(target, now) {
      core.queue.reshape(target.clone(), now + rest);
      return Ok(());
    }
    let idle = core.engine.config().reshape_idle;
    let outcome = core.engine.write_due(target, idle);
    core.count_opens();
    let outcome = outcome?;
    self.unwritten.done(target);
    let now = core.now();
    match outcome {
      LazyOutcome::Done if self.open_files.kept(target) == Some(Kind::Lazy) => {
        self.open_files.release(target);
      }
      LazyOutcome::Done => {}
      LazyOutcome::NotIdle(rest) => core.queue.reshape(target.clone(), now + rest),
      LazyOutcome::Busy if waiting.tries >= MAX_BUSY => {
        self.open_files.keep(Kind::Lazy, target.clone(), now);
      }
      LazyOutcome::Busy | LazyOutcome::NotBack => {
        core.queue.back_off(Kind::Lazy, target.clone(), waiting, now);
      }
      LazyOutcome::Dirty => core.queue.dirty(target.clone(), now),
    }
    Ok(())
  }

  /// Clears a file's problems after it was processed.
  fn clear_problems(
    &mut self,
    core: &mut Core,
    steps: &mut Steps,
    target: &Target,
  ) -> Result<(), EngineError> {
    // The version is stored later, because this one may have been read in the middle of a write.
    let measure_at = core.now() + core.engine.config().reshape_idle.min(MEASURE_AFTER);
    steps.housekeeping.has_changed(target, measure_at);
    self.open_files.release(target);
    self.exposure.forget(target);
    core.forget(target);
    let now = core.now();
    let row = core.engine.ledger().file(&target.path())?;
    let is_noted = row.is_some_and(|row| row.note.is_some() && row.status != FileStatus::Missing);
    self.open_files.note(target, is_noted.then_some(now));
    core.engine.recovered(target.part(PartKind::File))
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) {
    self.open_files.forget_root(root);
    self.unwritten.forget_root(root);
  }
}
