//! `memfw openclaw status`: the installations, which memory OpenClaw loads, and which facts are not
//! known.
#![forbid(unsafe_code)]

use std::{
  fmt::Write as _,
  path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{AgentStatusArgs, choice, plugin_state::PluginState};
use crate::{
  app::{agent::program, context::Context, exit::Status},
  engine::event::shown,
  files::{RealFs, Workspace},
  memory::ContentHash,
  openclaw::{
    Agent, Installation, OpenClawRecords,
    inspect::{AGENT_SCHEMA, AgentState, FileState, Injected, STATE_SCHEMA, State},
  },
  os::{Clock as _, SystemClock},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    time,
  },
};

/// Carries the command out.
pub(super) fn run(context: &Context, args: &AgentStatusArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  let env = &context.surroundings.env;
  let found = choice::all_of(context, args.profile.as_deref())?;
  let installed = program::find(env, &config).map(|path| (program::release(&path), path));
  let records = OpenClawRecords::of(found.clone());
  let reports: Vec<StateReport<'_>> = match &records {
    Some(records) => found.iter().map(|one| StateReport::of(context, one, records)).collect(),
    None => vec![],
  };
  if args.json {
    context.out.json(&json!({
      "program": installed.as_ref().map(|(release, path)| json!({
        "path": shown(path),
        "version": release,
      })),
      "installations": reports.iter().map(StateReport::to_json).collect::<Vec<_>>(),
    }))?;
  } else {
    match &installed {
      Some((release, path)) => context.out.line(&format!(
        "OpenClaw {}: {}",
        terminal(release.as_deref().unwrap_or("of an unknown release")),
        terminal(shown(path))
      ))?,
      None => context.out.line("OpenClaw: its program was not found")?,
    }
    for report in &reports {
      report.print(context)?;
    }
  }
  Ok(if reports.iter().any(StateReport::is_troubled) { Status::No } else { Status::Yes })
}

/// One installation.
struct StateReport<'i> {
  installation: &'i Installation,
  state: State,
  plugin: PluginState,
  agents: Vec<AgentReport<'i>>,
}

/// One agent.
struct AgentReport<'i> {
  agent: &'i Agent,
  state: AgentState,
  files: Vec<FileState>,
}

impl<'i> StateReport<'i> {
  fn of(context: &Context, installation: &'i Installation, records: &OpenClawRecords) -> Self {
    let agents = installation.agents.iter().map(|agent| AgentReport {
      agent,
      state: installation.agent_state(agent),
      files: installation.files(agent, records, &memory_of(&agent.workspace)),
    });
    let plugin = PluginState::of(context, installation);
    Self { installation, state: installation.state(), plugin, agents: agents.collect() }
  }

  /// Notes about the installation, one sentence each.
  fn notes(&self) -> Vec<String> {
    let mut notes = self.installation.notes.clone();
    notes.extend(self.state.problem.clone());
    if self.state.schema.is_some_and(|schema| schema > STATE_SCHEMA) {
      notes.push(format!(
        "the state database is newer (schema {}) than the newest that this memfw was tested with \
        ({STATE_SCHEMA})",
        self.state.schema.unwrap_or_default()
      ));
    }
    for AgentReport { agent, state, files } in &self.agents {
      notes.extend(state.problem.clone());
      if state.schema.is_some_and(|schema| schema > AGENT_SCHEMA) {
        notes.push(format!(
          "the database of the agent `{}` is newer (schema {}) than the newest that this memfw \
          was tested with ({AGENT_SCHEMA})",
          agent.id,
          state.schema.unwrap_or_default()
        ));
      }
      notes.extend(files.iter().find_map(|file| file.problem.clone()));
    }
    notes.dedup();
    notes
  }

  fn is_troubled(&self) -> bool {
    let is_dropped = |agent: &AgentReport<'_>| agent.files.iter().any(FileState::is_dropped);
    self.state.problem.is_some()
      || !self.installation.notes.is_empty()
      || self.plugin.is_troubled()
      || self.agents.iter().any(|agent| is_dropped(agent) || agent.state.problem.is_some())
  }

