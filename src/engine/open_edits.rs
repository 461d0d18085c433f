//! Edits that this process left in the journal, because they could not be completed.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  time::Duration,
};

use crate::store::OpId;

/// What this process knows about edits in the journal.
#[derive(Debug, Default)]
pub(super) struct OpenEdits {
  /// When the first attempt to complete each interrupted edit was, on the monotonic clock.
  since: HashMap<OpId, Duration>,
  /// Edits whose bytes could not be made durable.
  unsynced: HashSet<OpId>,
}

impl OpenEdits {
  /// How long an interrupted edit has waited; also whether this is the first attempt.
  pub(super) fn waited(&mut self, op: OpId, now: Duration) -> (Duration, bool) {
    let is_first = !self.since.contains_key(&op);
    (now.saturating_sub(*self.since.entry(op).or_insert(now)), is_first)
  }

  /// Notes edits whose bytes may not be on the disk.
  pub(super) fn note_unsynced(&mut self, ops: &[OpId]) {
    self.unsynced.extend(ops);
  }

  /// Whether the bytes of an edit could not be made durable.
  pub(super) fn is_unsynced(&self, op: OpId) -> bool {
    self.unsynced.contains(&op)
  }

  /// Notes that the edit is not in the journal any more.
  pub(super) fn forget(&mut self, op: OpId) {
    self.since.remove(&op);
    self.unsynced.remove(&op);
  }
}
