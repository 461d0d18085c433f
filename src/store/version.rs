//! Versions of memory files, kept so that a person can see and restore what another writer
//! destroyed.
//!
//! Versions are for people, not for recovery: a redaction and a reshape have rows of their own. A
//! version is the file without memfw's markers, after poison was taken out. Its bytes are addressed
//! by their hash, sealed, and stored once, however many versions have them: completely, or as the
//! difference to the previous content of the file.
//!
//! Invariant: the newest version of an existing file is never pruned, and reading a version gives
//! either exactly the bytes that were kept or an error.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, params};
use zeroize::Zeroizing;

use super::{
  Durability, Ledger, Micros, StoreError, column,
  column::{path_bytes, word},
  delta,
  error::Fault,
  fresh_seal::seal_fresh,
  loss,
};
use crate::{
  memory::ContentHash,
  seal,
  seal::{MasterKey, Purpose, SealContext, SealError},
};

/// Largest number of differences between a content and its complete base. A choice: it bounds what
/// is opened to show one version, and an append still costs little more than itself.
const MAX_DEPTH: u32 = 32;
/// Largest number of versions that one write prunes, so that no write waits for a changed limit.
pub const PRUNED_AT_ONCE: u64 = 512;

/// Who made a version of a file.
#[derive(
  Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Writer {
  /// An agent, a program or a person.
  Other,
  /// memfw: an approval, a restore, a removed placeholder.
  Memfw,
}

impl Writer {
  /// The word used in JSON and in the database.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// A version to be kept.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'a> {
  /// The file, absolute; the ledger knows it.
  pub path: &'a Path,
  /// The hash of the file, including memfw's comments.
  pub file_hash: ContentHash,
  /// The content of the file without them.
  pub bytes: &'a [u8],
  /// Who made it.
  pub writer: Writer,
  /// When it was first seen.
  pub seen_at: Micros,
}

/// The limits for superseded versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
  /// How long they are kept after they were replaced, in microseconds.
  pub max_age: Micros,
  /// The largest total size of all contents, sealed, in bytes.
  pub max_bytes: u64,
}

/// One version of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
  /// The hash of its bytes, which names it.
  pub hash: ContentHash,
  /// Its length in bytes.
  pub len: u64,
  /// Who made it.
  pub writer: Writer,
  /// When memfw first saw it.
  pub seen_at: Micros,
  /// When it was replaced, or the file was deleted.
  pub replaced_at: Option<Micros>,
}

/// The figures of all versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionTotals {
  /// Versions of all files.
  pub versions: u64,
  /// What their contents take, sealed, in bytes.
  pub bytes: u64,
  /// When the oldest of them was seen.
  pub oldest: Option<Micros>,
  /// Guarded files whose current content is not kept yet.
  pub due: u64,
}

