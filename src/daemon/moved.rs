//! Directories that become guarded later than others, and those that are no longer guarded, because the
//! agent's configuration has changed. A program that can change that configuration must not choose what
//! counts as old and trusted, or what is not guarded.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::{
  core::Core,
  health::{Health, decode, encode},
};
use crate::{
  engine::{EngineError, Target, event::shown},
  files::Workspace,
  plural,
  store::{PartKind, StateKey},
};

/// Records which directories the last daemon guarded and this one does not.
pub(super) fn compare_with_last(core: &mut Core) -> Result<(), EngineError> {
  let last = core.engine.ledger().state(&StateKey::Daemon)?;
  let last = last.and_then(|(json, _)| serde_json::from_str::<Health>(&json).ok());
  let gone = last.filter(|last| !last.is_named).map(|last| last.roots()).unwrap_or_default();
  let gone: Vec<PathBuf> =
    gone.into_iter().filter(|root| !core.directories.workspaces.contains(root)).collect();
  note_left(core, &gone)
}

/// Records directories that are no longer guarded. Such a directory is a degradation while it holds
/// memory, unless a person named the directories or confirmed the change.
pub(super) fn note_left(core: &mut Core, gone: &[PathBuf]) -> Result<(), EngineError> {
  let at = core.engine.clock().now();
  for root in gone.iter().filter(|root| has_memory(root)) {
    let json = serde_json::Value::from(encode(root)).to_string();
    core.engine.ledger_mut().set_state(&StateKey::Left(shown(root)), &json, at)?;
  }
  for (key, json, _) in core.engine.ledger().states()? {
    let StateKey::Left(left) = &key else { continue };
    let part = PartKind::Left.of(left.as_str());
    let root = serde_json::from_str::<String>(&json).map(|text| decode(&text));
    let is_left = |root: &PathBuf| {
      !core.directories.is_named && !core.directories.workspaces.contains(root) && has_memory(root)
    };
    if let Some(root) = root.ok().filter(is_left) {
      let why = format!(
        "{0} was guarded until the agent's configuration named another workspace, and is not any more; \
         name it in `workspaces`, or confirm the change with `memfw doctor --unguarded {0}`",
        shown(&root)
      );
      core.engine.degrade(part, &why)?;
    } else {
      core.engine.ledger_mut().remove_state(&key)?;
      core.engine.recovered(part)?;
    }
  }
  Ok(())
}

/// Records that the encryption key is older than the ledger, for later starts as well.
pub(super) fn note_lost_ledger(core: &mut Core) -> Result<(), EngineError> {
  let at = core.engine.clock().now();
  Ok(core.engine.ledger_mut().set_state(&StateKey::LostLedger, "{}", at)?)
}

/// If the ledger is newer than its key, looks for placeholders of the lost ledger, which alone has
/// their sealed texts. The degradation ends when that ledger is back, or when no such placeholder is
/// left.
pub(super) fn find_lost_items(core: &mut Core) -> Result<(), EngineError> {
  if core.engine.ledger().state(&StateKey::LostLedger)?.is_none() {
    return Ok(());
  }
  let fs = core.fs;
  let mut targets = Vec::new();
  for root in &core.directories.workspaces {
    if let Ok(workspace) = Workspace::open(&fs, root) {
      let files = workspace.walk_as(&fs, core.directories.shapes.of(root)).files;
      targets.extend(files.iter().map(|rel| Target::new(root, rel)));
    }
  }
  let (n_placeholders, n_files) = core.engine.unknown_placeholders(&targets)?;
  if n_placeholders == 0 {
    core.engine.ledger_mut().remove_state(&StateKey::LostLedger)?;
    return core.engine.recovered(PartKind::LostLedger);
  }
  let why = format!(
    "the ledger `{}` is new, or an older copy, and nothing is known about {} in {}: their texts are in a \
     ledger that was removed or replaced; stop memfw and bring the newest copy of that ledger back, or delete \
     these placeholders and restart memfw",
    shown(core.engine.ledger().path()),
    plural::count(n_placeholders as u64, "placeholder"),
    plural::count(n_files as u64, "file"),
  );
  core.engine.degrade(PartKind::LostLedger, &why)
}

/// The directories that are no longer guarded, from the rows of state: the key of each, the key of its
/// degradation, and its path.
pub fn left(states: Vec<(StateKey, String, i64)>) -> Vec<(StateKey, StateKey, PathBuf)> {
  let path = |json: &str| serde_json::from_str::<String>(json).map(|text| decode(&text)).ok();
  let left = states.into_iter().filter_map(|(key, json, _)| {
    let StateKey::Left(left) = &key else { return None };
    let degraded = StateKey::degraded(PartKind::Left.of(left.as_str()));
    Some((key, degraded, path(&json)?))
  });
  left.collect()
}

fn has_memory(root: &Path) -> bool {
  ["MEMORY.md", "memory.md", "memory"].iter().any(|name| root.join(name).exists())
}
