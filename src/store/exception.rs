//! Approvals, by content: approved text is not reported for its codes again where it was approved.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::{Durability, Ledger, Micros, StoreError, column, column::path_bytes, error::Fault};
use crate::{
  detect::Code,
  memory::{BlockId, ContentHash},
};

/// One approval, by content hash and item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
  /// The content and the item for which it was given.
  pub key: ExceptionKey,
  /// The excused codes.
  pub codes: Vec<Code>,
  /// The reason, in the approver's words.
  pub reason: String,
  /// When it begins.
  pub created_at: Micros,
  /// When it ends; `None` for never.
  pub expires_at: Option<Micros>,
  /// When it was last used.
  pub used_at: Option<Micros>,
  /// How often it was used.
  pub uses: u64,
  /// The contexts in which it applies; empty for an exception from before contexts.
  pub contexts: Vec<ContentHash>,
}

/// A person's approval about to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct NewApproval<'a> {
  /// Who approves.
  pub by: &'a str,
  /// Why.
  pub reason: &'a str,
  /// The codes that are excused in the approved text.
  pub codes: &'a [Code],
  /// When.
  pub at: Micros,
  /// Until when the approval applies to new copies; `None` for ever.
  pub until: Option<Micros>,
  /// The approved texts beside it, whose contexts change by it: the person has read them as well.
  pub beside: &'a [(ContentHash, ContentHash)],
}

/// What an exception is about: a content, and the item whose approval made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExceptionKey {
  /// The hash of the approved bytes.
  pub hash: ContentHash,
  /// The approved item; `None` for an exception of an older memfw, which applies to every item with
  /// this text.
  pub item: Option<BlockId>,
}

impl ExceptionKey {
  fn column(&self) -> &str {
    self.item.as_ref().map_or("", BlockId::as_str)
  }
}

impl Exception {
  /// Whether it still applies.
  pub fn holds(&self, at: Micros) -> bool {
    self.expires_at.is_none_or(|end| at < end)
  }

  /// Whether it excuses all of `codes` at that time.
  pub fn covers(&self, codes: &[Code], at: Micros) -> bool {
    self.holds(at) && codes.iter().all(|code| self.codes.contains(code))
  }

  /// Whether it was given in this context. An exception without contexts applies to a text that is
  /// `whole`: the complete text of its block.
  pub fn holds_in(&self, is_this: impl Fn(&ContentHash) -> bool, whole: bool) -> bool {
    whole && self.contexts.is_empty() || self.contexts.iter().any(is_this)
  }
}

impl Ledger {
  /// Excuses these codes for this content in this `context`. A second approval of an item adds its
  /// codes and its context; its reason and end replace the old ones.
  pub fn except(
    &mut self,
    key: &ExceptionKey,
    context: ContentHash,
    codes: &[Code],
    reason: &str,
    at: Micros,
    expires: Option<Micros>,
  ) -> Result<(), StoreError> {
    // A person's decision is rare, and must survive a power cut.
    self.write(Durability::Synced, |tx, _| {
      Ok(insert(tx, key, context, codes, (reason, at, expires))?)
    })
  }

  /// Adds this context to the existing approvals of this content in this file.
  pub fn except_in(
    &mut self,
    path: &Path,
    hash: ContentHash,
    context: ContentHash,
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| Ok(add_context(tx, path_bytes(path), hash, context)?))
  }

  /// Withdraws all that the approval of an item excuses: its text, and the lines of which the text is a part.
  pub fn withdraw_exceptions_of(&mut self, item: &BlockId) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| Ok(withdraw(tx, "item = ?1", [item.as_str()])?))
  }

  /// Whether anything was ever approved and not withdrawn.
  pub fn has_exceptions(&self) -> Result<bool, StoreError> {
    self.read(|conn| Ok(conn.prepare_cached("SELECT 1 FROM exception LIMIT 1")?.exists([])?))
  }

  /// Withdraws an approval.
  pub fn withdraw_exception(&mut self, key: &ExceptionKey) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      Ok(withdraw(tx, "hash = ?1 AND item = ?2", (key.hash.0, key.column()))?)
    })
  }

  /// The approvals of this content, expired or not, the oldest first.
  pub fn exceptions_of(&self, hash: ContentHash) -> Result<Vec<Exception>, StoreError> {
    self.read(|conn| select(conn, "WHERE hash = ?1", &[&hash.0]))
  }

  /// Whether an approval in this file was withdrawn since, or has ended.
  pub fn has_lost_approval(&self, path: &Path, now: Micros) -> Result<bool, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT 1 FROM quarantine q
         WHERE q.path = ?1 AND q.status = 'approved' AND NOT EXISTS (
           SELECT 1 FROM exception e
           WHERE e.hash = q.hash AND e.item IN ('', q.id)
             AND (e.expires_at IS NULL OR e.expires_at > ?2))",
      )?;
      Ok(statement.exists(params![path_bytes(path), now])?)
    })
  }

  /// All approvals, oldest first.
  pub fn exceptions(&self) -> Result<Vec<Exception>, StoreError> {
    self.read(|conn| select(conn, "", &[]))
  }

  /// Records that an approval was used.
  pub fn use_exception(&mut self, key: &ExceptionKey, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "UPDATE exception SET used_at = ?3, uses = uses + 1 WHERE hash = ?1 AND item = ?2",
      )?
      .execute((key.hash.0, key.column(), at))?;
      Ok(())
    })
  }
}

