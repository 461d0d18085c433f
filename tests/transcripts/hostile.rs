//! Databases and files that were made to harm their reader.

use std::{
  fmt::Write as _,
  fs,
  os::unix::fs::symlink,
  path::{Path, PathBuf},
  time::Instant,
};

use memfw::openclaw::transcript::{Message, ReadResult, Record, Sessions, Stores, Window};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::json;

use super::{ALL, fixture};

const MAIN: &str = "315857cc-1b16-46b9-ba03-f8fd22524341";

/// A state directory with the files of OpenClaw 2026.9.6.
struct State {
  dir: tempfile::TempDir,
}

impl State {
  fn new() -> Self {
    let state = Self::empty();
    fs::copy(fixture("2026.9.6").join("agents/main/agent/openclaw-agent.sqlite"), state.database())
      .unwrap();
    state
  }

  fn empty() -> Self {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("agents/main/agent")).unwrap();
    fs::create_dir_all(dir.path().join("agents/main/sessions")).unwrap();
    Self { dir }
  }

  fn database(&self) -> PathBuf {
    self.dir.path().join("agents/main/agent/openclaw-agent.sqlite")
  }

  fn jsonl(&self, id: &str) -> PathBuf {
    self.dir.path().join(format!("agents/main/sessions/{id}.jsonl"))
  }

  /// Changes the database as its owner could.
  fn sql(&self, sql: &str) -> &Self {
    let connection = Connection::open(self.database()).unwrap();
    connection
      .execute_batch(&format!(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; {sql}"
      ))
      .unwrap();
    self
  }

  fn stores(&self) -> Stores {
    Stores::open(self.dir.path())
  }

  fn records(&self, id: &str) -> ReadResult<Vec<Record>> {
    self.stores().records(id, ALL, 1000)
  }

  /// Asks every question; the test checks that there is an answer, and the time that it took.
  fn ask_everything(&self) -> usize {
    let stores = self.stores();
    let window = Window { from: 1_795_231_178_000_000, to: 1_795_231_179_000_000 };
    let mut n = 0;
    for window in [ALL, window] {
      let active = stores.active(window);
      n += active.problems.len();
      for session in active.found.iter().map(|session| session.id.as_str()).chain([MAIN]) {
        let records = stores.records(session, window, 1000);
        n += records.problems.len() + records.found.len();
      }
    }
    stores.session("agent:main:main");
    n
  }
}

fn unread(records: &[Record]) -> usize {
  records.iter().filter(|record| matches!(record.message, Message::Unread { .. })).count()
}

#[test]
fn a_bomb_and_damaged_rows_are_gaps_and_the_rest_is_read() {
  let state = State::new();
  let whole = state.records(MAIN).found;
  let bomb = zstd::bulk::compress(&vec![b'['; 400 * 1024 * 1024], 1).unwrap();
  assert!(bomb.len() < 100_000);
  let connection = Connection::open(state.database()).unwrap();
  connection.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
  for declared in [bomb.len() as i64, 4_194_304, 400 * 1024 * 1024, -1] {
    connection
      .execute(
        "UPDATE transcript_events SET event_json = NULL, event_zstd = ?1, event_utf8_bytes = ?2
         WHERE session_id = ?3 AND seq = 17",
        (&bomb, declared, MAIN),
      )
      .unwrap();
    let read = state.records(MAIN);
    assert_eq!(read.problems, [""; 0]);
    assert_eq!((read.found.len(), unread(&read.found)), (whole.len(), 1), "{declared}");
  }
  state.sql("UPDATE transcript_events SET event_zstd = x'28b52ffd' WHERE seq = 17");
  state.sql("UPDATE transcript_events SET event_json = '{\"type\":' WHERE seq = 5");
  state.sql(&format!(
    "UPDATE transcript_events SET event_json = '{{\"type\":\"message\",\"x\":\"' || hex(zeroblob(3000000)) || '\"}}'
     WHERE seq = 6 AND session_id = '{MAIN}'"
  ));
  let read = state.records(MAIN).found;
  assert_eq!((read.len(), unread(&read)), (whole.len(), 3));
  let kept: Vec<&Record> =
    read.iter().filter(|record| !matches!(record.message, Message::Unread { .. })).collect();
  assert!(kept.iter().all(|record| whole.contains(record)));
}

