//! One turn for one file: the urgent pass with its short waits, and the lazy one.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Guard,
  queue::{Kind, Waiting},
};
use crate::{
  engine::{EngineError, Hint, LazyOutcome, Outcome, RACY, Target, UNLEASED_AFTER},
  os::pause,
};

/// First and longest pause between two tries for a lease within one turn (docs/adr/0002:
/// 0.2 to 5 ms; the loop's timers are no finer than a millisecond, so the first tries are made here).
const LEASE_PAUSE: Duration = Duration::from_micros(200);
/// How soon a lease is asked for again while a verifying reader is there (it stays for 0.1 to 0.3 ms;
/// the loop's timers are no finer).
const READER_PAUSE: Duration = Duration::from_millis(1);
/// A file that changes under our hands so often in a row is left for the next turn.
const MAX_CHANGED: u32 = 16;

impl Guard {
  /// The urgent pass over a file that is dirty, again and again for some milliseconds.
  pub(super) fn urgent(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let mut pause_for = LEASE_PAUSE;
    let mut n_changed = 0;
    loop {
      let now = self.now();
      let hint = Hint {
        waited: now.saturating_sub(waiting.since),
        opened_since_close: self.opened.get(target).copied().unwrap_or(false),
        adopting: self.baseline.contains(target),
      };
      let outcome = self.engine.pass(target, &hint);
      self.count_opens();
      self.exposure.note(&mut self.engine);
      let outcome = outcome?;
      let now = self.now();
      match outcome {
        Outcome::Busy if now.saturating_sub(waiting.since) < UNLEASED_AFTER => {
          pause(pause_for);
          pause_for = pause_for.saturating_mul(2);
        }
        Outcome::Changed if n_changed < MAX_CHANGED => n_changed += 1,
        Outcome::Busy | Outcome::Changed | Outcome::HeldOpen => {
          if outcome == Outcome::HeldOpen {
            self.first.remove(target);
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
            self.queue.dirty(target.clone(), now + RACY);
          }
          self.calm(target)?;
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::StillOpen { reshape_due } => {
          self.calm(target)?;
          self.held.keep(target.clone(), now);
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::Unsealed => {
          self.first.remove(target);
          return Ok(());
        }
        Outcome::Gone | Outcome::Unscannable => {
          self.calm(target)?;
          return Ok(());
        }
      }
    }
  }

  /// The lazy pass over a file whose markers are due.
  pub(super) fn lazy(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    if self.queue.is_dirty(target) {
      let idle = self.engine.config().reshape_idle;
      let due = self.now() + idle.max(RACY);
      self.queue.reshape(target.clone(), due);
      return Ok(());
    }
    let idle = self.engine.config().reshape_idle;
    let outcome = self.engine.lazy(target, idle);
    self.count_opens();
    let outcome = outcome?;
    let now = self.now();
    match outcome {
      LazyOutcome::Done => {}
      LazyOutcome::NotIdle(rest) => self.queue.reshape(target.clone(), now + rest),
      LazyOutcome::Busy => self.queue.back_off(Kind::Lazy, target.clone(), waiting, now),
      LazyOutcome::Dirty => self.queue.dirty(target.clone(), now),
    }
    Ok(())
  }
}
