//! Two locks in the data directory: one for the daemon, and one for writing memory files.
//!
//! Both are advisory locks of the kernel on memfw's own files, so no lock outlives its process and
//! nothing has to be cleaned up after a crash. The content of `daemon.lock` is for people; only the
//! lock itself decides.
#![forbid(unsafe_code)]

use std::{
  fmt,
  fs::{File, OpenOptions, TryLockError},
  io::{self, Read as _, Write as _},
  os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  clock::{Clock as _, SystemClock},
  paths::read_own,
  shown::Shown,
};

/// How long a daemon tries: `status` and `settle` hold the lock briefly while they check it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Longest table of locks that is read, in bytes; a line has about 60.
pub(super) const MAX_TABLE: u64 = 1 << 20;
/// Longest content of `daemon.lock` that is read, in bytes.
const MAX_NOTE: u64 = 200;

/// The holder of `daemon.lock`, as that process recorded itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
  /// Its process id; `None` until it has written it.
  pub pid: Option<u32>,
  /// The version of memfw that it runs; `None` until it has written it.
  pub version: Option<String>,
}

impl fmt::Display for Holder {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (self.pid, &self.version) {
      (Some(pid), Some(version)) => write!(f, "pid {pid}, version {}", version.escape_debug()),
      (Some(pid), None) => write!(f, "pid {pid}"),
      _ => f.write_str("pid not known"),
    }
  }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
  /// A daemon runs on this data directory.
  #[error("a daemon is already running ({holder}), it holds {}", Shown(path))]
  Running {
    /// The lock file.
    path: PathBuf,
    /// The process that holds the lock.
    holder: Holder,
  },
  /// Another process held the lock for longer than the caller was willing to wait.
  #[error(
    "another memfw{} has held {} for more than {} ms",
    holder.map(|holder| holder.to_string()).unwrap_or_default(), Shown(path), waited.as_millis()
  )]
  Busy {
    /// The lock file.
    path: PathBuf,
    /// How long this process waited.
    waited: Duration,
    /// The holder, where the kernel reports it.
    holder: Option<Writing>,
  },
  /// The system failed.
  #[error("cannot lock {}: {source}", Shown(path))]
  Io {
    /// The lock file.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
}

/// Held by the daemon for its lifetime.
#[derive(Debug)]
pub struct DaemonLock {
  _file: File,
}

impl DaemonLock {
  /// Takes the lock and writes the process id and `version` into it.
  pub fn acquire(data: &Path, version: &str) -> Result<Self, LockError> {
    let path = data.join("daemon.lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let mut file = open(&path).map_err(failed)?;
    if !poll(PATIENCE, || take(&file)).map_err(failed)? {
      let holder = read(&mut file).map_err(failed)?;
      return Err(LockError::Running { path, holder });
    }
    let note = format!("{} {version}\n", std::process::id());
    file.set_len(0).and_then(|()| file.write_all(note.as_bytes())).map_err(failed)?;
    Ok(Self { _file: file })
  }

  /// The holder of the lock; `None` if it is free.
  pub fn holder(data: &Path) -> Result<Option<Holder>, LockError> {
    let path = data.join("daemon.lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let mut options = OpenOptions::new();
    let mut file = match options.read(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
      Ok(file) => file,
      Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
      Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
      Ok(()) => Ok(None),
      Err(TryLockError::WouldBlock) => read(&mut file).map(Some).map_err(failed),
      Err(TryLockError::Error(error)) => Err(failed(error)),
    }
  }
}

/// The process that holds `write.lock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writing {
  /// Its process id.
  pub pid: u32,
  /// Whether it is stopped (SIGSTOP), and so keeps the lock until it is continued.
  pub is_halted: bool,
}

impl fmt::Display for Writing {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pid = self.pid;
    write!(f, " (pid {pid})")?;
    if self.is_halted {
      write!(f, ", which was stopped (`kill -CONT {pid}` continues it),")?;
    }
    Ok(())
  }
}

/// Held by a process that writes memory files, for one operation; released on drop.
#[derive(Debug)]
pub struct WriteLock {
  _file: File,
}

