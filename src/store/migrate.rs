//! The numbered steps from an empty file to today's schema. Steps are only ever added.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::{StoreError, error::Fault};
use crate::failpoint::{Point, hit};

/// Marks a database as memfw's: `mfw1` in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x6d66_7731;

/// One step.
#[derive(Debug)]
struct Migration {
  number: i64,
  sql: &'static str,
}

/// All steps, in order, numbered from 1 without a gap.
const MIGRATIONS: &[Migration] = &[
  Migration { number: 1, sql: include_str!("migrations/0001_ledger.sql") },
  Migration { number: 2, sql: include_str!("migrations/0002_versions.sql") },
  Migration { number: 3, sql: include_str!("migrations/0003_baseline.sql") },
  Migration { number: 4, sql: include_str!("migrations/0004_attribution.sql") },
  Migration { number: 5, sql: include_str!("migrations/0005_fall.sql") },
  Migration { number: 6, sql: include_str!("migrations/0006_took.sql") },
];

/// The format that this memfw writes: the number of the last step.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// The format of a database, or why it must not be touched. An empty file has format 0.
pub(super) fn format(conn: &Connection, path: &Path) -> Result<i64, Fault> {
  let path = || path.to_owned();
  let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
  // One view, so that a first migration by somebody else is seen whole or not at all.
  let view = conn.unchecked_transaction()?;
  let (application, found) = (number("application_id")?, number("user_version")?);
  let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
  view.commit()?;
  match (application, found) {
    (APPLICATION_ID, found) if found > KNOWN => {
      Err(StoreError::Newer { found, known: KNOWN, path: path() }.into())
    }
    (APPLICATION_ID, found) => Ok(found),
    (0, 0) if tables == 0 => Ok(0),
    _ => Err(StoreError::NotOurs { path: path() }.into()),
  }
}

/// Brings a database to [`KNOWN`], in one transaction.
pub(super) fn migrate(conn: &mut Connection, path: &Path) -> Result<(), Fault> {
  if format(conn, path)? == KNOWN {
    return Ok(());
  }
  conn.pragma_update(None, "synchronous", "FULL")?;
  let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
  // Asked again under the write lock: another opener may have been quicker.
  let found: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
  for step in MIGRATIONS.iter().filter(|step| step.number > found) {
    tx.execute_batch(step.sql)?;
    tx.pragma_update(None, "user_version", step.number)?;
  }
  tx.pragma_update(None, "application_id", APPLICATION_ID)?;
  hit(Point::MigrateBeforeCommit);
  tx.commit()?;
  hit(Point::MigrateAfterCommit);
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::memory::ContentHash;

  #[test]
  fn released_migrations_never_change() {
    // Databases out there were made by exactly these bytes. Add a step instead of editing one.
    let pinned = [
      "4b9c9d1a59bc91e5c6a30abf6f625394f9f417f071dc5a9ad32e65ec8b92c205",
      "499188a761597621b75ed8c17af2d829cb29ee0da9a00b03547c5246ee19c891",
      "a8f68ff107dffc4cef447797fbfe6766ef78324703e2cbae09221acf121357d1",
      "d5d6c1d9ad027431b270170321bc07f36d8c2e4f361e1478a488a62b9d02e64c",
      "63fd71861a1528a1ee25c13eb93ac6f59e0aceaea0089fcd76f3511a1eab38cc",
      "af3c81aed9981b5a23f12a6d4b726b85f88fc0eb4d3f39a2f979c3f32bdb60e4",
    ];
    let found: Vec<String> =
      MIGRATIONS.iter().map(|step| ContentHash::of(step.sql.as_bytes()).to_hex()).collect();
    assert_eq!(found, pinned);
  }

  #[test]
  fn steps_are_numbered_without_gap() {
    let numbers: Vec<i64> = MIGRATIONS.iter().map(|step| step.number).collect();
    assert_eq!(numbers, (1..=KNOWN).collect::<Vec<_>>());
  }
}
