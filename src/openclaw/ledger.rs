//! OpenClaw's hash ledger of memory files (2026.8.1 and later): read a row, let it follow.
//!
//! OpenClaw writes a row before its tools write a file, and stops loading `MEMORY.md` for good when
//! a file whose row it wrote was edited by another program before its own next write. So the hash
//! of a row follows an edit of memfw's only then: when the row's hash was the hash of the bytes
//! that we edited. The class in the row changes only together with that, to one that was on record
//! before.
//!
//! Layout as observed in 2026.9.6: table `plugin_state_entries`, `plugin_id` =
//! `core:memory-artifact-provenance`, `namespace` = `workspace-files`, `value_json` with `version` 1,
//! `workspaceKey` (SHA-256 of the workspace path), `relativePath`, `fileHash`, `originClass`.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use serde_json::Value;

use super::{
  Installation,
  attribute::attribute,
  database,
  index::Index,
  injection::Limits,
  layout::Layout,
  ledger_row::{DROPPED, LedgerRow, TRUSTED},
  transcript::Stores,
};
use crate::{
  memory::{ContentHash, id::from_hex},
  provenance::{AgentRecords, Answer, Classes, Followed, Question, Standing},
};

const PLUGIN: &str = "core:memory-artifact-provenance";
const NAMESPACE: &str = "workspace-files";
/// The only version of the row's JSON that is known.
const ROW_VERSION: i64 = 1;
/// A row is some 400 bytes; more is not a row.
const MAX_ROW_BYTES: usize = 16 * 1024;
/// How long a busy database is waited for under a lease, which a writer may be waiting for in turn.
const BUSY: Duration = Duration::from_millis(50);
/// The wait where a person waits and no lease is held.
const PATIENCE: Duration = Duration::from_secs(5);
/// What OpenClaw calls a file that its own turns wrote, and one that others had a hand in.
const CLASSES: Classes = Classes { full: TRUSTED, dropped: DROPPED };

/// OpenClaw's records, found through its [`Layout`].
#[derive(Clone, Debug)]
pub struct OpenClawRecords {
  layout: Layout,
  /// What was found on this machine; empty where only the layout is known.
  installations: Vec<Installation>,
}

/// Why a row could not be read or changed.
#[derive(Debug, thiserror::Error)]
enum LedgerError {
  #[error("OpenClaw's database `{path}`: {error}")]
  Database { path: PathBuf, error: rusqlite::Error },
  #[error("OpenClaw's database `{path}` is empty, as if it had been cut or were just being made")]
  Empty { path: PathBuf },
  #[error("OpenClaw's database `{path}` has a file ledger of unknown form")]
  UnknownForm { path: PathBuf },
}

/// A row as in the database.
struct Row {
  key: String,
  json: String,
  value: Value,
  hash: ContentHash,
}

impl Row {
  fn class(&self) -> Option<String> {
    self.text("originClass")
  }

  fn text(&self, name: &str) -> Option<String> {
    self.value.get(name).and_then(Value::as_str).map(str::to_owned)
  }
}

impl OpenClawRecords {
  /// Records of the OpenClaw with this layout.
  pub fn new(layout: Layout) -> Self {
    Self { layout, installations: vec![] }
  }

  /// Records of all that was found; `None` where that is nothing.
  pub fn of(installations: Vec<Installation>) -> Option<Self> {
    Some(Self { layout: installations.first()?.layout.clone(), installations })
  }

  /// The layout that a workspace belongs to.
  fn layout_of(&self, workspace: &Path) -> &Layout {
    let mut found = self.installations.iter();
    found
      .find(|one| one.agents_of(workspace).next().is_some())
      .map_or(&self.layout, |one| &one.layout)
  }

  fn open(
    &self,
    workspace: &Path,
    write: bool,
  ) -> Result<Option<(Connection, PathBuf)>, LedgerError> {
    let path = self.layout_of(workspace).state_database(workspace);
    match path.metadata() {
      Ok(found) if found.is_file() && found.len() == 0 => return Err(LedgerError::Empty { path }),
      Ok(found) if found.is_file() => {}
      Ok(_) | Err(_) => return Ok(None),
    }
    let mode =
      if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    match database::open_guarded(&path, flags, BUSY) {
      Ok(connection) => Ok(Some((connection, path))),
      Err(error) => Err(LedgerError::Database { path, error }),
    }
  }