impl Ledger {
  /// Stores a version and prunes old ones; returns whether it differs from the newest version of
  /// the file. Not durable at once: a power cut may undo the last ones.
  ///
  /// If one day the bytes of an item are deleted for good, the contents with these bytes must be
  /// deleted as well, with their versions; a content that is based on one of them (`MAX_DEPTH`)
  /// must be sealed completely first.
  pub fn keep_version(
    &mut self,
    new: &NewVersion<'_>,
    retention: &Retention,
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Seen, |tx, key| {
      let key = key.ok_or(StoreError::NoKey)?;
      let file = file_id(tx, new.path)?;
      let kept = append(tx, key, file, new)?;
      if kept.is_change {
        loss::has_changed(tx, file, kept.had_version)?;
      }
      tx.prepare_cached("UPDATE file SET kept = ?2 WHERE id = ?1")?
        .execute(params![file, new.file_hash.0])?;
      prune(tx, retention, at)?;
      Ok(kept.is_new)
    })
  }

  /// Prunes versions that are too old or too many; returns how many, at most [`PRUNED_AT_ONCE`].
  pub fn prune_versions(&mut self, retention: &Retention, at: Micros) -> Result<u64, StoreError> {
    self.write(Durability::Seen, |tx, _| prune(tx, retention, at))
  }

  /// Records that a file was deleted: from now on its newest version ages like the others. Does
  /// nothing for a file without versions.
  pub fn retire_version(&mut self, path: &Path, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "UPDATE version SET replaced_at = max(?2, seen_at)
         WHERE replaced_at IS NULL AND file = (SELECT id FROM file WHERE path = ?1)",
      )?
      .execute(params![path_bytes(path), at])?;
      tx.prepare_cached("UPDATE file SET kept = NULL WHERE path = ?1")?
        .execute([path_bytes(path)])?;
      if let Some(file) = find_file(tx, path)? {
        loss::has_changed(tx, file, true)?;
      }
      Ok(())
    })
  }

  /// The versions of a file, newest first.
  pub fn versions(&self, path: &Path) -> Result<Vec<Version>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT content.hash, content.len, writer, seen_at, replaced_at
         FROM version JOIN content ON content.id = version.content
         WHERE file = (SELECT id FROM file WHERE path = ?1) ORDER BY version.id DESC",
      )?;
      let rows = statement.query_map([path_bytes(path)], |row| {
        Ok(Version {
          hash: column::hash(row, 0)?,
          len: row.get::<_, i64>(1)? as u64,
          writer: word(row, 2)?,
          seen_at: row.get(3)?,
          replaced_at: row.get(4)?,
        })
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The bytes of a version, exactly.
  pub fn version_bytes(&self, hash: ContentHash) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let key = self.key.as_ref().ok_or(StoreError::NoKey)?;
    self.read(|conn| match content_id(conn, hash)? {
      Some(id) => open(conn, key, id),
      None => Err(StoreError::UnknownVersion { id: short(hash) }.into()),
    })
  }

  /// Whether the newest version of a file has the content that the ledger has for it.
  pub fn is_version_due(&self, path: &Path) -> Result<bool, StoreError> {
    self.read(|conn| {
      let sql = format!("SELECT 1 FROM file WHERE path = ?1 AND {DUE}");
      Ok(conn.prepare_cached(&sql)?.exists([path_bytes(path)])?)
    })
  }

  /// Guarded files whose current content is not kept yet, as paths of workspace and file.
  pub fn versions_due(&self) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.read(|conn| {
      let sql = format!("SELECT workspace, path FROM file WHERE {DUE} ORDER BY path");
      let mut statement = conn.prepare_cached(&sql)?;
      let rows =
        statement.query_map([], |row| Ok((column::path(row, 0)?, column::path(row, 1)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The figures of all versions.
  pub fn version_totals(&self) -> Result<VersionTotals, StoreError> {
    self.read(|conn| {
      let sql = format!(
        "SELECT (SELECT count(*) FROM version), (SELECT bytes FROM version_total),
           (SELECT min(seen_at) FROM version), (SELECT count(*) FROM file WHERE {DUE})"
      );
      let number = |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|n| n as u64);
      Ok(conn.query_row(&sql, [], |row| {
        Ok(VersionTotals {
          versions: number(row, 0)?,
          bytes: number(row, 1)?,
          oldest: row.get(2)?,
          due: number(row, 3)?,
        })
      })?)
    })
  }

  /// Deletes all versions of all files, except those that a loss needs, and frees their space.
  pub fn forget_versions(&mut self) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      // Versions first, because each refers to a content.
      tx.execute(&format!("DELETE FROM version WHERE NOT {PINNED}"), [])?;
      tx.execute(
        "DELETE FROM content WHERE id NOT IN (
           WITH RECURSIVE used (id) AS (
             SELECT content FROM version
             UNION SELECT base FROM content JOIN used ON used.id = content.id WHERE base IS NOT NULL)
           SELECT id FROM used)",
        [],
      )?;
      tx.execute("UPDATE file SET kept = NULL WHERE kept IS NOT NULL", [])?;
      // This pragma frees one page for each row that is read.
      let mut vacuum = tx.prepare("PRAGMA incremental_vacuum")?;
      let mut rows = vacuum.query([])?;
      while rows.next()?.is_some() {}
      Ok(())
    })
  }
}

/// The files whose content is not kept. A file that is not watched has none that was read.
const DUE: &str = "status = 'watched' AND hash IS NOT NULL AND kept IS NOT hash";

/// Whether a version is the one that a loss without a decision is measured from.
const PINNED: &str = "EXISTS (SELECT 1 FROM loss JOIN content AS pinned ON pinned.hash = loss.base
  WHERE loss.file = version.file AND pinned.id = version.content
    AND loss.state IN ('moved', 'lost', 'restoring'))";

fn find_file(conn: &Connection, path: &Path) -> rusqlite::Result<Option<i64>> {
  conn
    .prepare_cached("SELECT id FROM file WHERE path = ?1")?
    .query_row([path_bytes(path)], |row| row.get(0))
    .optional()
}

