//! Take-outs by hand: which block of a file an item was before a person had it taken out, so that the take-out can be
//! taken back, and the item is found by the former id.
#![forbid(unsafe_code)]

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
  Durability, Ledger, Micros, NewEvent, StoreError, column, column::word, decision::check_state,
  event, exception, id,
};
use crate::{
  detect::{Code, KeptFindings},
  memory::BlockId,
  provenance::State,
};

/// The items that a person had taken out, under the former ids of their blocks.
const TAKEN: &str = "SELECT taken_block AS id FROM quarantine WHERE taken_block IS NOT NULL";

/// A block before a person had it taken out of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOut {
  /// Its id.
  pub block: BlockId,
  /// Its state.
  pub state: State,
  /// When it was taken out.
  pub at: Micros,
}

/// What the ledger knew about a block before it was taken out.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
  /// Its id.
  pub id: &'a BlockId,
  /// Its state.
  pub state: State,
  /// Its finding codes.
  pub codes: &'a [Code],
  /// Its score, 0..1.
  pub score: f32,
  /// Its findings.
  pub findings: &'a KeptFindings,
}

impl Ledger {
  /// Notes that an item is a block which a person had taken out of its file.
  pub fn note_taken_out(
    &mut self,
    item: &BlockId,
    (block, state): (&BlockId, State),
    (by, at): (&str, Micros),
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached(
        "UPDATE quarantine SET taken_block = ?2, taken_state = ?3, taken_at = ?4, taken_by = ?5 WHERE id = ?1",
      )?
      .execute(params![item.as_str(), block.as_str(), state.as_str(), at, by])?;
      Ok(())
    })
  }

  /// The block that an item was; `None` if no person had it taken out.
  pub fn taken_out(&self, item: &BlockId) -> Result<Option<TakenOut>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT taken_block, taken_state, taken_at
                 FROM quarantine WHERE id = ?1 AND taken_block IS NOT NULL";
      let found = conn.prepare_cached(sql)?.query_row([item.as_str()], |row| {
        Ok(TakenOut { block: word(row, 0)?, state: word(row, 1)?, at: row.get(2)? })
      });
      Ok(found.optional()?)
    })
  }

  /// The item that was the block with this id, or with an id that begins like this, before a person had it taken out;
  /// an error if there is none.
  pub fn taken_as(&self, prefix: &str) -> Result<BlockId, StoreError> {
    self.read(|conn| {
      let block = id::resolve(conn, TAKEN, prefix)?;
      let sql = "SELECT id FROM quarantine WHERE taken_block = ?1 ORDER BY taken_at DESC LIMIT 1";
      Ok(conn.prepare_cached(sql)?.query_row([block.as_str()], |row| word(row, 0))?)
    })
  }

  /// Lets the block `back`, an item that is back in its file and approved, be again what it was before a person had
  /// it taken out, with the events. The item stays: its placeholder may return with an older version of the file.
  pub fn undo_taken_out(
    &mut self,
    item: &BlockId,
    back: &BlockId,
    was: &Before<'_>,
    at: Micros,
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    let Before { id, state, codes, score, findings } = *was;
    self.write(Durability::Synced, |tx, _| {
      check_state(tx, item, |now| now == State::Approved)?;
      exception::withdraw(tx, "item = ?1", [item.as_str()])?;
      tx.prepare_cached(
        "UPDATE block SET state = ?2, state_at = ?3, codes = ?4, score = ?5, findings = ?6,
           reviewed_at = NULL, reviewed_by = NULL
         WHERE id = ?1",
      )?
      .execute(params![
        back.as_str(),
        state.as_str(),
        at,
        column::join_codes(codes),
        column::score(score),
        findings.as_json()
      ])?;
      tx.prepare_cached(
        "UPDATE revision SET approved = 0 WHERE block = (SELECT key FROM block WHERE id = ?1)",
      )?
      .execute([back.as_str()])?;
      if id != back {
        // It has its former id again, which the events and a person's notes name.
        tx.prepare_cached("DELETE FROM block WHERE id = ?1 AND present = 0")?
          .execute([id.as_str()])?;
        tx.prepare_cached(
          "UPDATE OR IGNORE block SET marker = iif(marker = id, ?2, marker), id = ?2 WHERE id = ?1",
        )?
        .execute([back.as_str(), id.as_str()])?;
      }
      // No person has decided about the item now: it is none that the next `undo` takes back.
      tx.prepare_cached("UPDATE quarantine SET reviewed_by = 'memfw' WHERE id = ?1")?
        .execute([item.as_str()])?;
      forget(tx, item)?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }

  /// Forgets that a person had an item taken out, which is approved again, as it was before; with the events.
  pub fn forget_taken_out(
    &mut self,
    item: &BlockId,
    at: Micros,
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      forget(tx, item)?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }
}

/// Forgets that a person had an item taken out.
pub(super) fn forget(conn: &Connection, item: &BlockId) -> rusqlite::Result<()> {
  conn
    .prepare_cached(
      "UPDATE quarantine SET taken_block = NULL, taken_state = NULL, taken_at = NULL, taken_by = NULL
       WHERE id = ?1",
    )?
    .execute([item.as_str()])?;
  Ok(())
}
