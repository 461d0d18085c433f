//! Watching directories, never files: a file that is replaced takes its watch away with it.
//!
//! Every event of the system becomes one of [`WatchEvent`]; none is dropped and none carries
//! content. An event only names a path: the receiver takes the stamp first. An overflow is a
//! [`WatchEvent::Rescan`]. No timer, so no wakeups at rest.
//!
//! On Linux the queue is the kernel's and is read by the caller of [`Watcher::take`], without a thread
//! in between (docs/adr/0009). So the caller decides how much is read at a time, and when `take` reports
//! that this was all, every earlier event is known: an event is in the queue before the call that caused
//! it returns.
//!
//! After [`Watcher::add`] of a directory the caller lists it, and lists it again when its own stamp
//! has changed in the meantime: writes before the watch was set raised no event.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  io,
  os::{fd::OwnedFd, unix::fs::MetadataExt as _},
  path::{Path, PathBuf},
  sync::Arc,
};

#[cfg(linux)]
use super::inotify::Queue;
#[cfg(not(linux))]
use super::notified::Queue;
use super::watch_event::{Limit, Meaning, WatchError, WatchEvent};

/// Device and inode.
type Identity = (u64, u64);

/// What [`Watcher::take`] found.
#[derive(Debug, Default)]
pub struct Taken {
  /// In the order in which it happened.
  pub events: Vec<WatchEvent>,
  /// Whether that is all that had happened.
  pub is_all: bool,
}

/// One watcher for all directories, as the number of inotify instances of a user is small.
#[derive(Debug)]
pub struct Watcher {
  /// `None` while the system has no instance left.
  queue: Option<Queue>,
  /// The identity of each watched directory when its watch was set.
  watched: BTreeMap<PathBuf, Identity>,
  /// Directories in which the closes of readers are reported.
  heard: BTreeSet<PathBuf>,
  /// Watched directories whose parent directory reports their removal as well.
  roots: BTreeSet<PathBuf>,
  /// Files that are watched themselves.
  files: BTreeSet<PathBuf>,
}

impl Watcher {
  /// Starts watching nothing. If the system has no inotify instance left, the watcher is blind: each
  /// [`Self::add`] tries again and reports it.
  pub fn new() -> Result<Self, WatchError> {
    let mut watcher = Self {
      queue: None,
      watched: BTreeMap::new(),
      heard: BTreeSet::new(),
      roots: BTreeSet::new(),
      files: BTreeSet::new(),
    };
    match watcher.queue() {
      Ok(_) | Err(WatchError::Limit(_)) => Ok(watcher),
      Err(error) => Err(error),
    }
  }

  /// Readable while there are events to take; `None` while the watcher is blind.
  pub fn descriptor(&self) -> Option<Arc<OwnedFd>> {
    self.queue.as_ref().map(Queue::descriptor)
  }

  /// Takes the events so far, without waiting, and at most as many as the system queues by default: a
  /// program that causes events without end must not keep memfw from its other work.
  pub fn take(&mut self) -> Taken {
    let Some(queue) = &mut self.queue else { return Taken { events: Vec::new(), is_all: true } };
    let (found, is_all) = queue.read();
    let mut events = Vec::with_capacity(found.len());
    for one in found {
      let seen = self.queue.as_ref().map(|queue| queue.meaning(one)).unwrap_or_default();
      for seen in seen {
        match seen {
          Meaning::Event(WatchEvent::Released(path)) if !self.is_heard(&path) => {}
          Meaning::Event(event) => events.push(event),
          Meaning::Gone(path) if self.watched.contains_key(&path) || self.is_above(&path) => {
            self.lose(&path, &mut events);
          }
          Meaning::Gone(path) => {
            if self.files.remove(&path)
              && let Some(queue) = &mut self.queue
            {
              queue.remove(&path);
            }
            events.push(WatchEvent::Dirty(path));
          }
        }
      }
    }
    Taken { events, is_all }
  }

  fn is_heard(&self, path: &Path) -> bool {
    path.parent().is_some_and(|dir| self.heard.contains(dir))
  }

  /// Watches one directory, not what is below it. Adding it again does no harm.
  pub fn add(&mut self, dir: &Path) -> Result<(), WatchError> {
    let before = identity(dir)?;
    let answer = self.queue().and_then(|queue| queue.add(dir)).and_then(|()| {
      // If the directory was replaced meanwhile, it is not known which of the two is watched.
      let is_same = identity(dir).ok() == Some(before);
      if is_same { Ok(()) } else { Err(WatchError::Replaced(dir.to_owned())) }
    });
    match &answer {
      Ok(()) => drop(self.watched.insert(dir.to_owned(), before)),
      Err(_) => self.remove(dir),
    }
    answer
  }

