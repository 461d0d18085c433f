//! What OpenClaw does with each memory file right now, and whether we can tell.
#![forbid(unsafe_code)]

use std::{
  os::unix::fs::MetadataExt as _,
  path::{Path, PathBuf},
};

use super::{
  Agent, Installation, LedgerRow, OpenClawRecords, database,
  file::read,
  index::Index,
  injection::{MAX_BYTES, chars},
  ledger_row::DROPPED,
};
use crate::memory::ContentHash;

/// The newest schema of the state database that was seen (2026.9.6).
pub const STATE_SCHEMA: i64 = 18;
/// The newest schema of an agent's database that was seen (2026.9.6).
pub const AGENT_SCHEMA: i64 = 23;
/// Largest memory file that is hashed for a comparison, in bytes.
const MAX_HASHED: u64 = 64 << 20;

/// What is known about an installation as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
  /// The release that last worked with the state database.
  pub release: Option<String>,
  /// The schema of the state database; `None` where there is none.
  pub schema: Option<i64>,
  /// Why the state database cannot be read.
  pub problem: Option<String>,
}

/// What is known about an agent's own database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentState {
  /// Its schema; `None` where there is none.
  pub schema: Option<i64>,
  /// Where its transcripts are: `sqlite`, `jsonl`, or `none`.
  pub transcripts: &'static str,
  /// Whether there is an index of its memory.
  pub indexed: bool,
  /// Why it cannot be read.
  pub problem: Option<String>,
}

/// How much of a file is put before the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
  /// It is only searched.
  Searched,
  /// All of it.
  Whole,
  /// Of these characters, so many at most.
  Part {
    /// What it has.
    chars: usize,
    /// What is taken.
    limit: usize,
  },
  /// Nothing, and why not.
  No(String),
}

/// What is known about one memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
  /// Its path in the workspace.
  pub file: PathBuf,
  /// The hash of the present content; `None` if it cannot be read.
  pub hash: Option<ContentHash>,
  /// OpenClaw's row about it.
  pub row: Option<LedgerRow>,
  /// Why that row could not be read.
  pub problem: Option<String>,
  /// How much of it OpenClaw puts before its model.
  pub injected: Injected,
  /// The version that is in the index.
  pub indexed: Option<ContentHash>,
}

impl FileState {
  /// Whether OpenClaw has dropped it because it does not trust it.
  pub fn is_dropped(&self) -> bool {
    self.row.as_ref().is_some_and(|row| row.class.as_deref() == Some(DROPPED))
  }
}

impl Installation {
  /// What the state database says about itself.
  pub fn state(&self) -> State {
    let path = self.layout.state_database(&self.layout.workspace);
    match database::open(&path) {
      Ok(None) => State::default(),
      Ok(Some(connection)) => State {
        release: database::release(&connection),
        schema: Some(database::schema(&connection)),
        problem: None,
      },
      Err(problem) => State { problem: Some(problem), ..State::default() },
    }
  }

  /// What an agent's database says about itself.
  pub fn agent_state(&self, agent: &Agent) -> AgentState {
    let jsonl = self.agent_home(agent).join("sessions").join("sessions.json").is_file();
    let older = if jsonl { "jsonl" } else { "none" };
    match database::open(&self.agent_database(agent)) {
      Ok(None) => AgentState { transcripts: older, ..AgentState::default() },
      Ok(Some(connection)) => {
        let newer = database::has(&connection, "transcript_events", &["session_id", "seq"]);
        AgentState {
          schema: Some(database::schema(&connection)),
          transcripts: if newer { "sqlite" } else { older },
          indexed: database::has(&connection, "memory_index_sources", &["path", "hash"]),
          problem: None,
        }
      }
      Err(problem) => {
        AgentState { transcripts: older, problem: Some(problem), ..AgentState::default() }
      }
    }
  }

  /// What OpenClaw does with the files of an agent's workspace (paths relative to it).
  pub fn files(
    &self,
    agent: &Agent,
    records: &OpenClawRecords,
    files: &[PathBuf],
  ) -> Vec<FileState> {
    let index = Index::open(self, agent).ok().flatten();
    let root = agent.workspace.canonicalize().unwrap_or_else(|_error| agent.workspace.clone());
    let state = |file: &PathBuf| {
      let (row, problem) = match records.row(&root, file) {
        Ok(row) => (row, None),
        Err(why) => (None, Some(why)),
      };
      let path = root.join(file);
      let bytes = if path.is_symlink() { None } else { read(&path, MAX_HASHED).ok().flatten() };
      FileState {
        file: file.clone(),
        hash: bytes.as_deref().map(ContentHash::of),
        injected: injected(agent, &root, file, bytes.as_deref(), row.as_ref()),
        indexed: index.as_ref().and_then(|index| index.version(file).ok().flatten()),
        row,
        problem,
      }
    };
    files.iter().map(state).collect()
  }
}

/// How much of a file is put before the model, in the order in which OpenClaw decides.
fn injected(
  agent: &Agent,
  root: &Path,
  file: &Path,
  bytes: Option<&[u8]>,
  row: Option<&LedgerRow>,
) -> Injected {
  let Some(limit) = agent.limits.left_for(root, file) else { return Injected::Searched };
  let no = |why: &str| Injected::No(why.to_owned());
  match root.join(file).symlink_metadata() {
    Err(_) => return no("it is missing"),
    Ok(found) if found.is_symlink() => return no("it is a link"),
    Ok(found) if !found.is_file() => return no("it is not a regular file"),
    Ok(found) if found.nlink() > 1 => return no("it has a second hard link"),
    Ok(found) if found.len() > MAX_BYTES => return no("it is larger than 2 MiB"),
    Ok(_) => {}
  }
  let Some(bytes) = bytes else { return no("it cannot be read") };
  if row.is_some_and(|row| row.class.as_deref() == Some(DROPPED)) {
    return no("OpenClaw does not trust it");
  }
  let chars = chars(bytes.trim_ascii_end());
  match limit {
    0 => no("the files before it take all characters of the prompt"),
    limit if chars > limit => Injected::Part { chars, limit },
    _ => Injected::Whole,
  }
}
