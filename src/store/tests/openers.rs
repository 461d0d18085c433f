//! Several connections at one time.
#![forbid(unsafe_code)]

use std::{
  slice,
  sync::{
    Barrier,
    atomic::{AtomicBool, Ordering},
    mpsc,
  },
  thread,
  time::Duration,
};

use rusqlite::Connection;

use super::{Home, block, id, item, key, op, scan};
use crate::{
  memory::BlockId,
  store::{Access, BlockRow, ItemFilter, Ledger, StoreError},
};

const OPENERS: usize = 16;
const ROUNDS: usize = 12;

/// Opens the ledger of a new home from several threads, at one moment.
fn at_once(work: impl Fn(usize, Ledger) + Sync) -> Home {
  let home = Home::new();
  let barrier = Barrier::new(OPENERS);
  thread::scope(|scope| {
    for opener in 0..OPENERS {
      let (home, barrier, work) = (&home, &barrier, &work);
      scope.spawn(move || {
        barrier.wait();
        work(opener, Ledger::open(&home.path(), Access::ReadWrite, Some(key())).unwrap());
      });
    }
  });
  home
}

#[test]
fn sixteen_openers_at_once_all_get_in() {
  for _ in 0..ROUNDS {
    let home = at_once(|_, _| ());
    assert_eq!(home.ledger().damage().unwrap(), [""; 0]);
  }
}

#[test]
fn sixteen_writers_at_once_all_get_their_turn() {
  let home = at_once(|opener, mut ledger| {
    let id = id(&format!("aaaa{opener:02}"));
    let admission = ledger.quarantine(&[item(&id, id.as_str().as_bytes())], &[op()], &[], 1);
    ledger.finish(admission.unwrap().ops[0]).unwrap();
  });
  let ledger = home.ledger();
  assert_eq!(ledger.items(&ItemFilter::default()).unwrap().len(), OPENERS);
  assert!(ledger.open_ops().unwrap().is_empty());
  assert_eq!(ledger.damage().unwrap(), [""; 0]);
}

#[test]
fn an_opener_waits_for_one_who_writes_before_there_is_a_write_ahead_log() {
  let home = Home::new();
  drop(home.ledger());
  // Like a backup, or a database that another process is just creating.
  let other = Connection::open(home.path()).unwrap();
  other.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
  other.execute_batch("BEGIN IMMEDIATE").unwrap();
  let (sender, receiver) = mpsc::channel();
  thread::scope(|scope| {
    let path = home.path();
    scope.spawn(move || sender.send(Ledger::open(&path, Access::ReadWrite, None).map(drop)));
    let early = receiver.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "it did not wait: {early:?}");
    other.execute_batch("ROLLBACK").unwrap();
    receiver.recv().unwrap().unwrap();
  });
}

#[test]
fn a_reader_sees_whole_scans_while_another_connection_writes() {
  let home = Home::new();
  let mut writer = home.ledger();
  let rows = |at: i64| -> Vec<BlockRow> {
    let mut rows: Vec<BlockRow> = (0..40).map(|n| block(&format!("aaaa{n:02}"), n)).collect();
    for row in &mut rows {
      row.revisions[0].at = at;
    }
    rows
  };
  writer.record(&scan("/w/a.md", &rows(0), 0)).unwrap();
  let done = AtomicBool::new(false);
  let started = Barrier::new(3);
  thread::scope(|scope| {
    for _ in 0..2 {
      scope.spawn(|| {
        let mut reads = 0_u32;
        started.wait();
        while !done.load(Ordering::Relaxed) || reads == 0 {
          let reader = home.reader();
          let (file, blocks) = reader.provenance("/w/a.md".as_ref()).unwrap().unwrap();
          let scanned = file.scanned_at.unwrap();
          assert_eq!(blocks.len(), 40);
          assert!(blocks.iter().all(|block| block.revisions[0].at == scanned), "a torn view");
          reads += 1;
        }
      });
    }
    started.wait();
    for at in 1..100 {
      writer.record(&scan("/w/a.md", &rows(at), at)).unwrap();
    }
    done.store(true, Ordering::Relaxed);
  });
}

#[test]
fn a_snapshot_stays_as_it_was() {
  let home = Home::new();
  let mut writer = home.ledger();
  let reader = home.reader();
  let view = reader.snapshot().unwrap();
  writer.quarantine(&[item(&id("a1b2c3"), b"poison")], &[], &[], 1).unwrap();
  assert_eq!(view.items(&ItemFilter::default()).unwrap(), []);
  assert_eq!(view.counts(1).unwrap().waiting, 0);
  drop(view);
  assert_eq!(reader.items(&ItemFilter::default()).unwrap().len(), 1);
}

#[test]
fn a_writer_that_never_ends_is_reported_and_nothing_is_half_done() {
  let home = Home::new();
  let (mut one, two) = (home.ledger(), home.ledger());
  one.conn.busy_timeout(Duration::ZERO).unwrap();
  two.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
  let new = item(&id("a1b2c3"), b"poison");
  let error = one.quarantine(slice::from_ref(&new), &[op()], &[], 1).unwrap_err();
  assert!(matches!(&error, StoreError::Locked { path } if *path == home.path()), "{error:?}");
  assert!(error.is_passing());
  assert!(one.file("/w/a.md".as_ref()).is_ok(), "reading goes on");
  two.conn.execute_batch("ROLLBACK").unwrap();
  one.quarantine(&[new], &[op()], &[], 1).unwrap();
}

#[test]
fn a_key_that_is_not_this_databases_is_refused_by_everybody() {
  use crate::seal::MasterKey;
  let home = Home::new();
  let path = home.path();
  drop(Ledger::open(&path, Access::ReadWrite, None).unwrap());
  let mut first = Ledger::open(&path, Access::ReadWrite, None).unwrap();
  assert!(!first.needs_key().unwrap());
  let other = || MasterKey::new([4; 32]);
  // Two that were opened without a key and are given different ones: the first one counts.
  first.unlock(key()).unwrap();
  assert!(first.needs_key().unwrap());
  for access in [Access::ReadWrite, Access::ReadOnly] {
    let error = Ledger::open(&path, access, Some(other())).unwrap_err();
    assert!(matches!(error, StoreError::WrongKey { .. }), "{error:?}");
    assert!(Ledger::open(&path, access, Some(key())).is_ok());
  }
  assert!(matches!(first.unlock(other()), Err(StoreError::WrongKey { .. })));
  let secret: BlockId = id("a1b2c3");
  first.quarantine(&[item(&secret, b"poison")], &[], &[], 1).unwrap();
  assert_eq!(first.unseal(&secret).unwrap().as_slice(), b"poison", "its own key stays");
}
