//! Keeps versions of files, outside the urgent path. A recorded version is kept once its lease is
//! released; a baseline is kept later, one file at a time, when nothing else is due.
//!
//! Invariant: keeping versions never prevents the guarding of a file; a failure is shown by `status`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{Engine, EngineError, Target, judge::Origin, view::View};
use crate::{
  files::{Fs, MemoryFile},
  memory::{ContentHash, bare, marker},
  store::{NewVersion, Retention, StoreError, Writer},
};

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// The key of the degradation when versions are not kept.
const DEGRADED_KEY: &str = "versions";

/// A version that is recorded, but not kept yet.
pub(super) struct UnkeptVersion {
  path: PathBuf,
  file_hash: ContentHash,
  bytes: Vec<u8>,
}

impl<F: Fs> Engine<F> {
  /// Notes the version that was just recorded. Baselines are kept later.
  pub(super) fn note_version(&mut self, target: &Target, view: &View, adopting: bool) {
    if adopting || !self.keeps_versions() {
      return;
    }
    // Without markers, so that writing markers makes no new version.
    let bytes = bare(&view.document, &view.bytes, self.files.may_reshape(&target.root));
    self.noted = Some(UnkeptVersion { path: target.path(), file_hash: view.hash, bytes });
  }

  /// Keeps the noted version, if any.
  pub(super) fn keep_noted(&mut self, writer: Writer) -> Result<(), EngineError> {
    let Some(UnkeptVersion { path, file_hash, bytes }) = self.noted.take() else { return Ok(()) };
    let seen_at = self.now();
    let new = NewVersion { path: &path, file_hash, bytes: &bytes, writer, seen_at };
    let kept = self.keep(&new);
    self.told(kept)
  }

  /// Guarded files whose current content is not kept yet. If the configuration allows no versions, all
  /// versions are deleted.
  pub fn versions_due(&mut self) -> Result<Vec<Target>, EngineError> {
    if self.config.version_mb == 0 {
      if self.ledger.version_totals()?.versions > 0 {
        self.ledger.forget_versions()?;
      }
      self.recovered(DEGRADED_KEY)?;
    }
    if !self.keeps_versions() {
      return Ok(Vec::new());
    }
    let due = self.ledger.versions_due()?.into_iter();
    Ok(
      due
        .filter_map(|(root, path)| path.strip_prefix(&root).ok().map(|rel| Target::new(&root, rel)))
        .collect(),
    )
  }

  /// Keeps the current content of a judged file. A file that has changed since is left to the next
  /// pass.
  pub fn keep_present(&mut self, target: &Target) -> Result<(), EngineError> {
    let kept = self.try_keep_present(target);
    self.told(kept)
  }

  fn try_keep_present(&mut self, target: &Target) -> Result<(), EngineError> {
    let path = target.path();
    if !self.keeps_versions() || !self.ledger.is_version_due(&path)? {
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
    self.keep(&new)
  }

  /// The content of a file without memfw's comments.
  pub(super) fn bare(&mut self, target: &Target, bytes: Vec<u8>) -> Result<Vec<u8>, EngineError> {
    if marker::find(&bytes, b"memfw", 0).is_none() {
      return Ok(bytes);
    }
    let compact = self.files.may_reshape(&target.root);
    let row = self.ledger.file(&target.path())?;
    let view = self.view(target, row.as_ref(), bytes, Origin::unknown(), None)?;
    Ok(bare(&view.document, &view.bytes, compact))
  }

  /// Stores a version with the configured limits.
  pub(super) fn keep(&mut self, new: &NewVersion<'_>) -> Result<(), EngineError> {
    let retention = Retention {
      max_age: i64::try_from(self.config.version_days).unwrap_or(i64::MAX).saturating_mul(DAY),
      max_bytes: self.config.version_mb.saturating_mul(1_000_000),
    };
    let at = self.now();
    self.ledger.keep_version(new, &retention, at)?;
    Ok(())
  }

  /// Whether versions are kept; without a key nothing can be sealed.
  fn keeps_versions(&self) -> bool {
    self.config.version_mb > 0 && self.ledger.has_key()
  }

  /// Reports whether versions are kept. A failure reduces no protection, so guarding continues.
  fn told(&mut self, kept: Result<(), EngineError>) -> Result<(), EngineError> {
    match kept {
      Ok(()) => self.recovered(DEGRADED_KEY),
      Err(EngineError::Store(error)) if !error.is_passing() && !is_of_one(&error) => {
        Err(error.into())
      }
      Err(error) => self.degrade(DEGRADED_KEY, &format!("versions are not kept: {error}")),
    }
  }
}

/// Whether an error concerns one version and not the ledger.
fn is_of_one(error: &StoreError) -> bool {
  matches!(error, StoreError::Unsealable { .. } | StoreError::UnknownFile { .. })
}
