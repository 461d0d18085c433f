//! Reshaping: a change of length, in place, under a lease, and its possible states after a crash.
//!
//! The new content is written in one call from the common prefix on. The file is truncated only when it
//! gets shorter, and never extended by `ftruncate`: a kill in between left files full of NUL. The caller
//! has journalled both images before.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  fs::{FsError, MemoryFile},
  lease,
};
use crate::failpoint::{Point, hit, tear};

/// The result of a reshape.
#[derive(Debug)]
pub enum Reshaped {
  /// The file has the new content.
  Done,
  /// The file differs from what the new content is based on; nothing was written. Plan again.
  Changed,
  /// A write failed, as on a full disk, and was undone durably.
  Undone(FsError),
}

/// Replaces the content `base` by `new`. Needs a lease younger than [`lease::LIMIT`].
pub fn reshape<F: MemoryFile>(file: &F, base: &[u8], new: &[u8]) -> Result<Reshaped, FsError> {
  let leased = || {
    let young = file.leased_for().is_some_and(|age| age < lease::LIMIT);
    if young { Ok(()) } else { Err(FsError::NotLeased { path: file.path().to_owned() }) }
  };
  leased()?;
  if file.read_all()? != base {
    return Ok(Reshaped::Changed);
  }
  leased()?;
  let same = alike(base, new);
  match put(file, same, base.len(), new) {
    Ok(()) => Ok(Reshaped::Done),
    Err(error) => {
      // Half a reshape would be read as memory, with its tail twice. The old bytes fit into their place
      // even on a full disk; if they cannot be written either, the journal has them.
      match undo(file, same, base) {
        Ok(()) => Ok(Reshaped::Undone(error)),
        Err(_) => Err(error),
      }
    }
  }
}

/// Writes `new` from its first difference on over a file of `length` bytes.
fn put<F: MemoryFile>(file: &F, same: usize, length: usize, new: &[u8]) -> Result<(), FsError> {
  let fresh = new.get(same..).unwrap_or_default();
  if !fresh.is_empty() {
    hit(Point::ReshapeBefore);
    let write = |part: &[u8]| file.pwrite(same as u64, part);
    tear(Point::ReshapeTorn, same, fresh, length.saturating_sub(same), write)?;
    write(fresh)?;
    hit(Point::ReshapeAfterWrite);
  }
  if new.len() < length {
    file.truncate(new.len() as u64)?;
    hit(Point::ReshapeAfterCut);
  }
  Ok(())
}

/// Restores `base` after a failed write.
fn undo<F: MemoryFile>(file: &F, same: usize, base: &[u8]) -> Result<(), FsError> {
  file.pwrite(same as u64, base.get(same..).unwrap_or_default())?;
  if file.stamp()?.size > base.len() as u64 {
    file.truncate(base.len() as u64)?;
  }
  // The partial write may have reached the disk, and the journal forgets the edit next.
  file.sync()
}

/// How to recover a reshape that was begun and not recorded as finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
  /// It was finished; text that was appended since is kept.
  Done,
  /// It was not begun; text that was appended since is kept.
  NotApplied,
  /// The file is torn: reshape it to these bytes, which are the new content and the appended text.
  Rewrite(Vec<u8>),
  /// Another program has written since. Recovery changes no byte of the file, and finishes the
  /// edit.
  Foreign,
}

/// The unit in which the kernel copies a write into its cache. A write that was cut short by a kill
/// or a full disk ends at a multiple of it (folios are multiples of pages).
const PAGE: usize = 4096;
/// Fewer bytes than this after the base may equal the new content's by chance, if a program appended
/// them. Then they are kept, which at worst leaves the beginning of a marker in the file: a byte too
/// many can be taken out again, and a lost byte cannot be restored.
const EVIDENCE: usize = 16;
/// How the comments begin that a reshape adds: no program appends a part of one, or changes its words.
const OWN: [&[u8]; 2] = [b"<!-- memfw:", b"<!-- /memfw"];

