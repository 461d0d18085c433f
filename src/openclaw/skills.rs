//! Where OpenClaw finds skills (2026.9.6: `src/skills/loading/workspace-skill-sources.ts`, docs/tools/skills.md).
//!
//! Skills that are shipped with OpenClaw and with its plugins are left out: they are parts of programs, and a program
//! that can change them can change OpenClaw itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
  Installation, OpenClawEnv, installation::variable, layout::expanded, settings::normal,
};

/// Files that OpenClaw's installers write into the directory of a skill, and no author.
pub const INSTALLER_FILES: &[&str] = &[".clawhub/origin.json", ".openclaw/source-origin.json"];
/// Configured directories that are taken up.
const MAX_EXTRA: usize = 256;

/// The directories of skills in a workspace.
pub fn of_workspace(workspace: &Path) -> [PathBuf; 2] {
  [workspace.join("skills"), workspace.join(".agents").join("skills")]
}

impl Installation {
  /// The directories below which skills are found, existing or not, in the order in which OpenClaw prefers them.
  pub fn skill_roots(&self, env: &OpenClawEnv) -> Vec<PathBuf> {
    let state = &self.layout.state_dir;
    let mut roots: Vec<PathBuf> =
      self.agents.iter().flat_map(|agent| of_workspace(&agent.workspace)).collect();
    let home = env.home_dir();
    // With a state directory of its own, OpenClaw leaves the skills in the home directory out.
    roots.extend(
      home
        .iter()
        .filter(|home| home.join(".openclaw") == *state)
        .map(|home| home.join(".agents/skills")),
    );
    roots.extend([state.join("skills"), state.join("skill-library")]);
    roots.extend(self.agents.iter().map(|agent| agent.dir.join("workshop-skills")));
    let extra = self.settings.at(&["skills", "load", "extraDirs"]).and_then(Value::as_array);
    for text in extra.into_iter().flatten().filter_map(Value::as_str).take(MAX_EXTRA) {
      // One that is relative depends on where OpenClaw was started.
      let Ok(text) = self.settings.expand(text.trim(), &|name| variable(env, name)) else {
        continue;
      };
      if text.starts_with(['/', '~']) {
        roots.extend(expanded(Path::new(&text), home.as_deref()).map(|path| normal(&path)));
      }
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    for root in roots {
      if !seen.contains(&root) {
        seen.push(root);
      }
    }
    seen
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[expect(clippy::disallowed_methods, reason = "a test's own files")]
  fn roots(state: Option<&str>, config: &str) -> (Vec<PathBuf>, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_owned();
    let state_dir = home.join(state.unwrap_or(".openclaw"));
    std::fs::create_dir_all(&state_dir).unwrap();
    std::fs::write(state_dir.join("openclaw.json"), config).unwrap();
    let env = OpenClawEnv {
      home: Some(home.clone()),
      state_dir: state.map(|_| state_dir),
      ..OpenClawEnv::default()
    };
    (Installation::of(&env).unwrap().skill_roots(&env), home)
  }

  #[test]
  fn skills_lie_where_openclaw_finds_them() {
    let config = "{agents: {entries: {main: {default: true}, notes: {workspace: '~/w'}}},
      skills: {load: {extraDirs: ['~/more', '${HOME}/../x', 'relative', 7, '~/more']}}}";
    let (found, home) = roots(None, config);
    let expected = [
      ".openclaw/workspace/skills",
      ".openclaw/workspace/.agents/skills",
      "w/skills",
      "w/.agents/skills",
      ".agents/skills",
      ".openclaw/skills",
      ".openclaw/skill-library",
      ".openclaw/agents/main/agent/workshop-skills",
      ".openclaw/agents/notes/agent/workshop-skills",
      "more",
    ];
    let mut expected: Vec<PathBuf> = expected.iter().map(|name| home.join(name)).collect();
    expected.push(home.parent().unwrap().join("x"));
    assert_eq!(found, expected);
    let (found, home) = roots(Some("state"), "{}");
    assert!(!found.contains(&home.join(".agents/skills")), "{found:?}");
    assert!(found.contains(&home.join("state/skills")), "{found:?}");
  }
}
