//! Changes of the mount table: mounting over a directory, or unmounting it, raises no other event.
//!
//! A change is reported without its kind. There is no timer: the kernel wakes the thread.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  io,
  os::unix::ffi::OsStringExt as _,
  path::{Path, PathBuf},
};

use crate::os::paths::read_own;

/// Longest mount table that is read, in bytes; a line has about 100.
const MAX_TABLE: u64 = 4 << 20;

/// All mount points, as this process sees them; none if they cannot be determined.
pub fn points() -> Vec<PathBuf> {
  let table = read_own(Path::new("/proc/self/mountinfo"), MAX_TABLE).ok().flatten();
  table.map(|table| points_of(&table)).unwrap_or_default()
}

/// Whether the file system of a directory is mounted read-only; `false` if that cannot be determined.
pub fn is_read_only(dir: &Path) -> bool {
  let found = rustix::fs::statvfs(dir);
  found.is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// The fifth word of each line (proc(5)), in which blanks and backslashes are written in octal digits.
fn points_of(table: &[u8]) -> Vec<PathBuf> {
  let lines = table.split(|byte| *byte == b'\n');
  let point = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescaped);
  lines.filter_map(point).collect()
}

fn unescaped(word: &[u8]) -> PathBuf {
  let mut bytes = Vec::with_capacity(word.len());
  let mut rest = word;
  while let Some((&byte, after)) = rest.split_first() {
    let digits = after.get(..3).filter(|_| byte == b'\\');
    let code =
      digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
    bytes.push(code.unwrap_or(byte));
    rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
  }
  PathBuf::from(OsString::from_vec(bytes))
}

/// Calls `changed` from a thread of its own after each change, until it answers `false`.
#[cfg(linux)]
pub fn watch(changed: Box<dyn Fn() -> bool + Send>) -> io::Result<()> {
  use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
  };
  let table =
    rustix::fs::open("/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
  let wait = move || {
    loop {
      // The table is readable at all times; a change is an exceptional condition (proc(5)).
      match poll(&mut [PollFd::new(&table, PollFlags::PRI)], None) {
        Ok(_) if changed() => {}
        Err(Errno::INTR) => {}
        Ok(_) | Err(_) => return,
      }
    }
  };
  std::thread::Builder::new().name("mounts".to_owned()).spawn(wait).map(drop)
}

/// This system does not report mounts.
#[cfg(not(linux))]
pub fn watch(_changed: Box<dyn Fn() -> bool + Send>) -> io::Result<()> {
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn mount_points_are_read_whatever_their_names() {
    let table = b"36 35 98:0 /mnt1 /w/MEMORY.md rw,noatime - ext4 /dev/root rw\n\
      37 35 98:0 / /w/a\\040b\\134 rw - ext4 /dev/root rw\nnonsense\n\xff \\ \\0 \\08 \\04";
    let points = ["/w/MEMORY.md", "/w/a b\\", "\\04"].map(PathBuf::from);
    assert_eq!(points_of(table), points);
    assert_eq!(points_of(b""), Vec::<PathBuf>::new());
  }
}
