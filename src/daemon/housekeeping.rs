//! Housekeeping: storing versions, looking for losses and pruning old records when nothing else is due.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, time::Duration};

use super::{core::Core, error::DaemonError};
use crate::engine::{Consequence, Target};

/// The time between two prunings (a choice).
const DAY: Duration = Duration::from_hours(24);

/// A longer time since the last event of the ledger, in microseconds, may be an error of the clock, and what is
/// pruned does not come back (a choice: few machines rest for so long).
const LONG_REST: i64 = 45 * 86_400 * 1_000_000;

/// From this on a clock was set, and not adjusted, in microseconds.
const SET: i64 = 86_400 * 1_000_000;

/// What can be done when nothing else is due.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
  /// Store the content of a file as a version.
  StoreVersion(Target),
  /// Compare a changed file with what it had.
  Measure,
  /// Prune old records.
  Prune,
}

/// What is to be done when nothing else is due.
#[derive(Default)]
pub(super) struct Housekeeping {
  /// Files whose content is to be stored as a version.
  due_versions: BTreeSet<Target>,
  /// When changed files are compared with what they had.
  measured_at: Option<Duration>,
  /// When old records were last pruned.
  pruned_at: Option<Duration>,
  /// Until then nothing is pruned.
  not_before: Duration,
  /// How far the wall clock was ahead of the time since the start at the last look, in microseconds.
  lead: Option<i64>,
}

