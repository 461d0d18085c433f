//! The ledger after the process was killed in the middle.
#![forbid(unsafe_code)]

use std::fs;

use super::{Home, block, id, item, op, scan};
use crate::{
  provenance::State,
  store::{ItemFilter, Ledger},
};

/// The files that another process would find if this one were killed now, without a shutdown.
fn killed_now(home: &Home) -> Home {
  let copy = Home::new();
  fs::create_dir(copy.dir()).unwrap();
  for name in ["ledger.db", "ledger.db-wal"] {
    fs::copy(home.dir().join(name), copy.dir().join(name)).unwrap();
  }
  copy
}

#[test]
fn a_quarantine_and_its_operation_are_there_after_a_kill() {
  let home = Home::new();
  let mut ledger = home.ledger();
  ledger.quarantine(&[item(&id("a1b2c3"), b"poison")], &[op()], &[], 1).unwrap();
  let mut after = killed_now(&home).ledger();
  assert_eq!(after.unseal(&id("a1b2c3")).unwrap().as_slice(), b"poison");
  let open = after.open_ops().unwrap();
  assert_eq!(open.len(), 1);
  assert_eq!(open[0].images.as_ref().unwrap().before.as_slice(), op().before);
  after.finish(open[0].id).unwrap();
}

#[test]
fn a_transaction_that_did_not_end_never_was() {
  let home = Home::new();
  let mut ledger = home.ledger();
  ledger.quarantine(&[item(&id("a1b2c3"), b"poison")], &[], &[], 1).unwrap();
  ledger.conn.execute_batch("BEGIN IMMEDIATE; DELETE FROM quarantine").unwrap();
  let after = killed_now(&home).ledger();
  assert_eq!(after.items(&ItemFilter::default()).unwrap().len(), 1);
  assert_eq!(after.damage().unwrap(), [""; 0]);
}

#[test]
fn what_must_be_durable_is_and_the_rest_is_quick() {
  const NORMAL: i64 = 1;
  const FULL: i64 = 2;
  let mut ledger = Home::new().ledger();
  let synchronous = |ledger: &Ledger| -> i64 {
    ledger.conn.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap()
  };
  // Alternately, so that no case depends on the state of the one before.
  for at in 0..2 {
    ledger.record(&scan("/w/a.md", &[block("aaaaa1", 0)], at)).unwrap();
    assert_eq!(synchronous(&ledger), NORMAL, "record");
    ledger.quarantine(&[item(&id("a1b2c3"), b"poison")], &[], &[], at).unwrap();
    assert_eq!(synchronous(&ledger), FULL, "quarantine");
    ledger.append_events(&[], at).unwrap();
    assert_eq!(synchronous(&ledger), NORMAL, "events");
    let begun = ledger.begin(&op(), at).unwrap();
    assert_eq!(synchronous(&ledger), FULL, "begin");
    ledger.finish(begun).unwrap();
    assert_eq!(synchronous(&ledger), NORMAL, "finish");
    ledger.decide(&id("a1b2c3"), State::Rejected, "ann", at, &[]).unwrap();
    assert_eq!(synchronous(&ledger), FULL, "decide");
  }
}

#[test]
fn every_connection_deletes_securely_and_checks_references() {
  let ledger = Home::new().ledger();
  let value =
    |name| -> i64 { ledger.conn.pragma_query_value(None, name, |row| row.get(0)).unwrap() };
  for (name, expected) in
    [("secure_delete", 1), ("foreign_keys", 1), ("busy_timeout", 5000), ("auto_vacuum", 2)]
  {
    assert_eq!(value(name), expected, "{name}");
  }
  let mode: String =
    ledger.conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
  assert_eq!(mode, "wal");
}
