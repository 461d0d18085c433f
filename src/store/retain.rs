//! Prunes old records: events, and the bytes of rejected items.
//!
//! Items that wait for a person, and text that is still in a file, are never pruned. A rejected item keeps
//! its row: its bytes are recognised when they return, and are then sealed again.
//!
//! One call does a bounded amount of work, so no process waits long for the write lock.
#![forbid(unsafe_code)]

use rusqlite::params;

use super::{Durability, EventKind, Ledger, Micros, StoreError, injected, question, request};

/// Largest number of rows that one call prunes; some milliseconds of work.
const AT_ONCE: u64 = 2_000;

/// What is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep<'a> {
  /// Events before this time are pruned, and what runs have read before it.
  pub events_since: Micros,
  /// The number of events above which the oldest are pruned.
  pub events: u64,
  /// Kinds of events that are pruned before all others when there are too many.
  pub routine: &'a [EventKind],
  /// Before this time: the bytes of rejected items, the requests of texts that no longer exist, and
  /// the answers of a judge are pruned.
  pub rejected_since: Micros,
}

/// The number of rows that one call has pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
  /// The number of pruned events.
  pub events: u64,
  /// The number of rejected items that lost their bytes.
  pub rejected: u64,
  /// Whether there is more to prune.
  pub more: bool,
}

impl Ledger {
  /// Prunes some of what is too old or too much.
  pub fn retain(&mut self, keep: &Keep<'_>) -> Result<Dropped, StoreError> {
    // Most calls find nothing, and need not wait for the write lock for that.
    if self.is_within(keep)? {
      return Ok(Dropped::default());
    }
    let limit = AT_ONCE as i64;
    self.write(Durability::Seen, |tx, _| {
      let mut events = tx.execute(
        "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < ?1 ORDER BY at LIMIT ?2)",
        params![keep.events_since, limit],
      )? as u64;
      let left: i64 = tx.query_row("SELECT count(*) FROM event", [], |row| row.get(0))?;
      let mut over = (left as u64).saturating_sub(keep.events).min(AT_ONCE);
      let routine: Vec<&str> = keep.routine.iter().map(|kind| kind.as_str()).collect();
      let routine = serde_json::Value::from(routine).to_string();
      // Both statements get both parameters, so the second one mentions `?1` as well.
      for sql in [
        "DELETE FROM event WHERE id IN (SELECT id FROM event
           WHERE event IN (SELECT value FROM json_each(?1)) ORDER BY id LIMIT ?2)",
        "DELETE FROM event WHERE ?1 IS NOT NULL
           AND id IN (SELECT id FROM event ORDER BY id LIMIT ?2)",
      ] {
        if over > 0 {
          let gone = tx.execute(sql, params![routine, over as i64])? as u64;
          over = over.saturating_sub(gone);
          events += gone;
        }
      }
      // The placeholder stays, so that it is recognised wherever it still is.
      let rejected = tx.execute(
        "UPDATE quarantine SET sealed = NULL WHERE id IN (SELECT id FROM quarantine
           WHERE status = 'rejected' AND sealed IS NOT NULL AND reviewed_at < ?1 LIMIT ?2)",
        params![keep.rejected_since, limit],
      )? as u64;
      let requests = request::sweep(tx, keep.rejected_since, limit)?;
      let questions = question::sweep(tx, keep.rejected_since, limit)?;
      let injected = injected::sweep(tx, keep.events_since, limit)?;
      let swept = [events, rejected, requests, questions, injected];
      // A full batch does not prove that more is left, but another call is cheap.
      let more = swept.iter().any(|n| *n >= AT_ONCE);
      Ok(Dropped { events, rejected, more })
    })
  }

  /// The time of the newest event before `at`.
  pub fn last_event_before(&self, at: Micros) -> Result<Option<Micros>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT max(at) FROM event WHERE at < ?1";
      Ok(conn.prepare_cached(sql)?.query_row([at], |row| row.get(0))?)
    })
  }

  fn is_within(&self, keep: &Keep<'_>) -> Result<bool, StoreError> {
    self.read(|conn| {
      let sql = "SELECT NOT EXISTS (SELECT 1 FROM event WHERE at < ?1)
                   AND (SELECT count(*) FROM event) <= ?2
                   AND NOT EXISTS (SELECT 1 FROM quarantine
                     WHERE status = 'rejected' AND sealed IS NOT NULL AND reviewed_at < ?3)";
      let most = i64::try_from(keep.events).unwrap_or(i64::MAX);
      let known = params![keep.events_since, most, keep.rejected_since];
      let is_within: bool = conn.prepare_cached(sql)?.query_row(known, |row| row.get(0))?;
      Ok(
        is_within
          && !request::has_unused(conn, keep.rejected_since)?
          && !question::has_old(conn, keep.rejected_since)?
          && !injected::has_old(conn, keep.events_since)?,
      )
    })
  }
}

