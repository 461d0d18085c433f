//! Transcripts of 2026.8.1 and later: rows of one SQLite database per agent.
//!
//! `transcript_events` has one row an event, as JSON or compressed; `session_windows`, `session_nodes`,
//! `conversations` and `session_participants` say what a session is. All are asked by primary key or
//! index, a few rows at a time (a test holds the plans against the real schema). A table or a column
//! that is missing costs what stands in it and no more.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, ops::ControlFlow, path::Path};

use rusqlite::{Row, types::ValueRef};

use super::{
  database::{Database, DatabaseError, text, whole},
  entry::Entry,
  gather::Gather,
  model::{Found, Record, Session, Window},
  parse::{self, Blocks, MAX_EVENT},
};

/// How many sessions around the start of a window, and how many of the latest, are looked at.
const MAX_SESSIONS: i64 = 512;
/// Most sessions in an answer.
const MAX_ACTIVE: usize = 128;
/// How long before its last event a session's own time stamp may lie, in milliseconds: that of a run
/// from a webhook stays at its start.
const STALE_MS: i64 = 6 * 3600 * 1000;
/// Events that are looked through one by one before the time is searched by halving.
const TAIL: i64 = 1024;
/// Rows, and bytes after which no further row is read, of one statement.
const BATCH_ROWS: usize = 32;
const BATCH_BYTES: usize = 256 * 1024;
/// Longest id, key, name.
const MAX_NAME: usize = 512;
/// Longest description of a session that is looked into.
const MAX_ENTRY: i64 = 512 * 1024;
/// Most participants of a session.
const MAX_PARTICIPANTS: i64 = 16;

/// The columns of the tables that are read; empty where there is no such table.
#[derive(Debug)]
struct Tables {
  events: BTreeSet<String>,
  windows: BTreeSet<String>,
  /// `session_windows`, before schema 16 `sessions`.
  windows_name: &'static str,
  nodes: BTreeSet<String>,
  /// `session_nodes`, before `session_entries`.
  nodes_name: &'static str,
  conversations: BTreeSet<String>,
  participants: BTreeSet<String>,
  archives: BTreeSet<String>,
}

/// The transcripts of one agent.
pub(super) struct SqliteStore {
  database: Database,
  agent: String,
  tables: Tables,
}

/// An event as it lies in the database.
struct Stored {
  seq: i64,
  at: Option<i64>,
  event: Result<Vec<u8>, String>,
}

