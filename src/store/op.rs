//! Open operations on memory files: recorded before the first byte changes, deleted after the last
//! one has.
#![forbid(unsafe_code)]

use std::{
  fmt,
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, params};
use zeroize::Zeroizing;

use super::{
  Durability, Ledger, Micros, StoreError, column,
  column::{path_bytes, word},
  error::Fault,
  fresh_seal::seal_fresh,
};
use crate::{
  memory::ContentHash,
  seal,
  seal::{MasterKey, Purpose, SealContext},
};

/// What an operation does to a file.
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
pub enum OpKind {
  /// Poison is replaced by a placeholder of equal length.
  Redact,
  /// A forged marker is neutralised at equal length.
  Neutralise,
  /// Markers and placeholders are renewed; the length may change.
  Reshape,
  /// Approved bytes are restored.
  Restore,
}

impl OpKind {
  /// All of them.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in logs and in the database.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// The number of an operation: later ones have larger numbers, and none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(i64);

impl fmt::Display for OpId {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    self.0.fmt(f)
  }
}

/// An operation about to begin.
#[derive(Clone, Copy, Debug)]
pub struct NewOp<'a> {
  /// What it does.
  pub kind: OpKind,
  /// The file, absolute.
  pub path: &'a Path,
  /// Its device.
  pub dev: u64,
  /// Its inode.
  pub ino: u64,
  /// The offset of `before` in the file, in bytes.
  pub offset: u64,
  /// The current bytes.
  pub before: &'a [u8],
  /// The new bytes.
  pub after: &'a [u8],
}

/// An operation that was begun and is not finished.
#[derive(Debug)]
pub struct Op {
  /// Its number.
  pub id: OpId,
  /// What it does.
  pub kind: OpKind,
  /// The file, absolute.
  pub path: PathBuf,
  /// Its device.
  pub dev: u64,
  /// Its inode.
  pub ino: u64,
  /// The offset of the image before, in bytes.
  pub offset: u64,
  /// When it was begun.
  pub begun_at: Micros,
  /// The hash of the image before.
  pub before_hash: ContentHash,
  /// The hash of the image after.
  pub after_hash: ContentHash,
  /// The images; `None` if their seals do not open, which means damage or tampering.
  pub images: Option<Images>,
}

/// The bytes of an operation.
#[derive(Debug)]
pub struct Images {
  /// The bytes before.
  pub before: Zeroizing<Vec<u8>>,
  /// The bytes after.
  pub after: Zeroizing<Vec<u8>>,
}

impl Ledger {
  /// Records an operation. When this returns, the record would survive a power cut.
  pub fn begin(&mut self, op: &NewOp<'_>, at: Micros) -> Result<OpId, StoreError> {
    self.write(Durability::Synced, |tx, key| insert(tx, key, op, at))
  }

  /// Deletes an operation, with its images. A second call does nothing.
  pub fn finish(&mut self, op: OpId) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      // Not durable at once: if a power cut undoes it, recovery finds the edit complete.
      tx.prepare_cached("DELETE FROM op WHERE id = ?1")?.execute([op.0])?;
      Ok(())
    })
  }

  /// Whether any operation is open. Needs no key.
  pub fn has_open_ops(&self) -> Result<bool, StoreError> {
    self.read(|conn| Ok(conn.prepare_cached("SELECT 1 FROM op LIMIT 1")?.exists([])?))
  }

  /// The open operations, in the order in which they were begun. Needs the key only if there are
  /// any.
  pub fn open_ops(&self) -> Result<Vec<Op>, StoreError> {
    let rows = self.read(|conn| Ok(rows(conn)?))?;
    match &self.key {
      None if rows.is_empty() => Ok(Vec::new()),
      None => Err(StoreError::NoKey),
      Some(key) => Ok(rows.into_iter().map(|row| row.opened(key)).collect()),
    }
  }
}

/// Inserts an operation with its images sealed.
pub(super) fn insert(
  conn: &Connection,
  key: Option<&MasterKey>,
  op: &NewOp<'_>,
  at: Micros,
) -> Result<OpId, Fault> {
  let key = key.ok_or(StoreError::NoKey)?;
  // The images are bound to the number, so the number must be known before the row exists.
  let last: Option<i64> = conn
    .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'op'")?
    .query_row([], |row| row.get(0))
    .optional()?;
  let id = last.unwrap_or(0) + 1;
  let path = path_bytes(op.path);
  let number = id.to_string();
  // The purpose is part of the seal, so the two images cannot be swapped.
  let image = |purpose, bytes: &[u8]| {
    let hash = ContentHash::of(bytes);
    let context = SealContext { purpose, id: &number, path, hash };
    Ok::<_, Fault>((hash, seal_fresh(key, &context, bytes)?))
  };
  let (before_hash, before) = image(Purpose::OpBefore, op.before)?;
  let (after_hash, after) = image(Purpose::OpAfter, op.after)?;
  conn
    .prepare_cached(
      "INSERT INTO op (id, kind, path, dev, ino, offset, before_hash, after_hash, before, after,
         begun_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
      id,
      op.kind.as_str(),
      path,
      op.dev as i64,
      op.ino as i64,
      op.offset as i64,
      before_hash.0,
      after_hash.0,
      before,
      after,
      at
    ])?;
  Ok(OpId(id))
}

