//! The public keys whose signatures of skills the owner trusts.
#![forbid(unsafe_code)]

use rusqlite::params;

use super::{Durability, Ledger, Micros, NewEvent, StoreError, event};
use crate::skill::PublicKey;

/// A key that the owner trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillKey {
  /// Its id, as minisign prints it.
  pub id: String,
  /// The key, as minisign prints it.
  pub key: String,
  /// The owner's name for it.
  pub name: String,
  /// When it was added.
  pub added_at: Micros,
  /// The person who added it.
  pub added_by: String,
}

impl Ledger {
  /// Trusts a key, with the events. Returns whether it was not trusted before; a key with this id is replaced.
  pub fn add_skill_key(
    &mut self,
    key: &PublicKey,
    name: &str,
    by: &str,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let known: bool = tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM skill_key WHERE id = ?1 AND key = ?2)")?
        .query_row([key.id(), key.text()], |row| row.get(0))?;
      tx.prepare_cached(
        "INSERT INTO skill_key (id, key, name, added_at, added_by) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (id) DO UPDATE SET key = ?2, name = ?3, added_at = ?4, added_by = ?5",
      )?
      .execute(params![key.id(), key.text(), name, at, by])?;
      event::append(tx, events, at)?;
      Ok(!known)
    })
  }

  /// Withdraws trust in the key of an id, with the events; returns whether there was one.
  pub fn remove_skill_key(
    &mut self,
    id: &str,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let n = tx.prepare_cached("DELETE FROM skill_key WHERE id = ?1")?.execute([id])?;
      if n > 0 {
        event::append(tx, events, at)?;
      }
      Ok(n > 0)
    })
  }

  /// The trusted keys, as they verify signatures.
  pub fn public_keys(&self) -> Result<Vec<PublicKey>, StoreError> {
    Ok(self.skill_keys()?.iter().filter_map(|known| PublicKey::parse(&known.key)).collect())
  }

  /// The trusted keys, in the order of their ids.
  pub fn skill_keys(&self) -> Result<Vec<SkillKey>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT id, key, name, added_at, added_by FROM skill_key ORDER BY id";
      let mut statement = conn.prepare_cached(sql)?;
      let rows = statement.query_map([], |row| {
        Ok(SkillKey {
          id: row.get(0)?,
          key: row.get(1)?,
          name: row.get(2)?,
          added_at: row.get(3)?,
          added_by: row.get(4)?,
        })
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{EventFilter, EventKind, tests::Home};

  #[test]
  fn a_key_is_trusted_until_it_is_removed() {
    let mut ledger = Home::new().ledger();
    let key = PublicKey::parse("RWQHBwcHBwcHAepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs").unwrap();
    let event = [NewEvent::new(EventKind::SkillKey)];
    assert!(ledger.add_skill_key(&key, "weather's author", "ann", &event, 1).unwrap());
    assert!(!ledger.add_skill_key(&key, "author", "bob", &event, 2).unwrap());
    let keys = ledger.skill_keys().unwrap();
    let [known] = keys.as_slice() else { panic!("{keys:?}") };
    assert_eq!((known.name.as_str(), known.key.as_str()), ("author", key.text()));
    assert!(ledger.remove_skill_key(key.id(), &event, 3).unwrap());
    assert!(!ledger.remove_skill_key(key.id(), &event, 4).unwrap());
    assert_eq!(ledger.skill_keys().unwrap(), []);
    assert_eq!(ledger.events(&EventFilter::default()).unwrap().len(), 3);
  }
}
