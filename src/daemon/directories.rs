//! The guarded directories, and the condition of each.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet, HashSet},
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  health::Room,
  poll::{Polls, Retries},
  shared::Locks,
};
use crate::{engine::Target, files::Shapes};

/// What is guarded, and in which condition it is.
pub(super) struct Directories {
  /// Absolute paths without symbolic links, as far as they exist, workspaces first.
  pub(super) workspaces: Vec<PathBuf>,
  /// Which of them are not workspaces.
  pub(super) shapes: Shapes,
  /// Whether a person named them, so that each of them must exist.
  pub(super) is_named: bool,
  /// What `status` reports about each.
  pub(super) rooms: BTreeMap<PathBuf, Room>,
  /// The locks that decide into which of them this installation may write.
  pub(super) locks: Locks,
  /// Those that are polled because events are not reliable there.
  pub(super) polls: Polls,
  /// Those of which a part could not be read, and may be readable later.
  pub(super) retries: Retries,
  /// Those of which a part is not guarded.
  pub(super) incomplete: HashSet<PathBuf>,
  /// The paths in them that could not be read.
  pub(super) unreadable: HashSet<PathBuf>,
  /// Symbolic links in them that no rescan followed.
  pub(super) links: HashSet<PathBuf>,
  /// Memory files that are hidden by a mount.
  pub(super) mounted: BTreeSet<PathBuf>,
  /// Those that need a rescan.
  pub(super) rescans: BTreeSet<PathBuf>,
  /// The earliest time of the next rescan.
  pub(super) next_rescan: Duration,
  /// Grows with each directory that is watched from then on.
  pub(super) generation: u64,
}

impl Directories {
  /// Directories that were not looked at yet.
  pub(super) fn new(workspaces: Vec<PathBuf>, shapes: Shapes, is_named: bool) -> Self {
    Self {
      workspaces,
      shapes,
      is_named,
      rooms: BTreeMap::new(),
      locks: Locks::default(),
      polls: Polls::default(),
      retries: Retries::default(),
      incomplete: HashSet::new(),
      unreadable: HashSet::new(),
      links: HashSet::new(),
      mounted: BTreeSet::new(),
      rescans: BTreeSet::new(),
      next_rescan: Duration::ZERO,
      generation: 1,
    }
  }

  /// The memory file at a path; `None` where another installation guards its directory.
  pub(super) fn target(&self, path: &Path) -> Option<Target> {
    self.workspaces.iter().find_map(|root| {
      let rel = path.strip_prefix(root).ok().filter(|_| !self.locks.is_foreign(root))?;
      self.shapes.of(root).has(rel).then(|| Target::new(root, rel))
    })
  }
}