struct SealedOp {
  op: Op,
  before: Vec<u8>,
  after: Vec<u8>,
}

impl SealedOp {
  fn opened(self, key: &MasterKey) -> Op {
    let Self { mut op, before, after } = self;
    let number = op.id.to_string();
    let path = path_bytes(&op.path);
    let open = |purpose, hash, sealed: &[u8]| {
      seal::open(key, &SealContext { purpose, id: &number, path, hash }, sealed).ok()
    };
    let before = open(Purpose::OpBefore, op.before_hash, &before);
    let after = open(Purpose::OpAfter, op.after_hash, &after);
    op.images = before.zip(after).map(|(before, after)| Images { before, after });
    op
  }
}

fn rows(conn: &Connection) -> rusqlite::Result<Vec<SealedOp>> {
  let mut statement = conn.prepare_cached(
    "SELECT id, kind, path, dev, ino, offset, begun_at, before_hash, after_hash, before, after
     FROM op ORDER BY id",
  )?;
  let rows = statement.query_map([], |row| {
    let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
    let op = Op {
      id: OpId(row.get(0)?),
      kind: word(row, 1)?,
      path: column::path(row, 2)?,
      dev: number(3)?,
      ino: number(4)?,
      offset: number(5)?,
      begun_at: row.get(6)?,
      before_hash: column::hash(row, 7)?,
      after_hash: column::hash(row, 8)?,
      images: None,
    };
    Ok(SealedOp { op, before: row.get(9)?, after: row.get(10)? })
  })?;
  rows.collect()
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::{Home, op};

  #[test]
  fn an_operation_is_open_until_it_is_finished_even_if_nobody_comes_back() {
    let home = Home::new();
    let reshape = NewOp { kind: OpKind::Reshape, before: b"", ino: u64::MAX, ..op() };
    let (first, second) = {
      let mut ledger = home.ledger();
      (ledger.begin(&op(), 5).unwrap(), ledger.begin(&reshape, 6).unwrap())
    };
    assert!(first < second);
    let mut ledger = home.ledger();
    let open = ledger.open_ops().unwrap();
    assert_eq!(open.iter().map(|op| op.id).collect::<Vec<_>>(), [first, second]);
    let images = open[0].images.as_ref().unwrap();
    assert_eq!(images.before.as_slice(), op().before);
    assert_eq!(images.after.as_slice(), op().after);
    assert_eq!((open[0].kind, open[0].path.as_path()), (OpKind::Redact, op().path));
    assert_eq!((open[0].offset, open[0].begun_at), (op().offset, 5));
    assert_eq!((open[1].kind, open[1].ino), (OpKind::Reshape, u64::MAX));
    assert_eq!(open[1].images.as_ref().unwrap().before.as_slice(), b"");
    ledger.finish(first).unwrap();
    ledger.finish(first).unwrap();
    ledger.finish(second).unwrap();
    assert!(ledger.open_ops().unwrap().is_empty());
    assert!(ledger.begin(&op(), 7).unwrap() > second, "numbers are never given twice");
  }

  #[test]
  fn an_image_that_was_tampered_with_is_said_and_hides_no_other() {
    let mut ledger = Home::new().ledger();
    ledger.begin(&op(), 5).unwrap();
    ledger.begin(&op(), 6).unwrap();
    ledger.conn.execute("UPDATE op SET offset = 1, before = after WHERE id = 1", []).unwrap();
    let open = ledger.open_ops().unwrap();
    assert!(open[0].images.is_none());
    assert!(open[1].images.is_some());
  }

  #[test]
  fn without_a_key_nothing_is_begun_and_open_operations_are_not_overlooked() {
    let home = Home::new();
    let mut locked = Ledger::open(&home.path(), crate::store::Access::ReadWrite, None).unwrap();
    assert!(locked.open_ops().unwrap().is_empty());
    assert!(matches!(locked.begin(&op(), 1), Err(StoreError::NoKey)));
    home.ledger().begin(&op(), 1).unwrap();
    assert!(matches!(locked.open_ops(), Err(StoreError::NoKey)));
  }
}
