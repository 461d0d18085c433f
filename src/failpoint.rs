//! Points at which a test kills or stops the process, to see what is left behind.
//!
//! Only a build with debug assertions reads [`VARIABLE`], so that the suites that need it use what
//! `cargo test` has built; in a release build each function here is empty. `NAME:N` kills the process by SIGKILL when it reaches the point for the n-th time,
//! `NAME:N:stop` stops it there until the test continues it. Failpoints do not simulate errors:
//! those come from a simulated file system.
#![forbid(unsafe_code)]

/// The variable that names a point.
pub const VARIABLE: &str = "MEMFW_FAILPOINT";

macro_rules! points {
  ($($variant:ident = $name:literal,)+) => {
    /// A step between two effects on a file or on the ledger.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Point {
      $(#[doc = $name] $variant,)+
    }

    impl Point {
      /// All of them.
      pub const ALL: &[Self] = &[$(Self::$variant,)+];

      /// The name in [`VARIABLE`].
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $name,)+ }
      }
    }
  };
}

points! {
  // The ledger: each transaction, and the first one.
  StoreBeforeCommit = "store-before-commit",
  StoreAfterCommit = "store-after-commit",
  MigrateBeforeCommit = "migrate-before-commit",
  MigrateAfterCommit = "migrate-after-commit",
  // Equal-length overwriting, by a redaction or an approval.
  OverwriteBefore = "overwrite-before",
  OverwriteTorn = "overwrite-torn",
  OverwriteAfter = "overwrite-after",
  // A change of length, by markers, an approval or a version that comes back.
  ReshapeBefore = "reshape-before",
  ReshapeTorn = "reshape-torn",
  ReshapeAfterWrite = "reshape-after-write",
  ReshapeAfterCut = "reshape-after-cut",
  // The steps of a journalled edit (`engine/edit.rs`), for each plan.
  RedactBeforeJournal = "redact-before-journal",
  RedactAfterJournal = "redact-after-journal",
  RedactAfterWrite = "redact-after-write",
  RedactAfterFollow = "redact-after-follow",
  RedactAfterRelease = "redact-after-release",
  RedactAfterSync = "redact-after-sync",
  RedactAfterRecord = "redact-after-record",
  RedactAfterFinish = "redact-after-finish",
  MarkBeforeJournal = "mark-before-journal",
  MarkAfterJournal = "mark-after-journal",
  MarkAfterWrite = "mark-after-write",
  MarkAfterFollow = "mark-after-follow",
  MarkAfterRelease = "mark-after-release",
  MarkAfterSync = "mark-after-sync",
  MarkAfterRecord = "mark-after-record",
  MarkAfterFinish = "mark-after-finish",
  ApproveBeforeJournal = "approve-before-journal",
  ApproveAfterJournal = "approve-after-journal",
  ApproveAfterDecision = "approve-after-decision",
  ApproveAfterWrite = "approve-after-write",
  ApproveAfterFollow = "approve-after-follow",
  ApproveAfterRelease = "approve-after-release",
  ApproveAfterSync = "approve-after-sync",
  ApproveAfterRecord = "approve-after-record",
  ApproveAfterFinish = "approve-after-finish",
  RestoreBeforeJournal = "restore-before-journal",
  RestoreAfterJournal = "restore-after-journal",
  RestoreAfterWrite = "restore-after-write",
  RestoreAfterFollow = "restore-after-follow",
  RestoreAfterRelease = "restore-after-release",
  RestoreAfterSync = "restore-after-sync",
  RestoreAfterRecord = "restore-after-record",
  RestoreAfterFinish = "restore-after-finish",
  // The urgent pass around a redaction.
  PassBeforeRecord = "pass-before-record",
  PassAfterRecord = "pass-after-record",
  PassAfterRelease = "pass-after-release",
  // The other decision of a person.
  RejectBeforeDecision = "reject-before-decision",
  RejectAfterDecision = "reject-after-decision",
  // Recovery after a crash.
  RecoverBefore = "recover-before",
  RecoverBeforeWrite = "recover-before-write",
  RecoverTorn = "recover-torn",
  RecoverAfterWrite = "recover-after-write",
  RecoverAfterCut = "recover-after-cut",
  RecoverAfterFollow = "recover-after-follow",
  RecoverAfterRelease = "recover-after-release",
  RecoverAfterSync = "recover-after-sync",
  RecoverBeforeFinish = "recover-before-finish",
  RecoverAfterFinish = "recover-after-finish",
  // The first scan.
  AdoptBeforeMark = "adopt-before-mark",
  AdoptAfterMark = "adopt-after-mark",
}

