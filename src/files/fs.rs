//! The door to memory files: two traits, their types and their errors.
//!
//! [`Fs`] finds and opens, [`MemoryFile`] is one open file. [`crate::files::RealFs`] implements them on
//! the kernel; a simulated file system can implement them with an interleaving point in each call.
//! No policy here: rules about what may be opened come in as [`TargetRules`].
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  fmt, io,
  path::{Path, PathBuf},
  sync::mpsc::Receiver,
  time::Duration,
};

use super::probe::Rung;
use crate::os::{clock::Clock, paths::LEASE_RETRY, shown::Shown};

/// Distinguishes two versions of a file without reading it. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
  /// Device of the file system.
  pub dev: u64,
  /// Inode number.
  pub ino: u64,
  /// Length in bytes.
  pub size: u64,
  /// Last change of the content; a writer can set it.
  pub mtime_ns: i64,
  /// Last change of content or inode, by the kernel; no program can set it.
  pub ctime_ns: i64,
}

/// Before Linux 6.13 file times advance by the jiffy (1 to 10 ms); this is twice the longest one.
const RACY_NS: i64 = 20_000_000;
/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

impl Stamp {
  /// Whether both stamps are of the same inode.
  pub fn same_file(&self, other: &Self) -> bool {
    (self.dev, self.ino) == (other.dev, other.ino)
  }

  /// Whether a change after this stamp is sure to show in the next one. `taken_at` is the time in
  /// microseconds UTC when the stamp was taken; within the step of the file system's times after the
  /// file's last change, and at least for 20 ms, a second change may have equal times, so the file must
  /// be hashed once more later. A stamp from the future is as good as an old one: the clock was set
  /// back, and the next change takes its time from it.
  pub fn is_settled(&self, taken_at: i64) -> bool {
    self.settles_in(taken_at).is_zero()
  }

  /// How long after `taken_at` a change is sure to show.
  pub fn settles_in(&self, taken_at: i64) -> Duration {
    let taken_ns = taken_at.saturating_mul(1000);
    let step_ns = u64::try_from(self.time_step().as_nanos()).unwrap_or(u64::MAX);
    let racy_ns = RACY_NS.unsigned_abs();
    let young_ns = if step_ns < racy_ns { racy_ns } else { step_ns + racy_ns };
    Duration::from_nanos(young_ns.saturating_sub(taken_ns.abs_diff(self.changed_ns(taken_ns))))
  }

  /// Whether the file changed after `taken_at`, in microseconds UTC, as its times say: the clock was set back since.
  pub fn is_ahead(&self, taken_at: i64) -> bool {
    let taken_ns = taken_at.saturating_mul(1000);
    self.changed_ns(taken_ns) > taken_ns
  }

  /// In which steps the times of this file advance, at most. A file system that keeps whole seconds
  /// (ext4 with inodes of 128 bytes) or every second one (vfat) is known by the time that no
  /// program can set; where that time is finer, it advances by the jiffy or better.
  pub fn time_step(&self) -> Duration {
    match self.ctime_ns.rem_euclid(2 * SECOND) {
      0 => Duration::from_secs(2),
      SECOND => Duration::from_secs(1),
      _ => Duration::from_millis(10),
    }
  }

  /// When the file changed last, as its times say at `now_ns`. A writer can set `mtime_ns` to anything,
  /// so one from the future does not count.
  pub fn changed_ns(&self, now_ns: i64) -> i64 {
    if self.mtime_ns > now_ns { self.ctime_ns } else { self.mtime_ns.max(self.ctime_ns) }
  }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
  /// A regular file.
  File,
  /// A directory.
  Directory,
  /// A symbolic link.
  Symlink,
  /// A named pipe.
  Fifo,
  /// A socket.
  Socket,
  /// A character or block device.
  Device,
  /// Something else.
  Other,
}

impl fmt::Display for Kind {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(match self {
      Self::File => "file",
      Self::Directory => "directory",
      Self::Symlink => "symbolic link",
      Self::Fifo => "named pipe",
      Self::Socket => "socket",
      Self::Device => "device",
      Self::Other => "special file",
    })
  }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
  /// The name, any bytes but `/` and NUL.
  pub name: OsString,
  /// Its kind, not following links.
  pub kind: Kind,
}

/// The names in a directory, sorted, without `.` and `..`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
  /// The names.
  pub entries: Vec<Entry>,
  /// Whether there are more than the limit.
  pub truncated: bool,
}

