//! The environment, read once; memfw's own directories; reading and writing memfw's own files.
//!
//! Nothing here writes a memory file, and no file of memfw is ever put into a workspace.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeMap,
  ffi::{OsStr, OsString},
  fs::{DirBuilder, File, OpenOptions, Permissions},
  io::{self, Read as _, Write as _},
  os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
  path::{Path, PathBuf},
  time::Duration,
};

use etcetera::BaseStrategy as _;

use super::{
  clock::{Clock as _, SystemClock},
  random,
  shown::Shown,
  uid,
};

/// How long a read waits for the holder of a lease on the file, whom the first try notifies; the
/// daemon releases its own lease within milliseconds.
pub const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// The pause before the next try.
pub const LEASE_RETRY: Duration = Duration::from_millis(2);

/// The variables of memfw. The room of an agent framework names those of the framework.
const OWN: [&str; 11] = [
  "MEMFW_HOME",
  "MEMFW_LOG",
  "HOME",
  "XDG_DATA_HOME",
  "XDG_CONFIG_HOME",
  "XDG_STATE_HOME",
  "XDG_RUNTIME_DIR",
  "NO_COLOR",
  "NOTIFY_SOCKET",
  "TERM",
  "COLUMNS",
];

/// The relevant environment variables, as they were at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
  values: BTreeMap<String, OsString>,
}

impl Env {
  /// Reads memfw's variables and the `further` ones; no others are read.
  #[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
  pub fn capture(further: &[&str]) -> Self {
    let names = OWN.iter().chain(further);
    Self::from_pairs(names.filter_map(|name| Some((*name, std::env::var_os(name)?))))
  }

  /// An environment with the given variables.
  pub fn from_pairs<'a, V: Into<OsString>>(pairs: impl IntoIterator<Item = (&'a str, V)>) -> Self {
    let owned = |(name, value): (&'a str, V)| (name.to_owned(), value.into());
    Self { values: pairs.into_iter().map(owned).collect() }
  }

  /// This environment with another value of one variable.
  #[must_use]
  pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
    self.values.insert(name.to_owned(), value.into());
    self
  }

  /// A variable's value; `None` when it is unset or empty.
  pub fn get(&self, name: &str) -> Option<&OsStr> {
    self.values.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
  }

  /// A variable's value as a path.
  pub fn path(&self, name: &str) -> Option<PathBuf> {
    self.get(name).map(PathBuf::from)
  }
}

/// A problem with memfw's own files.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
  /// There is no home directory.
  #[error(
    "no home directory is known\nhint: set `HOME`, or `MEMFW_HOME` to a directory of memfw's own"
  )]
  NoHome,
  /// A directory of memfw belongs to another user.
  #[error(
    "{} belongs to uid {uid}, not to this user\nhint: run memfw as that user, or set `MEMFW_HOME`",
    Shown(path)
  )]
  ForeignDirectory {
    /// The directory.
    path: PathBuf,
    /// Its owner.
    uid: u32,
  },
  /// A file of memfw belongs to another user.
  #[error("{} belongs to uid {uid}, not to this user\nhint: run memfw as that user", Shown(path))]
  ForeignFile {
    /// The file.
    path: PathBuf,
    /// Its owner.
    uid: u32,
  },
  /// A file of memfw is larger than its cap.
  #[error("{} has more than {limit} bytes", Shown(path))]
  TooLarge {
    /// The file.
    path: PathBuf,
    /// The limit in bytes.
    limit: u64,
  },
  /// A file of memfw is not a regular file.
  #[error("{} is not a regular file", Shown(path))]
  NotAFile {
    /// The path of the other object.
    path: PathBuf,
  },
  /// The system failed.
  #[error("cannot {op} {}: {source}", Shown(path))]
  Io {
    /// The attempted action, as a verb.
    op: &'static str,
    /// The path of the action.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
}

impl PathError {
  pub(super) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
    let path = path.to_owned();
    move |source| Self::Io { op, path, source }
  }
}

/// The directories of memfw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
  /// Ledger, key, locks.
  pub data: PathBuf,
  /// Configuration, rules and exemplars.
  pub config: PathBuf,
}

impl Home {
  /// `MEMFW_HOME/data` and `MEMFW_HOME/config`, or the platform's project directories. Creates
  /// nothing.
  pub fn find(env: &Env) -> Result<Self, PathError> {
    if let Some(home) = env.path("MEMFW_HOME") {
      let home = std::path::absolute(&home).map_err(PathError::io("find", &home))?;
      return Ok(Self { data: home.join("data"), config: home.join("config") });
    }
    // The only error is that there is no home directory.
    let Ok(base) = etcetera::base_strategy::choose_native_strategy() else {
      return Err(PathError::NoHome);
    };
    // On macOS, `Library/Preferences` is for property lists that the system writes.
    let config = if cfg!(target_os = "macos") { base.data_dir() } else { base.config_dir() };
    Ok(Self { data: base.data_dir().join("memfw"), config: config.join("memfw") })
  }