/// Determines the state of replacing `base` by `new` after a crash, from the current bytes.
///
/// The file is then a mixture followed by text that others appended. In the mixture each byte is that of
/// `base`, that of `new`, or NUL (a block that never reached the disk); its length is that of
/// `base`, that of `new`, or, for a growing write that was cut short, one in between: a page boundary, or
/// any other where the bytes after it show that they are the write's own.
pub fn recover_reshape(current: &[u8], base: &[u8], new: &[u8]) -> Recovery {
  if new.len() < base.len() {
    recover_shrunk(current, base, new)
  } else {
    recover_grown(current, base, new)
  }
}

/// Shrinking writes first and truncates then, so without the truncation the tail of the base is left.
fn recover_shrunk(current: &[u8], base: &[u8], new: &[u8]) -> Recovery {
  if current.starts_with(base) {
    Recovery::NotApplied
  } else if is_mixture(current, base, new, base.len()) {
    // Checked before `Done`: the new content followed by the base's tail is a missing truncation, unless
    // the tail is so short that it may be the beginning of another program's text.
    if current.len() > base.len() && current.starts_with(new) && base.len() - new.len() < EVIDENCE {
      return Recovery::Done;
    }
    rewrite(new, current, torn_until(current, base, new, base.len()))
  } else if alike(current, base) >= new.len() + EVIDENCE {
    // No byte of the new content is there, and no truncation: another program, or a power cut, has changed the end of
    // the base.
    Recovery::NotApplied
  } else if let Some(file) = changed_in_lines(current, base, new) {
    Recovery::Rewrite(file)
  } else if current.starts_with(new) {
    Recovery::Done
  } else if is_mixture(current, base, new, new.len()) {
    rewrite(new, current, torn_until(current, base, new, new.len()))
  } else {
    Recovery::Foreign
  }
}

/// The file that should be there, where a truncation is missing and others have overwritten lines since; `None` where
/// lines do not show that the new content was written over the base. Lines of the tail as the base has them are not
/// theirs.
fn changed_in_lines(current: &[u8], base: &[u8], new: &[u8]) -> Option<Vec<u8>> {
  // If the base begins with the new content, another program may have written the base again.
  if base.starts_with(new) {
    return None;
  }
  let tail = current.get(new.len()..base.len())?;
  let (mut file, mut written, mut others) = (Vec::with_capacity(current.len()), 0, 0);
  for (span, line) in lines_at(new, 0) {
    let now = current.get(span.clone())?;
    let old = base.get(span)?;
    if now == line || is_mixture(now, old, line, line.len()) {
      file.extend_from_slice(line);
    } else {
      others += now.len();
      file.extend_from_slice(now);
    }
    if now == line && now != old {
      written += now.len();
    }
  }
  if others > 0 && written < EVIDENCE.max(others) {
    return None;
  }
  let mut left = 0;
  for (span, line) in lines_at(tail, new.len()) {
    if base.get(span) == Some(line) {
      left += line.len();
    } else {
      file.extend_from_slice(line);
    }
  }
  file.extend_from_slice(current.get(base.len()..).unwrap_or_default());
  (left >= EVIDENCE).then_some(file)
}

/// The lines of a text that begins at `at` of its file, and where they are.
fn lines_at(text: &[u8], at: usize) -> impl Iterator<Item = (Range<usize>, &[u8])> {
  text.split_inclusive(|byte| *byte == b'\n').scan(at, |end, line| {
    let start = *end;
    *end += line.len();
    Some((start..*end, line))
  })
}

