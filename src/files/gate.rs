//! Permission events of the kernel (fanotify), and dropping the privileges that they need.
//!
//! A reader of a file in a watched directory waits in the kernel until [`Barrier::allow`]. Closing the
//! barrier, also by the death of this process, lets every reader through; no reader is ever refused here.
//! [`crate::gate`] decides what may be read.
//!
//! Two traps of the kernel (both tried on 6.18) shape this file. An event has a descriptor that the
//! kernel opens while this process reads the event; if that open fails, the kernel refuses the reader. So
//! there are always enough descriptors, and the open may block: it waits for a lease on that file like
//! any other open. Events about writes are read from a separate group, later and without blocking,
//! because their descriptors would break the lease under which a file is being redacted.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeMap,
  ffi::OsString,
  io,
  os::{fd::AsRawFd as _, unix::ffi::OsStringExt as _},
  path::{Path, PathBuf},
  sync::{Mutex, PoisonError},
};

use nix::{
  errno::Errno,
  sys::fanotify::{
    EventFFlags, Fanotify, FanotifyEvent, InitFlags, MarkFlags, MaskFlags, Response,
  },
};
use rustix::{
  event::{PollFd, PollFlags, poll},
  fs::{CWD, Mode, OFlags, ResolveFlags},
  process::DumpableBehavior,
  thread::{CapabilitySet, CapabilitySets},
};

use super::{
  fs::{Kind, Stamp},
  resolve::facts,
};
use crate::os::{Shown, user};

/// Descriptors that one call of the kernel hands out at most: events of 24 bytes in 4096.
pub const MAX_BATCH: usize = 170;
/// Group id of the kernel for events about opening and reading.
const READERS: MaskFlags =
  MaskFlags::FAN_OPEN_PERM.union(MaskFlags::FAN_ACCESS_PERM).union(MaskFlags::FAN_EVENT_ON_CHILD);
const WRITERS: MaskFlags = MaskFlags::FAN_MODIFY.union(MaskFlags::FAN_EVENT_ON_CHILD);

/// Why readers cannot be made to wait.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
  /// This process lacks the capability.
  #[error(
    "the gate needs `CAP_SYS_ADMIN` to make readers wait\nhint: start it as a system service (`systemd/memfw-gate@.service`), or with `sudo`"
  )]
  NotPermitted,
  /// The kernel cannot do it.
  #[error(
    "this kernel has no fanotify permission events ({0})\nhint: it needs `CONFIG_FANOTIFY_ACCESS_PERMISSIONS`; without a gate `memfw status` shows how long poison was readable"
  )]
  Unsupported(io::Error),
  /// A directory belongs to another user, whose readers must not be stopped.
  #[error(
    "{} belongs to uid {owner}, not to uid {own}\nhint: to make its readers wait, name it on the \
    command line: `--workspace DIR`",
    Shown(path)
  )]
  ForeignDirectory {
    /// The directory.
    path: PathBuf,
    /// The uid of its owner.
    owner: u32,
    /// The user of this process.
    own: u32,
  },
  /// A directory cannot be watched.
  #[error("cannot watch the readers of {}: {source}", Shown(path))]
  Watch {
    /// The directory.
    path: PathBuf,
    /// The system's answer.
    source: io::Error,
  },
  /// Rights could not be given up.
  #[error("cannot drop the privileges of the start: {0}")]
  Rights(#[source] io::Error),
  /// Events are not available.
  #[error("cannot wait for readers: {0}")]
  Events(#[source] io::Error),
}

/// A file, independent of its name: device and inode number.
pub type FileId = (u64, u64);

/// A reader that waits for [`Barrier::allow`].
#[derive(Debug)]
pub struct Reader {
  event: FanotifyEvent,
}

impl Reader {
  /// The process, in the namespace of this process; 0 for one without a number in it.
  pub fn pid(&self) -> i32 {
    self.event.pid()
  }

  /// Whether the file is open already, and is read.
  pub fn is_reading(&self) -> bool {
    self.event.mask().contains(MaskFlags::FAN_ACCESS_PERM)
  }

  /// The file's stamp now; `None` for anything but a regular file, or if it cannot be read.
  pub fn stamp(&self) -> Option<Stamp> {
    stamp(&self.event)
  }

  /// The path by which the file was opened, as this process sees it: a path from another mount can look
  /// like any other, and that of a deleted file ends with ` (deleted)`.
  pub fn path(&self) -> Option<PathBuf> {
    let fd = self.event.fd()?;
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let link = rustix::fs::readlink(link, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(link.into_bytes())))
  }
}