  fn to_json(&self) -> Value {
    json!({
      "state_dir": shown(&self.installation.layout.state_dir),
      "profile": self.installation.profile,
      "config": {
        "file": shown(&self.installation.config),
        "exists": self.installation.settings.exists,
        "readable": self.installation.is_complete(),
      },
      "version": self.state.release,
      "schema": self.state.schema,
      "schema_known": self.state.schema.map(|schema| schema <= STATE_SCHEMA),
      "plugin": self.plugin.to_json(),
      "agents": self.agents.iter().map(AgentReport::to_json).collect::<Vec<_>>(),
      "notes": self.notes(),
    })
  }

  fn print(&self, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let installation = self.installation;
    let profile = installation.profile.as_deref();
    let profile = profile.map(|name| format!(" (profile {name})")).unwrap_or_default();
    let state = shown(&installation.layout.state_dir);
    out.line(&format!("  state       {}", terminal(format!("{state}{profile}"))))?;
    let config = match (installation.settings.exists, installation.is_complete()) {
      (false, _) => " (does not exist: defaults apply)",
      (true, false) => " (cannot be read: defaults apply)",
      (true, true) => "",
    };
    out.line(&format!("  config      {}{config}", terminal(shown(&installation.config))))?;
    let release = self.state.release.as_deref().map(|release| format!("written by {release}"));
    let schema = self.state.schema.map(|schema| format!("schema {schema}"));
    let database: Vec<String> = [release, schema].into_iter().flatten().collect();
    let database = if database.is_empty() { "none".to_owned() } else { database.join(", ") };
    out.line(&format!("  database    {}", terminal(database)))?;
    out.line(&format!("  plugin      {}", self.plugin.line()))?;
    if let Some(missing) = self.plugin.missing_line() {
      out.line(&format!("  missing     {}", out.paint(Style::Yellow, &missing)))?;
    }
    for agent in &self.agents {
      agent.print(context)?;
    }
    for note in self.notes() {
      out.line(&format!("  {}        {}", out.paint(Style::Yellow, "note"), terminal(note)))?;
    }
    Ok(())
  }
}

