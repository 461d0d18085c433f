//! Markers that a person does not want: removes them from files, prevents new ones, and adds them
//! again.
//!
//! The wish is in the ledger, so it also applies to the daemon and after restarts. It covers all files,
//! one file, or all but one. Only the lazy pass changes the files: journalled, under a lease, compared
//! before each write. Placeholders stay, because each of them is the place to which a text can return.
//!
//! Invariant: a file whose markers were removed has exactly the bytes that it would have if memfw had
//! never written any, except for placeholders.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Engine, EngineError, LazyOutcome, Target, marker_preference, pending, prepare::PATIENCE,
};
use crate::{
  files::{Fs, MemoryFile},
  memory::{BlockId, SegmentKind, marker},
  store::Pending,
};

/// The pause before a file that is not idle, or is open elsewhere, is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// The state of a file after its markers were removed or added again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarked {
  /// Whether the file was changed.
  pub changed: bool,
  /// The number of memfw's comments in the file now, without placeholders.
  pub marks: usize,
  /// Its placeholders, each with its line, counted from 1.
  pub placeholders: Vec<(usize, BlockId)>,
  /// Why the request was not fulfilled, in memfw's own words.
  pub why: Option<String>,
}

impl<F: Fs> Engine<F> {
  /// Adds or removes the markers of a file as wanted, and waits a while for other programs to close it.
  pub fn remark(&mut self, target: &Target) -> Result<Remarked, EngineError> {
    let path = target.path();
    self.catch_up(target)?;
    let before = self.ledger.file(&path)?.and_then(|row| row.hash);
    self.mark_reshape(target)?;
    // Markers wait for the sources of new text, and a person is waiting for the markers.
    self.attribute(target, Duration::ZERO)?;
    let start = self.clock.monotonic();
    let why = loop {
      let wait = match self.write_due(target, Duration::ZERO)? {
        LazyOutcome::Done | LazyOutcome::NotBack => break None,
        LazyOutcome::NotIdle(wait) => wait.max(RETRY),
        LazyOutcome::Busy => RETRY,
        LazyOutcome::Dirty => {
          self.catch_up(target)?;
          self.mark_reshape(target)?;
          RETRY
        }
      };
      if self.clock.monotonic().saturating_sub(start) >= PATIENCE {
        break Some("another program has it open or keeps writing to it".to_owned());
      }
      self.clock.pause(wait);
    };
    let (marks, placeholders) = self.marks_in(target)?;
    let row = self.ledger.file(&path)?;
    let after = row.as_ref().and_then(|row| row.hash);
    let why = match (why, &row) {
      (Some(why), _) => Some(why),
      (None, Some(row)) if marker_preference::is_unmarked(&self.ledger, &path)? => (marks > 0)
        .then(|| {
          row.note.clone().unwrap_or_else(|| {
          "a comment in it imitates one of memfw's, or this file system allows no change of length"
            .to_owned()
        })
        }),
      (None, Some(row)) if row.pending.contains(Pending::ATTRIBUTE) => {
        Some("memfw writes markers once it is known who wrote the new text".to_owned())
      }
      (None, Some(row)) => row.note.clone().or_else(|| row.unmarked.clone()),
      (None, None) => Some("memfw does not know the file".to_owned()),
    };
    Ok(Remarked { changed: before != after, marks, placeholders, why })
  }

  /// Marks a file for its lazy pass. One that has begun before does not know what is wanted, and must not clear the
  /// mark: so the write lock is held meanwhile.
  fn mark_reshape(&mut self, target: &Target) -> Result<(), EngineError> {
    let _writing = self.files.lock()?;
    pending::add(&mut self.ledger, &target.path(), Pending::RESHAPE)
  }

  /// The number of memfw's comments in a file, and its placeholders.
  fn marks_in(&mut self, target: &Target) -> Result<(usize, Vec<(usize, BlockId)>), EngineError> {
    let none = (0, Vec::new());
    if self.files.stamp(target)?.is_none() {
      return Ok(none);
    }
    let Ok(file) = self.files.open_within(target, PATIENCE)? else { return Ok(none) };
    let bytes = file.read_all()?;
    drop(file);
    if marker::find(&bytes, b"memfw", 0).is_none() {
      return Ok(none);
    }
    let row = self.ledger.file(&target.path())?;
    let view = self.view_known(target, row.as_ref(), bytes)?;
    let (mut marks, mut placeholders) = (0, Vec::new());
    for segment in view.document.segments() {
      match &segment.kind {
        SegmentKind::Opener(_) | SegmentKind::Closer | SegmentKind::IdMark(_) => marks += 1,
        SegmentKind::Placeholder(id) => {
          let before = view.bytes.get(..segment.span.start).unwrap_or_default();
          let line = before.split(|&byte| byte == b'\n').count();
          placeholders.push((line, id.clone()));
        }
        SegmentKind::Block(_) | SegmentKind::Bom | SegmentKind::Blank => {}
      }
    }
    Ok((marks, placeholders))
  }
}

#[cfg(test)]
#[path = "unmark_tests.rs"]
mod tests;
