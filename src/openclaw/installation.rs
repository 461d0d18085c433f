//! What one OpenClaw on this machine uses: its agents, their workspaces, their limits.
//!
//! It is found without running OpenClaw, from the environment, the configuration file and the defaults,
//! in the order of its sources (2026.9.6: `src/config/paths.ts`, `src/agents/agent-scope-config.ts`,
//! `src/agents/agent-roster.ts`; compared with `openclaw agents list --json`). The older list of agents
//! (`agents.list`) is read, too. Nothing is guessed: what cannot be resolved is a note.
#![forbid(unsafe_code)]

use std::{
  fs,
  path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
  injection::Limits,
  layout::{Layout, OpenClawEnv, expanded},
  settings::{Settings, normal},
};

/// The name of the configuration file, and its first name.
const CONFIG_FILES: [&str; 2] = ["openclaw.json", "clawdbot.json"];
/// The state directory of the first releases, which is used where there is no newer one.
const FIRST_STATE_DIR: &str = ".clawdbot";
/// The id of the agent where none is configured.
const IMPLICIT_AGENT: &str = "main";
/// Agents of one configuration that are taken up; people have a handful.
const MAX_AGENTS: usize = 256;
/// Further paths of one agent that are taken up.
const MAX_EXTRA: usize = 256;
/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
  /// Its id, as OpenClaw normalises it.
  pub id: String,
  /// Where its memory lies.
  pub workspace: PathBuf,
  /// Where its own database lies.
  pub dir: PathBuf,
  /// Whether it is the one that is meant where none is named.
  pub is_default: bool,
  /// How much of its files is put before its model.
  pub limits: Limits,
  /// Paths that are only indexed for its search.
  pub extra: Vec<PathBuf>,
}

/// One OpenClaw: a state directory and what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Installation {
  /// State directory and workspace of the default agent.
  pub layout: Layout,
  /// The profile that it is asked for by; `None` for what the environment leads to.
  pub profile: Option<String>,
  /// The configuration file, there or not.
  pub config: PathBuf,
  /// What it says.
  pub settings: Settings,
  /// Its agents, in the order of the configuration.
  pub agents: Vec<Agent>,
  /// What could not be found out, a sentence each.
  pub notes: Vec<String>,
}

impl Installation {
  /// All that is used: what the environment leads to, and the profiles that are asked for by name.
  pub fn discover(env: &OpenClawEnv, profiles: &[String]) -> Vec<Self> {
    let mut found: Vec<Self> = Self::of(env).into_iter().collect();
    for name in profiles {
      match env.of_profile(name).as_ref().and_then(Self::of) {
        Some(one) if found.iter().any(|known| known.layout == one.layout) => {}
        Some(one) => found.push(Self { profile: Some(name.trim().to_owned()), ..one }),
        None => {
          if let Some(first) = found.first_mut() {
            first.notes.push(format!("`{}` is not a profile name", name.escape_debug()));
          }
        }
      }
    }
    found
  }

  /// What OpenClaw would use in this environment; `None` when not even `HOME` is set.
  pub fn of(env: &OpenClawEnv) -> Option<Self> {
    let mut layout = Layout::from_env(env)?;
    if env.state_dir.is_none()
      && let Some(home) = env.home_dir()
      && !layout.state_dir.exists()
      && home.join(FIRST_STATE_DIR).exists()
    {
      layout.state_dir = home.join(FIRST_STATE_DIR);
    }
    let config = config_file(env, &layout.state_dir);
    let settings = Settings::read(&config);
    let mut found = Self { layout, profile: None, config, settings, agents: vec![], notes: vec![] };
    found.find_agents(env);
    if let Some(agent) = found.agents.iter().find(|agent| agent.is_default) {
      found.layout.workspace.clone_from(&agent.workspace);
    }
    Some(found)
  }

