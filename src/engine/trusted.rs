//! The values of trusted memory, which a foreign text may not contradict.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{Engine, EngineError, Target};
use crate::{
  detect::effects::{KnownSlot, known_slots},
  files::Fs,
  judging::{judge::Judge, origin::Origin, text::BlockText, view::View},
  os::WriteLock,
  provenance::{State, Trust},
  store::{BlockRow, FileStatus},
};

/// The file of long-term memory, which the agent reads at every start.
pub(super) const LONG_TERM: &str = "MEMORY.md";
/// The most values that are compared: far more than the memory about one person contains.
const MAX_SLOTS: usize = 4096;

impl<F: Fs> Engine<F> {
  /// The values of the trusted blocks of a file and of the workspace's long-term memory; private values
  /// must not be sent to a judge. A caller that has the write lock must pass it, because it cannot be
  /// acquired twice.
  pub(super) fn trusted_slots(
    &mut self,
    target: &Target,
    rows: &[BlockRow],
    view: &View,
    writing: Option<&WriteLock>,
  ) -> Result<Vec<KnownSlot>, EngineError> {
    let mut slots = trusted_of(&self.judge, self.is_judged_by_model(target), rows, view);
    let memory = Target::new(&target.root, Path::new(LONG_TERM));
    if memory.rel != target.rel
      && let Some((row, rows)) = self.ledger.provenance(&memory.path())?
      && row.status == FileStatus::Watched
      && let Some(bytes) = match writing {
        Some(writing) => self.files.read_under(&memory, row.hash, writing)?,
        None => self.files.read_known(&memory, row.hash)?,
      }
    {
      let view = self.view_known(&memory, Some(&row), bytes)?;
      slots.extend(trusted_of(&self.judge, self.is_judged_by_model(&memory), &rows, &view));
    }
    slots.truncate(MAX_SLOTS);
    Ok(slots)
  }
}

fn trusted_of(judge: &Judge, is_told: bool, rows: &[BlockRow], view: &View) -> Vec<KnownSlot> {
  let mut slots = Vec::new();
  for (row, block) in rows.iter().zip(view.document.blocks()) {
    // A block counts only if all of its text is trusted, or a page could add the value with which
    // it agrees.
    let is_trusted = matches!(row.state, State::Validated | State::Approved)
      && row.live().all(|revision| revision.trust >= Trust::Verified);
    if is_trusted && slots.len() < MAX_SLOTS {
      let may_send = |revision| judge.may_send(&Origin::of_revision(revision));
      let is_private = !(is_told && row.live().all(may_send));
      let text = BlockText::new(&view.bytes, block);
      // Invalid UTF-8 has no values.
      let found = str::from_utf8(text.bytes()).map(known_slots).unwrap_or_default().into_iter();
      slots.extend(found.map(|slot| KnownSlot { is_private, ..slot }));
    }
  }
  slots
}
