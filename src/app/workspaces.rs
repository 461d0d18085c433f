//! Which directories are guarded: by flags, by the configuration, or by what the agent uses.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{agent, configuration::distrust, context::Context, paths::resolved};
use crate::{config::Config, daemon::Discovery, files::Shapes, terminal::failure::Failure};

impl Context {
  /// The workspaces to guard, in the order flags, configuration, the agent's own; without links in
  /// their paths where they exist.
  pub fn workspaces(&self, config: &Config, flags: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    Ok(self.discover(config, flags)?.workspaces)
  }

  /// Which of the guarded directories are no workspaces.
  pub fn shapes(&self, config: &Config) -> Shapes {
    // Where nothing is known to be guarded, nothing is elsewhere.
    self.discover(config, &[]).map(|found| found.shapes).unwrap_or_default()
  }

  /// The same with all that it follows from.
  pub fn discover(&self, config: &Config, flags: &[PathBuf]) -> Result<Discovery, Failure> {
    let mut found = agent::discover(&self.surroundings.env, config);
    let named = if flags.is_empty() { &config.workspaces[..] } else { flags };
    if !named.is_empty() {
      found.workspaces = named.to_vec();
      // What could not be found is not asked for.
      (found.notes, found.is_complete, found.is_named) = (vec![], true, true);
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
    found.notes.extend(self.config_file().ok().and_then(|file| distrust(&file)));
    found.shapes.retain(|root| !workspaces.iter().any(|path| path == root));
    workspaces.extend(found.shapes.roots().cloned());
    found.workspaces = workspaces;
    Ok(found)
  }
}
