//! Reads blocks of memory and their revisions.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Params, Row};

use super::{
  BlockRow, FileRow, Ledger, OriginRecord, Place, Revision, StoreError, baseline,
  block_row::{Stored, lines},
  column,
  column::{path_bytes, word},
  error::Fault,
  id,
};
use crate::{detect::KeptFindings, memory::BlockId};

/// The ids that a marker may have, of all files.
const MARKED: &str =
  "SELECT id FROM block UNION SELECT marker AS id FROM block WHERE marker IS NOT NULL";

impl Ledger {
  /// The current blocks of a file, in order.
  pub fn blocks(&self, file_id: i64) -> Result<Vec<BlockRow>, StoreError> {
    self.read(|conn| {
      let mut rows: Vec<BlockRow> =
        present(conn, file_id)?.into_iter().map(|stored| stored.row).collect();
      let untouched = baseline::blocks(conn, file_id)?;
      if !untouched.is_empty() {
        rows.extend(untouched);
        rows.sort_by_key(|row| row.ordinal);
      }
      Ok(rows)
    })
  }

  /// Former blocks of a file, the latest first, at most `limit`, without those that were
  /// quarantined.
  pub fn former_blocks(&self, file_id: i64, limit: u32) -> Result<Vec<BlockRow>, StoreError> {
    self.read(|conn| {
      let stored = load(
        conn,
        "key IN (SELECT key FROM block
                 WHERE file = ?1 AND present = 0 AND state IN ('validated', 'flagged', 'approved')
                 ORDER BY gone_at DESC, ordinal LIMIT ?2)",
        (file_id, limit),
      )?;
      Ok(stored.into_iter().map(|stored| stored.row).collect())
    })
  }

  /// Who wrote each block of a file: its row and its blocks in order, from one view.
  pub fn provenance(&self, path: &Path) -> Result<Option<(FileRow, Vec<BlockRow>)>, StoreError> {
    let view = self.snapshot()?;
    let Some(file) = view.file(path)? else { return Ok(None) };
    let blocks = view.blocks(file.id)?;
    Ok(Some((file, blocks)))
  }

  /// One block, current or former.
  pub fn block(&self, id: &BlockId) -> Result<Option<Place>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT f.path, b.present, b.key FROM block b JOIN file f ON f.id = b.file
                 WHERE b.id = ?1";
      let found = conn
        .prepare_cached(sql)?
        .query_row([id.as_str()], |row| {
          Ok((column::path(row, 0)?, row.get::<_, bool>(1)?, row.get::<_, i64>(2)?))
        })
        .optional()?;
      let Some((path, present, key)) = found else { return baseline::by_id(conn, id) };
      let block = load(conn, "key = ?1", [key])?.pop();
      Ok(block.map(|stored| Place { path, present, block: stored.row }))
    })
  }

  /// The blocks of the marker with this id or prefix, or the block with it, current or former; the current
  /// ones come first, in order. Baseline blocks that never changed have no marker.
  pub fn marked(&self, prefix: &str) -> Result<(BlockId, Vec<Place>), StoreError> {
    self.read(|conn| {
      let id = id::resolve(conn, MARKED, prefix)?;
      let path = |key: i64| -> Result<(PathBuf, bool), Fault> {
        let sql = "SELECT f.path, b.present FROM block b JOIN file f ON f.id = b.file
                   WHERE b.key = ?1";
        let found = conn
          .prepare_cached(sql)?
          .query_row([key], |row| Ok((column::path(row, 0)?, row.get::<_, bool>(1)?)))?;
        Ok(found)
      };
      let mut places = Vec::new();
      for stored in load(conn, "marker = ?1 OR id = ?1", [id.as_str()])? {
        let (path, present) = path(stored.key)?;
        places.push(Place { path, present, block: stored.row });
      }
      places.sort_by_key(|place| !place.present);
      Ok((id, places))
    })
  }

  /// The ids that markers in a file may have: those of its current and former blocks, and those of
  /// the markers around them. A baseline block that never changed has no marker.
  pub fn marker_ids(&self, path: &Path) -> Result<HashSet<BlockId>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT b.id FROM block b JOIN file f ON f.id = b.file WHERE f.path = ?1
         UNION
         SELECT b.marker FROM block b JOIN file f ON f.id = b.file
         WHERE f.path = ?1 AND b.marker IS NOT NULL",
      )?;
      let ids = column::ids(&mut statement, [path_bytes(path)])?;
      Ok(ids.into_iter().collect())
    })
  }
}

/// The current blocks of a file with rows of their own, in order.
pub(super) fn present(conn: &Connection, file: i64) -> Result<Vec<Stored>, Fault> {
  load(conn, "file = ?1 AND present = 1", [file])
}

/// The row of one block, current or former.
pub(super) fn by_id(conn: &Connection, id: &BlockId) -> Result<Option<Stored>, Fault> {
  Ok(load(conn, "id = ?1", [id.as_str()])?.pop())
}

/// The blocks that a condition with one parameter selects, with their revisions.
fn load(
  conn: &Connection,
  condition: &str,
  parameter: impl Params + Copy,
) -> Result<Vec<Stored>, Fault> {
  let sql = format!(
    "SELECT key, id, hash, norm_hash, lines, marker, ordinal, start_line, end_line, state, codes,
       score, findings, line_hash
     FROM block WHERE {condition} ORDER BY ordinal, key"
  );
  let mut statement = conn.prepare_cached(&sql)?;
  let mut blocks: Vec<Stored> =
    statement.query_map(parameter, stored)?.collect::<Result<_, _>>()?;
  // A second query instead of a join, which would repeat the block's columns for each revision.
  let places: HashMap<i64, usize> =
    blocks.iter().enumerate().map(|(place, block)| (block.key, place)).collect();
  let sql = format!(
    "SELECT block, number, source, trust, attestation, session, at, evidence, version, changed_at, due,
       request, approved
     FROM revision
     WHERE block IN (SELECT key FROM block WHERE {condition}) ORDER BY block, number"
  );
  let mut statement = conn.prepare_cached(&sql)?;
  let mut rows = statement.query(parameter)?;
  while let Some(row) = rows.next()? {
    let place = places.get(&row.get(0)?).and_then(|place| blocks.get_mut(*place));
    if let Some(block) = place {
      block.row.revisions.push(revision(row)?);
    }
  }
  Ok(blocks)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
  let block = BlockRow {
    id: word(row, 1)?,
    hash: column::hash(row, 2)?,
    norm_hash: column::hash(row, 3)?,
    lines: lines(row, 4, 13)?,
    marker: column::optional_word(row, 5)?,
    ordinal: row.get(6)?,
    start_line: row.get(7)?,
    end_line: row.get(8)?,
    state: word(row, 9)?,
    codes: column::codes(row, 10)?,
    score: row.get::<_, f64>(11)? as f32,
    findings: KeptFindings::from_json(row.get(12)?),
    revisions: Vec::new(),
  };
  Ok(Stored { key: row.get(0)?, row: block })
}

fn revision(row: &Row<'_>) -> rusqlite::Result<Revision> {
  Ok(Revision {
    number: row.get(1)?,
    source: column::source(row, 2)?,
    trust: word(row, 3)?,
    attestation: word(row, 4)?,
    session: row.get(5)?,
    at: row.get(6)?,
    trail: OriginRecord::from_row(row, 7)?,
    approved: row.get(12)?,
  })
}
