//! Gate requests: what the guard does for readers that wait at the gate.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  sync::{Arc, atomic::AtomicBool},
};

use super::{Daemon, DaemonError};
use crate::{
  engine::{Consequence, Engine, Passed},
  files::RealFs,
};

impl Daemon {
  /// Checks one file out of turn, for a reader that waits at the gate.
  pub(super) fn check_for_gate(&mut self, path: &Path) -> Result<Passed, DaemonError> {
    let Some(target) = self.target(path) else { return Ok(Passed::Never) };
    let now = self.now();
    let mut answer = self.engine.passed(&target);
    if matches!(answer, Ok(Passed::NotYet)) {
      self.queue.hurry(target.clone(), now);
      self.work()?;
      answer = self.engine.passed(&target);
    }
    self.count_opens();
    match answer {
      Err(error) if error.consequence() == Consequence::Stop => Err(error.into()),
      // The pass of the file meets this error again and reports it.
      Err(_) => {
        self.queue.dirty(target, now);
        Ok(Passed::NotYet)
      }
      Ok(answer) => Ok(answer),
    }
  }

  /// The watched directories, each with whether it is the root of a workspace; `None` when none were
  /// added since the last call.
  pub(super) fn new_directories(&mut self) -> Option<Vec<(PathBuf, bool)>> {
    if !std::mem::take(&mut self.directories.has_new) {
      return None;
    }
    let mut watched = self.watching.watcher.watched();
    // The gate guards workspaces only.
    watched.retain(|dir| {
      let mut roots = self
        .directories
        .workspaces
        .iter()
        .filter(|root| !self.directories.shapes.is_elsewhere(root));
      roots.any(|root| dir.starts_with(root))
    });
    let roots: Vec<bool> =
      watched.iter().map(|dir| self.directories.workspaces.contains(dir)).collect();
    Some(watched.into_iter().zip(roots).collect())
  }

  /// The flag that says that the gate has asked: the gate's thread sets it, and the loop clears it when
  /// it takes the question.
  pub(super) fn is_asked(&self) -> Arc<AtomicBool> {
    Arc::clone(&self.is_asked)
  }

  /// Makes [`Self::new_directories`] return all directories again, for a new gate.
  pub(super) fn tell_directories_again(&mut self) {
    self.directories.has_new = true;
  }

  /// The engine, for reports about the gate.
  pub(super) fn engine(&mut self) -> &mut Engine<RealFs> {
    &mut self.engine
  }
}