/// A session, and what is only needed to find its other rows.
struct Known {
  session: Session,
  conversation: Option<String>,
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
      events: database.columns("transcript_events")?,
      windows,
      windows_name,
      nodes,
      nodes_name,
      conversations: database.columns("conversations")?,
      participants: database.columns("session_participants")?,
      archives: database.columns("session_transcript_cold_archives")?,
    };
    let has_any = !tables.events.is_empty() || !tables.windows.is_empty();
    Ok(has_any.then(|| Self { database, agent: agent.to_owned(), tables }))
  }

  /// Sessions with records in `window`, each with the time of its last one.
  pub(super) fn active(&self, window: Window) -> Found<Vec<(i64, Session)>> {
    let mut answer = Found::default();
    let candidates = match self.candidates(window) {
      Ok(candidates) => candidates,
      Err(error) => {
        answer.problems.push(error.to_string());
        return answer;
      }
    };
    for id in candidates {
      if answer.found.len() >= MAX_ACTIVE {
        answer.problems.push(format!("more than {MAX_ACTIVE} sessions were active at once"));
        break;
      }
      match self.last_in(&id, window) {
        Ok(Some(last)) => {
          let session = self.describe(&id, &mut answer.problems);
          answer.found.push((last, session));
        }
        Ok(None) => {}
        Err(error) => answer.problems.push(error.to_string()),
      }
    }
    answer
  }

  /// One session by id or key.
  pub(super) fn session(&self, id_or_key: &str) -> Found<Option<Session>> {
    let mut answer = Found::default();
    match self.find(id_or_key) {
      Ok(Some(id)) => answer.found = Some(self.describe(&id, &mut answer.problems)),
      Ok(None) => {}
      Err(error) => answer.problems.push(error.to_string()),
    }
    answer
  }

  /// Records of one session.
  pub(super) fn records(&self, id: &str, window: Window, limit: usize) -> Found<Vec<Record>> {
    // What is in the text of a row was moved there from an older store, or is noted apart.
    let mut gather = Gather::new(window, limit, Blocks::ProveNothing);
    let problem = self.gather(id, window, &mut gather).err().map(|error| error.to_string());
    let found = gather.finish();
    let mut problems: Vec<String> = problem.into_iter().collect();
    if found.is_empty() && problems.is_empty() && self.is_archived(id) {
      problems.push(format!("OpenClaw has put the session `{id}` away"));
    }
    Found { found, problems }
  }

  fn gather(&self, id: &str, window: Window, gather: &mut Gather) -> Result<(), DatabaseError> {
    if !has(&self.tables.events, &["session_id", "seq"]) {
      return Ok(());
    }
    let Some(mut below) = self.last_until(id, window.to)? else { return Ok(()) };
    loop {
      let rows = self.rows(id, below)?;
      let Some(lowest) = rows.last().map(|row| row.seq) else { return Ok(()) };
      for row in rows {
        let event = row.event.as_deref().map_err(Clone::clone);
        if gather.take(row.seq, row.at, event) == ControlFlow::Break(()) {
          return Ok(());
        }
      }
      let Some(next) = lowest.checked_sub(1) else { return Ok(()) };
      below = next;
    }
  }

  /// The next events at or below a number, latest first.
  fn rows(&self, id: &str, below: i64) -> Result<Vec<Stored>, DatabaseError> {
    let sql = self.rows_sql();
    let mut statement = self.database.statement(&sql)?;
    let failed = |error| self.database.failed(error);
    let mut rows =
      statement.query((id, below, MAX_EVENT as i64, BATCH_ROWS as i64)).map_err(failed)?;
    let mut stored: Vec<Stored> = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH_BYTES {
      let Some(row) = rows.next().map_err(failed)? else { break };
      let Some(seq) = whole(row, 0).map_err(failed)? else { continue };
      // Rows in an order that no index has are those of a damaged database.
      if stored.last().is_some_and(|last| last.seq <= seq) || seq > below {
        break;
      }
      let at = whole(row, 1).map_err(failed)?.and_then(parse::micros);
      let event = body(row).map_err(failed)?;
      bytes += event.as_ref().map_or(64, Vec::len);
      stored.push(Stored { seq, at, event });
    }
    Ok(stored)
  }

  fn rows_sql(&self) -> String {
    let column = |name| column(&self.tables.events, name);
    let (at, json, zstd) = (column("created_at"), column("event_json"), column("event_zstd"));
    format!(
      "SELECT seq, {at}, CASE WHEN octet_length({json}) <= ?3 THEN {json} END,
         CASE WHEN octet_length({zstd}) <= ?3 THEN {zstd} END,
         octet_length({json}), octet_length({zstd}), {}
       FROM transcript_events WHERE session_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT ?4",
      column("event_utf8_bytes"),
    )
  }

  /// Number and time of the event at or below a number.
  fn probe(&self, id: &str, below: i64) -> Result<Option<(i64, i64)>, DatabaseError> {
    let found = self.database.one(&self.probe_sql(), (id, below), |row| {
      Ok(whole(row, 0)?.zip(Some(whole(row, 1)?.and_then(parse::micros).unwrap_or(i64::MIN))))
    })?;
    Ok(found.flatten())
  }

  fn probe_sql(&self) -> String {
    format!(
      "SELECT seq, {} FROM transcript_events
       WHERE session_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1",
      column(&self.tables.events, "created_at"),
    )
  }

  fn tail_sql(&self) -> String {
    let at = column(&self.tables.events, "created_at");
    format!(
      "SELECT seq, {at} FROM transcript_events
       WHERE session_id = ?1 AND seq BETWEEN ?2 AND ?3 AND {at} BETWEEN ?4 AND ?5
       ORDER BY seq DESC LIMIT 1",
    )
  }

  /// The number of the last event that is not later than `to`.
  fn last_until(&self, id: &str, to: i64) -> Result<Option<i64>, DatabaseError> {
    let Some((last, at)) = self.probe(id, i64::MAX)? else { return Ok(None) };
    if at <= to {
      return Ok(Some(last));
    }
    let tail = last.saturating_sub(TAIL);
    if let Some((seq, _)) = self.in_tail(id, (tail, last), (i64::MIN, to))? {
      return Ok(Some(seq));
    }
    // Numbers follow time closely enough further back: halve what is left.
    let (mut low, mut high, mut best) = (i64::MIN, tail, None);
    if self.probe(id, tail)?.is_none_or(|(_, at)| at <= to) {
      return Ok(Some(tail));
    }
    let lowest = self.lowest(id)?;
    low = low.max(lowest.unwrap_or(0));
    while low <= high {
      let middle = low + (high - low) / 2;
      match self.probe(id, middle)? {
        Some((seq, at)) if at <= to => {
          best = Some(seq);
          low = middle + 1;
        }
        Some((seq, _)) => high = seq - 1,
        None => low = middle + 1,
      }
    }
    Ok(best)
  }

  fn lowest(&self, id: &str) -> Result<Option<i64>, DatabaseError> {
    let sql = "SELECT seq FROM transcript_events WHERE session_id = ?1 ORDER BY seq LIMIT 1";
    Ok(self.database.one(sql, [id], |row| whole(row, 0))?.flatten())
  }

  fn in_tail(
    &self,
    id: &str,
    numbers: (i64, i64),
    times: (i64, i64),
  ) -> Result<Option<(i64, i64)>, DatabaseError> {
    // Both ends are times of events that may still count: the first upwards, the last downwards.
    let times = (times.0.saturating_add(999).div_euclid(1000), times.1.div_euclid(1000));
    let params = (id, numbers.0, numbers.1, times.0, times.1);
    let read = |row: &Row<'_>| Ok(whole(row, 0)?.zip(whole(row, 1)?.and_then(parse::micros)));
    Ok(self.database.one(&self.tail_sql(), params, read)?.flatten())
  }

  /// The time of a session's last event in a window.
  fn last_in(&self, id: &str, window: Window) -> Result<Option<i64>, DatabaseError> {
    if !has(&self.tables.events, &["session_id", "seq", "created_at"]) {
      return Ok(None);
    }
    let Some((last, at)) = self.probe(id, i64::MAX)? else { return Ok(None) };
    if at <= window.to && at >= window.from {
      return Ok(Some(at));
    }
    let numbers = (last.saturating_sub(TAIL), last);
    if let Some((_, at)) = self.in_tail(id, numbers, (window.from, window.to))? {
      return Ok(Some(at));
    }
    let Some(seq) = self.last_until(id, window.to)? else { return Ok(None) };
    Ok(self.probe(id, seq)?.map(|(_, at)| at).filter(|at| *at >= window.from))
  }

  /// Ids of sessions that may have records in a window, the latest first.
  fn candidates(&self, window: Window) -> Result<Vec<String>, DatabaseError> {
    let from = window.from.div_euclid(1000);
    let mut ids: Vec<String> = Vec::new();
    let id = |row: &Row<'_>| text(row, 0, MAX_NAME);
    let mut add = |found: Vec<Option<String>>| {
      for id in found.into_iter().flatten() {
        if !ids.contains(&id) {
          ids.push(id);
        }
      }
    };
    if has(&self.tables.windows, &["session_id", "updated_at"]) {
      let (latest, around) = self.candidates_sql();
      add(self.database.all(&latest, (from, window.to.div_euclid(1000)), id)?);
      let around_from = from.saturating_sub(STALE_MS);
      add(self.database.all(&around, (from, window.to.div_euclid(1000), around_from), id)?);
    }
    let current = self.current();
    if has(&self.tables.nodes, &[current, "updated_at"]) && self.tables.windows.is_empty() {
      let sql = format!(
        "SELECT {current} FROM {} ORDER BY updated_at DESC LIMIT {MAX_SESSIONS}",
        self.tables.nodes_name
      );
      add(self.database.all(&sql, [], id)?);
    }
    Ok(ids)
  }

  /// The latest sessions, and those around the start of a window, of each those that the stamps of
  /// their transcripts do not rule out.
  fn candidates_sql(&self) -> (String, String) {
    let column = |name| column(&self.tables.windows, name);
    let (transcript, created) = (column("transcript_updated_at"), column("created_at"));
    let table = self.tables.windows_name;
    let sql = |condition: &str, order: &str| {
      format!(
        "SELECT id FROM (SELECT session_id AS id, {transcript} AS written, {created} AS created
           FROM {table} {condition} ORDER BY updated_at {order} LIMIT {MAX_SESSIONS})
         WHERE (written IS NULL OR written >= ?1) AND (created IS NULL OR created <= ?2)"
      )
    };
    (sql("", "DESC"), sql("WHERE updated_at >= ?3", "ASC"))
  }

  /// The column of a node that names its session.
  fn current(&self) -> &'static str {
    if self.tables.nodes_name == "session_nodes" { "current_session_id" } else { "session_id" }
  }

  /// The id of a session by its id or key.
  fn find(&self, id_or_key: &str) -> Result<Option<String>, DatabaseError> {
    let id = |row: &Row<'_>| text(row, 0, MAX_NAME);
    let ask =
      |sql: &str| Ok::<_, DatabaseError>(self.database.one(sql, [id_or_key], id)?.flatten());
    let (windows, nodes) = (self.tables.windows_name, self.tables.nodes_name);
    if has(&self.tables.windows, &["session_id"])
      && let Some(id) = ask(&format!("SELECT session_id FROM {windows} WHERE session_id = ?1"))?
    {
      return Ok(Some(id));
    }
    if has(&self.tables.nodes, &["session_key", self.current()])
      && let Some(id) =
        ask(&format!("SELECT {} FROM {nodes} WHERE session_key = ?1", self.current()))?
    {
      return Ok(Some(id));
    }
    if has(&self.tables.windows, &["session_id", "session_key", "updated_at"])
      && let Some(id) = ask(&format!(
        "SELECT session_id FROM {windows} WHERE session_key = ?1 ORDER BY updated_at DESC LIMIT 1"
      ))?
    {
      return Ok(Some(id));
    }
    if has(&self.tables.events, &["session_id", "seq"]) {
      return ask("SELECT session_id FROM transcript_events WHERE session_id = ?1 LIMIT 1");
    }
    Ok(None)
  }

  /// What the tables say about a session; what one of them does not say stays empty.
  fn describe(&self, id: &str, problems: &mut Vec<String>) -> Session {
    let session = Session { id: id.to_owned(), agent: self.agent.clone(), ..Session::default() };
    let mut known = Known { session, conversation: None };
    for read in
      [Self::read_window, Self::read_node, Self::read_conversation, Self::read_participants]
    {
      if let Err(error) = read(self, &mut known) {
        problems.push(error.to_string());
      }
    }
    known.session
  }

  fn read_window(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.windows;
    if !has(columns, &["session_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT {}, {}, {}, {}, {}, {}, {} FROM {} WHERE session_id = ?1",
      column(columns, "session_key"),
      column(columns, "channel"),
      column(columns, "chat_type"),
      column(columns, "hook_external_content_source"),
      column(columns, "primary_conversation_id"),
      column(columns, "spawned_by"),
      column(columns, "parent_session_key"),
      self.tables.windows_name,
    );
    let found = self.database.one(&sql, [&known.session.id], |row| {
      let column = |at| text(row, at, MAX_NAME);
      Ok([column(0)?, column(1)?, column(2)?, column(3)?, column(4)?, column(5)?, column(6)?])
    })?;
    let Some([key, channel, chat_type, hook, conversation, spawned_by, parent]) = found else {
      return Ok(());
    };
    let session = &mut known.session;
    session.key = key.unwrap_or_default();
    session.channel = channel;
    session.chat_type = chat_type;
    session.hook_source = hook;
    session.parent_key = spawned_by.or(parent);
    known.conversation = conversation;
    Ok(())
  }

  fn read_node(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.nodes;
    let by_key = has(columns, &["session_key"]) && !known.session.key.is_empty();
    if !by_key && !has(columns, &[self.current()]) {
      return Ok(());
    }
    let entry = column(columns, "entry_json");
    let sql = format!(
      "SELECT {}, {}, {}, {}, CASE WHEN octet_length({entry}) <= {MAX_ENTRY} THEN {entry} END
       FROM {} WHERE {} = ?1 LIMIT 1",
      column(columns, "session_key"),
      column(columns, "created_via"),
      column(columns, "spawned_by"),
      column(columns, "parent_session_key"),
      self.tables.nodes_name,
      if by_key { "session_key" } else { self.current() },
    );
    let asked = if by_key { &known.session.key } else { &known.session.id };
    let found = self.database.one(&sql, [asked], |row| {
      let column = |at| text(row, at, MAX_NAME);
      let entry = text(row, 4, MAX_ENTRY as usize)?;
      Ok(([column(0)?, column(1)?, column(2)?, column(3)?], entry))
    })?;
    let Some(([key, via, spawned_by, parent], entry)) = found else { return Ok(()) };
    let entry = entry.and_then(|entry| Entry::parse(&entry)).unwrap_or_default();
    let session = &mut known.session;
    if session.key.is_empty() {
      session.key = key.unwrap_or_default();
    }
    session.created_via = via;
    session.parent_key = session.parent_key.take().or(spawned_by).or(parent);
    entry.complete(session);
    Ok(())
  }

  fn read_conversation(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.conversations;
    let Some(id) = &known.conversation else { return Ok(()) };
    if !has(columns, &["conversation_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT {}, {}, {} FROM conversations WHERE conversation_id = ?1",
      column(columns, "channel"),
      column(columns, "kind"),
      column(columns, "peer_id"),
    );
    let found = self.database.one(&sql, [id], |row| {
      let column = |at| text(row, at, MAX_NAME);
      Ok([column(0)?, column(1)?, column(2)?])
    })?;
    let Some([channel, kind, peer]) = found else { return Ok(()) };
    let session = &mut known.session;
    session.channel = session.channel.take().or(channel);
    session.chat_type = session.chat_type.take().or(kind);
    session.peer = peer.or_else(|| session.peer.take());
    Ok(())
  }

  fn read_participants(&self, known: &mut Known) -> Result<(), DatabaseError> {
    if !has(&self.tables.participants, &["session_key", "actor_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT actor_id FROM session_participants WHERE session_key = ?1 LIMIT {MAX_PARTICIPANTS}"
    );
    let found = self.database.all(&sql, [&known.session.key], |row| text(row, 0, MAX_NAME))?;
    known.session.participants = found.into_iter().flatten().collect();
    Ok(())
  }

  fn is_archived(&self, id: &str) -> bool {
    let sql = "SELECT 1 FROM session_transcript_cold_archives WHERE session_id = ?1 LIMIT 1";
    has(&self.tables.archives, &["session_id"])
      && self.database.one(sql, [id], |row| whole(row, 0)).is_ok_and(|found| found.is_some())
  }
}

/// The bytes of an event, decompressed, or why there are none.
fn body(row: &Row<'_>) -> rusqlite::Result<Result<Vec<u8>, String>> {
  let bytes = |column| {
    Ok::<_, rusqlite::Error>(match row.get_ref(column)? {
      ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
      _ => None,
    })
  };
  if let Some(json) = bytes(2)? {
    return Ok(Ok(json.to_vec()));
  }
  if let Some(compressed) = bytes(3)? {
    let declared = whole(row, 6)?.and_then(|n| usize::try_from(n).ok());
    return Ok(decompress(compressed, declared));
  }
  let length = whole(row, 4)?.or(whole(row, 5)?);
  Ok(Err(match length {
    Some(length) => format!("it is {length} bytes long"),
    None => "it is empty".to_owned(),
  }))
}

/// Never more than the length that OpenClaw noted, and never more than [`MAX_EVENT`].
fn decompress(compressed: &[u8], declared: Option<usize>) -> Result<Vec<u8>, String> {
  if declared.is_some_and(|declared| declared > MAX_EVENT) {
    return Err("it is said to be longer than four megabytes".to_owned());
  }
  let event = zstd::bulk::decompress(compressed, declared.unwrap_or(MAX_EVENT))
    .map_err(|_error| "its compressed form is damaged".to_owned())?;
  if declared.is_some_and(|declared| declared != event.len()) {
    return Err("it does not have the length that was noted".to_owned());
  }
  Ok(event)
}

fn has(columns: &BTreeSet<String>, names: &[&str]) -> bool {
  names.iter().all(|name| columns.contains(*name))
}

/// The column where it exists, else nothing.
fn column(columns: &BTreeSet<String>, name: &'static str) -> &'static str {
  if columns.contains(name) { name } else { "NULL" }
}
