//! One line that must reach a person when nothing else can be written.
//!
//! `status` reads problems from the ledger; when the ledger itself cannot be written, because the
//! disk is full or another program keeps it locked, the line goes into this file. The bytes of the
//! file are allocated at the start and overwritten in place, which needs no free space on most file
//! systems.
#![forbid(unsafe_code)]

use std::{
  fs::{File, OpenOptions},
  io,
  os::unix::fs::{FileExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
};

use super::paths::read_own;

/// The name of the file in memfw's data directory.
const NAME: &str = "alarm";
/// Its size in bytes: one block of the usual file systems.
const SIZE: usize = 4096;

/// The file, open.
#[derive(Debug)]
pub struct Alarm {
  file: File,
}

impl Alarm {
  /// Creates the file, or clears an existing one.
  pub fn open(data: &Path) -> io::Result<Self> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags).open(path(data))?;
    let alarm = Self { file };
    alarm.silence()?;
    Ok(alarm)
  }

  /// Writes the line; a longer line is truncated to the size of the file.
  pub fn raise(&self, line: &str) -> io::Result<()> {
    let mut bytes = line.replace('\n', " ").into_bytes();
    bytes.resize(SIZE, b' ');
    self.file.write_all_at(&bytes, 0)
  }

  /// Clears the line.
  pub fn silence(&self) -> io::Result<()> {
    self.raise("")
  }
}

/// The current line; `None` without an alarm.
pub fn raised(data: &Path) -> Option<String> {
  let bytes = read_own(&path(data), SIZE as u64).ok()??;
  // A truncated line may end within a character.
  let line: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
  let line = line.trim().to_owned();
  (!line.is_empty()).then_some(line)
}

fn path(data: &Path) -> PathBuf {
  data.join(NAME)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_line_is_there_until_it_is_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(raised(dir.path()), None);
    let alarm = Alarm::open(dir.path()).unwrap();
    assert_eq!(raised(dir.path()), None);
    alarm.raise("the disk is full\nat ü").unwrap();
    assert_eq!(raised(dir.path()).as_deref(), Some("the disk is full at ü"));
    let before = path(dir.path()).metadata().unwrap().len();
    alarm.raise(&"x".repeat(2 * SIZE)).unwrap();
    assert_eq!(path(dir.path()).metadata().unwrap().len(), before, "it needs no more room");
    alarm.silence().unwrap();
    assert_eq!(raised(dir.path()), None);
    alarm.raise("left behind by a daemon that was killed").unwrap();
    Alarm::open(dir.path()).unwrap();
    assert_eq!(raised(dir.path()), None);
  }
}