/// Who edits a file (`engine/edit.rs`): each has a point of its own after each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
  /// Poison becomes a placeholder.
  Redact,
  /// Markers are renewed and placeholders compacted.
  Mark,
  /// Approved bytes come back.
  Approve,
  /// A version comes back.
  Restore,
  /// An interrupted edit is completed.
  Recover,
}

/// A moment between two effects of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
  /// The journal is to be written.
  BeforeJournal,
  /// The images are durable.
  AfterJournal,
  /// The new bytes are in the file.
  AfterWrite,
  /// The agent's record is about them.
  AfterFollow,
  /// The lease is released.
  AfterRelease,
  /// The new bytes are durable.
  AfterSync,
  /// The ledger says what is in the file.
  AfterRecord,
  /// The journal has forgotten the edit.
  AfterFinish,
}

impl Plan {
  const fn points(self) -> [Point; 8] {
    match self {
      Self::Redact => [
        Point::RedactBeforeJournal,
        Point::RedactAfterJournal,
        Point::RedactAfterWrite,
        Point::RedactAfterFollow,
        Point::RedactAfterRelease,
        Point::RedactAfterSync,
        Point::RedactAfterRecord,
        Point::RedactAfterFinish,
      ],
      Self::Mark => [
        Point::MarkBeforeJournal,
        Point::MarkAfterJournal,
        Point::MarkAfterWrite,
        Point::MarkAfterFollow,
        Point::MarkAfterRelease,
        Point::MarkAfterSync,
        Point::MarkAfterRecord,
        Point::MarkAfterFinish,
      ],
      Self::Approve => [
        Point::ApproveBeforeJournal,
        Point::ApproveAfterJournal,
        Point::ApproveAfterWrite,
        Point::ApproveAfterFollow,
        Point::ApproveAfterRelease,
        Point::ApproveAfterSync,
        Point::ApproveAfterRecord,
        Point::ApproveAfterFinish,
      ],
      Self::Restore => [
        Point::RestoreBeforeJournal,
        Point::RestoreAfterJournal,
        Point::RestoreAfterWrite,
        Point::RestoreAfterFollow,
        Point::RestoreAfterRelease,
        Point::RestoreAfterSync,
        Point::RestoreAfterRecord,
        Point::RestoreAfterFinish,
      ],
      // The interrupted edit has written the journal.
      Self::Recover => [
        Point::RecoverBefore,
        Point::RecoverBeforeWrite,
        Point::RecoverAfterWrite,
        Point::RecoverAfterFollow,
        Point::RecoverAfterRelease,
        Point::RecoverAfterSync,
        Point::RecoverBeforeFinish,
        Point::RecoverAfterFinish,
      ],
    }
  }

  /// Comes to the point of a step.
  pub fn hit(self, step: Step) {
    if let Some(point) = self.points().get(step as usize) {
      hit(*point);
    }
  }
}

#[cfg(not(debug_assertions))]
pub use absent::{hit, tear, unsafe_ledger};
#[cfg(debug_assertions)]
pub use armed::{hit, tear, unsafe_ledger};

#[cfg(not(debug_assertions))]
mod absent {
  use super::Point;

  /// Nothing.
  #[inline]
  pub const fn hit(_point: Point) {}

  /// Nothing is written.
  #[inline]
  pub fn tear<E>(
    _point: Point,
    _offset: usize,
    _bytes: &[u8],
    _standing: usize,
    _write: impl FnOnce(&[u8]) -> Result<(), E>,
  ) -> Result<(), E> {
    Ok(())
  }

  /// The ledger is always durable.
  #[inline]
  pub const fn unsafe_ledger() -> bool {
    false
  }
}

