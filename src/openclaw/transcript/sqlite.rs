//! Transcripts of 2026.8.1 and later: rows of one SQLite database per agent.
//!
//! `transcript_events` has one row an event, as JSON or compressed; `session_windows`, `session_nodes`,
//! `conversations` and `session_participants` say what a session is. All are asked by primary key or
//! index, a few rows at a time (a test holds the plans against the real schema). A table or a column
//! that is missing costs only its own content.
#![forbid(unsafe_code)]

use std::ops::ControlFlow;

use rusqlite::{Row, types::ValueRef};

use super::{
  database::{DatabaseError, text, whole},
  gather::Gather,
  model::{ReadResult, Record, Session, Window},
  parse::{self, MAX_EVENT},
  tables::{EVENTS, IDENTITIES, MAX_NAME, SqliteStore, column, has},
};
use crate::plural;

/// How many sessions around the start of a window, and how many of the latest, are looked at.
const MAX_SESSIONS: i64 = 512;
/// Most sessions in an answer.
const MAX_ACTIVE: usize = 128;
/// How long before its last event a session's own time stamp may lie, in milliseconds: that of a run
/// from a webhook stays at its start.
const STALE_MS: i64 = 6 * 3600 * 1000;
/// Events that are looked through one by one before the time is searched by halving.
const TAIL: i64 = 128;
/// Rows, and bytes after which no further row is read, of one statement.
const BATCH_ROWS: usize = 32;
const BATCH_BYTES: usize = 256 * 1024;
/// An event as it lies in the database.
struct Stored {
  seq: i64,
  at: Option<i64>,
  event: Result<Vec<u8>, String>,
}

impl SqliteStore {
  /// Sessions with records in `window`, each with the time of its last one.
  pub(super) fn active(&self, window: Window) -> ReadResult<Vec<(i64, Session)>> {
    let mut answer = ReadResult::default();
    if !has(&self.tables.events, &["session_id", "seq", "created_at"]) {
      answer
        .problems
        .push(format!("the transcripts of agent `{}` have an unknown form", self.agent));
      return answer;
    }
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
  pub(super) fn session(&self, id_or_key: &str) -> ReadResult<Option<Session>> {
    let mut answer = ReadResult::default();
    match self.find(id_or_key) {
      Ok(Some(id)) => answer.found = Some(self.describe(&id, &mut answer.problems)),
      Ok(None) => {}
      Err(error) => answer.problems.push(error.to_string()),
    }
    answer
  }

  /// Records of one session.
  pub(super) fn records(&self, id: &str, window: Window, limit: usize) -> ReadResult<Vec<Record>> {
    // The text of a row was moved there from an older store, or is noted in other columns.
    let mut gather = Gather::new(window, limit);
    let problem = self.gather(id, window, &mut gather).err().map(|error| error.to_string());
    let found = gather.finish();
    let mut problems: Vec<String> = problem.into_iter().collect();
    if found.is_empty() && problems.is_empty() && self.is_archived(id) {
      problems.push(format!("OpenClaw has archived the session `{id}`"));
    }
    ReadResult { found, problems }
  }

  fn gather(&self, id: &str, window: Window, gather: &mut Gather) -> Result<(), DatabaseError> {
    if !has(&self.tables.events, &["session_id", "seq"]) {
      return Ok(());
    }
    let Some(mut below) = self.last_until(id, window.to)? else { return Ok(()) };
    loop {
      let (rows, error) = self.rows(id, below);
      let lowest = rows.last().map(|row| row.seq);
      for row in rows {
        let event = row.event.as_deref().map_err(Clone::clone);
        if gather.take(row.seq, row.at, event) == ControlFlow::Break(()) {
          return Ok(());
        }
      }
      error.map_or(Ok(()), Err)?;
      let Some(next) = lowest.and_then(|lowest| lowest.checked_sub(1)) else { return Ok(()) };
      below = next;
    }
  }

  /// The next events at or below a number, latest first, and what ended them too early.
  fn rows(&self, id: &str, below: i64) -> (Vec<Stored>, Option<DatabaseError>) {
    let mut stored = Vec::new();
    let error = self.read_rows(id, below, &mut stored).err();
    (stored, error)
  }

  fn read_rows(&self, id: &str, below: i64, stored: &mut Vec<Stored>) -> Result<(), DatabaseError> {
    let mut statement = self.database.statement(&self.rows_sql())?;
    let failed = |error| self.database.failed(error);
    let mut rows =
      statement.query((id, below, MAX_EVENT as i64, BATCH_ROWS as i64)).map_err(failed)?;
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
    Ok(())
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
  fn probe(&self, table: &str, id: &str, below: i64) -> Result<Option<(i64, i64)>, DatabaseError> {
    let sql = format!(
      "SELECT seq, {} FROM {table} WHERE session_id = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1",
      column(&self.tables.events, "created_at"),
    );
    let read = |row: &Row<'_>| {
      let at = whole(row, 1)?.and_then(parse::micros).unwrap_or(i64::MIN);
      Ok(whole(row, 0)?.map(|seq| (seq, at)))
    };
    Ok(self.database.one(&sql, (id, below), read)?.flatten())
  }

  /// The table that has the times of all events of a session in the shortest rows.
  fn times(&self, id: &str, last: i64) -> Result<&'static str, DatabaseError> {
    let is_complete = has(&self.tables.identities, &["session_id", "seq", "created_at"])
      && self.probe(IDENTITIES, id, i64::MAX)?.is_some_and(|(seq, _)| seq == last);
    Ok(if is_complete { IDENTITIES } else { EVENTS })
  }

