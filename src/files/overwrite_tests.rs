//! Redaction against a file in memory that remembers every call.

use std::{
  cell::{Cell, RefCell},
  path::Path,
  time::Duration,
};

use proptest::prelude::*;

use super::*;
use crate::files::fs::{OpenError, Stamp, TargetRules, Touch};

/// A file whose content can change between comparison and write.
#[derive(Default)]
pub(crate) struct Memory {
  pub(crate) bytes: RefCell<Vec<u8>>,
  pub(crate) age: Cell<Option<Duration>>,
  /// Each write: where and how much.
  pub(crate) writes: RefCell<Vec<(u64, usize)>>,
  pub(crate) cuts: RefCell<Vec<u64>>,
}

impl Memory {
  pub(crate) fn new(bytes: &[u8]) -> Self {
    Self { bytes: RefCell::new(bytes.to_vec()), ..Self::default() }
  }

  pub(crate) fn leased(bytes: &[u8]) -> Self {
    let file = Self::new(bytes);
    file.age.set(Some(Duration::ZERO));
    file
  }
}

impl MemoryFile for Memory {
  fn path(&self) -> &Path {
    Path::new("/m/MEMORY.md")
  }
  fn access(&self) -> Touch {
    Touch::Full
  }
  fn recheck(&mut self, _rules: &TargetRules) -> Result<Touch, OpenError> {
    Ok(Touch::Full)
  }
  fn try_lease(&mut self) -> Result<bool, FsError> {
    Ok(true)
  }
  fn leased_for(&self) -> Option<Duration> {
    self.age.get()
  }
  fn release(&mut self) {
    self.age.set(None);
  }
  fn read_all(&self) -> Result<Vec<u8>, FsError> {
    Ok(self.bytes.borrow().clone())
  }
  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    Ok(self.bytes.borrow().iter().skip(offset as usize).take(len).copied().collect())
  }
  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
    self.writes.borrow_mut().push((offset, bytes.len()));
    let (mut file, at) = (self.bytes.borrow_mut(), offset as usize);
    let end = file.len().max(at + bytes.len());
    file.resize(end, 0);
    file[at..at + bytes.len()].copy_from_slice(bytes);
    Ok(())
  }
  fn truncate(&self, len: u64) -> Result<(), FsError> {
    self.cuts.borrow_mut().push(len);
    assert!(len as usize <= self.bytes.borrow().len());
    self.bytes.borrow_mut().truncate(len as usize);
    Ok(())
  }
  fn append(&self, bytes: &[u8]) -> Result<(), FsError> {
    self.bytes.borrow_mut().extend_from_slice(bytes);
    Ok(())
  }
  fn sync(&self) -> Result<(), FsError> {
    Ok(())
  }
  fn stamp(&self) -> Result<Stamp, FsError> {
    let size = self.bytes.borrow().len() as u64;
    Ok(Stamp { dev: 0, ino: 0, size, mtime_ns: 0, ctime_ns: 0 })
  }
}

fn change<'a>(offset: u64, expected: &'a [u8], replacement: &'a [u8]) -> Change<'a> {
  Change { offset, expected, replacement }
}

#[test]
fn a_range_is_overwritten_only_where_the_expected_bytes_are() {
  let file = Memory::new(b"one two three");
  let changes = [
    change(0, b"one", b"111"),
    change(4, b"TWO", b"222"),
    change(8, b"three", b"33333"),
    // Past the end: a short read is not the expected bytes.
    change(8, b"33333!", b"......"),
    change(100, b"x", b"y"),
  ];
  let done = overwrite(&file, &changes).unwrap();
  assert_eq!(done, Overwritten { applied: vec![0, 2], stale: vec![1, 3, 4] });
  assert_eq!(*file.bytes.borrow(), b"111 two 33333");
}

#[test]
fn another_length_is_refused_before_anything_is_written() {
  let file = Memory::new(b"one two");
  let changes = [change(0, b"one", b"111"), change(4, b"two", b"2222")];
  assert!(matches!(overwrite(&file, &changes), Err(FsError::UnequalLength { .. })));
  assert_eq!(*file.bytes.borrow(), b"one two");
}

#[test]
fn nothing_is_written_under_a_lease_that_is_too_old() {
  let file = Memory::leased(b"one");
  file.age.set(Some(lease::LIMIT));
  let done = overwrite(&file, &[change(0, b"one", b"111")]).unwrap();
  assert_eq!(done.stale, [0]);
  assert_eq!(*file.bytes.borrow(), b"one");
}

#[test]
fn what_a_crash_left_of_a_range_is_distinguished() {
  assert_eq!(left(b"abc", b"abc", b"xyz"), Left::Before);
  assert_eq!(left(b"xyz", b"abc", b"xyz"), Left::After);
  assert_eq!(left(b"xbz", b"abc", b"xyz"), Left::Torn);
  assert_eq!(left(b"x?z", b"abc", b"xyz"), Left::Foreign);
  assert_eq!(left(b"xy", b"abc", b"xyz"), Left::Foreign);
  assert_eq!(left(b"", b"abc", b"xyz"), Left::Foreign);
}

#[test]
fn a_torn_range_is_found_where_a_writer_has_moved_it() {
  let before = b"- the poison is here and long enough\n";
  let after = b"<!-- memfw:a1b2c3 quarantined    -->\n";
  assert_eq!(before.len(), after.len());
  let torn = |written: usize| [&after[..written], &before[written..]].concat();
  for written in [16, 20, 30] {
    let moved = [b"- new\n- text\n".to_vec(), torn(written), b"- end\n".to_vec()].concat();
    assert_eq!(find_torn(&moved, before, after), Some(13), "{written}");
  }
  // The disk may have got the second half only.
  let second = [b"- new\n", &before[..20], &after[20..]].concat();
  assert_eq!(find_torn(&second, before, after), Some(6));
  for whole in [&before[..], after, b"", b"- something else\n"] {
    let moved = [b"- new\n", whole].concat();
    assert_eq!(find_torn(&moved, before, after), None, "{}", whole.escape_ascii());
  }
}

proptest! {
  /// I3, and size and other bytes stay, for any changes.
  #[test]
  fn only_compared_ranges_ever_change(
    bytes in prop::collection::vec(0u8..3, 0..40),
    asked in prop::collection::vec((0u64..50, prop::collection::vec(0u8..3, 0..6)), 0..6),
  ) {
    let file = Memory::new(&bytes);
    let fill: Vec<Vec<u8>> = asked.iter().map(|(_, expected)| vec![9; expected.len()]).collect();
    let changes: Vec<_> = asked
      .iter()
      .zip(&fill)
      .map(|((offset, expected), fill)| change(*offset, expected, fill))
      .collect();
    let done = overwrite(&file, &changes).unwrap();
    prop_assert_eq!(done.applied.len() + done.stale.len(), changes.len());
    let mut expected = bytes.clone();
    for index in done.applied {
      let Change { offset, expected: old, replacement } = changes[index];
      if old.is_empty() {
        continue;
      }
      let range = offset as usize..offset as usize + old.len();
      prop_assert_eq!(&expected[range.clone()], old);
      expected[range].copy_from_slice(replacement);
    }
    prop_assert_eq!(&*file.bytes.borrow(), &expected);
  }
}
