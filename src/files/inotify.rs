//! The kernel's queue of events (inotify), read only by its owner.
//!
//! Equal events that follow each other in the queue are one, so there may be fewer than things that
//! happened, and never more. Nothing here decides what is memory.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  ffi::{OsStr, OsString},
  mem::MaybeUninit,
  os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
  path::{Path, PathBuf},
  sync::Arc,
};

use rustix::{
  fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
  io::Errno,
};

use super::watch_event::{Limit, Meaning, WatchError, WatchEvent};

/// Events that are read at a time; as many as the kernel keeps by default
/// (`fs.inotify.max_queued_events`).
const MAX_EVENTS: usize = 16_384;
/// Bytes of one read: hundreds of events, and more than the longest one needs.
const BUFFER: usize = 16_384;

/// The requested events. The close of a reader changes nothing, but separates its open from memfw's own,
/// because the kernel merges equal consecutive events.
const MASK: WatchFlags = WatchFlags::ATTRIB
  .union(WatchFlags::CREATE)
  .union(WatchFlags::OPEN)
  .union(WatchFlags::DELETE)
  .union(WatchFlags::CLOSE_WRITE)
  .union(WatchFlags::CLOSE_NOWRITE)
  .union(WatchFlags::MODIFY)
  .union(WatchFlags::MOVED_FROM)
  .union(WatchFlags::MOVED_TO)
  .union(WatchFlags::DELETE_SELF)
  .union(WatchFlags::MOVE_SELF)
  .union(WatchFlags::ONLYDIR)
  .union(WatchFlags::DONT_FOLLOW);

/// The requested events if only the removal of a directory or of its entries matters.
const ENDS: WatchFlags = WatchFlags::DELETE
  .union(WatchFlags::MOVED_FROM)
  .union(WatchFlags::DELETE_SELF)
  .union(WatchFlags::MOVE_SELF)
  .union(WatchFlags::ONLYDIR)
  .union(WatchFlags::DONT_FOLLOW);

/// The requested events of a file itself; its removal is always reported.
const FILE: WatchFlags = WatchFlags::ATTRIB.union(WatchFlags::DONT_FOLLOW);

/// An event as the kernel gave it.
#[derive(Debug)]
pub(super) enum Raw {
  /// Something about the directory of this watch, or about a name in it.
  Event {
    /// Of the watch; of none when events were lost.
    number: i32,
    /// What.
    flags: ReadFlags,
    /// The name; `None` for the directory itself.
    name: Option<OsString>,
  },
  /// The queue cannot be read.
  Failed(Errno),
}

/// One inotify instance.
#[derive(Debug)]
pub(super) struct Queue {
  descriptor: Arc<OwnedFd>,
  numbers: HashMap<PathBuf, i32>,
  /// A directory that can be reached in several ways has one watch.
  paths: HashMap<i32, Vec<PathBuf>>,
}

