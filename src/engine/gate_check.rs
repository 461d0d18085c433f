//! Whether layer 1 has passed the bytes that stand in a file now: the question of a reader at the gate.
//!
//! Nothing is written and no lease is asked for: a reader who waits makes a lease impossible anyway.
//! The answer is a stamp, so that whoever asked sees whether the bytes are still those.
#![forbid(unsafe_code)]

use super::{Engine, EngineError, Target, judge::Origin};
use crate::{
  files::{Fs, FsError, MemoryFile as _, Refusal, Stamp, Touch},
  memory::ContentHash,
  store::{FileRow, FileStatus, Pending},
};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
  /// The bytes that the file has with this stamp have been passed.
  At(Stamp),
  /// There is something in it that has to leave first, or it is just changing.
  NotYet,
  /// There is no such file, or none that can be judged; `status` names the latter.
  Never,
}

impl<F: Fs> Engine<F> {
  /// Looks whether the bytes that stand in a file now may be read.
  pub fn passed(&mut self, target: &Target) -> Result<Passed, EngineError> {
    let stamp = match self.stamp(target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) | Err(EngineError::Fs(FsError::Refused { .. })) => return Ok(Passed::Never),
      Err(error) => return Err(error),
    };
    let row = self.ledger.file(&target.path())?;
    if let Some(row) = row.as_ref().filter(|row| row.stamp == Some(super::stamp_row(&stamp))) {
      if row.status == FileStatus::Unscannable {
        return Ok(Passed::Never);
      }
      // A stamp that was taken right after a change may be that of the next one, too: the bytes tell.
      if !row.pending.contains(Pending::RETRY) {
        return Ok(Passed::At(stamp));
      }
    }
    let file = match self.hot.remove(target) {
      Some(file) if file.stamp()?.same_file(&stamp) => file,
      _ => match self.open(target)? {
        Ok(file) => file,
        Err(error) => {
          return Ok(match error.refusal {
            Refusal::Io(_) | Refusal::Busy | Refusal::Replaced => Passed::NotYet,
            _ => Passed::Never,
          });
        }
      },
    };
    let before = file.stamp()?;
    let bytes = file.read_all()?;
    let is_still = before == stamp && file.stamp()? == before;
    let writable = matches!(file.access(), Touch::Full);
    // Closing it would be an event that wakes ourselves; the pass over the file closes it.
    self.hot.insert(target.clone(), file);
    if !is_still {
      return Ok(Passed::NotYet);
    }
    // The version that was judged last, only its stamp is new or too young.
    let hash = ContentHash::of(&bytes);
    let same = |row: &FileRow| row.status == FileStatus::Watched && row.hash == Some(hash);
    // What could not be taken out of it then may have to leave now.
    if row.as_ref().is_some_and(|row| same(row) && !(writable && row.note.is_some())) {
      return Ok(Passed::At(before));
    }
    let origin = Origin::seen(&self.config, false, None);
    let view = self.view_as(target, row.as_ref(), bytes, origin, None, writable)?;
    let clean = view.urgent().redactions.is_empty();
    Ok(if clean { Passed::At(before) } else { Passed::NotYet })
  }
}