#[test]
fn missing_tables_and_columns_cost_what_was_in_them() {
  let whole = State::new().records(MAIN).found;
  for sql in [
    "DROP TABLE session_windows",
    "DROP TABLE session_nodes",
    "DROP TABLE conversations",
    "DROP TABLE session_participants",
    "DROP TABLE session_nodes; DROP TABLE session_windows; DROP TABLE session_participants",
    "ALTER TABLE session_windows DROP COLUMN transcript_updated_at",
    "ALTER TABLE session_windows DROP COLUMN hook_external_content_source",
    "ALTER TABLE session_windows DROP COLUMN channel",
    "ALTER TABLE session_nodes DROP COLUMN created_via",
    "ALTER TABLE session_windows RENAME TO sessions",
    "ALTER TABLE transcript_events ADD COLUMN more TEXT",
    "DROP INDEX idx_agent_session_windows_updated_at",
  ] {
    let state = State::new();
    state.sql(sql);
    let read = state.records(MAIN);
    assert_eq!((read.found, read.problems), (whole.clone(), vec![]), "{sql}");
    let found = state.stores().session(MAIN);
    assert_eq!((found.found.unwrap().id, found.problems), (MAIN.to_owned(), vec![]), "{sql}");
    let active = state.stores().active(ALL);
    let is_left = !sql.contains("DROP TABLE session_nodes; DROP");
    assert_eq!((active.found.is_empty(), active.problems), (!is_left, vec![]), "{sql}");
  }
  let state = State::new();
  state.sql(
    "CREATE TABLE bare (session_id TEXT, seq INTEGER, event_json TEXT, PRIMARY KEY (session_id, seq));
     INSERT INTO bare SELECT session_id, seq, event_json FROM transcript_events;
     DROP TABLE transcript_events; ALTER TABLE bare RENAME TO transcript_events",
  );
  let read = state.records(MAIN).found;
  assert_eq!((read.len(), unread(&read)), (whole.len(), 1), "only the compressed row is lost");
  assert_eq!(state.stores().active(ALL).problems.len(), 1);
}

#[test]
fn what_pretends_to_be_a_table_is_not_asked() {
  for sql in [
    // A view without an end.
    "DROP TABLE transcript_events; CREATE VIEW transcript_events AS WITH RECURSIVE n(seq) AS
     (SELECT 1 UNION ALL SELECT seq + 1 FROM n)
     SELECT 'x' AS session_id, seq, '{}' AS event_json, 0 AS created_at FROM n",
    // Columns that are computed, each of much memory.
    "DROP TABLE transcript_events; CREATE TABLE transcript_events (session_id TEXT, seq INTEGER,
     created_at INTEGER, event_json TEXT AS (hex(zeroblob(400000000))) VIRTUAL,
     PRIMARY KEY (session_id, seq));
     INSERT INTO transcript_events VALUES ('315857cc-1b16-46b9-ba03-f8fd22524341', 1, 1)",
    "DROP TABLE session_windows; CREATE VIRTUAL TABLE session_windows USING fts5(session_id, updated_at)",
    // No index, and many rows of others.
    "DROP TABLE transcript_events; CREATE TABLE transcript_events (session_id, seq, created_at, event_json);
     INSERT INTO transcript_events WITH RECURSIVE n(seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n
     LIMIT 300000) SELECT 'x', seq, seq, '{}' FROM n",
    // Invalid types.
    "CREATE TABLE loose (session_id, seq, created_at, event_json, event_zstd, event_utf8_bytes,
     PRIMARY KEY (session_id, seq));
     INSERT INTO loose VALUES ('315857cc-1b16-46b9-ba03-f8fd22524341', 'a', x'00', 1.5, 'b', 'c'),
     ('315857cc-1b16-46b9-ba03-f8fd22524341', 9.5, -1, x'ff', NULL, NULL),
     ('315857cc-1b16-46b9-ba03-f8fd22524341', -9223372036854775808, 9223372036854775807, '{}', NULL, NULL),
     ('315857cc-1b16-46b9-ba03-f8fd22524341', 9223372036854775807, 'now', '[]', 1, 1);
     DROP TABLE transcript_events; ALTER TABLE loose RENAME TO transcript_events",
    // Sessions that are their own parents.
    "UPDATE session_windows SET spawned_by = session_key, parent_session_key = session_key",
    "UPDATE session_nodes SET spawned_by = session_key, entry_json = '{\"spawnedBy\":[[[1]]],\"origin\":{}}'",
  ] {
    let state = State::new();
    state.sql(sql);
    let started = Instant::now();
    state.ask_everything();
    // A bound on steps, not on time; this one is for a machine that is busy otherwise.
    assert!(started.elapsed().as_secs() < 10, "{sql}");
  }
}

