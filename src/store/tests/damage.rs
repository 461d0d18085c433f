//! Invalid databases: each gives its own error, and none is changed.
#![forbid(unsafe_code)]

use std::{
  fs,
  os::unix::{fs::PermissionsExt as _, net::UnixListener},
  slice,
};

use rusqlite::Connection;

use super::{Home, block, id, item, op, scan};
use crate::store::{Access, BlockRow, ItemFilter, Ledger, StoreError, migrate::KNOWN};

fn open(home: &Home, access: Access) -> StoreError {
  Ledger::open(&home.path(), access, None).unwrap_err()
}

/// A home whose database file is created by `make`.
fn home(make: impl FnOnce(&Home)) -> Home {
  let home = Home::new();
  fs::create_dir(home.dir()).unwrap();
  make(&home);
  home
}

const BOTH: [Access; 2] = [Access::ReadWrite, Access::ReadOnly];

#[test]
fn directory_and_files_are_for_the_owner_only() {
  let home = Home::new();
  let mut ledger = home.ledger();
  ledger.append_events(&[], 1).unwrap();
  let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
  assert_eq!(mode(home.dir()), 0o700);
  for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
    assert_eq!(mode(home.dir().join(name)), 0o600, "{name}");
  }
}

#[test]
fn a_newer_database_is_refused_and_stays_as_it_is() {
  let home = Home::new();
  drop(home.ledger());
  let raw = Connection::open(home.path()).unwrap();
  raw.pragma_update(None, "user_version", 99).unwrap();
  drop(raw);
  let before = fs::read(home.path()).unwrap();
  for access in BOTH {
    let error = open(&home, access);
    let newer = matches!(&error, StoreError::Newer { found: 99, known: KNOWN, path, .. } if *path == home.path());
    assert!(newer, "{error:?}");
  }
  assert!(before == fs::read(home.path()).unwrap());
}

#[test]
fn other_programs_files_are_refused_and_stay_as_they_are() {
  let text = home(|home| fs::write(home.path(), "# Memory\n".repeat(1000)).unwrap());
  let short = home(|home| fs::write(home.path(), "x").unwrap());
  for home in [text, short] {
    let before = fs::read(home.path()).unwrap();
    for access in BOTH {
      let error = open(&home, access);
      assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
    }
    assert!(before == fs::read(home.path()).unwrap());
  }

  let plain = home(|home| {
    Connection::open(home.path()).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
  });
  let marked = home(|home| {
    let raw = Connection::open(home.path()).unwrap();
    raw.execute_batch("PRAGMA application_id = 7; PRAGMA user_version = 1").unwrap();
  });
  for home in [plain, marked] {
    let before = fs::read(home.path()).unwrap();
    for access in BOTH {
      let error = open(&home, access);
      assert!(matches!(error, StoreError::NotOurs { .. }), "{error:?}");
    }
    assert!(before == fs::read(home.path()).unwrap());
  }
}

#[test]
fn reading_makes_nothing() {
  let absent = Home::new();
  assert!(matches!(open(&absent, Access::ReadOnly), StoreError::Missing { .. }));
  assert!(!absent.dir().exists());
  let empty = home(|home| fs::write(home.path(), "").unwrap());
  assert!(matches!(open(&empty, Access::ReadOnly), StoreError::Missing { .. }));
  assert_eq!(fs::metadata(empty.path()).unwrap().len(), 0);
  assert_eq!(empty.ledger().files().unwrap(), [], "an empty file becomes a ledger");
}

#[test]
fn a_reader_cannot_write() {
  let home = Home::new();
  drop(home.ledger());
  let mut reader = home.reader();
  let error = reader.quarantine(&[item(&id("a1b2c3"), b"poison")], &[], &[], 1).unwrap_err();
  assert!(matches!(error, StoreError::ReadOnly { .. }));
}

#[test]
fn a_place_where_no_database_can_be_is_said() {
  let file = home(|home| fs::create_dir(home.path()).unwrap());
  for access in BOTH {
    let error = open(&file, access);
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
  }
  let socket = home(|home| drop(UnixListener::bind(home.path()).unwrap()));
  assert!(matches!(open(&socket, Access::ReadOnly), StoreError::CannotOpen { .. }));
  let parent = Home::new();
  fs::write(parent.dir(), "not a directory").unwrap();
  let error = open(&parent, Access::ReadWrite);
  assert!(
    matches!(&error, StoreError::CannotOpen { path, .. } if *path == parent.dir()),
    "{error:?}"
  );
}

#[test]
fn a_damaged_database_is_found_out() {
  let home = Home::new();
  drop(home.ledger());
  // Beyond the pages of an empty ledger, which has tables without rows.
  let start = fs::metadata(home.path()).unwrap().len() as usize;
  let mut ledger = home.ledger();
  let rows: Vec<BlockRow> = (0..2000).map(|n| block(&format!("{n:06x}"), n)).collect();
  let file = ledger.record(&scan("/w/a.md", &rows, 1)).unwrap();
  drop(ledger);
  let mut bytes = fs::read(home.path()).unwrap();
  let end = bytes.len();
  bytes[start..end].fill(0xa5);
  fs::write(home.path(), bytes).unwrap();
  let ledger = home.reader();
  let error = ledger.blocks(file).unwrap_err();
  assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
  assert_ne!(ledger.damage().unwrap(), [""; 0]);
}

#[test]
fn a_value_that_memfw_does_not_write_is_said() {
  let mut ledger = Home::new().ledger();
  ledger.record(&scan("/w/a.md", &[block("aaaaa1", 0)], 1)).unwrap();
  ledger.conn.execute("UPDATE block SET state = 'fine'", []).unwrap();
  let error = ledger.blocks(1).unwrap_err();
  assert!(matches!(error, StoreError::BadValue { .. }), "{error:?}");
  assert!(error.to_string().contains("fine"), "{error}");
}

#[test]
fn a_full_disk_is_said_and_nothing_is_half_done() {
  let mut ledger = Home::new().ledger();
  let pages: i64 = ledger.conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
  let limit = |ledger: &Ledger, pages: i64| {
    let sql = format!("PRAGMA max_page_count = {pages}");
    ledger.conn.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
  };
  limit(&ledger, pages);
  let large = vec![b'x'; 1 << 20];
  let new = item(&id("a1b2c3"), &large);
  let error = ledger.quarantine(slice::from_ref(&new), &[op()], &[], 1).unwrap_err();
  assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
  assert!(error.is_passing());
  assert_eq!(ledger.items(&ItemFilter::default()).unwrap(), []);
  limit(&ledger, pages + 10_000);
  ledger.quarantine(&[new], &[op()], &[], 1).unwrap();
  assert_eq!(ledger.open_ops().unwrap().len(), 1);
}
