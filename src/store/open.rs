//! Opens the ledger: permissions, checks, and the settings of a connection.
#![forbid(unsafe_code)]

use std::{
  fmt::Write as _,
  fs::{DirBuilder, OpenOptions},
  io,
  os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
  sync::{Mutex, PoisonError},
  time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, config::DbConfig};

use super::{
  Access, Durability, Ledger, StoreError, column,
  confirm::unread,
  error::{Fault, cannot_open},
  migrate,
  place::{Place, identity},
};
use crate::seal::{CHECK_LEN, MasterKey};

/// How long a connection waits for the transaction of another one. Transactions of memfw take
/// milliseconds; five seconds mean a disk in trouble.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Each failed attempt to switch to the write-ahead log means that another process got further, so
/// this is more than there are ever processes at once.
const WAL_ATTEMPTS: usize = 100;
/// The write-ahead log is truncated to this after a checkpoint; a file image may have made it
/// larger.
const WAL_BYTES: i64 = 4 << 20;
/// More than there are different statements, so that no statement is compiled twice.
const STATEMENTS: usize = 96;
/// One page of the smallest size (SQLite file format, 1.3.2).
const SMALLEST_DATABASE: u64 = 512;

const KEY_CHECK: &str = "key_check";

impl Ledger {
  /// Opens the ledger at `path`. Without a key, rows can be read but nothing sealed or opened; a
  /// key of another database is [`StoreError::WrongKey`].
  pub fn open(path: &Path, access: Access, key: Option<MasterKey>) -> Result<Self, StoreError> {
    let mut before = None;
    let mut connect = || {
      let conn = match access {
        Access::ReadWrite => create(path).and_then(|()| {
          before = identity(path);
          read_write(path)
        }),
        Access::ReadOnly => read_only(path),
      };
      conn.map_err(|fault| fault.at(path))
    };
    // SQLite calls a database damaged where a read failed once.
    let conn = match connect() {
      Err(StoreError::Corrupt { .. } | StoreError::Io { .. }) => {
        connect().map_err(|error| match error {
          StoreError::Corrupt { .. } => unread(path).unwrap_or(error),
          error => error,
        })?
      }
      answer => answer?,
    };
    let place = (access == Access::ReadWrite).then(|| Place::of(path));
    // Which of the two files SQLite has opened is not known, if it was replaced meanwhile.
    if place.as_ref().is_some_and(|place| place.database() != before) {
      return Err(StoreError::Moved { path: path.to_owned() });
    }
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    let path = path.to_owned();
    let durability = Durability::Synced;
    let mut ledger = Self { conn, path, access, key: None, durability, place, observer: None };
    if let Some(key) = key {
      ledger.unlock(key)?;
    }
    Ok(ledger)
  }

  /// Waits no longer than this for the transaction of another connection.
  pub fn set_patience(&mut self, patience: Duration) {
    // This sets a number in memory and cannot fail.
    self.conn.busy_timeout(patience).ok();
  }

  /// Whether this database was ever used with a key: then a lost key file must be restored, not
  /// replaced.
  pub fn needs_key(&self) -> Result<bool, StoreError> {
    self.read(|conn| Ok(key_check(conn)?.is_some()))
  }

  /// Gives the ledger its key. The check value of the first key is stored, and later keys must
  /// match it.
  pub fn unlock(&mut self, key: MasterKey) -> Result<(), StoreError> {
    let own = key.check_value();
    let mut known = self.read(|conn| Ok(key_check(conn)?))?;
    if known.is_none() && self.access == Access::ReadWrite {
      known = self.write(Durability::Synced, |tx, _| {
        // Another process may have been quicker: its key counts.
        let insert = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        tx.execute(insert, (KEY_CHECK, &own[..]))?;
        Ok(key_check(tx)?)
      })?;
    }
    if known.is_some_and(|known| known != own) {
      return Err(StoreError::WrongKey { path: self.path.clone() });
    }
    self.key = Some(key);
    Ok(())
  }
}

