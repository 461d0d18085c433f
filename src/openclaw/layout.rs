//! Where OpenClaw keeps its state and its workspace, by its environment variables.
//!
//! The order was observed with OpenClaw 2026.9.6: `OPENCLAW_WORKSPACE_DIR` names the workspace
//! itself; `OPENCLAW_STATE_DIR` holds state and workspace; `OPENCLAW_HOME` and `HOME` hold
//! `.openclaw`; `OPENCLAW_PROFILE` moves the workspace to `.openclaw-PROFILE/workspace` and leaves
//! the state where it is. [`Installation`](super::Installation) adds the
//! values of the configuration file.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::settings::normal;

/// The variables that OpenClaw reads, as they were when memfw started.
#[derive(Clone, Debug, Default)]
pub struct OpenClawEnv {
  /// `HOME`: the home directory, unless `OPENCLAW_HOME` replaces it.
  pub home: Option<PathBuf>,
  /// `OPENCLAW_HOME`: replaces the home directory.
  pub openclaw_home: Option<PathBuf>,
  /// `OPENCLAW_STATE_DIR`.
  pub state_dir: Option<PathBuf>,
  /// `OPENCLAW_WORKSPACE_DIR`.
  pub workspace_dir: Option<PathBuf>,
  /// `OPENCLAW_CONFIG_PATH`.
  pub config_path: Option<PathBuf>,
  /// `OPENCLAW_PROFILE`.
  pub profile: Option<String>,
}

impl OpenClawEnv {
  /// The home directory that OpenClaw works with.
  pub fn home_dir(&self) -> Option<PathBuf> {
    let home = self.home.as_deref().and_then(set);
    match self.openclaw_home.as_deref().and_then(set) {
      Some(explicit) => expanded(explicit, home),
      None => absolute(home?),
    }
  }

  /// What OpenClaw sees when it is started with `--profile NAME`; `None` where that is no name that it
  /// accepts.
  pub fn of_profile(&self, name: &str) -> Option<Self> {
    let name = name.trim();
    let dir = match name.to_lowercase().as_str() {
      "default" => ".openclaw".to_owned(),
      _ if is_profile(name) => format!(".openclaw-{name}"),
      _ => return None,
    };
    Some(Self {
      state_dir: Some(self.home_dir()?.join(dir)),
      config_path: None,
      workspace_dir: None,
      profile: Some(name.to_owned()),
      ..self.clone()
    })
  }

  /// A path as OpenClaw takes it from a variable: without blanks around it, `~` expanded, absolute.
  pub(super) fn resolve(&self, path: &Path) -> Option<PathBuf> {
    let path = set(path)?;
    expanded(path, self.home_dir().as_deref()).map(|path| normal(&path))
  }
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
    let home = env.home_dir();
    let named = env.state_dir.as_deref().and_then(|dir| env.resolve(dir));
    let state_dir = named.clone().or_else(|| home.as_ref().map(|home| home.join(".openclaw")))?;
    let profile = env
      .profile
      .as_deref()
      .map(str::trim)
      .filter(|name| is_profile(name) && !name.eq_ignore_ascii_case("default"));
    // Here alone OpenClaw does not expand `~`.
    let workspace = match (env.workspace_dir.as_deref().and_then(set), named, profile, home) {
      (Some(dir), ..) => normal(&absolute(dir)?),
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

/// A variable without the blanks around it; an empty one, `undefined` and `null` are not set.
fn set(value: &Path) -> Option<&Path> {
  let Some(text) = value.to_str() else { return Some(value) };
  let text = text.trim();
  (!matches!(text, "" | "undefined" | "null")).then(|| Path::new(text))
}

/// A path with the `~` at its start expanded, made absolute.
pub(super) fn expanded(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
  match path.strip_prefix("~") {
    Ok(rest) if rest.as_os_str().is_empty() => home.map(Path::to_owned),
    Ok(rest) => home.map(|home| home.join(rest)),
    Err(_) => absolute(path),
  }
}

/// Variables may name relative paths, as seen from where the process was started.
fn absolute(path: &Path) -> Option<PathBuf> {
  std::path::absolute(path).ok()
}

/// A profile name becomes part of a path, so OpenClaw accepts only such.
pub(super) fn is_profile(name: &str) -> bool {
  name.len() <= 64
    && name.starts_with(|c: char| c.is_ascii_alphanumeric())
    && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
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
  fn variables_are_trimmed_and_their_tilde_is_expanded() {
    let state = OpenClawEnv { state_dir: Some(" ~/st/../s ".into()), ..env() };
    assert_eq!(workspace(&state), Path::new("/home/ann/s/workspace"));
    let home = OpenClawEnv { openclaw_home: Some("~/x".into()), ..env() };
    assert_eq!(workspace(&home), Path::new("/home/ann/x/.openclaw/workspace"));
    let unset = OpenClawEnv { openclaw_home: Some("undefined".into()), ..env() };
    assert_eq!(workspace(&unset), Path::new("/home/ann/.openclaw/workspace"));
    let dir = OpenClawEnv { workspace_dir: Some("/w/./a/../b".into()), ..env() };
    assert_eq!(workspace(&dir), Path::new("/w/b"));
  }

  #[test]
  fn a_named_profile_moves_everything() {
    let work = env().of_profile("work").unwrap();
    let layout = Layout::from_env(&work).unwrap();
    assert_eq!(layout.state_dir, Path::new("/home/ann/.openclaw-work"));
    assert_eq!(layout.workspace, Path::new("/home/ann/.openclaw-work/workspace"));
    assert!(env().of_profile("../etc").is_none());
  }

  #[test]
  fn without_a_home_there_is_no_layout() {
    assert_eq!(Layout::from_env(&OpenClawEnv::default()), None);
  }
}
