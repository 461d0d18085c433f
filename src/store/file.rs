//! One row per memory file: what is known about it without reading it.
#![forbid(unsafe_code)]

use std::{
  ops::BitOr,
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
  Durability, Ledger, Micros, Stamp, StoreError, column,
  column::{path_bytes, word},
  error::Fault,
};
use crate::{
  detect::Code,
  memory::{BlockId, ContentHash},
};

/// Device and inode.
pub type Inode = (u64, u64);

/// A file in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
  /// The row.
  pub id: i64,
  /// Absolute path.
  pub path: PathBuf,
  /// The workspace of the file.
  pub workspace: PathBuf,
  /// The stamp at the last scan or own write; `None` if the file must be read again in any case.
  pub stamp: Option<Stamp>,
  /// The hash of its content at that stamp.
  pub hash: Option<ContentHash>,
  /// Whether it is guarded.
  pub status: FileStatus,
  /// Why it is not scanned, or another note for people, in memfw's own words.
  pub note: Option<String>,
  /// When its first scan finished.
  pub adopted_at: Option<Micros>,
  /// When its last scan finished.
  pub scanned_at: Option<Micros>,
  /// The pending work.
  pub pending: Pending,
  /// The current marker mode.
  pub marker_mode: String,
  /// Why that is not the configured mode, in memfw's own words.
  pub unmarked: Option<String>,
}

/// Whether a file is guarded.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  Hash,
  strum::Display,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum FileStatus {
  /// Read and judged at each change.
  Watched,
  /// Cannot or must not be read; the note says why.
  Unscannable,
  /// Deleted.
  Missing,
}

impl FileStatus {
  /// All of them.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in JSON and in the database.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// The pending work on a file: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pending(u32);

impl Pending {
  /// Nothing.
  pub const NONE: Self = Self(0);
  /// Renew markers or placeholders once the file is idle.
  pub const RESHAPE: Self = Self(1);
  /// Try again a pass that could not finish.
  pub const RETRY: Self = Self(2);
  /// Ask the agent's records for the author of some text.
  pub const ATTRIBUTE: Self = Self(4);
  /// Have the encoder read some text.
  pub const MODEL: Self = Self(8);
  /// Check whether a judge is asked about some text, or has answered.
  pub const JUDGE: Self = Self(16);
  /// All kinds of work.
  pub const ALL: Self = Self(u32::MAX);
  /// The kinds of work that stay pending when the file gets a new version.
  pub(super) const KEPT: Self = Self(Self::MODEL.0 | Self::JUDGE.0);

  /// Whether nothing is pending.
  pub const fn is_empty(self) -> bool {
    self.0 == 0
  }

  /// Whether the set contains all of `other`.
  pub const fn contains(self, other: Self) -> bool {
    self.0 & other.0 == other.0
  }

  /// The intersection.
  #[must_use]
  pub const fn and(self, other: Self) -> Self {
    Self(self.0 & other.0)
  }

  /// This set without `other`.
  #[must_use]
  pub const fn without(self, other: Self) -> Self {
    Self(self.0 & !other.0)
  }

  pub(super) const fn bits(self) -> u32 {
    self.0
  }
}

impl BitOr for Pending {
  type Output = Self;

  fn bitor(self, other: Self) -> Self {
    Self(self.0 | other.0)
  }
}

impl Ledger {
  /// The row of a file.
  pub fn file(&self, path: &Path) -> Result<Option<FileRow>, StoreError> {
    self.read(|conn| Ok(find(conn, path)?))
  }

