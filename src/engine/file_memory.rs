//! What this process knows about single files between two passes. A restart may lose it: then a file is read or
//! reported once more, and no longer.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  time::Duration,
};

use super::Target;
use crate::{
  files::Stamp,
  memory::{BlockId, ContentHash},
};

/// What this process knows about single files.
#[derive(Debug, Default)]
pub(super) struct FileMemory {
  /// Files with poison that could not be sealed, with their stamps when that was reported.
  unsealed: HashMap<Target, Stamp>,
  /// Files that another installation guarded until now, and that were not processed yet.
  taken_over: HashSet<Target>,
  /// The last quarantined item of each file that the judge was asked about, while more items remain.
  consulted_to: HashMap<Target, BlockId>,
  /// The version of each file that waits for a verifying read, and since when.
  held: HashMap<Target, (ContentHash, Duration)>,
}

impl FileMemory {
  /// Notes that the poison of a file with this stamp could not be sealed.
  pub(super) fn note_unsealed(&mut self, target: &Target, stamp: Stamp) {
    self.unsealed.insert(target.clone(), stamp);
  }

  /// Whether the poison of a file with this stamp could not be sealed.
  pub(super) fn is_unsealed(&self, target: &Target, stamp: &Stamp) -> bool {
    self.unsealed.get(target) == Some(stamp)
  }

  /// Notes that another installation has guarded the file until now.
  pub(super) fn take_over(&mut self, target: &Target) {
    self.taken_over.insert(target.clone());
  }

  /// Whether another installation guarded the file, and it was not processed since.
  pub(super) fn is_taken_over(&self, target: &Target) -> bool {
    self.taken_over.contains(target)
  }

  /// Notes that the file was processed.
  pub(super) fn note_processed(&mut self, target: &Target) {
    self.taken_over.remove(target);
  }

  /// The last item that the judge was asked about, while more remain; it is forgotten.
  pub(super) fn take_consulted(&mut self, target: &Target) -> Option<BlockId> {
    self.consulted_to.remove(target)
  }

  /// Notes the last item that the judge was asked about, while more remain.
  pub(super) fn note_consulted(&mut self, target: &Target, last: BlockId) {
    self.consulted_to.insert(target.clone(), last);
  }

  /// For how long this version has waited for a verifying read. A change that leaves the bytes as they are begins no
  /// new wait.
  pub(super) fn held_for(
    &mut self,
    target: &Target,
    version: ContentHash,
    now: Duration,
  ) -> Duration {
    let held = self.held.entry(target.clone()).or_insert((version, now));
    if held.0 != version {
      *held = (version, now);
    }
    now.saturating_sub(held.1)
  }

  /// Notes that the file does not wait any more.
  pub(super) fn release(&mut self, target: &Target) {
    self.held.remove(target);
  }
}
