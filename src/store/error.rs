//! Errors of the ledger, in words for people, each with a remedy.
#![forbid(unsafe_code)]

use std::{io, path::Path, path::PathBuf};

use rusqlite::ErrorCode;

use crate::{memory::BlockId, provenance::State, seal::SealError};

/// An error. Messages are one line; [`StoreError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
  /// There is no ledger yet, and opening for reading does not create one.
  #[error("there is no ledger at `{}` yet", path.display())]
  Missing {
    /// The path at which it would be.
    path: PathBuf,
  },
  /// A later memfw made the database.
  #[error(
    "`{}` was made by a newer memfw: it has format {found}, this memfw knows {known}",
    path.display()
  )]
  Newer {
    /// The format of the database.
    found: i64,
    /// The newest format that this memfw knows.
    known: i64,
    /// The database.
    path: PathBuf,
    /// The version of the memfw that made it, if recorded.
    by: Option<String>,
    /// The newest backup that this memfw can read.
    backup: Option<PathBuf>,
  },
  /// An earlier memfw made the database, and opening for reading does not migrate.
  #[error("`{}` has format {found}, this memfw needs {known}", path.display())]
  Older {
    /// The format of the database.
    found: i64,
    /// The format that this memfw needs.
    known: i64,
    /// The database.
    path: PathBuf,
  },
  /// An SQLite database, but not memfw's.
  #[error("`{}` is the database of another program", path.display())]
  NotOurs {
    /// The file.
    path: PathBuf,
  },
  /// Not an SQLite database.
  #[error("`{}` is not an SQLite database", path.display())]
  NotADatabase {
    /// The file.
    path: PathBuf,
  },
  /// The pages of the database are inconsistent.
  #[error("`{}` is damaged: {detail}", path.display())]
  Corrupt {
    /// The database.
    path: PathBuf,
    /// The message of SQLite.
    detail: String,
  },
  /// A row has a value that memfw does not write.
  #[error("`{}` contains a value that memfw did not write: {detail}", path.display())]
  BadValue {
    /// The database.
    path: PathBuf,
    /// The column, and the problem.
    detail: String,
  },
  /// Another program kept the database locked for longer than the busy timeout.
  #[error("`{}` is locked by another program", path.display())]
  Locked {
    /// The database.
    path: PathBuf,
  },
  /// The database was removed or replaced after it was opened.
  #[error("`{}` was removed or replaced while memfw had it open", path.display())]
  Moved {
    /// Where it was.
    path: PathBuf,
  },
  /// Nothing can be written: because of permissions, the mount, or read-only opening.
  #[error("`{}` cannot be written", path.display())]
  ReadOnly {
    /// The database.
    path: PathBuf,
  },
  /// No space is left.
  #[error("no space is left for `{}`", path.display())]
  Full {
    /// The database.
    path: PathBuf,
  },
  /// The file, or its directory, cannot be opened or created.
  #[error("cannot open `{}`: {detail}", path.display())]
  CannotOpen {
    /// The file or directory.
    path: PathBuf,
    /// The message of the system.
    detail: String,
  },
  /// Reading or writing failed below SQLite.
  #[error("cannot read or write `{}`: {detail}", path.display())]
  Io {
    /// The database.
    path: PathBuf,
    /// The message of SQLite.
    detail: String,
  },
  /// The database belongs to another master key.
  #[error("`{}` was sealed with another master key", path.display())]
  WrongKey {
    /// The database.
    path: PathBuf,
  },
  /// A seal was to be made or opened without a master key.
  #[error("the master key is missing, so nothing can be sealed or opened")]
  NoKey,
  /// A seal does not open.
  #[error("the sealed bytes of `{id}` do not open: {source}")]
  Unsealable {
    /// The item or operation.
    id: String,
    /// The reason.
    source: SealError,
  },
  /// The sealed bytes were deleted; only the record remains.
  #[error("the bytes of `{id}` were deleted")]
  Deleted {
    /// The item.
    id: BlockId,
  },
  /// There is no such id.
  #[error("unknown id `{id}`")]
  UnknownId {
    /// The given id.
    id: String,
    /// The most similar known id.
    nearest: Option<BlockId>,
  },
  /// No version has these bytes.
  #[error("there is no version `{id}`")]
  UnknownVersion {
    /// The beginning of the hash of the bytes.
    id: String,
  },
  /// Several ids have this prefix.
  #[error("`{id}` is ambiguous: {}", list(candidates))]
  AmbiguousId {
    /// The given prefix.
    id: String,
    /// Up to five ids with this prefix.
    candidates: Vec<BlockId>,
  },
  /// The ledger has no such file.
  #[error("the ledger does not know `{}`", path.display())]
  UnknownFile {
    /// The file.
    path: PathBuf,
  },
  /// Somebody has decided about the item or block since it was read.
  #[error("`{id}` is already {state}")]
  Decided {
    /// The item or block.
    id: BlockId,
    /// Its state now.
    state: State,
  },
  /// Two blocks of a scan, or two items, have one id.
  #[error("the id `{id}` was given twice")]
  RepeatedId {
    /// The id that occurs twice.
    id: BlockId,
  },
  /// The operating system gave no random bytes.
  #[error("the operating system gave no random bytes: {detail}")]
  NoRandom {
    /// The message of the system.
    detail: String,
  },
  /// Any other refusal of SQLite; a bug in memfw.
  #[error("the ledger at `{}` refused: {source}", path.display())]
  Sql {
    /// The database.
    path: PathBuf,
    /// The message of SQLite.
    source: rusqlite::Error,
  },
}

