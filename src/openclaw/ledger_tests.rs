//! Rows as OpenClaw 2026.9.6 writes them, and databases that are something else.

use super::*;
use crate::openclaw::OpenClawEnv;

const WORKSPACE: &str = "/home/claw/.openclaw/workspace";

/// A state directory with a row as OpenClaw 2026.9.6 writes it.
fn state(hash: ContentHash) -> (tempfile::TempDir, OpenClawRecords) {
  let dir = tempfile::tempdir().unwrap();
  std::fs::create_dir(dir.path().join("state")).unwrap();
  let connection = Connection::open(dir.path().join("state/openclaw.sqlite")).unwrap();
  connection
    .execute_batch(
      "CREATE TABLE plugin_state_entries (plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
       entry_key TEXT NOT NULL, value_json TEXT NOT NULL, created_at INTEGER NOT NULL,
       expires_at INTEGER, PRIMARY KEY (plugin_id, namespace, entry_key)) STRICT;",
    )
    .unwrap();
  let key = workspace_key(Path::new(WORKSPACE));
  let json = format!(
    r#"{{"version":1,"workspaceKey":"{key}","relativePath":"MEMORY.md","fileHash":"{hash}","originClass":"untrusted","observedAt":1795231178617}}"#
  );
  connection
    .execute(
      "INSERT INTO plugin_state_entries VALUES (?1, ?2, ?3, ?4, 0, NULL)",
      (PLUGIN, NAMESPACE, format!("{key}:whatever"), json),
    )
    .unwrap();
  let layout = Layout { state_dir: dir.path().to_owned(), workspace: PathBuf::from(WORKSPACE) };
  (dir, OpenClawRecords::new(layout))
}

fn recorded(hash: ContentHash) -> Standing {
  Standing::Recorded { hash, class: Some("untrusted".to_owned()) }
}

