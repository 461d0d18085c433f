//! Renamed files: the ledger's knowledge about them moves to the new paths, for several files at a time,
//! because files can swap paths.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
  Durability, FileStatus, Ledger, Micros, NewEvent, StoreError, column::path_bytes, error::Fault,
  event,
};

/// A file that was found under another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
  /// The path by which the ledger knows it.
  pub from: PathBuf,
  /// Its current path.
  pub to: PathBuf,
}

impl Ledger {
  /// Records renames, with the events: blocks, items and decisions move to the new paths, and the files are
  /// read again. If another file that is not itself renamed had one of the new paths, it was replaced: its
  /// items and versions stay with the path. Returns `false` if an operation is open on one of the paths, or
  /// if the ledger does not know one of the files.
  pub fn rename_files(
    &mut self,
    renames: &[Rename],
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    // Looked up before any path changes, because a name depends on the paths of all files.
    let names = renames.iter().map(|one| self.known_as(&one.from));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    // A rename that a power cut undoes is found again.
    self.write(Durability::Seen, |tx, _| {
      for Rename { from, to } in renames {
        // Checked for all renames before the first change, so that it is all or nothing.
        if !is_free(tx, from, to)? {
          return Ok(false);
        }
      }
      // Through names that are not paths, while another file still has the new path.
      let mut moved = Vec::with_capacity(renames.len());
      for (index, (Rename { from, .. }, name)) in renames.iter().zip(&names).enumerate() {
        let between = beside(from, index);
        let n = tx
          .prepare_cached(
            "UPDATE file SET path = ?2, known_as = ?3, gone_hash = coalesce(hash, gone_hash),
               gone_dev = coalesce(dev, gone_dev), gone_ino = coalesce(ino, gone_ino), hash = NULL,
               dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL, ctime_ns = NULL
             WHERE path = ?1",
          )?
          .execute(params![path_bytes(from), between, name])?;
        if n == 0 {
          return Err(StoreError::UnknownFile { path: from.clone() }.into());
        }
        tx.prepare_cached(
          "UPDATE quarantine SET path = ?2, sealed_for = coalesce(sealed_for, path) WHERE path = ?1",
        )?
        .execute(params![path_bytes(from), between])?;
        tx.prepare_cached("UPDATE OR IGNORE question_file SET path = ?2 WHERE path = ?1")?
          .execute(params![path_bytes(from), between])?;
        moved.push(between);
      }
      for (between, Rename { to, .. }) in moved.iter().zip(renames) {
        put_aside(tx, to, between, at)?;
        let to = path_bytes(to);
        tx.prepare_cached("UPDATE file SET path = ?2 WHERE path = ?1")?
          .execute(params![between, to])?;
        // Equal texts that were taken out of both files need distinct numbers.
        tx.prepare_cached(
          "UPDATE quarantine SET path = ?2,
             n = n + coalesce((SELECT max(other.n) + 1 FROM quarantine other
                               WHERE other.path = ?2 AND other.hash = quarantine.hash), 0)
           WHERE path = ?1",
        )?
        .execute(params![between, to])?;
        tx.prepare_cached("UPDATE OR IGNORE question_file SET path = ?2 WHERE path = ?1")?
          .execute(params![between, to])?;
      }
      event::append(tx, events, at)?;
      Ok(true)
    })
  }
}

/// Whether the file is known, and no operation is open on either path.
fn is_free(conn: &Connection, from: &Path, to: &Path) -> Result<bool, Fault> {
  let (from, to) = (path_bytes(from), path_bytes(to));
  let is_open =
    conn.prepare_cached("SELECT 1 FROM op WHERE path IN (?1, ?2)")?.exists(params![from, to])?;
  let is_known = conn.prepare_cached("SELECT 1 FROM file WHERE path = ?1")?.exists([from])?;
  Ok(is_known && !is_open)
}

/// Renames the row of a file that is no longer at its path, to a name that is not a path, so that the row
/// stays as evidence. The file's versions stay with the path, for a person who looks for earlier content.
fn put_aside(conn: &Connection, path: &Path, next: &[u8], at: Micros) -> Result<(), Fault> {
  let find = "SELECT id FROM file WHERE path = ?1";
  let Some(old) = conn
    .prepare_cached(find)?
    .query_row([path_bytes(path)], |row| row.get::<_, i64>(0))
    .optional()?
  else {
    return Ok(());
  };
  let new: i64 = conn.prepare_cached(find)?.query_row([next], |row| row.get(0))?;
  conn
    .prepare_cached(
      "UPDATE version SET replaced_at = coalesce(replaced_at, max(?3, seen_at)), file = ?2
       WHERE file = ?1",
    )?
    .execute((old, new, at))?;
  // A loss belongs to its versions.
  conn.prepare_cached("UPDATE loss SET file = ?2 WHERE file = ?1")?.execute((old, new))?;
  conn.prepare_cached("DELETE FROM loss_start WHERE file = ?1")?.execute([old])?;
  let mut aside = path_bytes(path).to_vec();
  let mut taken = conn.prepare_cached(find)?;
  // No path contains a zero byte.
  while taken.exists([&aside])? {
    aside.push(0);
  }
  conn
    .prepare_cached(
      "UPDATE file SET path = ?2, known_as = coalesce(known_as, ?4), status = ?3, note = NULL,
         pending = 0, kept = NULL, hash = NULL, dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL,
         ctime_ns = NULL, gone_hash = NULL, gone_dev = NULL, gone_ino = NULL
       WHERE id = ?1",
    )?
    .execute(params![old, aside, FileStatus::Missing.as_str(), path_bytes(path)])?;
  Ok(())
}

/// A name that is not a path.
fn beside(path: &Path, index: usize) -> Vec<u8> {
  let mut name = path_bytes(path).to_vec();
  name.extend([0, 1]);
  name.extend(index.to_string().into_bytes());
  name
}