/// How many bytes at their beginning are alike.
fn alike(one: &[u8], other: &[u8]) -> usize {
  one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Where the mixture ends that is replaced: at `length`, unless both images differ in so few bytes before
/// it that the present bytes may be another program's by chance. Those are kept, too.
fn torn_until(current: &[u8], base: &[u8], new: &[u8], length: usize) -> usize {
  let same = alike(base, new);
  if current.len() > length && length.saturating_sub(same) < EVIDENCE { same } else { length }
}

fn recover_grown(current: &[u8], base: &[u8], new: &[u8]) -> Recovery {
  if current.starts_with(new) {
    return Recovery::Done;
  }
  // Whether bytes after the base are the new content's, and not appended text by chance.
  let evident = |until: usize| until.saturating_sub(base.len()) >= EVIDENCE;
  let same = alike(current, new);
  if is_own_tear(current, base, new, same) {
    return rewrite(new, current, same);
  }
  let cut_short = same / PAGE * PAGE;
  let torn_at_new = is_mixture(current, base, new, new.len());
  if cut_short > base.len() && (!new.starts_with(base) || evident(cut_short)) {
    // The following bytes may be those that never reached the disk; otherwise they were appended.
    return rewrite(new, current, if torn_at_new { new.len() } else { cut_short });
  }
  let tail = current.get(base.len()..new.len().min(current.len())).unwrap_or_default();
  let hole = tail.iter().take_while(|&&byte| byte == 0).count();
  if current.starts_with(base) {
    // Appended text has no NUL.
    let torn = tail.contains(&0) || evident(new.len());
    if hole == 0 && !(torn_at_new && torn) {
      return Recovery::NotApplied;
    }
  }
  // The part after the base that was not appended is the new content, which was written completely,
  // and of which a writer has changed a part since.
  let grown = tail.iter().zip(new.iter().skip(base.len())).take_while(|(now, new)| now == new);
  if torn_at_new {
    rewrite(new, current, new.len())
  } else if grown.count() >= EVIDENCE {
    Recovery::Foreign
  } else if is_mixture(current, base, new, base.len()) {
    let until = torn_until(current, base, new, base.len());
    rewrite(new, current, if hole > 0 { base.len() + hole } else { until })
  } else {
    Recovery::Foreign
  }
}

/// Whether a growing write ended at `same`, up to which the file has the new content, and behind the base. A
/// full disk, for one, cuts a write short at any byte.
fn is_own_tear(current: &[u8], base: &[u8], new: &[u8], same: usize) -> bool {
  let (Some(written), Some(rest)) = (new.get(..same), current.get(same..)) else { return false };
  if same <= base.len() {
    return false;
  }
  let start = written.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
  let line = written.get(start..).unwrap_or_default();
  if rest.is_empty() {
    // A program appends whole lines.
    return !line.is_empty() || same - base.len() >= EVIDENCE;
  }
  // Text was appended since. If the file ends like the new content, a writer has changed a part of that.
  let same_end = rest.iter().rev().zip(new.iter().rev()).take_while(|(now, new)| now == new);
  OWN.iter().any(|own| line.starts_with(own)) && same_end.count() < EVIDENCE
}

/// Whether the first `length` bytes are each the base's, the new content's, or NUL.
fn is_mixture(current: &[u8], base: &[u8], new: &[u8], length: usize) -> bool {
  current.get(..length).is_some_and(|torn| {
    torn
      .iter()
      .enumerate()
      .all(|(at, byte)| *byte == 0 || base.get(at) == Some(byte) || new.get(at) == Some(byte))
  })
}

/// Keeps the text after the torn part, unless it is the end of the new content from the middle of a line
/// on: no program appends such text, so it is left over from a page of a longer version.
fn rewrite(new: &[u8], current: &[u8], torn: usize) -> Recovery {
  let appended = current.get(torn..).unwrap_or_default();
  let head = new.strip_suffix(appended).unwrap_or_default();
  let is_left_behind = appended.len() >= EVIDENCE && head.last().is_some_and(|&byte| byte != b'\n');
  let kept = if is_left_behind { &[] } else { appended };
  Recovery::Rewrite([new, kept].concat())
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
