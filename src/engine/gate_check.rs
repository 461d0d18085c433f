//! Answers a reader at the gate: whether layer 1 has passed the current bytes of a file.
//!
//! Nothing is written and no lease is requested: the waiting reader makes a lease impossible anyway.
//! The answer is a stamp, so the caller can check whether the bytes are still current.
#![forbid(unsafe_code)]

use super::{Engine, EngineError, Target};
use crate::{
  files::{Fs, FsError, MemoryFile as _, Refusal, Stamp, Touch},
  judging::origin::Origin,
  memory::ContentHash,
  store::{FileRow, FileStatus, Pending},
};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
  /// The bytes of the file with this stamp have passed.
  At(Stamp),
  /// Something must be taken out first, or the file is changing now.
  NotYet,
  /// The file does not exist, or cannot be judged; `status` names the latter.
  Never,
}

impl<F: Fs> Engine<F> {
  /// Checks whether the current bytes of a file may be read.
  pub fn passed(&mut self, target: &Target) -> Result<Passed, EngineError> {
    let stamp = match self.files.stamp(target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) | Err(EngineError::Fs(FsError::Refused { .. })) => return Ok(Passed::Never),
      Err(error) => return Err(error),
    };
    let row = self.ledger.file(&target.path())?;
    if let Some(row) = row.as_ref().filter(|row| row.stamp == Some(super::stamp_row(&stamp))) {
      if row.status == FileStatus::Unscannable {
        return Ok(Passed::Never);
      }
      // Right after a change, the next version may have the same stamp, so the bytes are compared.
      if !row.pending.contains(Pending::RETRY) {
        return Ok(Passed::At(stamp));
      }
    }
    let file = match self.files.take_open(target) {
      Some(file) if file.stamp()?.same_file(&stamp) => file,
      _ => match self.files.open(target)? {
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
    // Closing the file would cause an event that wakes memfw; the next pass closes it.
    self.files.keep_open(target, file);
    if !is_still {
      return Ok(Passed::NotYet);
    }
    // This version was judged last; only its stamp is new or too young.
    let hash = ContentHash::of(&bytes);
    let same = |row: &FileRow| row.status == FileStatus::Watched && row.hash == Some(hash);
    // Poison that could not be taken out at that time may have to be taken out now.
    if row.as_ref().is_some_and(|row| same(row) && !(writable && row.note.is_some())) {
      return Ok(Passed::At(before));
    }
    let origin = Origin::seen(&self.config, false, None);
    let view = self.view_as(target, row.as_ref(), bytes, origin, None, writable)?;
    let clean = view.urgent().redactions.is_empty();
    Ok(if clean { Passed::At(before) } else { Passed::NotYet })
  }
}
