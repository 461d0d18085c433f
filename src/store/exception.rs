//! What a person approved, by content: such text is not judged guilty of the same again.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Durability, Ledger, Micros, StoreError, column, column::path_bytes};
use crate::{detect::Code, memory::ContentHash};

/// One approval, by content hash and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
  /// The hash of the approved bytes.
  pub hash: ContentHash,
  /// What is excused.
  pub codes: Vec<Code>,
  /// Why, in the approver's words.
  pub reason: String,
  /// Since when.
  pub created_at: Micros,
  /// Until when; `None` for good.
  pub expires_at: Option<Micros>,
  /// When it was last needed.
  pub used_at: Option<Micros>,
  /// How often it was needed.
  pub uses: u64,
}

impl Exception {
  /// Whether it still holds.
  pub fn holds(&self, at: Micros) -> bool {
    self.expires_at.is_none_or(|end| at < end)
  }

  /// Whether it excuses all of `codes` at that time.
  pub fn covers(&self, codes: &[Code], at: Micros) -> bool {
    self.holds(at) && codes.iter().all(|code| self.codes.contains(code))
  }
}

impl Ledger {
  /// Excuses these codes for this content in this `context`. A second approval adds its codes and its context;
  /// its reason and end count.
  pub fn except(
    &mut self,
    hash: ContentHash,
    context: ContentHash,
    codes: &[Code],
    reason: &str,
    at: Micros,
    expires: Option<Micros>,
  ) -> Result<(), StoreError> {
    // A person's word, and rare: it must not be lost with the power.
    self.write(Durability::Synced, |tx, _| {
      let before = tx
        .prepare_cached("SELECT codes FROM exception WHERE hash = ?1")?
        .query_row([hash.0], |row| column::codes(row, 0))
        .optional()?;
      let is_bound =
        tx.prepare_cached("SELECT 1 FROM exception_context WHERE hash = ?1")?.exists([hash.0])?;
      // An approval that is older than contexts keeps holding where it held.
      if before.is_none() || is_bound {
        tx.prepare_cached(
          "INSERT OR IGNORE INTO exception_context (hash, context) VALUES (?1, ?2)",
        )?
        .execute((hash.0, context.0))?;
      }
      let mut all = before.unwrap_or_default();
      all.extend_from_slice(codes);
      all.sort_unstable();
      all.dedup();
      tx.prepare_cached(
        "INSERT INTO exception (hash, codes, reason, created_at, expires_at, uses)
         VALUES (?1, ?2, ?3, ?4, ?5, 0)
         ON CONFLICT (hash) DO UPDATE SET codes = ?2, reason = ?3, expires_at = ?5",
      )?
      .execute(params![hash.0, column::join_codes(&all), reason, at, expires])?;
      Ok(())
    })
  }

  /// The approval of this content, where there is one, holds in this context as well.
  pub fn except_in(&mut self, hash: ContentHash, context: ContentHash) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached(
        "INSERT OR IGNORE INTO exception_context (hash, context)
         SELECT DISTINCT hash, ?2 FROM exception_context WHERE hash = ?1",
      )?
      .execute((hash.0, context.0))?;
      Ok(())
    })
  }

  /// Whether anything was ever approved and not taken back.
  pub fn has_exceptions(&self) -> Result<bool, StoreError> {
    self.read(|conn| Ok(conn.prepare_cached("SELECT 1 FROM exception LIMIT 1")?.exists([])?))
  }

  /// Takes an approval back.
  pub fn withdraw_exception(&mut self, hash: ContentHash) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached("DELETE FROM exception WHERE hash = ?1")?.execute([hash.0])?;
      tx.prepare_cached("DELETE FROM exception_context WHERE hash = ?1")?.execute([hash.0])?;
      Ok(())
    })
  }

  /// The approval of this content, expired or not.
  pub fn exception(&self, hash: ContentHash) -> Result<Option<Exception>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached(&select("WHERE hash = ?1"))?
        .query_row([hash.0], exception_row)
        .optional()?;
      Ok(found)
    })
  }

  /// Whether the approval of this content holds in a context that is this one. An approval that was bound to
  /// none holds for a text that is `whole`: all that its block says.
  pub fn is_excused_in(
    &self,
    hash: ContentHash,
    is_this: impl Fn(&ContentHash) -> bool,
    whole: bool,
  ) -> Result<bool, StoreError> {
    let bound = self.excused_in(hash)?;
    Ok(whole && bound.is_empty() || bound.iter().any(is_this))
  }

  /// Whether something was approved in a file by an approval that was taken back since, or has ended.
  pub fn has_lost_approval(&self, path: &Path, now: Micros) -> Result<bool, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT 1 FROM quarantine q
         WHERE q.path = ?1 AND q.status = 'approved' AND NOT EXISTS (
           SELECT 1 FROM exception e
           WHERE e.hash = q.hash AND (e.expires_at IS NULL OR e.expires_at > ?2))",
      )?;
      Ok(statement.exists(params![path_bytes(path), now])?)
    })
  }

  /// The contexts in which the approval of this content holds.
  pub fn excused_in(&self, hash: ContentHash) -> Result<Vec<ContentHash>, StoreError> {
    self.read(|conn| {
      let mut statement =
        conn.prepare_cached("SELECT context FROM exception_context WHERE hash = ?1")?;
      let rows = statement.query_map([hash.0], |row| column::hash(row, 0))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// All approvals, oldest first.
  pub fn exceptions(&self) -> Result<Vec<Exception>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select("ORDER BY created_at, hash"))?;
      let rows = statement.query_map([], exception_row)?.collect::<Result<_, _>>()?;
      Ok(rows)
    })
  }

  /// Notes that an approval was needed.
  pub fn use_exception(&mut self, hash: ContentHash, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("UPDATE exception SET used_at = ?2, uses = uses + 1 WHERE hash = ?1")?
        .execute((hash.0, at))?;
      Ok(())
    })
  }
}