/// The rules for opening and writing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRules {
  /// Largest file that is read, in bytes; larger ones are refused.
  pub max_bytes: u64,
  /// Numeric uids whose files are written, in addition to memfw's own effective uid.
  pub owners: Vec<u32>,
}

/// How memfw may use an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
  /// Read and written.
  Full,
  /// Only read.
  ReadOnly(Reason),
}

/// Why a file is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
  /// It has this many names; a write would alter the other ones too.
  HardLinked(u64),
  /// It belongs to this uid, which is neither memfw's nor configured.
  ForeignOwner(u32),
  /// Its mode does not allow memfw to write.
  NotWritable,
  /// Its file system is mounted read-only.
  ReadOnlyFileSystem,
  /// It is immutable or append-only.
  Immutable,
  /// It is being executed.
  Executing,
}

impl fmt::Display for Reason {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::HardLinked(links) => write!(f, "it has {links} hard links"),
      Self::ForeignOwner(uid) => write!(f, "it belongs to uid {uid}, which is not configured"),
      Self::NotWritable => f.write_str("its permissions do not allow writing"),
      Self::ReadOnlyFileSystem => f.write_str("its file system is mounted read-only"),
      Self::Immutable => f.write_str("it is immutable or append-only"),
      Self::Executing => f.write_str("it is being executed"),
    }
  }
}

/// Why a target was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
  /// There is nothing under that name.
  #[error("it does not exist")]
  Absent,
  /// It is something other than a regular file (or, for a root, than a directory).
  #[error("it is a {0}")]
  NotRegular(Kind),
  /// The name, or a directory on the way, is a symbolic link.
  #[error("a symbolic link is on its path")]
  Symlink,
  /// It is larger than the rules allow.
  #[error("it has {size} bytes, more than the limit of {limit}")]
  TooLarge {
    /// Its size in bytes.
    size: u64,
    /// The limit in bytes.
    limit: u64,
  },
  /// memfw may not read it.
  #[error("permission denied")]
  Permission,
  /// Its directory belongs to this uid, which is not memfw's, so the new file would not belong to that
  /// user.
  #[error("its directory belongs to uid {0}, which would not own the file")]
  ForeignDirectory(u32),
  /// The name is absolute, empty or contains `..`.
  #[error("the path leads out of the workspace")]
  Escapes,
  /// It is on another file system or mount than the workspace root.
  #[error("it is on another mount than the workspace")]
  OtherMount,
  /// Another program holds a lease on it; a later attempt may succeed.
  #[error("another program holds a lease on it")]
  Busy,
  /// It was replaced while it was being opened; another attempt may succeed.
  #[error("it was replaced while it was being opened")]
  Replaced,
  /// The system failed otherwise.
  #[error("{0}")]
  Io(#[source] io::Error),
}

impl Refusal {
  /// Whether another attempt may succeed in a moment.
  pub fn is_transient(&self) -> bool {
    matches!(self, Self::Busy | Self::Replaced)
  }
}

/// A target was not opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {}: {refusal}", Shown(path))]
pub struct OpenError {
  /// The absolute path.
  pub path: PathBuf,
  /// Why not.
  #[source]
  pub refusal: Refusal,
}

/// An operation on a path or an open file failed.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
  /// A system call failed.
  #[error("cannot {op} {}: {source}", Shown(path))]
  Io {
    /// What was tried, as a verb.
    op: &'static str,
    /// The absolute path.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
  /// The path itself may not be used.
  #[error("cannot examine {}: {refusal}", Shown(path))]
  Refused {
    /// The absolute path.
    path: PathBuf,
    /// Why not.
    refusal: Refusal,
  },
  /// A write to a file that is only read.
  #[error("{} is not written: {reason}", Shown(path))]
  ReadOnly {
    /// The absolute path.
    path: PathBuf,
    /// Why it is only read.
    reason: Reason,
  },
  /// The file outgrew the limit after it was opened.
  #[error("{} has {size} bytes, more than the limit of {limit}", Shown(path))]
  TooLarge {
    /// The absolute path.
    path: PathBuf,
    /// Its size in bytes.
    size: u64,
    /// The limit in bytes.
    limit: u64,
  },
  /// The kernel or file system never gives a lease on this file.
  #[error("no lease is available on {}: {source}", Shown(path))]
  LeaseUnsupported {
    /// The absolute path.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
  /// An operation that needs a lease was tried without one, or with one that is too old.
  #[error("the lease on {} is missing or too old", Shown(path))]
  NotLeased {
    /// The absolute path.
    path: PathBuf,
  },
  /// Only a part of an append was written (a full disk). It is not repeated, because another program
  /// may have appended since.
  #[error("only {written} of {wanted} bytes were appended to {}", Shown(path))]
  ShortAppend {
    /// The absolute path.
    path: PathBuf,
    /// Bytes that are in the file now.
    written: usize,
    /// Bytes that should be.
    wanted: usize,
  },
  /// A replacement has another length than what it replaces.
  #[error("{found} bytes cannot replace {expected} bytes in {}", Shown(path))]
  UnequalLength {
    /// The absolute path.
    path: PathBuf,
    /// Length of the present content.
    expected: usize,
    /// Length of the replacement.
    found: usize,
  },
}

impl FsError {
  /// Wraps a failed system call.
  pub fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
    Self::Io { op, path: path.to_owned(), source }
  }
}