#[test]
fn a_schema_without_end_is_refused() {
  let state = State::empty();
  let tables: Vec<String> = (0..6000).map(|n| format!("CREATE TABLE t{n} (a);")).collect();
  let tables = tables.concat();
  state.sql(&format!("BEGIN; {tables} COMMIT"));
  let read = state.records(MAIN);
  assert_eq!((read.found.len(), read.problems.len()), (0, 1), "{:?}", read.problems);
}

#[test]
fn ten_thousand_other_events_and_sessions_do_not_hide_a_moment() {
  let state = State::new();
  let quiet = State::new();
  let event = json!({"type": "message", "timestamp": "2026-11-21T04:00:00Z", "message": {"role": "assistant",
    "content": "x".repeat(300)}});
  state.sql(&format!(
    "INSERT INTO transcript_events (session_id, seq, created_at, event_json)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000)
     SELECT '{MAIN}', 1000 + i * 3, 1795240000000 + i, '{event}' FROM n;
     INSERT INTO session_windows (session_id, session_key, created_at, updated_at, transcript_updated_at)
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)
     SELECT 's' || i, 'k' || i, 1795230000000 + i, 1795300000000 + i, 1795300000000 + i FROM n;
     UPDATE session_windows SET updated_at = 1795240010000, transcript_updated_at = 1795240010000
     WHERE session_id = '{MAIN}'"
  ));
  let window = Window { from: 1_795_231_178_000_000, to: 1_795_231_179_000_000 };
  let active = state.stores().active(window);
  assert_eq!(active.found, quiet.stores().active(window).found);
  let read = state.stores().records(MAIN, window, 100);
  assert_eq!(read, quiet.stores().records(MAIN, window, 100));
  assert!(!read.found.is_empty());
}

#[test]
fn a_busy_writer_is_neither_waited_for_nor_held_up() {
  let state = State::new();
  let writer = Connection::open(state.database()).unwrap();
  writer.pragma_update(None, "journal_mode", "WAL").unwrap();
  writer.execute_batch("BEGIN IMMEDIATE; UPDATE session_windows SET updated_at = 1").unwrap();
  let stores = state.stores();
  assert_eq!(stores.active(ALL).found.len(), 5);
  // The reader is still there, and the writer is not blocked: its log can even be emptied.
  writer.execute_batch("COMMIT").unwrap();
  let busy: i64 =
    writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
  assert_eq!(busy, 0);
  drop(writer);
  drop(stores);
  let names = |state: &State| fs::read_dir(state.database().parent().unwrap()).unwrap().count();
  let before = names(&state);
  state.ask_everything();
  assert_eq!(names(&state), before);
}

#[test]
fn a_database_at_rest_gets_no_log_beside_it() {
  let state = State::new();
  state.sql("PRAGMA journal_mode = WAL; UPDATE session_windows SET ended_at = 1");
  let names = || fs::read_dir(state.database().parent().unwrap()).unwrap().count();
  assert_eq!(names(), 1);
  let stores = state.stores();
  assert_eq!(stores.active(ALL).found.len(), 5);
  assert_eq!(names(), 1);
}

#[test]
fn an_agent_whose_directory_is_elsewhere_is_asked_too() {
  let (state, other) = (State::empty(), State::new());
  let own = other.database().parent().unwrap().to_owned();
  let agents = [("far", own.as_path()), ("again", own.as_path()), ("none", Path::new("/none"))];
  let active = Stores::open_with(state.dir.path(), agents).active(ALL);
  assert_eq!((active.found.len(), active.problems.len()), (5, 0));
  assert!(active.found.iter().all(|session| session.agent == "far"));
  // A directory below the state directory is not read twice.
  assert_eq!(Stores::open_with(other.dir.path(), agents).active(ALL).found.len(), 5);
}