impl WriteLock {
  /// Takes the lock, waiting up to `patience` for its holder.
  pub fn acquire(data: &Path, patience: Duration) -> Result<Self, LockError> {
    let path = data.join("write.lock");
    let failed = |source| LockError::Io { path: path.clone(), source };
    let file = open(&path).map_err(failed)?;
    if poll(patience, || take(&file)).map_err(failed)? {
      Ok(Self { _file: file })
    } else {
      let holder = writing(data);
      Err(LockError::Busy { path, waited: patience, holder })
    }
  }
}

/// Whether a process holds the write lock of this data directory, according to the kernel's table
/// of locks. Only the inode is compared: on some file systems the kernel reports another device
/// there.
pub fn holds_write_lock(data: &Path, pid: i32) -> bool {
  write_lock_holders(data).contains(&pid)
}

fn write_lock_holders(data: &Path) -> Vec<i32> {
  let Ok(found) = data.join("write.lock").symlink_metadata() else { return vec![] };
  let table = read_own(Path::new("/proc/locks"), MAX_TABLE).ok().flatten();
  table.map(|table| holders(&table, found.dev(), found.ino())).unwrap_or_default()
}

/// Who holds the write lock now, where the kernel reports it.
fn writing(data: &Path) -> Option<Writing> {
  let mut pids = write_lock_holders(data).into_iter().filter_map(|pid| u32::try_from(pid).ok());
  let pid = pids.find(|pid| *pid > 0)?;
  Some(Writing { pid, is_halted: is_halted(pid) })
}

