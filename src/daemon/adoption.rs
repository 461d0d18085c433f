//! Directories whose content at the first scan becomes the baseline. A program that can change the agent's
//! configuration must not choose what counts as old and trusted.
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
};

use crate::{
  engine::{Engine, EngineError, Target, event::shown},
  failpoint::{Point, hit},
  files::RealFs,
  store::StateKey,
};

/// Directories whose content at the first scan becomes the baseline.
#[derive(Default)]
pub(super) struct Adoption {
  /// Those whose first scan is in progress.
  pub(super) roots: HashSet<PathBuf>,
  /// Files of that first scan; a file that appears during the scan is no baseline.
  pub(super) baseline: HashSet<Target>,
  /// Files of the start-up scan that were not processed yet.
  pub(super) first: HashSet<Target>,
}

impl Adoption {
  /// Decides which directories have a baseline: those of the first start, and those that a person named.
  /// The content of any other directory is judged as new.
  pub(super) fn choose(
    &mut self,
    engine: &mut Engine<RealFs>,
    roots: &[PathBuf],
    is_named: bool,
  ) -> Result<(), EngineError> {
    let known = engine.ledger().states()?;
    let is_first = !known.iter().any(|(key, ..)| matches!(key, StateKey::Adopted(_)));
    let at = engine.clock().now();
    for root in roots {
      let has = |key: StateKey| known.iter().any(|(known, ..)| *known == key);
      if has(adopted_key(root)) {
        continue;
      }
      // A directory whose adoption was cut off by a crash keeps its baseline.
      if is_first || is_named || has(adopting_key(root)) {
        self.roots.insert(root.clone());
        engine.ledger_mut().set_state(&adopting_key(root), "{}", at)?;
      } else if root.is_dir() {
        engine.ledger_mut().set_state(&adopted_key(root), "{}", at)?;
      }
    }
    Ok(())
  }

  /// Records the baselines, once every file of the first scan was processed.
  pub(super) fn record(&self, engine: &mut Engine<RealFs>) -> Result<(), EngineError> {
    let at = engine.clock().now();
    for root in &self.roots {
      // A directory that does not exist has no baseline yet.
      if root.is_dir() {
        hit(Point::AdoptBeforeMark);
        let ledger = engine.ledger_mut();
        ledger.set_state(&adopted_key(root), "{}", at)?;
        // Without the checkpoint, a power loss could undo the mark, and the next start would adopt later
        // files as baseline.
        ledger.checkpoint()?;
        hit(Point::AdoptAfterMark);
      }
    }
    Ok(())
  }

  /// Records that the baselines were adopted.
  pub(super) fn end(&mut self, engine: &mut Engine<RealFs>) -> Result<(), EngineError> {
    for root in std::mem::take(&mut self.roots) {
      engine.ledger_mut().remove_state(&adopting_key(&root))?;
    }
    self.baseline.clear();
    Ok(())
  }

  /// Notes that a directory that appeared while the daemon runs has no baseline: all its content is new.
  pub(super) fn note_new(
    &self,
    engine: &mut Engine<RealFs>,
    root: &Path,
  ) -> Result<(), EngineError> {
    let key = adopted_key(root);
    if self.roots.contains(root) || engine.ledger().state(&key)?.is_some() {
      return Ok(());
    }
    let at = engine.clock().now();
    Ok(engine.ledger_mut().set_state(&key, "{}", at)?)
  }

  /// Forgets a file that was processed.
  pub(super) fn forget(&mut self, target: &Target) {
    self.baseline.remove(target);
    self.first.remove(target);
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(
    &mut self,
    engine: &mut Engine<RealFs>,
    root: &Path,
  ) -> Result<(), EngineError> {
    self.first.retain(|target| target.root != root);
    self.baseline.retain(|target| target.root != root);
    if self.roots.remove(root) {
      engine.ledger_mut().remove_state(&adopting_key(root))?;
    }
    Ok(())
  }
}

fn adopting_key(root: &Path) -> StateKey {
  StateKey::Adopting(shown(root))
}

/// The key that marks the baseline of a directory as adopted.
pub(super) fn adopted_key(root: &Path) -> StateKey {
  StateKey::Adopted(shown(root))
}
