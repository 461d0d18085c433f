//! Puts bytes into quarantine, durably, before they are overwritten.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
  Durability, Ledger, Micros, NewEvent, NewOp, OpId, OriginRecord, StoreError, column,
  column::{path_bytes, word},
  error::Fault,
  event,
  fresh_seal::seal_fresh,
  op, part_of, taken_out,
};
use crate::{
  detect::{Code, KeptFindings, Layer},
  memory::{BlockId, ContentHash},
  provenance::{Attestation, Source, State, Trust},
  seal::{MasterKey, Purpose, SealContext},
};

/// Bytes about to be taken out of a file.
#[derive(Clone, Debug)]
pub struct NewItem<'a> {
  /// An unused id. Ignored if these bytes already have an item.
  pub id: BlockId,
  /// The file, absolute.
  pub path: &'a Path,
  /// Their first line, from 1.
  pub line: u32,
  /// The bytes, whole lines.
  pub bytes: &'a [u8],
  /// The placeholder that will replace them.
  pub redacted: &'a [u8],
  /// The number of this text among equal texts in the file, from 0.
  pub n: u32,
  /// Whether the last line has a line end.
  pub terminated: bool,
  /// Why they wait: [`State::Quarantined`] for their content, [`State::Held`] by policy.
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
  /// The layer that decided.
  pub layer: Layer,
  /// The finding codes.
  pub codes: Vec<Code>,
  /// The findings; spans are in these bytes.
  pub findings: KeptFindings,
  /// How their origin is known.
  pub trail: OriginRecord,
  /// Their context.
  pub context: Option<ContentHash>,
}

/// The result of [`Ledger::quarantine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
  /// One result per item, in their order.
  pub items: Vec<Admitted>,
  /// One id per operation, in their order; empty if nothing was written because of an approved
  /// item.
  pub ops: Vec<OpId>,
}

impl Admission {
  /// Whether an item was approved in the meantime. Then nothing was written, and nothing may be
  /// redacted: plan again without it.
  pub fn is_refused(&self) -> bool {
    self.items.iter().any(|item| item.status == State::Approved)
  }
}

/// The result for one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
  /// Its id: the old one if these bytes already had an item.
  pub id: BlockId,
  /// Whether the item is new.
  pub fresh: bool,
  /// How often they have occurred.
  pub occurrences: u32,
  /// Its state.
  pub status: State,
}

/// The existing item of these bytes in this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
  /// Its id.
  pub id: BlockId,
  /// Its state.
  pub status: State,
  /// How often the bytes have occurred.
  pub occurrences: u32,
  /// Their context at the last occurrence; `None` if it was not recorded.
  pub context: Option<ContentHash>,
}

