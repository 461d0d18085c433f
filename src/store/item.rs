//! The items of a review: quarantined items, and flagged blocks in the same form.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::ValueRef};
use zeroize::Zeroizing;

use super::{
  Durability, Ledger, Micros, OriginRecord, Pending, StoreError, column,
  column::{path_bytes, word},
  error::Fault,
  id,
  part_of::{self, PartOf},
};
use crate::{
  detect::{Code, KeptFindings, Layer},
  memory::{BlockId, ContentHash},
  provenance::{Attestation, Source, State, Trust},
  seal,
  seal::{Purpose, SealContext},
};

/// An item to review, or a reviewed one. The times of a flagged block are those of its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
  /// The id, which its placeholder shows.
  pub id: BlockId,
  /// The file, absolute.
  pub path: PathBuf,
  /// Its first line when it was last seen, from 1.
  pub line: u32,
  /// The hash of its bytes.
  pub hash: ContentHash,
  /// Its number among equal texts in the file, from 0.
  pub n: u32,
  /// Its state.
  pub status: State,
  /// The source of the text, `unknown` until attribution.
  pub source: Source,
  /// The trust of the source.
  pub trust: Trust,
  /// How the source is known.
  pub attestation: Attestation,
  /// The agent's session.
  pub session: Option<String>,
  /// The score, 0..1.
  pub score: f32,
  /// The layer that decided; `None` for a flagged block.
  pub layer: Option<Layer>,
  /// The finding codes.
  pub codes: Vec<Code>,
  /// The findings; spans are in bytes of the item.
  pub findings: KeptFindings,
  /// When it was first taken out.
  pub quarantined_at: Micros,
  /// When it last occurred.
  pub seen_at: Micros,
  /// When a person decided.
  pub reviewed_at: Option<Micros>,
  /// Who decided.
  pub reviewed_by: Option<String>,
  /// How often it occurred.
  pub occurrences: u32,
  /// Sealed bytes; `None` without a seal: for a block in its file, or deleted bytes.
  pub len: Option<u64>,
  /// Whether its last line has a line end.
  pub terminated: bool,
  /// Whether this is a flagged block that is still in its file.
  pub in_file: bool,
  /// How its origin is known.
  pub trail: OriginRecord,
  /// Whether it is approved or divided, and its file does not have the approved text yet.
  pub awaited: bool,
  /// What it is a part of.
  pub part: Option<PartOf>,
}

impl Item {
  /// Whether it is a part of an item that begins or ends within a line.
  pub fn is_inline(&self) -> bool {
    self.part.as_ref().is_some_and(|part| part.is_inline)
  }
}

/// A filter for items; the default selects all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFilter {
  /// Only these states; empty for all states.
  pub statuses: Vec<State>,
  /// Only in this file.
  pub path: Option<PathBuf>,
}

impl ItemFilter {
  /// Items that were taken out of their file and wait for a person.
  pub fn waiting() -> Self {
    Self { statuses: vec![State::Quarantined, State::Held], path: None }
  }

  /// Everything that waits for a person: those items, and flagged blocks that are in a file.
  pub fn open() -> Self {
    Self { statuses: vec![State::Quarantined, State::Held, State::Flagged], path: None }
  }
}

/// The items of the quarantine, with the columns that [`item_row`] reads.
macro_rules! items_out {
  () => {
    "
  SELECT id, path, line, hash, n, status, source, trust, attestation, session, score, layer, codes,
    findings, quarantined_at, seen_at, reviewed_at, reviewed_by, occurrences,
    iif(sealed IS NULL, NULL, len) AS len, terminated, 0 AS in_file, evidence, version, changed_at,
    due, request, awaited AND status IN ('approved', 'split') AS awaited, part_of, part_offset,
    part_inline
  FROM quarantine"
  };
}

/// The condition that a part of the item `whole` waits or was rejected.
macro_rules! has_part_out {
  () => {
    "EXISTS (SELECT 1 FROM quarantine AS part
       WHERE part.part_of = whole.id AND part.status IN ('quarantined', 'held', 'rejected'))"
  };
}

