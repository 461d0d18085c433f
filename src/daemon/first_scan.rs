//! What a person hears about the scan at a start: how far it is, and one line for each workspace whose memory
//! from before memfw was read for the first time.
//!
//! The ledger has an event for each file and each finding of such a scan; the log has one line, because a
//! workspace can have thousands of files.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use super::{core::Core, health::ScanProgress};
use crate::{
  engine::{EngineError, adopt::BATCH, event::shown},
  plural::large,
};

/// When a scan first reports how far it is: within the second in which a person begins to wonder.
const FIRST: Duration = Duration::from_millis(500);
/// The longest time between two such reports in the log; the first ones come sooner (a choice).
const LONGEST: Duration = Duration::from_secs(30);
/// How often the ledger has the progress, for `status` and `settle` (a choice).
const REFRESH: Duration = Duration::from_millis(500);

/// A batch that takes longer is followed by a smaller one, so that the progress is reported in time.
const LONG_BATCH: Duration = Duration::from_millis(500);
/// A batch that takes less time is followed by a larger one.
const SHORT_BATCH: Duration = Duration::from_millis(200);
/// Files of the first batch (a choice).
const FIRST_BATCH: usize = 8;

/// The scan at a start.
#[derive(Debug)]
pub(super) struct FirstScan {
  /// When it began.
  began: Duration,
  /// How many files it has.
  total: usize,
  /// When the log gets the next report, and the pause after it.
  next: Duration,
  pause: Duration,
  /// When the ledger gets the next report.
  refresh: Duration,
  /// Workspaces whose baseline is complete, until their lines are logged.
  adopted: BTreeSet<PathBuf>,
  /// How many files the next batch has.
  batch: usize,
}

impl FirstScan {
  /// No scan has begun.
  pub(super) const fn new(now: Duration) -> Self {
    Self {
      began: now,
      total: 0,
      next: Duration::ZERO,
      pause: FIRST,
      refresh: Duration::ZERO,
      adopted: BTreeSet::new(),
      batch: FIRST_BATCH,
    }
  }

  /// A scan of this many files begins.
  pub(super) fn begin(&mut self, total: usize, now: Duration) {
    let adopted = std::mem::take(&mut self.adopted);
    let (next, refresh) = (now + FIRST, now + REFRESH);
    *self = Self { began: now, total, next, refresh, adopted, ..Self::new(now) };
  }

  /// How many files the next batch has.
  pub(super) const fn batch(&self) -> usize {
    self.batch
  }

  /// A batch took this long.
  pub(super) fn took(&mut self, time: Duration) {
    if time > LONG_BATCH {
      self.batch = (self.batch / 2).max(1);
    } else if time < SHORT_BATCH {
      self.batch = (self.batch * 2).min(BATCH);
    }
  }

  /// The progress if `left` files are left: for the ledger, and whether the log gets it as well.
  fn progress(&mut self, left: usize, now: Duration) -> Option<(ScanProgress, bool)> {
    if now < self.refresh {
      return None;
    }
    self.refresh = now + REFRESH;
    let is_logged = now >= self.next;
    if is_logged {
      self.pause = self.pause.saturating_mul(2).min(LONGEST);
      self.next = now + self.pause;
    }
    let done = self.total.saturating_sub(left);
    Some((ScanProgress { done: done as u64, total: self.total as u64 }, is_logged))
  }

  /// Reports how far the scan is, if a report is due. Returns the line.
  pub(super) fn tell(&mut self, core: &mut Core) -> Option<String> {
    let (left, now) = (core.adoption.first.len(), core.now());
    let (progress, is_logged) = self.progress(left, now)?;
    let line = progress.to_string();
    core.health.scan = Some(progress);
    core.report(Core::write_health);
    if is_logged {
      tracing::info!(target: "memfw", event = "scanning", detail = line, "first scan");
    }
    Some(line)
  }

  /// The scan is done; these workspaces have a baseline now.
  pub(super) fn end(&mut self, core: &mut Core) {
    self.adopted.extend(core.adoption.roots.iter().filter(|root| root.is_dir()).cloned());
    if core.health.scan.take().is_some() {
      core.report(Core::write_health);
    }
  }

  /// Whether workspaces have a new baseline about which nothing was logged.
  pub(super) fn is_unreported(&self) -> bool {
    !self.adopted.is_empty()
  }

  /// Logs one line for each workspace with a new baseline. The encoder has read what it had to read, so that
  /// the findings are complete.
  pub(super) fn conclude(&mut self, core: &Core) -> Result<(), EngineError> {
    let took = core.now().saturating_sub(self.began);
    let took_ms = (took.as_secs_f64() * 1e3).round();
    for root in std::mem::take(&mut self.adopted) {
      let extent = core.engine.ledger().extent(&root)?;
      let [files, blocks, findings] =
        [(extent.files, "file"), (extent.blocks, "block"), (extent.findings, "finding")]
          .map(|(n, noun)| large(n, noun));
      let next = if extent.findings > 0 { ": memfw list" } else { "" };
      tracing::info!(
        target: "memfw",
        event = "adopted",
        file = shown(&root),
        took_ms,
        detail = format!("{files}, {blocks}, {findings}{next}"),
        "baseline adopted"
      );
    }
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_first_report_comes_within_a_second_and_the_next_ones_are_rarer() {
    let at = Duration::from_millis;
    let mut scan = FirstScan::new(at(0));
    scan.begin(60, at(1_000));
    assert_eq!(scan.progress(60, at(1_499)), None);
    let (first, is_logged) = scan.progress(48, at(1_500)).unwrap();
    assert_eq!((first.to_string().as_str(), is_logged), ("12 of 60 files", true));
    assert_eq!(scan.progress(40, at(1_600)), None);
    let (_, is_logged) = scan.progress(40, at(2_000)).unwrap();
    assert!(!is_logged, "the ledger has it, and the log has it later");
    let logged: Vec<u64> = (2_000..200_000)
      .step_by(100)
      .filter(|ms| matches!(scan.progress(30, at(*ms)), Some((_, true))))
      .collect();
    assert_eq!(logged.first(), Some(&2_500));
    let pauses: Vec<u64> = logged.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&30_000), "{pauses:?}");
  }

  #[test]
  fn batches_fit_the_machine() {
    let mut scan = FirstScan::new(Duration::ZERO);
    for _ in 0..10 {
      scan.took(Duration::from_millis(5));
    }
    assert_eq!(scan.batch(), BATCH);
    scan.took(Duration::from_millis(300));
    assert_eq!(scan.batch(), BATCH, "that is neither long nor short");
    for _ in 0..10 {
      scan.took(Duration::from_secs(2));
    }
    assert_eq!(scan.batch(), 1);
  }
}