  /// Makes the parent directory of a watched one report its removal as well. The directory itself reports
  /// it only once no program has it open, and an agent may have its workspace open all day. A parent that
  /// memfw may not list cannot be watched, and then only the directory itself reports its removal.
  pub fn watch_end(&mut self, root: &Path) {
    let Some(above) = root.parent() else { return };
    if self.watched.contains_key(root) && self.roots.insert(root.to_owned()) {
      self.look_from(above);
    }
  }

  /// Whether the parent directory of a watched one reports its removal.
  pub fn hears_end(&self, root: &Path) -> bool {
    let Some(above) = root.parent() else { return true };
    let is_asked = |queue: &Queue| queue.has(above);
    self.watched.contains_key(above) || self.queue.as_ref().is_some_and(is_asked)
  }

  /// Stops watching a directory; nothing happens if it is not watched.
  pub fn remove(&mut self, dir: &Path) {
    self.watched.remove(dir);
    self.heard.remove(dir);
    self.look_from(dir);
    if self.roots.remove(dir)
      && let Some(above) = dir.parent()
    {
      self.look_from(above);
    }
  }

  /// Requests the events of an unwatched directory that the watched ones below it need.
  fn look_from(&mut self, dir: &Path) {
    let is_above = self.is_above(dir);
    if let Some(queue) = self.queue.as_mut().filter(|_| !self.watched.contains_key(dir))
      && (!is_above || queue.add_ends(dir).is_err())
    {
      queue.remove(dir);
    }
  }

  /// Whether a directory must report the removal of one in it.
  fn is_above(&self, dir: &Path) -> bool {
    self.roots.iter().any(|root| root.parent() == Some(dir))
  }

  /// Reports the closes of readers in exactly these directories from now on. Returns the new directories:
  /// earlier closes in them are not known.
  pub fn hear_readers(&mut self, dirs: BTreeSet<PathBuf>) -> Vec<PathBuf> {
    if self.queue.is_none() {
      return Vec::new();
    }
    let fresh: Vec<PathBuf> = dirs.difference(&self.heard).cloned().collect();
    self.heard = dirs;
    fresh
  }

  /// Reports, for exactly these files, the events that their directory does not have, such as the
  /// removal of another link to them. If that is not available, no error is returned, because no
  /// promise depends on it.
  pub fn attend(&mut self, files: BTreeSet<PathBuf>) {
    let Some(queue) = &mut self.queue else { return };
    for path in self.files.difference(&files) {
      queue.remove(path);
    }
    let known = |path: &PathBuf| self.files.contains(path);
    let files = files.into_iter().filter(|path| known(path) || queue.add_file(path).is_ok());
    let files: BTreeSet<PathBuf> = files.collect();
    self.files = files;
  }

  /// The directories that are watched.
  pub fn watched(&self) -> Vec<PathBuf> {
    self.watched.keys().cloned().collect()
  }

  /// Watched directories whose path leads elsewhere now: a mount over them, or an unmount, raises no
  /// event in them. [`Self::remove`] them before they are added again.
  pub fn misplaced(&self) -> Vec<PathBuf> {
    let is_elsewhere = |(dir, known): &(&PathBuf, &Identity)| identity(dir).ok() != Some(**known);
    self.watched.iter().filter(is_elsewhere).map(|(dir, _)| dir.clone()).collect()
  }

  fn queue(&mut self) -> Result<&mut Queue, WatchError> {
    if self.queue.is_none() {
      self.queue = Some(Queue::new()?);
    }
    self.queue.as_mut().ok_or(WatchError::Limit(Limit::Instances))
  }

  /// A watched directory is gone, and what is below it went with it.
  fn lose(&mut self, path: &Path, events: &mut Vec<WatchEvent>) {
    // A directory that was moved keeps its watch, and its events would have the former path.
    let below = self.watched.keys().filter(|dir| dir.starts_with(path));
    for dir in below.cloned().collect::<Vec<_>>() {
      self.remove(&dir);
      events.push(WatchEvent::RootGone(dir));
    }
  }
}

fn identity(dir: &Path) -> Result<Identity, WatchError> {
  match dir.symlink_metadata() {
    Ok(found) if found.is_dir() => Ok((found.dev(), found.ino())),
    Ok(_) => Err(WatchError::NotADirectory(dir.to_owned())),
    Err(error) if error.kind() == io::ErrorKind::NotFound => {
      Err(WatchError::NotADirectory(dir.to_owned()))
    }
    Err(error) => Err(WatchError::Failed { path: dir.to_owned(), text: error.to_string() }),
  }
}

#[cfg(test)]
#[cfg(linux)]
#[path = "watch_tests.rs"]
mod tests;
