//! Calls that fail, and writes that end before their end.
#![forbid(unsafe_code)]

use std::io;

use super::{disk::PAGE, rng::Rng, world::World};

/// How an engine's call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
  Fine,
  /// The system call fails; on a full disk only where it needs space.
  Fails(io::ErrorKind),
  /// The system call fails, whatever it needs.
  Strikes(io::ErrorKind),
  /// The engine is killed in this call.
  Killed,
}

/// Calls of the engine that will fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
  /// Calls until then.
  pub(crate) wait: usize,
  /// How many.
  pub(crate) calls: usize,
  pub(crate) kind: io::ErrorKind,
  /// Only calls of this name count.
  pub(crate) only: Option<&'static str>,
}

/// Every kind of call that can fail, as the simulated file system names them.
pub(crate) const CALLS: [&str; 12] = [
  "lstat", "find", "open", "fstat", "lease", "read", "pread", "pwrite", "truncate", "append",
  "fsync", "create",
];
/// Every kind of failure of the n-th call.
pub(crate) const KINDS: [io::ErrorKind; 2] = [io::ErrorKind::Other, io::ErrorKind::StorageFull];

impl World {
  /// Whether this call is one that fails.
  pub(crate) fn fails(&mut self, name: &str) -> Fate {
    let Some(trouble) = &mut self.trouble else { return Fate::Fine };
    if trouble.only.is_some_and(|only| only != name) {
      return Fate::Fine;
    }
    if trouble.wait > 0 {
      trouble.wait -= 1;
      return Fate::Fine;
    }
    let (kind, only) = (trouble.kind, trouble.only);
    trouble.calls -= 1;
    if trouble.calls == 0 {
      self.trouble = None;
    }
    let Some(only) = only else { return Fate::Fails(kind) };
    self
      .tally
      .count(&format!("{}: {only}", if kind == io::ErrorKind::Other { "EIO" } else { "ENOSPC" }));
    Fate::Strikes(kind)
  }

  /// Whether this is the write in which the engine is to be killed.
  pub(crate) fn is_last_write(&mut self, name: &str) -> bool {
    let Some(left) = &mut self.writes_left else { return false };
    if !matches!(name, "pwrite" | "pwrite the rest" | "append" | "truncate") {
      return false;
    }
    let is_last = *left == 0;
    *left = left.saturating_sub(1);
    is_last
  }

  /// One of the next calls of one kind will fail.
  pub(crate) fn strike(&mut self) {
    let rng = &mut self.twist;
    let (only, kind) = (Some(*rng.pick(&CALLS)), *rng.pick(&KINDS));
    let wait = if rng.one_in(2) { 0 } else { rng.below(12) };
    self.trouble = Some(Trouble { wait, calls: 1, kind, only });
  }

  /// How many bytes of a write at this place are there when it fails or is killed, if any are: up to a
  /// boundary of pages, which the kernel copies one by one; also of sectors, or any number, where a device or a
  /// file system without pages writes.
  pub(crate) fn torn(&mut self, at: usize, len: usize) -> Option<usize> {
    if !self.twists.tears {
      let some = self.rng.one_in(2);
      let next = (at / PAGE + 1) * PAGE;
      return (some && next < at + len).then(|| next - at);
    }
    let n = torn_at(&mut self.twist, at, len)?;
    let aligned = (at + n).is_multiple_of(PAGE);
    self.tally.count(if aligned { "tear at the end of a page" } else { "tear within a page" });
    self.was_torn = true;
    Some(n)
  }
}

fn torn_at(rng: &mut Rng, at: usize, len: usize) -> Option<usize> {
  if rng.one_in(4) {
    return None;
  }
  let unit = *rng.pick(&[PAGE, PAGE, PAGE, 512, 1]);
  let (first, last) = (at / unit + 1, (at + len).saturating_sub(1) / unit);
  (first <= last && len > 1).then(|| (first + rng.below(last - first + 1)) * unit - at)
}
