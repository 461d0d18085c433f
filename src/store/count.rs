//! Numbers for `status`.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::Connection;

use super::{
  Ledger, Micros, StoreError,
  column::{self, path_bytes},
  error::Fault,
};
use crate::provenance::State;

const DAY: Micros = 24 * 60 * 60 * 1_000_000;

/// The numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
  /// Files that are guarded.
  pub files: u64,
  /// Files that cannot or must not be read.
  pub unscannable: u64,
  /// Files with pending work.
  pub pending_files: u64,
  /// Open operations.
  pub open_ops: u64,
  /// Blocks in files that are not missing, by state, in the order of the states; states without
  /// blocks are left out.
  pub blocks_by_state: Vec<(State, u64)>,
  /// Items that were taken out of a file and wait for a person.
  pub waiting: u64,
  /// Blocks with findings that are still in a file.
  pub flagged: u64,
  /// Losses that wait for a person.
  pub losses: u64,
  /// Events of the last 24 hours.
  pub events_last_day: u64,
}

impl Counts {
  /// How many items wait for a person: those out of their files, those that are flagged in one, and losses.
  pub const fn for_a_person(&self) -> u64 {
    self.waiting + self.flagged + self.losses
  }
}

/// The extent of one workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
  /// Files that are guarded.
  pub files: u64,
  /// Blocks in them.
  pub blocks: u64,
  /// Blocks with findings in them, and items that were taken out of them and wait for a person.
  pub findings: u64,
}

impl Ledger {
  /// A number that changes whenever another connection changes the database; it is equal only on one connection.
  pub fn change_counter(&self) -> Result<i64, StoreError> {
    self.read(|conn| Ok(conn.query_row("PRAGMA data_version", [], |row| row.get(0))?))
  }

  /// The numbers of one workspace, at this moment.
  pub fn extent(&self, workspace: &Path) -> Result<Extent, StoreError> {
    self.snapshot()?.read(|conn| {
      let of = |sql: &str| -> Result<u64, Fault> {
        Ok(conn.prepare_cached(sql)?.query_row([path_bytes(workspace)], count)?)
      };
      let rows = of(
        "SELECT count(*) FROM block b JOIN file f ON f.id = b.file
         WHERE f.workspace = ?1 AND f.status <> 'missing' AND b.present = 1",
      )?;
      let untouched = of(
        "SELECT coalesce(sum(b.n), 0) FROM baseline b JOIN file f ON f.id = b.file
         WHERE f.workspace = ?1 AND f.status <> 'missing'",
      )?;
      let flagged = of(
        "SELECT count(*) FROM block b JOIN file f ON f.id = b.file
         WHERE f.workspace = ?1 AND f.status <> 'missing' AND b.present = 1 AND b.state = 'flagged'",
      )?;
      let out = of(
        "SELECT count(*) FROM quarantine q JOIN file f ON f.path = q.path
         WHERE f.workspace = ?1 AND q.status IN ('quarantined', 'held')",
      )?;
      Ok(Extent {
        files: of("SELECT count(*) FROM file WHERE workspace = ?1 AND status = 'watched'")?,
        blocks: rows + untouched,
        findings: flagged + out,
      })
    })
  }

  /// The numbers at this time, from one view.
  pub fn counts(&self, at: Micros) -> Result<Counts, StoreError> {
    self.snapshot()?.read(|conn| {
      let by_state = blocks_by_state(conn)?;
      let flagged =
        by_state.iter().find(|(state, _)| *state == State::Flagged).map_or(0, |(_, count)| *count);
      Ok(Counts {
        files: one(conn, "SELECT count(*) FROM file WHERE status = 'watched'")?,
        unscannable: one(conn, "SELECT count(*) FROM file WHERE status = 'unscannable'")?,
        pending_files: one(conn, "SELECT count(*) FROM file WHERE pending <> 0")?,
        open_ops: one(conn, "SELECT count(*) FROM op")?,
        blocks_by_state: by_state,
        waiting: one(
          conn,
          "SELECT count(*) FROM quarantine WHERE status IN ('quarantined', 'held')",
        )?,
        flagged,
        losses: one(conn, "SELECT count(*) FROM loss WHERE state IN ('lost', 'restoring')")?,
        events_last_day: conn
          .prepare_cached("SELECT count(*) FROM event WHERE at > ?1 AND at <= ?2")?
          .query_row((at.saturating_sub(DAY), at), count)?,
      })
    })
  }
}