/// An open workspace root.
pub trait RootDir {
  /// Its absolute path, without symbolic links.
  fn path(&self) -> &Path;
  /// Whether the path still leads to the directory that was opened (false after it was moved,
  /// deleted, or covered by a mount).
  fn is_current(&self) -> bool;
}

/// A file system as the file protocol sees it. Paths are relative to an open root; no call follows
/// a symbolic link or leaves the root's mount.
pub trait Fs {
  /// An open workspace root.
  type Root: RootDir;
  /// An open memory file.
  type File: MemoryFile;

  /// Opens a workspace directory. The configured path itself may contain symbolic links.
  fn open_root(&self, path: &Path) -> Result<Self::Root, OpenError>;
  /// The stamp of the entry at `rel`, a link's own if it is a link; `None` if nothing is there.
  fn stamp(&self, root: &Self::Root, rel: &Path) -> Result<Option<Stamp>, FsError>;
  /// The kind of the entry at `rel`; `None` if nothing is there.
  fn kind(&self, root: &Self::Root, rel: &Path) -> Result<Option<Kind>, FsError>;
  /// Opens a regular file. Must not be called for a file on which this process holds a lease: the
  /// open would wait for itself.
  fn open(
    &self,
    root: &Self::Root,
    rel: &Path,
    rules: &TargetRules,
  ) -> Result<Self::File, OpenError>;
  /// Opens a file like [`Fs::open`], and repeats a refusal that may pass for up to `patience`: the kernel
  /// reports the first attempt to the holder of a lease, who then releases it.
  fn open_within(
    &self,
    root: &Self::Root,
    rel: &Path,
    rules: &TargetRules,
    patience: Duration,
    clock: &dyn Clock,
  ) -> Result<Self::File, OpenError> {
    let mut since = None;
    loop {
      match self.open(root, rel, rules) {
        Err(error) if error.refusal.is_transient() && !patience.is_zero() => {
          let now = clock.monotonic();
          if now.saturating_sub(*since.get_or_insert(now)) >= patience {
            return Err(error);
          }
          clock.pause(LEASE_RETRY);
        }
        opened => return opened,
      }
    }
  }
  /// Begins to open a file on which another program keeps a lease, on a thread of its own: the open waits until
  /// that program gives way, or the kernel breaks its lease. `None` where that is not supported.
  fn open_waiting(
    &self,
    _root: &Self::Root,
    _rel: &Path,
    _rules: &TargetRules,
  ) -> Option<Receiver<Result<Self::File, OpenError>>> {
    None
  }
  /// Creates an empty file where none exists, readable by its owner alone, durably. Only for a person
  /// who restores a deleted file; other implementations need not support it.
  fn create(&self, root: &Self::Root, rel: &Path) -> Result<(), OpenError> {
    let refusal = Refusal::Io(io::ErrorKind::Unsupported.into());
    Err(OpenError { path: root.path().join(rel), refusal })
  }
  /// Content and stamp of a file that may be read and written and that no other program has open;
  /// `None` otherwise, for any reason. For a first scan of many files.
  fn glance(&self, root: &Self::Root, rel: &Path, rules: &TargetRules) -> Option<(Vec<u8>, Stamp)> {
    let mut file = self.open(root, rel, rules).ok().filter(|file| file.access() == Touch::Full)?;
    let leased = file.try_lease().ok()?;
    let found = leased.then(|| Some((file.stamp().ok()?, file.read_all().ok()?)));
    file.release();
    found.flatten().map(|(stamp, bytes)| (bytes, stamp))
  }
  /// How the files below a root can be edited.
  fn rung(&self, root: &Self::Root) -> Rung;