/// Who holds a lock on this inode, by the kernel's table. Lines are
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF`; those who wait have `->` in front.
pub(super) fn holders(table: &[u8], dev: u64, ino: u64) -> Vec<i32> {
  let holder = |line: &[u8]| {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace().skip(1);
    words.next().filter(|word| *word == "FLOCK")?;
    let pid: i32 = words.nth(2)?.parse().ok()?;
    let mut place = words.next()?.split(':');
    let (major, minor) = (place.next()?, place.next()?);
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let found: u64 = place.next()?.parse().ok()?;
    let is_here = (number(major)?, number(minor)?) == numbers(dev);
    (found == ino).then_some((pid, is_here))
  };
  let found: Vec<(i32, bool)> = table.split(|byte| *byte == b'\n').filter_map(holder).collect();
  // Some file systems, such as btrfs, have another number here than `stat` says.
  let is_told = found.iter().any(|(_, is_here)| *is_here);
  found.into_iter().filter(|(_, is_here)| *is_here || !is_told).map(|(pid, _)| pid).collect()
}

/// The major and minor number of a device, as Linux packs them (`makedev(3)`); only Linux has such a table.
fn numbers(dev: u64) -> (u32, u32) {
  let major = (dev >> 8) & 0xfff | (dev >> 32) & !0xfff;
  let minor = dev & 0xff | (dev >> 12) & !0xff;
  (major as u32, minor as u32)
}

/// Whether a process is stopped (SIGSTOP, Ctrl-Z, a debugger), according to the kernel.
pub fn is_halted(pid: u32) -> bool {
  let stat = read_own(Path::new(&format!("/proc/{pid}/stat")), MAX_TABLE).ok().flatten();
  // The name before it is in parentheses, and may contain parentheses.
  let state = stat.and_then(|stat| {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied()
  });
  matches!(state, Some(b'T' | b't'))
}

fn open(path: &Path) -> io::Result<File> {
  OpenOptions::new()
    .read(true)
    .write(true)
    .create(true)
    .truncate(false)
    .mode(0o600)
    .custom_flags(libc::O_NOFOLLOW)
    .open(path)
}

pub(super) fn take(file: &File) -> io::Result<bool> {
  match file.try_lock() {
    Ok(()) => Ok(true),
    Err(TryLockError::WouldBlock) => Ok(false),
    Err(TryLockError::Error(error)) => Err(error),
  }
}

/// Tries repeatedly, because the kernel's lock has no timeout. Most holders are done within a
/// millisecond, so the pauses begin there.
#[expect(clippy::disallowed_methods, reason = "the condition is the lock, and has a deadline")]
pub(super) fn poll(patience: Duration, take: impl Fn() -> io::Result<bool>) -> io::Result<bool> {
  let deadline = SystemClock.monotonic() + patience;
  let mut pause = Duration::from_millis(1);
  loop {
    if take()? {
      return Ok(true);
    }
    let left = deadline.saturating_sub(SystemClock.monotonic());
    if left.is_zero() {
      return Ok(false);
    }
    std::thread::sleep(pause.min(left));
    pause = (pause * 2).min(Duration::from_millis(20));
  }
}

fn read(file: &mut File) -> io::Result<Holder> {
  let mut note = Vec::new();
  file.take(MAX_NOTE).read_to_end(&mut note)?;
  let text = std::str::from_utf8(&note).unwrap_or_default();
  let mut words = text.split_whitespace();
  Ok(Holder {
    pid: words.next().and_then(|word| word.parse().ok()),
    version: words.next().map(str::to_owned),
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  const SHORT: Duration = Duration::from_millis(30);

  #[test]
  fn a_second_daemon_gets_the_pid_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(DaemonLock::holder(dir.path()).unwrap(), None);
    let first = DaemonLock::acquire(dir.path(), "1.2.3").unwrap();
    let own = Holder { pid: Some(std::process::id()), version: Some("1.2.3".to_owned()) };
    let error = DaemonLock::acquire(dir.path(), "1.2.4").unwrap_err();
    assert!(matches!(&error, LockError::Running { holder, .. } if *holder == own), "{error}");
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    assert_eq!(DaemonLock::holder(dir.path()).unwrap(), Some(own));

    drop(first);
    assert_eq!(DaemonLock::holder(dir.path()).unwrap(), None);
    // A shorter record must remove the longer one completely.
    let _again = DaemonLock::acquire(dir.path(), "1").unwrap();
    let holder = DaemonLock::holder(dir.path()).unwrap().unwrap();
    assert_eq!(holder.version.as_deref(), Some("1"));
  }

  #[test]
  fn a_daemon_starts_although_somebody_is_just_looking() {
    let dir = tempfile::tempdir().unwrap();
    let looker = open(&dir.path().join("daemon.lock")).unwrap();
    looker.try_lock_shared().unwrap();
    let starting = std::thread::spawn({
      let data = dir.path().to_owned();
      move || DaemonLock::acquire(&data, "1").map(drop)
    });
    looker.unlock().unwrap();
    starting.join().unwrap().unwrap();
  }

  #[test]
  fn the_write_lock_waits_for_its_holder_and_gives_up_at_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let first = WriteLock::acquire(dir.path(), SHORT).unwrap();
    let error = WriteLock::acquire(dir.path(), SHORT).unwrap_err();
    assert!(matches!(error, LockError::Busy { waited, .. } if waited == SHORT), "{error}");
    #[cfg(linux)]
    assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");

    let waiting = std::thread::spawn({
      let data = dir.path().to_owned();
      move || WriteLock::acquire(&data, Duration::from_secs(10)).map(drop)
    });
    drop(first);
    waiting.join().unwrap().unwrap();
  }

  #[test]
  fn the_holder_of_the_write_lock_is_known_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::process::id() as i32;
    assert!(!holds_write_lock(dir.path(), own));
    let lock = WriteLock::acquire(dir.path(), SHORT).unwrap();
    assert!(holds_write_lock(dir.path(), own) && !holds_write_lock(dir.path(), 1));
    drop(lock);
    assert!(!holds_write_lock(dir.path(), own));
    let table = b"1: POSIX  ADVISORY  WRITE 7 fe:00:11 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 fe:00:11 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 9 fe:00:11 0 EOF\nnonsense\n\xff";
    assert_eq!(holders(table, 0xfe00, 11), [8]);
    assert!(holders(table, 0xfe00, 1).is_empty());
    // Of equal numbers on several file systems the right one counts, where the kernel reports the
    // device.
    let table =
      b"1: FLOCK  ADVISORY  WRITE 8 fe:00:2 0 EOF\n2: FLOCK  ADVISORY  WRITE 9 00:1f:2 0 EOF\n";
    assert_eq!(holders(table, 0x1f, 2), [9]);
    assert_eq!(holders(table, 0x101, 2), [8, 9]);
  }

  #[test]
  fn a_broken_note_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = open(&dir.path().join("daemon.lock")).unwrap();
    file.write_all(&[0xff; 1000]).unwrap();
    file.lock().unwrap();
    assert_eq!(DaemonLock::holder(dir.path()).unwrap(), Some(Holder::default()));
  }
}
