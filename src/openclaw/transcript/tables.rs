//! The database of one agent: the tables and columns that this version of OpenClaw has.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, path::Path};

use super::database::{Database, DatabaseError};

pub(super) const EVENTS: &str = "transcript_events";
/// A short row for each event. A time in it is found without passing by the event's text.
pub(super) const IDENTITIES: &str = "transcript_event_identities";
/// Longest id, key, name.
pub(super) const MAX_NAME: usize = 512;

/// The columns of the tables that are read; empty where there is no such table.
#[derive(Debug)]
pub(super) struct Tables {
  pub(super) events: BTreeSet<String>,
  pub(super) identities: BTreeSet<String>,
  pub(super) windows: BTreeSet<String>,
  /// `session_windows`, before that `sessions`.
  pub(super) windows_name: &'static str,
  pub(super) nodes: BTreeSet<String>,
  /// `session_nodes`, before that `session_entries`.
  pub(super) nodes_name: &'static str,
  pub(super) conversations: BTreeSet<String>,
  pub(super) participants: BTreeSet<String>,
  pub(super) archives: BTreeSet<String>,
}

/// The transcripts of one agent.
pub(super) struct SqliteStore {
  pub(super) database: Database,
  pub(super) agent: String,
  pub(super) tables: Tables,
}

impl SqliteStore {
  /// Opens the database of `agent`; `None` where there is none, or none with transcripts.
  pub(super) fn open(path: &Path, agent: &str) -> Result<Option<Self>, DatabaseError> {
    let Some(database) = Database::open(path)? else { return Ok(None) };
    let first = |names: [&'static str; 2]| {
      for name in names {
        let columns = database.columns(name)?;
        if !columns.is_empty() {
          return Ok((name, columns));
        }
      }
      Ok::<_, DatabaseError>((names[0], BTreeSet::new()))
    };
    let (windows_name, windows) = first(["session_windows", "sessions"])?;
    let (nodes_name, nodes) = first(["session_nodes", "session_entries"])?;
    let tables = Tables {
      events: database.columns(EVENTS)?,
      identities: database.columns(IDENTITIES)?,
      windows,
      windows_name,
      nodes,
      nodes_name,
      conversations: database.columns("conversations")?,
      participants: database.columns("session_participants")?,
      archives: database.columns("session_transcript_cold_archives")?,
    };
    let has_any = !tables.events.is_empty() || !tables.windows.is_empty();
    if !has_any {
      database.check_not_empty()?;
    }
    Ok(has_any.then(|| Self { database, agent: agent.to_owned(), tables }))
  }

  /// The column of a node that names its session.
  pub(super) fn current(&self) -> &'static str {
    if self.tables.nodes_name == "session_nodes" { "current_session_id" } else { "session_id" }
  }
}

/// Whether a table has all of these columns.
pub(super) fn has(columns: &BTreeSet<String>, names: &[&str]) -> bool {
  names.iter().all(|name| columns.contains(*name))
}

/// The column where it exists, else nothing.
pub(super) fn column(columns: &BTreeSet<String>, name: &'static str) -> &'static str {
  if columns.contains(name) { name } else { "NULL" }
}
