//! Writes one block with its revisions.
//!
//! A daemon records every pass over every changed file, so only changed rows are written, and for
//! blocks that only moved, only their position.
#![forbid(unsafe_code)]

use rusqlite::{CachedStatement, Connection, ToSql, params};

use super::{
  BlockRow, Micros, Revision,
  block_row::{HASH_LEN, Stored, join_lines},
  column,
  error::Fault,
};
use crate::memory::BlockId;

/// The columns of the content of a row, in the order of the parameters of [`execute`].
macro_rules! columns {
  () => {
    "file, ordinal, start_line, end_line, hash, norm_hash, lines, marker, codes, score, findings, line_hash,
     state, state_at"
  };
}

/// Adds a block with its revisions, unless its id is in use.
pub(super) fn insert(
  conn: &Connection,
  file: i64,
  row: &BlockRow,
  at: Micros,
) -> Result<(), Fault> {
  let mut statement = conn.prepare_cached(concat!(
    "INSERT INTO block (",
    columns!(),
    ", id, present)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 1)
     ON CONFLICT (id) DO NOTHING",
  ))?;
  match execute(&mut statement, file, row, at, &row.id.as_str())? {
    0 => Ok(()),
    _ => write_revisions(conn, conn.last_insert_rowid(), &[], &row.revisions),
  }
}

/// Executes a statement whose parameters 1 to 14 are the content of a row, in the order of `columns`,
/// and whose last one says which row it is.
fn execute(
  statement: &mut CachedStatement<'_>,
  file: i64,
  row: &BlockRow,
  at: Micros,
  which: &dyn ToSql,
) -> Result<usize, Fault> {
  Ok(statement.execute(params![
    file,
    row.ordinal,
    row.start_line,
    row.end_line,
    row.hash.0,
    row.norm_hash.0,
    join_lines(&row.lines),
    row.marker.as_ref().map(BlockId::as_str),
    column::join_codes(&row.codes),
    column::score(row.score),
    row.findings.as_json(),
    HASH_LEN,
    row.state.as_str(),
    at,
    which,
  ])?)
}

/// Writes what differs from the row as it is.
pub(super) fn update(
  conn: &Connection,
  file: i64,
  stored: &Stored,
  row: &BlockRow,
  at: Micros,
) -> Result<(), Fault> {
  let old = &stored.row;
  if !same_content(old, row) {
    let mut statement = conn.prepare_cached(concat!(
      "UPDATE block SET (",
      columns!(),
      ") = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, iif(state = ?13, state_at, ?14))
       WHERE key = ?15",
    ))?;
    execute(&mut statement, file, row, at, &stored.key)?;
  } else if (old.ordinal, old.start_line, old.end_line)
    != (row.ordinal, row.start_line, row.end_line)
  {
    conn
      .prepare_cached(
        "UPDATE block SET ordinal = ?2, start_line = ?3, end_line = ?4 WHERE key = ?1",
      )?
      .execute((stored.key, row.ordinal, row.start_line, row.end_line))?;
  }
  write_revisions(conn, stored.key, &old.revisions, &row.revisions)
}

/// Whether two rows differ at most in their position.
fn same_content(old: &BlockRow, new: &BlockRow) -> bool {
  old.hash == new.hash
    && old.norm_hash == new.norm_hash
    && old.lines == new.lines
    && old.marker == new.marker
    && old.state == new.state
    && old.codes == new.codes
    // As stored: a score that is not a number would always count as changed.
    && column::score(old.score).to_bits() == column::score(new.score).to_bits()
    && old.findings == new.findings
}

fn write_revisions(
  conn: &Connection,
  block: i64,
  old: &[Revision],
  new: &[Revision],
) -> Result<(), Fault> {
  for revision in new {
    // Numbers count from 0 without a gap, so a revision's index is its number.
    if old.get(revision.number as usize) == Some(revision) {
      continue;
    }
    let (version, changed_at) = revision.trail.columns();
    conn
      .prepare_cached(
        "INSERT INTO revision (block, number, source, trust, attestation, session, at, evidence,
           version, changed_at, due, request, approved)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         ON CONFLICT (block, number) DO UPDATE SET source = ?3, trust = ?4, attestation = ?5,
           session = ?6, at = ?7, evidence = ?8, version = ?9, changed_at = ?10, due = ?11,
           request = ?12, approved = ?13",
      )?
      .execute(params![
        block,
        revision.number,
        revision.source.as_str(),
        revision.trust.as_str(),
        revision.attestation.as_str(),
        revision.session,
        revision.at,
        revision.trail.evidence_json,
        version,
        changed_at,
        revision.trail.due,
        revision.trail.request.map(|hash| hash.0),
        revision.approved,
      ])?;
  }
  Ok(())
}
