//! Whether somebody opened a file after its writer had closed it, told from events alone. Pure.
//!
//! Opens of our own make the same event as those of others, and the system merges equal events that
//! nobody has taken yet. So one is sure only where there were more opens than we made: what cannot be
//! told apart counts as ours, for poison that goes too early breaks the tool that verifies its write.
//! For the same reason the question is asked under a lease, with all events that are there by then
//! ([`Readers::would_be_read`]): before it, a writer's own open can stand there without its close.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  path::{Path, PathBuf},
  time::Duration,
};

use crate::{engine::Target, files::WatchEvent};

/// Opens of files that are dirty.
#[derive(Debug, Default)]
pub(super) struct Readers {
  /// Opens by anybody since the last close by a writer.
  since_close: HashMap<Target, u32>,
  /// Opens of our own that may have come after that close.
  own: HashMap<Target, u32>,
  /// Opens of our own since all events were taken in the last time: theirs stand among the next ones,
  /// before or after whatever else does.
  fresh: HashMap<Target, u32>,
  /// Those of them whose events did not come yet.
  to_come: HashMap<Target, u32>,
  /// When somebody else opened a file that is to be reshaped the last time, on the monotonic clock.
  latest: HashMap<Target, Duration>,
}

impl Readers {
  /// A writer closed the file.
  pub(super) fn closed(&mut self, target: Target) {
    self.own.insert(target.clone(), self.fresh.get(&target).copied().unwrap_or(0));
    self.since_close.insert(target, 0);
  }

  /// Somebody opened it; at this time, where that counts for a reshape. Whether that was somebody else.
  pub(super) fn opened(&mut self, target: &Target, at: Option<Duration>) -> bool {
    if let Some(n) = self.since_close.get_mut(target) {
      *n = n.saturating_add(1);
    }
    if let Some(n) = self.to_come.get_mut(target).filter(|n| **n > 0) {
      *n -= 1;
      return false;
    }
    if let Some(at) = at {
      self.latest.insert(target.clone(), at);
    }
    true
  }

  /// We opened it; the event of that comes later.
  pub(super) fn opened_by_us(&mut self, target: &Target) {
    for opens in [&mut self.own, &mut self.fresh, &mut self.to_come] {
      let n = opens.entry(target.clone()).or_default();
      *n = n.saturating_add(1);
    }
  }

  /// All events that there were are taken in, those of our own opens too.
  pub(super) fn heard_all(&mut self) {
    self.fresh.clear();
    self.to_come.clear();
  }

  /// Events were lost: nobody is known to have read anything.
  pub(super) fn lost_some(&mut self) {
    self.since_close.clear();
  }

  /// Whether somebody else opened it after the last close.
  pub(super) fn was_read(&self, target: &Target) -> bool {
    let own = self.own.get(target).copied().unwrap_or(0);
    self.since_close.get(target).is_some_and(|&n| n > own)
  }

  /// The same once these events, which are all that there are, will have been taken in, and so many
  /// further opens of our own have been counted.
  pub(super) fn would_be_read<'e>(
    &self,
    target: &Target,
    own_opens: u32,
    events: impl IntoIterator<Item = &'e WatchEvent>,
  ) -> bool {
    let path: PathBuf = target.path();
    let of = |opens: &HashMap<Target, u32>| opens.get(target).copied().unwrap_or(0);
    let mut own = of(&self.own).saturating_add(own_opens);
    let mut opens = self.since_close.get(target).copied();
    for event in events {
      match event {
        WatchEvent::Closed(closed) if *closed == path => {
          opens = Some(0);
          own = of(&self.fresh).saturating_add(own_opens);
        }
        WatchEvent::Opened(opened) if *opened == path => {
          opens = opens.map(|n| n.saturating_add(1));
        }
        WatchEvent::Rescan => opens = None,
        _ => {}
      }
    }
    opens.is_some_and(|n| n > own)
  }

  /// When somebody else opened it the last time.
  pub(super) fn latest(&self, target: &Target) -> Option<Duration> {
    self.latest.get(target).copied()
  }

  /// It is reshaped now.
  pub(super) fn forget_latest(&mut self, target: &Target) {
    self.latest.remove(target);
  }

  /// The file was processed; what was opened is of no interest any more. Events of our own opens are
  /// still to come.
  pub(super) fn forget(&mut self, target: &Target) {
    self.since_close.remove(target);
    self.own.remove(target);
  }

  /// This workspace is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) {
    for opens in [&mut self.since_close, &mut self.own, &mut self.fresh, &mut self.to_come] {
      opens.retain(|target, _| target.root != root);
    }
    self.latest.retain(|target, _| target.root != root);
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
    readers.opened(&target(), None);
    readers.closed(target());
    assert!(!readers.was_read(&target()), "opened before");
    readers.opened_by_us(&target());
    readers.opened(&target(), None);
    assert!(!readers.was_read(&target()), "that was us");
    readers.opened(&target(), None);
    assert!(readers.was_read(&target()));
    readers.forget(&target());
    assert!(!readers.was_read(&target()));
  }

  #[test]
  fn an_open_of_ours_never_counts_as_a_reader_in_whatever_order_its_event_comes() {
    let mut readers = Readers::default();
    // Opened by us while the events of the writer before were still to come.
    readers.opened_by_us(&target());
    readers.opened(&target(), None);
    readers.closed(target());
    readers.opened(&target(), None);
    assert!(!readers.was_read(&target()));
  }

  #[test]
  fn the_latest_open_by_others_is_known_and_ours_is_none() {
    let mut readers = Readers::default();
    let at = Duration::from_secs;
    readers.opened_by_us(&target());
    readers.opened(&target(), Some(at(1)));
    assert_eq!(readers.latest(&target()), None);
    readers.opened(&target(), Some(at(2)));
    readers.opened(&target(), None);
    assert_eq!(readers.latest(&target()), Some(at(2)));
    readers.forget_latest(&target());
    assert_eq!(readers.latest(&target()), None);
  }
}
