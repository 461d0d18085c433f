//! When to ask again: records that could not be read may become readable within a moment, and the record
//! of a write may come after the write, both without any change in the file.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, time::Duration};

/// How often to ask again, for how long, and about how many at a time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pace {
  /// The longest pause between two tries, which repeats.
  max_pause: Duration,
  /// For how long to ask again without a change.
  max_wait: Duration,
  /// The most files that wait at one time; further ones are not asked about again.
  most: usize,
}

/// Pauses between two tries; those of a few seconds come first, because most records are readable by then.
static PAUSES: [Duration; 9] = [
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

/// What could not be read. Choices: a locked database, and a registry that is being written, are readable
/// again within seconds, and a damaged one is tried rarely.
pub(super) static UNREAD: Pace =
  Pace { max_pause: Duration::from_mins(10), max_wait: Duration::from_hours(24), most: usize::MAX };

/// Young text whose origin is only inferred. Choices: late records came within seconds, the engine ends the
/// questions when the text is no longer young, and a copy of thousands of notes must not keep the records busy.
pub(super) static INFERRED: Pace =
  Pace { max_pause: Duration::from_mins(1), max_wait: Duration::from_mins(10), most: 256 };

/// What is asked again, and when: records about files, or, with `()`, the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AskedAgain<K> {
  pace: &'static Pace,
  waiting: BTreeMap<K, Wait>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
  since: Duration,
  /// `None` while the question is asked.
  due: Option<Duration>,
  tries: usize,
}

impl<K: Ord + Clone> AskedAgain<K> {
  /// Nothing waits so far.
  pub(super) fn at(pace: &'static Pace) -> Self {
    Self { pace, waiting: BTreeMap::new() }
  }

  /// Notes that records about a file could not be read, or do not explain it.
  pub(super) fn failed(&mut self, target: &K, now: Duration) {
    if self.waiting.len() >= self.pace.most && !self.waiting.contains_key(target) {
      return;
    }
    let first = Wait { since: now, due: None, tries: 0 };
    let wait = self.waiting.entry(target.clone()).or_insert(first);
    if now.saturating_sub(wait.since) >= self.pace.max_wait {
      self.waiting.remove(target);
      return;
    }
    if wait.due.is_none() {
      let longest = self.pace.max_pause;
      let pause = PAUSES.get(wait.tries).map_or(longest, |&pause| pause.min(longest));
      wait.due = Some(now + pause);
      wait.tries = wait.tries.saturating_add(1);
    }
  }

  /// Notes that records about a file answered, or that the file is no longer guarded.
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
    let (mut unread, at) = (AskedAgain::at(&UNREAD), Duration::from_secs);
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
    let (mut unread, mut now) = (AskedAgain::at(&UNREAD), Duration::ZERO);
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
    assert!(now >= UNREAD.max_wait && (140..170).contains(&n_tries), "{n_tries}");
  }

  #[test]
  fn late_records_are_awaited_for_minutes_and_for_a_few_files_only() {
    let (mut young, at) = (AskedAgain::at(&INFERRED), Duration::from_secs);
    let names: Vec<Target> = (0..1_000).map(|n| target(&format!("{n:04}.md"))).collect();
    for name in &names {
      young.failed(name, at(0));
    }
    assert_eq!(young.take(at(1)).len(), INFERRED.most);
    let (mut now, mut n_tries) = (at(1), 1);
    young.failed(&names[0], now);
    while let Some(pause) = young.next_due(now) {
      now += pause;
      assert_eq!(young.take(now), std::slice::from_ref(&names[0]));
      young.failed(&names[0], now);
      n_tries += 1;
    }
    assert!(now < at(700) && n_tries < 20, "{now:?} {n_tries}");
  }
}
