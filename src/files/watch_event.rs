//! What a watcher of directories reports.
#![forbid(unsafe_code)]

use std::{fmt, path::PathBuf};

use crate::os::shown::Shown;

/// An event. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
  /// Something about this path may have changed.
  Dirty(PathBuf),
  /// A program, possibly memfw itself, opened this path for reading or writing.
  Opened(PathBuf),
  /// A program, possibly memfw itself, that had this path open for writing closed it, or moved a file
  /// here: the file is complete.
  Closed(PathBuf),
  /// A program that had this path open only for reading closed it; reported only for the directories of
  /// [`hear_readers`](super::Watcher::hear_readers).
  Released(PathBuf),
  /// A directory appeared here: walk and watch it.
  DirAdded(PathBuf),
  /// This watched directory was deleted or moved away, and its watch is off. If a directory is
  /// there (by now, or because the event is older than the watch), add it again and walk it; else
  /// [`remove`](super::Watcher::remove) it.
  RootGone(PathBuf),
  /// Events were lost: compare all stamps.
  Rescan,
  /// A limit of the system was reached; something is not watched.
  Limit(Limit),
  /// The watcher failed otherwise; events may be lost.
  Error(String),
}

/// A limit of inotify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
  /// Directories watched by one user.
  Watches,
  /// inotify instances of one user.
  Instances,
}

impl Limit {
  /// The kernel setting that raises it.
  pub const fn sysctl(self) -> &'static str {
    match self {
      Self::Watches => "fs.inotify.max_user_watches",
      Self::Instances => "fs.inotify.max_user_instances",
    }
  }
}

impl fmt::Display for Limit {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (what, value) = match self {
      Self::Watches => ("watched directories", 524_288),
      Self::Instances => ("inotify instances", 1024),
    };
    let setting = self.sysctl();
    write!(
      f,
      "the system's limit of {what} is reached; raise it with `sudo sysctl {setting}={value}`"
    )
  }
}

/// A directory is not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
  /// A limit of the system was reached.
  #[error("{0}")]
  Limit(Limit),
  /// There is no directory (or a link to one) under that path.
  #[error("{} is not a directory", Shown(.0))]
  NotADirectory(PathBuf),
  /// It was replaced while the watch was set; try again.
  #[error("{} was replaced while its watch was set", Shown(.0))]
  Replaced(PathBuf),
  /// The system failed otherwise.
  #[error("cannot watch {}: {text}", Shown(path))]
  Failed {
    /// The directory, empty when the watcher itself could not be made.
    path: PathBuf,
    /// The system's answer.
    text: String,
  },
}

/// The meaning of an event of the system.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
  /// A change that the engine must see.
  Event(WatchEvent),
  /// A directory was deleted or moved away; if it is watched, it and what is below it are gone.
  Gone(PathBuf),
}
