//! Divides an item into parts that are items of their own, and joins them again.
//!
//! The bytes of a divided item are only in its parts, so that a part that is deleted is deleted.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
  Durability, ExceptionKey, Item, Ledger, Micros, NewApproval, NewEvent, NewItem, StoreError,
  column::{self, path_bytes},
  decision::check_state,
  error::Fault,
  event, exception,
  fresh_seal::seal_fresh,
  item::{ITEMS, item_row, mark_for_restore},
  part_of::{PartOf, release},
  quarantine,
};
use crate::{
  memory::{BlockId, ContentHash},
  provenance::State,
  seal::{MasterKey, Purpose, SealContext},
};

/// A part about to become an item.
#[derive(Clone, Debug)]
pub struct NewPart<'a> {
  /// The item; its `n` is ignored.
  pub item: NewItem<'a>,
  /// What it is a part of.
  pub of: PartOf,
  /// The hashes and the contexts of its approval; `None` if it waits.
  pub approval: Option<Vec<(ContentHash, ContentHash)>>,
}

impl Ledger {
  /// Divides an item that waits into parts, of which some are approved, with the events, in one transaction. The file
  /// does not have their text yet: the item is awaited.
  pub fn split(
    &mut self,
    id: &BlockId,
    parts: &[NewPart<'_>],
    decision: &NewApproval<'_>,
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, key| {
      let key = key.ok_or(StoreError::NoKey)?;
      check_state(tx, id, State::is_waiting)?;
      for part in parts {
        insert(tx, key, part, decision)?;
      }
      exception::add_beside(tx, id, decision.beside)?;
      tx.prepare_cached(
        "UPDATE quarantine SET former = status, status = ?2, sealed = NULL, awaited = 1, due = 0,
           reviewed_at = ?3, reviewed_by = ?4
         WHERE id = ?1",
      )?
      .execute(params![id.as_str(), State::Split.as_str(), decision.at, decision.by])?;
      mark_for_restore(tx, id)?;
      event::append(tx, events, decision.at)?;
      Ok(())
    })
  }

  /// The parts of a divided item, in the order of its text.
  pub fn parts_of(&self, id: &BlockId) -> Result<Vec<Item>, StoreError> {
    self.read(|conn| {
      let sql = format!("SELECT * FROM ({ITEMS}) WHERE part_of = ?1 ORDER BY part_offset");
      let mut statement = conn.prepare_cached(&sql)?;
      let rows = statement.query_map([id.as_str()], item_row)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The ids of earlier parts with these bytes that were joined again: their placeholders may still be in copies of
  /// the file.
  pub fn joined_parts(&self, path: &Path, hash: ContentHash) -> Result<Vec<BlockId>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id FROM quarantine
         WHERE hash = ?1 AND path = ?2 AND status = 'forgotten' AND reviewed_by IS NULL
         ORDER BY n",
      )?;
      Ok(column::ids(&mut statement, params![hash.0, path_bytes(path)])?)
    })
  }

  /// The hashes and the lengths of the texts in a file that were parts of an item and were joined again.
  pub fn joined_texts(&self, path: &Path) -> Result<Vec<(ContentHash, u64)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT DISTINCT hash, len FROM quarantine
         WHERE path = ?1 AND status = 'forgotten' AND reviewed_by IS NULL",
      )?;
      let row = |row: &Row<'_>| Ok((column::hash(row, 0)?, row.get::<_, i64>(1)? as u64));
      Ok(statement.query_map([path_bytes(path)], row)?.collect::<Result<_, _>>()?)
    })
  }

  /// Joins the parts of an item, whose bytes are `plain`: it waits again in this state, with the events. The approvals
  /// of its parts end.
  pub fn join(
    &mut self,
    id: &BlockId,
    plain: &[u8],
    state: State,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, key| {
      let key = key.ok_or(StoreError::NoKey)?;
      check_state(tx, id, |now| now == State::Split)?;
      let of_parts = "item IN (SELECT id FROM quarantine WHERE part_of = ?1)";
      exception::withdraw(tx, of_parts, [id.as_str()])?;
      release(tx, id, "1")?;
      let (path, hash) = tx
        .prepare_cached("SELECT coalesce(sealed_for, path), hash FROM quarantine WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((column::path(row, 0)?, column::hash(row, 1)?)))?;
      let context = SealContext {
        purpose: Purpose::Quarantine,
        id: id.as_str(),
        path: path_bytes(&path),
        hash,
      };
      tx.prepare_cached(
        "UPDATE quarantine SET status = ?2, sealed = ?3, awaited = 0, reviewed_at = NULL,
           reviewed_by = NULL
         WHERE id = ?1",
      )?
      .execute(params![id.as_str(), state.as_str(), seal_fresh(key, &context, plain)?])?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }
}

fn insert(
  conn: &Connection,
  key: &MasterKey,
  part: &NewPart<'_>,
  decision: &NewApproval<'_>,
) -> Result<(), Fault> {
  let NewPart { item, of, approval } = part;
  let id = item.id.as_str();
  let hash = ContentHash::of(item.bytes);
  // A part that was joined again gets its row back.
  let before: Option<u32> = conn
    .prepare_cached("SELECT n FROM quarantine WHERE id = ?1 AND status = 'forgotten'")?
    .query_row([id], |row| row.get(0))
    .optional()?;
  if before.is_some() {
    conn.prepare_cached("DELETE FROM quarantine WHERE id = ?1")?.execute([id])?;
  }
  let mut taken =
    conn.prepare_cached("SELECT 1 FROM quarantine WHERE hash = ?1 AND path = ?2 AND n = ?3")?;
  let mut n = before.unwrap_or_default();
  while taken.exists(params![hash.0, path_bytes(item.path), n])? {
    n = n.saturating_add(1);
  }
  drop(taken);
  let new = NewItem { n, ..item.clone() };
  quarantine::come(conn, key, &new, hash, decision.at)?;
  let status = if approval.is_some() { State::Approved } else { item.status };
  let reviewed = approval.as_ref().map(|_| (decision.at, decision.by));
  conn
    .prepare_cached(
      "UPDATE quarantine SET part_of = ?2, part_offset = ?3, part_inline = ?4, status = ?5,
         former = ?6, reviewed_at = ?7, reviewed_by = ?8
       WHERE id = ?1",
    )?
    .execute(params![
      id,
      of.id.as_str(),
      of.offset as i64,
      of.is_inline,
      status.as_str(),
      item.status.as_str(),
      reviewed.map(|(at, _)| at),
      reviewed.map(|(_, by)| by),
    ])?;
  for (hash, context) in approval.iter().flatten() {
    let key = ExceptionKey { hash: *hash, item: Some(item.id.clone()) };
    let NewApproval { reason, codes, at, until, .. } = *decision;
    exception::insert(conn, &key, *context, codes, (reason, at, until))?;
  }
  Ok(())
}
