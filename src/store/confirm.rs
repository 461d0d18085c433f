//! Tells a damaged database from one that could not be read.
//!
//! Where a read fails below it, SQLite says that the database is damaged (`SQLITE_IOERR_CORRUPTFS` becomes
//! `SQLITE_CORRUPT`). A disk that fails, or failed once, is no reason to give up a ledger, so the files are read
//! before memfw says so, too.
#![forbid(unsafe_code)]

use std::{
  fs::OpenOptions,
  io, mem,
  os::unix::fs::{FileExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
};

use rusqlite::Connection;

use super::StoreError;

/// Bytes of one read.
const PIECE: usize = 1 << 16;

/// Returns the error unchanged, unless it reports damage where reading failed: then the error of
/// that read.
pub(super) fn confirmed(error: StoreError, conn: &Connection, path: &Path) -> StoreError {
  if !matches!(error, StoreError::Corrupt { .. }) {
    return error;
  }
  if let Some(unread) = unread(path) {
    return unread;
  }
  match problems(conn, 1).map(|problems| unless_unread(problems, path)) {
    Ok(Ok(problems)) if problems.is_empty() => {
      let detail = "a part of it could not be read, and now it can".to_owned();
      StoreError::Io { path: path.to_owned(), detail }
    }
    Ok(Err(unread)) => unread,
    // Without its schema nothing can be checked.
    Ok(Ok(_)) | Err(_) => error,
  }
}

/// Why the database or its write-ahead log cannot be read; `None` if they can.
pub(super) fn unread(path: &Path) -> Option<StoreError> {
  let mut log = path.as_os_str().to_owned();
  log.push("-wal");
  [path.to_owned(), PathBuf::from(log)].into_iter().find_map(|path| match read_all(&path) {
    Err(error) if error.kind() != io::ErrorKind::NotFound => {
      Some(StoreError::Io { detail: error.to_string(), path })
    }
    Ok(()) | Err(_) => None,
  })
}

fn read_all(path: &Path) -> io::Result<()> {
  let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
  let mut piece = vec![0; PIECE];
  let mut at = 0;
  let read = loop {
    match file.read_at(&mut piece, at) {
      Ok(0) => break Ok(()),
      Ok(n) => at += n as u64,
      Err(error) => break Err(error),
    }
  };
  // Closing it would drop the locks that SQLite holds on this file in this process, which ends soon.
  mem::forget(file);
  read
}

/// The first problems that SQLite finds in a database, at most `limit`; empty if none. Reads the whole file.
pub(super) fn problems(conn: &Connection, limit: u32) -> rusqlite::Result<Vec<String>> {
  let mut statement = conn.prepare(&format!("PRAGMA quick_check({limit})"))?;
  let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
  let lines = rows.collect::<Result<Vec<_>, _>>()?;
  Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// The problems, unless one of them is that a page could not be read.
pub(super) fn unless_unread(problems: Vec<String>, path: &Path) -> Result<Vec<String>, StoreError> {
  match problems.iter().flat_map(|problem| problem.lines()).find(|line| is_unread(line)) {
    Some(line) => Err(StoreError::Io { path: path.to_owned(), detail: line.to_owned() }),
    None => Ok(problems),
  }
}

/// Whether a problem is a failure of the disk: `... unable to get the page. error code=8458`, where the lowest byte
/// is that of `SQLITE_IOERR`.
fn is_unread(problem: &str) -> bool {
  problem.split("error code=").skip(1).any(|rest| {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let code = rest.get(..end).and_then(|code| code.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == rusqlite::ffi::SQLITE_IOERR)
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::Home;

  #[test]
  fn damage_is_believed_only_of_a_database_that_can_be_read() {
    let ledger = Home::new().ledger();
    let path = ledger.path().to_owned();
    let corrupt = || StoreError::Corrupt { path: path.clone(), detail: "malformed".to_owned() };
    let error = confirmed(corrupt(), &ledger.conn, &path);
    assert!(matches!(&error, StoreError::Io { .. }) && error.is_outage(), "it is whole: {error}");
    // A directory can be opened and not be read.
    let dir = path.parent().unwrap();
    let error = confirmed(corrupt(), &ledger.conn, dir);
    assert!(matches!(&error, StoreError::Io { path, .. } if path == dir), "{error}");
    let locked = confirmed(StoreError::Locked { path: path.clone() }, &ledger.conn, &path);
    assert!(matches!(locked, StoreError::Locked { .. }));
  }

  #[test]
  fn a_page_that_could_not_be_read_is_no_damage() {
    for (problem, expected) in [
      ("Tree 45 page 45: unable to get the page. error code=8458", true),
      ("*** in database main ***\nTree 4 page 4: unable to get the page. error code=10; x", true),
      ("Tree 16 page 16: btreeInitPage() returns error code 11", false),
      ("Tree 16 page 16: unable to get the page. error code=11", false),
      ("wrong # of entries in index content_base", false),
    ] {
      assert_eq!(is_unread(problem), expected, "{problem}");
    }
  }
}