impl Ledger {
  /// The items that a filter selects, oldest first.
  pub fn items(&self, filter: &ItemFilter) -> Result<Vec<Item>, StoreError> {
    let words: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
    // SQLite has no array parameters, so the states are one string with separators.
    let statuses = (!words.is_empty()).then(|| format!(",{},", words.join(",")));
    self.read(|conn| {
      let path = filter.path.as_deref().map(path_bytes);
      // Without the alternative SQLite finds the items of a path by an index.
      let of_path = if path.is_some() { "path = ?2" } else { "?2 IS NULL" };
      let sql = format!(
        "SELECT * FROM ({ITEMS})
         WHERE (?1 IS NULL OR instr(?1, ',' || status || ',') > 0) AND {of_path}
           -- A block of a file that is gone needs no decision; `counts` does not count it either.
           AND (status <> 'flagged' OR path NOT IN (SELECT path FROM file WHERE status = 'missing'))
         ORDER BY quarantined_at, path, line, id"
      );
      let mut statement = conn.prepare_cached(&sql)?;
      let rows = statement.query_map(params![statuses, path], item_row)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Attributed items that were taken out of a file, or of all files, and were not restored; at
  /// most `n`, the newest first.
  pub fn attributed_items_out(
    &self,
    path: Option<&Path>,
    n: usize,
  ) -> Result<Vec<Item>, StoreError> {
    self.read(|conn| {
      // The unary plus keeps SQLite from sorting all items of a status where an index has them in
      // order.
      let told = concat!(
        items_out!(),
        " WHERE +status IN ('quarantined', 'held', 'rejected') AND due = 0
           AND source NOT IN ('baseline', 'unknown', 'external-edit')"
      );
      let latest = "ORDER BY quarantined_at DESC, path DESC, line DESC, id DESC LIMIT ?1";
      let mut statement;
      let rows = if let Some(path) = path {
        statement = conn.prepare_cached(&format!("{told} AND path = ?2 {latest}"))?;
        statement.query_map(params![n as i64, path_bytes(path)], item_row)?
      } else {
        statement = conn.prepare_cached(&format!("{told} {latest}"))?;
        statement.query_map([n as i64], item_row)?
      };
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The item with this id prefix; an id that is a prefix of longer ones is itself.
  pub fn item(&self, prefix: &str) -> Result<Item, StoreError> {
    self.read(|conn| {
      let id = id::resolve(conn, ITEMS, prefix)?;
      let sql = format!("SELECT * FROM ({ITEMS}) WHERE id = ?1");
      Ok(conn.prepare_cached(&sql)?.query_row([id.as_str()], item_row)?)
    })
  }

  /// The bytes of a quarantined item.
  pub fn unseal(&self, id: &BlockId) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    self.open_seal(id, Purpose::Quarantine)
  }

  /// The placeholder of a quarantined item, before it is compacted.
  pub fn redacted_form(&self, id: &BlockId) -> Result<Vec<u8>, StoreError> {
    self.open_seal(id, Purpose::Redacted).map(|bytes| bytes.to_vec())
  }

  fn open_seal(&self, id: &BlockId, purpose: Purpose) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let found = self.read(|conn| {
      // A seal is bound to the path at the time of sealing, which a rename changes.
      let column = if purpose == Purpose::Redacted { "redacted" } else { "sealed" };
      let sql =
        format!("SELECT coalesce(sealed_for, path), hash, {column} FROM quarantine WHERE id = ?1");
      let row = |row: &Row<'_>| {
        Ok((column::path(row, 0)?, column::hash(row, 1)?, row.get::<_, Option<Vec<u8>>>(2)?))
      };
      let found = conn.prepare_cached(&sql)?.query_row([id.as_str()], row).optional()?;
      match found {
        Some(found) => Ok(found),
        None => Err(id::unknown(conn, QUARANTINED, id.as_str())?),
      }
    })?;
    let (path, hash, sealed) = found;
    let Some(sealed) = sealed else {
      let joined = if purpose == Purpose::Quarantine { self.joined(id)? } else { None };
      return joined
        .filter(|joined| ContentHash::of(joined) == hash)
        .ok_or_else(|| StoreError::Deleted { id: id.clone() });
    };
    let key = self.key.as_ref().ok_or(StoreError::NoKey)?;
    let context = SealContext { purpose, id: id.as_str(), path: path_bytes(&path), hash };
    seal::open(key, &context, &sealed)
      .map_err(|source| StoreError::Unsealable { id: id.to_string(), source })
  }

  /// The bytes of a divided item, from its parts; `None` if it has none, or a part was deleted.
  fn joined(&self, id: &BlockId) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
    let parts = self.read(|conn| Ok(part_of::part_ids(conn, id)?))?;
    let mut joined = (!parts.is_empty()).then(|| Zeroizing::new(Vec::new()));
    for part in parts {
      match (self.unseal(&part), &mut joined) {
        (Ok(bytes), Some(joined)) => joined.extend_from_slice(&bytes),
        (Err(StoreError::Deleted { .. }), _) | (Ok(_), None) => return Ok(None),
        (Err(error), _) => return Err(error),
      }
    }
    Ok(joined)
  }

  /// The ids that placeholders in a file may have, with the states of their items.
  pub fn placeholder_ids(&self, path: &Path) -> Result<HashMap<BlockId, State>, StoreError> {
    self.read(|conn| {
      let mut statement =
        conn.prepare_cached("SELECT id, status FROM quarantine WHERE path = ?1")?;
      let rows =
        statement.query_map([path_bytes(path)], |row| Ok((word(row, 0)?, word(row, 1)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The hashes of the texts of a file that are in quarantine: they, or parts of them, wait or were rejected.
  pub fn hashes_out(&self, path: &Path) -> Result<HashSet<ContentHash>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(concat!(
        "SELECT hash FROM quarantine AS whole WHERE path = ?1
         AND (status IN ('quarantined', 'held', 'rejected') OR status = 'split' AND ",
        has_part_out!(),
        ")"
      ))?;
      let rows = statement.query_map([path_bytes(path)], |row| column::hash(row, 0))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Whether an item is divided, and a part of it waits or was rejected.
  pub fn has_part_out(&self, id: &BlockId) -> Result<bool, StoreError> {
    self.read(|conn| {
      let sql = concat!(
        "SELECT 1 FROM quarantine AS whole WHERE id = ?1 AND status = 'split' AND ",
        has_part_out!()
      );
      Ok(conn.prepare_cached(sql)?.exists([id.as_str()])?)
    })
  }

  /// The items of a file that were approved, or divided and approved in part, since a time, oldest decision first.
  pub fn approved_since(&self, path: &Path, since: Micros) -> Result<Vec<BlockId>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id FROM quarantine
         WHERE path = ?1 AND status IN ('approved', 'split') AND (reviewed_at >= ?2 OR awaited)
         ORDER BY reviewed_at, id",
      )?;
      Ok(column::ids(&mut statement, params![path_bytes(path), since])?)
    })
  }

  /// Records that a text that is about to be approved must be restored to its file. The file is marked in the same
  /// transaction: the daemon may look at it right after a failed write, before the program that made it goes on.
  pub fn await_restore(&mut self, id: &BlockId) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached("UPDATE quarantine SET awaited = 1 WHERE id = ?1")?
        .execute([id.as_str()])?;
      mark_for_restore(tx, id)
    })
  }

  /// Records that a text does not have to be restored to its file any more.
  pub fn restored(&mut self, id: &BlockId) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached("UPDATE quarantine SET awaited = 0 WHERE id = ?1 AND awaited")?
        .execute([id.as_str()])?;
      Ok(())
    })
  }

  /// How many approved texts are not yet restored to their files.
  pub fn awaited_items(&self) -> Result<u64, StoreError> {
    self.read(|conn| {
      let sql = "SELECT count(*) FROM quarantine WHERE status IN ('approved', 'split') AND awaited";
      Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))? as u64)
    })
  }

  /// The items of a file that wait for a person, oldest first.
  pub fn waiting_ids(&self, path: &Path) -> Result<Vec<BlockId>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id FROM quarantine WHERE path = ?1 AND status IN ('quarantined', 'held')
         ORDER BY quarantined_at, path, line, id",
      )?;
      Ok(column::ids(&mut statement, [path_bytes(path)])?)
    })
  }
}

