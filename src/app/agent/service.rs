//! The facts that a service needs to guard OpenClaw's memory: when to start, which directories it
//! writes, which variables lead to OpenClaw.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

use super::{VARIABLES, installations, program, surroundings};
use crate::{config::Config, openclaw::gateway, os::Env};

/// The facts about the agent that a service file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFacts {
  /// Units that start after memfw.
  pub before: Vec<String>,
  /// Directories that the agent's program writes when memfw calls it, and in which memfw follows its
  /// records.
  pub writable: Vec<PathBuf>,
  /// Variables that lead to the agent framework.
  pub variables: Vec<(&'static str, OsString)>,
  /// The agent's program; `None` where it is not found.
  pub program: Option<PathBuf>,
}

/// Gathers the facts from the environment and the configuration.
pub fn facts(env: &Env, config: &Config) -> AgentFacts {
  let found = installations(env, config);
  // The environment's installation is not named, and may still belong to a profile.
  let own = surroundings(env).profile;
  let mut before = Vec::new();
  let mut writable = Vec::new();
  for one in &found {
    let profile = one.profile.as_deref().or(own.as_deref());
    before.extend(gateway::unit(profile).filter(|unit| !before.contains(unit)));
    writable.push(one.layout.state_dir.clone());
    writable.extend(one.agents.iter().map(|agent| agent.dir.clone()));
  }
  if before.is_empty() {
    before.extend(gateway::unit(None));
  }
  let variables = VARIABLES
    .iter()
    .filter(|name| **name != "PATH")
    .filter_map(|name| Some((*name, env.get(name)?.to_owned())))
    .collect();
  AgentFacts { before, writable, variables, program: program::find(env, config) }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn profiles_come_from_the_environment_and_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::from_pairs([("HOME", dir.path())]);
    let found = facts(&env, &Config::default());
    assert_eq!(found.before, ["openclaw-gateway.service"]);
    assert_eq!(found.writable[0], dir.path().join(".openclaw"));
    let config = Config { agent_profiles: vec!["work".into(), "work".into()], ..Config::default() };
    let env = env.with("OPENCLAW_PROFILE", "home").with("OPENCLAW_STATE_DIR", "/s");
    let found = facts(&env, &config);
    assert_eq!(found.before, ["openclaw-gateway-home.service", "openclaw-gateway-work.service"]);
    assert!(found.writable.contains(&"/s".into()));
    assert!(found.writable.contains(&dir.path().join(".openclaw-work")), "{found:?}");
    let names: Vec<_> = found.variables.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["OPENCLAW_PROFILE", "OPENCLAW_STATE_DIR"]);
  }
}
