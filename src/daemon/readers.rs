//! Whether somebody opened a file after its writer had closed it, told from events alone. Pure.
//!
//! Opens of our own make the same event as those of others, and the system merges equal events that
//! nobody has fetched yet. So one is sure only where there were more opens than we made: what cannot be
//! told apart counts as ours, for poison that goes too early breaks the tool that verifies its write.
#![forbid(unsafe_code)]

use std::{collections::HashMap, path::Path};

use crate::engine::Target;

/// Opens of files that are dirty.
#[derive(Debug, Default)]
pub(super) struct Readers {
  /// Opens by anybody since the last close by a writer.
  since_close: HashMap<Target, u32>,
  /// Opens of our own since the file was last calm; their events may be from before the close or after.
  own: HashMap<Target, u32>,
}

impl Readers {
  /// A writer closed the file.
  pub(super) fn closed(&mut self, target: Target) {
    self.since_close.insert(target, 0);
  }

  /// Somebody opened it.
  pub(super) fn opened(&mut self, target: &Target) {
    if let Some(n) = self.since_close.get_mut(target) {
      *n = n.saturating_add(1);
    }
  }

  /// We opened it; the event of that comes later, or has come.
  pub(super) fn opened_by_us(&mut self, target: Target) {
    *self.own.entry(target).or_default() += 1;
  }

  /// Whether somebody else opened it after the last close.
  pub(super) fn was_read(&self, target: &Target) -> bool {
    let own = self.own.get(target).copied().unwrap_or(0);
    self.since_close.get(target).is_some_and(|&n| n > own)
  }

  /// The file was processed; what was opened is of no interest any more.
  pub(super) fn forget(&mut self, target: &Target) {
    self.since_close.remove(target);
    self.own.remove(target);
  }

  /// This workspace is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) {
    self.since_close.retain(|target, _| target.root != root);
    self.own.retain(|target, _| target.root != root);
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn target() -> Target {
    Target::new(Path::new("/w"), Path::new("MEMORY.md"))
  }

  #[test]
  fn only_an_open_after_the_close_that_is_not_ours_is_a_reader() {
    let mut readers = Readers::default();
    readers.opened(&target());
    readers.closed(target());
    assert!(!readers.was_read(&target()), "opened before");
    readers.opened_by_us(target());
    readers.opened(&target());
    assert!(!readers.was_read(&target()), "that was us");
    readers.opened(&target());
    assert!(readers.was_read(&target()));
    readers.forget(&target());
    assert!(!readers.was_read(&target()));
  }

  #[test]
  fn an_open_of_ours_never_counts_as_a_reader_in_whatever_order_its_event_comes() {
    let mut readers = Readers::default();
    // Opened by us while the events of the writer before were still to come.
    readers.opened_by_us(target());
    readers.opened(&target());
    readers.closed(target());
    readers.opened(&target());
    assert!(!readers.was_read(&target()));
  }
}
