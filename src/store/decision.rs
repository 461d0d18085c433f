//! A person's decisions about items and flagged blocks. A decision about what was read earlier counts only if nobody has
//! decided since, which is checked in its transaction.
#![forbid(unsafe_code)]

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
  Durability, ExceptionKey, Ledger, Micros, NewApproval, NewEvent, StoreError, baseline, column,
  column::word,
  error::Fault,
  event, exception, id,
  item::{ITEMS, QUARANTINED},
  request,
};
use crate::{
  memory::{BlockId, ContentHash},
  provenance::State,
};

impl Ledger {
  /// Records a person's decision about an item or a flagged block, with the events; returns its
  /// previous state.
  pub fn decide(
    &mut self,
    id: &BlockId,
    status: State,
    by: &str,
    at: Micros,
    events: &[NewEvent],
  ) -> Result<State, StoreError> {
    // A person's decision is rare, and must survive a power cut.
    self.write(Durability::Synced, |tx, _| {
      let former = change_state(tx, id, (status, by, at))?;
      event::append(tx, events, at)?;
      Ok(former)
    })
  }

  /// Records a person's decision like [`Ledger::decide`], unless somebody has decided since the item or block was read
  /// in the state `seen`. One that waits can be decided about whatever it was.
  pub fn decide_once(
    &mut self,
    id: &BlockId,
    seen: State,
    status: State,
    (by, at): (&str, Micros),
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      check_state(tx, id, |now| now == seen || now.is_waiting())?;
      change_state(tx, id, (status, by, at))?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }

  /// Approves an item or a flagged block, with the hashes and contexts of its approval and the events, in one
  /// transaction; unless somebody has decided since, as in [`Ledger::decide_once`].
  pub fn approve(
    &mut self,
    id: &BlockId,
    seen: State,
    texts: &[(ContentHash, ContentHash)],
    approval: &NewApproval<'_>,
    events: &[NewEvent],
  ) -> Result<(), StoreError> {
    let NewApproval { by, reason, codes, at, until, beside } = *approval;
    self.write(Durability::Synced, |tx, _| {
      check_state(tx, id, |now| now == seen || now.is_waiting())?;
      for &(hash, context) in texts {
        let key = ExceptionKey { hash, item: Some(id.clone()) };
        exception::insert(tx, &key, context, codes, (reason, at, until))?;
      }
      exception::add_beside(tx, id, beside)?;
      change_state(tx, id, (State::Approved, by, at))?;
      event::append(tx, events, at)?;
      Ok(())
    })
  }

  /// Deletes the sealed bytes of an item that waits or was rejected, and the owner's request when it was written,
  /// because a person asks for it, with the events; returns its previous state. The record stays, and so does
  /// the placeholder, which contains none of the text.
  pub fn forget(
    &mut self,
    id: &BlockId,
    by: &str,
    at: Micros,
    events: &[NewEvent],
  ) -> Result<State, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let former = tx
        .prepare_cached("SELECT status, request FROM quarantine WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
          Ok((word::<State>(row, 0)?, column::optional_hash(row, 1)?))
        })
        .optional()?;
      let Some((former, asked)) = former else {
        return Err(id::unknown(tx, QUARANTINED, id.as_str())?);
      };
      check_state(tx, id, |now| now.is_waiting() || now == State::Rejected)?;
      tx.prepare_cached(
        "UPDATE quarantine SET sealed = NULL, due = 0, request = NULL, status = ?2,
           reviewed_at = ?3, reviewed_by = ?4
         WHERE id = ?1",
      )?
      .execute(params![id.as_str(), State::Forgotten.as_str(), at, by])?;
      if let Some(hash) = asked {
        request::forget(tx, hash)?;
      }
      event::append(tx, events, at)?;
      Ok(former)
    })
  }
}

/// The state of an item or block; an error if it is not as expected.
pub(super) fn check_state(
  conn: &Connection,
  id: &BlockId,
  is_expected: impl Fn(State) -> bool,
) -> Result<State, Fault> {
  let state = state_of(conn, id)?.map(|(state, _)| state);
  let Some(state) = state else { return Err(id::unknown(conn, ITEMS, id.as_str())?) };
  if is_expected(state) {
    return Ok(state);
  }
  Err(StoreError::Decided { id: id.clone(), state }.into())
}

