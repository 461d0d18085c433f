//! A file beside the database that names its newest durable event. An older copy of the database, put back from a
//! backup, has fewer events: then placeholders that it does not know are of the newer one, and not forged.
//!
//! The file is written after the transaction is durable, and is not synced itself: after a power cut it may name an
//! older event than the database has, never a newer one.
#![forbid(unsafe_code)]

use std::{
  fs::{self, File, OpenOptions},
  io,
  os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _};

/// Digits of the number, so that each write replaces the whole content.
const DIGITS: usize = 20;

/// Writes what `newest` makes of the noted event. A file that cannot be written costs no protection.
pub(super) fn note(ledger: &Path, newest: impl FnOnce(Option<i64>) -> i64) {
  let written =
    open(ledger, OpenOptions::new().write(true).create(true).truncate(false).mode(0o600)).and_then(
      |file| {
        let newest = newest(read(&file));
        file.write_all_at(format!("{newest:0DIGITS$}\n").as_bytes(), 0)
      },
    );
  if let Err(error) = written {
    tracing::debug!(target: "memfw", %error, "the newest event is not noted");
  }
}

/// The noted event.
pub(super) fn noted(ledger: &Path) -> Option<i64> {
  open(ledger, &mut OpenOptions::new()).ok().as_ref().and_then(read)
}

/// The number of the newest event in the database.
pub(super) fn newest_event(conn: &Connection) -> rusqlite::Result<i64> {
  let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'event'";
  Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// When the ledger at this path last had a durable event, in microseconds since the epoch, whatever ledger is there
/// now.
pub fn last_written(path: &Path) -> Option<i64> {
  let metadata = fs::symlink_metadata(file(path)).ok().filter(fs::Metadata::is_file)?;
  Some(metadata.mtime().saturating_mul(1_000_000).saturating_add(metadata.mtime_nsec() / 1_000))
}

fn file(ledger: &Path) -> PathBuf {
  ledger.with_extension("newest")
}

/// Opens the file to read it, and as `options` say. It never waits, and follows no link.
fn open(ledger: &Path, options: &mut OpenOptions) -> io::Result<File> {
  let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
  options.read(true).custom_flags(flags).open(file(ledger))
}

fn read(file: &File) -> Option<i64> {
  let mut text = [0; DIGITS + 1];
  let n = file.read_at(&mut text, 0).ok()?;
  std::str::from_utf8(text.get(..n)?).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]
mod tests {
  use super::*;
  use crate::store::{
    EventKind, NewEvent,
    tests::{Home, id, item},
  };

  #[test]
  fn an_older_copy_is_known_by_its_events() {
    let home = Home::new();
    let mut ledger = home.ledger();
    let path = ledger.path().to_owned();
    let event = || [NewEvent::new(EventKind::Quarantined)];
    assert!(!ledger.is_older_copy().unwrap(), "nothing is noted yet");
    ledger.quarantine(&[item(&id("aaaaa1"), b"one\n")], &[], &event(), 1).unwrap();
    assert!(!ledger.is_older_copy().unwrap());
    let copy = path.with_extension("copy");
    ledger.checkpoint().unwrap();
    fs::copy(&path, &copy).unwrap();
    ledger.quarantine(&[item(&id("aaaaa2"), b"two\n")], &[], &event(), 2).unwrap();
    assert!(!ledger.is_older_copy().unwrap());
    drop(ledger);
    fs::rename(&copy, &path).unwrap();
    let mut older = home.ledger();
    assert!(older.is_older_copy().unwrap());
    assert!(last_written(&path).is_some());
    // A command that writes into it does not hide that.
    older.decide(&id("aaaaa1"), crate::provenance::State::Approved, "ann", 3, &[]).unwrap();
    assert!(older.is_older_copy().unwrap());
    older.accept_as_newest().unwrap();
    assert!(!older.is_older_copy().unwrap());
  }

  #[test]
  fn a_file_that_others_have_made_is_no_reason_for_an_alarm() {
    let home = Home::new();
    let ledger = home.ledger();
    for text in ["", "x", "-5\n", "99999999999999999999999"] {
      fs::write(file(ledger.path()), text).unwrap();
      assert!(!ledger.is_older_copy().unwrap(), "{text}");
    }
    fs::remove_file(file(ledger.path())).unwrap();
    std::os::unix::fs::symlink("/dev/zero", file(ledger.path())).unwrap();
    assert!(!ledger.is_older_copy().unwrap());
    assert_eq!(last_written(ledger.path()), None);
  }
}
