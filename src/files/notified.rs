//! Directory events of systems other than Linux, through `notify`.
//!
//! Such a queue is late, so an empty queue proves nothing; but these systems have no leases, and nothing
//! depends on it. FSEvents and kqueue do not report opens and closes, and those of `notify`'s own inotify
//! are ignored, so that tests on Linux see no more than other systems would.
#![forbid(unsafe_code)]

use std::{
  collections::VecDeque,
  io::Write as _,
  os::{fd::OwnedFd, unix::net::UnixStream},
  path::Path,
  sync::{Arc, Mutex, PoisonError},
};

use notify::{
  Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
  event::{CreateKind, ModifyKind, RenameMode},
};

use super::watch_event::{Limit, Meaning, WatchError, WatchEvent};

/// Events that are kept until they are taken; further ones are lost, which is reported.
const MAX_EVENTS: usize = 65_536;

/// An event as `notify` gave it.
pub(super) type Raw = notify::Result<Event>;

/// What `notify` has seen.
#[derive(Debug)]
pub(super) struct Queue {
  inner: RecommendedWatcher,
  events: Arc<Mutex<VecDeque<Raw>>>,
  /// Has bytes in it while there are events.
  bell: Arc<OwnedFd>,
}

impl Queue {
  /// A watcher of nothing.
  pub(super) fn new() -> Result<Self, WatchError> {
    let events = Arc::new(Mutex::new(VecDeque::new()));
    let failed = |error| failure(Path::new(""), &notify::Error::io(error));
    let (mut rope, bell) = UnixStream::pair().map_err(failed)?;
    for end in [&rope, &bell] {
      end.set_nonblocking(true).map_err(failed)?;
    }
    let kept = Arc::clone(&events);
    let handler = move |event: Raw| {
      let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
      if kept.len() >= MAX_EVENTS {
        kept.clear();
        // After a rescan the dropped events would add nothing.
        kept.push_back(Ok(Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan)));
      }
      kept.push_back(event);
      // If the bell is full, it has been rung often enough.
      rope.write_all(&[1]).ok();
    };
    let inner = RecommendedWatcher::new(handler, notify::Config::default())
      .map_err(|error| failure(Path::new(""), &error))?;
    Ok(Self { inner, events, bell: Arc::new(bell.into()) })
  }

  pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
    Arc::clone(&self.bell)
  }

  /// Watches one directory, even if its path was that of another watched one.
  pub(super) fn add(&mut self, dir: &Path) -> Result<(), WatchError> {
    let watched = self.inner.watch(dir, RecursiveMode::NonRecursive);
    watched.map_err(|error| failure(dir, &error))
  }

  /// Watches like [`Queue::add`], because fewer events cannot be requested.
  pub(super) fn add_ends(&mut self, dir: &Path) -> Result<(), WatchError> {
    self.add(dir)
  }

  /// These systems report no events of a file itself.
  #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as the kernel's own queue")]
  pub(super) fn add_file(&mut self, _file: &Path) -> Result<(), WatchError> {
    Ok(())
  }

  /// Whether a path is watched; here the directory above always is.
  #[expect(clippy::unused_self, reason = "the kernel's own queue has to look up its watches")]
  pub(super) fn has(&self, _dir: &Path) -> bool {
    true
  }

  /// Ends the watch of a path.
  pub(super) fn remove(&mut self, dir: &Path) {
    // The only failure is that there is no such watch.
    self.inner.unwatch(dir).ok();
  }

  /// The events so far, and whether these are all.
  pub(super) fn read(&mut self) -> (Vec<Raw>, bool) {
    // The bytes are read before the events, so an event in between rings again.
    let mut rung = [0; 4096];
    while rustix::io::read(&*self.bell, &mut rung).is_ok_and(|n| n > 0) {}
    let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
    (events.drain(..).collect(), true)
  }

  /// The meaning of an event.
  #[expect(clippy::unused_self, reason = "the kernel's own queue has to look up its watches")]
  pub(super) fn meaning(&self, raw: Raw) -> Vec<Meaning> {
    match raw {
      Ok(event) => {
        let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        translate(event, is_dir)
      }
      Err(error) => vec![Meaning::Event(match limit(&error) {
        Some(limit) => WatchEvent::Limit(limit),
        None => WatchEvent::Error(error.to_string()),
      })],
    }
  }
}

fn limit(error: &notify::Error) -> Option<Limit> {
  match &error.kind {
    notify::ErrorKind::MaxFilesWatch => Some(Limit::Watches),
    // EMFILE of inotify_init1(2) is the number of instances; so is that of a full descriptor table,
    // which a program with some dozens of files does not reach.
    notify::ErrorKind::Io(error) => match error.raw_os_error() {
      Some(libc::EMFILE) => Some(Limit::Instances),
      Some(libc::ENOSPC) => Some(Limit::Watches),
      _ => None,
    },
    _ => None,
  }
}

fn failure(path: &Path, error: &notify::Error) -> WatchError {
  if let Some(limit) = limit(error) {
    return WatchError::Limit(limit);
  }
  match &error.kind {
    notify::ErrorKind::PathNotFound => WatchError::NotADirectory(path.to_owned()),
    // The error's own text would repeat the path unescaped.
    notify::ErrorKind::Io(error) => {
      WatchError::Failed { path: path.to_owned(), text: error.to_string() }
    }
    kind => WatchError::Failed { path: path.to_owned(), text: format!("{kind:?}") },
  }
}

/// Maps one event.
fn translate(event: Event, is_dir: impl Fn(&Path) -> bool) -> Vec<Meaning> {
  if event.need_rescan() || event.paths.is_empty() {
    return vec![Meaning::Event(WatchEvent::Rescan)];
  }
  let mut seen = Vec::new();
  for path in event.paths {
    let what = match event.kind {
      EventKind::Access(_) => continue,
      EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
        seen.push(Meaning::Gone(path));
        continue;
      }
      EventKind::Create(CreateKind::Folder) => WatchEvent::DirAdded(path),
      // These do not say whether it is a directory that arrived.
      EventKind::Create(CreateKind::Any | CreateKind::Other)
      | EventKind::Modify(ModifyKind::Name(
        RenameMode::To | RenameMode::Both | RenameMode::Any | RenameMode::Other,
      )) if is_dir(&path) => WatchEvent::DirAdded(path),
      // A program that had opened the former file at this path has read other content.
      EventKind::Modify(ModifyKind::Name(RenameMode::To)) => WatchEvent::Closed(path),
      _ => WatchEvent::Dirty(path),
    };
    seen.push(Meaning::Event(what));
  }
  seen
}

#[cfg(test)]
#[path = "notified_tests.rs"]
mod tests;