impl StoreError {
  /// The remedy for people, if there is one.
  pub fn hint(&self) -> Option<String> {
    let fixed = match self {
      Self::Missing { .. } => "start `memfw run`, or `memfw run --once`",
      Self::Newer { path, by, backup, .. } => {
        return Some(go_on_with_newer(path, by.as_deref(), backup.as_deref()));
      }
      Self::Older { .. } => "`memfw run --once` brings it up to date",
      Self::NotOurs { .. } => "set `MEMFW_HOME` to another directory, or move the file away",
      Self::NotADatabase { path } | Self::Corrupt { path, .. } | Self::BadValue { path, .. } => {
        return Some(move_aside(path));
      }
      Self::Locked { .. } => {
        "try again; if the error persists, look for a program that has the file open"
      }
      Self::Moved { .. } => {
        "restore the file, and those next to it whose names begin with its name; memfw then \
        continues by itself"
      }
      Self::ReadOnly { .. } => "check the owner and the permissions of the file and its directory",
      Self::Full { .. } => {
        "make room on this file system; memfw then finishes interrupted operations"
      }
      Self::CannotOpen { .. } => "check that the directory exists and that you may write in it",
      Self::Io { .. } => "check the disk and the system log",
      Self::WrongKey { .. } => {
        "restore the key file of this database; without it the sealed texts are lost"
      }
      Self::NoKey => "restore the key file, from a backup if necessary",
      Self::UnknownId { nearest: Some(nearest), .. } => {
        return Some(format!("did you mean `{nearest}`?"));
      }
      Self::UnknownId { nearest: None, .. } => "`memfw list` shows the ids",
      Self::UnknownVersion { .. } => "`memfw restore FILE --list` shows the versions",
      Self::AmbiguousId { .. } => "give more digits",
      Self::Decided { id, .. } => return Some(format!("see the decision: `memfw show {id}`")),
      Self::Unsealable { .. }
      | Self::Deleted { .. }
      | Self::UnknownFile { .. }
      | Self::RepeatedId { .. }
      | Self::NoRandom { .. }
      | Self::Sql { .. } => return None,
    };
    Some(fixed.to_owned())
  }

  /// Whether the database is intact but cannot be written or read at the moment: because of a temporary
  /// cause, or because a disk became read-only or fails.
  pub fn is_outage(&self) -> bool {
    self.is_passing()
      || matches!(
        self,
        Self::ReadOnly { .. } | Self::CannotOpen { .. } | Self::Io { .. } | Self::Moved { .. }
      )
  }

  /// Whether this is about one record only, such as an item whose bytes were deleted: the ledger is intact, and
  /// everything else in it can be read.
  pub fn is_of_one_record(&self) -> bool {
    matches!(
      self,
      Self::Deleted { .. }
        | Self::Unsealable { .. }
        | Self::UnknownId { .. }
        | Self::UnknownVersion { .. }
        | Self::UnknownFile { .. }
        | Self::Decided { .. }
    )
  }

  /// Whether the call may succeed later without any action: locked, or no space.
  pub fn is_passing(&self) -> bool {
    matches!(self, Self::Locked { .. } | Self::Full { .. })
  }
}