/// Two groups of the kernel: readers, who wait, and writes, which are only reported.
#[derive(Debug)]
pub struct Barrier {
  readers: Fanotify,
  writes: Fanotify,
  /// Directories with both marks, so that none is marked twice.
  watched: Mutex<BTreeMap<PathBuf, FileId>>,
}

impl Barrier {
  /// A barrier without directories. Needs `CAP_SYS_ADMIN`; nothing after this does.
  pub fn new() -> Result<Self, GateError> {
    let opened = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
    let quiet = opened | EventFFlags::O_NOATIME;
    let group = InitFlags::FAN_CLOEXEC | InitFlags::FAN_NONBLOCK;
    let readers = Fanotify::init(group | InitFlags::FAN_CLASS_CONTENT, quiet).map_err(refused)?;
    // Not blocking: an event whose file is under a lease is about a redaction by memfw.
    let writes =
      Fanotify::init(group | InitFlags::FAN_CLASS_NOTIF, quiet | EventFFlags::O_NONBLOCK)
        .map_err(refused)?;
    Ok(Self { readers, writes, watched: Mutex::default() })
  }

  /// Makes readers of the files directly in this directory wait; returns whether that is new. Without
  /// `anybody` a directory of another user is refused: otherwise a daemon could stop all readers of the
  /// machine.
  pub fn watch(&self, dir: &Path, anybody: bool) -> Result<bool, GateError> {
    let failed = |source: io::Error| GateError::Watch { path: dir.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = rustix::fs::openat2(CWD, dir, flags, Mode::empty(), resolve)
      .map_err(|error| failed(error.into()))?;
    let found = rustix::fs::fstat(&open).map_err(|error| failed(error.into()))?;
    let own = user::effective_uid();
    if found.st_uid != own && !anybody {
      return Err(GateError::ForeignDirectory { path: dir.to_owned(), owner: found.st_uid, own });
    }
    let id = (found.st_dev, found.st_ino);
    let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
    if watched.get(dir) == Some(&id) {
      return Ok(false);
    }
    let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_ONLYDIR;
    for (group, mask) in [(&self.writes, WRITERS), (&self.readers, READERS)] {
      group.mark(how, mask, &open, None::<&Path>).map_err(|error| match error {
        // The flags are right, so it is the kernel that does not know them.
        Errno::EINVAL => GateError::Unsupported(error.into()),
        error => failed(error.into()),
      })?;
    }
    watched.insert(dir.to_owned(), id);
    Ok(true)
  }

  /// The directories whose readers wait.
  pub fn watched(&self) -> Vec<PathBuf> {
    self.watched.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
  }

  /// Waits for a reader.
  pub fn wait(&self) -> Result<(), GateError> {
    wait(&self.readers).map_err(GateError::Events)
  }

  /// Waits for an event about a write.
  pub fn wait_for_writes(&self) -> Result<(), GateError> {
    wait(&self.writes).map_err(GateError::Events)
  }

  /// The waiting readers, at most [`MAX_BATCH`]. The second value says whether the kernel had to drop
  /// events, whose readers then continued; their number is not known. May block while one of the files
  /// is under a lease.
  pub fn readers(&self) -> Result<(Vec<Reader>, bool), GateError> {
    let events = match self.readers.read_events() {
      Ok(events) => events,
      Err(Errno::EAGAIN | Errno::EINTR) => return Ok((Vec::new(), false)),
      Err(error) => return Err(GateError::Events(error.into())),
    };
    let mut lost = false;
    let mut readers = Vec::with_capacity(events.len());
    for event in events {
      if !event.check_version() {
        return Err(GateError::Unsupported(io::ErrorKind::InvalidData.into()));
      }
      if event.fd().is_some() {
        readers.push(Reader { event });
      } else {
        lost = true;
      }
    }
    Ok((readers, lost))
  }

  /// Requests no more events about reads of this file until a program writes to it: its bytes were passed
  /// with this stamp. The kernel clears the mark with the event about the write, before the write returns. A
  /// mark that is set after such an event would stay, but then the stamp differs, which is checked here.
  /// Kernels before 5.19 cannot do this without keeping the inode in memory, and keep sending events.
  pub fn quieten(&self, reader: &Reader, passed: &Stamp) {
    let Some(fd) = reader.event.fd() else { return };
    let quiet = MarkFlags::FAN_MARK_IGNORED_MASK | MarkFlags::FAN_MARK_EVICTABLE;
    let mark = |how: MarkFlags| {
      self.readers.mark(how | quiet, MaskFlags::FAN_ACCESS_PERM, fd, None::<&Path>)
    };
    if mark(MarkFlags::FAN_MARK_ADD).is_ok() && reader.stamp().as_ref() != Some(passed) {
      mark(MarkFlags::FAN_MARK_REMOVE).ok();
    }
  }

  /// Lets a reader continue. The answer names the event by the number of its descriptor, which is closed
  /// first: otherwise a program that requests a lease right after its open would find the file open. If
  /// another event gets this number in the meantime, two equal answers serve both.
  pub fn allow(&self, reader: Reader) {
    let Some(fd) = reader.event.fd().map(|fd| fd.as_raw_fd()) else { return };
    drop(reader);
    let mut answer = [0; 8];
    let (number, response) = answer.split_at_mut(4);
    number.copy_from_slice(&fd.to_ne_bytes());
    response.copy_from_slice(&Response::FAN_ALLOW.bits().to_ne_bytes());
    // It fails only if the reader was killed in the meantime.
    rustix::io::write(&self.readers, &answer).ok();
  }

  /// Which process has written which file since the last call; the second value says that some are
  /// missing.
  pub fn writers(&self) -> (Vec<(FileId, i32)>, bool) {
    let mut found = Vec::new();
    let mut lost = false;
    // An event whose file is under a lease makes the read fail and is lost; the other events remain.
    for _ in 0..MAX_BATCH {
      match self.writes.read_events() {
        Ok(events) => {
          for event in events {
            lost |= event.fd().is_none();
            found.extend(stamp(&event).map(|stamp| ((stamp.dev, stamp.ino), event.pid())));
          }
        }
        Err(_) if is_ready(&self.writes) => {}
        Err(_) => return (found, lost),
      }
    }
    (found, true)
  }
}

/// Switches from root to `uid`, if that is another user, and then drops every capability for good. The
/// process keeps only the rights of any program of that user, and other programs of that user cannot
/// inspect it. Applies to the calling thread and to threads that it starts later, so call it first.
pub fn give_up_rights(uid: u32, gid: u32) -> Result<(), GateError> {
  let failed = |error: rustix::io::Errno| GateError::Rights(error.into());
  if user::effective_uid() == 0 && uid != 0 {
    let group = rustix::process::Gid::from_raw(gid);
    let person = rustix::process::Uid::from_raw(uid);
    // Groups first: without root they can no longer be changed.
    rustix::thread::set_thread_groups(&[]).map_err(failed)?;
    rustix::thread::set_thread_res_gid(group, group, group).map_err(failed)?;
    rustix::thread::set_thread_res_uid(person, person, person).map_err(failed)?;
  }
  let none = CapabilitySet::empty();
  let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
  rustix::thread::set_capabilities(None, sets).map_err(failed)?;
  // A set-uid program must not bring the rights back.
  rustix::thread::set_no_new_privs(true).map_err(failed)?;
  rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)
}

