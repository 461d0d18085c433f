//! The guarded directories: which they are, and into which of them this installation may write.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::shared::Locks;
use crate::{
  engine::{Target, event::shown},
  files::Shapes,
};

/// What is guarded.
pub(super) struct Directories {
  /// Absolute paths without symbolic links, as far as they exist, workspaces first.
  pub(super) workspaces: Vec<PathBuf>,
  /// Which of them are not workspaces.
  pub(super) shapes: Shapes,
  /// Whether a person named them, so that each of them must exist.
  pub(super) is_named: bool,
  /// The locks that decide into which of them this installation may write.
  pub(super) locks: Locks,
}

impl Directories {
  /// Directories that were not looked at yet.
  pub(super) fn new(workspaces: Vec<PathBuf>, shapes: Shapes, is_named: bool) -> Self {
    Self { workspaces, shapes, is_named, locks: Locks::default() }
  }

  /// The memory file at a path; `None` where another installation guards its directory.
  pub(super) fn target(&self, path: &Path) -> Option<Target> {
    self.workspaces.iter().find_map(|root| {
      let rel = path.strip_prefix(root).ok().filter(|_| !self.locks.is_foreign(root))?;
      self.shapes.of(root).has(rel).then(|| Target::new(root, rel))
    })
  }

  /// Whether a path is in none of them.
  pub(super) fn is_outside(&self, path: &Path) -> bool {
    !self.workspaces.iter().any(|root| path.starts_with(root))
  }

  /// Why a single run cannot do its work, if another installation guards a directory.
  pub(super) fn guarded_elsewhere(&self) -> Option<String> {
    let root = self.locks.foreign().next()?;
    Some(format!("another memfw guards `{}`", shown(root)))
  }
}