#[cfg(debug_assertions)]
mod armed {
  use std::{
    io::Write as _,
    sync::{
      OnceLock,
      atomic::{AtomicU64, Ordering},
    },
  };

  use rustix::process::{Signal, getpid, kill_process};

  use super::{Point, VARIABLE};

  /// Makes the ledger lose what a power cut loses, as a control of the tests of power loss.
  const UNSAFE_LEDGER: &str = "MEMFW_UNSAFE_LEDGER";
  /// A write that a kill cuts short ends at a page boundary of the file.
  const PAGE: usize = 4096;

  struct Armed {
    name: String,
    nth: u64,
    signal: Signal,
  }

  static HITS: AtomicU64 = AtomicU64::new(0);

  #[expect(
    clippy::disallowed_methods,
    reason = "no part of the product, so no part of its environment"
  )]
  fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
  }

  fn armed() -> Option<&'static Armed> {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    ARMED
      .get_or_init(|| {
        let text = variable(VARIABLE)?;
        let mut parts = text.split(':');
        let name = parts.next()?.to_owned();
        let nth = parts.next().and_then(|nth| nth.parse().ok()).unwrap_or(1);
        let signal = if parts.next() == Some("stop") { Signal::STOP } else { Signal::KILL };
        Some(Armed { name, nth, signal })
      })
      .as_ref()
  }

  /// The armed point, if it is reached for the n-th time.
  fn is_time(point: Point) -> Option<&'static Armed> {
    let armed = armed().filter(|armed| armed.name == point.as_str())?;
    (HITS.fetch_add(1, Ordering::SeqCst) + 1 == armed.nth).then_some(armed)
  }

  fn strike(armed: &Armed) {
    // The test waits for this line.
    std::io::stderr().write_all(format!("failpoint {}\n", armed.name).as_bytes()).ok();
    kill_process(getpid(), armed.signal).ok();
  }

  /// Kills or stops the process here, if that was requested.
  pub fn hit(point: Point) {
    if let Some(armed) = is_time(point) {
      strike(armed);
    }
  }

  /// Writes a part of `bytes` and kills the process, if that was requested. `standing` bytes were
  /// there before; bytes after them make the file longer.
  pub fn tear<E>(
    point: Point,
    offset: usize,
    bytes: &[u8],
    standing: usize,
    write: impl FnOnce(&[u8]) -> Result<(), E>,
  ) -> Result<(), E> {
    let Some(armed) = is_time(point) else { return Ok(()) };
    write(bytes.get(..cut(offset, bytes.len(), standing)).unwrap_or_default())?;
    strike(armed);
    Ok(())
  }

  /// How many of `len` bytes a torn write leaves: about a half, up to the end of a page if there is
  /// one. Without a page boundary a file does not grow by a part, because the kernel changes the
  /// length once per page.
  fn cut(offset: usize, len: usize, standing: usize) -> usize {
    let half = offset + len / 2;
    let page = half.next_multiple_of(PAGE);
    let before = half / PAGE * PAGE;
    if page < offset + len {
      page - offset
    } else if before > offset {
      before - offset
    } else {
      (len / 2).min(standing)
    }
  }

  /// Whether the ledger is not durable, as a control.
  pub fn unsafe_ledger() -> bool {
    variable(UNSAFE_LEDGER).is_some()
  }

  #[cfg(test)]
  mod tests {
    use super::cut;

    #[test]
    fn a_torn_write_ends_at_a_page_or_within_what_was_there() {
      assert_eq!(cut(100, 80, 80), 40);
      assert_eq!(cut(100, 80, 10), 10);
      assert_eq!(cut(100, 80, 0), 0);
      assert_eq!(cut(4000, 200, 0), 96);
      assert_eq!(cut(4000, 1000, 0), 96);
      assert_eq!(cut(0, 20_000, 0), 12_288);
    }
  }
}

#[cfg(test)]
mod tests {
  use std::collections::BTreeSet;

  use super::*;

  #[test]
  fn each_point_has_its_own_name() {
    let names: BTreeSet<&str> = Point::ALL.iter().map(|point| point.as_str()).collect();
    assert_eq!(names.len(), Point::ALL.len());
  }
}
