//! The numbered migrations from an empty file to the current schema. Migrations are only ever
//! added.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::{StoreError, backup, error::Fault};
use crate::failpoint::{Point, hit};

/// Marks a database as memfw's: `mfw1` in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x6d66_7731;

/// The key of `meta` with the version of the memfw that made this format.
const WRITTEN_BY: &str = "written_by";

/// One migration.
#[derive(Debug)]
struct Migration {
  number: i64,
  sql: &'static str,
}

/// All migrations, in order, numbered from 1 without a gap.
const MIGRATIONS: &[Migration] = &[
  Migration { number: 1, sql: include_str!("migrations/0001_ledger.sql") },
  Migration { number: 2, sql: include_str!("migrations/0002_versions.sql") },
  Migration { number: 3, sql: include_str!("migrations/0003_baseline.sql") },
  Migration { number: 4, sql: include_str!("migrations/0004_attribution.sql") },
  Migration { number: 5, sql: include_str!("migrations/0005_fall.sql") },
  Migration { number: 6, sql: include_str!("migrations/0006_scores.sql") },
  Migration { number: 7, sql: include_str!("migrations/0007_source_exception.sql") },
  Migration { number: 8, sql: include_str!("migrations/0008_took.sql") },
  Migration { number: 9, sql: include_str!("migrations/0009_context.sql") },
  Migration { number: 10, sql: include_str!("migrations/0010_request.sql") },
  Migration { number: 11, sql: include_str!("migrations/0011_authority.sql") },
  Migration { number: 12, sql: include_str!("migrations/0012_question.sql") },
  Migration { number: 13, sql: include_str!("migrations/0013_approved.sql") },
  Migration { number: 14, sql: include_str!("migrations/0014_turn.sql") },
  Migration { number: 15, sql: include_str!("migrations/0015_latest.sql") },
  Migration { number: 16, sql: include_str!("migrations/0016_renamed.sql") },
  Migration { number: 17, sql: include_str!("migrations/0017_exception.sql") },
  Migration { number: 18, sql: include_str!("migrations/0018_awaited.sql") },
  Migration { number: 19, sql: include_str!("migrations/0019_place.sql") },
  Migration { number: 20, sql: include_str!("migrations/0020_types.sql") },
  Migration { number: 21, sql: include_str!("migrations/0021_undo.sql") },
  Migration { number: 22, sql: include_str!("migrations/0022_line_hash.sql") },
  Migration { number: 23, sql: include_str!("migrations/0023_injected.sql") },
  Migration { number: 24, sql: include_str!("migrations/0024_skill.sql") },
  Migration { number: 25, sql: include_str!("migrations/0025_loss.sql") },
  Migration { number: 26, sql: include_str!("migrations/0026_part.sql") },
  Migration { number: 27, sql: include_str!("migrations/0027_taken_out.sql") },
];

/// The format that this memfw writes: the number of the last migration.
pub(super) const KNOWN: i64 = match MIGRATIONS.last() {
  Some(last) => last.number,
  None => 0,
};

/// The format of a database, or why it must not be changed. An empty file has format 0.
pub(super) fn format(conn: &Connection, path: &Path) -> Result<i64, Fault> {
  let path = || path.to_owned();
  let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
  // One view, so that a first migration by another process is seen completely or not at all.
  let view = conn.unchecked_transaction()?;
  let (application, found) = (number("application_id")?, number("user_version")?);
  let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
  view.commit()?;
  match (application, found) {
    (APPLICATION_ID, found) if found > KNOWN => Err(newer(conn, &path(), found).into()),
    (APPLICATION_ID, found) => Ok(found),
    (0, 0) if tables == 0 => Ok(0),
    _ => Err(StoreError::NotOurs { path: path() }.into()),
  }
}

/// Fails where another memfw has migrated the database since it was opened. Statements of this memfw may still
/// work there, and would write rows that the newer one does not expect.
pub(super) fn check(conn: &Connection, path: &Path) -> Result<(), Fault> {
  // The cached statement reads a number of the first page, which the transaction has read anyway.
  let found: i64 = conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
  if found > KNOWN { Err(newer(conn, path, found).into()) } else { Ok(()) }
}

fn newer(conn: &Connection, path: &Path, found: i64) -> StoreError {
  let (by, path) = (written_by(conn), path.to_owned());
  let backup = backup::backups(&path).into_iter().find(|backup| backup.format <= KNOWN);
  let backup = backup.map(|backup| backup.path);
  StoreError::Newer { found, known: KNOWN, path, by, backup }
}

/// Which memfw made a database; `None` if it is not recorded in a known form.
fn written_by(conn: &Connection) -> Option<String> {
  let sql = "SELECT value FROM meta WHERE key = ?1";
  let found = conn.query_row(sql, [WRITTEN_BY], |row| row.get::<_, Vec<u8>>(0)).optional();
  let text = String::from_utf8(found.ok()??).ok()?;
  let is_version = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
  (text.len() <= 32 && text.chars().all(is_version)).then_some(text)
}