fn select(rest: &str) -> String {
  format!("SELECT hash, codes, reason, created_at, expires_at, used_at, uses FROM exception {rest}")
}

fn exception_row(row: &Row<'_>) -> rusqlite::Result<Exception> {
  Ok(Exception {
    hash: column::hash(row, 0)?,
    codes: column::codes(row, 1)?,
    reason: row.get(2)?,
    created_at: row.get(3)?,
    expires_at: row.get(4)?,
    used_at: row.get(5)?,
    uses: row.get::<_, i64>(6)? as u64,
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::Home;

  #[test]
  fn an_approval_excuses_its_codes_until_its_end() {
    let mut ledger = Home::new().ledger();
    let hash = ContentHash::of(b"fine");
    assert_eq!(ledger.exception(hash).unwrap(), None);
    let here = ContentHash::of(b"here");
    ledger.except(hash, here, &[Code::ForgedMarker], "mine", 1, None).unwrap();
    let codes = [Code::EditedBlock, Code::ForgedMarker];
    ledger.except(hash, here, &codes, "ours", 2, Some(10)).unwrap();
    ledger.use_exception(hash, 5).unwrap();
    let found = ledger.exception(hash).unwrap().unwrap();
    assert_eq!(found.codes, [Code::ForgedMarker, Code::EditedBlock]);
    assert_eq!(
      (found.reason.as_str(), found.created_at, found.used_at, found.uses),
      ("ours", 1, Some(5), 1)
    );
    assert!(found.covers(&[Code::EditedBlock], 9) && found.covers(&[], 9));
    assert!(!found.covers(&[Code::EditedBlock], 10), "expired");
    assert!(!found.covers(&[Code::EditedBlock, Code::ForeignMarkers], 9), "another code");
    assert_eq!(ledger.exceptions().unwrap(), [found]);
  }

  #[test]
  fn an_approval_holds_where_it_was_given() {
    let mut ledger = Home::new().ledger();
    let hash = ContentHash::of(b"fine");
    let [here, there, elsewhere] = [b"1", b"2", b"3"].map(|name| ContentHash::of(name));
    let holds = |ledger: &Ledger, context, whole| {
      ledger.is_excused_in(hash, |name| *name == context, whole).unwrap()
    };
    ledger.except(hash, here, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, here, false) && !holds(&ledger, there, true));
    ledger.except(hash, there, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, here, false) && holds(&ledger, there, false));
    assert!(!holds(&ledger, elsewhere, true));
    let also = ContentHash::of(b"4");
    ledger.except_in(hash, also).unwrap();
    ledger.except_in(also, also).unwrap();
    assert!(holds(&ledger, also, false) && !holds(&ledger, elsewhere, true));
    assert!(ledger.exception(also).unwrap().is_none(), "what was never approved stays so");
    ledger.conn.execute("DELETE FROM exception_context", []).unwrap();
    assert!(holds(&ledger, elsewhere, true) && !holds(&ledger, elsewhere, false), "an older one");
    ledger.except(hash, here, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, elsewhere, true), "it stays what it was");
    ledger.withdraw_exception(hash).unwrap();
    ledger.except(hash, here, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(!holds(&ledger, elsewhere, true));
  }
}
