//! Work that is due on files, as the ledger has it: a restart loses none.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::{EngineError, Target};
use crate::store::{BlockRow, Ledger, Pending};

/// Whether this work is due on a file.
pub fn is_pending(ledger: &Ledger, target: &Target, work: Pending) -> Result<bool, EngineError> {
  let row = ledger.file(&target.path())?;
  Ok(row.is_some_and(|row| row.pending.contains(work)))
}

/// Marks work as due, if the ledger knows the file.
pub fn add(ledger: &mut Ledger, path: &Path, due: Pending) -> Result<(), EngineError> {
  if ledger.file(path)?.is_some() {
    ledger.change_pending(path, Pending::NONE, due)?;
  }
  Ok(())
}

/// Marks work as done.
pub fn remove(ledger: &mut Ledger, path: &Path, done: Pending) -> Result<(), EngineError> {
  if ledger.file(path)?.is_some() {
    ledger.change_pending(path, done, Pending::NONE)?;
  }
  Ok(())
}

/// Files about which the agent's records are to be asked, also those whose records could not be read.
pub fn attributions(ledger: &Ledger) -> Result<Vec<Target>, EngineError> {
  Ok(targets(ledger.attributions_due()?))
}

/// Files with text that the encoder has not read.
pub fn scores(ledger: &Ledger) -> Result<Vec<Target>, EngineError> {
  Ok(targets(ledger.scores_due()?))
}

/// Files with work for the judge (layer 3).
pub fn judgements(ledger: &Ledger) -> Result<Vec<Target>, EngineError> {
  Ok(targets(ledger.judging_due()?))
}

/// Whether the agent's records are to be asked about a file whose blocks have these rows.
pub(super) fn attribution_of(
  ledger: &Ledger,
  path: &Path,
  rows: &[BlockRow],
) -> Result<Pending, EngineError> {
  let is_due = rows.iter().any(|row| row.live().any(|one| one.trail.due))
    || !ledger.due_items(path)?.is_empty();
  Ok(if is_due { Pending::ATTRIBUTE } else { Pending::NONE })
}

/// The targets of such pairs of workspace and file.
pub(super) fn targets(files: Vec<(PathBuf, PathBuf)>) -> Vec<Target> {
  let files = files.iter();
  files
    .filter_map(|(root, path)| path.strip_prefix(root).ok().map(|rel| Target::new(root, rel)))
    .collect()
}

/// The guarded file behind a path of the ledger.
pub fn target_of(ledger: &Ledger, path: &Path) -> Result<Option<Target>, EngineError> {
  let row = ledger.file(path)?;
  Ok(row.and_then(|row| {
    row.path.strip_prefix(&row.workspace).ok().map(|rel| Target::new(&row.workspace, rel))
  }))
}
