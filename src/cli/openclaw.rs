//! Where the agent framework comes in: its environment, its workspace, its records.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::{
  openclaw::{Layout, OpenClawEnv, OpenClawRecords},
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

fn layout(env: &Env) -> Option<Layout> {
  Layout::from_env(&OpenClawEnv {
    home: env.path("HOME"),
    openclaw_home: env.path("OPENCLAW_HOME"),
    state_dir: env.path("OPENCLAW_STATE_DIR"),
    workspace_dir: env.path("OPENCLAW_WORKSPACE_DIR"),
    config_path: env.path("OPENCLAW_CONFIG_PATH"),
    profile: env.get("OPENCLAW_PROFILE").and_then(|name| name.to_str()).map(str::to_owned),
  })
}

/// The workspace of OpenClaw's default agent.
pub fn workspace(env: &Env) -> Option<PathBuf> {
  layout(env).map(|layout| layout.workspace)
}

/// OpenClaw's records about its memory files.
pub fn records(env: &Env) -> Box<dyn AgentRecords> {
  match layout(env) {
    Some(layout) => Box::new(OpenClawRecords::new(layout)),
    None => Box::new(NoAgent),
  }
}