/// Marks the file of an item as one with a text to restore, if the ledger knows the file.
pub(super) fn mark_for_restore(conn: &Connection, id: &BlockId) -> Result<(), Fault> {
  conn
    .prepare_cached(
      "UPDATE file SET pending = pending | ?2
       WHERE path = (SELECT path FROM quarantine WHERE id = ?1)",
    )?
    .execute(params![id.as_str(), Pending::RESHAPE.bits()])?;
  Ok(())
}

pub(super) const QUARANTINED: &str = "SELECT id FROM quarantine";

/// Items of the quarantine, and blocks in their files that are flagged or decided. For an id that
/// is both, the item is returned.
pub(super) const ITEMS: &str = concat!(items_out!(), "
  UNION ALL
  SELECT b.id, f.path, b.start_line, b.hash, 0, b.state, coalesce(r.source, 'unknown'),
    coalesce(r.trust, 'untrusted'), coalesce(r.attestation, 'self-reported'), r.session, b.score, NULL,
    b.codes, b.findings, b.state_at, b.state_at, b.reviewed_at, b.reviewed_by, 1, NULL, 1, 1,
    coalesce(r.evidence, ''), r.version, r.changed_at, coalesce(r.due, 0),
    r.request, 0, NULL, NULL, 0
  FROM block b
  JOIN file f ON f.id = b.file
  LEFT JOIN revision r ON r.block = b.key
    AND r.number = (SELECT max(number) FROM revision WHERE block = b.key)
  WHERE (b.state = 'flagged' OR b.reviewed_at IS NOT NULL)
    AND b.state IN ('flagged', 'approved', 'rejected', 'corrected')
    AND b.present = 1
    AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.id = b.id)");

