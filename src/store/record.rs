//! Records a scan: the file, its blocks, and the events, in one transaction.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::Path,
};

use rusqlite::{Connection, params};

use super::{
  BlockRow, Durability, FileStatus, Ledger, Micros, NewEvent, Pending, Stamp, StoreError, baseline,
  block,
  block_change::{insert, update},
  block_row::Stored,
  column::path_bytes,
  error::Fault,
  event,
};
use crate::memory::{BlockId, ContentHash};

/// The result of a scan of one file.
#[derive(Clone, Debug)]
pub struct ScanRecord<'a> {
  /// Absolute path.
  pub path: &'a Path,
  /// The absolute path of its workspace.
  pub workspace: &'a Path,
  /// Its stamp, taken so that the content is known to be that of `hash`; `None` to read it again.
  pub stamp: Option<Stamp>,
  /// The hash of its content.
  pub hash: Option<ContentHash>,
  /// Whether it is guarded.
  pub status: FileStatus,
  /// A note for people.
  pub note: Option<&'a str>,
  /// All its blocks. Blocks that the ledger has and this list does not are former blocks.
  pub blocks: &'a [BlockRow],
  /// Whether this was the first scan.
  pub adopted: bool,
  /// The work that was pending when the content was read: work that another process has recorded since stays
  /// pending.
  pub known: Pending,
  /// The pending work.
  pub pending: Pending,
  /// The current marker mode.
  pub marker_mode: &'a str,
  /// Why that is not the configured mode.
  pub unmarked: Option<&'a str>,
  /// The events to store in the transaction of the scan.
  pub events: &'a [NewEvent],
  /// The time of the scan.
  pub at: Micros,
}

impl Ledger {
  /// Records a scan and returns the id of the file. An id belongs to one file: a block that was in
  /// another one until now belongs to this one from now on. Revisions are added or corrected, never
  /// removed.
  pub fn record(&mut self, scan: &ScanRecord<'_>) -> Result<i64, StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let file = upsert_file(tx, scan)?;
      baseline::expand(tx, file)?;
      record_blocks(tx, file, scan.blocks, scan.at)?;
      event::append(tx, scan.events, scan.at)?;
      Ok(file)
    })
  }

  /// Records the first scans of many files in one transaction: blocks without findings
  /// ([`super::ADOPTED_DIGITS`]) share a row. The files must be new to the ledger.
  pub fn adopt(&mut self, scans: &[ScanRecord<'_>]) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      for scan in scans {
        let file = upsert_file(tx, scan)?;
        baseline::expand(tx, file)?;
        // Only blocks with findings need rows of their own; see `baseline`.
        let told: Vec<BlockRow> = baseline::insert(tx, file, scan.blocks)?.cloned().collect();
        record_blocks(tx, file, &told, scan.at)?;
        event::append(tx, scan.events, scan.at)?;
      }
      Ok(())
    })
  }
}

fn upsert_file(conn: &Connection, scan: &ScanRecord<'_>) -> Result<i64, Fault> {
  let [dev, ino, size, mtime, ctime] = Stamp::columns(scan.stamp);
  let id = conn
    .prepare_cached(
      "INSERT INTO file (path, workspace, dev, ino, size, mtime_ns, ctime_ns, hash, status, note,
         adopted_at, scanned_at, pending, marker_mode, unmarked)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
       ON CONFLICT (path) DO UPDATE SET workspace = ?2, dev = ?3, ino = ?4, size = ?5, mtime_ns = ?6,
         ctime_ns = ?7, hash = ?8, status = ?9, note = ?10, adopted_at = coalesce(adopted_at, ?11),
         gone_hash = NULL, gone_dev = NULL, gone_ino = NULL,
         scanned_at = ?12, pending = (file.pending & ~?16) | ?13, marker_mode = ?14, unmarked = ?15
       RETURNING id",
    )?
    .query_row(
      params![
        path_bytes(scan.path),
        path_bytes(scan.workspace),
        dev,
        ino,
        size,
        mtime,
        ctime,
        scan.hash.map(|hash| hash.0),
        scan.status.as_str(),
        scan.note,
        scan.adopted.then_some(scan.at),
        scan.at,
        scan.pending.bits(),
        scan.marker_mode,
        scan.unmarked,
        scan.known.without(Pending::KEPT).bits(),
      ],
      |row| row.get(0),
    )?;
  Ok(id)
}

