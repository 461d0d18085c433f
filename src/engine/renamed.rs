//! Files that were renamed: what is known about their text goes along, so that markers and placeholders in them
//! stay what they are.
#![forbid(unsafe_code)]

use std::{collections::HashSet, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
  Engine, EngineError, Target,
  event::{Event, EventKind, shown},
  trusted::LONG_TERM,
  view::ids_in,
};
use crate::{
  files::{Fs, Stamp},
  memory::{BlockId, ContentHash},
  store::Pending,
};

/// Files with the same content that are looked at (a choice: templates may have many copies).
const MAX_ALIKE: usize = 16;

impl<F: Fs> Engine<F> {
  /// Whether a file that the ledger does not know is one that it knew elsewhere in the workspace; then the
  /// ledger knows it here. A copy is none: the original is still there.
  ///
  /// The content has to be that of the last version, and to be the same file on the disk or to hold an id
  /// that this file had: two files that are alike by chance stay two.
  pub(super) fn follow_rename(
    &mut self,
    target: &Target,
    (hash, bytes): (ContentHash, &[u8]),
    stamp: &Stamp,
  ) -> Result<bool, EngineError> {
    if bytes.is_empty() {
      return Ok(false);
    }
    let (here, ids) = (super::stamp_row(stamp), ids_in(bytes));
    for (path, inode) in self.ledger.files_of(&target.root, hash, MAX_ALIKE)? {
      let Ok(rel) = path.strip_prefix(&target.root) else { continue };
      let before = Target::new(&target.root, rel);
      let is_it = inode == Some((here.dev, here.ino)) || self.has_id_of(&path, &ids)?;
      if !(is_it && self.may_follow(&before, target)? && matches!(self.stamp(&before), Ok(None))) {
        continue;
      }
      let detail = format!("from `{}`", shown(&path));
      let event = Event::new(EventKind::Renamed).path(&target.path()).detail(detail);
      let at = self.now();
      if self.ledger.rename_file(&path, &target.path(), &[event.row()], at)? {
        self.hot.remove(&before);
        event.log(None);
        self.rename_unmarked(&path, &target.path())?;
        // What was still to be read is read now, and nothing twice: answers are kept by content.
        let model = if self.model.is_some() { Pending::MODEL } else { Pending::NONE };
        let judge = if self.is_judged_by_model(target) { Pending::JUDGE } else { Pending::NONE };
        self.still_due(&target.path(), model | judge)?;
        return Ok(true);
      }
    }
    Ok(false)
  }

  fn has_id_of(&self, path: &Path, ids: &HashSet<BlockId>) -> Result<bool, EngineError> {
    if ids.is_empty() {
      return Ok(false);
    }
    let (placeholders, markers) =
      (self.ledger.placeholder_ids(path)?, self.ledger.marker_ids(path)?);
    Ok(ids.iter().any(|id| placeholders.contains_key(id) || markers.contains(id)))
  }

  /// Whether text that was judged in one file may stand in another one without being judged again.
  fn may_follow(&self, before: &Target, target: &Target) -> Result<bool, EngineError> {
    // What was let pass in a note that is only searched stands before the agent at every start here.
    let is_promoted = target.rel == Path::new(LONG_TERM)
      && self.ledger.known_as(&before.path())? != target.path().as_os_str().as_bytes();
    // Where findings are only reported, some stay that would go elsewhere.
    let is_alike = self.treatment(before) == self.treatment(target)
      && self.is_judged_by_model(before) == self.is_judged_by_model(target);
    Ok(is_alike && !is_promoted)
  }
}