impl Ledger {
  /// Seals items and records the operations that will take them out of their file, with the events,
  /// in one transaction. When this returns, all of it would survive a power cut.
  ///
  /// Bytes that return (with equal content, file and `n`) increase the occurrences of their item
  /// and wait again if they were rejected. If a person approved one of them, nothing is written;
  /// see [`Admission::is_refused`]. To take approved bytes out once more, first
  /// [`decide`](Ledger::decide) the item back to quarantined.
  pub fn quarantine(
    &mut self,
    items: &[NewItem<'_>],
    ops: &[NewOp<'_>],
    events: &[NewEvent],
    at: Micros,
  ) -> Result<Admission, StoreError> {
    self.write(Durability::Synced, |tx, key| {
      let key = key.ok_or(StoreError::NoKey)?;
      let keyed: Vec<_> = items.iter().map(|item| (item, ContentHash::of(item.bytes))).collect();
      // Checked inside the transaction, so no approval can come in between.
      if let Some(refusal) = refusal(tx, &keyed)? {
        return Ok(refusal);
      }
      let admit = |(item, hash): &(&NewItem<'_>, ContentHash)| admit(tx, key, item, *hash, at);
      let items = keyed.iter().map(admit).collect::<Result<_, Fault>>()?;
      let insert = |new: &NewOp<'_>| op::insert(tx, Some(key), new, at);
      let ops = ops.iter().map(insert).collect::<Result<_, Fault>>()?;
      event::append(tx, events, at)?;
      Ok(Admission { items, ops })
    })
  }

  /// Counts one more occurrence of items whose texts were not written.
  pub fn seen_again(&mut self, ids: &[BlockId], at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      for id in ids {
        tx.prepare_cached(
          "UPDATE quarantine SET occurrences = occurrences + 1, seen_at = ?2 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), at])?;
      }
      Ok(())
    })
  }

  /// The item that these bytes in this file already have, so that poison that returns gets its
  /// old placeholder.
  pub fn existing_item(
    &self,
    path: &Path,
    hash: ContentHash,
    n: u32,
  ) -> Result<Option<Existing>, StoreError> {
    self.read(|conn| Ok(existing(conn, path, hash, n)?))
  }
}

/// The result if an item was approved in the meantime: the states of all items, unchanged.
fn refusal(
  conn: &Connection,
  items: &[(&NewItem<'_>, ContentHash)],
) -> Result<Option<Admission>, Fault> {
  let mut standing = Vec::with_capacity(items.len());
  for (item, hash) in items {
    standing.push(match existing(conn, item.path, *hash, item.n)? {
      Some(Existing { id, status, occurrences, .. }) => {
        Admitted { id, fresh: false, occurrences, status }
      }
      None => Admitted { id: item.id.clone(), fresh: true, occurrences: 0, status: item.status },
    });
  }
  let admission = Admission { items: standing, ops: Vec::new() };
  Ok(admission.is_refused().then_some(admission))
}

fn existing(
  conn: &Connection,
  path: &Path,
  hash: ContentHash,
  n: u32,
) -> rusqlite::Result<Option<Existing>> {
  conn
    .prepare_cached(
      "SELECT id, status, occurrences, context FROM quarantine
       WHERE hash = ?1 AND path = ?2 AND n = ?3",
    )?
    .query_row(params![hash.0, path_bytes(path), n], |row| {
      let context: Option<Vec<u8>> = row.get(3)?;
      let context = context.as_deref().and_then(ContentHash::from_slice);
      Ok(Existing { id: word(row, 0)?, status: word(row, 1)?, occurrences: row.get(2)?, context })
    })
    .optional()
}

fn admit(
  conn: &Connection,
  key: &MasterKey,
  item: &NewItem<'_>,
  hash: ContentHash,
  at: Micros,
) -> Result<Admitted, Fault> {
  match existing(conn, item.path, hash, item.n)? {
    Some(existing) => come_back(conn, key, item, hash, existing, at),
    None => come(conn, key, item, hash, at),
  }
}

pub(super) fn come(
  conn: &Connection,
  key: &MasterKey,
  item: &NewItem<'_>,
  hash: ContentHash,
  at: Micros,
) -> Result<Admitted, Fault> {
  let taken =
    conn.prepare_cached("SELECT 1 FROM quarantine WHERE id = ?1")?.exists([item.id.as_str()])?;
  if taken {
    return Err(StoreError::RepeatedId { id: item.id.clone() }.into());
  }
  let (sealed, redacted) = seals(key, item, &item.id, hash)?;
  let (version, changed_at) = item.trail.columns();
  conn
    .prepare_cached(
      "INSERT INTO quarantine (id, path, hash, n, line, status, source, trust, attestation, session,
         score, layer, codes, findings, quarantined_at, seen_at, occurrences, len, terminated, sealed,
         redacted, evidence, version, changed_at, due, request, context)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, 1, ?16, ?17,
         ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)",
    )?
    .execute(params![
      item.id.as_str(),
      path_bytes(item.path),
      hash.0,
      item.n,
      item.line,
      item.status.as_str(),
      item.source.as_str(),
      item.trust.as_str(),
      item.attestation.as_str(),
      item.session,
      column::score(item.score),
      item.layer.as_str(),
      column::join_codes(&item.codes),
      item.findings.as_json(),
      at,
      item.bytes.len() as i64,
      item.terminated,
      sealed,
      redacted,
      item.trail.evidence_json,
      version,
      changed_at,
      item.trail.due,
      item.trail.request.map(|hash| hash.0),
      item.context.map(|context| context.0),
    ])?;
  Ok(Admitted { id: item.id.clone(), fresh: true, occurrences: 1, status: item.status })
}

fn come_back(
  conn: &Connection,
  key: &MasterKey,
  item: &NewItem<'_>,
  hash: ContentHash,
  existing: Existing,
  at: Micros,
) -> Result<Admitted, Fault> {
  // Content is the stronger reason to wait than policy.
  let status = match existing.status {
    State::Quarantined => State::Quarantined,
    _ => item.status,
  };
  // The bytes may have been deleted since, and must be sealed again before they are overwritten.
  // They are sealed for the current path of the file.
  let (sealed, redacted) = seals(key, item, &existing.id, hash)?;
  let occurrences = existing.occurrences.saturating_add(1);
  if existing.status == State::Split {
    // It has its whole text again, and its parts must not wait as well.
    part_of::release(conn, &existing.id, "status IN ('quarantined', 'held')")?;
  }
  conn
    .prepare_cached(
      "UPDATE quarantine SET status = ?2, occurrences = ?3, seen_at = ?4, line = ?5, sealed = ?6,
         redacted = ?7, sealed_for = NULL, reviewed_at = NULL, reviewed_by = NULL,
         context = coalesce(?8, context)
       WHERE id = ?1",
    )?
    .execute(params![
      existing.id.as_str(),
      status.as_str(),
      occurrences,
      at,
      item.line,
      sealed,
      redacted,
      item.context.map(|context| context.0)
    ])?;
  // It is a take-out by memfw now, and not by a person any more.
  taken_out::forget(conn, &existing.id)?;
  Ok(Admitted { id: existing.id, fresh: false, occurrences, status })
}

fn seals(
  key: &MasterKey,
  item: &NewItem<'_>,
  id: &BlockId,
  hash: ContentHash,
) -> Result<(Vec<u8>, Vec<u8>), Fault> {
  let context =
    |purpose| SealContext { purpose, id: id.as_str(), path: path_bytes(item.path), hash };
  let sealed = seal_fresh(key, &context(Purpose::Quarantine), item.bytes)?;
  let redacted = seal_fresh(key, &context(Purpose::Redacted), item.redacted)?;
  Ok((sealed, redacted))
}

#[cfg(test)]
mod tests {
  use std::slice;

  use super::*;
  use crate::store::{
    Access, EventFilter, EventKind, ItemFilter,
    tests::{Home, id, item, op},
  };

  #[test]
  fn sealed_bytes_come_back_exactly_and_the_placeholder_too() {
    let home = Home::new();
    let mut ledger = home.ledger();
    let new = NewItem {
      session: Some("s".into()),
      codes: vec![Code::ForgedMarker],
      redacted: b"<!-- x -->",
      ..item(&id("a1b2c3"), b"poison \xff\0\r\n")
    };
    let event = NewEvent::new(EventKind::Quarantined);
    let admission = ledger.quarantine(slice::from_ref(&new), &[op(), op()], &[event], 5).unwrap();
    assert_eq!(admission.items.len(), 1);
    assert!(admission.items[0].fresh);
    assert_eq!(admission.ops.len(), 2);
    let found = ledger.item("a1b").unwrap();
    assert_eq!((found.id.as_str(), found.quarantined_at, found.occurrences), ("a1b2c3", 5, 1));
    assert_eq!((found.path.as_path(), found.line, found.n), (new.path, new.line, 0));
    assert_eq!((found.status, found.source, found.trust), (new.status, new.source, new.trust));
    assert_eq!((found.session, found.codes, found.score), (new.session, new.codes, new.score));
    assert_eq!((found.layer, found.findings), (Some(new.layer), new.findings));
    assert_eq!((found.len, found.terminated, found.in_file), (Some(11), true, false));
    assert_eq!(ledger.unseal(&found.id).unwrap().as_slice(), new.bytes);
    assert_eq!(ledger.redacted_form(&found.id).unwrap(), new.redacted);
    assert_eq!(ledger.events(&EventFilter::default()).unwrap().len(), 1);
    assert_eq!(ledger.open_ops().unwrap().len(), 2);
  }

  #[test]
  fn poison_that_comes_back_is_the_same_item() {
    let mut ledger = Home::new().ledger();
    let first = item(&id("a1b2c3"), b"poison\n");
    let path = first.path;
    let hash = ContentHash::of(first.bytes);
    assert_eq!(ledger.existing_item(path, hash, 0).unwrap(), None);
    ledger.quarantine(&[first], &[], &[], 1).unwrap();
    let again = NewItem { line: 9, ..item(&id("d4e5f6"), b"poison\n") };
    let admission = ledger.quarantine(slice::from_ref(&again), &[op()], &[], 2).unwrap();
    let status = State::Quarantined;
    let expected = Admitted { id: id("a1b2c3"), fresh: false, occurrences: 2, status };
    assert_eq!(admission.items, [expected]);
    let found = ledger.item("a1b2c3").unwrap();
    assert_eq!((found.quarantined_at, found.seen_at, found.line), (1, 2, 9));
    let existing = ledger.existing_item(path, hash, 0).unwrap().unwrap();
    assert_eq!((existing.id, existing.occurrences), (id("a1b2c3"), 2));

    let second = NewItem { n: 1, ..again.clone() };
    let elsewhere = NewItem { path: Path::new("/w/b.md"), id: id("aaaaaa"), ..again.clone() };
    let admission = ledger.quarantine(&[second, elsewhere], &[], &[], 3).unwrap();
    assert!(admission.items.iter().all(|item| item.fresh), "another n, another file");
    let taken = NewItem { bytes: b"other", ..again };
    let error = ledger.quarantine(&[taken], &[], &[], 4).unwrap_err();
    assert!(matches!(error, StoreError::RepeatedId { .. }));
  }

  #[test]
  fn rejected_poison_waits_again_and_a_held_text_with_findings_is_quarantined() {
    let mut ledger = Home::new().ledger();
    let held = NewItem { status: State::Held, ..item(&id("a1b2c3"), b"poison\n") };
    let quarantined = item(&id("d4e5f6"), b"poison\n");
    let status = |ledger: &mut Ledger, new: &NewItem<'_>| {
      ledger.quarantine(slice::from_ref(new), &[], &[], 1).unwrap().items[0].status
    };
    assert_eq!(status(&mut ledger, &held), State::Held);
    assert_eq!(status(&mut ledger, &quarantined), State::Quarantined);
    assert_eq!(status(&mut ledger, &held), State::Quarantined);
    let former = ledger.decide(&id("a1b2c3"), State::Rejected, "ann", 7, &[]).unwrap();
    assert_eq!(former, State::Quarantined);
    assert_eq!(ledger.item("a1b2c3").unwrap().reviewed_by.as_deref(), Some("ann"));
    assert_eq!(status(&mut ledger, &quarantined), State::Quarantined);
    let found = ledger.item("a1b2c3").unwrap();
    assert_eq!((found.reviewed_at, found.reviewed_by, found.occurrences), (None, None, 4));
  }

  #[test]
  fn what_a_person_approved_is_not_taken_out_again_nor_is_anything_beside_it() {
    let mut ledger = Home::new().ledger();
    let fine = item(&id("a1b2c3"), b"fine\n");
    ledger.quarantine(slice::from_ref(&fine), &[], &[], 1).unwrap();
    ledger.decide(&id("a1b2c3"), State::Approved, "ann", 2, &[]).unwrap();
    let poison = item(&id("d4e5f6"), b"poison\n");
    let both = [fine.clone(), poison];
    let admission =
      ledger.quarantine(&both, &[op()], &[NewEvent::new(EventKind::Kept)], 3).unwrap();
    assert!(admission.is_refused());
    assert_eq!(admission.items[0].status, State::Approved);
    assert_eq!(admission.ops, []);
    assert_eq!(ledger.items(&ItemFilter::default()).unwrap().len(), 1);
    assert!(ledger.open_ops().unwrap().is_empty());
    assert_eq!(ledger.item("a1b2c3").unwrap().occurrences, 1);
    assert_eq!(ledger.events(&EventFilter::default()).unwrap(), []);

    ledger.decide(&id("a1b2c3"), State::Quarantined, "ann", 4, &[]).unwrap();
    assert!(!ledger.quarantine(&[fine], &[op()], &[], 5).unwrap().is_refused());
  }

  #[test]
  fn bytes_that_were_deleted_are_held_again_when_they_come_back() {
    let mut ledger = Home::new().ledger();
    let new = item(&id("a1b2c3"), b"poison\n");
    ledger.quarantine(slice::from_ref(&new), &[], &[], 1).unwrap();
    let gone = "UPDATE quarantine SET sealed = NULL, redacted = NULL, status = 'forgotten'";
    ledger.conn.execute(gone, []).unwrap();
    assert!(matches!(ledger.unseal(&new.id), Err(StoreError::Deleted { .. })));
    ledger.quarantine(slice::from_ref(&new), &[], &[], 2).unwrap();
    assert_eq!(ledger.unseal(&new.id).unwrap().as_slice(), new.bytes);
    assert_eq!(ledger.item("a1b2c3").unwrap().status, State::Quarantined);
  }

  #[test]
  fn a_seal_moved_to_another_item_does_not_open() {
    let mut ledger = Home::new().ledger();
    let items = [item(&id("a1b2c3"), b"poison\n"), item(&id("d4e5f6"), b"other\n")];
    ledger.quarantine(&items, &[], &[], 1).unwrap();
    let swap = "UPDATE quarantine SET sealed =
                  (SELECT sealed FROM quarantine WHERE id = 'd4e5f6') WHERE id = 'a1b2c3'";
    ledger.conn.execute(swap, []).unwrap();
    assert!(matches!(ledger.unseal(&id("a1b2c3")), Err(StoreError::Unsealable { .. })));
  }

  #[test]
  fn without_a_key_rows_can_be_read_and_nothing_else() {
    let home = Home::new();
    let new = item(&id("a1b2c3"), b"poison\n");
    home.ledger().quarantine(slice::from_ref(&new), &[], &[], 1).unwrap();
    let mut ledger = Ledger::open(&home.path(), Access::ReadWrite, None).unwrap();
    assert!(ledger.needs_key().unwrap() && !ledger.has_key());
    assert_eq!(ledger.item("a1").unwrap().id, new.id);
    assert!(matches!(ledger.unseal(&new.id), Err(StoreError::NoKey)));
    assert!(matches!(ledger.quarantine(&[new], &[], &[], 2), Err(StoreError::NoKey)));
    assert_eq!(ledger.item("a1").unwrap().occurrences, 1);
  }
}