impl AgentReport<'_> {
  fn to_json(&self) -> Value {
    json!({
      "id": self.agent.id,
      "default": self.agent.is_default,
      "workspace": shown(&self.agent.workspace),
      "database_schema": self.state.schema,
      "database_schema_known": self.state.schema.map(|schema| schema <= AGENT_SCHEMA),
      "transcripts": self.state.transcripts,
      "indexed": self.state.indexed,
      "extra_paths": self.agent.extra.iter().map(|path| shown(path)).collect::<Vec<_>>(),
      "files": self.files.iter().map(|file| self.file_json(file)).collect::<Vec<_>>(),
    })
  }

  fn file_json(&self, file: &FileState) -> Value {
    let (injected, why) = match &file.injected {
      Injected::Searched => (None, None),
      Injected::Whole => (Some("whole"), None),
      Injected::Part { chars, limit } => {
        (Some("part"), Some(format!("{limit} of its {chars} characters")))
      }
      Injected::No(why) => (Some("no"), Some(why.clone())),
    };
    let row = file.row.as_ref();
    json!({
      "file": shown(&self.agent.workspace.join(&file.file)),
      "sha256": file.hash.map(ContentHash::to_hex),
      "class": row.and_then(|row| row.class.clone()),
      "class_since": row.and_then(|row| row.observed_at).map(time::rfc3339),
      "class_session_id": row.and_then(|row| row.session_id.clone()),
      "recorded": row.map(|row| Some(row.hash) == file.hash),
      "injected": injected,
      "why": why,
      "index": self.index_word(file),
    })
  }

  /// How the file compares with the index; `None` if there is no index.
  fn index_word(&self, file: &FileState) -> Option<&'static str> {
    match (self.state.indexed, file.indexed) {
      (false, _) => None,
      (true, None) => Some("missing"),
      (true, Some(hash)) if Some(hash) == file.hash => Some("current"),
      (true, Some(_)) if file.hash.is_none() => Some("gone"),
      (true, Some(_)) => Some("older"),
    }
  }

  fn print(&self, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let default = if self.agent.is_default { " (default)" } else { "" };
    out.line(&format!("  agent       {}{default}", terminal(&self.agent.id)))?;
    out.line(&format!("    workspace   {}", terminal(shown(&self.agent.workspace))))?;
    let schema = self.state.schema.map(|schema| format!(", schema {schema}")).unwrap_or_default();
    out.line(&format!("    transcripts {}{schema}", self.state.transcripts))?;
    out.line(&format!("    index       {}", self.index_line()))?;
    for file in &self.files {
      if let Some((style, text)) = self.file_line(file) {
        let name = terminal(shown(&file.file));
        out.line(&format!("    {name}: {}", out.paint(style, &text)))?;
      }
    }
    Ok(())
  }

  fn index_line(&self) -> String {
    if !self.state.indexed {
      return "none".to_owned();
    }
    let number =
      |word| self.files.iter().filter(|file| self.index_word(file) == Some(word)).count() as u64;
    let current = count(number("current"), "file");
    let mut text = format!("{current} up to date");
    for (word, what) in [("older", "out of date"), ("gone", "deleted")] {
      if let n @ 1.. = number(word) {
        write!(text, ", {n} {what}").unwrap_or_default();
      }
    }
    text
  }

  /// The line about a file; `None` for a trusted file that is only searched.
  fn file_line(&self, file: &FileState) -> Option<(Style, String)> {
    let now = SystemClock.now();
    if let Some(row) = file.row.as_ref().filter(|_| file.is_dropped()) {
      let since = row.observed_at.map(|at| format!(" since {}", time::short(at, now)));
      let by = row.session_id.as_deref().map(|id| format!(", by session {}", terminal(id)));
      let what = match file.injected {
        Injected::Searched => "only searched: OpenClaw does not trust it",
        _ => "not loaded: OpenClaw does not trust it",
      };
      let path = terminal(shown(&self.agent.workspace.join(&file.file)));
      let text = format!(
        "{what}{}{}; memfw openclaw retrust {path}",
        since.unwrap_or_default(),
        by.unwrap_or_default()
      );
      return Some((Style::Red, text));
    }
    let edited = file.row.as_ref().is_some_and(|row| Some(row.hash) != file.hash);
    let but = if edited {
      "; edited since OpenClaw wrote it, so its next write there may drop it"
    } else {
      ""
    };
    match &file.injected {
      Injected::Searched if edited => Some((Style::Yellow, format!("searched{but}"))),
      Injected::Searched => None,
      Injected::Whole => {
        Some((if edited { Style::Yellow } else { Style::Green }, format!("loaded{but}")))
      }
      Injected::Part { chars, limit } => {
        Some((Style::Yellow, format!("loaded in part, {limit} of its {chars} characters{but}")))
      }
      Injected::No(why) => Some((Style::Yellow, format!("not loaded: {why}"))),
    }
  }
}

/// The memory files of a workspace, and the two that are listed even if they do not exist.
fn memory_of(workspace: &Path) -> Vec<PathBuf> {
  let fs = RealFs::default();
  let root = workspace.canonicalize().unwrap_or_else(|_error| workspace.to_owned());
  let mut files = match Workspace::open(&fs, &root) {
    Ok(workspace) => workspace.walk(&fs).files,
    Err(_) => vec![],
  };
  for name in ["MEMORY.md", "USER.md"] {
    if !files.iter().any(|file| file == Path::new(name)) {
      files.push(name.into());
    }
  }
  files.sort();
  files
}
