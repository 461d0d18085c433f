//! Checks whether all written text has been processed, without opening a file.
#![forbid(unsafe_code)]

use std::{
  fmt,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{Engine, EngineError, RACY, Target, event::shown, stamp::stamp_of};
use crate::{
  files::{Fs, FsError, Shapes, Stamp, Workspace},
  store::{FileRow, FileStatus, Ledger, Pending},
};

/// The shortest time after which a file is read again.
const SOON: Duration = Duration::from_millis(1);

/// Work that is still to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsettled {
  /// A file differs from what the ledger knows.
  Dirty(PathBuf),
  /// Markers of a file must be renewed.
  Markers(PathBuf),
  /// The agent's records must be asked about text of a file.
  Sources(PathBuf),
  /// The encoder must read text of a file.
  Scores(PathBuf),
  /// Text of a file may need a question to the judge, or an answer is to be applied.
  Judging(PathBuf),
  /// A file that the ledger knows is gone, and the ledger has not noticed it yet.
  Gone(PathBuf),
  /// An operation is open.
  Operation,
}

impl fmt::Display for Unsettled {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Dirty(path) => write!(f, "changes of `{}`", shown(path)),
      Self::Sources(path) => write!(f, "sources of new text in `{}`", shown(path)),
      Self::Scores(path) => write!(f, "the model's reading of new text in `{}`", shown(path)),
      Self::Judging(path) => write!(f, "questions or answers about `{}`", shown(path)),
      Self::Markers(path) => write!(f, "markers of `{}`", shown(path)),
      Self::Gone(path) => write!(f, "the removal of `{}`", shown(path)),
      Self::Operation => f.write_str("an open operation"),
    }
  }
}

impl<F: Fs> Engine<F> {
  /// How long it takes until the ledger's stamp of a file shows every later change.
  pub fn settles_in(&self, target: &Target) -> Result<Duration, EngineError> {
    let row = self.ledger.file(&target.path())?;
    let stamp = row.and_then(|row| row.stamp).map(|stamp| stamp_of(&stamp));
    // At least a moment, so that a caller does not read the file in a loop.
    Ok(stamp.map_or(RACY, |stamp| stamp.settles_in(self.now())).max(SOON))
  }
}

/// Whether a file was read when a later change could still have the same stamp, so that it is read again. A
/// file that another program keeps open, or that may not be opened, is checked again regularly; that is not
/// worth waiting for.
fn is_reread(row: &FileRow, stamp: &Stamp) -> bool {
  let was_young = row.scanned_at.is_some_and(|at| !stamp.is_settled(at));
  row.status != FileStatus::Unscannable && row.pending.contains(Pending::RETRY) && was_young
}

/// The work that is still to be done in these workspaces. Files that cannot be opened count as settled
/// once that was reported.
pub fn unsettled<F: Fs>(
  fs: &F,
  ledger: &Ledger,
  workspaces: &[PathBuf],
  shapes: &Shapes,
) -> Result<Vec<Unsettled>, EngineError> {
  let mut found = Vec::new();
  if ledger.has_open_ops()? {
    found.push(Unsettled::Operation);
  }
  for path in workspaces {
    // A missing workspace has no work; `status` names it.
    let Ok(workspace) = Workspace::open(fs, path) else { continue };
    for rel in workspace.walk_as(fs, shapes.of(path)).files {
      let file = workspace.absolute(&rel);
      // A file that is in a workspace, too, belongs to that workspace.
      let is_of =
        |other: &PathBuf| file.strip_prefix(other).is_ok_and(|rel| shapes.of(other).has(rel));
      if shapes.is_elsewhere(path) && workspaces.iter().find(|other| is_of(other)) != Some(path) {
        continue;
      }
      let stamp = match fs.stamp(workspace.root(), &rel) {
        // A mount over it, or a link in its path: there is no work; `status` names it.
        Err(FsError::Refused { .. }) => continue,
        answer => answer?,
      };
      match (stamp, ledger.file(&file)?) {
        (Some(stamp), Some(row)) if row.stamp == Some(super::stamp_row(&stamp)) => {
          if is_reread(&row, &stamp) {
            found.push(Unsettled::Dirty(file));
          } else if row.pending.contains(Pending::ATTRIBUTE) {
            found.push(Unsettled::Sources(file));
          } else if row.pending.contains(Pending::MODEL) {
            found.push(Unsettled::Scores(file));
          } else if row.pending.contains(Pending::JUDGE) {
            found.push(Unsettled::Judging(file));
          } else if row.pending.contains(Pending::RESHAPE) {
            found.push(Unsettled::Markers(file));
          }
        }
        (Some(_), _) => found.push(Unsettled::Dirty(file)),
        (None, _) => {}
      }
    }
  }
  for row in ledger.files()? {
    let watched = workspaces.iter().any(|path: &PathBuf| path.as_path() == row.workspace.as_path());
    if watched && row.status != FileStatus::Missing && is_gone(&row.path) {
      found.push(Unsettled::Gone(row.path));
    }
  }
  Ok(found)
}

fn is_gone(path: &Path) -> bool {
  path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
