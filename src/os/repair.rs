//! Small repairs of memfw's own files: restricting their permissions, and removing the leftovers of
//! a crash.
//!
//! Only memfw's own directories are changed, and in them only files that belong to the user and are
//! not links. Nothing is opened: closing a handle of the ledger would drop the locks that SQLite
//! holds on it.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "own files alone, never memory")]

use std::{
  fs::{self, Metadata, Permissions},
  io,
  os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
  path::{Path, PathBuf},
};

use super::user;

/// Temporary files older than this, in seconds, have no writer any more: writing one takes
/// milliseconds.
const ABANDONED: i64 = 3600;

/// Removes the rights of others on a file or directory of memfw. Returns the previous mode if
/// others had rights; `None` if there was nothing to do, or it is not memfw's.
pub fn close(path: &Path) -> io::Result<Option<u32>> {
  let Some(found) = own(path)? else { return Ok(None) };
  let mode = found.mode() & 0o7777;
  if mode & 0o077 == 0 || !(found.is_file() || found.is_dir()) {
    return Ok(None);
  }
  fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
  Ok(Some(mode))
}

/// Whether others have rights on a file or directory of memfw.
pub fn is_open(path: &Path) -> bool {
  let found = own(path).ok().flatten();
  found.is_some_and(|found| (found.is_file() || found.is_dir()) && found.mode() & 0o077 != 0)
}

/// The regular files of a directory of memfw, by name.
pub fn files(dir: &Path) -> Vec<PathBuf> {
  let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
  let is_own_file = |path: &PathBuf| own(path).ok().flatten().is_some_and(|found| found.is_file());
  let mut found: Vec<PathBuf> =
    entries.flatten().map(|entry| entry.path()).filter(is_own_file).collect();
  found.sort();
  found
}

/// Whether this is a socket of memfw.
pub fn is_socket(path: &Path) -> bool {
  own(path).ok().flatten().is_some_and(|found| found.file_type().is_socket())
}

/// Removes a socket of memfw. The caller makes sure that it has no listener.
pub fn remove_socket(path: &Path) -> io::Result<bool> {
  if !is_socket(path) {
    return Ok(false);
  }
  fs::remove_file(path).map(|()| true)
}

/// Abandoned temporary files of memfw in a directory. `now` is in seconds since 1970.
pub fn abandoned(dir: &Path, now: i64) -> Vec<PathBuf> {
  let is_old = |path: &PathBuf| {
    path.symlink_metadata().is_ok_and(|found| found.mtime() < now.saturating_sub(ABANDONED))
  };
  files(dir).into_iter().filter(|path| is_temporary(path) && is_old(path)).collect()
}

/// Removes one abandoned temporary file.
pub fn remove_abandoned(path: &Path, now: i64) -> io::Result<bool> {
  let is_abandoned =
    path.parent().is_some_and(|dir| abandoned(dir, now).iter().any(|one| one == path));
  if !is_abandoned {
    return Ok(false);
  }
  fs::remove_file(path).map(|()| true)
}

/// Whether a name is one that memfw gives to a file that is being written: `.NAME.<16 hex
/// digits>.tmp`, or `NAME.format-<digits>.tmp`.
fn is_temporary(path: &Path) -> bool {
  let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
  let Some(rest) = name.strip_suffix(".tmp") else { return false };
  let hex = |tag: &str| tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
  let digits = |tag: &str| !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_digit());
  let is_written = rest.starts_with('.') && rest.rsplit_once('.').is_some_and(|(_, tag)| hex(tag));
  is_written || rest.rsplit_once(".format-").is_some_and(|(_, tag)| digits(tag))
}

/// The metadata of a path that belongs to the user; links are not followed.
fn own(path: &Path) -> io::Result<Option<Metadata>> {
  match path.symlink_metadata() {
    Ok(found) => Ok(Some(found).filter(|found| found.uid() == user::effective_uid())),
    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
    Err(error) => Err(error),
  }
}

#[cfg(test)]
mod tests {
  use std::os::unix::{fs::symlink, net::UnixListener};

  use super::*;

  #[test]
  fn what_is_open_is_closed_once_and_links_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("a"), dir.path().join("link"));
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
    symlink(&file, &link).unwrap();
    assert!(is_open(&file) && !is_open(&link));
    assert_eq!(close(&link).unwrap(), None);
    assert_eq!(close(&file).unwrap(), Some(0o664));
    assert_eq!(close(&file).unwrap(), None);
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(close(&dir.path().join("none")).unwrap(), None);
    assert_eq!(files(dir.path()), [file]);
  }

  #[test]
  fn only_sockets_and_our_own_old_temporary_files_are_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gate.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let names = [".key.0123456789abcdef.tmp", "l.sqlite.format-4.tmp", "notes.tmp", ".a.b.tmp"];
    let paths = names.map(|name| dir.path().join(name));
    for path in &paths {
      fs::write(path, "x").unwrap();
    }
    assert!(!remove_socket(&paths[2]).unwrap() && paths[2].exists());
    assert!(remove_socket(&socket).unwrap() && !socket.exists());
    assert!(abandoned(dir.path(), 0).is_empty(), "their writer may be at work");
    let later = i64::MAX;
    assert_eq!(abandoned(dir.path(), later), [paths[0].clone(), paths[1].clone()]);
    assert!(!remove_abandoned(&paths[3], later).unwrap() && paths[3].exists());
    assert!(remove_abandoned(&paths[0], later).unwrap() && !paths[0].exists());
  }
}
