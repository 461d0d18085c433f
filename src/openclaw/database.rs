//! Reading OpenClaw's databases: never written here, and never kept open.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, config::DbConfig, limits::Limit};

/// How long a busy database is waited for.
const BUSY: Duration = Duration::from_millis(500);

/// Steps of SQLite's machine between two looks at the count.
const STEPS_PER_LOOK: i32 = 1000;
/// Looks that a connection gets in all: 20 million steps, some 0.2 s. A scan of 100,000 rows needs a tenth.
const MAX_LOOKS: u32 = 20_000;
/// Longest value that SQLite handles, in bytes.
const MAX_VALUE: i32 = 16 * 1024 * 1024;
/// Most tables, indexes and triggers of a database; OpenClaw 2026.9.6 has some 200.
const MAX_SCHEMA: i32 = 4096;

/// Opens a database that somebody else may have prepared: its views are not read, it cannot run functions by its
/// schema, and what costs too much is an error. Files beside it that are no files are refused, because opening a
/// pipe would wait for its other end.
pub(super) fn open_guarded(
  path: &Path,
  flags: OpenFlags,
  busy: Duration,
) -> rusqlite::Result<Connection> {
  let path = in_real_directory(path);
  for suffix in ["", "-wal", "-shm", "-journal"] {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    if std::fs::symlink_metadata(&name).is_ok_and(|found| !found.is_file()) {
      return Err(rusqlite::Error::InvalidPath(name.into()));
    }
  }
  let mut connection = Connection::open_with_flags(&path, flags)?;
  connection.busy_timeout(busy)?;
  connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
  connection.set_limit(Limit::SQLITE_LIMIT_SCHEMA, MAX_SCHEMA)?;
  connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
  for (setting, on) in [
    (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
    (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
  ] {
    connection.set_db_config(setting, on)?;
  }
  let mut n_looks = 0;
  let look = move || {
    n_looks += 1;
    n_looks > MAX_LOOKS
  };
  connection.progress_handler(STEPS_PER_LOOK, Some(look))?;
  Ok(connection)
}

/// The database at `path`, to read; `None` where there is no such file.
pub(super) fn open(path: &Path) -> Result<Option<Connection>, String> {
  if !path.is_file() {
    return Ok(None);
  }
  let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
    | OpenFlags::SQLITE_OPEN_NO_MUTEX
    | OpenFlags::SQLITE_OPEN_NOFOLLOW;
  let open = || {
    let connection = open_guarded(path, flags, BUSY)?;
    // The first look at the schema tells whether it is a database at all.
    let sql = "SELECT count(*) FROM sqlite_schema";
    let n_tables = connection.query_row(sql, [], |row| row.get::<_, i64>(0))?;
    Ok((connection, n_tables))
  };
  match open().map_err(|error: rusqlite::Error| failed(path, &error))? {
    (_, 0) => Err(format!("OpenClaw's database `{}` is empty", path.display())),
    (connection, _) => Ok(Some(connection)),
  }
}

/// The path with its directory resolved: `SQLITE_OPEN_NOFOLLOW` refuses a link in any component, and a state
/// directory or a home may be one. The database itself may not.
fn in_real_directory(path: &Path) -> PathBuf {
  let resolved = path.parent().and_then(|dir| dir.canonicalize().ok());
  match (resolved, path.file_name()) {
    (Some(dir), Some(name)) => dir.join(name),
    _ => path.to_owned(),
  }
}

/// A failure as a sentence.
pub(super) fn failed(path: &Path, error: &rusqlite::Error) -> String {
  format!("OpenClaw's database `{}`: {error}", path.display())
}

/// Whether there is a table of this name with these columns.
pub(super) fn has(connection: &Connection, table: &str, columns: &[&str]) -> bool {
  let known = connection
    .prepare("SELECT name FROM pragma_table_info(?1)")
    .and_then(|mut found| found.query_map([table], |row| row.get::<_, String>(0))?.collect())
    .unwrap_or_else(|_error| Vec::new());
  columns.iter().all(|column| known.iter().any(|name| name == column)) && !known.is_empty()
}

/// The number of the schema; 0 where there is none.
pub(super) fn schema(connection: &Connection) -> i64 {
  connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap_or(0)
}

/// The release of OpenClaw that made or last changed the database.
pub(super) fn release(connection: &Connection) -> Option<String> {
  if !has(connection, "schema_meta", &["meta_key", "app_version"]) {
    return None;
  }
  let sql = "SELECT substr(app_version, 1, 64) FROM schema_meta WHERE meta_key = 'primary'";
  connection.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).optional().ok()??
}