fn key_check(conn: &Connection) -> rusqlite::Result<Option<[u8; CHECK_LEN]>> {
  conn.query_row("SELECT value FROM meta WHERE key = ?1", [KEY_CHECK], |row| row.get(0)).optional()
}

/// Creates directory (0700) and file (0600) if they do not exist.
fn create(path: &Path) -> Result<(), Fault> {
  // Closing a plain handle drops the locks that SQLite holds on this file in this process, so no
  // other code may open the new file before its handle is closed.
  static CREATING: Mutex<()> = Mutex::new(());
  let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
  let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
  let parent = parent.unwrap_or(Path::new("."));
  DirBuilder::new()
    .recursive(true)
    .mode(0o700)
    .create(parent)
    .map_err(|error| cannot_open(parent, &error))?;
  match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
    Ok(file) => {
      drop(file);
      // Logs of a database that was removed are not of the new one, and SQLite would fail on them.
      set_logs_aside(path)?;
      // The name of the file must survive a power cut as well as its pages.
      let directory = OpenOptions::new().read(true).open(parent);
      directory.and_then(|dir| dir.sync_all()).map_err(|error| cannot_open(parent, &error))?;
      Ok(())
    }
    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => size(path).map(drop),
    Err(error) => Err(cannot_open(path, &error).into()),
  }
}

/// Renames the logs of a database that is not there any more, so that nothing in them is lost.
#[expect(clippy::disallowed_methods, reason = "they are memfw's own files, and no memory")]
fn set_logs_aside(path: &Path) -> Result<(), Fault> {
  for suffix in ["-wal", "-shm"] {
    let name = |end: &str| {
      let mut name = path.as_os_str().to_owned();
      name.push(suffix);
      name.push(end);
      PathBuf::from(name)
    };
    match std::fs::rename(name(""), name(".left")) {
      Err(error) if error.kind() != io::ErrorKind::NotFound => {
        return Err(cannot_open(&name(""), &error).into());
      }
      Ok(()) | Err(_) => {}
    }
  }
  Ok(())
}

/// The first bytes of what may be a database. Checked before SQLite opens it, because SQLite would
/// wait on a pipe, and would treat a file that is shorter than a page as empty and overwrite it.
fn size(path: &Path) -> Result<u64, Fault> {
  let found = path.metadata().map_err(|error| match error.kind() {
    io::ErrorKind::NotFound => StoreError::Missing { path: path.to_owned() },
    _ => cannot_open(path, &error),
  })?;
  if !found.is_file() {
    let detail = "not a regular file".to_owned();
    return Err(StoreError::CannotOpen { path: path.to_owned(), detail }.into());
  }
  if (1..SMALLEST_DATABASE).contains(&found.len()) {
    return Err(StoreError::NotADatabase { path: path.to_owned() }.into());
  }
  Ok(found.len())
}

fn read_write(path: &Path) -> Result<Connection, Fault> {
  // Without `CREATE`: SQLite would create a file that other users can read. A connection is used by
  // one thread at a time, so it needs no mutex.
  let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
  let mut conn = Connection::open_with_flags(path, flags)?;
  conn.busy_timeout(BUSY_TIMEOUT)?;
  // Before anything else: the following statements would write into a database that may not be
  // memfw's.
  let found = migrate::format(&conn, path)?;
  if conn.is_readonly("main")? {
    return Err(StoreError::ReadOnly { path: path.to_owned() }.into());
  }
  if found == 0 {
    // Only possible before the first page is written; it allows retention to return space one day.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
  }
  // SQLite does not enforce foreign keys by default.
  conn.pragma_update(None, "foreign_keys", true)?;
  stable_plans(&conn)?;
  // Deleted rows must not stay readable in free pages.
  conn.pragma_update(None, "secure_delete", true)?;
  conn.pragma_update(None, "trusted_schema", false)?;
  conn.pragma_update(None, "temp_store", "MEMORY")?;
  // Plain fsync does not reach the disk on macOS; elsewhere these do nothing.
  conn.pragma_update(None, "fullfsync", true)?;
  conn.pragma_update(None, "checkpoint_fullfsync", true)?;
  conn.pragma_update(None, "synchronous", Durability::Synced.as_str())?;
  // The log lets readers and one writer work at once, so `status` never waits for the daemon.
  write_ahead(&conn, path)?;
  conn.query_row(&format!("PRAGMA journal_size_limit = {WAL_BYTES}"), [], |_| Ok(()))?;
  migrate::migrate(&mut conn, path)?;
  Ok(conn)
}