  /// The workspaces of all agents, each once.
  pub fn workspaces(&self) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for agent in &self.agents {
      if !found.contains(&agent.workspace) {
        found.push(agent.workspace.clone());
      }
    }
    found
  }

  /// The agents that work in a workspace, whichever of its paths is given.
  pub fn agents_of(&self, workspace: &Path) -> impl Iterator<Item = &Agent> {
    let real = workspace.canonicalize().ok();
    self.agents.iter().filter(move |agent| {
      agent.workspace == workspace || real.is_some() && agent.workspace.canonicalize().ok() == real
    })
  }

  /// Where an agent's own database lies, wherever its other files are.
  pub fn agent_database(&self, agent: &Agent) -> PathBuf {
    self.agent_home(agent).join("agent").join("openclaw-agent.sqlite")
  }

  pub(super) fn agent_home(&self, agent: &Agent) -> PathBuf {
    self.layout.state_dir.join("agents").join(&agent.id)
  }

  /// Whether the configuration could be read, so that what is not in here is not used.
  pub fn is_complete(&self) -> bool {
    self.settings.broken.is_none()
  }

  /// That the configuration cannot be read, why, and what to do; `None` if it can, or if there is none.
  pub fn unreadable(&self) -> Option<String> {
    let why = self.settings.broken.as_ref()?;
    Some(format!(
      "the configuration cannot be read, so its defaults apply: {why}; correct the file or its permissions \
       (`openclaw doctor` checks it), and memfw reads it again"
    ))
  }

  fn find_agents(&mut self, env: &OpenClawEnv) {
    self.notes.extend(self.unreadable());
    let entries = self.roster();
    let owner = self.owner(&entries);
    let defaults = self.settings.at(&["agents", "defaults"]).cloned();
    let default = |key: &str| defaults.as_ref().and_then(|defaults| defaults.get(key)).cloned();
    let base = default("workspace")
      .or_else(|| self.settings.at(&["agent", "workspace"]).cloned())
      .and_then(|value| self.path(&value, env, "agents.defaults.workspace"));
    let mut agents: Vec<Agent> = Vec::new();
    for (id, entry) in entries.iter().take(MAX_AGENTS) {
      if agents.iter().any(|agent| agent.id == *id) {
        continue;
      }
      let is_owner = owner.as_ref() == Some(id);
      let own = entry.get("workspace").filter(|value| !is_blank(value));
      let workspace = match (own, &base) {
        (Some(value), _) => {
          match self.path(value, env, &format!("agents.entries.{id}.workspace")) {
            Some(path) => path,
            None => continue,
          }
        }
        (None, Some(base)) if is_owner => base.clone(),
        (None, Some(base)) => base.join(id),
        (None, None) if is_owner => self.layout.workspace.clone(),
        (None, None) => self.layout.state_dir.join(format!("workspace-{id}")),
      };
      let dir = entry
        .get("agentDir")
        .filter(|value| !is_blank(value))
        .and_then(|value| self.path(value, env, &format!("agents.entries.{id}.agentDir")))
        .unwrap_or_else(|| self.layout.state_dir.join("agents").join(id).join("agent"));
      let limit = |key: &str, fallback| {
        entry
          .get(key)
          .and_then(positive)
          .or_else(|| default(key).as_ref().and_then(positive))
          .unwrap_or(fallback)
      };
      let Limits { file, total } = Limits::default();
      let limits = Limits {
        file: limit("bootstrapMaxChars", file),
        total: limit("bootstrapTotalMaxChars", total),
      };
      let extra = self.extra(entry, &workspace, env);
      agents.push(Agent { id: id.clone(), workspace, dir, is_default: is_owner, limits, extra });
    }
    self.agents = agents;
    if self.settings.broken.is_some() {
      self.add_by_name();
    }
  }

  /// The agents by their ids, in the newer form, the older one, or the implicit one.
  fn roster(&self) -> Vec<(String, Value)> {
    if let Some(entries) = self.settings.at(&["agents", "entries"]).and_then(Value::as_object) {
      let entries = entries.iter().filter(|(_, entry)| entry.is_object());
      return entries.map(|(id, entry)| (agent_id(id), entry.clone())).collect();
    }
    let list = self.settings.at(&["agents", "list"]).and_then(Value::as_array);
    match list.filter(|list| !list.is_empty()) {
      Some(list) => list
        .iter()
        .filter(|entry| entry.is_object())
        .map(|entry| {
          let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
          (agent_id(id), entry.clone())
        })
        .collect(),
      None => vec![(IMPLICIT_AGENT.to_owned(), Value::Null)],
    }
  }

  /// The agent that has the workspace without a name: the only one, or the one that is marked. The older
  /// list had its first one for that where none was marked.
  fn owner(&self, entries: &[(String, Value)]) -> Option<String> {
    if let [(only, _)] = entries {
      return Some(only.clone());
    }
    let explicit = self.settings.at(&["agents", "ownership"]).and_then(Value::as_str);
    let marked: Vec<&String> = entries
      .iter()
      .filter(|(_, entry)| entry.get("default") == Some(&Value::Bool(true)))
      .map(|(id, _)| id)
      .collect();
    match marked.as_slice() {
      _ if explicit == Some("explicit") => None,
      [one] => Some((*one).clone()),
      _ if self.settings.at(&["agents", "entries"]).is_some() => None,
      [first, ..] => Some((*first).clone()),
      [] => entries.first().map(|(id, _)| id.clone()),
    }
  }

  /// A path of the configuration; a path whose meaning is unclear is noted.
  fn path(&mut self, value: &Value, env: &OpenClawEnv, key: &str) -> Option<PathBuf> {
    let text = value.as_str()?.trim().replace('\0', "");
    if text.is_empty() {
      return None;
    }
    let lookup = |name: &str| variable(env, name);
    match self.settings.expand(&text, &lookup) {
      Err(name) => {
        self.notes.push(format!(
          "`{key}` names the variable `{name}`, which memfw does not know: name the directory in `workspaces`"
        ));
        None
      }
      // OpenClaw takes it from the directory in which it was started.
      Ok(text) if !text.starts_with(['/', '~']) => {
        self.notes.push(format!(
          "`{key}` is relative to where OpenClaw was started: name the directory in `workspaces`"
        ));
        None
      }
      Ok(text) => expanded(Path::new(&text), env.home_dir().as_deref()).map(|path| normal(&path)),
    }
  }

  fn extra(&mut self, entry: &Value, workspace: &Path, env: &OpenClawEnv) -> Vec<PathBuf> {
    let lists = [
      self.settings.at(&["memory", "search", "extraPaths"]),
      self.settings.at(&["agents", "defaults", "memorySearch", "extraPaths"]),
      entry.pointer("/memory/search/extraPaths"),
      entry.pointer("/memorySearch/extraPaths"),
    ];
    let texts: Vec<String> = lists
      .into_iter()
      .flatten()
      .filter_map(Value::as_array)
      .flatten()
      .filter_map(|one| one.as_str().or_else(|| one.get("path")?.as_str()))
      .map(|text| text.trim().to_owned())
      .filter(|text| !text.is_empty())
      .take(MAX_EXTRA)
      .collect();
    let mut found: Vec<PathBuf> = Vec::new();
    for text in texts {
      let Ok(text) = self.settings.expand(&text, &|name| variable(env, name)) else { continue };
      let path = if text.starts_with('~') {
        expanded(Path::new(&text), env.home.as_deref())
      } else {
        Some(workspace.join(&text))
      };
      if let Some(path) = path.map(|path| normal(&path)).filter(|path| !found.contains(path)) {
        found.push(path);
      }
    }
    found
  }

  /// While the configuration cannot be read, workspaces are recognised by their names in the state directory.
  fn add_by_name(&mut self) {
    let Ok(entries) = fs::read_dir(&self.layout.state_dir) else { return };
    let mut names: Vec<String> = entries
      .flatten()
      .take(4096)
      .filter_map(|entry| entry.file_name().into_string().ok())
      .filter(|name| name.starts_with("workspace-"))
      .collect();
    names.sort();
    for name in names.into_iter().take(MAX_AGENTS) {
      let workspace = self.layout.state_dir.join(&name);
      let id = name.trim_start_matches("workspace-").to_owned();
      if workspace.is_dir() && self.agents.iter().all(|agent| agent.id != id) {
        let dir = self.layout.state_dir.join("agents").join(&id).join("agent");
        self.agents.push(Agent {
          id,
          workspace,
          dir,
          is_default: false,
          limits: Limits::default(),
          extra: vec![],
        });
      }
    }
  }
}