fn file_id(conn: &Connection, path: &Path) -> Result<i64, Fault> {
  find_file(conn, path)?.ok_or_else(|| StoreError::UnknownFile { path: path.to_owned() }.into())
}

fn content_id(conn: &Connection, hash: ContentHash) -> rusqlite::Result<Option<i64>> {
  conn
    .prepare_cached("SELECT id FROM content WHERE hash = ?1")?
    .query_row([hash.0], |row| row.get(0))
    .optional()
}

/// What storing a version has changed.
struct Kept {
  /// Whether it differs from the newest version.
  is_new: bool,
  /// Whether the file had another content before, or none.
  is_change: bool,
  /// Whether the file had a version.
  had_version: bool,
}

/// Adds a version to a file, unless it is the newest one already.
fn append(
  conn: &Connection,
  key: &MasterKey,
  file: i64,
  new: &NewVersion<'_>,
) -> Result<Kept, Fault> {
  let hash = ContentHash::of(new.bytes);
  let newest: Option<(i64, i64, bool)> = conn
    .prepare_cached(
      "SELECT id, content, replaced_at IS NOT NULL FROM version WHERE file = ?1
       ORDER BY id DESC LIMIT 1",
    )?
    .query_row([file], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    .optional()?;
  let known = content_id(conn, hash)?;
  let had_version = newest.is_some();
  if let Some((version, content, was_gone)) = newest {
    let same = known == Some(content);
    // A deleted file may be back.
    conn
      .prepare_cached(
        "UPDATE version SET replaced_at = iif(?2, NULL, max(?3, seen_at)) WHERE id = ?1",
      )?
      .execute(params![version, same, new.seen_at])?;
    if same {
      return Ok(Kept { is_new: false, is_change: was_gone, had_version });
    }
  }
  let content = match known {
    Some(content) => content,
    None => insert(conn, key, hash, new.bytes, newest.map(|(_, content, _)| content))?,
  };
  conn
    .prepare_cached("INSERT INTO version (file, content, writer, seen_at) VALUES (?1, ?2, ?3, ?4)")?
    .execute(params![file, content, new.writer.as_str(), new.seen_at])?;
  Ok(Kept { is_new: true, is_change: true, had_version })
}

/// Seals a content: as the difference to `base` if that is much shorter, and regularly as a whole.
fn insert(
  conn: &Connection,
  key: &MasterKey,
  hash: ContentHash,
  bytes: &[u8],
  base: Option<i64>,
) -> Result<i64, Fault> {
  // The seal is bound to the number, so the number must be known before the row exists.
  let last: Option<i64> = conn
    .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'content'")?
    .query_row([], |row| row.get(0))
    .optional()?;
  let id = last.unwrap_or(0) + 1;
  let difference = match base {
    Some(base) => difference(conn, key, base, bytes)?,
    None => None,
  };
  let (base, depth, chain, text) = match &difference {
    Some(found) => (base, found.depth, found.chain, found.delta.as_slice()),
    None => (None, 0, 0, bytes),
  };
  let sealed = seal_fresh(key, &context(&id.to_string(), hash), text)?;
  conn
    .prepare_cached(
      "INSERT INTO content (id, hash, len, base, depth, chain, sealed)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![id, hash.0, bytes.len() as i64, base, depth, chain, sealed])?;
  Ok(id)
}

struct Difference {
  depth: u32,
  chain: i64,
  delta: Zeroizing<Vec<u8>>,
}

/// The difference of `bytes` to the content `base`, if storing it saves space: all differences up
/// to a complete content are together shorter than half of it.
fn difference(
  conn: &Connection,
  key: &MasterKey,
  base: i64,
  bytes: &[u8],
) -> Result<Option<Difference>, Fault> {
  let (depth, chain): (u32, i64) = conn
    .prepare_cached("SELECT depth, chain FROM content WHERE id = ?1")?
    .query_row([base], |row| Ok((row.get(0)?, row.get(1)?)))?;
  if depth >= MAX_DEPTH {
    return Ok(None);
  }
  // A base that does not open is reported when it is read; the new content is stored completely.
  let Ok(before) = open(conn, key, base) else { return Ok(None) };
  let delta = Zeroizing::new(delta::encode(&before, bytes));
  let chain = chain.saturating_add(delta.len() as i64);
  // Not only this difference: a long chain of short ones would grow without limit.
  let pays = chain.saturating_mul(2) < bytes.len() as i64;
  Ok(pays.then_some(Difference { depth: depth + 1, chain, delta }))
}

/// A seal belongs to a content and not to a path: several files may have it.
fn context(number: &str, hash: ContentHash) -> SealContext<'_> {
  SealContext { purpose: Purpose::Version, id: number, path: b"", hash }
}

/// The bytes of a content, assembled from the complete base and verified by their hash.
fn open(conn: &Connection, key: &MasterKey, content: i64) -> Result<Zeroizing<Vec<u8>>, Fault> {
  let mut statement =
    conn.prepare_cached("SELECT hash, base, sealed FROM content WHERE id = ?1")?;
  let mut links: Vec<(i64, ContentHash, Vec<u8>)> = Vec::new();
  let mut next = Some(content);
  while let Some(id) = next {
    let (hash, base, sealed) = statement.query_row([id], |row| {
      Ok((column::hash(row, 0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Vec<u8>>(2)?))
    })?;
    links.push((id, hash, sealed));
    // The chain is longer only if the rows were tampered with.
    next = base.filter(|_| links.len() <= MAX_DEPTH as usize);
  }
  let wanted = links.first().map_or(ContentHash::of(b""), |(_, hash, _)| *hash);
  let failed = |source| Fault::from(StoreError::Unsealable { id: short(wanted), source });
  let mut text: Option<Zeroizing<Vec<u8>>> = None;
  for (id, hash, sealed) in links.into_iter().rev() {
    let number = id.to_string();
    let plain = seal::open(key, &context(&number, hash), &sealed).map_err(failed)?;
    let whole = match text {
      None => plain,
      Some(base) => {
        Zeroizing::new(delta::apply(&base, &plain).ok_or_else(|| failed(SealError::Broken))?)
      }
    };
    text = Some(whole);
  }
  // Each difference is authentic by its seal; that they belong together is verified at the end.
  text.filter(|text| ContentHash::of(text) == wanted).ok_or_else(|| failed(SealError::Broken))
}

/// The beginning of a hash, as shown to people.
fn short(hash: ContentHash) -> String {
  hash.to_hex().chars().take(8).collect()
}

/// Prunes superseded versions that are too old, or too large together, the oldest first. Those that a loss needs go
/// last, and only if all versions need twice the space: else anybody could fill the disk with losses.
fn prune(conn: &Connection, retention: &Retention, at: Micros) -> Result<u64, Fault> {
  let oldest = at.saturating_sub(retention.max_age);
  let mut next = conn.prepare_cached(&format!(
    "SELECT id, content FROM version
     WHERE replaced_at < ?1 AND (?2 OR NOT {PINNED}) ORDER BY replaced_at, id LIMIT 1"
  ))?;
  let mut next = |before: Micros, with_pinned: bool| {
    next.query_row((before, with_pinned), |row| Ok((row.get(0)?, row.get(1)?))).optional()
  };
  for n in 0..PRUNED_AT_ONCE {
    let total: i64 =
      conn.prepare_cached("SELECT bytes FROM version_total")?.query_row([], |row| row.get(0))?;
    let is_over = |times: u64| total as u64 > retention.max_bytes.saturating_mul(times);
    let mut found: Option<(i64, i64)> = next(if is_over(1) { Micros::MAX } else { oldest }, false)?;
    if found.is_none() && is_over(2) {
      found = next(Micros::MAX, true)?;
    }
    let Some((version, content)) = found else { return Ok(n) };
    conn.prepare_cached("DELETE FROM version WHERE id = ?1")?.execute([version])?;
    drop_unused(conn, content)?;
  }
  Ok(PRUNED_AT_ONCE)
}

/// Deletes a content that no version uses and that is no base, and then its own base.
fn drop_unused(conn: &Connection, content: i64) -> Result<(), Fault> {
  let mut next = Some(content);
  while let Some(id) = next {
    next = conn
      .prepare_cached(
        "DELETE FROM content WHERE id = ?1
           AND NOT EXISTS (SELECT 1 FROM version WHERE content = ?1)
           AND NOT EXISTS (SELECT 1 FROM content WHERE base = ?1)
         RETURNING base",
      )?
      .query_row([id], |row| row.get::<_, Option<i64>>(0))
      .optional()?
      .flatten();
  }
  Ok(())
}
