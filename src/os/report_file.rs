//! Writes a page at a path that a person named, and never overwrites a file that is not such a
//! page.
#![forbid(unsafe_code)]

use super::paths::PathError;
use std::{
  fs::{File, OpenOptions},
  io::{self, Read as _, Seek as _, Write as _},
  os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
};

/// No link is followed, and a pipe is refused without waiting for a writer.
const NO_SURPRISE: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;

/// Why a page was not written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
  /// Another file is at the path.
  #[error("something else is there: {0}")]
  Foreign(&'static str),
  /// An operation on the file failed.
  #[error("cannot {operation} `{}`: {error}", .path.display())]
  Io {
    /// The operation, as a verb.
    operation: &'static str,
    /// The file.
    path: PathBuf,
    /// Why it failed.
    error: io::Error,
  },
  /// A file of memfw's own could not be replaced.
  #[error(transparent)]
  Own(#[from] PathError),
}

impl PageError {
  fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
    let path = path.to_owned();
    move |error| Self::Io { operation, path: path.clone(), error }
  }
}

/// Writes a page that begins with `mark`, readable only by the user (0600). An existing file is
/// overwritten only if it is a regular file with one link that begins with this mark: the check and
/// the write use one descriptor, and no link is followed.
pub fn write_page(path: &Path, mark: &str, page: &str) -> Result<(), PageError> {
  let mut file = match open(path, true) {
    Ok(file) => file,
    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
      let mut file = open(path, false).map_err(|error| page_error(path, error))?;
      check(&mut file, path, mark)?;
      file.set_len(0).and_then(|()| file.rewind()).map_err(PageError::io("empty", path))?;
      file
    }
    Err(error) => return Err(PageError::io("create", path)(error)),
  };
  file.write_all(page.as_bytes()).map_err(PageError::io("write", path))?;
  file.sync_all().map_err(PageError::io("sync", path))
}

/// Writes metrics that begin with `mark`, readable by everybody, because the collector is another user. The file
/// has either the old content or all of the new one, and another file is not replaced.
pub fn write_metrics(path: &Path, mark: &str, text: &str) -> Result<(), PageError> {
  match OpenOptions::new().read(true).custom_flags(NO_SURPRISE).open(path) {
    Ok(mut file) => {
      check(&mut file, path, mark)?;
      super::paths::replace_own(path, text.as_bytes())?;
    }
    Err(error) if error.kind() == io::ErrorKind::NotFound => {
      super::paths::write_own(path, text.as_bytes(), 0o644)?;
    }
    Err(error) => return Err(page_error(path, error)),
  }
  Ok(())
}

fn open(path: &Path, create: bool) -> io::Result<File> {
  let mut options = OpenOptions::new();
  options.read(true).write(true).mode(0o600);
  options.custom_flags(NO_SURPRISE);
  options.create_new(create).open(path)
}

/// A link and a directory cannot be opened with these flags.
fn page_error(path: &Path, error: io::Error) -> PageError {
  match error.raw_os_error() {
    Some(libc::ELOOP) => PageError::Foreign("a link"),
    Some(libc::EISDIR) => PageError::Foreign("a directory"),
    _ => PageError::io("open", path)(error),
  }
}

fn check(file: &mut File, path: &Path, mark: &str) -> Result<(), PageError> {
  let found = file.metadata().map_err(PageError::io("inspect", path))?;
  if !found.is_file() {
    return Err(PageError::Foreign("no plain file"));
  }
  if found.nlink() != 1 {
    return Err(PageError::Foreign("a file with a second hard link"));
  }
  let mut head = Vec::with_capacity(mark.len());
  file.take(mark.len() as u64).read_to_end(&mut head).map_err(PageError::io("read", path))?;
  if head != mark.as_bytes() {
    return Err(PageError::Foreign("a file that memfw did not write"));
  }
  Ok(())
}

#[cfg(test)]
mod tests {
  #![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

  use std::os::unix::fs::{PermissionsExt as _, symlink};

  use super::*;

  const MARK: &str = "<!-- ours -->";

  fn page(text: &str) -> String {
    format!("{MARK}{text}")
  }

  fn why(result: Result<(), PageError>) -> String {
    result.unwrap_err().to_string()
  }

  #[test]
  fn a_page_is_private_and_replaced_only_by_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    write_page(&path, MARK, &page("a long first one")).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    write_page(&path, MARK, &page("second")).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page("second"));
    assert!(write_page(&dir.path().join("no/such"), MARK, &page("")).is_err());
  }

  #[test]
  fn metrics_are_replaced_whole_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memfw.prom");
    write_metrics(&path, MARK, &page("1")).unwrap();
    let inode = path.metadata().unwrap().ino();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    write_metrics(&path, MARK, &page("2")).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page("2"));
    assert_ne!(path.metadata().unwrap().ino(), inode, "a reader of the old file keeps it");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    std::fs::write(&path, "node_load1 2\n").unwrap();
    assert!(why(write_metrics(&path, MARK, &page("3"))).ends_with("memfw did not write"));
    symlink(&path, dir.path().join("link")).unwrap();
    assert!(why(write_metrics(&dir.path().join("link"), MARK, &page("3"))).ends_with("a link"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
  }

  #[test]
  fn nothing_of_anybody_else_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, text) in [("notes.md", "mine\n"), ("empty", ""), ("short", "<!--")] {
      std::fs::write(at(name), text).unwrap();
      let refused = why(write_page(&at(name), MARK, &page("x")));
      assert!(refused.ends_with("a file that memfw did not write"), "{name}: {refused}");
      assert_eq!(std::fs::read_to_string(at(name)).unwrap(), text);
    }
    // Links, including a link to such a page and a dangling link.
    write_page(&at("page"), MARK, &page("1")).unwrap();
    symlink(at("page"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    for name in ["link", "dangling"] {
      assert!(why(write_page(&at(name), MARK, &page("2"))).ends_with("a link"), "{name}");
    }
    assert!(!at("nowhere").exists());
    std::fs::hard_link(at("page"), at("second")).unwrap();
    assert!(why(write_page(&at("page"), MARK, &page("2"))).ends_with("a second hard link"));
    assert_eq!(std::fs::read_to_string(at("page")).unwrap(), page("1"));
    assert!(why(write_page(dir.path(), MARK, &page("2"))).ends_with("a directory"));
    let pipe = at("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(why(write_page(&pipe, MARK, &page("2"))).ends_with("no plain file"));
  }
}