#[test]
fn a_row_is_found_and_follows_only_from_the_bytes_it_is_about() {
  let (ours, theirs, after) = (ContentHash::of(b"a"), ContentHash::of(b"b"), ContentHash::of(b"c"));
  let (_dir, records) = state(ours);
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  assert_eq!(records.standing(workspace, file), recorded(ours));
  assert_eq!(records.follow(workspace, file, theirs, after, None), Followed::NotOurs);
  assert_eq!(records.standing(workspace, file), recorded(ours));
  assert_eq!(records.follow(workspace, file, ours, after, None), Followed::Yes);
  assert_eq!(records.standing(workspace, file), recorded(after));
  assert_eq!(records.standing(workspace, Path::new("memory/x.md")), Standing::NoRecord);
  assert_eq!(records.standing(Path::new("/elsewhere"), file), Standing::NoRecord);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no memory file is renamed")]
fn a_state_directory_behind_a_link_is_read() {
  let hash = ContentHash::of(b"a");
  let (dir, _) = state(hash);
  let link = dir.path().with_extension("link");
  std::os::unix::fs::symlink(dir.path(), &link).unwrap();
  let layout = Layout { state_dir: link.clone(), workspace: PathBuf::from(WORKSPACE) };
  let records = OpenClawRecords::new(layout);
  assert_eq!(records.standing(Path::new(WORKSPACE), Path::new("MEMORY.md")), recorded(hash));
  // The database itself may be none: a program that can put it there would choose what memfw writes to.
  let database = dir.path().join("state/openclaw.sqlite");
  let moved = dir.path().join("moved.sqlite");
  std::fs::rename(&database, &moved).unwrap();
  std::os::unix::fs::symlink(&moved, &database).unwrap();
  let standing = records.standing(Path::new(WORKSPACE), Path::new("MEMORY.md"));
  assert!(!matches!(standing, Standing::Recorded { .. }), "{standing:?}");
}

#[test]
fn a_row_is_found_under_the_configured_path_too() {
  let (dir, _) = state(ContentHash::of(b"a"));
  let real = dir.path().join("real");
  std::fs::create_dir(&real).unwrap();
  let link = dir.path().join("link");
  std::os::unix::fs::symlink(&real, &link).unwrap();
  let connection = Connection::open(dir.path().join("state/openclaw.sqlite")).unwrap();
  let (old, new) = (workspace_key(Path::new(WORKSPACE)), workspace_key(&link));
  connection
    .execute(
      "UPDATE plugin_state_entries SET entry_key = replace(entry_key, ?1, ?2),
       value_json = replace(value_json, ?1, ?2)",
      (old, new),
    )
    .unwrap();
  let layout = Layout { state_dir: dir.path().to_owned(), workspace: link.clone() };
  let (real, file) = (real.canonicalize().unwrap(), Path::new("MEMORY.md"));
  let records = OpenClawRecords::new(layout.clone());
  assert_eq!(records.standing(&real, file), Standing::NoRecord, "the link is unknown");
  let env = OpenClawEnv {
    home: Some(dir.path().to_owned()),
    state_dir: Some(dir.path().to_owned()),
    workspace_dir: Some(link),
    ..OpenClawEnv::default()
  };
  let records = OpenClawRecords::of(Installation::discover(&env, &[])).unwrap();
  assert_eq!(records.standing(&real, file), recorded(ContentHash::of(b"a")));
}

#[test]
fn the_class_in_the_row_stays_as_it_is() {
  let (dir, records) = state(ContentHash::of(b"a"));
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  records.follow(workspace, file, ContentHash::of(b"a"), ContentHash::of(b"b"), None);
  let connection = Connection::open(dir.path().join("state/openclaw.sqlite")).unwrap();
  let class: String = connection
    .query_row("SELECT value_json ->> '$.originClass' FROM plugin_state_entries", [], |row| {
      row.get(0)
    })
    .unwrap();
  assert_eq!(class, "untrusted");
}

#[test]
fn a_dropped_file_is_trusted_again_only_as_it_was_shown() {
  let hash = ContentHash::of(b"a");
  let (_dir, records) = state(hash);
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  let shown = records.row(workspace, file).unwrap().unwrap();
  assert_eq!(
    (shown.class.as_deref(), shown.observed_at),
    (Some("untrusted"), Some(1_795_231_178_617_000))
  );
  let now = ContentHash::of(b"now");
  assert!(records.retrust(workspace, file, &shown, now).unwrap());
  let class = Some(TRUSTED.to_owned());
  assert_eq!(records.standing(workspace, file), Standing::Recorded { hash: now, class });
  assert!(!records.retrust(workspace, file, &shown, hash).unwrap(), "the row is another by now");
}

#[test]
fn a_ledger_of_unknown_form_is_said_and_not_touched() {
  let (dir, records) = state(ContentHash::of(b"a"));
  let connection = Connection::open(dir.path().join("state/openclaw.sqlite")).unwrap();
  connection
    .execute("UPDATE plugin_state_entries SET value_json = replace(value_json, '\"version\":1', '\"version\":2')", [])
    .unwrap();
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  assert!(matches!(records.standing(workspace, file), Standing::Unreadable(_)));
  let followed =
    records.follow(workspace, file, ContentHash::of(b"a"), ContentHash::of(b"b"), None);
  assert!(matches!(followed, Followed::Failed(_)), "{followed:?}");
}

#[test]
fn a_locked_database_is_a_failure_and_not_a_wait() {
  let (dir, records) = state(ContentHash::of(b"a"));
  let other = Connection::open(dir.path().join("state/openclaw.sqlite")).unwrap();
  other.execute_batch("BEGIN IMMEDIATE").unwrap();
  let followed = records.follow(
    Path::new(WORKSPACE),
    Path::new("MEMORY.md"),
    ContentHash::of(b"a"),
    ContentHash::of(b"b"),
    None,
  );
  assert!(matches!(followed, Followed::Failed(_)), "{followed:?}");
}

#[test]
fn a_file_that_is_no_database_is_said() {
  let (dir, records) = state(ContentHash::of(b"a"));
  #[expect(clippy::disallowed_methods, reason = "a test breaks its own file")]
  std::fs::write(dir.path().join("state/openclaw.sqlite"), b"not a database at all").unwrap();
  let standing = records.standing(Path::new(WORKSPACE), Path::new("MEMORY.md"));
  assert!(matches!(standing, Standing::Unreadable(_)), "{standing:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test empties its own file")]
fn an_emptied_database_is_said_and_is_not_one_without_a_record() {
  let hash = ContentHash::of(b"a");
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  let (dir, records) = state(hash);
  let path = dir.path().join("state/openclaw.sqlite");
  let said = |records: &OpenClawRecords| {
    let standing = records.standing(workspace, file);
    assert!(
      matches!(&standing, Standing::Unreadable(why) if why.contains("is empty")),
      "{standing:?}"
    );
    let followed = records.follow(workspace, file, hash, ContentHash::of(b"b"), None);
    assert!(matches!(followed, Followed::Failed(_)), "{followed:?}");
  };
  let connection = Connection::open(&path).unwrap();
  connection.execute_batch("DROP TABLE plugin_state_entries").unwrap();
  said(&records);
  // That of an OpenClaw that keeps no file ledger has other tables.
  connection.execute_batch("CREATE TABLE schema_meta (meta_key)").unwrap();
  assert_eq!(records.standing(workspace, file), Standing::NoRecord);
  drop(connection);
  std::fs::write(&path, b"").unwrap();
  said(&records);
  assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing is written into it");
  std::fs::remove_file(&path).unwrap();
  assert_eq!(records.standing(workspace, file), Standing::NoRecord);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test prepares its own files")]
fn a_prepared_database_keeps_nobody_waiting() {
  let (workspace, file) = (Path::new(WORKSPACE), Path::new("MEMORY.md"));
  let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n)";
  let columns = "x AS plugin_id, x AS namespace, x AS entry_key, x AS value_json";
  let (dir, records) = state(ContentHash::of(b"a"));
  let path = dir.path().join("state/openclaw.sqlite");
  let connection = Connection::open(&path).unwrap();
  connection
    .execute_batch(&format!(
      "DROP TABLE plugin_state_entries;
       CREATE VIEW plugin_state_entries AS {endless} SELECT {columns} FROM n"
    ))
    .unwrap();
  drop(connection);
  let standing = records.standing(workspace, file);
  assert!(!matches!(standing, Standing::Recorded { .. }), "{standing:?}");
  // A statement without a view is ended by what it costs.
  let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
  let connection = database::open_guarded(&path, flags, BUSY).unwrap();
  let counted = connection.query_row(&format!("{endless} SELECT count(*) FROM n"), [], |_| Ok(()));
  let code = counted.unwrap_err().sqlite_error_code();
  assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
  drop(connection);
  // Opening a pipe would wait for a writer.
  for suffix in ["-wal", "-shm", "-journal"] {
    let mut pipe = path.as_os_str().to_owned();
    pipe.push(suffix);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let standing = records.standing(workspace, file);
    assert!(matches!(standing, Standing::Unreadable(_)), "{suffix}: {standing:?}");
    std::fs::remove_file(&pipe).unwrap();
  }
}