/// The state of an item, or of a block that is no item; also whether it is an item.
fn state_of(conn: &Connection, id: &BlockId) -> rusqlite::Result<Option<(State, bool)>> {
  conn
    .prepare_cached(
      "SELECT status, 1 FROM quarantine WHERE id = ?1
       UNION ALL SELECT state, 0 FROM block WHERE id = ?1 LIMIT 1",
    )?
    .query_row([id.as_str()], |row| Ok((word(row, 0)?, row.get(1)?)))
    .optional()
}

/// Records the new state of an item or block, and who decided when; returns the previous state.
fn change_state(
  conn: &Connection,
  id: &BlockId,
  (status, by, at): (State, &str, Micros),
) -> Result<State, Fault> {
  // A baseline block without findings has no row of its own yet.
  baseline::expand_around(conn, id)?;
  let Some((former, is_item)) = state_of(conn, id)? else {
    return Err(id::unknown(conn, ITEMS, id.as_str())?);
  };
  let change = if is_item {
    "UPDATE quarantine SET former = iif(status IN ('quarantined', 'held'), status, former),
       status = ?2, reviewed_at = ?3, reviewed_by = ?4
     WHERE id = ?1"
  } else {
    "UPDATE block SET state = ?2, state_at = ?3, reviewed_at = ?3, reviewed_by = ?4 WHERE id = ?1"
  };
  conn.prepare_cached(change)?.execute(params![id.as_str(), status.as_str(), at, by])?;
  // A person who decides about a block has read all of its lines.
  conn
    .prepare_cached(
      "UPDATE revision SET approved = ?2 WHERE block = (SELECT key FROM block WHERE id = ?1)",
    )?
    .execute(params![id.as_str(), status == State::Approved])?;
  Ok(former)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::{Home, id, item};

  #[test]
  fn of_two_decisions_about_what_was_read_once_the_first_counts() {
    let mut ledger = Home::new().ledger();
    let one = item(&id("aaaaa1"), b"one\n");
    ledger.quarantine(std::slice::from_ref(&one), &[], &[], 1).unwrap();
    let seen = State::Quarantined;
    let hash = ContentHash::of(one.bytes);
    let approval =
      NewApproval { by: "ann", reason: "", codes: &[], at: 3, until: None, beside: &[] };
    let approve =
      |ledger: &mut Ledger, seen| ledger.approve(&one.id, seen, &[(hash, hash)], &approval, &[]);
    let reject =
      |ledger: &mut Ledger| ledger.decide_once(&one.id, seen, State::Rejected, ("bob", 2), &[]);
    reject(&mut ledger).unwrap();
    let error = approve(&mut ledger, seen).unwrap_err();
    assert_eq!(error.to_string(), "`aaaaa1` is already rejected");
    assert_eq!(error.hint().as_deref(), Some("see the decision: `memfw show aaaaa1`"));
    assert_eq!(ledger.exceptions().unwrap(), [], "nothing of it is recorded");
    approve(&mut ledger, State::Rejected).unwrap();
    assert_eq!(ledger.exceptions().unwrap().len(), 1, "who knows of the rejection may change it");
    for refused in [reject(&mut ledger).err(), ledger.forget(&one.id, "bob", 4, &[]).err()] {
      assert_eq!(refused.unwrap().to_string(), "`aaaaa1` is already approved");
    }
    let found = ledger.item("aaaaa1").unwrap();
    assert_eq!((found.status, found.reviewed_by.as_deref()), (State::Approved, Some("ann")));
    ledger.undecide(&one.id, (State::Approved, seen), None, 5, &[]).unwrap();
    approve(&mut ledger, State::Rejected).unwrap();
  }

  #[test]
  fn deciding_about_an_unknown_id_names_the_nearest() {
    let mut ledger = Home::new().ledger();
    ledger.quarantine(&[item(&id("a1b2c3"), b"one\n")], &[], &[], 1).unwrap();
    let error = ledger.decide(&id("a1b2c4"), State::Approved, "ann", 2, &[]).unwrap_err();
    assert!(
      matches!(&error, StoreError::UnknownId { nearest: Some(found), .. } if *found == id("a1b2c3")),
      "{error:?}"
    );
  }
}
