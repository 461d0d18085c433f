//! All transcripts of all agents below a state directory, whichever store they are in.
//!
//! While OpenClaw moves from one store to the other both are there; the database wins where both
//! have a session. A store that cannot be read is a problem beside the records of the others.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BTreeMap, BTreeSet},
  fs, io,
  path::{Path, PathBuf},
};

use super::{
  jsonl::JsonlStore,
  model::{ReadResult, Record, Session, Sessions, Window},
  tables::SqliteStore,
};

/// Most agents that are looked for.
const MAX_AGENTS: usize = 256;
/// Most problems in an answer.
const MAX_PROBLEMS: usize = 16;

/// The transcripts of one OpenClaw, open for one question.
///
/// It holds the databases open, so it is dropped soon: OpenClaw tidies its write-ahead log up when the
/// last reader is gone.
pub struct Stores {
  agents: Vec<Agent>,
  problems: Vec<String>,
  /// Where each agent works.
  homes: BTreeMap<String, PathBuf>,
}

struct Agent {
  sqlite: Option<SqliteStore>,
  jsonl: Option<JsonlStore>,
}

impl std::fmt::Debug for Stores {
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.debug_struct("Stores").field("agents", &self.agents.len()).finish_non_exhaustive()
  }
}

impl Stores {
  /// The transcripts below a state directory. It never fails: what is not there has no sessions, and
  /// what cannot be opened is a problem of each answer.
  pub fn open(state_dir: &Path) -> Self {
    Self::open_with(state_dir, [])
  }

  /// The transcripts below a state directory, and those of agents whose directories the
  /// configuration puts elsewhere.
  pub fn open_with<'a>(
    state_dir: &Path,
    elsewhere: impl IntoIterator<Item = (&'a str, &'a Path)>,
  ) -> Self {
    let (directories, problems) = agents(state_dir);
    let mut stores = Self { agents: vec![], problems, homes: BTreeMap::new() };
    let mut usual = BTreeSet::new();
    for directory in directories {
      let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
      let own = directory.join("agent");
      stores.add_agent(name, &own, JsonlStore::open(&directory.join("sessions"), name));
      usual.insert(own);
    }
    for (name, own) in elsewhere {
      // A path that a person wrote down may lead over links, as the state directory's may.
      let Ok(own) = fs::canonicalize(own) else { continue };
      if stores.agents.len() < MAX_AGENTS && usual.insert(own.clone()) {
        stores.add_agent(name, &own, None);
      }
    }
    stores
  }

  fn add_agent(&mut self, name: &str, own: &Path, jsonl: Option<JsonlStore>) {
    let is_plain = fs::symlink_metadata(own).is_ok_and(|meta| meta.is_dir());
    let path = is_plain.then(|| own.join("openclaw-agent.sqlite"));
    let sqlite = path.and_then(|path| {
      SqliteStore::open(&path, name).unwrap_or_else(|error| {
        self.problems.push(error.to_string());
        None
      })
    });
    self.agents.push(Agent { sqlite, jsonl });
  }

  /// These stores, with the workspace in which each agent works.
  #[must_use]
  pub fn with_homes(mut self, homes: BTreeMap<String, PathBuf>) -> Self {
    self.homes = homes;
    self
  }

  fn at_home(&self, mut session: Session) -> Session {
    session.workspace = self.homes.get(&session.agent).cloned();
    session
  }

  fn answer<T: Default>(&self) -> ReadResult<T> {
    ReadResult { found: T::default(), problems: self.problems.clone() }
  }
}

impl Sessions for Stores {
  fn active(&self, window: Window) -> ReadResult<Vec<Session>> {
    let mut answer = self.answer();
    let mut found: Vec<(i64, Session)> = Vec::new();
    for agent in &self.agents {
      let mut known = BTreeSet::new();
      if let Some(sqlite) = &agent.sqlite {
        let part = sqlite.active(window);
        known.extend(part.found.iter().map(|(_, session)| session.id.clone()));
        found.extend(part.found);
        add(&mut answer.problems, part.problems);
      }
      if let Some(jsonl) = &agent.jsonl {
        let part = jsonl.active(window);
        found.extend(part.found.into_iter().filter(|(_, session)| !known.contains(&session.id)));
        add(&mut answer.problems, part.problems);
      }
    }
    found.sort_by_key(|(at, _)| Reverse(*at));
    answer.found = found.into_iter().map(|(_, session)| self.at_home(session)).collect();
    answer
  }

  fn session(&self, id_or_key: &str) -> ReadResult<Option<Session>> {
    let mut answer: ReadResult<Option<Session>> = self.answer();
    for agent in &self.agents {
      let sqlite = agent.sqlite.iter().map(|store| store.session(id_or_key));
      for part in sqlite {
        add(&mut answer.problems, part.problems);
        answer.found = answer.found.or(part.found);
      }
      if let (None, Some(jsonl)) = (&answer.found, &agent.jsonl) {
        let part = jsonl.session(id_or_key);
        add(&mut answer.problems, part.problems);
        answer.found = part.found;
      }
      if answer.found.is_some() {
        break;
      }
    }
    answer.found = answer.found.map(|session| self.at_home(session));
    answer
  }

  fn records(&self, id: &str, window: Window, limit: usize) -> ReadResult<Vec<Record>> {
    let mut answer: ReadResult<Vec<Record>> = self.answer();
    for agent in &self.agents {
      if let Some(sqlite) = &agent.sqlite {
        let part = sqlite.records(id, window, limit);
        add(&mut answer.problems, part.problems);
        answer.found = part.found;
      }
      if let (true, Some(jsonl)) = (answer.found.is_empty(), &agent.jsonl) {
        let part = jsonl.records(id, window, limit);
        add(&mut answer.problems, part.problems);
        answer.found = part.found;
      }
      if !answer.found.is_empty() {
        break;
      }
    }
    answer
  }
}

/// The directories of the agents, no link among them, and what is wrong with them.
fn agents(state_dir: &Path) -> (Vec<PathBuf>, Vec<String>) {
  // Links above the state directory are the user's own way to arrange a machine.
  let Ok(state_dir) = fs::canonicalize(state_dir) else { return (vec![], vec![]) };
  let all = state_dir.join("agents");
  let entries = match fs::symlink_metadata(&all) {
    Ok(meta) if meta.is_dir() => fs::read_dir(&all),
    Ok(_) => Err(io::Error::other("it is no directory")),
    Err(error) if error.kind() == io::ErrorKind::NotFound => return (vec![], vec![]),
    Err(error) => Err(error),
  };
  let entries = match entries {
    Ok(entries) => entries,
    Err(error) => return (vec![], vec![format!("`{}`: {error}", all.display())]),
  };
  let mut found: Vec<PathBuf> = entries
    .flatten()
    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    .map(|entry| entry.path())
    .take(MAX_AGENTS)
    .collect();
  found.sort();
  (found, vec![])
}

fn add(problems: &mut Vec<String>, more: Vec<String>) {
  for problem in more {
    if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
      problems.push(problem);
    }
  }
}
