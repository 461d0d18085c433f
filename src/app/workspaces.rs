//! The guarded directories: from flags, from the configuration, or those that the agent uses.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{agent, configuration::distrust, context::Context, paths::resolved};
use crate::{config::Config, daemon::Discovery, files::Shapes, terminal::failure::Failure};

impl Context {
  /// The workspaces to guard, in the order flags, configuration, agent; without links in
  /// their paths where they exist.
  pub fn workspaces(&self, config: &Config, flags: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    Ok(self.discover(config, flags)?.workspaces)
  }

  /// The guarded directories that are not workspaces.
  pub fn shapes(&self, config: &Config) -> Shapes {
    // Without any guarded directory, the list is empty.
    self.discover(config, &[]).map(|found| found.shapes).unwrap_or_default()
  }

  /// The workspaces to guard, with everything that follows from them.
  pub fn discover(&self, config: &Config, flags: &[PathBuf]) -> Result<Discovery, Failure> {
    let mut found = agent::discover(&self.surroundings.env, config);
    let named = if flags.is_empty() { &config.workspaces[..] } else { flags };
    if !named.is_empty() {
      found.workspaces = named.to_vec();
      // Workspaces that were not found are left out.
      found.notes = std::mem::take(&mut found.unreadable);
      (found.is_complete, found.is_named) = (true, true);
      found.shapes = Shapes::default();
    }
    if found.workspaces.is_empty() {
      return Err(Failure::unavailable("no workspace is known").hint(
        "name one: `memfw run --workspace DIR`, or `workspaces = [...]` in the configuration",
      ));
    }
    let mut workspaces: Vec<PathBuf> = Vec::new();
    for path in &found.workspaces {
      let path = resolved(path);
      if !workspaces.contains(&path) {
        workspaces.push(path);
      }
    }
    // A directory that a person names may be the workspace of an agent that was not found.
    for root in workspaces.iter().flat_map(|workspace| agent::skill_roots_in(workspace)) {
      if !found.skills.roots.contains(&root) {
        found.skills.roots.push(root);
      }
    }
    found.distrust = self.config_file().ok().and_then(|file| distrust(&file));
    found.shapes.retain(|root| !workspaces.iter().any(|path| path == root));
    workspaces.extend(found.shapes.roots().cloned());
    found.workspaces = workspaces;
    Ok(found)
  }
}