  /// The directories of another user's memfw on Linux, by the home directory of that user.
  pub fn below(home: &Path) -> Self {
    Self { data: home.join(".local/share/memfw"), config: home.join(".config/memfw") }
  }

  /// Creates both directories, accessible only to the user (0700). Restricts a data directory that
  /// others may access; refuses one that belongs to another user.
  pub fn create(&self) -> Result<(), PathError> {
    for dir in [&self.data, &self.config] {
      DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(PathError::io("create", dir))?;
    }
    let found = self.data.metadata().map_err(PathError::io("look at", &self.data))?;
    if found.uid() != uid::effective_uid() {
      return Err(PathError::ForeignDirectory { path: self.data.clone(), uid: found.uid() });
    }
    if found.mode() & 0o077 != 0 {
      std::fs::set_permissions(&self.data, Permissions::from_mode(0o700))
        .map_err(PathError::io("close", &self.data))?;
    }
    Ok(())
  }
}

/// Reads a file of memfw, or one that a person names (not a memory file that may be rewritten:
/// [`crate::files::Fs`] reads those). `None` if it does not exist. Refuses pipes and devices
/// without waiting for them.
pub fn read_own(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, PathError> {
  let Some(file) = open_own(path)? else { return Ok(None) };
  let mut bytes = Vec::new();
  file
    .take(max_bytes.saturating_add(1))
    .read_to_end(&mut bytes)
    .map_err(PathError::io("read", path))?;
  if bytes.len() as u64 > max_bytes {
    return Err(PathError::TooLarge { path: path.to_owned(), limit: max_bytes });
  }
  Ok(Some(bytes))
}

/// Opens such a file for reading in pieces. Waits for a lease on it.
pub fn open_own(path: &Path) -> Result<Option<File>, PathError> {
  let start = SystemClock.monotonic();
  let file = loop {
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
      Ok(file) => break file,
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
      Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
        if SystemClock.monotonic().saturating_sub(start) >= LEASE_PATIENCE {
          return Err(PathError::io("open", path)(error));
        }
        SystemClock.pause(LEASE_RETRY);
      }
      Err(error) => return Err(PathError::io("open", path)(error)),
    }
  };
  if !file.metadata().map_err(PathError::io("look at", path))?.is_file() {
    return Err(PathError::NotAFile { path: path.to_owned() });
  }
  Ok(Some(file))
}

/// Writes a file of memfw, 0600: after a power loss it has either the old content or all of the new
/// one. Only for files in memfw's own directories, because the file is replaced.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
  write_own(path, bytes, 0o600)
}

/// Like [`write_private`], with these permissions.
#[expect(clippy::disallowed_methods, reason = "own files are replaced, memory files never")]
pub(super) fn write_own(path: &Path, bytes: &[u8], mode: u32) -> Result<(), PathError> {
  let temporary = write_temporary(path, bytes, mode)?;
  if let Err(error) = std::fs::rename(&temporary, path) {
    std::fs::remove_file(&temporary).ok();
    return Err(PathError::io("write", path)(error));
  }
  sync_parent(path)
}

/// Like [`write_private`] for an existing file, and keeps its permissions, because other programs
/// may have been allowed to read it. Refuses a file of another user, who could not read the new
/// one.
#[expect(clippy::disallowed_methods, reason = "own files are replaced, memory files never")]
pub fn replace_own(path: &Path, bytes: &[u8]) -> Result<(), PathError> {
  let found = path.symlink_metadata().map_err(PathError::io("look at", path))?;
  if !found.is_file() {
    return Err(PathError::NotAFile { path: path.to_owned() });
  }
  if found.uid() != uid::effective_uid() {
    return Err(PathError::ForeignFile { path: path.to_owned(), uid: found.uid() });
  }
  let temporary = write_temporary(path, bytes, 0o600)?;
  let mode = Permissions::from_mode(found.mode() & 0o777);
  let replaced =
    std::fs::set_permissions(&temporary, mode).and_then(|()| std::fs::rename(&temporary, path));
  if let Err(error) = replaced {
    std::fs::remove_file(&temporary).ok();
    return Err(PathError::io("write", path)(error));
  }
  sync_parent(path)
}