/// Migrates a database to [`KNOWN`], in one transaction; an older database with content is backed
/// up first.
pub(super) fn migrate(conn: &mut Connection, path: &Path) -> Result<(), Fault> {
  if format(conn, path)? == KNOWN {
    return Ok(());
  }
  conn.pragma_update(None, "synchronous", "FULL")?;
  let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
  // Check again under the write lock: another process may have been quicker.
  let found: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
  if found == KNOWN {
    return Ok(());
  }
  // No other process can write from here on, and this one has not written yet.
  if found > 0 {
    backup::make(path, found)?;
  }
  take_steps(&tx, found, KNOWN)?;
  hit(Point::MigrateBeforeCommit);
  tx.commit()?;
  hit(Point::MigrateAfterCommit);
  Ok(())
}

/// The migrations after `found` up to `last`.
fn take_steps(conn: &Connection, found: i64, last: i64) -> rusqlite::Result<()> {
  for step in MIGRATIONS.iter().filter(|step| step.number > found && step.number <= last) {
    conn.execute_batch(step.sql)?;
    conn.pragma_update(None, "user_version", step.number)?;
  }
  conn.pragma_update(None, "application_id", APPLICATION_ID)?;
  let insert =
    "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
  conn.execute(insert, (WRITTEN_BY, env!("CARGO_PKG_VERSION").as_bytes())).map(drop)
}

/// The formats before the current one.
#[cfg(test)]
pub(super) fn older() -> Vec<i64> {
  MIGRATIONS.iter().map(|step| step.number).filter(|number| *number < KNOWN).collect()
}

/// Creates an empty database of an older format.
#[cfg(test)]
pub(super) fn up_to(conn: &mut Connection, format: i64) -> rusqlite::Result<()> {
  let tx = conn.transaction()?;
  take_steps(&tx, 0, format)?;
  tx.commit()
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::memory::ContentHash;

  #[test]
  fn released_migrations_never_change() {
    // Existing databases were made by exactly these bytes. Add a migration instead of editing one.
    let pinned = [
      "4b9c9d1a59bc91e5c6a30abf6f625394f9f417f071dc5a9ad32e65ec8b92c205",
      "499188a761597621b75ed8c17af2d829cb29ee0da9a00b03547c5246ee19c891",
      "a8f68ff107dffc4cef447797fbfe6766ef78324703e2cbae09221acf121357d1",
      "d5d6c1d9ad027431b270170321bc07f36d8c2e4f361e1478a488a62b9d02e64c",
      "63fd71861a1528a1ee25c13eb93ac6f59e0aceaea0089fcd76f3511a1eab38cc",
      "7f69154c985e62a42ce7bf50b28659eada4263d772fc4c2280e2c84bcaa47bc6",
      "70a039daa7882bf404ca4d49fc348842ebfd7e5e045b4da33838397d203d2ada",
      "af3c81aed9981b5a23f12a6d4b726b85f88fc0eb4d3f39a2f979c3f32bdb60e4",
      "e53fe79975fc2f6f14eb4d542c3cccf38b48e1955f51f52613091fdb610ef001",
      "12b1bee42a490af67d1e54bf678bfd6713ea3780741893a7858c955a1d2077c5",
      "8d40ea93e611c3abfbf9e164ecdf203c78b756ce489a49dee7e8d527c0c01b0b",
      "7b22e0bc60d96d7fefc78018633ccbee88ae07822a32525db5d97380296d70d3",
      "664fdd8808c3cc389f249abde9bc62d391908dbb676231a96e37d3ddc252d4e1",
      "9c876e73c47935b28cc79c93d6fe4ca910bdb6f88330e3aaaeb393fc665308fa",
      "aeaff8135f6eedf83dbffbb9e957d686ff5c0b234cb3a3f0cc7cd7d33c46aabb",
      "b081057b5fe280e79b4c003538d404c1b3edde32ff9488225ca6866eb0e3019c",
      "03bd41b7e1a34208edfa3d4e80949da26de5fb5d08f2ebf4de103394ee731622",
      "2c612e21084f6a8ed33fdb7bd027592d70b17f089b75e61069e025326da39ed4",
      "168dfe5580b0161a68e78120d6b0954f23a438754d2ffa7887283a0e4f549c24",
      "ee703e6543dc11aa3df486f358b6f513772aa1b30d703a5344c4592865af095b",
      "fd71a65a373a6bd63eeb63693e8359746856ca1d56e5738508a9f26370b18df1",
      "54f24962a6301cce84d7947860d4b63f73daf97bc77bc45382b9ca195efe0cdd",
      "33d637046135e4229fd70c9808f350a02c525ee97976e6e6dcaaf87874e84500",
      "e9254088a2ee4d5a4eb449d3669bb67075e11c7a42a46796d5640c2c50615eba",
      "a476b0ece44fd968a02b4424952d518bee312482a1bb6fd05f833cfa6b538545",
      "287f8ccf330e65b7c4ca9ee8d828c0e08411b922cdb6c679b81943bca0398842",
      "4913a77805bedf934a780a971ba507eac435c0fc4dfd7d7ba08b921733010dbd",
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
