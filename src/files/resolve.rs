//! From a path relative to the workspace root to something that can be checked, then opened.
//!
//! On Linux `openat2` does the walk in the kernel. Without it (before Linux 5.6, in an old container
//! filter, on other systems) the walk is made one directory at a time. A race can make this walk fail, but
//! not open a wrong file: the checked and the opened file are compared by inode.
#![forbid(unsafe_code)]

use std::{
  ffi::{OsStr, OsString},
  io,
  os::fd::{AsFd as _, BorrowedFd, OwnedFd},
  path::{Component, Path},
};

use rustix::{
  fs::{AtFlags, FileType, Mode, OFlags, Stat},
  io::Errno,
};

use super::fs::{Kind, Refusal, Stamp};

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolver {
  /// `openat2`, and stepwise where the kernel refuses it.
  #[cfg(linux)]
  Kernel,
  /// One directory at a time.
  Stepwise,
}

/// An entry that was found and is not opened yet; while it is held, it cannot become another one.
pub(super) enum Target {
  /// A path descriptor of the thing itself.
  #[cfg(linux)]
  Handle(OwnedFd),
  /// A directory and a name in it.
  Named(OwnedFd, OsString),
}

/// The facts of an inode that decide whether it is touched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
  pub(super) stamp: Stamp,
  pub(super) kind: Kind,
  pub(super) links: u64,
  pub(super) uid: u32,
}

#[cfg(linux)]
const DIRECTORY: OFlags =
  OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(linux))]
const DIRECTORY: OFlags =
  OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a root directory for walking; links in `path` are followed, as a person configured it.
pub(super) fn root(path: &Path) -> Result<OwnedFd, Refusal> {
  rustix::fs::open(path, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(refusal)
}

impl Resolver {
  /// Finds the entry at `rel` below `root`; the last name may be anything, links included.
  pub(super) fn find(self, root: BorrowedFd<'_>, rel: &Path) -> Result<Target, Refusal> {
    check(rel)?;
    match self {
      #[cfg(linux)]
      Self::Kernel => match beneath(root, rel) {
        // An old container filter answers EPERM for a system call that it does not know.
        Err(Errno::NOSYS | Errno::PERM) => stepwise(root, rel),
        answer => answer.map(Target::Handle).map_err(refusal),
      },
      Self::Stepwise => stepwise(root, rel),
    }
  }
}

impl Target {
  /// The facts, without opening.
  pub(super) fn facts(&self) -> Result<Facts, Refusal> {
    match self {
      #[cfg(linux)]
      Self::Handle(handle) => rustix::fs::fstat(handle),
      Self::Named(parent, name) => rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW),
    }
    .map(|stat| facts(&stat))
    .map_err(refusal)
  }

  /// Whether the system would allow writing to it, as far as that is known without opening it.
  pub(super) fn is_writable(&self) -> bool {
    match self {
      #[cfg(linux)]
      Self::Handle(handle) => {
        use std::os::fd::AsRawFd as _;
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
      }
      Self::Named(..) => false,
    }
  }

  /// Opens exactly the entry that was found.
  pub(super) fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match self {
      #[cfg(linux)]
      Self::Handle(handle) => {
        use std::os::fd::AsRawFd as _;
        // The link in /proc leads to the inode itself, even if its name leads to another one now.
        rustix::fs::open(format!("/proc/self/fd/{}", handle.as_raw_fd()), flags, Mode::empty())
      }
      Self::Named(parent, name) => {
        rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
      }
    }
  }
}

/// Only plain names: nothing absolute, empty, `.` or `..`.
fn check(rel: &Path) -> Result<(), Refusal> {
  let plain = rel.components().all(|part| matches!(part, Component::Normal(_)));
  if plain && rel.components().next().is_some() { Ok(()) } else { Err(Refusal::Escapes) }
}

#[cfg(linux)]
fn beneath(root: BorrowedFd<'_>, rel: &Path) -> rustix::io::Result<OwnedFd> {
  use rustix::fs::ResolveFlags;
  // `NO_XDEV`: a mount inside the workspace may be a file system with fewer guarantees.
  let rules = ResolveFlags::BENEATH
    | ResolveFlags::NO_SYMLINKS
    | ResolveFlags::NO_MAGICLINKS
    | ResolveFlags::NO_XDEV;
  let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
  // The kernel answers EAGAIN when a rename elsewhere disturbed the walk (openat2(2)).
  let mut answer = Err(Errno::AGAIN);
  for _ in 0..8 {
    answer = rustix::fs::openat2(root, rel, flags, Mode::empty(), rules);
    if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
      break;
    }
  }
  answer
}

