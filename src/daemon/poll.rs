//! Directories whose changes may come without an event: their stamps are compared every two seconds.
//!
//! Polling opens no file. The timer exists only while such a directory does.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, HashMap},
  fmt,
  path::{Path, PathBuf},
  time::Duration,
};

use crate::{
  engine::{Target, event::shown},
  files::Stamp,
};

/// The time between two polls (docs/adr/0002: a choice; 10,000 stamps take 50 ms).
pub const EVERY: Duration = Duration::from_secs(2);

/// Why events are not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
  /// Changes may bypass this kernel, as on a network file system, or the configuration asks for polling.
  Shared,
  /// A limit of the system prevents directories from being watched.
  Unwatched,
}

impl fmt::Display for Why {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(match self {
      Self::Shared => "changes may come without an event",
      Self::Unwatched => "not every directory is watched",
    })
  }
}

/// The directories that are polled.
#[derive(Debug, Default)]
pub struct Polls {
  polled: BTreeMap<PathBuf, Polled>,
  due: Duration,
}

#[derive(Debug)]
struct Polled {
  why: Why,
  /// The stamps of the last poll; `None` before the first one.
  stamps: Option<HashMap<Target, Stamp>>,
}

impl Polls {
  /// Sets why a directory is polled; `None` ends its polling.
  pub fn set(&mut self, root: &Path, why: Option<Why>, now: Duration) {
    match why {
      None => drop(self.polled.remove(root)),
      Some(why) => {
        if self.polled.is_empty() {
          self.due = now + EVERY;
        }
        self.polled.entry(root.to_owned()).or_insert(Polled { why, stamps: None }).why = why;
      }
    }
  }

  /// Why a directory is polled, if it is.
  pub fn why(&self, root: &Path) -> Option<Why> {
    self.polled.get(root).map(|polled| polled.why)
  }

  /// The directories to poll now; the next poll is [`EVERY`] later.
  pub fn take(&mut self, now: Duration) -> Vec<PathBuf> {
    if self.polled.is_empty() || now < self.due {
      return Vec::new();
    }
    self.due = now + EVERY;
    self.polled.keys().cloned().collect()
  }

  /// How long until the next poll; `None` when nothing is polled.
  pub fn next_due(&self, now: Duration) -> Option<Duration> {
    (!self.polled.is_empty()).then(|| self.due.saturating_sub(now))
  }

  /// Whether a directory has no stamps to compare with yet.
  pub fn is_first(&self, root: &Path) -> bool {
    self.polled.get(root).is_none_or(|polled| polled.stamps.is_none())
  }

  /// The files whose stamps differ from those of the last poll, including removed files.
  pub fn changed(&mut self, root: &Path, stamps: HashMap<Target, Stamp>) -> Vec<Target> {
    let Some(polled) = self.polled.get_mut(root) else { return stamps.into_keys().collect() };
    let old = polled.stamps.take().unwrap_or_default();
    let mut changed: Vec<Target> =
      old.keys().filter(|target| !stamps.contains_key(target)).cloned().collect();
    changed.extend(
      stamps
        .iter()
        .filter(|(target, stamp)| old.get(target) != Some(stamp))
        .map(|(t, _)| t.clone()),
    );
    polled.stamps = Some(stamps);
    changed
  }
}

/// First and longest pause before a directory is scanned again of which a part could not be read. Such a
/// part is tried once a minute for as long as that lasts (choices).
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Directories of which a part could not be read, for a reason that may pass.
#[derive(Debug, Default)]
pub struct Retries {
  failed: BTreeMap<PathBuf, Failed>,
}

#[derive(Debug)]
struct Failed {
  due: Option<Duration>,
  tries: u32,
}

impl Retries {
  /// A scan has just failed.
  pub fn failed(&mut self, root: &Path, now: Duration) {
    let failed = self.failed.entry(root.to_owned()).or_insert(Failed { due: None, tries: 0 });
    if failed.due.is_none() {
      let pause = FIRST_RETRY.saturating_mul(1 << failed.tries.min(10)).min(LAST_RETRY);
      failed.tries = failed.tries.saturating_add(1);
      failed.due = Some(now + pause);
    }
  }

  /// A scan succeeded, or the directory is not guarded any more.
  pub fn succeeded(&mut self, root: &Path) {
    self.failed.remove(root);
  }

