//! Whether a plugin's child process runs: each holds a shared lock on one file for its life.
#![forbid(unsafe_code)]

use std::{
  fs::{File, OpenOptions, TryLockError},
  io,
  os::unix::fs::OpenOptionsExt as _,
  path::Path,
  time::Duration,
};

use super::lock;

/// The name of the file in the data directory.
const NAME: &str = "link.lock";
/// How long a child tries: `status` holds the lock briefly while it checks it.
const PATIENCE: Duration = Duration::from_millis(250);

/// A shared lock that a child holds while it answers.
#[derive(Debug)]
pub struct LinkLock(#[expect(dead_code, reason = "the lock ends when the file is closed")] File);

impl LinkLock {
  /// Takes the lock; `None` if it cannot be taken, for instance because memfw has never run. Only `status`
  /// needs it.
  pub fn acquire(data: &Path) -> Option<Self> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(data.join(NAME)).ok()?;
    let take = || shared(&file);
    lock::poll(PATIENCE, take).ok()?.then_some(Self(file))
  }

  /// Whether a child holds it.
  pub fn is_held(data: &Path) -> bool {
    let file = OpenOptions::new().read(true).open(data.join(NAME));
    file.is_ok_and(|file| matches!(lock::take(&file), Ok(false)))
  }
}

fn shared(file: &File) -> io::Result<bool> {
  match file.try_lock_shared() {
    Ok(()) => Ok(true),
    Err(TryLockError::WouldBlock) => Ok(false),
    Err(TryLockError::Error(error)) => Err(error),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn several_children_hold_it_and_it_ends_with_the_last() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!LinkLock::is_held(dir.path()));
    let (one, other) = (LinkLock::acquire(dir.path()), LinkLock::acquire(dir.path()));
    assert!(one.is_some() && other.is_some());
    assert!(LinkLock::is_held(dir.path()));
    drop(one);
    assert!(LinkLock::is_held(dir.path()));
    drop(other);
    assert!(!LinkLock::is_held(dir.path()));
    assert!(LinkLock::acquire(&dir.path().join("absent")).is_none());
  }
}