  /// What OpenClaw noted about `file`; the error is a sentence.
  pub fn row(&self, workspace: &Path, file: &Path) -> Result<Option<LedgerRow>, String> {
    let read = || {
      let Some((connection, path)) = self.open(workspace, false)? else { return Ok(None) };
      self.find(&connection, &path, workspace, file)
    };
    let row = read().map_err(|error: LedgerError| error.to_string())?;
    Ok(row.map(|row| LedgerRow {
      hash: row.hash,
      class: row.class(),
      session_id: row.text("sessionId"),
      session_key: row.text("sessionKey"),
      observed_at:
        row.value.get("observedAt").and_then(Value::as_i64).map(|ms| ms.saturating_mul(1000)),
      json: row.json,
    }))
  }

  /// Has OpenClaw trust a file with this hash, if its row is still the one that a person was shown;
  /// `false` where it is not. OpenClaw does not support this.
  pub fn retrust(
    &self,
    workspace: &Path,
    file: &Path,
    shown: &LedgerRow,
    hash: ContentHash,
  ) -> Result<bool, String> {
    let change = || {
      let Some((mut connection, path)) = self.open(workspace, true)? else { return Ok(false) };
      let database = |error| LedgerError::Database { path: path.clone(), error };
      connection.busy_timeout(PATIENCE).map_err(database)?;
      let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
      let row = self.find(&transaction, &path, workspace, file)?;
      let Some(row) = row.filter(|row| row.json == shown.json) else { return Ok(false) };
      let changed = set(&transaction, row, hash, Some(TRUSTED)).map_err(database)?;
      transaction.commit().map_err(database)?;
      Ok(changed)
    };
    change().map_err(|error: LedgerError| error.to_string())
  }

  /// The row about a file, whichever path of its workspace OpenClaw knew it by: it takes the path without
  /// links, or the one that is configured where that did not exist yet.
  fn find(
    &self,
    connection: &Connection,
    path: &Path,
    workspace: &Path,
    file: &Path,
  ) -> Result<Option<Row>, LedgerError> {
    if let Some(row) = find(connection, path, workspace, file)? {
      return Ok(Some(row));
    }
    let agents = self.installations.iter().flat_map(|one| one.agents_of(workspace));
    for agent in agents.filter(|agent| agent.workspace != workspace) {
      if let Some(row) = find(connection, path, &agent.workspace, file)? {
        return Ok(Some(row));
      }
    }
    Ok(None)
  }

  fn standing_or(&self, workspace: &Path, file: &Path) -> Result<Standing, LedgerError> {
    let Some((connection, path)) = self.open(workspace, false)? else {
      return Ok(Standing::NoRecord);
    };
    let row = self.find(&connection, &path, workspace, file)?;
    Ok(
      row.map_or(Standing::NoRecord, |row| Standing::Recorded {
        hash: row.hash,
        class: row.class(),
      }),
    )
  }

  fn follow_or(
    &self,
    workspace: &Path,
    file: &Path,
    before: ContentHash,
    after: ContentHash,
    class: Option<&str>,
  ) -> Result<Followed, LedgerError> {
    let Some((mut connection, path)) = self.open(workspace, true)? else {
      return Ok(Followed::NotOurs);
    };
    let database = |error| LedgerError::Database { path: path.clone(), error };
    let transaction =
      connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(database)?;
    let Some(row) = self.find(&transaction, &path, workspace, file)? else {
      return Ok(Followed::NotOurs);
    };
    if row.hash != before {
      return Ok(Followed::NotOurs);
    }
    let changed = set(&transaction, row, after, class).map_err(database)?;
    transaction.commit().map_err(database)?;
    Ok(if changed { Followed::Yes } else { Followed::NotOurs })
  }
}

impl AgentRecords for OpenClawRecords {
  fn standing(&self, workspace: &Path, file: &Path) -> Standing {
    self
      .standing_or(workspace, file)
      .unwrap_or_else(|error| Standing::Unreadable(error.to_string()))
  }

  fn follow(
    &self,
    workspace: &Path,
    file: &Path,
    before: ContentHash,
    after: ContentHash,
    class: Option<&str>,
  ) -> Followed {
    self
      .follow_or(workspace, file, before, after, class)
      .unwrap_or_else(|error| Followed::Failed(error.to_string()))
  }

  fn classes(&self) -> Option<Classes> {
    Some(CLASSES)
  }

  fn attribute(&self, question: &Question<'_>) -> Answer {
    let database = self.layout_of(question.workspace).state_database(question.workspace);
    let Some(state_dir) = database.parent().and_then(Path::parent) else {
      return Answer::nothing_on_record(question);
    };
    let row = self.row(question.workspace, question.file);
    let layout = self.layout_of(question.workspace);
    let same = self.installations.iter().filter(|one| one.layout == *layout);
    let agents: Vec<_> = same.flat_map(|one| &one.agents).collect();
    let own = agents.iter().map(|agent| (agent.id.as_str(), agent.dir.as_path()));
    // Workspaces are named without links in what is asked.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let homes = agents.iter().map(|agent| (agent.id.clone(), real(&agent.workspace))).collect();
    attribute(question, row, &Stores::open_with(state_dir, own).with_homes(homes))
  }

