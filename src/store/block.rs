//! Blocks of memory and their revisions, as rows: hashes and provenance, never text.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Params, Row, types::Type};

use super::{
  FileRow, Ledger, Micros, OriginRecord, StoreError, baseline, column,
  column::{Unexpected, bad, path_bytes, word},
  error::Fault,
  id,
};
use crate::{
  detect::{Code, KeptFindings},
  memory::{BlockId, ContentHash},
  provenance::{Attestation, Source, State, Trust},
};

/// What the ledger knows about one block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRow {
  /// Its id, unique in the ledger.
  pub id: BlockId,
  /// The hash of its raw bytes.
  pub hash: ContentHash,
  /// The hash with line ends normalised.
  pub norm_hash: ContentHash,
  /// Its lines, in order.
  pub lines: Vec<BlockLine>,
  /// The marker around it.
  pub marker: Option<BlockId>,
  /// Its position among the blocks of the file, from 0.
  pub ordinal: u32,
  /// Its first line, from 1.
  pub start_line: u32,
  /// Its last line, from 1.
  pub end_line: u32,
  /// Whether it is valid, flagged or decided about.
  pub state: State,
  /// Its finding codes.
  pub codes: Vec<Code>,
  /// Its score, 0..1.
  pub score: f32,
  /// The findings; spans are in bytes of the block.
  pub findings: KeptFindings,
  /// The writings of the block, in order; number 0 is the first.
  pub revisions: Vec<Revision>,
}

impl BlockRow {
  /// Forgets all findings; the block has this state from now on.
  pub fn clear(&mut self, state: State) {
    self.state = state;
    self.codes.clear();
    self.score = 0.0;
    self.findings = KeptFindings::default();
  }

  /// The revision with this number. Numbers count from 0 without a gap.
  pub fn revision(&self, number: u32) -> Option<&Revision> {
    self.revisions.get(number as usize).filter(|revision| revision.number == number)
  }

  /// Whether a person has approved the lines of the revision with this number.
  pub fn is_approved(&self, number: u32) -> bool {
    self.revision(number).is_some_and(|revision| revision.approved)
  }

  /// Whether the whole block is baseline.
  pub fn is_baseline(&self) -> bool {
    self.revisions.iter().all(|revision| revision.source.is_baseline())
      || self.live().all(|revision| revision.source.is_baseline())
  }

  /// The revisions of which a line still exists.
  pub fn live(&self) -> impl Iterator<Item = &Revision> {
    let numbers: HashSet<u32> = self.lines.iter().map(|line| line.revision).collect();
    self.revisions.iter().filter(move |revision| numbers.contains(&revision.number))
  }
}

/// One line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockLine {
  /// The first eight bytes of its hash.
  pub hash: [u8; 8],
  /// The revision that wrote it.
  pub revision: u32,
  /// Its distance from the first line of the block, in lines of the file: memfw's comments may be
  /// in between.
  pub offset: u32,
}

/// One writing of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
  /// Its number within the block, from 0.
  pub number: u32,
  /// The source of the text.
  pub source: Source,
  /// The trust of the source.
  pub trust: Trust,
  /// How the source is known.
  pub attestation: Attestation,
  /// The agent's session.
  pub session: Option<String>,
  /// When memfw saw it.
  pub at: Micros,
  /// How the origin is known.
  pub trail: OriginRecord,
  /// Whether a person has approved its lines.
  pub approved: bool,
}

/// The place of a block, current or former.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
  /// Its file.
  pub path: PathBuf,
  /// Whether it still exists.
  pub present: bool,
  /// The row of the block, with its revisions.
  pub block: BlockRow,
}

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

/// A row with the columns that only the store needs.
#[derive(Debug)]
pub(super) struct Stored {
  pub(super) key: i64,
  pub(super) row: BlockRow,
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
       score, findings
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
    lines: lines(row, 4)?,
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

const LINE_LEN: usize = 16;

/// The lines of a block as one column.
pub(super) fn join_lines(lines: &[BlockLine]) -> Vec<u8> {
  let mut bytes = Vec::with_capacity(lines.len() * LINE_LEN);
  for line in lines {
    bytes.extend_from_slice(&line.hash);
    bytes.extend_from_slice(&line.revision.to_be_bytes());
    bytes.extend_from_slice(&line.offset.to_be_bytes());
  }
  bytes
}

fn lines(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<BlockLine>> {
  let bytes = row.get_ref(index)?.as_blob().map_err(|error| bad(index, Type::Blob, error))?;
  let (chunks, rest) = bytes.as_chunks::<LINE_LEN>();
  if !rest.is_empty() {
    return Err(bad(index, Type::Blob, Unexpected(format!("{} bytes", bytes.len()))));
  }
  let line = |bytes: &[u8; LINE_LEN]| {
    let &[hash @ .., r0, r1, r2, r3, o0, o1, o2, o3] = bytes;
    BlockLine {
      hash,
      revision: u32::from_be_bytes([r0, r1, r2, r3]),
      offset: u32::from_be_bytes([o0, o1, o2, o3]),
    }
  };
  Ok(chunks.iter().map(line).collect())
}
