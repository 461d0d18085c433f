//! What a run of schedules did, so that a generator that stops to exercise something is found out.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fmt};

/// How often each thing happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
  pub(crate) fn count(&mut self, what: &str) {
    self.count_n(what, 1);
  }

  pub(crate) fn count_n(&mut self, what: &str, n: u64) {
    if let Some(count) = self.0.get_mut(what) {
      *count += n;
    } else {
      self.0.insert(what.to_owned(), n);
    }
  }

  pub(crate) fn add(&mut self, other: &Self) {
    for (what, n) in &other.0 {
      self.count_n(what, *n);
    }
  }

  pub(crate) fn of(&self, what: &str) -> u64 {
    self.0.get(what).copied().unwrap_or(0)
  }

  /// What of [`REQUIRED`] never happened.
  pub(crate) fn missing(&self) -> Vec<&'static str> {
    REQUIRED.iter().copied().filter(|what| self.of(what) == 0).collect()
  }
}

impl fmt::Display for Tally {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    self.0.iter().try_for_each(|(what, n)| writeln!(f, "{n:>9}  {what}"))
  }
}

/// What must happen in a run of [`super::ENOUGH`] schedules.
const REQUIRED: &[&str] = &[
  // Writers.
  "writer: agent tool",
  "writer: append",
  "writer: chunked with many",
  "writer: chunked with one descriptor",
  "writer: foreign owner",
  "writer: hard link",
  "writer: held appender",
  "writer: in place",
  "writer: mapped",
  "writer: mapped in place",
  "writer: prepend",
  "writer: stale read-modify-write",
  "writer: no file",
  "writer: tail",
  "writer: temp and rename",
  "writer: truncate, then write",
  "writer: unlink",
  "writer: unlink and create",
  "writer: same size",
  "writer: vim",
  "overwritten at equal length",
  // The environment.
  "file times: seconds",
  "file times: every second one",
  "file times: unseen change",
  "rung: no-lease",
  "rung: equal-length-only",
  "rung: lease",
  "clock jumps back",
  "clock jumps forward",
  "suspend",
  "stall of 46 s",
  "lease broken by force",
  "lease granted despite a mapping",
  "lease refused",
  "lease makes a writer wait",
  "EIO: find",
  "EIO: fstat",
  "EIO: fsync",
  "EIO: lease",
  "EIO: lstat",
  "EIO: open",
  "EIO: pread",
  "EIO: pwrite",
  "EIO: read",
  "EIO: truncate",
  "ENOSPC: fsync",
  "ENOSPC: pwrite",
  "ENOSPC: truncate",
  "a failed sync leaves pages clean",
  "a call below 1 ms",
  "a call below 5 ms",
  "a call below 20 ms",
  "tear at the end of a page",
  "tear within a page",
  "fault: disk full",
  "fault: input/output error",
  "fault: interrupted",
  "short write",
  "store through a mapping",
  "torn read",
  "ledger blocked",
  "ledger full",
  "error: ledger full",
  "error: ledger locked",
  "error: file system",
  "error: ledger moved",
  "error: workspace absent",
  "ledger moved away",
  "ledger deleted",
  "ledger replaced by an empty one",
  "ledger replaced by another one",
  "log of the ledger moved away",
  "workspace goes",
  "workspace goes; an empty directory stays",
  // Power.
  "power loss",
  "power loss takes commits",
  "power loss takes names",
  "power loss takes pages",
  "power loss leaves a hole",
  // Kills: each kind of call.
  "killed in clock",
  "killed in find",
  "killed in fsync",
  "killed in fstat",
  "killed in lease",
  "killed in lstat",
  "killed in open",
  "killed in pread",
  "killed in pwrite",
  "killed in pwrite the rest",
  "killed in read",
  "killed in read the rest",
  "killed in truncate",
  // What memfw did.
  "recovery: already complete",
  "recovery: completed",
  "recovery: not begun; dropped",
  "recovery: given up: the file is gone",
  "recovery: another program has rewritten the file; left unchanged",
  "recovery: another program has rewritten the place; dropped",
  "recovery: torn; completed",
  "write of a recovery",
  "redaction leased",
  "redaction without a lease",
  "reshape",
  "restore",
  "pass: Busy",
  "pass: Changed",
  "pass: Done",
  "pass: Gone",
  "pass: HeldOpen",
  "pass: HoldOff",
  "pass: Unchanged",
  "pass: Unscannable",
  "lazy: Busy",
  "lazy: Dirty",
  "lazy: Done",
  "lazy: NotIdle",
  "looked at because it is not fully guarded",
  "approve",
  "approve: refused",
  "reject",
  "quarantine by hand",
  "restore of a version",
  "pass: StillOpen",
  "verifying read",
  "poison came back",
];
