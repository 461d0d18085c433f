//! OpenClaw's SQLite database, opened so that neither side can harm the other.
//!
//! memfw cannot harm OpenClaw: read-only, one short statement at a time, no transaction over
//! several, a bound on the steps of each statement, and no connection kept open, because closing
//! the last one cleans up the write-ahead log. Without a log no program has the database open; then
//! it is read without locks and without making a log. The database cannot harm memfw: no views, no
//! triggers, only stored columns of ordinary tables, values of bounded length, links refused. A
//! statement that takes too many steps is an error.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeSet,
  fmt::Write as _,
  fs,
  os::unix::ffi::OsStrExt as _,
  path::{Path, PathBuf},
  sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
  },
  time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, config::DbConfig, limits::Limit};

/// How long a busy database is waited for; readers of a write-ahead log hardly ever wait.
const BUSY: Duration = Duration::from_millis(20);
/// Steps of SQLite's machine between two looks at the count.
const STEPS_PER_LOOK: i32 = 500;
/// Looks that one statement gets: 100,000 steps, some two milliseconds.
const MAX_LOOKS: u32 = 200;
/// Looks and statements that a database gets in all, as long as it is open.
const MAX_IN_ALL: u32 = 40_000;
/// Longest value or row that SQLite handles for us, in bytes. OpenClaw's longest event has four megabytes.
const MAX_VALUE: i32 = 16 * 1024 * 1024;
/// Most tables, indexes and triggers of a database; OpenClaw 2026.9.6 has some 200.
const MAX_SCHEMA: i32 = 4096;
/// A write-ahead log that is longer is not opened: finding its end can mean reading all of it.
const MAX_LOG: u64 = 1024 * 1024 * 1024;

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
  #[error("`{0}` is no regular file")]
  NoFile(PathBuf),
  #[error("`{0}` is empty, as if it had been cut or were just being made")]
  Empty(PathBuf),
  #[error("`{0}` has a write-ahead log of more than a gigabyte")]
  LongLog(PathBuf),
  #[error("`{0}` costs more to read than one question may")]
  Costly(PathBuf),
  #[error("`{path}`: {error}")]
  Sqlite { path: PathBuf, error: rusqlite::Error },
}

/// What statements have cost so far.
#[derive(Debug, Default)]
struct Spent {
  looks: AtomicU32,
  in_all: AtomicU32,
}

impl Spent {
  /// One look more; whether that is too much.
  fn look(&self) -> bool {
    let in_all = self.in_all.fetch_add(1, Ordering::Relaxed) >= MAX_IN_ALL;
    self.looks.fetch_add(1, Ordering::Relaxed) >= MAX_LOOKS || in_all
  }
}

/// An open database.
pub(super) struct Database {
  connection: Connection,
  path: PathBuf,
  spent: Arc<Spent>,
  #[cfg(test)]
  asked: std::cell::RefCell<BTreeSet<String>>,
}

