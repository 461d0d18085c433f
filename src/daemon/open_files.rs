//! Open files: a change through a memory mapping makes no event and, for a while, no new stamp, so a
//! file that another program keeps open is read again once a minute. Due markers wait here as well. The
//! close of the file ends that. The timer exists only while there is such a file.
//!
//! Files that are not fully guarded are here as well: the removal of a second hard link, or of a mount
//! over the file, may make no event in its directory, so the stamp is compared once a minute, without
//! opening the file.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
  time::Duration,
};

use super::{queue::Kind, service::seconds};
use crate::{engine::Target, plural};

/// How often an open file is read again (docs/adr/0002: a choice).
const EVERY: Duration = Duration::from_mins(1);
/// The most files that are watched themselves, beside their directories (a choice: each takes one
/// watch).
const MAX_NOTED: usize = 1024;

/// The open files, with when each is due, and for what.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
  due: BTreeMap<Target, (Duration, Kind)>,
  /// Files that are not fully guarded, and when each is due.
  noted: BTreeMap<Target, Duration>,
}

impl OpenFiles {
  /// Notes that a file was tried just now and that another program has it open.
  pub(super) fn keep(&mut self, kind: Kind, target: Target, now: Duration) {
    // Due markers do not replace a due pass.
    if kind == Kind::Urgent || self.kept(&target) != Some(Kind::Urgent) {
      self.due.insert(target, (now + EVERY, kind));
    }
  }

  /// Notes that a file was read at `now` and is not fully guarded; with `None` it is fully guarded or
  /// gone.
  pub(super) fn note(&mut self, target: &Target, now: Option<Duration>) {
    match now {
      Some(now) => drop(self.noted.insert(target.clone(), now + EVERY)),
      None => drop(self.noted.remove(target)),
    }
  }

  /// The paths of the files that are not fully guarded, at most [`MAX_NOTED`].
  pub(super) fn noted(&self) -> BTreeSet<PathBuf> {
    self.noted.keys().take(MAX_NOTED).map(Target::path).collect()
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) {
    self.due.retain(|target, _| target.root != root);
    self.noted.retain(|target, _| target.root != root);
  }

  /// Notes that a file is not open any more, or is gone.
  pub(super) fn release(&mut self, target: &Target) {
    self.due.remove(target);
  }

  /// The work on a file that waits until the file is closed.
  pub(super) fn kept(&self, target: &Target) -> Option<Kind> {
    self.due.get(target).map(|(_, kind)| *kind)
  }

  /// The work that is due now.
  pub(super) fn take(&mut self, now: Duration) -> Vec<(Kind, Target)> {
    let due = self.due.extract_if(.., |_, (due, _)| *due <= now);
    let open = due.map(|(target, (_, kind))| (kind, target));
    let noted = self.noted.iter_mut().filter(|(_, due)| **due <= now);
    let noted = noted.map(|(target, due)| {
      *due = now + EVERY;
      (Kind::Urgent, target.clone())
    });
    open.chain(noted).collect()
  }

  /// The directories of the open files.
  pub(super) fn directories(&self) -> BTreeSet<PathBuf> {
    self.due.keys().filter_map(|target| target.path().parent().map(Path::to_owned)).collect()
  }

  /// The open files in one of these directories.
  pub(super) fn within(&self, dirs: &[PathBuf]) -> Vec<(Kind, Target)> {
    let is_within =
      |target: &Target| target.path().parent().is_some_and(|dir| dirs.iter().any(|one| one == dir));
    let found = self.due.iter().filter(|(target, _)| is_within(target));
    found.map(|(target, (_, kind))| (*kind, target.clone())).collect()
  }

  /// How long until the next file is due; `None` without files.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = self.due.values().map(|(due, _)| due).chain(self.noted.values()).min();
    due.map(|due| due.saturating_sub(now))
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeups(&self) -> impl Iterator<Item = String> {
    let every = seconds(EVERY);
    let files = |n: usize| (n > 0).then(|| plural::some(n as u64, "file"));
    let open = files(self.due.len())
      .map(|files| format!("reads {files} that another program keeps open every {every}"));
    let noted = files(self.noted.len())
      .map(|files| format!("checks {files} that cannot be fully guarded every {every}"));
    open.into_iter().chain(noted)
  }
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;

  #[test]
  fn a_file_is_due_once_a_minute_until_it_is_let_go() {
    let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
    let mut held = OpenFiles::default();
    let wakeups = |held: &OpenFiles| held.wakeups().collect::<Vec<_>>();
    assert_eq!((held.next_due(EVERY), wakeups(&held)), (None, vec![]));
    held.keep(Kind::Urgent, target.clone(), EVERY);
    assert_eq!(held.next_due(EVERY), Some(EVERY));
    assert_eq!(wakeups(&held), ["reads a file that another program keeps open every 60 s"]);
    assert!(held.take(EVERY + EVERY / 2).is_empty());
    assert_eq!(held.directories(), BTreeSet::from(["/w".into()]));
    assert_eq!(held.within(&["/w".into()]), [(Kind::Urgent, target.clone())]);
    assert_eq!(held.within(&["/w/memory".into()]), []);
    assert_eq!(held.take(EVERY * 2), [(Kind::Urgent, target.clone())]);
    assert_eq!(held.next_due(EVERY * 2), None);
    held.keep(Kind::Urgent, target.clone(), EVERY);
    held.keep(Kind::Lazy, target.clone(), EVERY * 2);
    assert_eq!(held.kept(&target), Some(Kind::Urgent));
    assert_eq!(held.next_due(EVERY), Some(EVERY));
    held.release(&target);
    assert_eq!(held.next_due(EVERY), None);
  }

  #[test]
  fn a_file_that_is_not_fully_guarded_is_due_once_a_minute_until_it_is() {
    let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
    let mut held = OpenFiles::default();
    held.note(&target, Some(EVERY));
    assert_eq!(held.noted(), BTreeSet::from(["/w/MEMORY.md".into()]));
    assert_eq!(held.directories(), BTreeSet::new(), "nothing waits for its readers");
    assert!(held.wakeups().eq(["checks a file that cannot be fully guarded every 60 s"]));
    for minute in 2..5 {
      assert!(held.take((EVERY * minute).saturating_sub(Duration::from_secs(1))).is_empty());
      assert_eq!(held.take(EVERY * minute), [(Kind::Urgent, target.clone())]);
    }
    held.note(&target, None);
    assert_eq!(held.next_due(EVERY), None);
  }
}
