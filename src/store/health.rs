//! The state of the daemon, for other processes: one JSON text per key.
#![forbid(unsafe_code)]

use rusqlite::OptionalExtension as _;

use super::{Durability, Ledger, Micros, StoreError};

impl Ledger {
  /// Stores the newest value of a key.
  pub fn set_health(&mut self, key: &str, json: &str, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "INSERT INTO health (key, json, at) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET json = ?2, at = ?3",
      )?
      .execute((key, json, at))?;
      Ok(())
    })
  }

  /// The newest value of a key, and its time.
  pub fn health(&self, key: &str) -> Result<Option<(String, Micros)>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached("SELECT json, at FROM health WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
      Ok(found)
    })
  }

  /// Removes a key.
  pub fn remove_health(&mut self, key: &str) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("DELETE FROM health WHERE key = ?1")?.execute([key])?;
      Ok(())
    })
  }

  /// All keys with their newest values and times, by key.
  pub fn healths(&self) -> Result<Vec<(String, String, Micros)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached("SELECT key, json, at FROM health ORDER BY key")?;
      let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

#[cfg(test)]
mod tests {
  use crate::store::tests::Home;

  #[test]
  fn the_newest_word_counts() {
    let mut ledger = Home::new().ledger();
    assert_eq!(ledger.health("scan").unwrap(), None);
    ledger.set_health("scan", "{}", 1).unwrap();
    ledger.set_health("scan", r#"{"done":true}"#, 2).unwrap();
    ledger.set_health("a", "1", 3).unwrap();
    assert_eq!(ledger.health("scan").unwrap(), Some((r#"{"done":true}"#.into(), 2)));
    let keys: Vec<String> = ledger.healths().unwrap().into_iter().map(|(key, ..)| key).collect();
    assert_eq!(keys, ["a", "scan"]);
  }
}