/// How to continue without a broken database. The key stays, because it unseals the part of the old
/// database that is still readable.
fn move_aside(path: &Path) -> String {
  let path = path.display();
  format!(
    "restore a backup, or stop memfw and move the file aside, because it may be repairable: \
    `t=$(date +%s); \
     mv '{path}' '{path}.corrupt-'$t; mv '{path}-wal' '{path}.corrupt-'$t-wal`; keep `master.key`"
  )
}

/// How to continue when this memfw is older than the previous one: preferably with the newer one
/// again.
fn go_on_with_newer(path: &Path, by: Option<&str>, backup: Option<&Path>) -> String {
  let own = env!("CARGO_PKG_VERSION");
  let newer = by.map_or("the newer memfw".to_owned(), |by| format!("memfw {by} or a newer one"));
  let again = format!(
    "install {newer} again (this is memfw {own}); do not delete the file, it contains the \
    quarantined texts"
  );
  let Some(copy) = backup else { return again };
  let (path, copy) = (path.display(), copy.display());
  format!(
    "{again}; or return to the backup from before the upgrade, without anything newer: stop \
    memfw, then \
     `mv '{path}' '{path}.newer'; mv '{path}-wal' '{path}.newer-wal'; cp -p '{copy}' '{path}'`"
  )
}

fn list(ids: &[BlockId]) -> String {
  ids.iter().map(BlockId::as_str).collect::<Vec<_>>().join(", ")
}

/// An error in the store, where the path of the database is not known yet.
#[derive(Debug)]
pub(super) enum Fault {
  Sql(rusqlite::Error),
  Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
  fn from(error: rusqlite::Error) -> Self {
    Self::Sql(error)
  }
}

impl From<StoreError> for Fault {
  fn from(error: StoreError) -> Self {
    Self::Store(error)
  }
}

impl Fault {
  pub(super) fn at(self, path: &Path) -> StoreError {
    match self {
      Self::Sql(error) => classify(error, path),
      Self::Store(error) => error,
    }
  }

  pub(super) fn is_busy(&self) -> bool {
    matches!(
      self.code(),
      Some(
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed
      )
    )
  }

  pub(super) fn is_cannot_open(&self) -> bool {
    matches!(self.code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
  }

  fn code(&self) -> Option<ErrorCode> {
    match self {
      Self::Sql(error) => error.sqlite_error_code(),
      Self::Store(_) => None,
    }
  }
}

fn classify(error: rusqlite::Error, path: &Path) -> StoreError {
  let path = path.to_owned();
  let detail = error.to_string();
  match error {
    rusqlite::Error::FromSqlConversionFailure(..)
    | rusqlite::Error::InvalidColumnType(..)
    | rusqlite::Error::IntegralValueOutOfRange(..) => {
      return StoreError::BadValue { path, detail };
    }
    _ => {}
  }
  match error.sqlite_error_code() {
    Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
    Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, detail },
    Some(
      ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed,
    ) => StoreError::Locked { path },
    Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
    Some(ErrorCode::DiskFull) => StoreError::Full { path },
    Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
      StoreError::CannotOpen { path, detail }
    }
    Some(ErrorCode::SystemIoFailure) => StoreError::Io { path, detail },
    _ => StoreError::Sql { path, source: error },
  }
}

/// A file or directory that the system does not allow memfw to create or open.
pub(super) fn cannot_open(path: &Path, error: &io::Error) -> StoreError {
  let path = path.to_owned();
  match error.kind() {
    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { path },
    io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { path },
    _ => StoreError::CannotOpen { path, detail: error.to_string() },
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_newer_database_is_refused_with_both_versions_the_path_and_the_advice_to_keep_it() {
    let path = "/s/ledger.db".into();
    let error = StoreError::Newer { found: 7, known: 1, path, by: None, backup: None };
    let text = format!("{error}\nhint: {}", error.hint().unwrap());
    for part in ["format 7", "knows 1", "/s/ledger.db", "do not delete"] {
      assert!(text.contains(part), "{part} in {text}");
    }
  }

  #[test]
  fn ids_are_offered() {
    let id: BlockId = "a1b2c3".parse().unwrap();
    let unknown = StoreError::UnknownId { id: "a1b2c4".into(), nearest: Some(id.clone()) };
    assert_eq!(unknown.hint().as_deref(), Some("did you mean `a1b2c3`?"));
    let ambiguous = StoreError::AmbiguousId { id: "a".into(), candidates: vec![id.clone(), id] };
    assert_eq!(ambiguous.to_string(), "`a` is ambiguous: a1b2c3, a1b2c3");
  }
}
