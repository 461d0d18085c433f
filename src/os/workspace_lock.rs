//! One installation of memfw at a time on a workspace: a lock on the directory itself.
//!
//! Two installations with different ledgers would take each other's comments for forged ones. The
//! lock is one of the kernel on a descriptor of the directory (`flock`), so nothing is written into
//! the workspace, and it ends with its process. Where a file system has no such locks, there is no
//! lock, and no message.
#![forbid(unsafe_code)]

use std::{
  fs::{File, Metadata, OpenOptions, TryLockError},
  io,
  os::unix::{
    ffi::OsStrExt as _,
    fs::{MetadataExt as _, OpenOptionsExt as _},
  },
  path::Path,
  time::Duration,
};

use super::{lock, paths::read_own, user};

/// How long a daemon tries: commands hold the lock briefly while they check it.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest name of a process that is read, in bytes; the kernel cuts at 15.
const MAX_NAME: u64 = 64;
/// How often the kernel's table of locks is read until the holder is in it (a choice).
const READS: usize = 3;
/// The beginning of the name of a process of memfw.
const NAME: &str = "memfw";

/// A lock that a daemon holds for as long as it guards the directory.
#[derive(Debug)]
pub struct WorkspaceLock {
  /// `None` where the file system has no locks, or another program than memfw holds this one.
  file: Option<File>,
  identity: (u64, u64),
}

/// Another installation of memfw has the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
  /// The process id of its daemon; `None` where it is not known, as in another container.
  pub pid: Option<i32>,
}

impl WorkspaceLock {
  /// Takes the lock of a directory.
  pub fn acquire(dir: &Path) -> io::Result<Result<Self, Taken>> {
    let file = open(dir)?;
    let found = file.metadata()?;
    let identity = (found.dev(), found.ino());
    let is_locked = lock::poll(PATIENCE, || lock::take(&file));
    Ok(match is_locked {
      Ok(true) => Ok(Self { file: Some(file), identity }),
      Ok(false) => match holder(&found, None) {
        Some(taken) => Err(taken),
        None => Ok(Self { file: None, identity }),
      },
      Err(_) => Ok(Self { file: None, identity }),
    })
  }

  /// Whether the path still leads to the directory that was locked.
  pub fn is_of(&self, dir: &Path) -> bool {
    dir.metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
  }

  /// Whether this process holds the lock.
  pub fn is_held(&self) -> bool {
    self.file.is_some()
  }

  /// The installation that has a directory now, if any; this call keeps no lock. `own` is the
  /// daemon of this installation, which is named where it may be the holder.
  pub fn taken(dir: &Path, own: Option<u32>) -> Option<Taken> {
    let file = open(dir).ok()?;
    match file.try_lock_shared() {
      Err(TryLockError::WouldBlock) => holder(&file.metadata().ok()?, own),
      Ok(()) | Err(TryLockError::Error(_)) => None,
    }
  }
}

fn open(dir: &Path) -> io::Result<File> {
  OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK).open(dir)
}

/// The memfw that holds the lock of this directory; `None` where another program holds it, which
/// does not prevent guarding.
fn holder(dir: &Metadata, own: Option<u32>) -> Option<Taken> {
  let read = || {
    let table = read_own(Path::new("/proc/locks"), lock::MAX_TABLE).ok().flatten();
    table.map(|table| lock::holders(&table, dir.dev(), dir.ino())).unwrap_or_default()
  };
  // The table is read in pieces: a lock that somebody gives up meanwhile can hide the next line.
  let pids = (0..READS).map(|_| read()).find(|pids| !pids.is_empty()).unwrap_or_default();
  let own = own.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| pids.contains(pid));
  if own.is_some() {
    return Some(Taken { pid: own });
  }
  let is_visible = |pid: &i32| *pid > 0 && Path::new(&format!("/proc/{pid}")).exists();
  let seen: Vec<i32> = pids.into_iter().filter(is_visible).collect();
  if seen.is_empty() {
    return Some(Taken { pid: None });
  }
  let pid = seen.into_iter().find(|pid| is_memfw(*pid));
  pid.map(|pid| Taken { pid: Some(pid) })
}

/// Whether a process runs the program memfw, for this user or for root. Any process may take this
/// name; only the kernel knows which file it runs, and only tells its own user.
fn is_memfw(pid: i32) -> bool {
  let process = format!("/proc/{pid}");
  let name = read_own(Path::new(&format!("{process}/comm")), MAX_NAME).ok().flatten();
  let is_named = name.is_some_and(|name| name.starts_with(NAME.as_bytes()));
  let owner = Path::new(&process).metadata().map(|found| found.uid());
  let runs_memfw = || {
    let program = std::fs::read_link(format!("{process}/exe"));
    program.map_or_else(
      |error| error.kind() == io::ErrorKind::PermissionDenied,
      |path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(NAME.as_bytes())),
    )
  };
  is_named && owner.is_ok_and(|uid| uid == 0 || uid == user::effective_uid()) && runs_memfw()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_directory_is_locked_once_and_nothing_is_written_into_it() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(WorkspaceLock::taken(dir.path(), None), None);
    let first = WorkspaceLock::acquire(dir.path()).unwrap().unwrap();
    assert!(first.is_held() && first.is_of(dir.path()));
    let second = WorkspaceLock::acquire(dir.path()).unwrap();
    assert!(!second.is_ok_and(|second| second.is_held()), "one of the two has it");
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    drop(first);
    assert_eq!(WorkspaceLock::taken(dir.path(), None), None);
    let again = WorkspaceLock::acquire(dir.path()).unwrap().unwrap();
    let moved = dir.path().join("moved");
    assert!(again.is_held() && !again.is_of(&moved));
    assert!(WorkspaceLock::acquire(&moved).is_err(), "there is no such directory");
  }

  #[test]
  fn the_lock_of_another_program_keeps_nobody_from_guarding() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = std::process::Command::new("flock");
    other.arg(dir.path()).args(["sh", "-c", "echo locked; read line"]);
    other.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(mut other) = other.spawn() else {
      eprintln!("skipped: there is no `flock`");
      return;
    };
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(other.stdout.take().unwrap()), &mut line)
      .unwrap();
    let lock = WorkspaceLock::acquire(dir.path()).unwrap().unwrap();
    assert!(!lock.is_held());
    assert_eq!(WorkspaceLock::taken(dir.path(), None), None);
    drop(other.stdin.take());
    other.wait().unwrap();
  }
}