  /// All files, by path.
  pub fn files(&self) -> Result<Vec<FileRow>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select("ORDER BY path"))?;
      let rows = statement.query_map([], file_row)?.collect::<Result<_, _>>()?;
      Ok(rows)
    })
  }

  /// The guarded files of a workspace that changed last, at most `n`, the latest first.
  pub fn latest_files(&self, workspace: &Path, n: usize) -> Result<Vec<FileRow>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select(
        "WHERE workspace = ?1 AND status = 'watched' ORDER BY mtime_ns DESC, path LIMIT ?2",
      ))?;
      let rows = statement.query_map(params![path_bytes(workspace), n as i64], file_row)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Files of a workspace whose last version had this content, with device and inode if known, at
  /// most `n`; including deleted files.
  pub fn files_of(
    &self,
    workspace: &Path,
    hash: ContentHash,
    n: usize,
  ) -> Result<Vec<(PathBuf, Option<Inode>)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT path, coalesce(dev, gone_dev), coalesce(ino, gone_ino) FROM file
         WHERE workspace = ?1 AND coalesce(hash, gone_hash) = ?2 ORDER BY path LIMIT ?3",
      )?;
      let rows = statement.query_map(params![path_bytes(workspace), hash.0, n as i64], |row| {
        let number = |at| row.get::<_, Option<i64>>(at).map(|n| n.map(i64::cast_unsigned));
        Ok((column::path(row, 0)?, number(1)?.zip(number(2)?)))
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The name of a file in the contexts of decisions: its path when they were made. If other
  /// renamed files are known by that path, it is another name.
  pub fn known_as(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
    self.read(|conn| {
      let name = conn
        .prepare_cached("SELECT known_as FROM file WHERE path = ?1")?
        .query_row([path_bytes(path)], |row| row.get::<_, Option<Vec<u8>>>(0))
        .optional()?
        .flatten();
      if let Some(name) = name {
        return Ok(name);
      }
      let mut name = path_bytes(path).to_vec();
      let mut taken = conn.prepare_cached("SELECT 1 FROM file WHERE known_as = ?1")?;
      while taken.exists([&name])? {
        // No path contains this byte.
        name.push(0);
      }
      Ok(name)
    })
  }

  /// Whether items were taken out of a file that had this path then and has another path now.
  pub fn was_renamed(&self, path: &Path) -> Result<bool, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached("SELECT 1 FROM quarantine WHERE sealed_for = ?1")?;
      Ok(statement.exists([path_bytes(path)])?)
    })
  }

  /// The item with this content that a person rejected, or took out, in such a file.
  pub fn refused_before(
    &self,
    path: &Path,
    hash: ContentHash,
  ) -> Result<Option<BlockId>, StoreError> {
    self.read(|conn| {
      let id = conn
        .prepare_cached(
          "SELECT id FROM quarantine
           WHERE hash = ?1 AND sealed_for = ?2
             AND (status = 'rejected' OR status IN ('quarantined', 'held') AND instr(codes, ?3) > 0)
           ORDER BY quarantined_at DESC LIMIT 1",
        )?
        .query_row(params![hash.0, path_bytes(path), Code::ManualQuarantine.as_str()], |row| {
          word(row, 0)
        })
        .optional()?;
      Ok(id)
    })
  }

  /// Records stamp and hash after memfw's own write, or clears the stamp so that the file is read
  /// again.
  pub fn set_stamp(
    &mut self,
    path: &Path,
    stamp: Option<Stamp>,
    hash: Option<ContentHash>,
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| set_stamp(tx, path, stamp, hash, at))
  }

  /// Records another stamp for the content of `hash`, and that of the pending work that was `known` before,
  /// `pending` is left.
  pub fn set_seen(
    &mut self,
    path: &Path,
    (stamp, hash): (Stamp, Option<ContentHash>),
    (known, pending): (Pending, Pending),
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      set_stamp(tx, path, Some(stamp), hash, at)?;
      // Work on texts does not depend on the stamp of the file.
      change_pending(tx, path, known.without(Pending::KEPT), pending)
    })
  }

  /// Clears the stamps of all files, so that all of them are read again.
  pub fn forget_stamps(&mut self) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.execute(
        "UPDATE file SET dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL, ctime_ns = NULL",
        [],
      )?;
      Ok(())
    })
  }

  /// Records that a file is missing, cannot be scanned, or is watched again; creates the row if
  /// needed. Its blocks stay as they are, and the file is read again as soon as it can be.
  pub fn set_status(
    &mut self,
    path: &Path,
    workspace: &Path,
    status: FileStatus,
    note: Option<&str>,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        // The `gone_` columns keep the identity of a deleted file, by which a rename is recognised.
        "INSERT INTO file (path, workspace, status, note, pending, marker_mode)
         VALUES (?1, ?2, ?3, ?4, 0, 'none')
         ON CONFLICT (path) DO UPDATE SET workspace = ?2, status = ?3, note = ?4, pending = 0,
           gone_hash = iif(?3 = 'missing', hash, NULL), gone_dev = iif(?3 = 'missing', dev, NULL),
           gone_ino = iif(?3 = 'missing', ino, NULL),
           dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL, ctime_ns = NULL, hash = NULL",
      )?
      .execute(params![path_bytes(path), path_bytes(workspace), status.as_str(), note])?;
      Ok(())
    })
  }

  /// Records finished and pending work on a file; the pending work that others recorded stays.
  pub fn change_pending(
    &mut self,
    path: &Path,
    done: Pending,
    due: Pending,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| change_pending(tx, path, done, due))
  }
}

fn set_stamp(
  conn: &Connection,
  path: &Path,
  stamp: Option<Stamp>,
  hash: Option<ContentHash>,
  at: Micros,
) -> Result<(), Fault> {
  let [dev, ino, size, mtime, ctime] = Stamp::columns(stamp);
  let changed = conn
    .prepare_cached(
      "UPDATE file SET dev = ?2, ino = ?3, size = ?4, mtime_ns = ?5, ctime_ns = ?6, hash = ?7,
         scanned_at = ?8
       WHERE path = ?1",
    )?
    .execute(params![
      path_bytes(path),
      dev,
      ino,
      size,
      mtime,
      ctime,
      hash.map(|hash| hash.0),
      at
    ])?;
  known(path, changed)
}