/// Owner and group of a path, links followed.
pub fn owner_of(path: &Path) -> io::Result<(u32, u32)> {
  let found = rustix::fs::stat(path)?;
  Ok((found.st_uid, found.st_gid))
}

fn stamp(event: &FanotifyEvent) -> Option<Stamp> {
  let found = facts(&rustix::fs::fstat(event.fd()?).ok()?);
  (found.kind == Kind::File).then_some(found.stamp)
}

fn wait(group: &Fanotify) -> io::Result<()> {
  loop {
    match poll(&mut [PollFd::new(group, PollFlags::IN)], None) {
      Ok(_) => return Ok(()),
      Err(rustix::io::Errno::INTR) => {}
      Err(error) => return Err(error.into()),
    }
  }
}

fn is_ready(group: &Fanotify) -> bool {
  let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
  poll(&mut [PollFd::new(group, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
}

fn refused(error: Errno) -> GateError {
  match error {
    Errno::EPERM => GateError::NotPermitted,
    error => GateError::Unsupported(error.into()),
  }
}

#[cfg(test)]
mod tests {
  use std::{fs, time::Duration};

  use super::*;
  use crate::os::pause;

  /// The number of events about reads while another thread runs `what`; `answer` is called with
  /// each reader before it is allowed.
  fn reads(
    barrier: &Barrier,
    what: impl FnOnce() + Send + 'static,
    answer: impl Fn(&Reader),
  ) -> usize {
    let doing = std::thread::spawn(what);
    let mut n = 0;
    while !doing.is_finished() {
      for reader in barrier.readers().unwrap().0 {
        if reader.is_reading() {
          n += 1;
          answer(&reader);
        }
        barrier.allow(reader);
      }
      pause(Duration::from_micros(50));
    }
    doing.join().unwrap();
    n
  }

  #[test]
  #[expect(clippy::disallowed_methods, reason = "the test is the writer and the reader")]
  fn a_file_whose_bytes_were_passed_is_quiet_until_somebody_writes() {
    let barrier = match Barrier::new() {
      Ok(barrier) => barrier,
      Err(error) => return println!("skipped: {error}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.md");
    fs::write(&file, "- a\n").unwrap();
    barrier.watch(dir.path(), true).unwrap();
    let read = || {
      let file = file.clone();
      move || drop(fs::read(file).unwrap())
    };
    let append = || {
      let file = file.clone();
      move || {
        let old = fs::OpenOptions::new().append(true).open(file).unwrap();
        rustix::io::write(old, b"- b\n").unwrap();
      }
    };
    let stamp = |reader: &Reader| reader.stamp().unwrap();
    assert!(reads(&barrier, read(), |_| {}) > 1, "the bytes, and the end");
    // Another stamp belongs to other bytes: the kernel keeps sending events.
    let other = |reader: &Reader| {
      let found = stamp(reader);
      barrier.quieten(reader, &Stamp { mtime_ns: found.mtime_ns - 1, ..found });
    };
    assert!(reads(&barrier, read(), other) > 1);
    assert!(reads(&barrier, read(), |_| {}) > 1);
    let found = reads(&barrier, read(), |reader| barrier.quieten(reader, &stamp(reader)));
    if found > 1 {
      return println!("skipped: this kernel has no marks that let go of an inode");
    }
    for _ in 0..3 {
      assert_eq!(reads(&barrier, read(), |_| {}), 0);
    }
    reads(&barrier, append(), |_| {});
    assert!(reads(&barrier, read(), |_| {}) > 1, "nobody was asked about what was written");
  }
}
