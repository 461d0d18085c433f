//! The facts for taking a decision back: the state before it, the last decision, and the place of a
//! placeholder that a rejection removed.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{OptionalExtension as _, params};

use super::{
  Durability, Ledger, Micros, NewEvent, StoreError,
  column::{path_bytes, word},
  decision::check_state,
  event, id,
  item::ITEMS,
};
use crate::{
  memory::{BlockId, Gap},
  provenance::State,
};

impl Ledger {
  /// The item about which a person decided last, with the time; also one that the person had taken out. What was
  /// deleted cannot be restored, so a deletion is not such a decision.
  pub fn last_decided(&self) -> Result<Option<(BlockId, Micros)>, StoreError> {
    self.read(|conn| {
      // memfw and the judge decide, too; their decisions are undone only by their id.
      let sql = format!(
        "SELECT id, reviewed_at AS at FROM ({ITEMS}) AS items
         WHERE status NOT IN ('quarantined', 'held', 'flagged', 'forgotten')
           AND reviewed_by NOT IN ('memfw', 'judge')
           -- The parts of an item were decided about together, and are undone together.
           AND NOT EXISTS (SELECT 1 FROM quarantine whole
             WHERE whole.id = items.part_of AND whole.status = 'split'
               AND whole.reviewed_at = items.reviewed_at)
         UNION ALL
         SELECT id, taken_at FROM quarantine
         WHERE status IN ('quarantined', 'held') AND taken_at IS NOT NULL
         ORDER BY at DESC, id LIMIT 1"
      );
      let found = conn.prepare_cached(&sql)?.query_row([], |row| Ok((word(row, 0)?, row.get(1)?)));
      Ok(found.optional()?)
    })
  }

  /// The state in which an item of the quarantine waited before the last decision about it.
  pub fn former_state(&self, id: &BlockId) -> Result<State, StoreError> {
    self.read(|conn| {
      // Items that an earlier memfw decided have none.
      let sql = "SELECT coalesce(former, 'quarantined') FROM quarantine WHERE id = ?1";
      let found = conn.prepare_cached(sql)?.query_row([id.as_str()], |row| word(row, 0));
      match found.optional()? {
        Some(state) => Ok(state),
        None => Err(id::unknown(conn, ITEMS, id.as_str())?),
      }
    })
  }