fn stepwise(root: BorrowedFd<'_>, rel: &Path) -> Result<Target, Refusal> {
  let itself = OsStr::new("");
  let mount = Mount::of(root, itself)?;
  let mut parent = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty()).map_err(refusal)?;
  let mut names: Vec<&OsStr> = rel.iter().collect();
  let Some(last) = names.pop() else { return Err(Refusal::Escapes) };
  for name in names {
    parent = match rustix::fs::openat(&parent, name, DIRECTORY, Mode::empty()) {
      Ok(next) => next,
      Err(error) => return Err(not_a_directory(parent.as_fd(), name, error)),
    };
    if !Mount::of(parent.as_fd(), itself)?.is(mount) {
      return Err(Refusal::OtherMount);
    }
  }
  // The name must exist, as in the kernel's walk, and a mount over it is detected here.
  let is_here = Mount::of(parent.as_fd(), last)?.is(mount);
  if is_here { Ok(Target::Named(parent, last.to_owned())) } else { Err(Refusal::OtherMount) }
}

/// The mount of an entry, as far as the system reports it.
#[derive(Clone, Copy)]
struct Mount {
  /// The kernel's number of the mount, from Linux 5.8 on.
  id: Option<u64>,
  /// The device. On an overlay a file has that of its layer, so it only counts where there is no id.
  device: u64,
}

impl Mount {
  /// The mount of a name in a directory, or of the directory itself where the name is empty.
  fn of(parent: BorrowedFd<'_>, name: &OsStr) -> Result<Self, Refusal> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = if name.is_empty() {
      rustix::fs::fstat(parent)
    } else {
      rustix::fs::statat(parent, name, flags)
    };
    let device = facts(&stat.map_err(refusal)?).stamp.dev;
    Ok(Self { id: mount_id(parent, name), device })
  }

  fn is(self, other: Self) -> bool {
    match (self.id, other.id) {
      (Some(one), Some(other)) => one == other,
      _ => self.device == other.device,
    }
  }
}

#[cfg(linux)]
fn mount_id(parent: BorrowedFd<'_>, name: &OsStr) -> Option<u64> {
  use rustix::fs::StatxFlags;
  let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
  let found = rustix::fs::statx(parent, name, flags, StatxFlags::MNT_ID).ok()?;
  (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// Only the device is known.
#[cfg(not(linux))]
fn mount_id(_parent: BorrowedFd<'_>, _name: &OsStr) -> Option<u64> {
  None
}

/// A link in the middle of a path is refused as a link, and not because it is not a directory.
fn not_a_directory(parent: BorrowedFd<'_>, name: &OsStr, error: Errno) -> Refusal {
  match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
    Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Refusal::Symlink,
    _ => refusal(error),
  }
}

/// The refusal for a failed look-up.
pub(super) fn refusal(error: Errno) -> Refusal {
  match error {
    // A file where a directory should be: there is nothing under that name.
    Errno::NOENT | Errno::NOTDIR => Refusal::Absent,
    Errno::LOOP => Refusal::Symlink,
    Errno::XDEV => Refusal::OtherMount,
    Errno::ACCESS | Errno::PERM => Refusal::Permission,
    // An open with O_NONBLOCK of a leased file; a walk that was disturbed eight times.
    Errno::AGAIN => Refusal::Busy,
    error => Refusal::Io(io::Error::from(error)),
  }
}

/// The facts in a stat.
#[cfg_attr(
  target_os = "linux",
  expect(clippy::unnecessary_cast, reason = "the field types differ between systems")
)]
pub(super) fn facts(stat: &Stat) -> Facts {
  // A hostile time wraps; the value must only differ when the time differs.
  let nanos = |seconds: i64, nanos: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos);
  Facts {
    stamp: Stamp {
      dev: stat.st_dev as u64,
      ino: stat.st_ino as u64,
      size: stat.st_size as u64,
      mtime_ns: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
      ctime_ns: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    },
    kind: kind(FileType::from_raw_mode(stat.st_mode)),
    links: stat.st_nlink as u64,
    uid: stat.st_uid,
  }
}

/// The kind of a file type.
pub(super) fn kind(file_type: FileType) -> Kind {
  match file_type {
    FileType::RegularFile => Kind::File,
    FileType::Directory => Kind::Directory,
    FileType::Symlink => Kind::Symlink,
    FileType::Fifo => Kind::Fifo,
    FileType::Socket => Kind::Socket,
    FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
    FileType::Unknown => Kind::Other,
  }
}