/// The configuration file: the one that is named, else the first that is there.
fn config_file(env: &OpenClawEnv, state_dir: &Path) -> PathBuf {
  if let Some(path) = env.config_path.as_deref().and_then(|path| env.resolve(path)) {
    return path;
  }
  let mut dirs = vec![state_dir.to_owned()];
  if let Some(home) = env.home_dir() {
    dirs.extend([home.join(".openclaw"), home.join(FIRST_STATE_DIR)]);
  }
  // With a state directory of its own, OpenClaw looks no further.
  dirs.truncate(if env.state_dir.is_some() { 1 } else { dirs.len() });
  let mut candidates = dirs.iter().flat_map(|dir| CONFIG_FILES.map(|name| dir.join(name)));
  candidates.find(|path| path.exists()).unwrap_or_else(|| state_dir.join("openclaw.json"))
}

/// The variables that memfw knows of those that a configuration may name.
pub(super) fn variable(env: &OpenClawEnv, name: &str) -> Option<String> {
  let path = match name {
    "HOME" => env.home.as_ref(),
    "OPENCLAW_HOME" => env.openclaw_home.as_ref(),
    "OPENCLAW_STATE_DIR" => env.state_dir.as_ref(),
    "OPENCLAW_WORKSPACE_DIR" => env.workspace_dir.as_ref(),
    "OPENCLAW_CONFIG_PATH" => env.config_path.as_ref(),
    "OPENCLAW_PROFILE" => return env.profile.clone(),
    _ => None,
  };
  path.and_then(|path| path.to_str()).map(str::to_owned)
}

/// An id as OpenClaw normalises it: lower case, other characters than `a-z0-9_-` become `-`.
fn agent_id(text: &str) -> String {
  let text = text.trim().to_lowercase();
  let mut id = String::new();
  for c in text.chars() {
    match c {
      'a'..='z' | '0'..='9' | '_' | '-' => id.push(c),
      _ if id.ends_with('-') => {}
      _ => id.push('-'),
    }
  }
  let id: String = id.trim_matches('-').chars().take(64).collect();
  if id.is_empty() { IMPLICIT_AGENT.to_owned() } else { id }
}

fn is_blank(value: &Value) -> bool {
  value.as_str().is_none_or(|text| text.trim().is_empty())
}

/// A number above zero, rounded down.
fn positive(value: &Value) -> Option<usize> {
  let number = value.as_f64().filter(|number| *number >= 1.0)?;
  #[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is at least 1, and a larger number than there are is the largest"
  )]
  Some(number as usize)
}

#[cfg(test)]
#[path = "installation_tests.rs"]
mod tests;
