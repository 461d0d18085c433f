//! Reading OpenClaw's databases: never written here, and never kept open.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

/// How long a busy database is waited for.
const BUSY: Duration = Duration::from_millis(500);

/// The database at `path`, to read; `None` where there is no such file.
pub(super) fn open(path: &Path) -> Result<Option<Connection>, String> {
  if !path.is_file() {
    return Ok(None);
  }
  let path = &in_real_directory(path);
  let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
    | OpenFlags::SQLITE_OPEN_NO_MUTEX
    | OpenFlags::SQLITE_OPEN_NOFOLLOW;
  let open = || {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
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
pub(super) fn in_real_directory(path: &Path) -> PathBuf {
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