fn record_blocks(
  conn: &Connection,
  file: i64,
  blocks: &[BlockRow],
  at: Micros,
) -> Result<(), Fault> {
  let before = block::present(conn, file)?;
  let before: HashMap<&BlockId, &Stored> =
    before.iter().map(|stored| (&stored.row.id, stored)).collect();
  let mut seen = HashSet::with_capacity(blocks.len());
  for row in blocks {
    if !seen.insert(&row.id) {
      return Err(StoreError::RepeatedId { id: row.id.clone() }.into());
    }
    if let Some(stored) = before.get(&row.id) {
      update(conn, file, stored, row, at)?;
    // The block was in another file, or had left this one.
    } else if let Some(stored) = block::by_id(conn, &row.id)? {
      conn
        .prepare_cached("UPDATE block SET present = 1, gone_at = NULL, file = ?2 WHERE key = ?1")?
        .execute((stored.key, file))?;
      update(conn, file, &stored, row, at)?;
    } else {
      insert(conn, file, row, at)?;
    }
  }
  // Former blocks stay, because their text may return.
  for stored in before.values().filter(|stored| !seen.contains(&stored.row.id)) {
    conn
      .prepare_cached("UPDATE block SET present = 0, gone_at = ?2 WHERE key = ?1")?
      .execute((stored.key, at))?;
  }
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{
    detect::{Code, KeptFindings},
    provenance::{Attestation, Source, State, Trust},
    store::{
      OriginRecord, Revision, Sighting,
      tests::{Home, block, id, scan},
    },
  };

  #[test]
  fn a_scan_comes_back_as_it_was_recorded() {
    let mut ledger = Home::new().ledger();
    let mut rows = vec![block("aaaaa1", 0), block("aaaaa2", 1)];
    rows[1].codes = vec![Code::EditedBlock, Code::ForgedMarker];
    rows[1].state = State::Flagged;
    rows[1].score = 0.25;
    rows[1].marker = Some(id("aaaaa1"));
    rows[1].findings = KeptFindings::from_json("[1]".into());
    let second = Revision {
      number: 1,
      source: Source::new("web_fetch:example.com"),
      trust: Trust::Hostile,
      attestation: Attestation::ContentHashed,
      session: Some("s".into()),
      at: 5,
      trail: OriginRecord {
        evidence_json: "{}".into(),
        sighting: Some(Sighting { version: ContentHash::of(b"v"), changed_at: 4 }),
        due: true,
        request: Some(ContentHash::of(b"request")),
      },
      approved: true,
    };
    rows[1].revisions.push(second);
    let file = ledger.record(&ScanRecord { adopted: true, ..scan("/w/a.md", &rows, 7) }).unwrap();
    assert_eq!(ledger.blocks(file).unwrap(), rows);
    let found = ledger.file(Path::new("/w/a.md")).unwrap().unwrap();
    assert_eq!((found.id, found.adopted_at, found.scanned_at), (file, Some(7), Some(7)));
    assert_eq!((found.marker_mode.as_str(), found.unmarked.as_deref()), ("id", Some("too long")));
    assert_eq!(ledger.record(&scan("/w/a.md", &rows, 9)).unwrap(), file);
    let again = ledger.file(Path::new("/w/a.md")).unwrap().unwrap();
    assert_eq!((again.adopted_at, again.scanned_at), (Some(7), Some(9)), "adopted once");
  }

  #[test]
  fn a_block_that_vanishes_keeps_its_history_and_may_come_back() {
    let mut ledger = Home::new().ledger();
    let both = [block("aaaaa1", 0), block("aaaaa2", 1)];
    let file = ledger.record(&scan("/w/a.md", &both, 1)).unwrap();
    ledger.record(&scan("/w/a.md", &both[..1], 2)).unwrap();
    assert_eq!(ledger.blocks(file).unwrap(), both[..1]);
    let gone = ledger.block(&id("aaaaa2")).unwrap().unwrap();
    assert!(!gone.present);
    assert_eq!(gone.block.revisions, both[1].revisions);
    assert!(ledger.marker_ids(Path::new("/w/a.md")).unwrap().contains(&id("aaaaa2")));

    let mut back = both[1].clone();
    back.hash = ContentHash::of(b"edited");
    back.revisions = vec![Revision { number: 1, at: 3, ..both[1].revisions[0].clone() }];
    ledger.record(&scan("/w/a.md", &[both[0].clone(), back.clone()], 3)).unwrap();
    let found = ledger.block(&id("aaaaa2")).unwrap().unwrap();
    assert!(found.present);
    assert_eq!(found.block.hash, back.hash);
    assert_eq!(found.block.revisions.len(), 2, "the first revision stays");
  }

  #[test]
  fn an_id_belongs_to_one_file() {
    let mut ledger = Home::new().ledger();
    let rows = [block("aaaaa1", 0)];
    let first = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    let second = ledger.record(&scan("/w/b.md", &rows, 2)).unwrap();
    assert_eq!(ledger.blocks(first).unwrap(), []);
    assert_eq!(ledger.blocks(second).unwrap(), rows);
  }

  #[test]
  fn two_blocks_with_one_id_are_refused_and_nothing_is_recorded() {
    let mut ledger = Home::new().ledger();
    let rows = [block("aaaaa1", 0), block("aaaaa1", 1)];
    let error = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap_err();
    assert!(matches!(error, StoreError::RepeatedId { .. }));
    assert_eq!(ledger.files().unwrap(), []);
  }

  #[test]
  fn only_rows_that_changed_are_written() {
    let mut ledger = Home::new().ledger();
    let mut rows: Vec<BlockRow> =
      (0..10_000).map(|n| block(&format!("{:06x}", n + 0x10_0000), n)).collect();
    let file = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    let changes = |ledger: &Ledger| ledger.conn.total_changes();
    let before = changes(&ledger);
    ledger.record(&scan("/w/a.md", &rows, 2)).unwrap();
    assert_eq!(changes(&ledger) - before, 1, "the row of the file");

    rows[5000].state = State::Flagged;
    rows[5000].revisions[0].source = Source::new("exec");
    let before = changes(&ledger);
    ledger.record(&scan("/w/a.md", &rows, 3)).unwrap();
    assert_eq!(changes(&ledger) - before, 3, "file, block, revision");
    assert_eq!(ledger.blocks(file).unwrap(), rows);

    let moved: Vec<BlockRow> = rows
      .iter()
      .map(|row| BlockRow {
        ordinal: row.ordinal + 1,
        start_line: row.start_line + 2,
        ..row.clone()
      })
      .collect();
    ledger.record(&scan("/w/a.md", &moved, 4)).unwrap();
    assert_eq!(ledger.blocks(file).unwrap(), moved);
  }
}
