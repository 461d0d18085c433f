//! Resolves what a person types to one id.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use rusqlite::Connection;

use super::{Ledger, StoreError, column, error::Fault};
use crate::memory::{BlockId, id::MAX_ID_DIGITS};

/// How many ids the error for an ambiguous prefix lists.
const CANDIDATES: usize = 5;
/// How many digits may be wrong, missing or exchanged in an id that is still suggested.
const SLIPS: usize = 2;
/// How much of an unknown id an error repeats, in characters.
const SHOWN: usize = 40;

impl Ledger {
  /// Which of these ids are already in use.
  pub fn ids_taken(&self, ids: &[BlockId]) -> Result<HashSet<BlockId>, StoreError> {
    let list = ids.iter().map(BlockId::as_str).collect::<serde_json::Value>().to_string();
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id FROM block WHERE id IN (SELECT value FROM json_each(?1))
         UNION SELECT id FROM quarantine WHERE id IN (SELECT value FROM json_each(?1))
         UNION SELECT id FROM loss WHERE id IN (SELECT value FROM json_each(?1))",
      )?;
      Ok(column::ids(&mut statement, [&list])?.into_iter().collect())
    })
  }
}

/// The only id of a query (its column `id`) with this prefix, in any case of letters. An id that is
/// a prefix of longer ones is itself.
pub(super) fn resolve(conn: &Connection, among: &str, prefix: &str) -> Result<BlockId, Fault> {
  let typed = prefix.to_ascii_lowercase();
  let digits = !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_hexdigit());
  if !digits {
    return Err(unknown(conn, among, prefix)?);
  }
  // All ids with this prefix are between the prefix and the prefix followed by the letter after
  // `f`.
  let sql = format!(
    "SELECT id FROM ({among}) WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id LIMIT {}",
    CANDIDATES + 1
  );
  let mut statement = conn.prepare_cached(&sql)?;
  let mut found = column::ids(&mut statement, [&typed])?;
  match found.first() {
    None => Err(unknown(conn, among, prefix)?),
    Some(first) if found.len() == 1 || first.as_str() == typed => Ok(first.clone()),
    Some(_) => {
      found.truncate(CANDIDATES);
      Err(StoreError::AmbiguousId { id: prefix.to_owned(), candidates: found }.into())
    }
  }
}

/// The error for an unknown id, with the most similar id of the query.
pub(super) fn unknown(conn: &Connection, among: &str, typed: &str) -> Result<Fault, Fault> {
  let mut statement = conn.prepare_cached(&format!("SELECT id FROM ({among}) ORDER BY id"))?;
  let nearest = nearest(&typed.to_ascii_lowercase(), column::ids(&mut statement, [])?);
  // The input may be anything; an error message stays one short line.
  let id = typed.chars().take(SHOWN).flat_map(char::escape_debug).collect();
  Ok(StoreError::UnknownId { id, nearest }.into())
}

fn nearest(typed: &str, ids: Vec<BlockId>) -> Option<BlockId> {
  // Longer than any id with typing errors, or too short to be similar to only one id.
  let length = typed.chars().count();
  if length > MAX_ID_DIGITS + SLIPS || length <= SLIPS {
    return None;
  }
  let distance = |id: &BlockId| {
    let start = id.as_str().get(..length).unwrap_or(id.as_str());
    strsim::osa_distance(typed, start)
  };
  ids
    .into_iter()
    .map(|id| (distance(&id), id))
    .filter(|(distance, _)| *distance <= SLIPS)
    .min_by_key(|(distance, _)| *distance)
    .map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::{Held, Home, block, id, item, scan};

  fn ledger() -> Held {
    let mut ledger = Home::new().ledger();
    let ids = ["a1b2c3", "a1b2c3d4", "a1ffff", "0abcde"];
    for (n, digits) in ids.into_iter().enumerate() {
      ledger.quarantine(&[item(&id(digits), digits.as_bytes())], &[], &[], n as i64).unwrap();
    }
    ledger
  }

  #[test]
  fn any_unambiguous_prefix_will_do() {
    let ledger = ledger();
    for (typed, found) in [
      ("0", "0abcde"),
      ("0ABC", "0abcde"),
      ("a1f", "a1ffff"),
      ("a1b2c3", "a1b2c3"),
      ("a1b2c3d", "a1b2c3d4"),
    ] {
      assert_eq!(ledger.item(typed).unwrap().id, id(found), "{typed}");
    }
  }

  #[test]
  fn an_ambiguous_prefix_names_up_to_five() {
    let mut ledger = ledger();
    let named = |ledger: &Ledger| match ledger.item("a1") {
      Err(StoreError::AmbiguousId { candidates, .. }) => candidates,
      other => panic!("{other:?}"),
    };
    assert_eq!(named(&ledger), [id("a1b2c3"), id("a1b2c3d4"), id("a1ffff")]);
    for n in 0..9 {
      let new = id(&format!("a1000{n}"));
      ledger.quarantine(&[item(&new, new.as_str().as_bytes())], &[], &[], 9).unwrap();
    }
    assert_eq!(named(&ledger).len(), 5);
  }

  #[test]
  fn an_unknown_id_comes_with_the_nearest_known_one() {
    let ledger = ledger();
    let nearest = |typed: &str| match ledger.item(typed) {
      Err(StoreError::UnknownId { nearest, .. }) => nearest.map(|id| id.to_string()),
      other => panic!("{other:?}"),
    };
    assert_eq!(nearest("a1fffe").as_deref(), Some("a1ffff"));
    assert_eq!(nearest("0acbde").as_deref(), Some("0abcde"), "exchanged digits");
    assert_eq!(nearest("0abx").as_deref(), Some("0abcde"), "no digit at all");
    for hopeless in ["", "%", "777777", "x'; DROP TABLE block; --", &"a".repeat(1 << 20)] {
      assert_eq!(nearest(hopeless), None);
    }
  }

  #[test]
  fn ids_of_blocks_and_items_are_taken() {
    let mut ledger = ledger();
    ledger.record(&scan("/w/a.md", &[block("bbbbb1", 0)], 1)).unwrap();
    ledger.record(&scan("/w/a.md", &[], 2)).unwrap();
    let asked: Vec<BlockId> = ["bbbbb2", "a1b2c3", "bbbbb1"].map(id).to_vec();
    let taken = ledger.ids_taken(&asked).unwrap();
    assert_eq!(taken, HashSet::from([id("a1b2c3"), id("bbbbb1")]), "also of a block that left");
  }
}
