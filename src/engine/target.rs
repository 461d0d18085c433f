//! The name of one memory file of one workspace.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::event::shown;
use crate::store::{Part, PartKind};

/// One memory file of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
  /// The workspace.
  pub root: PathBuf,
  /// The file, relative to the workspace.
  pub rel: PathBuf,
}

impl Target {
  /// A file of a workspace.
  pub fn new(root: &Path, rel: &Path) -> Self {
    Self { root: root.to_owned(), rel: rel.to_owned() }
  }

  /// The absolute path.
  pub fn path(&self) -> PathBuf {
    self.root.join(&self.rel)
  }

  /// Protection of this file, as a part that can be reduced.
  pub fn part(&self, kind: PartKind) -> Part {
    kind.of(shown(&self.path()))
  }
}
