//! Directories that become guarded later than others, and those that are no longer guarded, because the
//! agent's configuration has changed. A program that can change that configuration must not choose what
//! counts as old and trusted, or what is not guarded.
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
};

use super::{
  Daemon,
  health::{Health, decode, encode},
};
use crate::{
  engine::{EngineError, Target, event::shown},
  files::Workspace,
  store::StateKey,
};

/// The degradation while files hold placeholders of a lost ledger.
const LOST: &str = "lost-ledger";

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

impl Daemon {
  /// Decides which directories have a baseline: those of the first start, and those that a person named.
  /// The content of any other directory is judged as new.
  pub(super) fn choose_baselines(&mut self, roots: &[PathBuf]) -> Result<(), EngineError> {
    let known = self.engine.ledger().states()?;
    let is_first = !known.iter().any(|(key, ..)| matches!(key, StateKey::Adopted(_)));
    let at = self.engine.clock().now();
    for root in roots {
      let has = |key: StateKey| known.iter().any(|(known, ..)| *known == key);
      if has(adopted_key(root)) {
        continue;
      }
      // A directory whose adoption was cut off by a crash keeps its baseline.
      if is_first || self.directories.is_named || has(adopting_key(root)) {
        self.adoption.roots.insert(root.clone());
        self.engine.ledger_mut().set_state(&adopting_key(root), "{}", at)?;
      } else if root.is_dir() {
        self.engine.ledger_mut().set_state(&adopted_key(root), "{}", at)?;
      }
    }
    Ok(())
  }

  /// Records that the baselines were adopted.
  pub(super) fn end_adoption(&mut self) -> Result<(), EngineError> {
    for root in std::mem::take(&mut self.adoption.roots) {
      self.engine.ledger_mut().remove_state(&adopting_key(&root))?;
    }
    Ok(())
  }

  /// Records which directories the last daemon guarded and this one does not.
  pub(super) fn compare_with_last(&mut self) -> Result<(), EngineError> {
    let last = self.engine.ledger().state(&StateKey::Daemon)?;
    let last = last.and_then(|(json, _)| serde_json::from_str::<Health>(&json).ok());
    let gone = last.filter(|last| !last.is_named).map(|last| last.roots()).unwrap_or_default();
    let gone: Vec<PathBuf> =
      gone.into_iter().filter(|root| !self.directories.workspaces.contains(root)).collect();
    self.note_left(&gone)
  }

  /// Records directories that are no longer guarded. Such a directory is a degradation while it holds
  /// memory, unless a person named the directories or confirmed the change.
  pub(super) fn note_left(&mut self, gone: &[PathBuf]) -> Result<(), EngineError> {
    let at = self.engine.clock().now();
    for root in gone.iter().filter(|root| has_memory(root)) {
      let json = serde_json::Value::from(encode(root)).to_string();
      self.engine.ledger_mut().set_state(&StateKey::Left(shown(root)), &json, at)?;
    }
    for (key, json, _) in self.engine.ledger().states()? {
      if !matches!(key, StateKey::Left(_)) {
        continue;
      }
      let part = key.to_string();
      let root = serde_json::from_str::<String>(&json).map(|text| decode(&text));
      let is_left = |root: &PathBuf| {
        !self.directories.is_named
          && !self.directories.workspaces.contains(root)
          && has_memory(root)
      };
      if let Some(root) = root.ok().filter(is_left) {
        let why = format!(
          "{0} was guarded until the agent's configuration named another workspace, and is not any more; \
           name it in `workspaces`, or confirm the change with `memfw doctor --unguarded {0}`",
          shown(&root)
        );
        self.engine.degrade(&part, &why)?;
      } else {
        self.engine.ledger_mut().remove_state(&key)?;
        self.engine.recovered(&part)?;
      }
    }
    Ok(())
  }
}

impl Daemon {
  /// Records that the encryption key is older than the ledger, for later starts as well.
  pub(super) fn note_lost_ledger(&mut self) -> Result<(), EngineError> {
    let at = self.engine.clock().now();
    Ok(self.engine.ledger_mut().set_state(&StateKey::LostLedger, "{}", at)?)
  }

  /// If the ledger is newer than its key, looks for placeholders of the lost ledger, which alone has
  /// their sealed texts. The degradation ends when that ledger is back, or when no such placeholder is
  /// left.
  pub(super) fn find_lost_items(&mut self) -> Result<(), EngineError> {
    if self.engine.ledger().state(&StateKey::LostLedger)?.is_none() {
      return Ok(());
    }
    let fs = self.fs;
    let mut targets = Vec::new();
    for root in &self.directories.workspaces {
      if let Ok(workspace) = Workspace::open(&fs, root) {
        let files = workspace.walk_as(&fs, self.directories.shapes.of(root)).files;
        targets.extend(files.iter().map(|rel| Target::new(root, rel)));
      }
    }
    let (n_placeholders, n_files) = self.engine.unknown_placeholders(&targets)?;
    if n_placeholders == 0 {
      self.engine.ledger_mut().remove_state(&StateKey::LostLedger)?;
      return self.engine.recovered(LOST);
    }
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let why = format!(
      "the ledger `{}` is new, or an older copy, and nothing is known about {} in {}: their texts are in a \
       ledger that was removed or replaced; stop memfw and bring the newest copy of that ledger back, or delete \
       these placeholders and restart memfw",
      shown(self.engine.ledger().path()),
      many(n_placeholders, "placeholder"),
      many(n_files, "file"),
    );
    self.engine.degrade(LOST, &why)
  }
}

/// The directories that are no longer guarded, from the rows of state: the key of each, the key of its
/// degradation, and its path.
pub fn left(states: Vec<(StateKey, String, i64)>) -> Vec<(StateKey, StateKey, PathBuf)> {
  let left = states.into_iter().filter(|(key, ..)| matches!(key, StateKey::Left(_)));
  let path = |json: &str| serde_json::from_str::<String>(json).map(|text| decode(&text)).ok();
  left
    .filter_map(|(key, json, _)| Some((StateKey::degraded(key.to_string()), path(&json)?, key)))
    .map(|(degraded, path, key)| (key, degraded, path))
    .collect()
}

pub(super) fn adopting_key(root: &Path) -> StateKey {
  StateKey::Adopting(shown(root))
}

/// The key that marks the baseline of a directory as adopted.
pub(super) fn adopted_key(root: &Path) -> StateKey {
  StateKey::Adopted(shown(root))
}

fn has_memory(root: &Path) -> bool {
  ["MEMORY.md", "memory.md", "memory"].iter().any(|name| root.join(name).exists())
}
