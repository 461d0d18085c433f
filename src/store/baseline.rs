//! Baseline blocks without findings: one row per file.
//!
//! A first scan sees hundreds of thousands of blocks, of which most never change. Rows of their own
//! would be most of the cost of the scan (measured: 13 of 16 s for 10,000 notes). The first change
//! of a file gives its blocks their own rows; until then they are read as if they had some.
//!
//! Their ids are long enough to be unique without a lookup.
#![forbid(unsafe_code)]

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};

use super::{
  BlockLine, BlockRow, Micros, OriginRecord, Place, Revision, block_change,
  block_row::{HASH_LEN, take, take_hash},
  column::{self, Unexpected, bad, word},
  error::Fault,
};
use crate::{
  detect::KeptFindings,
  memory::{BlockId, ContentHash, id::hex},
  provenance::{Attestation, Source, State, Trust},
};

/// Digits of the id of a block that shares a row: among a million such blocks the chance that two
/// have one id is 0.2 %.
pub const ADOPTED_DIGITS: usize = 12;

const ID_LEN: usize = ADOPTED_DIGITS / 2;

/// The columns that all blocks of one row share.
#[derive(Clone, PartialEq, Eq)]
struct SharedFacts {
  trust: Trust,
  attestation: Attestation,
  at: Micros,
}

/// Puts the blocks without findings into one row; returns the others.
pub(super) fn insert<'a>(
  conn: &Connection,
  file: i64,
  rows: &'a [BlockRow],
) -> Result<impl Iterator<Item = &'a BlockRow>, Fault> {
  let common = rows.iter().find_map(plain);
  let (mut n, mut bytes) = (0, Vec::with_capacity(rows.len() * 100));
  for row in rows.iter().filter(|row| common.is_some() && plain(row) == common) {
    n += 1;
    encode(row, &mut bytes);
  }
  if let Some(common) = &common {
    conn
      .prepare_cached(
        "INSERT INTO baseline (file, n, at, trust, attestation, blocks, line_hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
      )?
      .execute(params![
        file,
        n,
        common.at,
        common.trust.as_str(),
        common.attestation.as_str(),
        bytes,
        HASH_LEN
      ])?;
  }
  Ok(rows.iter().filter(move |row| common.is_none() || plain(row) != common))
}

/// The blocks of a file that share a row, in order.
pub(super) fn blocks(conn: &Connection, file: i64) -> Result<Vec<BlockRow>, Fault> {
  let found = conn
    .prepare_cached(
      "SELECT blocks, at, trust, attestation, line_hash FROM baseline WHERE file = ?1",
    )?
    .query_row([file], decode)
    .optional()?;
  Ok(found.unwrap_or_default())
}

/// Changes the blocks of a file that share a row; `change` leaves what they share.
pub(super) fn rewrite(
  conn: &Connection,
  file: i64,
  change: impl Fn(&mut BlockRow),
) -> Result<(), Fault> {
  let mut rows = blocks(conn, file)?;
  let mut bytes = Vec::with_capacity(rows.len() * 100);
  for row in &mut rows {
    change(row);
    encode(row, &mut bytes);
  }
  let mut update =
    conn.prepare_cached("UPDATE baseline SET blocks = ?2, line_hash = ?3 WHERE file = ?1")?;
  update.execute(params![file, bytes, HASH_LEN])?;
  Ok(())
}

/// Gives each block of a file its own row.
pub(super) fn expand(conn: &Connection, file: i64) -> Result<(), Fault> {
  let blocks = blocks(conn, file)?;
  for row in &blocks {
    let at = row.revisions.first().map_or(0, |revision| revision.at);
    block_change::insert(conn, file, row, at)?;
  }
  if !blocks.is_empty() {
    conn.prepare_cached("DELETE FROM baseline WHERE file = ?1")?.execute([file])?;
  }
  Ok(())
}

