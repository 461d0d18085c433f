//! Redaction: equal-length overwriting of bytes that were just compared.
//!
//! Invariant I3: only bytes inside a range that was compared equal a moment ago are changed; size,
//! inode and all other bytes stay. With a lease nothing can come between comparison and write;
//! without one a window of about a microsecond remains.
//! The caller has made the expected bytes durable before (I2); this file knows no ledger.
#![forbid(unsafe_code)]

use super::{
  fs::{FsError, MemoryFile},
  lease,
};
use crate::failpoint::{Point, hit, tear};

/// One range to overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
  /// Where the range starts, in bytes.
  pub offset: u64,
  /// The content that must be there.
  pub expected: &'a [u8],
  /// The new content, of equal length.
  pub replacement: &'a [u8],
}

/// The result of each change, as indices into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overwritten {
  /// Overwritten.
  pub applied: Vec<usize>,
  /// Not changed: the content differs, or the lease is too old. Read again and plan again.
  pub stale: Vec<usize>,
}

/// Overwrites each range that has the expected bytes at this moment.
pub fn overwrite<F: MemoryFile>(file: &F, changes: &[Change<'_>]) -> Result<Overwritten, FsError> {
  for change in changes {
    // All lengths are checked before the first byte is written.
    if change.expected.len() != change.replacement.len() {
      return Err(FsError::UnequalLength {
        path: file.path().to_owned(),
        expected: change.expected.len(),
        found: change.replacement.len(),
      });
    }
  }
  let mut done = Overwritten::default();
  for (index, change) in changes.iter().enumerate() {
    // A late write might hit the file after the lease was broken by force.
    let in_time = file.leased_for().is_none_or(|age| age < lease::LIMIT);
    if in_time && file.pread(change.offset, change.expected.len())? == change.expected {
      if !change.expected.is_empty() {
        hit(Point::OverwriteBefore);
        let (at, new) = (change.offset, change.replacement);
        tear(Point::OverwriteTorn, at as usize, new, new.len(), |part| file.pwrite(at, part))?;
        file.pwrite(at, new)?;
        hit(Point::OverwriteAfter);
      }
      done.applied.push(index);
    } else {
      done.stale.push(index);
    }
  }
  Ok(done)
}

/// The state of one overwriting after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
  /// Nothing was written.
  Before,
  /// All of it was written.
  After,
  /// Each byte is the old or the new one, and there are both: write the new ones.
  Torn,
  /// Other content: another program has written since, or the text has moved.
  Foreign,
}

/// Classifies the bytes in an overwritten range after a crash.
pub fn left(current: &[u8], before: &[u8], after: &[u8]) -> Left {
  if current == after {
    Left::After
  } else if current == before {
    Left::Before
  } else if current.len() == before.len()
    && before.len() == after.len()
    && current.iter().zip(before.iter().zip(after)).all(|(c, (b, a))| c == b || c == a)
  {
    Left::Torn
  } else {
    Left::Foreign
  }
}

/// As many bytes as distinguish a torn range from other text: a placeholder up to most of its id.
const HEAD: usize = 16;

/// The offset of a torn range that a writer has moved since, by adding or removing text before it.
pub fn find_torn(current: &[u8], before: &[u8], after: &[u8]) -> Option<usize> {
  let head = |bytes: &[u8], at: usize| {
    let head = bytes.get(..HEAD.min(bytes.len())).unwrap_or_default();
    current.get(at..).is_some_and(|rest| rest.starts_with(head))
  };
  let last = current.len().checked_sub(after.len())?;
  (0..=last).find(|&at| {
    (head(after, at) || head(before, at))
      && current
        .get(at..at + after.len())
        .is_some_and(|range| left(range, before, after) == Left::Torn)
  })
}

#[cfg(test)]
#[path = "overwrite_tests.rs"]
pub(crate) mod tests;
