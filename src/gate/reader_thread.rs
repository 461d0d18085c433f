//! The thread that reads the kernel's permission events: it lets readers through if no question is
//! needed.
//!
//! Reading an event can block while the file is under a lease (see [`crate::files::gate`]), and
//! then all later readers would wait as well. So the event loop knows since when a reader thread
//! has been reading, and starts another one when that takes too long; the first one finishes its
//! event and exits.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  path::{Path, PathBuf},
  sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst},
  },
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  event::{Event, Held},
  waiting::FileId,
};
use crate::{
  files::{
    Stamp,
    gate::{Barrier, GateError, Reader},
    memory_layout::is_memory,
  },
  os::{Clock as _, SystemClock, pause},
};

/// Largest number of stamps of passed bytes; ten times the largest tree tried.
const MAX_PASSED: usize = 100_000;
/// How long events about writes are left unread: after this time the redaction that follows a write
/// is over, and reading the event can no longer break its lease.
const SETTLING: Duration = Duration::from_millis(60);

/// State that the reader threads and the event loop share.
#[derive(Debug)]
pub(super) struct Shared {
  pub(super) barrier: Barrier,
  /// Process id of the daemon, or 0.
  pub(super) daemon: AtomicI32,
  /// Whether the event loop knows that a reader thread is reading.
  active: AtomicBool,
  /// Since when a reader thread has been reading events, in microseconds, at least 1; 0 while none
  /// is.
  reading_since: AtomicU64,
  /// The number of the current reader thread.
  generation: AtomicU32,
  /// Reader threads that have not ended: the current one, and those that a lease blocks.
  n_threads: AtomicU32,
  passed: Mutex<HashMap<FileId, Stamp>>,
  /// Gated directories, and whether each is the root of a workspace.
  directories: Mutex<HashMap<PathBuf, bool>>,
  events: UnboundedSender<Event>,
}

impl Shared {
  pub(super) fn new(barrier: Barrier, events: UnboundedSender<Event>) -> Self {
    Self {
      barrier,
      daemon: AtomicI32::new(0),
      active: AtomicBool::new(false),
      reading_since: AtomicU64::new(0),
      generation: AtomicU32::new(0),
      n_threads: AtomicU32::new(0),
      passed: Mutex::default(),
      directories: Mutex::default(),
      events,
    }
  }

  /// Starts the next reader thread; the one before exits when it can.
  pub(super) fn start_reader(self: &Arc<Self>) -> std::io::Result<()> {
    let generation = self.generation.fetch_add(1, SeqCst) + 1;
    self.reading_since.store(0, SeqCst);
    let shared = Arc::clone(self);
    self.n_threads.fetch_add(1, SeqCst);
    let begun = std::thread::Builder::new().name("gate-reader".to_owned()).spawn(move || {
      let _counted = Counted(&shared.n_threads);
      // However a reader thread ends, the gate must have one: its readers would wait for ever.
      let watch = Watch(&shared);
      match shared.read_events(generation) {
        Ok(()) => std::mem::forget(watch),
        Err(error) => shared.tell(Event::Broken(error.to_string())),
      }
    });
    if begun.is_err() {
      self.n_threads.fetch_sub(1, SeqCst);
    }
    begun.map(drop)
  }

  /// How many reader threads have not ended.
  pub(super) fn n_threads(&self) -> u32 {
    self.n_threads.load(SeqCst)
  }

  /// Records which processes have written, some time after the write.
  pub(super) fn start_recorder(
    self: &Arc<Self>,
    note: impl Fn() + Send + 'static,
  ) -> std::io::Result<()> {
    let shared = Arc::clone(self);
    std::thread::Builder::new().name("gate-recorder".to_owned()).spawn(move || {
      while shared.barrier.wait_for_writes().is_ok() {
        pause(SETTLING);
        note();
      }
    })?;
    Ok(())
  }

  fn read_events(&self, generation: u32) -> Result<(), GateError> {
    loop {
      self.barrier.wait()?;
      if self.generation.load(SeqCst) != generation {
        return Ok(());
      }
      let since = u64::try_from(SystemClock.monotonic().as_micros()).unwrap_or(u64::MAX);
      self.reading_since.store(since.max(1), SeqCst);
      if !self.active.swap(true, SeqCst) {
        self.tell(Event::Active);
      }
      let readers = self.barrier.readers();
      let in_charge = self.generation.load(SeqCst) == generation;
      if in_charge {
        self.reading_since.store(0, SeqCst);
      }
      let (readers, lost) = readers?;
      for reader in readers {
        self.handle(reader);
      }
      if lost {
        self.tell(Event::Lost);
      }
      if !in_charge {
        return Ok(());
      }
    }
  }

