//! Questions to a judge without an accepted answer: which of them are asked again, and when.
//!
//! Invariant: only answers use up the tries of a question. An unreachable judge, or a process that
//! ended while it had a question, does not count as a try.
#![forbid(unsafe_code)]

use rusqlite::{OptionalExtension as _, params};

use super::{
  Durability, Ledger, Micros, StoreError,
  question::{count, give_up},
};
use crate::memory::ContentHash;

/// How many answers to a question may be rejected.
const MAX_TRIES: i64 = 4;
/// The pause after the first rejected answer; each further one is four times as long.
const FIRST_PAUSE: Micros = 60 * 1_000_000;

impl Ledger {
  /// Records a rejected answer: the question is handed out again later, or never.
  pub fn no_answer(&mut self, hash: ContentHash, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let tries: Option<i64> = tx
        .prepare_cached("SELECT tries FROM question WHERE hash = ?1 AND state = 'waiting'")?
        .query_row([hash.0], |row| row.get(0))
        .optional()?;
      let Some(tries) = tries.map(|before| before + 1) else { return Ok(()) };
      count(tx, at, "failed", 1)?;
      if tries >= MAX_TRIES {
        give_up(tx, "hash = ?1 AND ?2 IS NOT NULL", params![hash.0, at])?;
        return Ok(());
      }
      let pause = FIRST_PAUSE.saturating_mul(1 << (2 * (tries - 1).clamp(0, MAX_TRIES)));
      tx.prepare_cached(
        "UPDATE question SET nonce = NULL, tries = ?3, silent = max(silent - 1, 0), next_at = ?2
         WHERE hash = ?1",
      )?
      .execute(params![hash.0, at.saturating_add(pause), tries])?;
      Ok(())
    })
  }

  /// Records that a question got no response. If no reader could be `reached`, that is no fault of
  /// the question, so it is handed out again soon; otherwise it is when its time is up.
  pub fn not_answered(
    &mut self,
    hash: ContentHash,
    reached: bool,
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let waits = tx
        .prepare_cached("SELECT 1 FROM question WHERE hash = ?1 AND state = 'waiting'")?
        .exists([hash.0])?;
      if !waits {
        return Ok(());
      }
      count(tx, at, "failed", 1)?;
      let sql = if reached {
        "UPDATE question SET nonce = NULL WHERE hash = ?1 AND ?2 IS NOT NULL"
      } else {
        "UPDATE question SET nonce = NULL, silent = max(silent - 1, 0), next_at = ?2 WHERE hash = ?1"
      };
      tx.prepare_cached(sql)?.execute(params![hash.0, at.saturating_add(FIRST_PAUSE)])?;
      Ok(())
    })
  }

  /// A reader answers again: questions that wait only because of a missing response are asked at once.
  pub fn wake_questions(&mut self, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "UPDATE question SET next_at = ?1
         WHERE state = 'waiting' AND nonce IS NULL AND tries = 0 AND next_at > ?1",
      )?
      .execute([at])?;
      Ok(())
    })
  }
}
