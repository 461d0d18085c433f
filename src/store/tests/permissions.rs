//! Access without write permission. Permissions do not bind root, so as root these cases run in a
//! process of another user.
#![forbid(unsafe_code)]

use std::{
  fs,
  fs::Permissions,
  os::unix::{
    fs::{PermissionsExt as _, chown},
    process::CommandExt as _,
  },
  path::Path,
  process::Command,
};

use super::{Home, id, item, key};
use crate::store::{Access, ItemFilter, Ledger, StoreError};

/// `nobody` on Linux.
const NOBODY: u32 = 65534;

#[test]
fn permissions_are_respected_and_distinguished() {
  let home = Home::new();
  let mut daemon = home.ledger();
  daemon.quarantine(&[item(&id("a1b2c3"), b"poison")], &[], &[], 1).unwrap();
  if !rustix::process::geteuid().is_root() {
    running(&home.dir());
    drop(daemon);
    stopped(&home.dir());
    return;
  }
  fs::set_permissions(home.0.path(), Permissions::from_mode(0o755)).unwrap();
  let hand_over = || {
    chown(home.dir(), Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in fs::read_dir(home.dir()).unwrap() {
      chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
  };
  hand_over();
  as_nobody(&home.dir(), "beside_a_daemon");
  drop(daemon);
  hand_over();
  as_nobody(&home.dir(), "without_a_daemon");
}

#[test]
#[ignore = "run as another user by the test above, in the state directory"]
fn beside_a_daemon() {
  running(&std::env::current_dir().unwrap());
}

#[test]
#[ignore = "run as another user by the test above, in the state directory"]
fn without_a_daemon() {
  stopped(&std::env::current_dir().unwrap());
}

fn as_nobody(dir: &Path, test: &str) {
  let module = module_path!().split_once("::").unwrap().1;
  let mut command = Command::new(std::env::current_exe().unwrap());
  command.args(["--exact", "--ignored", &format!("{module}::{test}")]);
  let output = match command.current_dir(dir).gid(NOBODY).uid(NOBODY).output() {
    Ok(output) => output,
    Err(error) => {
      println!("skipped: this test binary cannot be run by another user: {error}");
      return;
    }
  };
  let text = String::from_utf8(output.stdout).unwrap();
  assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn mode(path: &Path, mode: u32) {
  fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn read(dir: &Path) -> Result<usize, StoreError> {
  let ledger = Ledger::open(&dir.join("ledger.db"), Access::ReadOnly, Some(key()))?;
  assert_eq!(ledger.unseal(&id("a1b2c3"))?.as_slice(), b"poison");
  Ok(ledger.items(&ItemFilter::default())?.len())
}

fn write(dir: &Path) -> StoreError {
  Ledger::open(&dir.join("ledger.db"), Access::ReadWrite, None).unwrap_err()
}

/// With another connection open, so that log and index exist.
fn running(dir: &Path) {
  assert!(dir.join("ledger.db-wal").exists());
  mode(dir, 0o500);
  assert_eq!(read(dir).unwrap(), 1);
  for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
    mode(&dir.join(name), 0o400);
  }
  assert_eq!(read(dir).unwrap(), 1, "files that cannot be written either");
  for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
    mode(&dir.join(name), 0o600);
  }
  mode(dir, 0o700);
}

/// Without another connection, so that neither log nor index exists.
fn stopped(dir: &Path) {
  let file = dir.join("ledger.db");
  assert!(!dir.join("ledger.db-wal").exists() && !dir.join("ledger.db-shm").exists());
  mode(dir, 0o500);
  assert_eq!(read(dir).unwrap(), 1);
  assert!(!dir.join("ledger.db-shm").exists());
  mode(&file, 0o400);
  assert_eq!(read(dir).unwrap(), 1, "a file that cannot be written either");
  assert!(matches!(write(dir), StoreError::ReadOnly { .. }), "{:?}", write(dir));
  mode(dir, 0o700);
  assert!(matches!(write(dir), StoreError::ReadOnly { .. }), "{:?}", write(dir));
  mode(&file, 0);
  let error = read(dir).unwrap_err();
  assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
  assert!(matches!(write(dir), StoreError::CannotOpen { .. }), "{:?}", write(dir));
  mode(&file, 0o600);
  let nowhere = dir.join("sub/ledger.db");
  mode(dir, 0o500);
  let error = Ledger::open(&nowhere, Access::ReadWrite, None).unwrap_err();
  assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
  mode(dir, 0o700);
}