  fn injection_limit(&self, workspace: &Path, file: &Path) -> Option<usize> {
    let agents = self.installations.iter().flat_map(|one| one.agents_of(workspace));
    // Agents that share a workspace read the same file.
    let limits = agents.map(|agent| agent.limits.left_for(workspace, file));
    limits.min().unwrap_or_else(|| Limits::default().left_for(workspace, file))
  }

  fn still_indexed(&self, workspace: &Path, file: &Path, texts: &[&[u8]]) -> Option<bool> {
    Index::any_holds(&self.installations, workspace, file, texts)
  }
}

/// Gives a row another hash, and perhaps another class; whether it was still there. The old text in the
/// condition makes this a compare-and-swap, whatever else a version of OpenClaw may put into a row.
fn set(
  connection: &Connection,
  mut row: Row,
  hash: ContentHash,
  class: Option<&str>,
) -> rusqlite::Result<bool> {
  if let Some(object) = row.value.as_object_mut() {
    object.insert("fileHash".to_owned(), Value::String(hash.to_hex()));
    if let Some(class) = class {
      object.insert("originClass".to_owned(), Value::String(class.to_owned()));
    }
  }
  let changed = connection.execute(
    "UPDATE plugin_state_entries SET value_json = ?1
     WHERE plugin_id = ?2 AND namespace = ?3 AND entry_key = ?4 AND value_json = ?5",
    (row.value.to_string(), PLUGIN, NAMESPACE, &row.key, &row.json),
  )?;
  Ok(changed == 1)
}

/// The row about `file`, if there is one. A database without the table is that of an OpenClaw that
/// keeps no file ledger.
fn find(
  connection: &Connection,
  path: &Path,
  workspace: &Path,
  file: &Path,
) -> Result<Option<Row>, LedgerError> {
  let database = |error| LedgerError::Database { path: path.to_owned(), error };
  let unknown = || LedgerError::UnknownForm { path: path.to_owned() };
  let columns: Vec<String> = connection
    .prepare("SELECT name FROM pragma_table_info('plugin_state_entries')")
    .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
    .map_err(database)?;
  if columns.is_empty() {
    let sql = "SELECT count(*) FROM sqlite_schema";
    let n_tables: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(database)?;
    return if n_tables > 0 { Ok(None) } else { Err(LedgerError::Empty { path: path.to_owned() }) };
  }
  if !["plugin_id", "namespace", "entry_key", "value_json"]
    .iter()
    .all(|name| columns.iter().any(|column| column == name))
  {
    return Err(unknown());
  }
  let Some(relative) = file.to_str() else { return Ok(None) };
  let key = workspace_key(workspace);
  // The key of an entry starts with the workspace's key, so this stays a search in the primary key.
  let entry = format!("{key}:{}", ContentHash::of(relative.as_bytes()).to_hex());
  let found = connection
    .query_row(
      "SELECT entry_key, value_json FROM plugin_state_entries
       WHERE plugin_id = ?1 AND namespace = ?2 AND (entry_key = ?3 OR
         (length(value_json) <= ?4 AND json_valid(value_json)
          AND value_json ->> '$.workspaceKey' = ?5 AND value_json ->> '$.relativePath' = ?6))
       LIMIT 1",
      (PLUGIN, NAMESPACE, &entry, MAX_ROW_BYTES as i64, &key, relative),
      |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    )
    .optional()
    .map_err(database)?;
  let Some((key, json)) = found else { return Ok(None) };
  let value: Value = serde_json::from_str(&json).map_err(|_error| unknown())?;
  if value.get("version").and_then(Value::as_i64) != Some(ROW_VERSION) {
    return Err(unknown());
  }
  let hash =
    value.get("fileHash").and_then(Value::as_str).and_then(hash_from_hex).ok_or_else(unknown)?;
  Ok(Some(Row { key, json, value, hash }))
}

/// OpenClaw names a workspace by the SHA-256 of its path.
fn workspace_key(workspace: &Path) -> String {
  use std::os::unix::ffi::OsStrExt as _;
  ContentHash::of(workspace.as_os_str().as_bytes()).to_hex()
}

fn hash_from_hex(text: &str) -> Option<ContentHash> {
  ContentHash::from_slice(&from_hex(text)?)
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