  /// Lets an item or a block that is in the state `from` wait again in another one, with the events. `by` remains as
  /// the reviewer of a decision that no person made, so that it is not made once more.
  pub fn undecide(
    &mut self,
    id: &BlockId,
    (from, state): (State, State),
    by: Option<&str>,
    at: Micros,
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      check_state(tx, id, |now| now == from)?;
      let reviewed = by.map(|_| at);
      let changed = tx
        .prepare_cached(
          "UPDATE quarantine SET status = ?2, reviewed_at = ?3, reviewed_by = ?4, awaited = 0
           WHERE id = ?1",
        )?
        .execute(params![id.as_str(), state.as_str(), reviewed, by])?;
      if changed == 0 {
        tx.prepare_cached(
          "UPDATE block SET state = ?2, reviewed_at = ?3, reviewed_by = ?4 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), state.as_str(), reviewed, by])?;
      }
      tx.prepare_cached(
        "UPDATE revision SET approved = 0 WHERE block = (SELECT key FROM block WHERE id = ?1)",
      )?
      .execute([id.as_str()])?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }

  /// Keeps the place of the placeholder that is about to be removed.
  pub fn keep_gap(&mut self, id: &BlockId, gap: &Gap) -> Result<(), StoreError> {
    let json = serde_json::to_string(gap).unwrap_or_default();
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached("UPDATE quarantine SET gap = ?2 WHERE id = ?1")?
        .execute(params![id.as_str(), json])?;
      Ok(())
    })
  }

  /// The places of placeholders that are to return to a file, because their items wait again.
  pub fn gaps(&self, path: &Path) -> Result<Vec<(BlockId, Gap)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id, gap FROM quarantine
         WHERE path = ?1 AND gap IS NOT NULL AND status IN ('quarantined', 'held') ORDER BY id",
      )?;
      let rows = statement.query_map([path_bytes(path)], |row| {
        Ok((word::<BlockId>(row, 0)?, row.get::<_, String>(1)?))
      })?;
      let mut found = Vec::new();
      for row in rows {
        let (id, json) = row?;
        // Without its place an item waits like one whose placeholder another program removed.
        found.extend(serde_json::from_str(&json).ok().map(|gap| (id, gap)));
      }
      Ok(found)
    })
  }

  /// Forgets the places of these placeholders.
  pub fn forget_gaps<'a>(
    &mut self,
    ids: impl Iterator<Item = &'a BlockId>,
  ) -> Result<(), StoreError> {
    for id in ids {
      self.write(Durability::Synced, |tx, _| {
        tx.prepare_cached("UPDATE quarantine SET gap = NULL WHERE id = ?1")?
          .execute([id.as_str()])?;
        Ok(())
      })?;
    }
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{
    detect::Code,
    store::{
      NewItem,
      tests::{Home, block, id, item, scan},
    },
  };

  #[test]
  fn an_item_waits_again_in_its_former_state() {
    let mut ledger = Home::new().ledger();
    let held = NewItem { status: State::Held, ..item(&id("aaaaa1"), b"one\n") };
    ledger.quarantine(&[held], &[], &[], 1).unwrap();
    ledger.quarantine(&[item(&id("aaaaa2"), b"two\n")], &[], &[], 2).unwrap();
    for (name, former) in [("aaaaa1", State::Held), ("aaaaa2", State::Quarantined)] {
      for decision in [State::Approved, State::Rejected] {
        ledger.decide(&id(name), decision, "ann", 5, &[]).unwrap();
        ledger.decide(&id(name), decision, "ann", 6, &[]).unwrap();
        assert_eq!(ledger.former_state(&id(name)).unwrap(), former);
        ledger.undecide(&id(name), (decision, former), None, 7, &[]).unwrap();
        let again = ledger.undecide(&id(name), (decision, former), None, 8, &[]);
        assert!(matches!(again, Err(StoreError::Decided { .. })), "{again:?}");
        let found = ledger.item(name).unwrap();
        assert_eq!((found.status, found.reviewed_at, found.reviewed_by), (former, None, None));
      }
    }
    assert!(ledger.former_state(&id("bbbbbb")).is_err());
    let unknown = ledger.undecide(&id("bbbbbb"), (State::Approved, State::Held), None, 7, &[]);
    assert!(matches!(unknown, Err(StoreError::UnknownId { .. })), "{unknown:?}");
  }

  #[test]
  fn the_last_decision_is_the_last_of_a_person() {
    let mut ledger = Home::new().ledger();
    assert_eq!(ledger.last_decided().unwrap(), None);
    for name in ["aaaaa1", "aaaaa2", "aaaaa3"] {
      ledger.quarantine(&[item(&id(name), name.as_bytes())], &[], &[], 1).unwrap();
    }
    assert_eq!(ledger.last_decided().unwrap(), None, "all of them wait");
    ledger.decide(&id("aaaaa1"), State::Approved, "ann", 5, &[]).unwrap();
    ledger.decide(&id("aaaaa2"), State::Approved, "memfw", 6, &[]).unwrap();
    assert_eq!(ledger.last_decided().unwrap(), Some((id("aaaaa1"), 5)));
    ledger.forget(&id("aaaaa3"), "ann", 7, &[]).unwrap();
    assert_eq!(ledger.last_decided().unwrap(), Some((id("aaaaa1"), 5)), "a deletion is final");
    ledger.quarantine(&[item(&id("aaaaa4"), b"four\n")], &[], &[], 8).unwrap();
    ledger.note_taken_out(&id("aaaaa4"), (&id("bbbbb1"), State::Flagged), ("ann", 9)).unwrap();
    assert_eq!(ledger.last_decided().unwrap(), Some((id("aaaaa4"), 9)));
    assert_eq!(ledger.taken_as("bbb").unwrap(), id("aaaaa4"));
    assert!(ledger.taken_as("ccc").is_err());
    let taken = ledger.taken_out(&id("aaaaa4")).unwrap().unwrap();
    assert_eq!((taken.block, taken.state, taken.at), (id("bbbbb1"), State::Flagged, 9));
    ledger.forget_taken_out(&id("aaaaa4"), 10, &[]).unwrap();
    assert_eq!(ledger.taken_out(&id("aaaaa4")).unwrap(), None);
  }

  #[test]
  fn a_flagged_block_is_flagged_again() {
    let mut ledger = Home::new().ledger();
    let mut flagged = block("bbbbb1", 0);
    flagged.state = State::Flagged;
    flagged.codes = vec![Code::EditedBlock];
    ledger.record(&scan("/w/b.md", &[flagged], 15)).unwrap();
    ledger.decide(&id("bbbbb1"), State::Approved, "ann", 40, &[]).unwrap();
    assert_eq!(ledger.last_decided().unwrap(), Some((id("bbbbb1"), 40)));
    ledger.undecide(&id("bbbbb1"), (State::Approved, State::Flagged), None, 41, &[]).unwrap();
    let found = ledger.item("bbbbb1").unwrap();
    assert_eq!((found.status, found.in_file, found.reviewed_by), (State::Flagged, true, None));
  }

  #[test]
  fn a_place_is_kept_until_it_is_used_and_counts_only_for_an_item_that_waits() {
    let mut ledger = Home::new().ledger();
    let new = item(&id("aaaaa1"), b"one\n");
    let path = new.path;
    ledger.quarantine(&[new], &[], &[], 1).unwrap();
    ledger.decide(&id("aaaaa1"), State::Rejected, "ann", 5, &[]).unwrap();
    let gap = Gap::around(b"- a\nx\n- b\n", &(4..6));
    ledger.keep_gap(&id("aaaaa1"), &gap).unwrap();
    assert_eq!(ledger.gaps(path).unwrap(), []);
    let states = (State::Rejected, State::Quarantined);
    ledger.undecide(&id("aaaaa1"), states, None, 6, &[]).unwrap();
    assert_eq!(ledger.gaps(path).unwrap(), [(id("aaaaa1"), gap)]);
    ledger.forget_gaps([id("aaaaa1")].iter()).unwrap();
    assert_eq!(ledger.gaps(path).unwrap(), []);
  }
}
