//! Which texts still need attribution, and recording the answers.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};

use super::{
  BlockRow, Durability, Ledger, Micros, NewEvent, OriginRecord, Pending, Sighting, StoreError,
  baseline, block, block_change, column,
  column::{path_bytes, word},
  error::Fault,
  event, file, request,
};
use crate::{
  memory::BlockId,
  provenance::{Attestation, Request, Source, Trust},
};

/// A quarantined item that still needs attribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueItem {
  /// The item.
  pub id: BlockId,
  /// When memfw first saw it.
  pub seen_at: Micros,
  /// The version of its file in which memfw first saw it.
  pub sighting: Sighting,
}

/// The attributed origin of a quarantined item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemOrigin {
  /// The item.
  pub id: BlockId,
  /// The source that the records show.
  pub source: Source,
  /// The trust of the source.
  pub trust: Trust,
  /// How the source is known.
  pub attestation: Attestation,
  /// The agent's session.
  pub session: Option<String>,
  /// The evidence.
  pub trail: OriginRecord,
}

/// The attributed origins of the text of one file.
#[derive(Clone, Debug)]
pub struct AttributionRecord<'a> {
  /// The file.
  pub path: &'a Path,
  /// The complete blocks with a new origin.
  pub blocks: &'a [BlockRow],
  /// The items with a new origin.
  pub items: &'a [ItemOrigin],
  /// The owner's requests and the passages that explain the texts: all that the rows refer to and
  /// the ledger may not have yet.
  pub requests: &'a [Request],
  /// The kinds of work that are done now.
  pub done: Pending,
  /// The kinds of work that remain; a kind in neither set keeps its state.
  pub due: Pending,
  /// The events to store in the transaction of the answers.
  pub events: &'a [NewEvent],
  /// When.
  pub at: Micros,
}