impl Housekeeping {
  /// How long until something is to be done; pruning has no time of its own.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let version = (!self.due_versions.is_empty()).then_some(Duration::ZERO);
    version.or(self.measured_at.map(|at| at.saturating_sub(now)))
  }

  /// Notes that a file changed. It is compared with what it had at `measure_at`: text that is moved leaves one file and
  /// comes into another. Further changes put nothing off.
  pub(super) fn has_changed(&mut self, target: &Target, measure_at: Duration) {
    self.due_versions.insert(target.clone());
    self.measured_at.get_or_insert(measure_at);
  }

  /// Replaces the list of files whose content is to be stored; files that were not compared are compared now.
  pub(super) fn set_due_versions(&mut self, due: Vec<Target>, now: Duration) {
    self.due_versions = due.into_iter().collect();
    self.measured_at = Some(now);
  }

  /// Has pruning wait for a day where the clock may be wrong: the ledger's last event was long ago, or is to come.
  /// A clock that was set meanwhile is right by then, and so is one that told the truth.
  pub(super) fn doubt_clock(&mut self, last_event: Option<i64>, at: i64, now: Duration) {
    let is_odd = |last: i64| at - last > LONG_REST || at < last;
    if last_event.is_some_and(is_odd) {
      self.not_before = now + DAY;
    }
  }

  /// Has pruning wait for a day where the clock was set since the last look. `since_start` is the time since any
  /// fixed moment, also that in which the machine was suspended.
  fn watch_clock(&mut self, at: i64, since_start: Duration, now: Duration) {
    let lead = at.saturating_sub(i64::try_from(since_start.as_micros()).unwrap_or(i64::MAX));
    let before = self.lead.replace(lead);
    if before.is_some_and(|before| (lead - before).abs() > SET) {
      self.not_before = now + DAY;
    }
  }

  /// The next chore: versions first, and pruning once a day, when something else has woken the process,
  /// because there is no timer for it.
  fn next(&mut self, now: Duration) -> Option<Chore> {
    if let Some(target) = self.due_versions.pop_last() {
      return Some(Chore::StoreVersion(target));
    }
    if self.measured_at.is_some_and(|at| at <= now) {
      return Some(Chore::Measure);
    }
    let is_pruned = self.pruned_at.is_some_and(|at| now.saturating_sub(at) < DAY);
    (!is_pruned && now >= self.not_before).then_some(Chore::Prune)
  }

  /// Notes that all old records are pruned.
  fn has_pruned(&mut self, now: Duration) {
    self.pruned_at = Some(now);
  }

  /// Does one chore. Returns `false` if there was none; `stir` is called if people may have to be told.
  pub(super) fn work(&mut self, core: &mut Core, stir: impl FnOnce()) -> Result<bool, DaemonError> {
    let now = core.now();
    let clock = core.engine.clock();
    let (at, since_start) = (clock.now(), clock.monotonic() + clock.asleep());
    self.watch_clock(at, since_start, now);
    match self.next(now) {
      None => Ok(false),
      Some(Chore::StoreVersion(target)) => {
        match core.engine.keep_present(&target) {
          Err(error) if error.consequence() == Consequence::Stop => return Err(error.into()),
          // The file is guarded anyway, and its next change stores a version.
          Err(error) => tracing::debug!(target: "memfw", %error, "a version is not kept"),
          Ok(()) => {}
        }
        core.count_opens();
        Ok(true)
      }
      Some(Chore::Measure) => {
        let mut more = false;
        core.report(|core| {
          more = core.engine.measure_next()?;
          Ok(())
        });
        // After an error the next change tries again.
        if !more {
          self.measured_at = None;
        }
        stir();
        Ok(true)
      }
      Some(Chore::Prune) => {
        let mut more = false;
        core.report(|core| {
          more = core.engine.retain()?;
          Ok(())
        });
        if !more {
          self.has_pruned(now);
        }
        Ok(more)
      }
    }
  }
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;

  #[test]
  fn nothing_is_pruned_at_once_where_the_clock_may_be_wrong() {
    let day = 86_400 * 1_000_000;
    for (last, at, waits) in [
      (None, 0, false),
      (Some(100 * day), 101 * day, false),
      (Some(100 * day), 3_750 * day, true),
      (Some(100 * day), 0, true),
    ] {
      let mut housekeeping = Housekeeping::default();
      housekeeping.doubt_clock(last, at, Duration::ZERO);
      assert_eq!(housekeeping.next(Duration::ZERO).is_none(), waits, "{last:?} {at}");
      assert_eq!(housekeeping.next(DAY), Some(Chore::Prune));
    }
  }

  #[test]
  fn nothing_is_pruned_at_once_when_the_clock_is_set_while_the_daemon_runs() {
    let day = 86_400 * 1_000_000;
    let mut housekeeping = Housekeeping::default();
    let hour = Duration::from_hours(1);
    housekeeping.watch_clock(100 * day, hour, hour);
    // An hour passes, and a week of sleep.
    housekeeping.watch_clock(100 * day + day / 24, hour * 2, hour * 2);
    housekeeping.watch_clock(107 * day, hour * 2 + DAY * 7, hour * 3);
    assert_eq!(housekeeping.next(hour * 3), Some(Chore::Prune));
    for jump in [3_650, -100] {
      housekeeping.watch_clock((107 + jump) * day, hour * 3 + DAY * 7, hour * 4);
      assert_eq!(housekeeping.next(hour * 4), None, "{jump}");
      assert_eq!(housekeeping.next(hour * 4 + DAY), Some(Chore::Prune));
    }
  }

  #[test]
  fn versions_come_first_and_records_are_pruned_once_a_day() {
    let mut housekeeping = Housekeeping::default();
    let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
    let minute = Duration::from_mins(1);
    housekeeping.has_changed(&target, minute);
    assert_eq!(housekeeping.next_due(Duration::ZERO), Some(Duration::ZERO));
    assert_eq!(housekeeping.next(Duration::ZERO), Some(Chore::StoreVersion(target.clone())));
    assert_eq!(housekeeping.next_due(Duration::ZERO), Some(minute));
    housekeeping.has_changed(&target, minute * 2);
    assert_eq!(housekeeping.next(minute), Some(Chore::StoreVersion(target)));
    assert_eq!(housekeeping.next(minute), Some(Chore::Measure), "a change puts nothing off");
    housekeeping.measured_at = None;
    assert_eq!(housekeeping.next_due(minute), None);
    // What is left over is pruned at the next call.
    assert_eq!(housekeeping.next(Duration::ZERO), Some(Chore::Prune));
    assert_eq!(housekeeping.next(Duration::ZERO), Some(Chore::Prune));
    housekeeping.has_pruned(Duration::ZERO);
    assert_eq!(housekeeping.next(DAY.saturating_sub(Duration::from_secs(1))), None);
    assert_eq!(housekeeping.next(DAY), Some(Chore::Prune));
  }
}
