//! Whether another program opened a file after its writer had closed it, derived from events alone.
//! Pure.
//!
//! memfw's own opens cause events like any others, and the kernel merges equal events that are not taken
//! yet. So a read is certain only if there were more opens than memfw made. What is uncertain counts as
//! memfw's own: poison that is redacted too early breaks the tool that verifies its write. For this
//! reason the question is asked under a lease, with all events so far ([`Readers::would_be_read`]):
//! before the lease, a writer's open can be there without its close.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  path::{Path, PathBuf},
  time::Duration,
};

use crate::{engine::Target, files::WatchEvent};

/// Opens of dirty files.
#[derive(Debug, Default)]
pub(super) struct Readers {
  /// All opens since the last close by a writer.
  since_close: HashMap<Target, u32>,
  /// memfw's own opens that may have come after that close.
  own: HashMap<Target, u32>,
  /// memfw's own opens since all events were last taken: their events are somewhere among the next ones.
  fresh: HashMap<Target, u32>,
  /// Those of memfw's own opens whose events did not come yet.
  to_come: HashMap<Target, u32>,
  /// When another program last opened a file that is due for a lazy pass, on the monotonic clock.
  latest: HashMap<Target, Duration>,
}

impl Readers {
  /// A writer closed the file.
  pub(super) fn closed(&mut self, target: Target) {
    self.own.insert(target.clone(), self.fresh.get(&target).copied().unwrap_or(0));
    self.since_close.insert(target, 0);
  }

  /// A program opened the file, at this time if that matters for a lazy pass. Returns whether it was
  /// another program.
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

  /// memfw opened the file; the event of that open comes later.
  pub(super) fn opened_by_us(&mut self, target: &Target) {
    for opens in [&mut self.own, &mut self.fresh, &mut self.to_come] {
      let n = opens.entry(target.clone()).or_default();
      *n = n.saturating_add(1);
    }
  }

  /// All events were taken, including those of memfw's own opens.
  pub(super) fn heard_all(&mut self) {
    self.fresh.clear();
    self.to_come.clear();
  }

  /// Events were lost, so no reader is known.
  pub(super) fn lost_some(&mut self) {
    self.since_close.clear();
  }

  /// Whether another program opened the file after the last close.
  pub(super) fn was_read(&self, target: &Target) -> bool {
    let own = self.own.get(target).copied().unwrap_or(0);
    self.since_close.get(target).is_some_and(|&n| n > own)
  }

  /// As [`Self::was_read`], but as if `events`, which must be all events so far, had been taken, and
  /// `own_opens` further opens of memfw had been counted.
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

  /// When another program last opened the file.
  pub(super) fn latest(&self, target: &Target) -> Option<Duration> {
    self.latest.get(target).copied()
  }

  /// The lazy pass of the file begins.
  pub(super) fn forget_latest(&mut self, target: &Target) {
    self.latest.remove(target);
  }

  /// Forgets the opens of a file that was processed. Events of memfw's own opens may still come.
  pub(super) fn forget(&mut self, target: &Target) {
    self.since_close.remove(target);
    self.own.remove(target);
  }

  /// Forgets a directory that is not guarded any more.
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
  fn an_open_of_memfw_never_counts_as_a_reader_in_whatever_order_its_event_comes() {
    let mut readers = Readers::default();
    // The open comes before the events of the earlier writer were taken.
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
