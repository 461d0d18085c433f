//! Whether the files of the ledger are still where they were when it was opened.
//!
//! SQLite continues to write to a database that was removed or replaced. Such writes are in no ledger that
//! is opened later, so text that is sealed there and overwritten in its file would be lost. Three calls of
//! `stat` per write transaction detect this (about a microsecond each).
#![forbid(unsafe_code)]

use std::{
  os::unix::fs::MetadataExt as _,
  path::{Path, PathBuf},
};

/// Device and inode of a file; `None` where there is no such file.
type Identity = Option<(u64, u64)>;

/// The database file and its write-ahead log as they were when the ledger was opened.
#[derive(Debug)]
pub(super) struct Place {
  path: PathBuf,
  database: Identity,
  log_path: PathBuf,
  log: Identity,
}

impl Place {
  /// The files as they are now.
  pub(super) fn of(path: &Path) -> Self {
    // SQLite resolves links before it names the log.
    let mut log_path =
      path.canonicalize().unwrap_or_else(|_error| path.to_owned()).into_os_string();
    log_path.push("-wal");
    let log_path = PathBuf::from(log_path);
    let (database, log) = (identity(path), identity(&log_path));
    Self { path: path.to_owned(), database, log_path, log }
  }

  /// Whether the path now leads to another database.
  pub(super) fn is_elsewhere(&self) -> bool {
    // A log that did not exist when the ledger was opened may be created later.
    self.database != identity(&self.path)
      || self.database.is_some() && is_empty(&self.path)
      || self.log.is_some() && self.log != identity(&self.log_path)
  }

  /// The device and the inode of the database.
  pub(super) fn database(&self) -> Identity {
    self.database
  }
}

/// Links are followed, as SQLite does.
pub(super) fn identity(path: &Path) -> Identity {
  path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// A database that was truncated to nothing has no pages, so its log is useless too.
fn is_empty(path: &Path) -> bool {
  path.metadata().is_ok_and(|found| found.len() == 0)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]
mod tests {
  use std::fs;

  use super::*;
  use crate::store::tests::Home;
  use crate::store::{StateKey, StoreError};

  #[test]
  fn nothing_is_written_into_a_ledger_that_was_removed_or_replaced() {
    for what in ["removed", "replaced", "log removed", "emptied"] {
      let home = Home::new();
      let mut ledger = home.ledger();
      let path = ledger.path().to_owned();
      ledger.set_state(&StateKey::Daemon, "1", 1).unwrap();
      ledger.check_place().unwrap();
      let (aside, log) = (path.with_extension("aside"), Place::of(&path).log_path);
      match what {
        "log removed" => fs::rename(&log, &aside).unwrap(),
        "emptied" => {
          fs::copy(&path, &aside).unwrap();
          fs::write(&path, b"").unwrap();
        }
        _ => fs::rename(&path, &aside).unwrap(),
      }
      if what == "replaced" {
        fs::write(&path, b"").unwrap();
      }
      let error = ledger.set_state(&StateKey::Daemon, "2", 2).unwrap_err();
      assert!(matches!(error, StoreError::Moved { .. }) && error.is_outage(), "{what}: {error}");
      // After the former files are restored, writing continues.
      match what {
        "log removed" => fs::rename(&aside, &log).unwrap(),
        "emptied" => fs::write(&path, fs::read(&aside).unwrap()).unwrap(),
        _ => fs::rename(&aside, &path).unwrap(),
      }
      ledger.set_state(&StateKey::Daemon, "3", 3).unwrap();
      assert_eq!(ledger.state(&StateKey::Daemon).unwrap(), Some(("3".into(), 3)), "{what}");
    }
  }
}