/// Gives the blocks that share a row with this one their own rows; does nothing if it already has
/// one.
pub(super) fn expand_around(conn: &Connection, id: &BlockId) -> Result<(), Fault> {
  let Some(digits) = id_bytes(id) else { return Ok(()) };
  let sql = "SELECT file FROM baseline WHERE instr(blocks, ?1) > 0";
  let mut statement = conn.prepare_cached(sql)?;
  let files = statement.query_map([&digits[..]], |row| row.get(0))?;
  // The bytes may match by chance; expanding one file more is harmless.
  for file in files.collect::<Result<Vec<i64>, _>>()? {
    expand(conn, file)?;
  }
  Ok(())
}

/// The block with this id. Searches all such blocks.
pub(super) fn by_id(conn: &Connection, id: &BlockId) -> Result<Option<Place>, Fault> {
  let Some(digits) = id_bytes(id) else { return Ok(None) };
  let mut statement = conn.prepare_cached(
    "SELECT b.blocks, b.at, b.trust, b.attestation, b.line_hash, f.path
     FROM baseline b JOIN file f ON f.id = b.file WHERE instr(b.blocks, ?1) > 0",
  )?;
  let mut rows = statement.query([&digits[..]])?;
  while let Some(row) = rows.next()? {
    // The bytes may match by chance inside a hash, so the ids are compared.
    if let Some(block) = decode(row)?.into_iter().find(|block| block.id == *id) {
      return Ok(Some(Place { path: column::path(row, 5)?, present: true, block }));
    }
  }
  Ok(None)
}

/// The columns that a block can share with others; `None` if it needs its own row.
fn plain(row: &BlockRow) -> Option<SharedFacts> {
  let [revision] = &*row.revisions else { return None };
  // Every column that the shared row does not store must have its default.
  let nothing_to_say = row.state == State::Validated
    && row.marker.is_none()
    && row.codes.is_empty()
    && row.score.to_bits() == 0
    && row.findings.is_empty()
    && revision.number == 0
    && revision.source.is_baseline()
    && revision.session.is_none()
    && revision.trail == OriginRecord::default()
    && !revision.approved
    && row.lines.iter().zip(0..).all(|(line, n)| line.revision == 0 && line.offset == n)
    && id_bytes(&row.id).is_some();
  let Revision { trust, attestation, at, .. } = *revision;
  nothing_to_say.then_some(SharedFacts { trust, attestation, at })
}

fn id_bytes(id: &BlockId) -> Option<[u8; ID_LEN]> {
  let digits = id.as_str();
  let number = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == ADOPTED_DIGITS)?;
  number.to_be_bytes().last_chunk().copied()
}

fn encode(row: &BlockRow, bytes: &mut Vec<u8>) {
  bytes.extend(id_bytes(&row.id).unwrap_or_default());
  for number in [row.ordinal, row.start_line, row.end_line, row.lines.len() as u32] {
    bytes.extend(number.to_be_bytes());
  }
  bytes.extend(row.hash.0);
  bytes.extend(row.norm_hash.0);
  for line in &row.lines {
    bytes.extend(line.hash.bytes());
  }
}

/// The blocks of a row whose first columns are `blocks, at, trust, attestation, line_hash`.
fn decode(row: &Row<'_>) -> rusqlite::Result<Vec<BlockRow>> {
  let all = row.get_ref(0)?.as_blob().map_err(|error| bad(0, Type::Blob, error))?;
  let revision = Revision {
    number: 0,
    source: Source::baseline(),
    trust: word(row, 2)?,
    attestation: word(row, 3)?,
    session: None,
    at: row.get(1)?,
    trail: OriginRecord::default(),
    approved: false,
  };
  let length = row.get(4)?;
  let mut rest = all;
  let mut found = Vec::new();
  while !rest.is_empty() {
    let block = next(&mut rest, length, &revision)
      .ok_or_else(|| bad(0, Type::Blob, Unexpected(format!("{} bytes", all.len()))))?;
    found.push(block);
  }
  Ok(found)
}

