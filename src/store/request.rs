//! The owner's request when a text was written, and the passages of its origin that explain it:
//! these are other people's words, so they are sealed, and stored once, however many rows refer to
//! them.
#![forbid(unsafe_code)]

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Ledger, Micros, StoreError, error::Fault, fresh_seal::seal_fresh};
use crate::{
  memory::ContentHash,
  provenance::Request,
  seal,
  seal::{MasterKey, Purpose, SealContext},
};

impl Ledger {
  /// The request with the hash [`Request::hash`]; `None` if there is none (any more).
  pub fn request(&self, hash: ContentHash) -> Result<Option<Request>, StoreError> {
    let sealed: Option<Vec<u8>> = self.read(|conn| {
      let mut statement = conn.prepare_cached("SELECT sealed FROM request WHERE hash = ?1")?;
      Ok(statement.query_row([hash.0], |row| row.get(0)).optional()?)
    })?;
    let Some(sealed) = sealed else { return Ok(None) };
    let key = self.key.as_ref().ok_or(StoreError::NoKey)?;
    let id = hash.to_hex();
    let plain = seal::open(key, &context(&id, hash), &sealed)
      .map_err(|source| StoreError::Unsealable { id: id.clone(), source })?;
    Ok(Request::from_bytes(&plain))
  }
}

fn context(id: &str, hash: ContentHash) -> SealContext<'_> {
  SealContext { purpose: Purpose::Request, id, path: b"", hash }
}

/// Seals a request, unless it is already stored.
pub(super) fn keep(
  conn: &Connection,
  key: Option<&MasterKey>,
  request: &Request,
  at: Micros,
) -> Result<(), Fault> {
  let key = key.ok_or(StoreError::NoKey)?;
  let hash = request.hash();
  let id = hash.to_hex();
  let is_known = conn.prepare_cached("SELECT 1 FROM request WHERE hash = ?1")?.exists([hash.0])?;
  if is_known {
    return Ok(());
  }
  let sealed = seal_fresh(key, &context(&id, hash), &request.to_bytes())?;
  conn
    .prepare_cached("INSERT INTO request (hash, sealed, at) VALUES (?1, ?2, ?3)")?
    .execute(params![hash.0, sealed, at])?;
  Ok(())
}

/// The requests to which no row refers that may still be judged: no text in a file, and no item
/// with bytes.
const UNUSED: &str = "
  NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.request = request.hash AND q.sealed IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM revision r JOIN block b ON b.key = r.block
    WHERE r.request = request.hash AND b.present = 1)";

/// Deletes the request with a hash, unless another text still refers to it.
pub(super) fn forget(conn: &Connection, hash: ContentHash) -> Result<(), Fault> {
  let sql = format!("DELETE FROM request WHERE hash = ?1 AND {UNUSED}");
  conn.prepare_cached(&sql)?.execute([hash.0])?;
  Ok(())
}

/// Deletes at most `limit` unused requests from before `since`; returns how many.
pub(super) fn sweep(conn: &Connection, since: Micros, limit: i64) -> rusqlite::Result<u64> {
  let sql = format!(
    "DELETE FROM request WHERE hash IN (SELECT hash FROM request WHERE at < ?1 AND {UNUSED} LIMIT ?2)"
  );
  Ok(conn.prepare_cached(&sql)?.execute(params![since, limit])? as u64)
}

/// Whether [`sweep`] would find something.
pub(super) fn has_unused(conn: &Connection, since: Micros) -> rusqlite::Result<bool> {
  let sql = format!("SELECT 1 FROM request WHERE at < ?1 AND {UNUSED} LIMIT 1");
  conn.prepare_cached(&sql)?.exists([since])
}

#[cfg(test)]
mod tests {
  use std::{path::Path, slice};

  use super::*;
  use crate::store::{
    AttributionRecord, Keep, NewItem, OriginRecord, Pending,
    tests::{Home, block, id, item, scan},
  };

  fn attributed(requests: &[Request]) -> AttributionRecord<'_> {
    let path = Path::new("/w/a.md");
    let (done, due) = (Pending::NONE, Pending::NONE);
    AttributionRecord { path, blocks: &[], items: &[], requests, done, due, events: &[], at: 3 }
  }

  fn trail(request: &Request) -> OriginRecord {
    OriginRecord { request: Some(request.hash()), ..OriginRecord::default() }
  }

  #[test]
  fn what_was_asked_comes_back_by_its_hash() {
    let mut ledger = Home::new().ledger();
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    let request = Request::new("Look it up.", "the page \u{1b} says so");
    assert_eq!(ledger.request(request.hash()).unwrap(), None);
    let twice = [request.clone(), request.clone()];
    ledger.attribute(&attributed(&twice)).unwrap();
    assert_eq!(ledger.request(request.hash()).unwrap(), Some(request.clone()));
    let mut rows = [block("aaaaa1", 0)];
    rows[0].revisions[0].trail = trail(&request);
    let file = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    assert_eq!(ledger.blocks(file).unwrap()[0].revisions[0].trail, trail(&request));
    let moved = "UPDATE request SET hash = zeroblob(32)";
    ledger.conn.execute(moved, []).unwrap();
    let found = ledger.request(ContentHash([0; 32]));
    assert!(matches!(found, Err(StoreError::Unsealable { .. })), "bound to its hash: {found:?}");
  }

  #[test]
  fn it_goes_with_the_last_text_that_has_it() {
    let mut ledger = Home::new().ledger();
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    let request = Request::new("Look it up.", "the page");
    ledger.attribute(&attributed(slice::from_ref(&request))).unwrap();
    let ids = [id("a1b2c1"), id("a1b2c2")];
    for (id, bytes) in ids.iter().zip([b"one\n", b"two\n"]) {
      let new = NewItem { trail: trail(&request), ..item(id, bytes) };
      ledger.quarantine(slice::from_ref(&new), &[], &[], 1).unwrap();
    }
    let is_there = |ledger: &Ledger| ledger.request(request.hash()).unwrap().is_some();
    ledger.forget(&ids[0], "ann", 5, &[]).unwrap();
    assert_eq!(ledger.item("a1b2c1").unwrap().trail, OriginRecord::default());
    assert!(is_there(&ledger), "the other item has it");
    ledger.forget(&ids[1], "ann", 5, &[]).unwrap();
    assert!(!is_there(&ledger));
  }

  #[test]
  fn it_goes_some_time_after_its_text_has_left_the_file() {
    let mut ledger = Home::new().ledger();
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    let request = Request::new("Look it up.", "the page");
    ledger.attribute(&attributed(slice::from_ref(&request))).unwrap();
    let mut rows = [block("aaaaa1", 0)];
    rows[0].revisions[0].trail = trail(&request);
    ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    let keep = Keep { events_since: 0, events: 1_000, routine: &[], rejected_since: 4 };
    let is_there = |ledger: &Ledger| ledger.request(request.hash()).unwrap().is_some();
    ledger.retain(&keep).unwrap();
    assert!(is_there(&ledger), "the text is still there");
    ledger.record(&scan("/w/a.md", &[], 2)).unwrap();
    ledger.retain(&Keep { rejected_since: 3, ..keep }).unwrap();
    assert!(is_there(&ledger), "it is too young");
    ledger.retain(&keep).unwrap();
    assert!(!is_there(&ledger));
  }
}