impl Database {
  /// Opens the database at `path`, in which no part may be a link; `None` where there is no file.
  pub(super) fn open(path: &Path) -> Result<Option<Self>, DatabaseError> {
    match fs::symlink_metadata(path) {
      Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
      // Opening a pipe would wait for its other end.
      Ok(meta) if meta.is_file() && meta.len() == 0 => {
        return Err(DatabaseError::Empty(path.to_owned()));
      }
      Ok(meta) if meta.is_file() => {}
      _ => return Err(DatabaseError::NoFile(path.to_owned())),
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    for beside in [&log, &index] {
      if fs::symlink_metadata(beside).is_ok_and(|meta| !meta.is_file()) {
        return Err(DatabaseError::NoFile(beside.into()));
      }
    }
    let is_at_rest = match fs::symlink_metadata(&log) {
      Ok(meta) if meta.len() > MAX_LOG => return Err(DatabaseError::LongLog(path.to_owned())),
      Ok(_) => false,
      Err(_) => true,
    };
    let sqlite = |error| DatabaseError::Sqlite { path: path.to_owned(), error };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
      | OpenFlags::SQLITE_OPEN_NO_MUTEX
      | OpenFlags::SQLITE_OPEN_NOFOLLOW
      | OpenFlags::SQLITE_OPEN_URI;
    let mut connection =
      Connection::open_with_flags(uri(path, is_at_rest), flags).map_err(sqlite)?;
    let spent = Arc::new(Spent::default());
    guard(&mut connection, &spent).map_err(sqlite)?;
    Ok(Some(Self {
      connection,
      path: path.to_owned(),
      spent,
      #[cfg(test)]
      asked: std::cell::RefCell::default(),
    }))
  }

  /// Fails where there is no table at all: a database in use has some.
  pub(super) fn check_not_empty(&self) -> Result<(), DatabaseError> {
    let found = self.one("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))?;
    found.ok_or_else(|| DatabaseError::Empty(self.path.clone()))
  }

  /// The stored columns of an ordinary table; none where there is no such table.
  pub(super) fn columns(&self, table: &str) -> Result<BTreeSet<String>, DatabaseError> {
    let is_table: Option<i64> = self.one(
      "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name = ?1 LIMIT 1",
      [table],
      |row| row.get(0),
    )?;
    if is_table.is_none() {
      return Ok(BTreeSet::new());
    }
    let sql = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0 LIMIT 1000";
    let mut statement = self.statement(sql)?;
    let names = statement.query_map([table], |row| row.get(0)).and_then(Iterator::collect);
    names.map_err(|error| self.failed(error))
  }

  /// The only row of a short statement.
  pub(super) fn one<T>(
    &self,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
  ) -> Result<Option<T>, DatabaseError> {
    let mut statement = self.statement(sql)?;
    statement.query_row(params, read).optional().map_err(|error| self.failed(error))
  }

  /// The rows of a short statement.
  pub(super) fn all<T>(
    &self,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
  ) -> Result<Vec<T>, DatabaseError> {
    let mut statement = self.statement(sql)?;
    let rows = statement.query_map(params, read).and_then(Iterator::collect);
    rows.map_err(|error| self.failed(error))
  }

  /// A statement with all its steps before it.
  pub(super) fn statement(
    &self,
    sql: &str,
  ) -> Result<rusqlite::CachedStatement<'_>, DatabaseError> {
    self.spent.looks.store(0, Ordering::Relaxed);
    if self.spent.look() {
      return Err(DatabaseError::Costly(self.path.clone()));
    }
    #[cfg(test)]
    self.asked.borrow_mut().insert(sql.to_owned());
    self.connection.prepare_cached(sql).map_err(|error| self.failed(error))
  }

  /// Every statement that was asked so far.
  #[cfg(test)]
  pub(super) fn asked(&self) -> Vec<String> {
    self.asked.borrow().iter().cloned().collect()
  }

  /// An error of this database.
  pub(super) fn failed(&self, error: rusqlite::Error) -> DatabaseError {
    DatabaseError::Sqlite { path: self.path.clone(), error }
  }
}

/// Keeps what the database holds from doing harm.
fn guard(connection: &mut Connection, spent: &Arc<Spent>) -> rusqlite::Result<()> {
  connection.busy_timeout(BUSY)?;
  connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
  connection.set_limit(Limit::SQLITE_LIMIT_SCHEMA, MAX_SCHEMA)?;
  connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
  connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
  for (setting, on) in [
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
  ] {
    connection.set_db_config(setting, on)?;
  }
  let spent = Arc::clone(spent);
  connection.progress_handler(STEPS_PER_LOOK, Some(move || spent.look()))
}

/// The path as SQLite wants it, with everything encoded that could mean something there.
fn uri(path: &Path, is_at_rest: bool) -> String {
  let mut uri = String::from("file:");
  for byte in path.as_os_str().as_bytes() {
    if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
      uri.push(char::from(*byte));
    } else if write!(uri, "%{byte:02x}").is_err() {
      // Writing to a string does not fail.
      return uri;
    }
  }
  uri.push_str(if is_at_rest { "?mode=ro&immutable=1" } else { "?mode=ro" });
  uri
}

