//! Reading OpenClaw's own files: size-capped, never a device or a pipe, never written.
//!
//! Links are followed, for a configuration file may well be one. What is read is hostile nevertheless:
//! the agent can write there.
#![forbid(unsafe_code)]

use std::{
  fs::OpenOptions,
  io::{self, Read as _},
  os::unix::fs::OpenOptionsExt as _,
  path::Path,
};

/// The bytes of a regular file of at most `limit` bytes; `None` if there is no such file.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
  // Without O_NONBLOCK a pipe under this name would keep us waiting for its writer.
  let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
  let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
    Ok(file) => file,
    Err(error) if is_absent(&error) => return Ok(None),
    Err(error) => return Err(error),
  };
  let metadata = file.metadata()?;
  if !metadata.is_file() {
    return Err(io::Error::other("it is not a regular file"));
  }
  let mut bytes = Vec::new();
  file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
  if bytes.len() as u64 > limit {
    return Err(io::Error::other(format!("it has more than {limit} bytes")));
  }
  Ok(Some(bytes))
}

/// Whether an error says that there is no such file.
fn is_absent(error: &io::Error) -> bool {
  matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_regular_file_is_read_up_to_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.json");
    assert_eq!(read(&path, 10).unwrap(), None);
    assert_eq!(read(&path.join("below"), 10).unwrap(), None);
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&path, "0123456789").unwrap();
    assert_eq!(read(&path, 10).unwrap().as_deref(), Some(&b"0123456789"[..]));
    assert!(read(&path, 9).is_err());
    assert!(read(dir.path(), 10).is_err(), "a directory");
    assert!(read(Path::new("/dev/zero"), 10).is_err(), "a device");
  }
}
