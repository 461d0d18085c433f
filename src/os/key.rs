//! The file that holds the master key: 32 random bytes, readable only by its owner.
//!
//! Created at the first start, and durable before it is used. Without the key the sealed bytes are
//! lost, so a missing key is never replaced once bytes were sealed with it; the caller knows
//! whether there are such bytes.
#![forbid(unsafe_code)]

use std::{
  fs::OpenOptions,
  io::{self, Read as _},
  os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use super::{
  paths::{self, PathError},
  random::{self, RandomError},
  shown::Shown,
  user,
};

/// Length of the master key in bytes.
pub const KEY_LEN: usize = 32;

/// Why there is no master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
  /// There is no key file, although something was sealed with its key.
  #[error(
    "the key file {} is missing, and the ledger holds items sealed with it\n\
     hint: restore it from a backup; do not delete the ledger",
    Shown(path)
  )]
  Missing {
    /// The key file.
    path: PathBuf,
  },
  /// The key file has another length.
  #[error(
    "the key file {} has {found} bytes instead of {KEY_LEN}\n\
     hint: restore it from a backup; without it no seal can be opened",
    Shown(path)
  )]
  BadLength {
    /// The key file.
    path: PathBuf,
    /// Its length in bytes.
    found: u64,
  },
  /// Others may read the key file.
  #[error(
    "the key file {} can be read by others (mode {mode:o})\nhint: chmod 600 the file",
    Shown(path)
  )]
  TooOpen {
    /// The key file.
    path: PathBuf,
    /// Its permission bits.
    mode: u32,
  },
  /// The key file belongs to another user.
  #[error(
    "the key file {} belongs to uid {uid}, not to this user\n\
     hint: run memfw as that user, or give the file to this one with chown",
    Shown(path)
  )]
  ForeignOwner {
    /// The key file.
    path: PathBuf,
    /// Its owner.
    uid: u32,
  },
  /// The key file is a link, a pipe or similar.
  #[error(
    "the key file {} is not a regular file\nhint: put the file itself there, not a link to it",
    Shown(path)
  )]
  NotAFile {
    /// The path at which a key file is expected.
    path: PathBuf,
  },
  /// The key file cannot be written.
  #[error(transparent)]
  Create(#[from] PathError),
  /// There is no randomness to make a key from.
  #[error(transparent)]
  Random(#[from] RandomError),
  /// The key file cannot be read.
  #[error("cannot read the key file {}: {source}", Shown(path))]
  Io {
    /// The key file.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
}

/// Loads the key, or creates one unless it `must_exist` (because something is sealed with it).
pub fn load_or_create(path: &Path, must_exist: bool) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyError> {
  if let Some(key) = load(path)? {
    return Ok(key);
  }
  if !must_exist {
    let mut key = Zeroizing::new([0; KEY_LEN]);
    random::fill(&mut *key)?;
    // If another process was quicker, use its key.
    paths::create_private(path, &*key)?;
    if let Some(key) = load(path)? {
      return Ok(key);
    }
  }
  Err(KeyError::Missing { path: path.to_owned() })
}

/// Loads the key; `None` if there is no key file.
pub fn load(path: &Path) -> Result<Option<Zeroizing<[u8; KEY_LEN]>>, KeyError> {
  let failed = |source| KeyError::Io { path: path.to_owned(), source };
  let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
  let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
    Ok(file) => file,
    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
    Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
      return Err(KeyError::NotAFile { path: path.to_owned() });
    }
    Err(error) => return Err(failed(error)),
  };
  let found = file.metadata().map_err(failed)?;
  if !found.is_file() {
    return Err(KeyError::NotAFile { path: path.to_owned() });
  }
  if found.uid() != user::effective_uid() {
    return Err(KeyError::ForeignOwner { path: path.to_owned(), uid: found.uid() });
  }
  let mode = found.mode() & 0o7777;
  if mode & 0o077 != 0 {
    return Err(KeyError::TooOpen { path: path.to_owned(), mode });
  }
  if found.size() != KEY_LEN as u64 {
    return Err(KeyError::BadLength { path: path.to_owned(), found: found.size() });
  }
  let mut key = Zeroizing::new([0; KEY_LEN]);
  file.read_exact(&mut *key).map_err(failed)?;
  Ok(Some(key))
}

#[cfg(test)]
mod tests {
  use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

  use super::*;

  #[test]
  fn a_key_is_made_once_private_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("master.key");
    assert!(matches!(load_or_create(&path, true), Err(KeyError::Missing { .. })));
    let key = load_or_create(&path, false).unwrap();
    assert_ne!(*key, [0; KEY_LEN]);
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(load_or_create(&path, false).unwrap(), key);
    assert_eq!(load_or_create(&path, true).unwrap(), key);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
  }

  #[test]
  fn processes_that_start_together_agree_on_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("master.key");
    let keys: Vec<_> = std::thread::scope(|scope| {
      let start = || scope.spawn(|| load_or_create(&path, false).unwrap());
      let racing: Vec<_> = (0..8).map(|_| start()).collect();
      racing.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
  }

  #[test]
  fn a_key_that_others_could_know_or_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("master.key");
    let key = load_or_create(&path, false).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let error = load_or_create(&path, false).unwrap_err();
    assert!(matches!(error, KeyError::TooOpen { mode: 0o640, .. }), "{error}");
    assert!(error.to_string().contains("mode 640"), "{error}");

    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(load_or_create(&link, false), Err(KeyError::NotAFile { .. })));
    assert!(matches!(load_or_create(dir.path(), false), Err(KeyError::NotAFile { .. })));

    for length in [0, KEY_LEN - 1, KEY_LEN + 1] {
      let short = dir.path().join(format!("short{length}"));
      paths::write_private(&short, &[*key, *key].concat()[..length]).unwrap();
      let error = load_or_create(&short, false).unwrap_err();
      assert!(matches!(error, KeyError::BadLength { found, .. } if found == length as u64));
    }
  }
}