pub(super) fn item_row(row: &Row<'_>) -> rusqlite::Result<Item> {
  let layer = match row.get_ref(11)? {
    ValueRef::Null => None,
    _ => Some(column::layer(row, 11)?),
  };
  Ok(Item {
    id: word(row, 0)?,
    path: column::path(row, 1)?,
    line: row.get(2)?,
    hash: column::hash(row, 3)?,
    n: row.get(4)?,
    status: word(row, 5)?,
    source: column::source(row, 6)?,
    trust: word(row, 7)?,
    attestation: word(row, 8)?,
    session: row.get(9)?,
    score: row.get::<_, f64>(10)? as f32,
    layer,
    codes: column::codes(row, 12)?,
    findings: KeptFindings::from_json(row.get(13)?),
    quarantined_at: row.get(14)?,
    seen_at: row.get(15)?,
    reviewed_at: row.get(16)?,
    reviewed_by: row.get(17)?,
    occurrences: row.get(18)?,
    len: row.get::<_, Option<i64>>(19)?.map(|len| len as u64),
    terminated: row.get(20)?,
    in_file: row.get(21)?,
    trail: OriginRecord::from_row(row, 22)?,
    awaited: row.get(27)?,
    part: part(row, 28)?,
  })
}

fn part(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<PartOf>> {
  if row.get_ref(first)? == ValueRef::Null {
    return Ok(None);
  }
  let offset: i64 = row.get(first + 1)?;
  let (id, is_inline) = (word(row, first)?, row.get(first + 2)?);
  Ok(Some(PartOf { id, offset: offset as u64, is_inline }))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{
    FileStatus, NewItem,
    tests::{Home, block, id, item, scan},
  };

  #[test]
  fn a_text_to_restore_marks_its_file_at_once() {
    let mut ledger = Home::new().ledger();
    let id = id("aaaaa1");
    ledger.quarantine(&[item(&id, b"one\n")], &[], &[], 1).unwrap();
    // The file is none that the ledger knows.
    ledger.await_restore(&id).unwrap();
    assert_eq!(ledger.file(Path::new("/w/a.md")).unwrap(), None);
    ledger.record(&scan("/w/a.md", &[], 2)).unwrap();
    ledger.await_restore(&id).unwrap();
    let pending = |ledger: &Ledger| ledger.file(Path::new("/w/a.md")).unwrap().unwrap().pending;
    assert_eq!(pending(&ledger), Pending::RESHAPE);
    // Its lazy pass clears the mark.
    ledger.restored(&id).unwrap();
    assert_eq!(pending(&ledger), Pending::RESHAPE);
  }

  #[test]
  fn items_are_listed_oldest_first_and_by_status_and_file() {
    let mut ledger = Home::new().ledger();
    let elsewhere = Path::new("/w/b.md");
    let held = NewItem { status: State::Held, path: elsewhere, ..item(&id("aaaaa2"), b"two\n") };
    ledger.quarantine(&[held], &[], &[], 20).unwrap();
    ledger.quarantine(&[item(&id("aaaaa1"), b"one\n")], &[], &[], 10).unwrap();
    ledger.quarantine(&[item(&id("aaaaa3"), b"three\n")], &[], &[], 30).unwrap();
    let mut flagged = block("bbbbb1", 0);
    flagged.state = State::Flagged;
    flagged.codes = vec![Code::EditedBlock];
    ledger.record(&scan("/w/b.md", &[flagged, block("bbbbb2", 1)], 15)).unwrap();
    ledger.decide(&id("aaaaa3"), State::Rejected, "ann", 40, &[]).unwrap();
    let ids = |ledger: &Ledger, filter: ItemFilter| {
      let items = ledger.items(&filter).unwrap();
      items.into_iter().map(|item| item.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&ledger, ItemFilter::default()), ["aaaaa1", "bbbbb1", "aaaaa2", "aaaaa3"]);
    assert_eq!(ids(&ledger, ItemFilter::waiting()), ["aaaaa1", "aaaaa2"]);
    let only = |status| ItemFilter { statuses: vec![status], path: None };
    assert_eq!(ids(&ledger, only(State::Flagged)), ["bbbbb1"]);
    assert_eq!(ids(&ledger, only(State::Validated)), [""; 0]);
    assert_eq!(ids(&ledger, ItemFilter::open()), ["aaaaa1", "bbbbb1", "aaaaa2"]);
    assert_eq!(ledger.counts(50).unwrap().for_a_person(), 3);
    let workspace = Path::new("/w");
    ledger.set_status(elsewhere, workspace, FileStatus::Missing, None).unwrap();
    assert_eq!(
      ids(&ledger, ItemFilter::open()),
      ["aaaaa1", "aaaaa2"],
      "a missing file needs no decision"
    );
    assert_eq!(ledger.counts(50).unwrap().for_a_person(), 2);
    ledger.set_status(elsewhere, workspace, FileStatus::Watched, None).unwrap();
    let there = ItemFilter { path: Some(elsewhere.into()), ..ItemFilter::default() };
    assert_eq!(ids(&ledger, there), ["bbbbb1", "aaaaa2"]);
    assert_eq!(ledger.waiting_ids(elsewhere).unwrap(), [id("aaaaa2")]);
    let placeholders = ledger.placeholder_ids(Path::new("/w/a.md")).unwrap();
    let expected = [(id("aaaaa1"), State::Quarantined), (id("aaaaa3"), State::Rejected)];
    assert_eq!(placeholders, HashMap::from(expected));
  }

  #[test]
  fn a_flagged_block_is_an_item_until_and_after_it_is_decided() {
    let mut ledger = Home::new().ledger();
    let mut flagged = block("bbbbb1", 0);
    flagged.state = State::Flagged;
    flagged.score = 0.75;
    let file = ledger.record(&scan("/w/b.md", &[flagged.clone()], 15)).unwrap();
    let found = ledger.item("bbb").unwrap();
    assert_eq!((found.line, found.hash, found.score), (1, flagged.hash, 0.75));
    assert_eq!((found.quarantined_at, found.len, found.in_file), (15, None, true));
    assert_eq!(found.source, flagged.revisions[0].source);
    assert!(matches!(ledger.unseal(&found.id), Err(StoreError::UnknownId { .. })));
    assert_eq!(ledger.decide(&found.id, State::Approved, "ann", 16, &[]).unwrap(), State::Flagged);
    let found = ledger.item("bbb").unwrap();
    assert_eq!((found.status, found.reviewed_at), (State::Approved, Some(16)));
    let row = ledger.blocks(file).unwrap().remove(0);
    assert_eq!((row.state, row.is_approved(0)), (State::Approved, true));
    ledger.record(&scan("/w/b.md", &[], 17)).unwrap();
    assert!(ledger.item("bbb").is_err(), "gone from its file");
  }

  #[test]
  #[expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]
  fn what_is_deleted_leaves_its_record_and_no_bytes() {
    let home = Home::new();
    let mut ledger = home.ledger();
    let one = item(&id("aaaaa1"), b"one\n");
    ledger.quarantine(std::slice::from_ref(&one), &[], &[], 10).unwrap();
    let sealed = |ledger: &Ledger| -> Option<Vec<u8>> {
      ledger.conn.query_row("SELECT sealed FROM quarantine", [], |row| row.get(0)).unwrap()
    };
    let seal = sealed(&ledger).unwrap();
    assert_eq!(ledger.forget(&one.id, "ann", 11, &[]).unwrap(), State::Quarantined);
    assert_eq!(sealed(&ledger), None);
    assert!(matches!(ledger.unseal(&one.id), Err(StoreError::Deleted { .. })));
    assert_eq!(ledger.redacted_form(&one.id).unwrap(), one.redacted);
    let found = ledger.item("aaaaa1").unwrap();
    assert_eq!(
      (found.status, found.len, found.hash),
      (State::Forgotten, None, ContentHash::of(b"one\n"))
    );
    assert_eq!((found.reviewed_at, found.reviewed_by.as_deref()), (Some(11), Some("ann")));
    ledger.checkpoint().unwrap();
    drop(ledger);
    for file in std::fs::read_dir(home.dir()).unwrap() {
      let bytes = std::fs::read(file.unwrap().path()).unwrap();
      assert!(
        crate::memory::marker::find(&bytes, &seal, 0).is_none(),
        "also free pages hold nothing"
      );
    }
    let mut ledger = home.ledger();
    assert!(matches!(
      ledger.forget(&id("bbbbb1"), "ann", 12, &[]),
      Err(StoreError::UnknownId { .. })
    ));
  }
}