  /// The directories to scan now.
  pub fn take(&mut self, now: Duration) -> Vec<PathBuf> {
    let due = self.failed.iter_mut().filter(|(_, failed)| failed.due.is_some_and(|due| due <= now));
    due
      .map(|(root, failed)| {
        failed.due = None;
        root.clone()
      })
      .collect()
  }

  /// How long until the next scan; `None` when none is needed.
  pub fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = self.failed.values().filter_map(|failed| failed.due).min();
    due.map(|due| due.saturating_sub(now))
  }

  /// How this wakes the process, for `status`.
  pub fn wakeups(&self) -> impl Iterator<Item = String> {
    self
      .failed
      .keys()
      .map(|root| format!("tries unreadable paths in `{}` again, less and less often", shown(root)))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_cannot_be_looked_at_is_tried_ever_more_rarely_until_it_can() {
    let root = Path::new("/w");
    let mut retries = Retries::default();
    assert_eq!(retries.next_due(ms(0)), None);
    let (mut now, mut pauses) = (ms(0), Vec::new());
    for _ in 0..12 {
      retries.failed(root, now);
      // A failure before the next scan is due changes nothing.
      retries.failed(root, now + ms(1));
      let pause = retries.next_due(now).unwrap();
      assert!(retries.take(now).is_empty());
      pauses.push(pause);
      now += pause;
      assert_eq!(retries.take(now), [root]);
      assert_eq!(retries.next_due(now), None, "it is being looked at");
    }
    assert!(
      pauses.is_sorted() && pauses[0] == FIRST_RETRY && pauses[11] == LAST_RETRY,
      "{pauses:?}"
    );
    assert_eq!(retries.wakeups().count(), 1);
    retries.succeeded(root);
    assert_eq!((retries.next_due(now), retries.wakeups().count()), (None, 0));
    retries.failed(root, now);
    assert_eq!(retries.next_due(now), Some(FIRST_RETRY));
  }

  const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
  }

  fn stamps(list: &[(&str, u64)]) -> HashMap<Target, Stamp> {
    let stamp = |size| Stamp { dev: 1, ino: 2, size, mtime_ns: 0, ctime_ns: 0 };
    let target = |name| Target::new(Path::new("/w"), Path::new(name));
    list.iter().map(|&(name, size)| (target(name), stamp(size))).collect()
  }

  #[test]
  fn the_timer_exists_only_while_something_is_polled() {
    let root = Path::new("/w");
    let mut polls = Polls::default();
    polls.set(root, None, ms(0));
    assert_eq!((polls.next_due(ms(0)), polls.take(ms(9000))), (None, vec![]));
    polls.set(root, Some(Why::Shared), ms(1000));
    assert_eq!(polls.next_due(ms(1500)), Some(ms(1500)));
    assert_eq!(polls.take(ms(2999)), Vec::<PathBuf>::new());
    assert_eq!(polls.take(ms(3500)), [root]);
    assert_eq!(polls.next_due(ms(3500)), Some(EVERY));
    polls.set(root, None, ms(3600));
    assert_eq!(polls.next_due(ms(3600)), None);
  }

  #[test]
  fn what_differs_from_the_last_look_is_dirty() {
    let root = Path::new("/w");
    let mut polls = Polls::default();
    polls.set(root, Some(Why::Unwatched), ms(0));
    let names = |changed: Vec<Target>| {
      let mut names: Vec<_> = changed.into_iter().map(|target| target.rel).collect();
      names.sort();
      names
    };
    assert!(polls.is_first(root));
    assert_eq!(
      names(polls.changed(root, stamps(&[("a", 1), ("b", 1)]))),
      [Path::new("a"), Path::new("b")]
    );
    assert!(!polls.is_first(root));
    assert!(polls.changed(root, stamps(&[("a", 1), ("b", 1)])).is_empty());
    let changed = polls.changed(root, stamps(&[("a", 2), ("c", 1)]));
    assert_eq!(names(changed), ["a", "b", "c"].map(PathBuf::from));
    // Setting the reason again keeps the stamps.
    polls.set(root, Some(Why::Unwatched), ms(0));
    assert!(polls.changed(root, stamps(&[("a", 2), ("c", 1)])).is_empty());
  }
}