/// Without this, SQLite compiles a statement over a table with a partial index again for each new
/// parameter, which took a tenth of the time of a pass.
fn stable_plans(conn: &Connection) -> rusqlite::Result<()> {
  conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Switches to the write-ahead log, which stays on for all later connections.
fn write_ahead(conn: &Connection, path: &Path) -> Result<(), Fault> {
  for _ in 0..WAL_ATTEMPTS {
    let switch = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
    match switch.map_err(Fault::from) {
      Ok(mode) if mode == "wal" => return Ok(()),
      Ok(mode) => {
        let detail = format!("this file system only allows the journal mode `{mode}`");
        return Err(StoreError::CannotOpen { path: path.to_owned(), detail }.into());
      }
      // The switch does not wait for its turn (it reads before it writes), so connections at one
      // moment refuse each other. Taking and releasing the lock does wait.
      Err(fault) if fault.is_busy() => conn.execute_batch("BEGIN EXCLUSIVE; COMMIT")?,
      Err(fault) => return Err(fault),
    }
  }
  Err(StoreError::Locked { path: path.to_owned() }.into())
}

fn read_only(path: &Path) -> Result<Connection, Fault> {
  if size(path)? == 0 {
    return Err(StoreError::Missing { path: path.to_owned() }.into());
  }
  let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
  let live = Connection::open_with_flags(path, flags).map_err(Fault::from);
  let checked = live.and_then(|conn| check_read_only(conn, path));
  match checked {
    // Reading through the log needs its index file. If that is missing and cannot be created, and
    // there is no log either, no process has the database open, and the file alone is complete.
    Err(fault) if fault.is_cannot_open() && !has_log(path) => {
      let conn = Connection::open_with_flags(still(path), flags | OpenFlags::SQLITE_OPEN_URI)?;
      check_read_only(conn, path)
    }
    checked => checked,
  }
}

fn check_read_only(conn: Connection, path: &Path) -> Result<Connection, Fault> {
  conn.busy_timeout(BUSY_TIMEOUT)?;
  match migrate::format(&conn, path)? {
    // Created by another process that is about to migrate it.
    0 => Err(StoreError::Missing { path: path.to_owned() }.into()),
    found if found < migrate::KNOWN => {
      Err(StoreError::Older { found, known: migrate::KNOWN, path: path.to_owned() }.into())
    }
    _ => {
      stable_plans(&conn)?;
      conn.pragma_update(None, "trusted_schema", false)?;
      conn.pragma_update(None, "temp_store", "MEMORY")?;
      Ok(conn)
    }
  }
}

fn has_log(path: &Path) -> bool {
  let mut name = path.as_os_str().to_owned();
  name.push("-wal");
  PathBuf::from(name).metadata().is_ok_and(|log| log.len() > 0)
}

/// The URI by which SQLite opens a file without locks and log.
fn still(path: &Path) -> String {
  let mut uri = if path.is_absolute() { "file://".to_owned() } else { "file:".to_owned() };
  for byte in column::path_bytes(path) {
    match byte {
      b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
        uri.push(char::from(*byte));
      }
      _ => {
        // Writing to a String cannot fail.
        write!(uri, "%{byte:02X}").ok();
      }
    }
  }
  uri + "?immutable=1"
}
