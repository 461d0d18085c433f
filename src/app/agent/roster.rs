//! The agents on this machine, as a person is shown them: found without running anything, and only named if their
//! files are there.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{installations, program};
use crate::{config::Config, os::Env};

/// The name of the framework, as it writes it.
const NAME: &str = "OpenClaw";
/// What to set where its files are elsewhere.
const ELSEWHERE: &str =
  "if OpenClaw keeps its files elsewhere, set `OPENCLAW_STATE_DIR` as for OpenClaw";

/// What was found, and where memfw has looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
  /// The installations of which a file or directory exists.
  pub found: Vec<Framework>,
  /// The directories that were examined, each once.
  pub searched: Vec<PathBuf>,
  /// What could not be found out, a sentence each.
  pub notes: Vec<String>,
}

/// One installation of an agent framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framework {
  /// Its name.
  pub name: &'static str,
  /// Its release, if its program was found.
  pub version: Option<String>,
  /// The directory of its files.
  pub home: PathBuf,
  /// Its agents, each with the directory of its memory.
  pub agents: Vec<(String, PathBuf)>,
}

impl Roster {
  /// Finds the agents by the environment and the configuration.
  pub fn find(env: &Env, config: &Config) -> Self {
    let version = program::find(env, config).and_then(|path| program::release(&path));
    let mut roster = Self::default();
    for one in installations(env, config) {
      let agents: Vec<(String, PathBuf)> =
        one.agents.iter().map(|agent| (agent.id.clone(), agent.workspace.clone())).collect();
      let home = one.layout.state_dir.clone();
      let is_there = home.exists() || agents.iter().any(|(_, workspace)| workspace.exists());
      for dir in [&home].into_iter().chain(agents.iter().map(|(_, workspace)| workspace)) {
        if !roster.searched.contains(dir) {
          roster.searched.push(dir.clone());
        }
      }
      roster.notes.extend(one.notes);
      if is_there {
        roster.found.push(Framework { name: NAME, version: version.clone(), home, agents });
      }
    }
    roster
  }

  /// What to do where the agent's files are elsewhere.
  pub const fn advice() -> &'static str {
    ELSEWHERE
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_what_is_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::from_pairs([("HOME", dir.path())]);
    let state = dir.path().join(".openclaw");
    let none = Roster::find(&env, &Config::default());
    assert_eq!(none.found, []);
    assert_eq!(none.searched, [state.clone(), state.join("workspace")]);
    std::fs::create_dir(&state).unwrap();
    let found = Roster::find(&env, &Config::default()).found;
    let agents = vec![("main".to_owned(), state.join("workspace"))];
    assert_eq!(found, [Framework { name: NAME, version: None, home: state, agents }]);
  }
}
