//! Files that were renamed: what is known about their text goes along, so that markers and placeholders in them
//! stay what they are.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Target,
  event::{Event, EventKind, shown},
  view::ids_in,
};
use crate::{
  memory::ContentHash,
  os::{Fs, Stamp},
};

impl<F: Fs> Engine<F> {
  /// Whether a file that the ledger does not know is one that it knew elsewhere in the workspace; then the
  /// ledger knows it here. A copy is none: its model is still there.
  ///
  /// The content has to be that of the last version, and to be the same file on the disk or to hold ids of
  /// memfw's, which nobody can guess: two files that are alike by chance stay two.
  pub(super) fn follow_rename(
    &mut self,
    target: &Target,
    (hash, bytes): (ContentHash, &[u8]),
    stamp: &Stamp,
  ) -> Result<bool, EngineError> {
    let here = super::stamp_row(stamp);
    for (path, inode) in self.ledger.files_of(&target.root, hash)? {
      let Ok(rel) = path.strip_prefix(&target.root) else { continue };
      let before = Target::new(&target.root, rel);
      let is_it = inode == Some((here.dev, here.ino)) || !ids_in(bytes).is_empty();
      // Where findings are only reported, some stay that would go elsewhere.
      let is_alike = self.treatment(&before) == self.treatment(target);
      if !(is_it && is_alike && matches!(self.stamp(&before), Ok(None))) {
        continue;
      }
      let detail = format!("from `{}`", shown(&path));
      let event = Event::new(EventKind::Renamed).path(&target.path()).detail(detail);
      let at = self.now();
      if self.ledger.rename_file(&path, &target.path(), &[event.row()], at)? {
        self.hot.remove(&before);
        event.log(None);
        return Ok(true);
      }
    }
    Ok(false)
  }
}