/// Withdraws the approvals that the condition chooses.
pub(super) fn withdraw(
  conn: &Connection,
  condition: &str,
  params: impl Params + Copy,
) -> rusqlite::Result<()> {
  for table in ["exception", "exception_context"] {
    conn.prepare_cached(&format!("DELETE FROM {table} WHERE {condition}"))?.execute(params)?;
  }
  Ok(())
}

/// Adds the new contexts of approved texts in the file of an item that is approved.
pub(super) fn add_beside(
  conn: &Connection,
  id: &BlockId,
  beside: &[(ContentHash, ContentHash)],
) -> rusqlite::Result<()> {
  if beside.is_empty() {
    return Ok(());
  }
  let path: Vec<u8> = conn
    .prepare_cached("SELECT path FROM quarantine WHERE id = ?1")?
    .query_row([id.as_str()], |row| row.get(0))?;
  beside.iter().try_for_each(|&(hash, context)| add_context(conn, &path, hash, context))
}

fn add_context(
  conn: &Connection,
  path: &[u8],
  hash: ContentHash,
  context: ContentHash,
) -> rusqlite::Result<()> {
  conn
    .prepare_cached(
      "INSERT OR IGNORE INTO exception_context (hash, item, context)
       SELECT DISTINCT c.hash, c.item, ?2 FROM exception_context c
       LEFT JOIN quarantine q ON q.id = c.item
       WHERE c.hash = ?1 AND (c.item = '' OR q.path = ?3)",
    )?
    .execute((hash.0, context.0, path))
    .map(drop)
}

/// Inserts an approval, or adds these codes and this context to the one of the item.
pub(super) fn insert(
  conn: &Connection,
  key: &ExceptionKey,
  context: ContentHash,
  codes: &[Code],
  (reason, at, expires): (&str, Micros, Option<Micros>),
) -> rusqlite::Result<()> {
  let (hash, item) = (key.hash.0, key.column());
  let before = conn
    .prepare_cached("SELECT codes FROM exception WHERE hash = ?1 AND item = ?2")?
    .query_row((hash, item), |row| column::codes(row, 0))
    .optional()?;
  conn
    .prepare_cached(
      "INSERT OR IGNORE INTO exception_context (hash, item, context) VALUES (?1, ?2, ?3)",
    )?
    .execute((hash, item, context.0))?;
  // A second approval of the text does not withdraw the codes of the first one.
  let mut all = before.unwrap_or_default();
  all.extend_from_slice(codes);
  all.sort_unstable();
  all.dedup();
  conn
    .prepare_cached(
      "INSERT INTO exception (hash, item, codes, reason, created_at, expires_at, uses)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
       ON CONFLICT (hash, item) DO UPDATE SET codes = ?3, reason = ?4, expires_at = ?6",
    )?
    .execute(params![hash, item, column::join_codes(&all), reason, at, expires])?;
  Ok(())
}

