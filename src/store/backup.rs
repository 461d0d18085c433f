//! A backup of the ledger, made before a migration changes it.
//!
//! SQLite itself copies the database, page by page, while the write lock is held, so the copy is
//! exactly the database of the older memfw. Sealed text stays sealed in it, under the same key; the
//! backup is readable only by the user (0600). There is one for each format, next to the ledger,
//! and no more than [`KEPT`] of them.
//!
//! Invariant: a database with rows in it is never migrated before its backup is whole and durable.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "files of memfw beside the ledger, never memory")]

use std::{
  ffi::OsString,
  fs::{self, File, OpenOptions},
  io,
  os::unix::fs::OpenOptionsExt as _,
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, backup};

use super::{
  StoreError,
  error::{Fault, cannot_open},
};

/// How many backups are kept, those of the newest formats (a choice: one more than a downgrade is likely to
/// need).
pub const KEPT: usize = 3;
/// All pages in one step, because no other process may write in the meantime anyway.
const ALL_PAGES: i32 = -1;

/// A backup of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
  /// The path of the backup, beside the ledger.
  pub path: PathBuf,
  /// The format of the ledger in it.
  pub format: i64,
}

/// The backups of the ledger at `path`, the newest format first. Unreadable directories have none.
pub fn backups(path: &Path) -> Vec<Backup> {
  let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
  let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
  let start = format!("{}.format-", name.display());
  let mut found: Vec<Backup> = entries
    .flatten()
    .filter_map(|entry| {
      let digits = entry.file_name().to_str()?.strip_prefix(&start)?.to_owned();
      let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
      let format = digits.parse().ok().filter(|_| plain)?;
      Some(Backup { path: entry.path(), format })
    })
    .collect();
  found.sort_by_key(|backup| std::cmp::Reverse(backup.format));
  found
}

/// Copies the database; the caller holds the write lock and has changed nothing yet.
pub(super) fn make(path: &Path, format: i64) -> Result<(), Fault> {
  let copy = beside(path, &format!(".format-{format}"));
  let unfinished = beside(path, &format!(".format-{format}.tmp"));
  let failed = |error: io::Error| Fault::from(cannot_open(&copy, &error));
  remove(&unfinished).map_err(failed)?;
  let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
  drop(file.map_err(failed)?);
  let written = write(path, &unfinished).map_err(|fault| Fault::from(fault.at(&copy)));
  // The final name appears only when the copy is complete and on disk.
  let placed = written.and_then(|()| {
    fs::rename(&unfinished, &copy).and_then(|()| sync_directory(path)).map_err(failed)
  });
  if let Err(fault) = placed {
    remove(&unfinished).map_err(failed)?;
    return Err(fault);
  }
  // A backup that cannot be removed only takes space.
  for old in backups(path).into_iter().skip(KEPT) {
    remove(&old.path).ok();
  }
  Ok(())
}

fn write(from: &Path, to: &Path) -> Result<(), Fault> {
  let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
  let source = Connection::open_with_flags(from, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?;
  let mut copy = Connection::open_with_flags(to, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?;
  copy.pragma_update(None, "fullfsync", true)?;
  copy.pragma_update(None, "synchronous", "FULL")?;
  let answer = backup::Backup::new(&source, &mut copy)?.step(ALL_PAGES)?;
  if answer != backup::StepResult::Done {
    return Err(StoreError::Locked { path: from.to_owned() }.into());
  }
  // One complete file, without a write-ahead log.
  copy.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
  let word: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
  if word != "ok" {
    return Err(StoreError::Corrupt { path: from.to_owned(), detail: word }.into());
  }
  copy.close().map_err(|(_, error)| Fault::from(error))
}

/// Removes the backups that were made before a time, in seconds since 1970; returns how many.
pub fn remove_older(path: &Path, seconds: i64) -> usize {
  use std::os::unix::fs::MetadataExt as _;
  let is_old = |backup: &Backup| {
    backup.path.symlink_metadata().is_ok_and(|found| found.is_file() && found.mtime() < seconds)
  };
  backups(path).iter().filter(|backup| is_old(backup) && remove(&backup.path).is_ok()).count()
}

/// The path of a backup next to the ledger.
fn beside(path: &Path, end: &str) -> PathBuf {
  let mut name = OsString::from(path);
  name.push(end);
  name.into()
}

fn remove(path: &Path) -> io::Result<()> {
  match fs::remove_file(path) {
    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
    _ => Ok(()),
  }
}

fn sync_directory(path: &Path) -> io::Result<()> {
  let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
  File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