  /// Handles one reader.
  fn handle(&self, reader: Reader) {
    // The daemon's own opens never wait: the daemon gives the answers.
    if reader.pid() == self.daemon.load(SeqCst) {
      return self.barrier.allow(reader);
    }
    match reader.stamp() {
      Some(stamp) if self.is_passed(&stamp) => {
        if reader.is_reading() {
          self.barrier.quieten(&reader, &stamp);
        }
        self.barrier.allow(reader);
      }
      // An empty file has no bytes to pass, and its writer is usually just creating it.
      Some(stamp) if stamp.size > 0 => match self.memory(&reader, &stamp) {
        Some(path) => self.tell(Event::Came(Held { reader, path })),
        None => self.barrier.allow(reader),
      },
      _ => self.barrier.allow(reader),
    }
  }

  /// The path of the memory file of an event; `None` for any other file.
  fn memory(&self, reader: &Reader, stamp: &Stamp) -> Option<PathBuf> {
    let path = reader.path()?;
    let (dir, name) = (path.parent()?, Path::new(path.file_name()?));
    let directories = lock(&self.directories);
    if let Some(root) = directories.get(dir) {
      return is_memory_name(*root, name).then_some(path);
    }
    // Another mount gives another path for this file.
    directories.iter().find_map(|(dir, root)| {
      let path = dir.join(name);
      let same = is_memory_name(*root, name)
        && rustix::fs::lstat(&path).is_ok_and(|s| (s.st_dev, s.st_ino) == (stamp.dev, stamp.ino));
      same.then_some(path)
    })
  }

  /// Makes readers of a directory wait; returns whether the directory is new.
  pub(super) fn watch(&self, dir: &Path, root: bool, anybody: bool) -> Result<bool, GateError> {
    let before = lock(&self.directories).insert(dir.to_owned(), root);
    let watched = self.barrier.watch(dir, anybody);
    if watched.is_err() && before.is_none() {
      lock(&self.directories).remove(dir);
    }
    watched
  }

  fn is_passed(&self, stamp: &Stamp) -> bool {
    lock(&self.passed).get(&(stamp.dev, stamp.ino)) == Some(stamp)
  }

  /// Records passed bytes.
  pub(super) fn remember(&self, stamp: Stamp) {
    let mut passed = lock(&self.passed);
    if passed.len() >= MAX_PASSED {
      passed.clear();
    }
    passed.insert((stamp.dev, stamp.ino), stamp);
  }

  /// Forgets all passed bytes: another daemon may judge differently.
  pub(super) fn forget(&self) {
    lock(&self.passed).clear();
  }

  /// Since when a reader thread has been reading; `None` if none is, and then the loop is
  /// notified of the next one.
  pub(super) fn reading_since(&self) -> Option<Duration> {
    self.active.store(false, SeqCst);
    match self.reading_since.load(SeqCst) {
      0 => None,
      since => {
        self.active.store(true, SeqCst);
        Some(Duration::from_micros(since))
      }
    }
  }

  fn tell(&self, event: Event) {
    // The event loop ends only with the process, and then the kernel lets all readers through.
    self.events.send(event).ok();
  }
}

/// A thread that counts until it ends, in whatever way.
struct Counted<'a>(&'a AtomicU32);

impl Drop for Counted<'_> {
  fn drop(&mut self) {
    self.0.fetch_sub(1, SeqCst);
  }
}

/// Reports that a reader thread panicked, unless it exited in order.
struct Watch<'a>(&'a Shared);

impl Drop for Watch<'_> {
  fn drop(&mut self) {
    self.0.tell(Event::Broken("a thread ended".to_owned()));
  }
}

/// Whether a name in a gated directory is that of a memory file.
fn is_memory_name(root: bool, name: &Path) -> bool {
  if root { is_memory(name) } else { is_memory(&Path::new("memory").join(name)) }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
  mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn memory_is_known_by_directory_and_name() {
    for (root, name, expected) in [
      (true, "MEMORY.md", true),
      (true, "memory.md", true),
      (true, "AGENTS.md", true),
      (true, "README.md", false),
      (false, "2026-11-21.md", true),
      (false, "AGENTS.md", true),
      (false, ".x.md", true),
      (false, "x.md.tmp", false),
      (false, "x.md (deleted)", false),
    ] {
      assert_eq!(is_memory_name(root, Path::new(name)), expected, "{root} {name}");
    }
  }
}