#[cfg(test)]
mod tests {
  use std::slice;

  use super::*;
  use crate::{
    provenance::State,
    store::{
      EventFilter, NewEvent,
      tests::{Home, id, item},
    },
  };

  const ALL: Keep<'static> =
    Keep { events_since: 0, events: 1_000_000, routine: &[EventKind::Kept], rejected_since: 0 };

  fn kinds(ledger: &Ledger) -> Vec<EventKind> {
    let filter = EventFilter { ascending: true, ..EventFilter::default() };
    ledger.events(&filter).unwrap().into_iter().map(|row| row.event).collect()
  }

  #[test]
  fn old_events_go_and_past_the_number_routine_ones_go_first() {
    let mut ledger = Home::new().ledger();
    ledger.append_events(&[NewEvent::new(EventKind::Approved)], 1).unwrap();
    let mixed = [
      EventKind::Kept,
      EventKind::Quarantined,
      EventKind::Kept,
      EventKind::Rejected,
      EventKind::Kept,
    ]
    .map(NewEvent::new);
    ledger.append_events(&mixed, 5).unwrap();
    assert_eq!(ledger.retain(&ALL).unwrap(), Dropped::default());
    let gone = ledger.retain(&Keep { events_since: 5, ..ALL }).unwrap();
    assert_eq!(gone, Dropped { events: 1, ..Dropped::default() });
    assert_eq!(
      kinds(&ledger),
      [
        EventKind::Kept,
        EventKind::Quarantined,
        EventKind::Kept,
        EventKind::Rejected,
        EventKind::Kept
      ]
    );
    ledger.retain(&Keep { events: 3, ..ALL }).unwrap();
    assert_eq!(
      kinds(&ledger),
      [EventKind::Quarantined, EventKind::Rejected, EventKind::Kept],
      "the oldest routine ones"
    );
    ledger.retain(&Keep { events: 1, ..ALL }).unwrap();
    assert_eq!(kinds(&ledger), [EventKind::Rejected], "then the oldest of all");
    // Numbers are never reused, even after the newest event was pruned.
    ledger.retain(&Keep { events: 0, ..ALL }).unwrap();
    ledger.append_events(&[NewEvent::new(EventKind::Stopped)], 9).unwrap();
    assert!(ledger.events(&EventFilter::default()).unwrap()[0].id > 6);
  }

  #[test]
  fn one_call_does_a_bounded_piece() {
    let mut ledger = Home::new().ledger();
    let many: Vec<NewEvent> = (0..AT_ONCE + 7).map(|_| NewEvent::new(EventKind::Kept)).collect();
    ledger.append_events(&many, 1).unwrap();
    let keep = Keep { events_since: 2, ..ALL };
    let first = ledger.retain(&keep).unwrap();
    assert_eq!(first, Dropped { events: AT_ONCE, rejected: 0, more: true });
    assert_eq!(ledger.retain(&keep).unwrap(), Dropped { events: 7, ..Dropped::default() });
  }

  #[test]
  fn only_rejected_bytes_go_and_they_are_sealed_again_when_they_come_back() {
    let mut ledger = Home::new().ledger();
    let bytes: [&[u8]; 3] = [b"one\n", b"two\n", b"three\n"];
    let ids = ["a1b2c1", "a1b2c2", "a1b2c3"].map(id);
    for (id, bytes) in ids.iter().zip(bytes) {
      ledger.quarantine(&[item(id, bytes)], &[], &[], 1).unwrap();
    }
    ledger.decide(&ids[0], State::Rejected, "ann", 5, &[]).unwrap();
    ledger.decide(&ids[1], State::Approved, "ann", 5, &[]).unwrap();
    let keep = Keep { rejected_since: 5, ..ALL };
    assert_eq!(ledger.retain(&keep).unwrap(), Dropped::default(), "not old enough");
    let keep = Keep { rejected_since: 6, ..ALL };
    assert_eq!(ledger.retain(&keep).unwrap(), Dropped { rejected: 1, ..Dropped::default() });
    assert_eq!(ledger.retain(&keep).unwrap(), Dropped::default(), "once");
    assert!(matches!(ledger.unseal(&ids[0]), Err(StoreError::Deleted { .. })));
    assert_eq!(ledger.item("a1b2c1").unwrap().status, State::Rejected, "the record stays");
    for at in [1, 2] {
      assert_eq!(ledger.unseal(&ids[at]).unwrap().as_slice(), bytes[at]);
    }
    let back = item(&id("ffffff"), bytes[0]);
    let admission = ledger.quarantine(slice::from_ref(&back), &[], &[], 9).unwrap();
    assert_eq!((admission.items[0].id.as_str(), admission.items[0].occurrences), ("a1b2c1", 2));
    assert_eq!(ledger.unseal(&ids[0]).unwrap().as_slice(), bytes[0]);
  }
}
