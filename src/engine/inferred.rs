//! Young text whose origin is only inferred: the agent's record of the write may come after the write, so
//! the records are asked about it again for some minutes.
//!
//! Invariant: such a text already has its answer, so nothing waits for the later one, and only evidence may
//! raise its trust ([`Origin::may_replace`]).
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use super::{Engine, EngineError, Target, pending};
use crate::{
  files::Fs,
  judging::origin::Origin,
  store::{BlockRow, DueItem, FileStatus, Ledger, Revision},
};

/// How long the records are asked again about a text (a choice: late records came within seconds, and an
/// agent that is busy writes its records at the end of a run).
pub(super) const YOUNG: Duration = Duration::from_mins(5);

/// Whether the records were asked about a text, and do not show its source.
pub(super) fn is_inferred(revision: &Revision) -> bool {
  let is_asked = revision.trail.sighting.is_some() && !revision.trail.due;
  is_asked && !Origin::of_revision(revision).observed
}

/// The records are asked again about text that was first seen after this moment.
fn since(now: i64) -> i64 {
  now.saturating_sub_unsigned(YOUNG.as_micros() as u64)
}

/// Whether the records are asked again about a revision.
pub(super) fn is_due_again(revision: &Revision, now: i64) -> bool {
  is_inferred(revision) && revision.at > since(now)
}

/// The items of a file about which the records are asked again.
pub(super) fn items_due_again(
  ledger: &Ledger,
  path: &Path,
  now: i64,
) -> Result<Vec<DueItem>, EngineError> {
  Ok(ledger.inferred_items(path, since(now))?)
}

impl<F: Fs> Engine<F> {
  /// The files about which the records are asked again.
  pub fn inferred_files(&self) -> Result<Vec<Target>, EngineError> {
    if !self.link.records().keeps_records() {
      return Ok(vec![]);
    }
    Ok(pending::targets(self.ledger.inferred_files(since(self.now()))?))
  }

  /// Whether the records are asked again about text of this file.
  pub(super) fn is_asked_again(&self, path: &Path) -> Result<bool, EngineError> {
    let now = self.now();
    if !items_due_again(&self.ledger, path, now)?.is_empty() {
      return Ok(true);
    }
    let Some((row, blocks)) = self.ledger.provenance(path)? else { return Ok(false) };
    let has_young = |block: &BlockRow| block.live().any(|one| is_due_again(one, now));
    Ok(row.status == FileStatus::Watched && blocks.iter().any(has_young))
  }
}