#[test]
fn links_pipes_and_directories_are_not_opened() {
  let state = State::new();
  let real = state.dir.path().join("elsewhere.sqlite");
  fs::rename(state.database(), &real).unwrap();
  symlink(&real, state.database()).unwrap();
  let read = state.records(MAIN);
  assert_eq!((read.found.len(), read.problems.len()), (0, 1));
  fs::remove_file(state.database()).unwrap();
  make_pipe(&state.database());
  make_pipe(&state.jsonl("pipe"));
  symlink(fixture("2026.7.1-2/agents/main/sessions"), state.dir.path().join("agents/other"))
    .unwrap();
  symlink("/etc/passwd", state.jsonl("link")).unwrap();
  fs::create_dir(state.jsonl("dir")).unwrap();
  let stores = state.stores();
  assert_eq!(stores.active(ALL).found, []);
  for id in ["pipe", "link", "dir", "../../agent/x", "..", ""] {
    assert_eq!(stores.records(id, ALL, 10).found, [], "{id}");
  }
}

#[test]
fn an_emptied_database_is_a_problem_and_not_an_agent_without_transcripts() {
  let state = State::new();
  assert_ne!(state.records(MAIN).found, []);
  fs::write(state.database(), b"").unwrap();
  let is_said = |state: &State| {
    let read = state.records(MAIN);
    assert_eq!(read.found, []);
    assert!(read.problems.len() == 1 && read.problems[0].contains("is empty"), "{read:?}");
  };
  is_said(&state);
  fs::remove_file(state.database()).unwrap();
  assert_eq!(state.records(MAIN).problems, [""; 0], "there is none");
  // One without a table, and one with tables of another program.
  state.sql("CREATE TABLE gone (a); DROP TABLE gone");
  is_said(&state);
  state.sql("CREATE TABLE other (a)");
  assert_eq!(state.records(MAIN).problems, [""; 0]);
}

fn make_pipe(path: &Path) {
  let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
  assert!(status.success());
}

/// A file of many lines, each a second after the one before.
fn many_lines(state: &State, id: &str, n: i64) {
  let mut text = String::new();
  for i in 0..n {
    let at = jiff::Timestamp::from_second(1_795_000_000 + i).unwrap();
    let role = if i % 10 == 0 { "user" } else { "assistant" };
    let event = json!({"type": "message", "id": i, "timestamp": at.to_string(),
      "message": {"role": role, "content": format!("{i} {}", "x".repeat(200))}});
    writeln!(text, "{event}").unwrap();
  }
  fs::write(state.jsonl(id), text).unwrap();
}

#[test]
fn a_moment_in_a_long_file_is_found_by_halving() {
  let state = State::empty();
  many_lines(&state, "long", 20_000);
  let stores = state.stores();
  for second in [0, 9, 5_003, 10_000, 19_995] {
    let from = (1_795_000_000 + second) * 1_000_000;
    let window = Window { from, to: from + 2_000_000 };
    let active: Vec<String> =
      stores.active(window).found.into_iter().map(|session| session.id).collect();
    assert_eq!(active, ["long"], "{second}");
    let read = stores.records("long", window, 1000).found;
    let times: Vec<i64> = read.iter().map(|record| record.at / 1_000_000 - 1_795_000_000).collect();
    // Back to the user's message before the window.
    let first = if second == 0 { 0 } else { (second - 1) / 10 * 10 };
    assert_eq!(times, (first..=second + 2).collect::<Vec<i64>>(), "{second}");
  }
  let later = Window { from: 1_795_100_000_000_000, to: i64::MAX };
  assert_eq!(stores.active(later).found, []);
  let earlier = Window { from: 0, to: 1_794_000_000_000_000 };
  assert_eq!(stores.active(earlier).found, []);
}

#[test]
fn long_lines_and_lines_that_are_none_are_gaps() {
  let state = State::empty();
  many_lines(&state, "s", 3);
  let mut text = fs::read(state.jsonl("s")).unwrap();
  text.extend(vec![b'x'; 9_000_000]);
  text.extend(b"\n\n \n\xff\xfe\n{\"type\":\"message\"");
  fs::write(state.jsonl("s"), &text).unwrap();
  let read = state.records("s");
  assert_eq!((read.found.len(), unread(&read.found), read.problems.len()), (6, 3, 0));
  // Nothing but one endless line.
  fs::write(state.jsonl("s"), vec![b'{'; 20_000_000]).unwrap();
  assert_eq!(unread(&state.records("s").found), 1);
}

