//! Watching directories, never files: a file that is replaced takes its watch away with it.
//!
//! Every event of the system becomes one of [`WatchEvent`]; none is dropped and none carries
//! content. An event only says where to look: the receiver takes the stamp first. An overflow is a
//! [`WatchEvent::Rescan`]. No timer, so no wakeups at rest.
//!
//! After [`Watcher::add`] of a directory the caller lists it, and lists it again when its own stamp
//! has changed meanwhile: what was written before the watch stood made no event.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  fmt, io,
  os::unix::fs::MetadataExt as _,
  path::{Path, PathBuf},
  sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use notify::{
  Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
  event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode},
};

use super::fs::Shown;

/// What was seen. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
  /// Something about this path may have changed.
  Dirty(PathBuf),
  /// Somebody opened this path, for reading or writing; we ourselves included.
  Opened(PathBuf),
  /// Somebody who had this path open for writing closed it, we ourselves included; or a finished file was
  /// moved to this path.
  Closed(PathBuf),
  /// A directory appeared here: walk and watch it.
  DirAdded(PathBuf),
  /// This watched directory was deleted or moved away, and its watch is off. If a directory stands
  /// there (by now, or because the event is older than the watch), add it again and walk it; else
  /// [`Watcher::remove`] it.
  RootGone(PathBuf),
  /// Events were lost: compare all stamps.
  Rescan,
  /// Something was mounted or unmounted somewhere: see [`Watcher::misplaced`].
  Mounts,
  /// A limit of the system was reached; something is not watched.
  Limit(Limit),
  /// The watcher failed otherwise; events may be lost.
  Error(String),
}

/// A limit of inotify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
  /// Directories watched by one user.
  Watches,
  /// inotify instances of one user.
  Instances,
}

impl Limit {
  /// The kernel setting that raises it.
  pub const fn sysctl(self) -> &'static str {
    match self {
      Self::Watches => "fs.inotify.max_user_watches",
      Self::Instances => "fs.inotify.max_user_instances",
    }
  }
}

impl fmt::Display for Limit {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (what, value) = match self {
      Self::Watches => ("watched directories", 524_288),
      Self::Instances => ("inotify instances", 1024),
    };
    let setting = self.sysctl();
    write!(
      f,
      "the system's limit of {what} is reached; raise it with `sudo sysctl {setting}={value}`"
    )
  }
}

/// A directory is not watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
  /// A limit of the system was reached.
  #[error("{0}")]
  Limit(Limit),
  /// There is no directory (or a link to one) under that path.
  #[error("{} is not a directory", Shown(.0))]
  NotADirectory(PathBuf),
  /// It was replaced while the watch was set; try again.
  #[error("{} was replaced while its watch was set", Shown(.0))]
  Replaced(PathBuf),
  /// The system failed otherwise.
  #[error("cannot watch {}: {text}", Shown(path))]
  Failed {
    /// The directory, empty when the watcher itself could not be made.
    path: PathBuf,
    /// The system's answer.
    text: String,
  },
}

type Watched = Arc<Mutex<BTreeSet<PathBuf>>>;
type Send = Arc<dyn Fn(WatchEvent) + std::marker::Send + Sync>;
/// Device and inode.
type Identity = (u64, u64);

/// One watcher for all directories, as the number of inotify instances of a user is small.
pub struct Watcher {
  /// `None` as long as the system has no instance left.
  inner: Option<RecommendedWatcher>,
  watched: Watched,
  /// What each directory was when its watch was set.
  identities: BTreeMap<PathBuf, Identity>,
  send: Send,
}

impl Watcher {
  /// Starts watching nothing. `send` is called from the watcher's thread; it must neither block nor
  /// panic, so an unbounded channel belongs behind it. Where the system has no inotify instance left,
  /// the watcher is blind: each [`Self::add`] tries again and says so.
  pub fn new(send: Box<dyn Fn(WatchEvent) + std::marker::Send + Sync>) -> Result<Self, WatchError> {
    let mut watcher = Self {
      inner: None,
      watched: Watched::default(),
      identities: BTreeMap::new(),
      send: Arc::from(send),
    };
    match watcher.inner() {
      Ok(_) | Err(WatchError::Limit(_)) => Ok(watcher),
      Err(error) => Err(error),
    }
  }