impl Ledger {
  /// The items of a file that still need attribution.
  pub fn due_items(&self, path: &Path) -> Result<Vec<DueItem>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id, quarantined_at, version, changed_at FROM quarantine
         WHERE path = ?1 AND due = 1 AND version IS NOT NULL ORDER BY quarantined_at, id",
      )?;
      let rows = statement.query_map([path_bytes(path)], due_item)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The quarantined items of a file that memfw first saw after `since`, and whose answered origin is no
  /// more than inferred.
  pub fn inferred_items(&self, path: &Path, since: Micros) -> Result<Vec<DueItem>, StoreError> {
    self.read(|conn| {
      let sql = format!(
        "SELECT id, quarantined_at, version, changed_at FROM quarantine
         WHERE path = ?1 AND quarantined_at > ?2 AND sealed IS NOT NULL AND {INFERRED}
         ORDER BY quarantined_at, id"
      );
      let mut statement = conn.prepare_cached(&sql)?;
      let rows = statement.query_map(params![path_bytes(path), since], due_item)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The files with text, in them or taken out of them, that memfw first saw after `since`, and whose
  /// answered origin is no more than inferred; each with its workspace.
  pub fn inferred_files(&self, since: Micros) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.read(|conn| {
      let sql = format!(
        "SELECT f.workspace, f.path FROM (SELECT block FROM revision WHERE at > ?1 AND {INFERRED}) r
         JOIN block b ON b.key = r.block AND b.present = 1
         JOIN file f ON f.id = b.file
         UNION
         SELECT f.workspace, f.path FROM (SELECT path FROM quarantine
           WHERE quarantined_at > ?1 AND sealed IS NOT NULL AND {INFERRED}) q
         JOIN file f ON f.path = q.path
         ORDER BY 2"
      );
      let mut statement = conn.prepare_cached(&sql)?;
      let rows =
        statement.query_map([since], |row| Ok((column::path(row, 0)?, column::path(row, 1)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// All files that have text, in them or taken out of them, that still needs attribution, each with its
  /// workspace.
  pub fn attributions_due(&self) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.read(|conn| {
      let sql = format!("SELECT DISTINCT workspace, path FROM ({DUE}) ORDER BY path");
      let mut statement = conn.prepare_cached(&sql)?;
      let rows =
        statement.query_map([], |row| Ok((column::path(row, 0)?, column::path(row, 1)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Records the attributed origins of the text of a file, in one transaction.
  pub fn attribute(&mut self, known: &AttributionRecord<'_>) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, key| {
      for one in known.requests {
        request::keep(tx, key, one, known.at)?;
      }
      for row in known.blocks {
        let Some(file) = file::find(tx, known.path)? else { continue };
        let mut stored = block::by_id(tx, &row.id)?;
        if stored.is_none() {
          // A baseline block without findings has no row of its own.
          baseline::expand(tx, file.id)?;
          stored = block::by_id(tx, &row.id)?;
        }
        let Some(stored) = stored else { continue };
        block_change::update(tx, file.id, &stored, row, known.at)?;
      }
      for item in known.items {
        attribute_item(tx, item)?;
      }
      // A text that was refused may be about a file that the ledger does not know.
      if !(known.done | known.due).is_empty() {
        file::change_pending(tx, known.path, known.done, known.due)?;
      }
      event::append(tx, known.events, known.at)
    })
  }
}

/// Paths and workspaces of files with unattributed text: in existing blocks, or in quarantine.
const DUE: &str = "
  SELECT f.workspace, f.path FROM revision r
  JOIN block b ON b.key = r.block AND b.present = 1
  JOIN file f ON f.id = b.file
  WHERE r.due = 1
  UNION ALL
  SELECT f.workspace, f.path FROM quarantine q JOIN file f ON f.path = q.path WHERE q.due = 1";

/// A text about which the records were asked, and whose source they do not show.
const INFERRED: &str = "due = 0 AND version IS NOT NULL
  AND (source IN ('unknown', 'external-edit') OR attestation = 'self-reported')";

/// An item from its id, its time, and the version and the time of its file.
fn due_item(row: &Row<'_>) -> rusqlite::Result<DueItem> {
  let sighting = Sighting { version: column::hash(row, 2)?, changed_at: row.get(3)? };
  Ok(DueItem { id: word(row, 0)?, seen_at: row.get(1)?, sighting })
}

fn attribute_item(conn: &Connection, item: &ItemOrigin) -> Result<(), Fault> {
  let (version, changed_at) = item.trail.columns();
  conn
    .prepare_cached(
      "UPDATE quarantine SET source = ?2, trust = ?3, attestation = ?4, session = ?5, evidence = ?6,
         version = ?7, changed_at = ?8, due = ?9, request = ?10
       WHERE id = ?1",
    )?
    .execute(params![
      item.id.as_str(),
      item.source.as_str(),
      item.trust.as_str(),
      item.attestation.as_str(),
      item.session,
      item.trail.evidence_json,
      version,
      changed_at,
      item.trail.due,
      item.trail.request.map(|hash| hash.0),
    ])?;
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{
    memory::ContentHash,
    store::{
      NewItem,
      tests::{Home, block, id, item, scan},
    },
  };

  fn seen() -> Sighting {
    Sighting { version: ContentHash::of(b"version"), changed_at: -3 }
  }

  #[test]
  fn what_is_due_is_found_until_it_is_known() {
    let mut ledger = Home::new().ledger();
    let path = Path::new("/w/a.md");
    let mut rows = [block("aaaaa1", 0), block("aaaaa2", 1)];
    let file = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
    assert_eq!(ledger.attributions_due().unwrap(), []);
    rows[1].revisions[0].trail = OriginRecord::asked(seen());
    ledger.record(&scan("/w/a.md", &rows, 2)).unwrap();
    let due = NewItem { trail: OriginRecord::asked(seen()), ..item(&id("a1b2c3"), b"one\n") };
    ledger.quarantine(&[due], &[], &[], 5).unwrap();
    assert_eq!(ledger.attributions_due().unwrap(), [("/w".into(), path.to_owned())]);
    let expected = DueItem { id: id("a1b2c3"), seen_at: 5, sighting: seen() };
    assert_eq!(ledger.due_items(path).unwrap(), [expected]);

    let trail = OriginRecord {
      evidence_json: "{}".into(),
      sighting: Some(seen()),
      ..OriginRecord::default()
    };
    rows[1].revisions[0].source = Source::new("exec");
    rows[1].revisions[0].trail = trail.clone();
    let origin = ItemOrigin {
      id: id("a1b2c3"),
      source: Source::new("web_fetch:b.example"),
      trust: Trust::Hostile,
      attestation: Attestation::ContentHashed,
      session: Some("s".into()),
      trail: trail.clone(),
    };
    let known = AttributionRecord {
      path,
      blocks: &rows[1..],
      items: std::slice::from_ref(&origin),
      requests: &[],
      done: Pending::ATTRIBUTE,
      due: Pending::RESHAPE,
      events: &[],
      at: 9,
    };
    ledger.attribute(&known).unwrap();
    assert_eq!(ledger.blocks(file).unwrap(), rows);
    let found = ledger.item("a1b2c3").unwrap();
    assert_eq!((found.source, found.trust, found.trail), (origin.source, origin.trust, trail));
    assert_eq!(found.session.as_deref(), Some("s"));
    assert_eq!(ledger.file(path).unwrap().unwrap().pending, Pending::RESHAPE);
    assert_eq!(ledger.attributions_due().unwrap(), []);
    assert!(ledger.due_items(path).unwrap().is_empty());
  }
}