fn next(rest: &mut &[u8], length: i64, revision: &Revision) -> Option<BlockRow> {
  let id = hex(&take::<ID_LEN>(rest)?).parse().ok()?;
  let ordinal = u32::from_be_bytes(take(rest)?);
  let start_line = u32::from_be_bytes(take(rest)?);
  let end_line = u32::from_be_bytes(take(rest)?);
  let n_lines = u32::from_be_bytes(take(rest)?);
  let hash = ContentHash(take(rest)?);
  let norm_hash = ContentHash(take(rest)?);
  let mut lines = Vec::new();
  for offset in 0..n_lines {
    lines.push(BlockLine { hash: take_hash(rest, length)?, revision: 0, offset });
  }
  Some(BlockRow {
    id,
    hash,
    norm_hash,
    lines,
    marker: None,
    ordinal,
    start_line,
    end_line,
    state: State::Validated,
    codes: Vec::new(),
    score: 0.0,
    findings: KeptFindings::default(),
    revisions: vec![revision.clone()],
  })
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;
  use crate::{
    detect::Code,
    store::{
      ScanRecord,
      tests::{Home, block, id, scan},
    },
  };

  /// A block as a first scan records it.
  fn untouched(digits: &str, ordinal: u32) -> BlockRow {
    let mut row = block(digits, ordinal);
    row.revisions[0].source = Source::baseline();
    for (line, offset) in row.lines.iter_mut().zip(0..) {
      (line.revision, line.offset) = (0, offset);
    }
    row
  }

  fn rows() -> Vec<BlockRow> {
    let mut rows: Vec<_> = ["0123456789ab", "aaaaaaaaaaa1", "fffffffffff2", "aaaaa3"]
      .into_iter()
      .zip(0..)
      .map(|(digits, ordinal)| untouched(digits, ordinal))
      .collect();
    rows[1].state = State::Flagged;
    rows[1].codes = vec![Code::ForgedMarker];
    rows
  }

  #[test]
  fn what_shares_a_row_reads_like_what_has_one_of_its_own() {
    let mut ledger = Home::new().ledger();
    let rows = rows();
    ledger.adopt(&[ScanRecord { adopted: true, ..scan("/w/a.md", &rows, 7) }]).unwrap();
    let (file, found) = ledger.provenance(Path::new("/w/a.md")).unwrap().unwrap();
    assert_eq!(found, rows);
    assert_eq!(file.adopted_at, Some(7));
    let own: i64 =
      ledger.conn.query_row("SELECT count(*) FROM block", [], |row| row.get(0)).unwrap();
    assert_eq!(own, 2, "the flagged one, and the one with a short id");
    let place = ledger.block(&rows[2].id).unwrap().unwrap();
    assert_eq!((place.path.as_path(), &place.block), (Path::new("/w/a.md"), &rows[2]));
    assert_eq!(ledger.block(&id("0123456789ac")).unwrap(), None);
    let states = ledger.counts(9).unwrap().blocks_by_state;
    assert_eq!(states, [(State::Validated, 3), (State::Flagged, 1)]);
  }

  #[test]
  fn the_first_change_gives_each_block_a_row_and_keeps_its_history() {
    let mut ledger = Home::new().ledger();
    let mut rows = rows();
    ledger.adopt(&[scan("/w/a.md", &rows, 7)]).unwrap();
    rows[0].state = State::Flagged;
    let gone = rows.remove(2);
    let file = ledger.record(&scan("/w/a.md", &rows, 9)).unwrap();
    assert_eq!(ledger.blocks(file).unwrap(), rows);
    assert_eq!(ledger.former_blocks(file, 9).unwrap(), [gone]);
    let shared: i64 =
      ledger.conn.query_row("SELECT count(*) FROM baseline", [], |row| row.get(0)).unwrap();
    assert_eq!(shared, 0);
  }

  #[test]
  fn a_row_that_memfw_did_not_write_is_an_error_and_no_panic() {
    let mut ledger = Home::new().ledger();
    ledger.adopt(&[scan("/w/a.md", &rows(), 7)]).unwrap();
    let file = ledger.file(Path::new("/w/a.md")).unwrap().unwrap().id;
    for bytes in [&b"x"[..], &[0xff; 90]] {
      ledger.conn.execute("UPDATE baseline SET blocks = ?1", [bytes]).unwrap();
      assert!(ledger.blocks(file).is_err());
    }
  }
}