  fn inner(&mut self) -> Result<&mut RecommendedWatcher, WatchError> {
    if self.inner.is_none() {
      let known = Arc::clone(&self.watched);
      let send = Arc::clone(&self.send);
      let handler = move |event: notify::Result<Event>| match event {
        Ok(event) => {
          let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
          let events = translate(event, &mut lock(&known), is_dir);
          events.into_iter().for_each(&*send);
        }
        Err(error) => send(match limit(&error) {
          Some(limit) => WatchEvent::Limit(limit),
          None => WatchEvent::Error(error.to_string()),
        }),
      };
      let made = RecommendedWatcher::new(handler, notify::Config::default());
      self.inner = Some(made.map_err(|error| failure(Path::new(""), &error))?);
    }
    self.inner.as_mut().ok_or(WatchError::Limit(Limit::Instances))
  }

  /// Watches one directory, not what is below it. Adding it again does no harm.
  pub fn add(&mut self, dir: &Path) -> Result<(), WatchError> {
    let before = identity(dir)?;
    let fresh = lock(&self.watched).insert(dir.to_owned());
    if fresh {
      // A directory that was moved away keeps its watch under the old name.
      self.forget(dir);
    }
    let set = self.inner().map(|inner| inner.watch(dir, RecursiveMode::NonRecursive));
    let answer = match set {
      Err(error) => Err(error),
      Ok(Err(error)) => Err(failure(dir, &error)),
      Ok(Ok(())) if identity(dir).ok() != Some(before) => {
        self.forget(dir);
        Err(WatchError::Replaced(dir.to_owned()))
      }
      Ok(Ok(())) => {
        self.identities.insert(dir.to_owned(), before);
        Ok(())
      }
    };
    if answer.is_err() {
      lock(&self.watched).remove(dir);
    }
    answer
  }

  /// Stops watching a directory; nothing happens if it is not watched.
  pub fn remove(&mut self, dir: &Path) {
    lock(&self.watched).remove(dir);
    self.forget(dir);
  }

  /// The directories that are watched.
  pub fn watched(&self) -> Vec<PathBuf> {
    lock(&self.watched).iter().cloned().collect()
  }

  /// Watched directories whose path leads elsewhere by now: a mount over them, or an unmount, makes no
  /// event in them. [`Self::remove`] them before they are added again.
  pub fn misplaced(&self) -> Vec<PathBuf> {
    let is_elsewhere = |dir: &PathBuf| identity(dir).ok().as_ref() != self.identities.get(dir);
    self.watched().into_iter().filter(is_elsewhere).collect()
  }

  fn forget(&mut self, dir: &Path) {
    self.identities.remove(dir);
    if let Some(inner) = &mut self.inner {
      // The only failure is that there is no such watch, which is what was wanted.
      inner.unwatch(dir).ok();
    }
  }
}

/// The set stays usable whatever happened to another thread.
fn lock(watched: &Watched) -> MutexGuard<'_, BTreeSet<PathBuf>> {
  watched.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Maps one event. Watched directories that are gone leave `watched`.
fn translate(
  event: Event,
  watched: &mut BTreeSet<PathBuf>,
  is_dir: impl Fn(&Path) -> bool,
) -> Vec<WatchEvent> {
  if event.need_rescan() || event.paths.is_empty() {
    return vec![WatchEvent::Rescan];
  }
  let mut seen = Vec::new();
  for path in event.paths {
    match event.kind {
      // Listing a watched directory opens it; that is nothing new about what is in it.
      EventKind::Access(AccessKind::Open(_)) if watched.contains(&path) => {}
      EventKind::Access(AccessKind::Open(_)) => seen.push(WatchEvent::Opened(path)),
      EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
        seen.push(WatchEvent::Closed(path));
      }
      EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From))
        if watched.contains(&path) =>
      {
        // What is below it went with it.
        let gone: Vec<_> = watched.iter().filter(|dir| dir.starts_with(&path)).cloned().collect();
        for dir in gone {
          watched.remove(&dir);
          seen.push(WatchEvent::RootGone(dir));
        }
      }
      EventKind::Create(CreateKind::Folder) => seen.push(WatchEvent::DirAdded(path)),
      // These do not say whether it is a directory that arrived.
      EventKind::Create(CreateKind::Any | CreateKind::Other)
      | EventKind::Modify(ModifyKind::Name(
        RenameMode::To | RenameMode::Both | RenameMode::Any | RenameMode::Other,
      )) if !watched.contains(&path) && is_dir(&path) => seen.push(WatchEvent::DirAdded(path)),
      // Whoever opened the file that stood here before has read something else.
      EventKind::Modify(ModifyKind::Name(RenameMode::To)) => seen.push(WatchEvent::Closed(path)),
      _ => seen.push(WatchEvent::Dirty(path)),
    }
  }
  seen
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