  /// Whether two changes of a file below a root can have equal times ([`super::Probe::coarse_times`]).
  fn has_coarse_times(&self, root: &Self::Root) -> bool;
  /// At most `limit` names in the directory `rel` (empty for the root itself).
  fn list(&self, root: &Self::Root, rel: &Path, limit: usize) -> Result<Listing, FsError>;
}

/// One open memory file. All reading and writing uses its one descriptor.
pub trait MemoryFile {
  /// The absolute path under which it was opened, for messages; the file may have moved since.
  fn path(&self) -> &Path;
  /// What may be done with it.
  fn access(&self) -> Touch;
  /// Checks the open file against the rules again (a second link, another owner, growth) and
  /// updates [`Self::access`]; never upwards from read-only. For descriptors kept between events.
  fn recheck(&mut self, rules: &TargetRules) -> Result<Touch, OpenError>;
  /// Requests the write lease. `false`: another program has the file open or mapped, try again later.
  /// [`FsError::LeaseUnsupported`]: there will never be one.
  fn try_lease(&mut self) -> Result<bool, FsError>;
  /// How long the lease has been held; `None` without one. Nothing may be written from
  /// [`crate::files::lease::LIMIT`] on.
  fn leased_for(&self) -> Option<Duration>;
  /// Whether another program waits for the held lease; `false` if that cannot be determined.
  fn is_awaited(&self) -> bool {
    false
  }
  /// Releases the lease; does nothing without one.
  fn release(&mut self);
  /// The whole content, bounded by the rules' size cap.
  fn read_all(&self) -> Result<Vec<u8>, FsError>;
  /// Up to `len` bytes at `offset`; fewer only at the end of the file.
  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError>;
  /// Writes all of `bytes` at `offset`, in one call unless the system writes short.
  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError>;
  /// Truncates the file to `len` bytes; an error if that would extend it.
  fn truncate(&self, len: u64) -> Result<(), FsError>;
  /// Adds `bytes` at the end with one appending write.
  fn append(&self, bytes: &[u8]) -> Result<(), FsError>;
  /// Makes the content durable.
  fn sync(&self) -> Result<(), FsError>;
  /// The stamp of the open inode, even if its path leads to another one now.
  fn stamp(&self) -> Result<Stamp, FsError>;
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_stamp_taken_right_after_a_change_is_not_settled() {
    let stamp = Stamp { dev: 1, ino: 2, size: 3, mtime_ns: 5_000_000_000, ctime_ns: 1 };
    assert!(!stamp.is_settled(5_000_000));
    assert!(!stamp.is_settled(5_019_999));
    assert!(stamp.is_settled(5_020_000));
    // A file time from the far future: a time that a writer set proves nothing, and one of the
    // kernel means that the clock was set back. No calculation overflows.
    let future = Stamp { mtime_ns: i64::MAX, ..stamp };
    assert!(future.is_settled(5_020_000));
    assert!(!Stamp { ctime_ns: 5_010_000_000, ..future }.is_settled(5_020_000));
    assert!(Stamp { ctime_ns: i64::MAX, ..stamp }.is_settled(5_020_000));
    assert!(!Stamp { ctime_ns: 5_030_000_000, ..stamp }.is_settled(5_020_000));
    assert!(Stamp { mtime_ns: i64::MIN, ctime_ns: i64::MIN, ..stamp }.is_settled(i64::MAX));
  }

  #[test]
  fn a_stamp_of_whole_seconds_is_settled_when_the_next_change_shows() {
    // (last change, how long a second change may carry the same time), in milliseconds.
    for (changed, young) in [(6_000, 2_020), (7_000, 1_020), (6_010, 20), (6_500, 20)] {
      let ns = changed * 1_000_000;
      let stamp = Stamp { dev: 1, ino: 2, size: 3, mtime_ns: ns, ctime_ns: ns };
      assert!(!stamp.is_settled((changed + young) * 1000 - 1), "{changed}");
      assert!(stamp.is_settled((changed + young) * 1000), "{changed}");
      let left = stamp.settles_in((changed + 5) * 1000);
      assert_eq!(left.as_millis() as i64, young - 5, "{changed}");
    }
  }
}