impl Queue {
  /// An instance that watches nothing.
  pub(super) fn new() -> Result<Self, WatchError> {
    match inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC) {
      Ok(descriptor) => Ok(Self {
        descriptor: Arc::new(descriptor),
        numbers: HashMap::new(),
        paths: HashMap::new(),
      }),
      // The number of instances, or a full descriptor table, which a program with some dozens of files
      // does not reach.
      Err(Errno::MFILE) => Err(WatchError::Limit(Limit::Instances)),
      Err(errno) => Err(failed(Path::new(""), errno)),
    }
  }

  pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
    Arc::clone(&self.descriptor)
  }

  /// Watches one directory, even if its path was that of another watched one.
  pub(super) fn add(&mut self, dir: &Path) -> Result<(), WatchError> {
    self.add_for(dir, MASK)
  }

  /// From now on reports only removals from a directory, and its own removal; events that are requested
  /// for another path of this directory stay.
  pub(super) fn add_ends(&mut self, dir: &Path) -> Result<(), WatchError> {
    let paths = self.numbers.get(dir).and_then(|number| self.paths.get(number));
    let is_alone = paths.is_some_and(|paths| paths.len() == 1);
    self.add_for(dir, if is_alone { ENDS } else { ENDS | WatchFlags::MASK_ADD })
  }

  fn add_for(&mut self, dir: &Path, mask: WatchFlags) -> Result<(), WatchError> {
    let number = match inotify::add_watch(&*self.descriptor, dir, mask) {
      Ok(number) => number,
      Err(Errno::NOSPC) => return Err(WatchError::Limit(Limit::Watches)),
      Err(Errno::NOENT | Errno::NOTDIR) => return Err(WatchError::NotADirectory(dir.to_owned())),
      Err(errno) => return Err(failed(dir, errno)),
    };
    // The path leads to another inode than before, whose watch is not needed any more.
    if self.numbers.get(dir) != Some(&number) {
      self.remove(dir);
      self.numbers.insert(dir.to_owned(), number);
      self.paths.entry(number).or_default().push(dir.to_owned());
    }
    Ok(())
  }

  /// Watches a file itself, for events that only its inode has.
  pub(super) fn add_file(&mut self, file: &Path) -> Result<(), WatchError> {
    self.add_for(file, FILE)
  }

  /// Whether a path is watched.
  pub(super) fn has(&self, dir: &Path) -> bool {
    self.numbers.contains_key(dir)
  }

  /// Ends the watch of a path; its unread events are ignored from now on.
  pub(super) fn remove(&mut self, dir: &Path) {
    let Some(number) = self.numbers.remove(dir) else { return };
    let Some(paths) = self.paths.get_mut(&number) else { return };
    paths.retain(|path| path != dir);
    if paths.is_empty() {
      self.paths.remove(&number);
      // It fails if the directory is gone, and the watch with it.
      inotify::remove_watch(&*self.descriptor, number).ok();
    }
  }

  /// The events in the queue, and whether these are all.
  pub(super) fn read(&mut self) -> (Vec<Raw>, bool) {
    let mut found = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(&*self.descriptor, &mut buffer);
    loop {
      match reader.next() {
        Ok(event) => found.push(Raw::Event {
          number: event.wd(),
          flags: event.events(),
          name: event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned()),
        }),
        Err(Errno::INTR) => {}
        Err(Errno::AGAIN) => return (found, true),
        Err(errno) => {
          found.push(Raw::Failed(errno));
          return (found, true);
        }
      }
      // Events in the buffer are no longer in the queue.
      if found.len() >= MAX_EVENTS && reader.is_buffer_empty() {
        return (found, false);
      }
    }
  }

  /// The meaning of an event, for each path of its directory; nothing for a removed watch.
  pub(super) fn meaning(&self, raw: Raw) -> Vec<Meaning> {
    let (number, flags, name) = match raw {
      Raw::Event { number, flags, name } => (number, flags, name),
      Raw::Failed(errno) => return vec![Meaning::Event(WatchEvent::Error(errno.to_string()))],
    };
    // The event of an overflow belongs to no watch.
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
      return vec![Meaning::Event(WatchEvent::Rescan)];
    }
    let paths = self.paths.get(&number).map(Vec::as_slice).unwrap_or_default();
    paths.iter().filter_map(|dir| meaning(dir, flags, name.as_deref())).collect()
  }
}

fn meaning(dir: &Path, flags: ReadFlags, name: Option<&OsStr>) -> Option<Meaning> {
  let ended =
    ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
  let is_dir = flags.contains(ReadFlags::ISDIR) || name.is_none();
  // Listing a directory opens and closes it, which changes none of its entries.
  if is_dir && flags.intersects(ReadFlags::OPEN | ReadFlags::CLOSE_NOWRITE) {
    return None;
  }
  let path = name.map_or_else(|| dir.to_owned(), |name| dir.join(name));
  let left = ReadFlags::DELETE | ReadFlags::MOVED_FROM;
  let came = ReadFlags::CREATE | ReadFlags::MOVED_TO;
  Some(if flags.intersects(ended) || (is_dir && flags.intersects(left)) {
    Meaning::Gone(path)
  } else if is_dir && flags.intersects(came) {
    Meaning::Event(WatchEvent::DirAdded(path))
  } else if flags.contains(ReadFlags::OPEN) {
    Meaning::Event(WatchEvent::Opened(path))
  } else if flags.contains(ReadFlags::CLOSE_NOWRITE) {
    Meaning::Event(WatchEvent::Released(path))
  } else if flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
    Meaning::Event(WatchEvent::Closed(path))
  } else {
    Meaning::Event(WatchEvent::Dirty(path))
  })
}

