//! A tool call that a plugin inside the agent asks about: which file it means, and who writes the text.
#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};

use super::installations;
use crate::{
  app::paths::resolved,
  config::Config,
  files::Shapes,
  link::{Call, HeardKind},
  openclaw::observed::{Observed, Pending},
  os::Env,
  provenance::Attribution,
};

/// The guarded directories, and how relative paths of a call are meant.
#[derive(Debug)]
pub struct Places {
  /// The guarded directories, without links in their paths.
  pub roots: Vec<PathBuf>,
  /// Those of them that are not workspaces.
  pub shapes: Shapes,
  /// The home directory.
  pub home: Option<PathBuf>,
  /// The workspace of each agent.
  agents: Vec<(String, PathBuf)>,
  default: Option<PathBuf>,
}

impl Places {
  /// The places of these guarded directories.
  pub fn new(env: &Env, config: &Config, roots: Vec<PathBuf>, shapes: Shapes) -> Self {
    let found = installations(env, config);
    let all = || found.iter().flat_map(|one| &one.agents);
    let place = |agent: &crate::openclaw::Agent| resolved(&agent.workspace);
    let first = roots.first().filter(|_| roots.len() == 1).cloned();
    Self {
      agents: all().map(|agent| (agent.id.clone(), place(agent))).collect(),
      default: first.or_else(|| all().find(|agent| agent.is_default).map(place)),
      home: env.path("HOME"),
      roots,
      shapes,
    }
  }

  /// The memory file that a call would write to: a guarded directory, and the path below it. `None` if the file
  /// is no memory that memfw guards.
  pub fn memory_file(&self, call: &Call) -> Option<(PathBuf, PathBuf)> {
    let path = self.absolute(call)?;
    // Links in the directory lead to where the file really is.
    let (dir, name) = (path.parent()?, path.file_name()?);
    let real = resolved(dir).join(name);
    [real, path].iter().find_map(|path| {
      let below = |root: &PathBuf| Some((root.clone(), path.strip_prefix(root).ok()?.to_owned()));
      self.roots.iter().filter_map(below).find(|(root, rel)| self.shapes.of(root).has(rel))
    })
  }

  fn absolute(&self, call: &Call) -> Option<PathBuf> {
    let path = call.path.trim().trim_start_matches('@');
    let named = match path.strip_prefix("~/") {
      Some(below) => self.home.as_ref()?.join(below),
      None => PathBuf::from(path),
    };
    let of_agent = || {
      let id = call.agent.as_ref()?;
      self.agents.iter().find(|(agent, _)| agent == id).map(|(_, workspace)| workspace.clone())
    };
    let workspace = || {
      let told = call.workspace.as_deref().map(Path::new).filter(|path| path.is_absolute());
      told.map(resolved).or_else(of_agent).or_else(|| self.default.clone())
    };
    let path = if named.is_absolute() { named } else { workspace()?.join(named) };
    let mut plain = PathBuf::new();
    for part in path.components() {
      match part {
        Component::ParentDir => drop(plain.pop()),
        Component::CurDir => {}
        part => plain.push(part),
      }
    }
    Some(plain)
  }
}

/// Who writes the text, by what came into the run.
pub fn attribution(
  call: &Call,
  (root, rel): (&Path, &Path),
  text: &str,
  config: &Config,
  at: i64,
) -> Attribution {
  let session = call.session_id.as_deref().or(call.run.as_deref()).unwrap_or("unknown");
  let key = call.session.as_deref().unwrap_or_default();
  let mut observed = Observed::new(session, key, call.channel.as_deref(), root);
  // A plugin that may not read conversations knows who asked, and not the words.
  if !call.heard.iter().any(|heard| heard.kind == HeardKind::Message)
    && call.sender_is_owner.is_some()
  {
    observed.message("", call.sender_is_owner, call.sender.as_deref());
  }
  for heard in &call.heard {
    match heard.kind {
      HeardKind::Message => {
        observed.message(&heard.passage, heard.owner, heard.sender.as_deref());
      }
      HeardKind::Tool => {
        let (tool, text) = (&heard.tool, &heard.passage);
        observed.answer(tool, &heard.subject, text, heard.is_error, heard.network);
      }
    }
  }
  observed.attribute(&Pending {
    workspace: root,
    file: rel,
    tool: &call.tool,
    text,
    at,
    owner_devices: &config.agent_owner_devices,
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_call_means_a_file_of_a_guarded_directory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("w");
    std::fs::create_dir_all(root.join("memory")).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let roots = vec![root.clone()];
    let env = Env::from_pairs([("HOME", dir.path().display().to_string())]);
    let places = Places::new(&env, &Config::default(), roots, Shapes::default());
    let file = |path: &str| {
      let call = Call { path: path.to_owned(), ..Call::default() };
      places.memory_file(&call).map(|(of, rel)| {
        assert_eq!(of, root);
        rel.display().to_string()
      })
    };
    let memory = Some("MEMORY.md".to_owned());
    for path in ["MEMORY.md", "./MEMORY.md", "memory/../MEMORY.md", "~/w/MEMORY.md"] {
      assert_eq!(file(path), memory, "{path}");
    }
    assert_eq!(file(&root.join("MEMORY.md").display().to_string()), memory);
    assert_eq!(file(&link.join("MEMORY.md").display().to_string()), memory);
    assert_eq!(file("memory/2026-01-01.md").as_deref(), Some("memory/2026-01-01.md"));
    for path in ["notes.txt", "../MEMORY.md", "/etc/passwd", "", "/", "~/MEMORY.md"] {
      assert_eq!(file(path), None, "{path}");
    }
  }
}