fn blocks_by_state(conn: &Connection) -> Result<Vec<(State, u64)>, Fault> {
  let mut statement = conn.prepare_cached(
    "SELECT b.state, count(*) FROM block b JOIN file f ON f.id = b.file
     WHERE b.present = 1 AND f.status <> 'missing' GROUP BY b.state",
  )?;
  let rows =
    statement.query_map([], |row| Ok((column::word::<State>(row, 0)?, row.get::<_, i64>(1)?)))?;
  let mut found = rows.collect::<Result<Vec<_>, _>>()?;
  // Baseline blocks without rows of their own are validated.
  let untouched = one(
    conn,
    "SELECT coalesce(sum(b.n), 0) FROM baseline b JOIN file f ON f.id = b.file
     WHERE f.status <> 'missing'",
  )?;
  match found.iter_mut().find(|(state, _)| *state == State::Validated) {
    Some((_, count)) => *count += untouched as i64,
    None if untouched > 0 => found.push((State::Validated, untouched as i64)),
    None => {}
  }
  let ordered = State::ALL.iter().filter_map(|&state| {
    found.iter().find(|(found, _)| *found == state).map(|(_, count)| (state, *count as u64))
  });
  Ok(ordered.collect())
}

fn one(conn: &Connection, sql: &str) -> Result<u64, Fault> {
  Ok(conn.prepare_cached(sql)?.query_row([], count)?)
}

fn count(row: &rusqlite::Row<'_>) -> rusqlite::Result<u64> {
  Ok(row.get::<_, i64>(0)? as u64)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{
    EventKind, FileStatus, NewEvent, Pending,
    tests::{Home, block, id, item, op, scan},
  };
  use std::path::Path;

  #[test]
  fn a_change_by_another_connection_is_noticed() {
    let home = Home::new();
    let (mut writer, reader) = (home.ledger(), home.reader());
    let before = reader.change_counter().unwrap();
    assert_eq!(reader.change_counter().unwrap(), before);
    writer.append_events(&[NewEvent::new(EventKind::Kept)], 1).unwrap();
    assert_ne!(reader.change_counter().unwrap(), before);
  }

  #[test]
  fn everything_is_counted_once() {
    let mut ledger = Home::new().ledger();
    assert_eq!(ledger.counts(0).unwrap(), Counts::default());
    let mut rows = [block("aaaaa1", 0), block("aaaaa2", 1), block("aaaaa3", 2)];
    rows[1].state = State::Flagged;
    ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    ledger.record(&scan("/w/a.md", &rows[..2], 2)).unwrap();
    ledger.change_pending(Path::new("/w/a.md"), Pending::NONE, Pending::RESHAPE).unwrap();
    let workspace = Path::new("/w");
    let note = Some("hard link");
    ledger.set_status(Path::new("/w/b.md"), workspace, FileStatus::Unscannable, note).unwrap();
    ledger.record(&scan("/w/c.md", &[block("aaaaa4", 0)], 2)).unwrap();
    ledger.set_status(Path::new("/w/c.md"), workspace, FileStatus::Missing, None).unwrap();
    ledger.quarantine(&[item(&id("bbbbb1"), b"poison")], &[op()], &[], 3).unwrap();
    ledger.quarantine(&[item(&id("bbbbb2"), b"more")], &[], &[], 3).unwrap();
    ledger.decide(&id("bbbbb2"), State::Rejected, "ann", 4, &[]).unwrap();
    ledger.append_events(&[NewEvent::new(EventKind::Kept)], 1).unwrap();
    ledger.append_events(&[NewEvent::new(EventKind::Kept)], 1 + DAY).unwrap();
    let expected = Counts {
      files: 1,
      unscannable: 1,
      pending_files: 1,
      open_ops: 1,
      blocks_by_state: vec![(State::Validated, 1), (State::Flagged, 1)],
      waiting: 1,
      flagged: 1,
      losses: 0,
      events_last_day: 1,
    };
    assert_eq!(ledger.counts(1 + DAY).unwrap(), expected);
    let extent = Extent { files: 1, blocks: 2, findings: 2 };
    assert_eq!(ledger.extent(workspace).unwrap(), extent);
    assert_eq!(ledger.extent(Path::new("/v")).unwrap(), Extent::default());
  }
}