fn failed(path: &Path, errno: Errno) -> WatchError {
  WatchError::Failed { path: path.to_owned(), text: errno.to_string() }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn each_kind_of_event_has_one_meaning() {
    let path = |text: &str| PathBuf::from(text);
    let event = |event| Some(Meaning::Event(event));
    let dir = ReadFlags::ISDIR;
    let cases = [
      (ReadFlags::OPEN, Some("x.md"), event(WatchEvent::Opened(path("/w/x.md")))),
      (ReadFlags::CLOSE_NOWRITE, Some("x.md"), event(WatchEvent::Released(path("/w/x.md")))),
      (ReadFlags::CLOSE_NOWRITE | dir, None, None),
      (ReadFlags::OPEN | dir, Some("sub"), None),
      (ReadFlags::OPEN | dir, None, None),
      (ReadFlags::CLOSE_WRITE, Some("x.md"), event(WatchEvent::Closed(path("/w/x.md")))),
      (ReadFlags::MOVED_TO, Some("x.md"), event(WatchEvent::Closed(path("/w/x.md")))),
      (ReadFlags::MODIFY, Some("x.md"), event(WatchEvent::Dirty(path("/w/x.md")))),
      (ReadFlags::ATTRIB, Some("x.md"), event(WatchEvent::Dirty(path("/w/x.md")))),
      (ReadFlags::CREATE, Some("x.md"), event(WatchEvent::Dirty(path("/w/x.md")))),
      (ReadFlags::DELETE, Some("x.md"), event(WatchEvent::Dirty(path("/w/x.md")))),
      (ReadFlags::MOVED_FROM, Some("x.md"), event(WatchEvent::Dirty(path("/w/x.md")))),
      (ReadFlags::CREATE | dir, Some("sub"), event(WatchEvent::DirAdded(path("/w/sub")))),
      (ReadFlags::MOVED_TO | dir, Some("sub"), event(WatchEvent::DirAdded(path("/w/sub")))),
      (ReadFlags::ATTRIB | dir, Some("sub"), event(WatchEvent::Dirty(path("/w/sub")))),
      (ReadFlags::ATTRIB | dir, None, event(WatchEvent::Dirty(path("/w")))),
      (ReadFlags::DELETE | dir, Some("sub"), Some(Meaning::Gone(path("/w/sub")))),
      (ReadFlags::MOVED_FROM | dir, Some("sub"), Some(Meaning::Gone(path("/w/sub")))),
      (ReadFlags::DELETE_SELF, None, Some(Meaning::Gone(path("/w")))),
      (ReadFlags::MOVE_SELF, None, Some(Meaning::Gone(path("/w")))),
      (ReadFlags::UNMOUNT, None, Some(Meaning::Gone(path("/w")))),
      (ReadFlags::IGNORED, None, Some(Meaning::Gone(path("/w")))),
    ];
    for (flags, name, expected) in cases {
      let found = meaning(Path::new("/w"), flags, name.map(OsStr::new));
      assert_eq!(found, expected, "{flags:?} {name:?}");
    }
  }

  #[test]
  fn a_directory_with_two_paths_tells_of_both_and_one_that_is_let_go_of_none() {
    let mut queue = Queue::new().unwrap();
    queue.paths.insert(1, vec!["/a".into(), "/b".into()]);
    let raw = || Raw::Event { number: 1, flags: ReadFlags::MODIFY, name: Some("x".into()) };
    let dirty = |text: &str| Meaning::Event(WatchEvent::Dirty(text.into()));
    assert_eq!(queue.meaning(raw()), [dirty("/a/x"), dirty("/b/x")]);
    queue.paths.clear();
    assert_eq!(queue.meaning(raw()), []);
    // Losing events is about all watches.
    let lost = Raw::Event { number: -1, flags: ReadFlags::QUEUE_OVERFLOW, name: None };
    assert_eq!(queue.meaning(lost), [Meaning::Event(WatchEvent::Rescan)]);
  }
}
