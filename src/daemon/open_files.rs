//! Files that somebody keeps open: a change through a mapping makes no event and, for a while, no new
//! stamp, so such a file is read again once a minute; and markers that are due wait there, too. Whoever
//! closes it ends that. The timer exists only while there is such a file.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
  time::Duration,
};

use super::{queue::Kind, service::seconds};
use crate::engine::Target;

/// How often a held-open file is read again (docs/adr/0002: a choice).
const EVERY: Duration = Duration::from_mins(1);

/// The files, when each is due, and for what.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
  due: BTreeMap<Target, (Duration, Kind)>,
}

impl OpenFiles {
  /// It was tried just now, and somebody has it open.
  pub(super) fn keep(&mut self, kind: Kind, target: Target, now: Duration) {
    // Reading it again is no less due because markers are.
    if kind == Kind::Urgent || self.kept(&target) != Some(Kind::Urgent) {
      self.due.insert(target, (now + EVERY, kind));
    }
  }

  /// Nobody has it open any more, or it is gone.
  pub(super) fn release(&mut self, target: &Target) {
    self.due.remove(target);
  }

  /// What somebody who has it open keeps us from.
  pub(super) fn kept(&self, target: &Target) -> Option<Kind> {
    self.due.get(target).map(|(_, kind)| *kind)
  }

  /// What to do now.
  pub(super) fn take(&mut self, now: Duration) -> Vec<(Kind, Target)> {
    let due = self.due.extract_if(.., |_, (due, _)| *due <= now);
    due.map(|(target, (_, kind))| (kind, target)).collect()
  }

  /// The directories in which they are.
  pub(super) fn directories(&self) -> BTreeSet<PathBuf> {
    self.due.keys().filter_map(|target| target.path().parent().map(Path::to_owned)).collect()
  }

  /// Those in one of these directories.
  pub(super) fn within(&self, dirs: &[PathBuf]) -> Vec<(Kind, Target)> {
    let is_within =
      |target: &Target| target.path().parent().is_some_and(|dir| dirs.iter().any(|one| one == dir));
    let found = self.due.iter().filter(|(target, _)| is_within(target));
    found.map(|(target, (_, kind))| (*kind, target.clone())).collect()
  }

  /// How long until the next is due; `None` when there is none.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    self.due.values().map(|(due, _)| *due).min().map(|due| due.saturating_sub(now))
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeup(&self) -> Option<String> {
    let files = match self.due.len() {
      0 => return None,
      1 => "a file".to_owned(),
      n => format!("{n} files"),
    };
    Some(format!("reads {files} that somebody keeps open every {}", seconds(EVERY)))
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
    assert_eq!((held.next_due(EVERY), held.wakeup()), (None, None));
    held.keep(Kind::Urgent, target.clone(), EVERY);
    assert_eq!(held.next_due(EVERY), Some(EVERY));
    assert_eq!(held.wakeup().as_deref(), Some("reads a file that somebody keeps open every 60 s"));
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
}