#[test]
fn a_registry_is_believed_about_its_own_sessions_only() {
  let state = State::empty();
  many_lines(&state, "s", 3);
  let registry = state.dir.path().join("agents/main/sessions/sessions.json");
  let entry = json!({
    "agent:main:telegram:direct:42": {"sessionId": "s", "sessionFile": "/etc/passwd", "chatType": "direct",
      "origin": {"provider": "telegram", "from": "telegram:42"}},
    "agent:main:evil": {"sessionId": "../../../../etc/passwd", "sessionFile": "../x.jsonl"},
    "agent:main:odd": {"sessionId": [1], "origin": 3},
  });
  fs::write(&registry, entry.to_string()).unwrap();
  let active = state.stores().active(ALL);
  assert_eq!(active.problems, [""; 0]);
  let session = &active.found[0];
  assert_eq!(
    (session.key.as_str(), session.peer.as_deref()),
    ("agent:main:telegram:direct:42", Some("42"))
  );
  assert_eq!(session.channel.as_deref(), Some("telegram"));
  let text =
    "Sender (untrusted metadata):\n```json\n{\"id\":\"7\",\"name\":\"Ann\"}\n```\n\nremember";
  let event =
    json!({"type": "message", "message": {"role": "user", "content": text, "timestamp": 5}});
  fs::write(state.jsonl("s"), format!("{event}\n")).unwrap();
  let read = state.records("s").found;
  let Message::User { sender: Some(sender), text, .. } = &read[0].message else {
    panic!("{read:?}")
  };
  // In a direct chat the peer speaks, whatever the text claims.
  assert_eq!(
    (sender.id.as_deref(), sender.name.as_deref(), text.as_str()),
    (Some("42"), None, "remember")
  );
  for broken in ["", "[]", "{\"a\":", "{\"a\":1}"] {
    fs::write(&registry, broken).unwrap();
    let active = state.stores().active(ALL);
    assert_eq!((active.found.len(), active.problems.len()), (1, 1), "{broken}");
  }
}

#[test]
fn a_session_in_both_stores_is_reported_once_and_the_rest_of_both() {
  let state = State::new();
  let old = fixture("2026.7.1-2/agents/main/sessions");
  for entry in fs::read_dir(&old).unwrap() {
    let entry = entry.unwrap();
    fs::copy(entry.path(), state.dir.path().join("agents/main/sessions").join(entry.file_name()))
      .unwrap();
  }
  let active = state.stores().active(ALL);
  let ids: Vec<&str> = active.found.iter().map(|session| session.id.as_str()).collect();
  let both = "5b0f6f0e-3c1f-4a55-9d0a-7c3d2f1e8a10";
  assert_eq!((ids.len(), ids.iter().filter(|id| **id == both).count()), (6, 1));
  assert_eq!(state.records(both).found, State::new().records(both).found);
  // A session of which the database has only the name.
  state.sql(&format!("DELETE FROM transcript_events WHERE session_id = '{both}'"));
  assert!(!state.records(both).found.is_empty());
  // If the database is no database at all, the files still answer.
  fs::write(state.database(), vec![7; 100_000]).unwrap();
  let active = state.stores().active(ALL);
  assert_eq!((active.found.len(), active.problems.len()), (2, 1));
}

proptest! {
  #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

  #[test]
  fn no_damage_to_a_database_makes_it_panic(
    flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
  ) {
    let state = State::new();
    let mut bytes = fs::read(state.database()).unwrap();
    for (at, byte) in flips {
      let at = at.index(bytes.len());
      bytes[at] = byte;
    }
    if let Some(cut) = cut {
      bytes.truncate(cut.index(bytes.len()));
    }
    fs::write(state.database(), bytes).unwrap();
    state.ask_everything();
  }

  #[test]
  fn no_damage_to_a_file_makes_it_panic(
    flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    cut in any::<prop::sample::Index>(),
  ) {
    let state = State::empty();
    for name in ["2e7916b7-54a3-46f9-85e3-985b9c871ab3.jsonl", "sessions.json"] {
      let mut bytes = fs::read(fixture("2026.7.1-2/agents/main/sessions").join(name)).unwrap();
      for (at, byte) in &flips {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
      }
      bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
      fs::write(state.dir.path().join("agents/main/sessions").join(name), bytes).unwrap();
    }
    state.ask_everything();
    let read = state.records("2e7916b7-54a3-46f9-85e3-985b9c871ab3").found;
    prop_assert!(read.is_sorted_by_key(|record| record.seq));
  }
}
