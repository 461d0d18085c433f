//! A file that memfw puts where another program expects it, such as a unit of a service manager.
//!
//! Invariant: only a regular file that contains memfw's line is replaced or removed; the previous
//! version is kept next to it.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  fs::{self, DirBuilder},
  io,
  os::unix::fs::DirBuilderExt as _,
  path::{Path, PathBuf},
};

use super::paths::{PathError, read_own, sync_parent, write_own};

/// Largest such file that is read, in bytes; memfw's files have some thousand.
const MAX_BYTES: u64 = 1 << 20;
/// The suffix of the previous version. No service manager loads such a file.
const EARLIER: &str = ".old";

/// A path, and the line by which a file is recognised as memfw's.
#[derive(Clone, Debug)]
pub struct Placed {
  /// The absolute path of the file.
  pub path: PathBuf,
  /// The text of that line.
  pub mark: &'static str,
}

/// The file at the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
  /// No file.
  Nothing,
  /// A file of memfw, with its text.
  Ours(String),
  /// A file that is not memfw's, and its kind.
  Foreign(&'static str),
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
  /// The file was already as wanted.
  None,
  /// The file is new.
  New,
  /// The file was changed; the previous version is at this path.
  Replaced(PathBuf),
}

impl Placed {
  /// Checks what is at the path.
  pub fn look(&self) -> Result<FileState, PathError> {
    match self.path.symlink_metadata() {
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileState::Nothing),
      Err(error) => return Err(PathError::io("look at", &self.path)(error)),
      Ok(found) if found.is_symlink() => return Ok(FileState::Foreign("a link")),
      Ok(found) if !found.is_file() => return Ok(FileState::Foreign("no regular file")),
      Ok(_) => {}
    }
    let Some(bytes) = read_own(&self.path, MAX_BYTES)? else { return Ok(FileState::Nothing) };
    Ok(match String::from_utf8(bytes) {
      Ok(text) if text.lines().any(|line| line.contains(self.mark)) => FileState::Ours(text),
      _ => FileState::Foreign("a file that memfw has not written"),
    })
  }

  /// Writes the file, with its directories, readable by all users; the caller has checked that no
  /// foreign file is there.
  pub fn put(&self, text: &str) -> Result<Change, PathError> {
    let change = match self.look()? {
      FileState::Ours(before) if before == text => return Ok(Change::None),
      FileState::Ours(before) => {
        let earlier = self.earlier();
        if let FileState::Foreign(what) = earlier.look()? {
          return Err(earlier.refusal(what));
        }
        write_own(&earlier.path, before.as_bytes(), 0o644)?;
        Change::Replaced(earlier.path)
      }
      FileState::Nothing => Change::New,
      FileState::Foreign(what) => return Err(self.refusal(what)),
    };
    if let Some(dir) = self.path.parent() {
      let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
      made.map_err(PathError::io("create", dir))?;
    }
    write_own(&self.path, text.as_bytes(), 0o644)?;
    Ok(change)
  }

  /// Removes the file and its previous version, and returns the ones that existed.
  pub fn remove(&self) -> Result<Vec<PathBuf>, PathError> {
    let mut removed = Vec::new();
    match self.look()? {
      FileState::Foreign(what) => return Err(self.refusal(what)),
      FileState::Nothing => {}
      FileState::Ours(_) => removed.push(unlink(&self.path)?),
    }
    let earlier = self.earlier();
    if let Ok(FileState::Ours(_)) = earlier.look() {
      removed.push(unlink(&earlier.path)?);
    }
    Ok(removed)
  }

  fn earlier(&self) -> Self {
    let mut name = OsString::from(self.path.file_name().unwrap_or_default());
    name.push(EARLIER);
    Self { path: self.path.with_file_name(name), mark: self.mark }
  }

  fn refusal(&self, what: &str) -> PathError {
    PathError::io("write", &self.path)(io::Error::other(format!("it is {what}")))
  }
}

#[expect(clippy::disallowed_methods, reason = "a file that bears memfw's own line")]
fn unlink(path: &Path) -> Result<PathBuf, PathError> {
  fs::remove_file(path).map_err(PathError::io("remove", path))?;
  sync_parent(path)?;
  Ok(path.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test's own files")]
mod tests {
  use super::*;

  fn placed(dir: &Path) -> Placed {
    Placed { path: dir.join("a/b/x.service"), mark: "mine:" }
  }

  #[test]
  fn a_file_is_made_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let placed = placed(dir.path());
    assert_eq!(placed.look().unwrap(), FileState::Nothing);
    assert_eq!(placed.put("# mine: 1\n").unwrap(), Change::New);
    assert_eq!(placed.put("# mine: 1\n").unwrap(), Change::None);
    let old = dir.path().join("a/b/x.service.old");
    assert_eq!(placed.put("# mine: 2\n").unwrap(), Change::Replaced(old.clone()));
    assert_eq!(fs::read_to_string(&old).unwrap(), "# mine: 1\n");
    assert_eq!(placed.look().unwrap(), FileState::Ours("# mine: 2\n".to_owned()));
    assert_eq!(placed.remove().unwrap(), [placed.path.clone(), old]);
    assert_eq!(placed.remove().unwrap(), [""; 0].map(PathBuf::from));
    assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 0);
  }

  #[test]
  fn what_somebody_else_has_put_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let placed = placed(dir.path());
    fs::create_dir_all(placed.path.parent().unwrap()).unwrap();
    fs::write(&placed.path, "# yours\n").unwrap();
    let error = placed.put("# mine: 1\n").unwrap_err().to_string();
    assert!(error.contains("memfw has not written"), "{error}");
    assert!(placed.remove().is_err());
    assert_eq!(fs::read_to_string(&placed.path).unwrap(), "# yours\n");
    // A user may have linked one of memfw's files on purpose.
    fs::remove_file(&placed.path).unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "# mine: 1\n").unwrap();
    std::os::unix::fs::symlink(&target, &placed.path).unwrap();
    assert_eq!(placed.look().unwrap(), FileState::Foreign("a link"));
    assert!(placed.put("# mine: 2\n").is_err() && placed.remove().is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "# mine: 1\n");
  }
}
