//! Markers that a person does not want: taken out of files, kept out, and put back.
//!
//! The wish stands in the ledger, so it holds for the daemon, too, and over restarts: for all files, for
//! one, or for all but one. The files are changed by the lazy pass alone: journalled, under a lease,
//! compared before each write. Placeholders stay, for each of them is the place to which a text can come
//! back.
//!
//! Invariant: a file whose markers were taken out is byte for byte what it would be had memfw never
//! written any, placeholders aside.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use super::{
  Engine, EngineError, LazyOutcome, Target, event::shown, judge::Origin, review::PATIENCE,
};
use crate::{
  files::{Fs, MemoryFile},
  memory::{BlockId, ContentHash, SegmentKind, marker},
  store::{Pending, Rename, StoreError},
};

/// Under which key the wish for all files stands; with `:` and a path, the one for a single file.
const KEY: &str = "unmarked";
/// Why a file has no markers, in `memfw status`.
pub(super) const WHY: &str =
  "taken out by `memfw markers remove`; `memfw markers add` brings them back";
/// How soon a file that is not idle, or open elsewhere, is tried again.
const RETRY: Duration = Duration::from_millis(5);

/// What stands in a file after its markers were taken out or put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarked {
  /// Whether the file was changed.
  pub changed: bool,
  /// Comments of memfw's that stand in it now, placeholders apart.
  pub marks: usize,
  /// Placeholders in it, each with its line, from 1.
  pub placeholders: Vec<(usize, BlockId)>,
  /// Why it is not as was asked for; in words of ours.
  pub why: Option<String>,
}

impl<F: Fs> Engine<F> {
  /// Whether a person wants no markers in a file.
  pub fn is_unmarked(&self, path: &Path) -> Result<bool, StoreError> {
    let own = self.ledger.health(&key_of(path))?;
    let word = if own.is_some() { own } else { self.ledger.health(KEY)? };
    Ok(word.is_some_and(|(json, _)| json == "true"))
  }

  /// Files were renamed: what a person said about them goes along.
  pub(super) fn rename_unmarked(&mut self, renames: &[Rename]) -> Result<(), EngineError> {
    // All are taken away before the first is written: files may have changed places.
    let mut wishes = Vec::new();
    for Rename { from, to } in renames {
      if let Some((json, at)) = self.ledger.health(&key_of(from))? {
        self.ledger.remove_health(&key_of(from))?;
        wishes.push((key_of(to), json, at));
      }
    }
    for (key, json, at) in wishes {
      self.ledger.set_health(&key, &json, at)?;
    }
    Ok(())
  }

  /// Notes that markers are not wanted, or wanted again, in all files.
  pub fn want_marks(&mut self, wanted: bool) -> Result<(), EngineError> {
    let own = format!("{KEY}:");
    for (key, ..) in self.ledger.healths()? {
      if key.starts_with(&own) {
        self.ledger.remove_health(&key)?;
      }
    }
    self.wish(KEY, !wanted, false)
  }

  /// The same for one file.
  pub fn want_marks_in(&mut self, path: &Path, wanted: bool) -> Result<(), EngineError> {
    let all = self.ledger.health(KEY)?.is_some_and(|(json, _)| json == "true");
    self.wish(&key_of(path), !wanted, all)
  }

  /// Notes a wish under a key, unless it is what holds without it.
  fn wish(&mut self, key: &str, unmarked: bool, otherwise: bool) -> Result<(), EngineError> {
    if unmarked == otherwise {
      self.ledger.remove_health(key)?;
    } else {
      let at = self.now();
      self.ledger.set_health(key, &unmarked.to_string(), at)?;
    }
    Ok(())
  }

  /// Makes the markers of a file what is wanted, waiting a while for others to close it.
  pub fn remark(&mut self, target: &Target) -> Result<Remarked, EngineError> {
    let path = target.path();
    self.catch_up(target)?;
    let before = self.hash_of(&path)?;
    self.still_due(&target.path(), Pending::RESHAPE)?;
    self.attribute(target, Duration::ZERO)?;
    let start = self.clock.monotonic();
    let why = loop {
      let wait = match self.lazy(target, Duration::ZERO)? {
        LazyOutcome::Done => break None,
        LazyOutcome::NotIdle(wait) => wait.max(RETRY),
        LazyOutcome::Busy => RETRY,
        LazyOutcome::Dirty => {
          self.catch_up(target)?;
          self.still_due(&target.path(), Pending::RESHAPE)?;
          RETRY
        }
      };
      if self.clock.monotonic().saturating_sub(start) >= PATIENCE {
        break Some("another program has it open or keeps writing to it".to_owned());
      }
      self.clock.pause(wait);
    };
    let after = self.hash_of(&path)?;
    let (marks, placeholders) = self.marks_in(target)?;
    let row = self.ledger.file(&path)?;
    let why = match (why, &row) {
      (Some(why), _) => Some(why),
      (None, Some(row)) if self.is_unmarked(&path)? => (marks > 0).then(|| {
        row.note.clone().unwrap_or_else(|| "this file system allows no change of length".to_owned())
      }),
      (None, Some(row)) if row.pending.contains(Pending::ATTRIBUTE) => {
        Some("markers come once it is known who wrote what is new".to_owned())
      }
      (None, Some(row)) => row.note.clone().or_else(|| row.unmarked.clone()),
      (None, None) => Some("memfw does not know the file".to_owned()),
    };
    Ok(Remarked { changed: before != after, marks, placeholders, why })
  }

  fn hash_of(&self, path: &Path) -> Result<Option<ContentHash>, EngineError> {
    Ok(self.ledger.file(path)?.and_then(|row| row.hash))
  }

  /// How many comments of memfw's stand in a file, and which placeholders.
  fn marks_in(&mut self, target: &Target) -> Result<(usize, Vec<(usize, BlockId)>), EngineError> {
    let none = (0, Vec::new());
    if self.stamp(target)?.is_none() {
      return Ok(none);
    }
    let Ok(file) = self.open_within(target, PATIENCE)? else { return Ok(none) };
    let bytes = file.read_all()?;
    drop(file);
    if marker::find(&bytes, b"memfw", 0).is_none() {
      return Ok(none);
    }
    let row = self.ledger.file(&target.path())?;
    let view = self.view(target, row.as_ref(), bytes, Origin::unknown(), None)?;
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

fn key_of(path: &Path) -> String {
  format!("{KEY}:{}", shown(path))
}

#[cfg(test)]
#[path = "unmark_tests.rs"]
mod tests;