  /// The number of the last event that is not later than `to`.
  fn last_until(&self, id: &str, to: i64) -> Result<Option<i64>, DatabaseError> {
    let Some((last, at)) = self.probe(EVENTS, id, i64::MAX)? else { return Ok(None) };
    if at <= to {
      return Ok(Some(last));
    }
    let table = self.times(id, last)?;
    let tail = last.saturating_sub(TAIL);
    if let Some((seq, _)) = self.in_tail(table, id, (tail, last), (i64::MIN, to))? {
      return Ok(Some(seq));
    }
    // Numbers follow time closely enough further back: halve what is left.
    let sql = format!("SELECT seq FROM {table} WHERE session_id = ?1 ORDER BY seq LIMIT 1");
    let lowest = self.database.one(&sql, [id], |row| whole(row, 0))?.flatten();
    let (mut low, mut high, mut best) = (lowest.unwrap_or(0), tail, None);
    while low <= high {
      let middle = i64::midpoint(low, high);
      match self.probe(table, id, middle)? {
        Some((seq, at)) if at <= to => {
          best = Some(seq);
          low = middle.saturating_add(1);
        }
        Some((seq, _)) => high = seq.saturating_sub(1),
        None => low = middle.saturating_add(1),
      }
    }
    Ok(best)
  }

  /// The last of some events in a stretch of time, both with their ends.
  fn in_tail(
    &self,
    table: &str,
    id: &str,
    numbers: (i64, i64),
    times: (i64, i64),
  ) -> Result<Option<(i64, i64)>, DatabaseError> {
    let at = column(&self.tables.events, "created_at");
    let sql = format!(
      "SELECT seq, {at} FROM {table}
       WHERE session_id = ?1 AND seq BETWEEN ?2 AND ?3 AND {at} BETWEEN ?4 AND ?5
       ORDER BY seq DESC LIMIT 1",
    );
    // Both ends are times of events that may still count: the first upwards, the last downwards.
    let times = (times.0.saturating_add(999).div_euclid(1000), times.1.div_euclid(1000));
    let params = (id, numbers.0, numbers.1, times.0, times.1);
    let read = |row: &Row<'_>| Ok(whole(row, 0)?.zip(whole(row, 1)?.and_then(parse::micros)));
    Ok(self.database.one(&sql, params, read)?.flatten())
  }

  /// The time of a session's last event in a window.
  fn last_in(&self, id: &str, window: Window) -> Result<Option<i64>, DatabaseError> {
    let Some((last, at)) = self.probe(EVENTS, id, i64::MAX)? else { return Ok(None) };
    if (window.from..=window.to).contains(&at) {
      return Ok(Some(at));
    }
    // Numbers need not follow time to the letter.
    let numbers = (last.saturating_sub(TAIL), last);
    let table = self.times(id, last)?;
    if let Some((_, at)) = self.in_tail(table, id, numbers, (window.from, window.to))? {
      return Ok(Some(at));
    }
    if at < window.from {
      return Ok(None);
    }
    let Some(seq) = self.last_until(id, window.to)? else { return Ok(None) };
    Ok(self.probe(table, id, seq)?.map(|(_, at)| at).filter(|at| *at >= window.from))
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
    Some(length) => format!("it is {} long", plural::count(length.unsigned_abs(), "byte")),
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

#[cfg(test)]
mod tests {
  use super::*;
  use crate::openclaw::transcript::database::plan;

  /// Everything that is ever asked, by the plan that SQLite follows in the tables of 2026.9.6.
  #[test]
  fn no_statement_walks_through_a_table() {
    let path = concat!(
      env!("CARGO_MANIFEST_DIR"),
      "/fixtures/openclaw/2026.9.6/agents/main/agent/openclaw-agent.sqlite"
    );
    let path = std::fs::canonicalize(path).unwrap();
    let store = SqliteStore::open(&path, "main").unwrap().unwrap();
    let all = Window { from: 0, to: i64::MAX };
    let past = Window { from: 0, to: 1_795_231_178_000_000 };
    for window in [all, past] {
      for (_, session) in store.active(window).found {
        store.records(&session.id, window, 10);
        store.session(&session.key);
      }
    }
    store.records("nobody", all, 10);
    store.session("nobody");
    let (mut n, mut walks) = (0, Vec::new());
    for sql in store.database.asked() {
      for step in plan(&store.database, &sql) {
        n += 1;
        // The list of tables is short and bounded; an index that is walked in order has a limit.
        let is_fine = step.starts_with("SEARCH")
          || step.starts_with("SCAN sqlite_schema")
          || step.starts_with("SCAN pragma_table_xinfo VIRTUAL TABLE")
          || step.starts_with("CO-ROUTINE")
          || step == "SCAN (subquery-1)"
          || step == "SCAN session_windows USING INDEX idx_agent_session_windows_updated_at";
        if !is_fine {
          walks.push(format!("{step}: {sql}"));
        }
      }
    }
    assert!(n > 15, "{n}");
    assert_eq!(walks, [""; 0]);
  }
}