pub(super) fn change_pending(
  conn: &Connection,
  path: &Path,
  done: Pending,
  due: Pending,
) -> Result<(), Fault> {
  let changed = conn
    .prepare_cached("UPDATE file SET pending = (pending & ~?2) | ?3 WHERE path = ?1")?
    .execute(params![path_bytes(path), done.bits(), due.bits()])?;
  known(path, changed)
}

fn known(path: &Path, changed: usize) -> Result<(), Fault> {
  match changed {
    0 => Err(StoreError::UnknownFile { path: path.to_owned() }.into()),
    _ => Ok(()),
  }
}

pub(super) fn find(conn: &Connection, path: &Path) -> rusqlite::Result<Option<FileRow>> {
  conn
    .prepare_cached(&select("WHERE path = ?1"))?
    .query_row([path_bytes(path)], file_row)
    .optional()
}

fn select(rest: &str) -> String {
  format!(
    "SELECT id, path, workspace, hash, status, note, adopted_at, scanned_at, pending, marker_mode,
       dev, ino, size, mtime_ns, ctime_ns, unmarked
     FROM file {rest}"
  )
}

fn file_row(row: &Row<'_>) -> rusqlite::Result<FileRow> {
  Ok(FileRow {
    id: row.get(0)?,
    path: column::path(row, 1)?,
    workspace: column::path(row, 2)?,
    hash: column::optional_hash(row, 3)?,
    status: word(row, 4)?,
    note: row.get(5)?,
    adopted_at: row.get(6)?,
    scanned_at: row.get(7)?,
    pending: Pending(row.get(8)?),
    marker_mode: row.get(9)?,
    stamp: Stamp::from_row(row, 10)?,
    unmarked: row.get(15)?,
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{
    ScanRecord,
    tests::{Home, scan, stamp},
  };

  #[test]
  fn a_file_of_any_name_comes_back_as_it_was_written() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let mut ledger = Home::new().ledger();
    let path = Path::new(OsStr::from_bytes(b"/w/caf\xe9\n.md"));
    let note = Some("too large");
    ledger.set_status(path, Path::new("/w"), FileStatus::Unscannable, note).unwrap();
    ledger.change_pending(path, Pending::NONE, Pending::RETRY | Pending::RESHAPE).unwrap();
    let hash = ContentHash::of(b"x");
    ledger.set_stamp(path, Some(stamp(3)), Some(hash), 9).unwrap();
    let row = ledger.file(path).unwrap().unwrap();
    assert_eq!(row.path, path);
    assert_eq!(row.status, FileStatus::Unscannable);
    assert_eq!(row.note.as_deref(), note);
    assert_eq!(row.stamp, Some(stamp(3)));
    assert_eq!(row.hash, Some(hash));
    assert_eq!(row.scanned_at, Some(9));
    assert!(row.pending.contains(Pending::RETRY) && row.pending.contains(Pending::RESHAPE));
    assert_eq!(row.pending.without(Pending::RETRY), Pending::RESHAPE);
    assert_eq!(ledger.files().unwrap(), [row]);
  }

  #[test]
  fn a_change_of_status_makes_the_file_due_for_reading() {
    let mut ledger = Home::new().ledger();
    let (path, workspace) = (Path::new("/w/a.md"), Path::new("/w"));
    ledger.set_status(path, workspace, FileStatus::Watched, None).unwrap();
    ledger.set_stamp(path, Some(stamp(1)), Some(ContentHash::of(b"x")), 1).unwrap();
    ledger.set_status(path, workspace, FileStatus::Missing, None).unwrap();
    let row = ledger.file(path).unwrap().unwrap();
    assert_eq!((row.stamp, row.hash, row.status), (None, None, FileStatus::Missing));
  }

  #[test]
  fn work_that_another_process_recorded_during_a_pass_stays() {
    let mut ledger = Home::new().ledger();
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    let path = Path::new("/w/a.md");
    let known = Pending::RETRY;
    let pending = |ledger: &Ledger| ledger.file(path).unwrap().unwrap().pending;
    ledger.change_pending(path, Pending::NONE, known | Pending::RESHAPE).unwrap();
    ledger.record(&ScanRecord { known, ..scan("/w/a.md", &[], 2) }).unwrap();
    assert_eq!(pending(&ledger), Pending::RESHAPE);
    ledger.change_pending(path, Pending::NONE, known).unwrap();
    ledger.set_seen(path, (stamp(2), None), (known, Pending::ATTRIBUTE), 3).unwrap();
    assert_eq!(pending(&ledger), Pending::RESHAPE | Pending::ATTRIBUTE);
    ledger.record(&scan("/w/a.md", &[], 4)).unwrap();
    assert_eq!(pending(&ledger), Pending::NONE);
  }

  #[test]
  fn an_unknown_file_is_said_and_not_made() {
    let mut ledger = Home::new().ledger();
    let error = ledger.set_stamp(Path::new("/w/a.md"), None, None, 1).unwrap_err();
    assert!(matches!(error, StoreError::UnknownFile { .. }));
    assert_eq!(ledger.files().unwrap(), []);
  }
}
