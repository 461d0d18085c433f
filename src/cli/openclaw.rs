//! Where the agent framework comes in: its environment, its workspaces, its records.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::{
  config::Config,
  daemon::Found,
  openclaw::{Installation, OpenClawEnv, OpenClawRecords},
  os::Env,
  provenance::{AgentRecords, NoAgent},
};

/// The variables that OpenClaw reads and that matter here.
pub const VARIABLES: &[&str] = &[
  "OPENCLAW_CONFIG_PATH",
  "OPENCLAW_HOME",
  "OPENCLAW_PROFILE",
  "OPENCLAW_STATE_DIR",
  "OPENCLAW_WORKSPACE_DIR",
];

/// All of OpenClaw that is used on this machine, by the environment and the configuration.
pub fn installations(env: &Env, config: &Config) -> Vec<Installation> {
  let env = OpenClawEnv {
    home: env.path("HOME"),
    openclaw_home: env.path("OPENCLAW_HOME"),
    state_dir: env.path("OPENCLAW_STATE_DIR"),
    workspace_dir: env.path("OPENCLAW_WORKSPACE_DIR"),
    config_path: env.path("OPENCLAW_CONFIG_PATH"),
    profile: env.get("OPENCLAW_PROFILE").and_then(|name| name.to_str()).map(str::to_owned),
  };
  Installation::discover(&env, &config.agent_profiles)
}

/// What OpenClaw uses: the workspaces of all agents, and what that follows from.
pub fn discover(env: &Env, config: &Config) -> Found {
  let found = installations(env, config);
  Found {
    workspaces: found.iter().flat_map(Installation::workspaces).collect(),
    files: found
      .iter()
      .flat_map(|one| one.settings.files.iter().flat_map(|file| seen(file)))
      .collect(),
    notes: found.iter().flat_map(|one| one.notes.iter().cloned()).collect(),
    is_complete: found.iter().all(Installation::is_complete),
    agent: boxed(found),
  }
}

/// OpenClaw's records about its memory files.
pub fn records(env: &Env, config: &Config) -> Box<dyn AgentRecords> {
  boxed(installations(env, config))
}

fn boxed(found: Vec<Installation>) -> Box<dyn AgentRecords> {
  match OpenClawRecords::of(found) {
    Some(records) => Box::new(records),
    None => Box::new(NoAgent),
  }
}

/// The paths under which changes of a file are seen: events name directories without links, and a file
/// that is a link changes where it leads to.
fn seen(file: &Path) -> Vec<PathBuf> {
  let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { return vec![] };
  let mut seen = vec![dir.canonicalize().unwrap_or_else(|_error| dir.to_owned()).join(name)];
  seen.extend(file.canonicalize().ok().filter(|target| !seen.contains(target)));
  seen
}