/// Like [`write_private`], but only if there is no such file; returns whether it was written.
#[expect(clippy::disallowed_methods, reason = "removes the temporary file that it made")]
pub(super) fn create_private(path: &Path, bytes: &[u8]) -> Result<bool, PathError> {
  let temporary = write_temporary(path, bytes, 0o600)?;
  // If several processes start for the first time together, exactly one link succeeds.
  let linked = std::fs::hard_link(&temporary, path);
  std::fs::remove_file(&temporary).ok();
  match linked {
    Ok(()) => sync_parent(path).map(|()| true),
    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
    Err(error) => Err(PathError::io("create", path)(error)),
  }
}

/// Creates a durable temporary file next to `path`.
#[expect(clippy::disallowed_methods, reason = "removes the temporary file that it made")]
fn write_temporary(path: &Path, bytes: &[u8], mode: u32) -> Result<PathBuf, PathError> {
  let tag = random::array::<8>().map_err(|e| PathError::io("write", path)(io::Error::other(e)))?;
  let mut name = OsString::from(".");
  name.push(path.file_name().unwrap_or_default());
  name.push(format!(".{:016x}.tmp", u64::from_le_bytes(tag)));
  let temporary = path.with_file_name(name);
  let write = || {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()
  };
  match write() {
    Ok(()) => Ok(temporary),
    Err(error) => {
      std::fs::remove_file(&temporary).ok();
      Err(PathError::io("write", path)(error))
    }
  }
}

/// A new name is durable when its directory is synced.
#[expect(clippy::disallowed_methods, reason = "opens a directory of memfw")]
pub(super) fn sync_parent(path: &Path) -> Result<(), PathError> {
  let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
    return Ok(());
  };
  File::open(parent).and_then(|dir| dir.sync_all()).map_err(PathError::io("sync", parent))
}

#[cfg(test)]
mod tests {
  use super::*;

  fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
  }

  #[test]
  fn memfw_home_puts_both_directories_under_one_folder() {
    let env = Env::from_pairs([("MEMFW_HOME", "/x/y")]);
    let home = Home::find(&env).unwrap();
    assert_eq!(home, Home { data: "/x/y/data".into(), config: "/x/y/config".into() });
    assert!(Home::find(&Env::from_pairs([("MEMFW_HOME", "rel")])).unwrap().data.is_absolute());
    // An empty variable counts as unset.
    assert_eq!(Env::from_pairs([("MEMFW_HOME", "")]).get("MEMFW_HOME"), None);
  }

  #[test]
  fn only_known_variables_and_those_asked_for_are_read() {
    let env = Env::capture(&["PATH"]);
    assert!(env.get("PATH").is_some());
    assert!(Env::capture(&[]).get("PATH").is_none());
  }

  #[test]
  fn own_directories_are_private_and_an_open_data_directory_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home { data: dir.path().join("a/data"), config: dir.path().join("a/config") };
    home.create().unwrap();
    assert_eq!((mode(&home.data), mode(&home.config)), (0o700, 0o700));
    std::fs::set_permissions(&home.data, Permissions::from_mode(0o755)).unwrap();
    home.create().unwrap();
    assert_eq!(mode(&home.data), 0o700);
  }

  #[test]
  fn a_private_file_is_replaced_whole_and_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("note");
    write_private(&path, b"one").unwrap();
    write_private(&path, b"second").unwrap();
    assert_eq!(read_own(&path, 6).unwrap().unwrap(), b"second");
    assert_eq!(mode(&path), 0o600);
    assert!(!create_private(&path, b"third").unwrap());
    assert_eq!(read_own(&path, 6).unwrap().unwrap(), b"second");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(write_private(&dir.path().join("no/such"), b"").is_err());
  }

  #[test]
  fn a_file_that_is_replaced_keeps_its_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    assert!(replace_own(&path, b"one").is_err(), "it is not made");
    write_private(&path, b"one").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    replace_own(&path, b"two").unwrap();
    assert_eq!((mode(&path), read_own(&path, 9).unwrap().unwrap()), (0o644, b"two".to_vec()));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(replace_own(&link, b"three"), Err(PathError::NotAFile { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
  }

  #[test]
  fn own_files_are_read_with_a_cap_and_never_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("note");
    assert!(read_own(&path, 10).unwrap().is_none());
    write_private(&path, b"0123456789").unwrap();
    assert!(read_own(&path, 10).unwrap().is_some());
    assert!(matches!(read_own(&path, 9), Err(PathError::TooLarge { limit: 9, .. })));
    assert!(matches!(read_own(dir.path(), 9), Err(PathError::NotAFile { .. })));
    assert!(matches!(read_own(Path::new("/dev/zero"), 9), Err(PathError::NotAFile { .. })));
    // Reading a pipe without a writer would wait for ever.
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(matches!(read_own(&pipe, 9), Err(PathError::NotAFile { .. })));
  }
}