/// A text of at most `max` bytes, whatever type the column has; `None` for anything else.
pub(super) fn text(row: &Row<'_>, column: usize, max: usize) -> rusqlite::Result<Option<String>> {
  let value = row.get_ref(column)?;
  let text = value.as_str_or_null().ok().flatten();
  Ok(text.filter(|text| text.len() <= max && !text.is_empty()).map(str::to_owned))
}

/// A whole number; `None` for anything else.
pub(super) fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<i64>> {
  Ok(row.get_ref(column)?.as_i64_or_null().ok().flatten())
}

/// The plan that SQLite would follow, for tests.
#[cfg(test)]
pub(super) fn plan(database: &Database, sql: &str) -> Vec<String> {
  let sql = format!("EXPLAIN QUERY PLAN {sql}");
  let mut statement = database.connection.prepare(&sql).unwrap();
  let n = statement.parameter_count();
  let params = rusqlite::params_from_iter(std::iter::repeat_n(1, n));
  statement.query_map(params, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[cfg(test)]
mod tests {
  use super::*;

  fn database(sql: &str) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(dir.path()).unwrap().join("a?b#c%20.sqlite");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let database = Database::open(&path).unwrap().unwrap();
    (dir, database)
  }

  fn number(database: &Database, sql: &str) -> Result<Option<i64>, DatabaseError> {
    database.one(sql, [], |row| row.get(0))
  }

  #[test]
  fn a_statement_without_end_is_stopped_and_the_next_one_runs() {
    let (_dir, database) = database("CREATE TABLE t (a); INSERT INTO t VALUES (7)");
    let endless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    for _ in 0..3 {
      let error = number(&database, endless).unwrap_err();
      assert!(error.to_string().contains("interrupted"), "{error}");
      assert_eq!(number(&database, "SELECT a FROM t").unwrap(), Some(7));
    }
  }

  #[test]
  fn all_statements_together_have_an_end_too() {
    let (_dir, database) = database("CREATE TABLE t (a)");
    let costs = |_: &u32| number(&database, "SELECT 1").is_err();
    // The steps of the statements themselves are counted beside them.
    let first = (0..MAX_IN_ALL + 9).find(costs).unwrap();
    assert!((MAX_IN_ALL / 2..=MAX_IN_ALL).contains(&first), "{first}");
  }

  #[test]
  fn only_stored_columns_of_ordinary_tables_count() {
    let (_dir, database) = database(
      "CREATE TABLE t (a, b AS (hex(a)) VIRTUAL, c AS (1) STORED, d);
       CREATE VIEW v AS SELECT 1 AS a; CREATE VIRTUAL TABLE f USING fts5(a);",
    );
    assert_eq!(database.columns("t").unwrap(), BTreeSet::from(["a".to_owned(), "d".to_owned()]));
    for other in ["v", "f", "none", "t; DROP TABLE t"] {
      assert!(database.columns(other).unwrap().is_empty(), "{other}");
    }
    assert!(number(&database, "SELECT a FROM v").is_err());
  }

  #[test]
  fn values_have_a_length_and_nothing_can_be_written() {
    let (_dir, database) = database("CREATE TABLE t (a)");
    assert!(number(&database, "SELECT length(zeroblob(17000000))").is_err());
    assert!(number(&database, "INSERT INTO t VALUES (1) RETURNING 1").is_err());
    assert!(number(&database, "ATTACH '/tmp/x' AS x").is_err());
  }

  #[test]
  fn other_things_than_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = std::fs::canonicalize(dir.path()).unwrap();
    assert!(matches!(Database::open(&dir), Err(DatabaseError::NoFile(_))));
    assert!(Database::open(&dir.join("none")).unwrap().is_none());
    std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).unwrap();
    assert!(matches!(Database::open(&dir.join("link")), Err(DatabaseError::NoFile(_))));
  }
}
