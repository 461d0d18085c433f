//! When to read again what could not be read: it may become readable within a moment, without any change
//! in the file.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, time::Duration};

/// Pauses between two tries; the last one repeats. Choices: a locked database, and a registry that is
/// being written, are readable again within seconds, and a damaged one is tried rarely.
const PAUSES: [Duration; 9] = [
  Duration::from_secs(1),
  Duration::from_secs(2),
  Duration::from_secs(5),
  Duration::from_secs(10),
  Duration::from_secs(20),
  Duration::from_secs(30),
  Duration::from_mins(1),
  Duration::from_mins(2),
  Duration::from_mins(10),
];
/// For how long reading is tried again without a change in the file (a choice).
const MAX_WAIT: Duration = Duration::from_hours(24);

/// What could not be read, and when it is read again: records about files, or, with `()`, the
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread<K> {
  waiting: BTreeMap<K, Wait>,
}

impl<K> Default for Unread<K> {
  fn default() -> Self {
    Self { waiting: BTreeMap::new() }
  }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
  since: Duration,
  /// `None` while the question is asked.
  due: Option<Duration>,
  tries: usize,
}

impl<K: Ord + Clone> Unread<K> {
  /// Notes that records about a file could not be read.
  pub(super) fn failed(&mut self, target: &K, now: Duration) {
    let first = Wait { since: now, due: None, tries: 0 };
    let wait = self.waiting.entry(target.clone()).or_insert(first);
    if now.saturating_sub(wait.since) >= MAX_WAIT {
      self.waiting.remove(target);
      return;
    }
    if wait.due.is_none() {
      let pause = PAUSES.get(wait.tries).or(PAUSES.last()).copied().unwrap_or_default();
      wait.due = Some(now + pause);
      wait.tries = wait.tries.saturating_add(1);
    }
  }

  /// Notes that records about a file could be read, or that the file is no longer guarded.
  pub(super) fn ended(&mut self, target: &K) {
    self.waiting.remove(target);
  }

  /// The files whose records are due, which the caller must ask about now.
  pub(super) fn take(&mut self, now: Duration) -> Vec<K> {
    let due = |wait: &Wait| wait.due.is_some_and(|due| due <= now);
    let taken = self.waiting.iter_mut().filter(|(_, wait)| due(wait));
    taken
      .map(|(target, wait)| {
        wait.due = None;
        target.clone()
      })
      .collect()
  }

  /// How long until the next try.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = self.waiting.values().filter_map(|wait| wait.due).min();
    due.map(|due| due.saturating_sub(now))
  }
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;
  use crate::engine::Target;

  fn target(name: &str) -> Target {
    Target::new(Path::new("/w"), Path::new(name))
  }

  #[test]
  fn pauses_of_each_file_grow_until_its_records_can_be_read() {
    let (mut unread, at) = (Unread::default(), Duration::from_secs);
    let (a, b) = (target("a.md"), target("b.md"));
    assert_eq!(unread.next_due(at(0)), None);
    unread.failed(&a, at(0));
    unread.failed(&a, at(0));
    assert_eq!(unread.next_due(at(0)), Some(at(1)));
    assert_eq!(unread.take(at(0)), []);
    assert_eq!((unread.take(at(1)), unread.take(at(1))), (vec![a.clone()], vec![]));
    unread.failed(&a, at(1));
    unread.failed(&b, at(1));
    // A new file is not tried as rarely as an old one.
    assert_eq!(unread.next_due(at(1)), Some(at(1)));
    assert_eq!((unread.take(at(2)), unread.take(at(3))), (vec![b.clone()], vec![a.clone()]));
    unread.ended(&a);
    unread.ended(&b);
    assert_eq!(unread.next_due(at(3)), None);
  }

  #[test]
  fn a_question_is_asked_again_for_a_day() {
    let (mut unread, mut now) = (Unread::default(), Duration::ZERO);
    let a = target("a.md");
    unread.failed(&a, now);
    let mut n_tries = 0;
    while let Some(pause) = unread.next_due(now) {
      assert!(pause <= Duration::from_mins(10));
      now += pause;
      assert_eq!(unread.take(now), std::slice::from_ref(&a));
      unread.failed(&a, now);
      n_tries += 1;
    }
    assert!(now >= MAX_WAIT && (140..170).contains(&n_tries), "{n_tries}");
  }
}
