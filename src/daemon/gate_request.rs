//! What the guard does for readers who wait at the gate.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  sync::{Arc, atomic::AtomicBool},
};

use super::{DaemonError, Guard};
use crate::{
  engine::{Consequence, Engine, Passed},
  files::RealFs,
};

impl Guard {
  /// Looks at one file out of turn, for a reader who waits at the gate.
  pub(super) fn attend(&mut self, path: &Path) -> Result<Passed, DaemonError> {
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
      // Work on the file meets the same error and says so.
      Err(_) => {
        self.queue.dirty(target, now);
        Ok(Passed::NotYet)
      }
      Ok(answer) => Ok(answer),
    }
  }

  /// The directories that are watched, each with whether it is the root of a workspace; `None` when
  /// none came since this was asked last.
  pub(super) fn new_directories(&mut self) -> Option<Vec<(PathBuf, bool)>> {
    if !std::mem::take(&mut self.has_new_directories) {
      return None;
    }
    let mut watched = self.watcher.watched();
    // The gate is for workspaces.
    watched.retain(|dir| {
      let mut roots = self.workspaces.iter().filter(|root| !self.shapes.is_elsewhere(root));
      roots.any(|root| dir.starts_with(root))
    });
    let roots: Vec<bool> = watched.iter().map(|dir| self.workspaces.contains(dir)).collect();
    Some(watched.into_iter().zip(roots).collect())
  }

  /// Set by whoever hears the gate ask, cleared when the question is taken up.
  pub(super) fn is_asked(&self) -> Arc<AtomicBool> {
    Arc::clone(&self.is_asked)
  }

  /// All of them are new to somebody.
  pub(super) fn tell_directories_again(&mut self) {
    self.has_new_directories = true;
  }

  /// The engine, for what is said about the gate.
  pub(super) fn engine(&mut self) -> &mut Engine<RealFs> {
    &mut self.engine
  }
}
