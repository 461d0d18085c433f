//! Which item another one is a part of.
#![forbid(unsafe_code)]

use rusqlite::Connection;

use super::column::word;
use crate::memory::BlockId;

/// What an item is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOf {
  /// The divided item.
  pub id: BlockId,
  /// The offset in the text of that item, in bytes.
  pub offset: u64,
  /// Whether it begins or ends within a line.
  pub is_inline: bool,
}

/// Ends the parts of an item that has its whole text again: they have no bytes, and the lazy pass removes their
/// placeholders. Those that a `condition` does not choose become items like others.
pub(super) fn release(
  conn: &Connection,
  id: &BlockId,
  condition: &str,
) -> Result<(), rusqlite::Error> {
  let sql = format!(
    "UPDATE quarantine SET status = 'forgotten', sealed = NULL, due = 0, request = NULL,
       reviewed_at = NULL, reviewed_by = NULL, awaited = 0
     WHERE part_of = ?1 AND {condition}"
  );
  conn.prepare_cached(&sql)?.execute([id.as_str()])?;
  conn
    .prepare_cached("UPDATE quarantine SET part_of = NULL, part_offset = NULL WHERE part_of = ?1")?
    .execute([id.as_str()])?;
  Ok(())
}

/// The ids of the parts of a divided item, in the order of its text.
pub(super) fn part_ids(conn: &Connection, id: &BlockId) -> rusqlite::Result<Vec<BlockId>> {
  conn
    .prepare_cached("SELECT id FROM quarantine WHERE part_of = ?1 ORDER BY part_offset")?
    .query_map([id.as_str()], |row| word(row, 0))?
    .collect()
}
