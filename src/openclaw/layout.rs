//! Where OpenClaw keeps its state and its workspace, by its environment variables.
//!
//! The order was observed with OpenClaw 2026.9.6: `OPENCLAW_WORKSPACE_DIR` names the workspace
//! itself; `OPENCLAW_STATE_DIR` holds state and workspace; `OPENCLAW_HOME` and `HOME` hold
//! `.openclaw`; `OPENCLAW_PROFILE` moves the workspace to `.openclaw-PROFILE/workspace` and leaves
//! the state where it is.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The variables that OpenClaw reads, as they were when memfw started.
#[derive(Clone, Debug, Default)]
pub struct OpenClawEnv {
  /// `HOME`.
  pub home: Option<PathBuf>,
  /// `OPENCLAW_HOME`.
  pub openclaw_home: Option<PathBuf>,
  /// `OPENCLAW_STATE_DIR`.
  pub state_dir: Option<PathBuf>,
  /// `OPENCLAW_WORKSPACE_DIR`.
  pub workspace_dir: Option<PathBuf>,
  /// `OPENCLAW_PROFILE`.
  pub profile: Option<String>,
}

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
  /// The state directory.
  pub state_dir: PathBuf,
  /// The default agent's workspace.
  pub workspace: PathBuf,
}

impl Layout {
  /// The layout that OpenClaw would use in this environment; `None` when not even `HOME` is set.
  pub fn from_env(env: &OpenClawEnv) -> Option<Self> {
    let home = env.openclaw_home.as_deref().or(env.home.as_deref());
    let state_dir = env.state_dir.clone().or_else(|| home.map(|home| home.join(".openclaw")))?;
    let profile = env.profile.as_deref().filter(|name| is_plain(name) && *name != "default");
    let workspace = match (&env.workspace_dir, &env.state_dir, profile, home) {
      (Some(dir), ..) => dir.clone(),
      (None, Some(state), ..) => state.join("workspace"),
      (None, None, Some(profile), Some(home)) => {
        home.join(format!(".openclaw-{profile}")).join("workspace")
      }
      _ => state_dir.join("workspace"),
    };
    Some(Self { state_dir, workspace })
  }

  /// The database with OpenClaw's file ledger, for a workspace: the one beside the workspace where
  /// there is one (the usual layout of a state directory), else the environment's.
  pub fn state_database(&self, workspace: &Path) -> PathBuf {
    let beside = workspace.parent().map(|dir| dir.join("state").join("openclaw.sqlite"));
    match beside {
      Some(path) if path.is_file() => path,
      _ => self.state_dir.join("state").join("openclaw.sqlite"),
    }
  }
}

/// A profile name becomes part of a path, so it may not leave its directory.
fn is_plain(name: &str) -> bool {
  !name.is_empty()
    && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    && !name.contains("..")
}

#[cfg(test)]
mod tests {
  use super::*;

  fn env() -> OpenClawEnv {
    OpenClawEnv { home: Some("/home/ann".into()), ..OpenClawEnv::default() }
  }

  fn workspace(env: &OpenClawEnv) -> PathBuf {
    Layout::from_env(env).unwrap().workspace
  }

  #[test]
  fn the_environment_decides_in_openclaws_order() {
    assert_eq!(workspace(&env()), Path::new("/home/ann/.openclaw/workspace"));
    let home = OpenClawEnv { openclaw_home: Some("/x".into()), ..env() };
    assert_eq!(workspace(&home), Path::new("/x/.openclaw/workspace"));
    let profile = OpenClawEnv { profile: Some("work".into()), ..env() };
    assert_eq!(workspace(&profile), Path::new("/home/ann/.openclaw-work/workspace"));
    assert_eq!(Layout::from_env(&profile).unwrap().state_dir, Path::new("/home/ann/.openclaw"));
    let state = OpenClawEnv { state_dir: Some("/s".into()), ..profile };
    assert_eq!(workspace(&state), Path::new("/s/workspace"));
    let dir = OpenClawEnv { workspace_dir: Some("/w".into()), ..state };
    assert_eq!(workspace(&dir), Path::new("/w"));
  }

  #[test]
  fn a_profile_cannot_leave_its_directory() {
    let profile = OpenClawEnv { profile: Some("../../etc".into()), ..env() };
    assert_eq!(workspace(&profile), Path::new("/home/ann/.openclaw/workspace"));
  }

  #[test]
  fn without_a_home_there_is_no_layout() {
    assert_eq!(Layout::from_env(&OpenClawEnv::default()), None);
  }
}