/// The approvals that a condition selects, each with its contexts.
fn select(
  conn: &Connection,
  condition: &str,
  values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Exception>, Fault> {
  let sql = format!(
    "SELECT hash, codes, reason, created_at, expires_at, used_at, uses, item FROM exception
     {condition} ORDER BY created_at, hash, item"
  );
  let mut statement = conn.prepare_cached(&sql)?;
  let mut found: Vec<Exception> =
    statement.query_map(values, exception_row)?.collect::<Result<_, _>>()?;
  let mut contexts =
    conn.prepare_cached("SELECT context FROM exception_context WHERE hash = ?1 AND item = ?2")?;
  for one in &mut found {
    let rows =
      contexts.query_map((one.key.hash.0, one.key.column()), |row| column::hash(row, 0))?;
    one.contexts = rows.collect::<Result<_, _>>()?;
  }
  Ok(found)
}

fn exception_row(row: &Row<'_>) -> rusqlite::Result<Exception> {
  let has_item = row.get_ref(7)?.as_str().is_ok_and(|item| !item.is_empty());
  Ok(Exception {
    key: ExceptionKey {
      hash: column::hash(row, 0)?,
      item: has_item.then(|| column::word(row, 7)).transpose()?,
    },
    codes: column::codes(row, 1)?,
    reason: row.get(2)?,
    created_at: row.get(3)?,
    expires_at: row.get(4)?,
    used_at: row.get(5)?,
    uses: row.get::<_, i64>(6)? as u64,
    contexts: vec![],
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::Home;

  fn key(item: Option<&str>) -> ExceptionKey {
    ExceptionKey { hash: ContentHash::of(b"fine"), item: item.map(|id| id.parse().unwrap()) }
  }

  #[test]
  fn an_approval_excuses_its_codes_until_its_end() {
    let mut ledger = Home::new().ledger();
    let key = key(Some("0123456789ab"));
    assert_eq!(ledger.exceptions_of(key.hash).unwrap(), []);
    let here = ContentHash::of(b"here");
    ledger.except(&key, here, &[Code::ForgedMarker], "mine", 1, None).unwrap();
    let codes = [Code::EditedBlock, Code::ForgedMarker];
    ledger.except(&key, here, &codes, "ours", 2, Some(10)).unwrap();
    ledger.use_exception(&key, 5).unwrap();
    let [found] = &ledger.exceptions_of(key.hash).unwrap()[..] else { panic!() };
    assert_eq!(found.codes, [Code::ForgedMarker, Code::EditedBlock]);
    assert_eq!(
      (found.reason.as_str(), found.created_at, found.used_at, found.uses),
      ("ours", 1, Some(5), 1)
    );
    assert!(found.covers(&[Code::EditedBlock], 9) && found.covers(&[], 9));
    assert!(!found.covers(&[Code::EditedBlock], 10), "expired");
    assert!(!found.covers(&[Code::EditedBlock, Code::ForeignMarkers], 9), "another code");
    assert_eq!(ledger.exceptions().unwrap(), std::slice::from_ref(found));
  }

  #[test]
  fn an_approval_of_one_item_says_nothing_about_another_with_its_text() {
    let mut ledger = Home::new().ledger();
    let [here, there] = [b"1", b"2"].map(|name| ContentHash::of(name));
    let (one, other) = (key(Some("0123456789ab")), key(Some("ba9876543210")));
    ledger.except(&one, here, &[Code::ForgedMarker], "mine", 1, None).unwrap();
    ledger.except(&other, there, &[Code::Concealment], "for a day", 2, Some(10)).unwrap();
    ledger.use_exception(&other, 5).unwrap();
    let [first, second] = &ledger.exceptions_of(one.hash).unwrap()[..] else { panic!() };
    assert_eq!((&first.key, &second.key), (&one, &other));
    assert_eq!(
      (&first.codes[..], &second.codes[..]),
      (&[Code::ForgedMarker][..], &[Code::Concealment][..])
    );
    assert_eq!((first.expires_at, second.expires_at), (None, Some(10)));
    assert_eq!((first.uses, second.uses), (0, 1));
    assert_eq!((&first.contexts[..], &second.contexts[..]), (&[here][..], &[there][..]));
    ledger.withdraw_exception(&one).unwrap();
    assert_eq!(ledger.exceptions().unwrap(), std::slice::from_ref(second));
  }

  #[test]
  fn an_approval_holds_where_it_was_given() {
    let mut ledger = Home::new().ledger();
    let [here, there, elsewhere] = [b"1", b"2", b"3"].map(|name| ContentHash::of(name));
    let old = key(None);
    let path = Path::new("/w/MEMORY.md");
    let holds = |ledger: &Ledger, context, whole| {
      let found = ledger.exceptions_of(old.hash).unwrap();
      found.iter().any(|one| one.holds_in(|name| *name == context, whole))
    };
    ledger.except(&old, here, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, here, false) && !holds(&ledger, there, true));
    ledger.except(&old, there, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, here, false) && holds(&ledger, there, false));
    assert!(!holds(&ledger, elsewhere, true));
    let also = ContentHash::of(b"4");
    ledger.except_in(path, old.hash, also).unwrap();
    ledger.except_in(path, also, also).unwrap();
    assert!(holds(&ledger, also, false) && !holds(&ledger, elsewhere, true));
    assert_eq!(ledger.exceptions_of(also).unwrap(), [], "what was never approved stays so");
    ledger.conn.execute("DELETE FROM exception_context", []).unwrap();
    assert!(holds(&ledger, elsewhere, true) && !holds(&ledger, elsewhere, false), "an older one");
    ledger.except(&key(Some("0123456789ab")), here, &[Code::ForgedMarker], "", 1, None).unwrap();
    assert!(holds(&ledger, elsewhere, true), "it stays what it was");
    ledger.withdraw_exception(&old).unwrap();
    assert!(!holds(&ledger, elsewhere, true));
  }
}
