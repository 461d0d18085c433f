//! Keeps versions of files, outside the urgent path. A recorded version is kept once its lease is
//! released; a baseline is kept later, one file at a time, when nothing else is due.
//!
//! Invariant: keeping versions never prevents the guarding of a file; a failure is shown by `status`.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc};

use super::{EngineError, Target, degraded, pending::targets};
use crate::{
  config::Config,
  judging::view::View,
  memory::{ContentHash, bare},
  store::{Ledger, NewVersion, PartKind, Retention, StoreError, Writer},
};

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// A version that is recorded, but not kept yet.
struct UnkeptVersion {
  path: PathBuf,
  file_hash: ContentHash,
  bytes: Vec<u8>,
}

/// Keeps versions of files in the ledger; knows the version that was recorded last.
pub struct Versions {
  config: Arc<Config>,
  /// A version that the ledger has recorded, but whose content is not kept yet.
  unkept: Option<UnkeptVersion>,
  /// A version that memfw made for a person, which the next pass records.
  ours: Option<ContentHash>,
}

impl Versions {
  pub(super) const fn new(config: Arc<Config>) -> Self {
    Self { config, unkept: None, ours: None }
  }

  pub(super) fn configure(&mut self, config: Arc<Config>) {
    self.config = config;
  }

  /// Whether versions are kept; without a key nothing can be sealed.
  pub(super) fn are_kept(&self, ledger: &Ledger) -> bool {
    self.config.version_mb > 0 && ledger.has_key()
  }

  /// Notes a version that was just recorded. `compact` says whether lengths may change in its
  /// workspace.
  pub(super) fn note(&mut self, ledger: &Ledger, path: PathBuf, view: &View, compact: bool) {
    if self.are_kept(ledger) {
      // Without markers, so that writing markers makes no new version.
      let bytes = bare(&view.document, &view.bytes, compact);
      self.unkept = Some(UnkeptVersion { path, file_hash: view.hash, bytes });
    }
  }

  /// Notes that memfw made this version because a person asked for it.
  pub(super) const fn note_ours(&mut self, version: ContentHash) {
    self.ours = Some(version);
  }

  /// Keeps the noted version, if any.
  pub(super) fn keep_noted(
    &mut self,
    ledger: &mut Ledger,
    writer: Writer,
    at: i64,
  ) -> Result<(), EngineError> {
    let Some(UnkeptVersion { path, file_hash, bytes }) = self.unkept.take() else { return Ok(()) };
    let is_ours = self.ours.take_if(|ours| *ours == file_hash).is_some();
    let writer = if is_ours { Writer::Memfw } else { writer };
    let new = NewVersion { path: &path, file_hash, bytes: &bytes, writer, seen_at: at };
    let kept = self.keep(ledger, &new, at);
    report(ledger, kept, at)
  }

  /// Guarded files whose current content is not kept yet. If the configuration allows no versions, all
  /// versions are deleted.
  pub fn due(&self, ledger: &mut Ledger, at: i64) -> Result<Vec<Target>, EngineError> {
    if self.config.version_mb == 0 {
      if ledger.version_totals()?.versions > 0 {
        ledger.forget_versions()?;
      }
      degraded::recovered(ledger, PartKind::Versions, at)?;
    }
    if !self.are_kept(ledger) {
      return Ok(Vec::new());
    }
    Ok(targets(ledger.versions_due()?))
  }

  /// Stores a version with the configured limits.
  pub(super) fn keep(
    &self,
    ledger: &mut Ledger,
    new: &NewVersion<'_>,
    at: i64,
  ) -> Result<(), EngineError> {
    // By their age they are pruned once a day, where the clock is not in doubt ([`Self::prune`]).
    let retention = Retention { max_age: i64::MAX, ..self.retention() };
    ledger.keep_version(new, &retention, at)?;
    Ok(())
  }

  /// Removes versions that were replaced long ago; says how many, at most a limited number at once.
  pub(super) fn prune(&self, ledger: &mut Ledger, at: i64) -> Result<u64, EngineError> {
    // Where none are kept, those that are left are of losses that wait, and no more come.
    if self.config.version_mb == 0 {
      return Ok(0);
    }
    Ok(ledger.prune_versions(&self.retention(), at)?)
  }

  fn retention(&self) -> Retention {
    Retention {
      max_age: i64::try_from(self.config.version_days).unwrap_or(i64::MAX).saturating_mul(DAY),
      max_bytes: self.config.version_mb.saturating_mul(1_000_000),
    }
  }
}

/// Reports whether versions are kept. A failure reduces no protection, so guarding continues.
pub(super) fn report(
  ledger: &mut Ledger,
  kept: Result<(), EngineError>,
  at: i64,
) -> Result<(), EngineError> {
  match kept {
    Ok(()) => Ok(degraded::recovered(ledger, PartKind::Versions, at)?),
    Err(EngineError::Store(error)) if !error.is_passing() && !is_of_one(&error) => {
      Err(error.into())
    }
    Err(error) => {
      let why = format!("versions are not kept: {error}");
      Ok(degraded::degrade(ledger, PartKind::Versions, &why, at)?)
    }
  }
}

/// Whether an error concerns one version and not the ledger.
fn is_of_one(error: &StoreError) -> bool {
  matches!(error, StoreError::Unsealable { .. } | StoreError::UnknownFile { .. })
}
