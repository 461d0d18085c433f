//! Keeps the current content of a file as a version.
#![forbid(unsafe_code)]

use super::{Engine, EngineError, Target, versions::report};
use crate::{
  files::{Fs, MemoryFile},
  memory::{ContentHash, bare, marker},
  store::{NewVersion, Writer},
};

impl<F: Fs> Engine<F> {
  /// Keeps the current content of a judged file. A file that has changed since is left to the next
  /// pass.
  pub fn keep_present(&mut self, target: &Target) -> Result<(), EngineError> {
    let kept = self.try_keep_present(target);
    let at = self.now();
    report(&mut self.ledger, kept, at)
  }

  fn try_keep_present(&mut self, target: &Target) -> Result<(), EngineError> {
    let path = target.path();
    if !self.versions.are_kept(&self.ledger) || !self.ledger.is_version_due(&path)? {
      return Ok(());
    }
    let _writing = self.files.lock()?;
    let Some(row) = self.ledger.file(&path)? else { return Ok(()) };
    let Ok(file) = self.files.open(target)? else { return Ok(()) };
    let bytes = file.read_all()?;
    let file_hash = ContentHash::of(&bytes);
    // Closed before the slow part, so that other programs can get a lease.
    drop(file);
    if row.hash != Some(file_hash) {
      return Ok(());
    }
    let seen_at = row.scanned_at.unwrap_or_else(|| self.now());
    let bytes = self.bare(target, bytes)?;
    let new = NewVersion { path: &path, file_hash, bytes: &bytes, writer: Writer::Other, seen_at };
    let at = self.now();
    self.versions.keep(&mut self.ledger, &new, at)
  }

  /// The content of a file without memfw's comments.
  pub(super) fn bare(&mut self, target: &Target, bytes: Vec<u8>) -> Result<Vec<u8>, EngineError> {
    if marker::find(&bytes, b"memfw", 0).is_none() {
      return Ok(bytes);
    }
    let compact = self.files.may_reshape(&target.root);
    let row = self.ledger.file(&target.path())?;
    let view = self.view_known(target, row.as_ref(), bytes)?;
    Ok(bare(&view.document, &view.bytes, compact))
  }
}
