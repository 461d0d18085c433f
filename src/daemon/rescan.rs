//! Rescans: which directories are watched, which files are dirty, and what is polled instead.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeSet, HashMap},
  io,
  path::{Path, PathBuf},
};

use super::{
  Daemon,
  health::{Room, told},
  moved::adopted_key,
  poll::Why,
};
use crate::{
  engine::{EngineError, Event, EventKind, Target, event::shown, pending},
  files::{Fs as _, Refusal, Shape, WatchError, Workspace, mounts, workspace::Problem},
  store::{FileRow, FileStatus, Pending, StateKey},
};

/// After a rescan the next one waits this many times as long as the rescan took (a choice): a stream of
/// directories that come and go must not keep files waiting.
const RESCAN_REST: u32 = 4;

/// The form in which markers are written now: without names chosen by others.
const MARKER_FORM: &str = "2";

/// How a directory is scanned.
pub(super) enum Scan<'k> {
  /// At a start: a file whose stamp is the one in the ledger is left alone. Every file that exists is
  /// removed from this map.
  First(&'k mut HashMap<PathBuf, FileRow>),
  /// Marks every file as dirty.
  Again,
  /// Marks every file as dirty whose stamp differs from the last poll.
  Poll,
}

impl Daemon {
  /// Adds directories: watches them, and marks every file as dirty that differs from its row in the
  /// ledger.
  pub(super) fn first_scan(&mut self, roots: &[PathBuf]) -> Result<(), EngineError> {
    self.renew_markers()?;
    let roots = &self.owned(roots)?[..];
    let rows = self.engine.ledger().files()?;
    let mut known: HashMap<PathBuf, FileRow> =
      rows.into_iter().map(|row| (row.path.clone(), row)).collect();
    self.choose_baselines(roots)?;
    for root in roots {
      // Watching starts before the scan, so that no change falls between them.
      self.scan(root, Scan::First(&mut known))?;
    }
    // The scan does not find a file that is gone.
    let now = self.now();
    for row in known.into_values().filter(|row| row.status != FileStatus::Missing) {
      if let (true, Ok(rel)) =
        (roots.contains(&row.workspace), row.path.strip_prefix(&row.workspace))
      {
        self.queue.dirty(Target::new(&row.workspace, rel), now);
      }
    }
    let found = self.queue.dirty_targets().filter(|target| roots.contains(&target.root));
    self.adoption.first.extend(found.cloned());
    Ok(())
  }

  /// Markers of an earlier memfw hold names chosen by others, so all markers are written again, once.
  fn renew_markers(&mut self) -> Result<(), EngineError> {
    let ledger = self.engine.ledger();
    if ledger.state(&StateKey::MarkerForm)?.is_some_and(|(form, _)| form == MARKER_FORM) {
      return Ok(());
    }
    for row in ledger.files()?.into_iter().filter(|row| row.status == FileStatus::Watched) {
      pending::add(self.engine.ledger_mut(), &row.path, Pending::RESHAPE)?;
    }
    let at = self.engine.clock().now();
    Ok(self.engine.ledger_mut().set_state(&StateKey::MarkerForm, MARKER_FORM, at)?)
  }

  /// Requests a rescan of the directory of a path, or of all directories without a path.
  pub(super) fn rescan_later(&mut self, path: Option<&Path>) {
    for root in self.directories.workspaces.clone() {
      let concerned = path.is_none_or(|path| path.starts_with(&root) || root.starts_with(path));
      let of_interest = path.and_then(|path| path.strip_prefix(&root).ok()).is_none_or(|rel| {
        rel.as_os_str().is_empty() || self.directories.shapes.of(&root).has_dir(rel)
      });
      if concerned && of_interest {
        self.directories.rescans.insert(root);
      }
    }
  }

  /// Rescans the directories that have changed, once for any number of events.
  pub(super) fn rescan_due(&mut self) {
    let started = self.now();
    if self.directories.rescans.is_empty() || started < self.directories.next_rescan {
      return;
    }
    for root in std::mem::take(&mut self.directories.rescans) {
      self.report(|daemon| daemon.scan(&root, Scan::Again));
    }
    self.watch_sources();
    let now = self.now();
    self.directories.next_rescan = now + now.saturating_sub(started).saturating_mul(RESCAN_REST);
  }

  /// Requests a rescan of everything, and records why.
  pub(super) fn rescan(&mut self, why: &str) {
    self.rescan_later(None);
    let event = Event::new(EventKind::Rescanned).detail(why);
    self.report(|daemon| daemon.engine.tell(event));
  }

  /// The mount table changed, so a watch may no longer be on the directory at its path.
  pub(super) fn mounts_changed(&mut self) {
    let misplaced = self.watching.watcher.misplaced();
    for dir in &misplaced {
      self.watching.watcher.remove(dir);
    }
    let concerned: Vec<PathBuf> = self
      .directories
      .workspaces
      .iter()
      .filter(|root| {
        let moved = misplaced.iter().any(|dir| dir.starts_with(root) || root.starts_with(dir));
        moved || self.directories.incomplete.contains(*root)
      })
      .cloned()
      .collect();
    for root in &concerned {
      self.engine.files().forget_root(root);
      self.report(|daemon| daemon.scan(root, Scan::Again));
    }
    // A mount over a single file does not affect the watched directories.
    let mounted = self.mounted_files();
    let before = std::mem::replace(&mut self.directories.mounted, mounted);
    for path in before.symmetric_difference(&self.directories.mounted.clone()) {
      self.mark(path);
    }
    if !misplaced.is_empty() {
      let event = Event::new(EventKind::Rescanned).detail("a file system was mounted or unmounted");
      self.report(|daemon| daemon.engine.tell(event));
    }
  }

  /// The memory files that are hidden by a mount.
  pub(super) fn mounted_files(&self) -> BTreeSet<PathBuf> {
    mounts::points().into_iter().filter(|path| self.target(path).is_some()).collect()
  }

  /// Polls what is due. Returns whether anything was.
  pub(super) fn poll(&mut self) -> bool {
    let now = self.now();
    let due = self.directories.polls.take(now);
    for root in &due {
      self.report(|daemon| daemon.scan(root, Scan::Poll));
    }
    !due.is_empty()
  }

  /// Scans a directory: watches its subdirectories and marks its files as dirty.
  pub(super) fn scan(&mut self, root: &Path, mut how: Scan<'_>) -> Result<(), EngineError> {
    let key = format!("workspace:{}", shown(root));
    if !self.own(root)? {
      return Ok(());
    }
    let fs = self.fs;
    let workspace = match Workspace::open(&fs, root) {
      Ok(workspace) => workspace,
      Err(error) => {
        self.await_directory(root, matches!(error.refusal, Refusal::Absent));
        let now = self.now();
        if matches!(error.refusal, Refusal::Io(_) | Refusal::Permission) {
          self.directories.retries.failed(root, now);
        } else {
          self.directories.retries.succeeded(root);
        }
        self.directories.incomplete.insert(root.to_owned());
        if matches!(how, Scan::Poll) {
          self.mark_gone(root);
        }
        if self.is_awaited(root)? {
          self.directories.rooms.insert(root.to_owned(), Room::awaited(root));
          return self.engine.recovered(&key);
        }
        return self.engine.degrade(&key, &error.to_string());
      }
    };
    let real = workspace.absolute(Path::new(""));
    if real != root {
      // Events name the directory that is watched, so those of another one would be nobody's.
      self.watching.watcher.remove(root);
      self.await_directory(root, false);
      self.directories.incomplete.insert(root.to_owned());
      let why = format!(
        "`{0}` has become a link to `{1}`, where nothing is guarded: restart memfw to guard that \
        directory",
        shown(root),
        shown(&real)
      );
      return self.engine.degrade(&key, &why);
    }
    let shape = self.directories.shapes.of(root).clone();
    let mut problems: Vec<String> = Vec::new();
    let mut limit = None;
    let mut may_pass = false;
    let mut walk = workspace.walk_as(&fs, &shape);
    loop {
      let watched = self.watching.watcher.watched();
      let mut watched_more = false;
      for dir in walk.dirs.iter().map(|dir| workspace.absolute(dir)) {
        if watched.binary_search(&dir).is_ok() {
          continue;
        }
        match self.watching.watcher.add(&dir) {
          Ok(()) => watched_more = true,
          Err(WatchError::Limit(reached)) => limit = Some(reached),
          Err(error) => {
            // The directory went or was replaced after it was found, so its changes cause no events.
            let is_gone = matches!(error, WatchError::NotADirectory(_) | WatchError::Replaced(_));
            let is_there = dir.symlink_metadata().map_or(dir == root, |found| found.is_dir());
            if is_gone && is_there {
              self.directories.rescans.insert(root.to_owned());
            }
            // A directory that came and went again was never unguarded.
            if !is_gone {
              may_pass = true;
              problems.push(error.to_string());
            }
          }
        }
      }
      self.directories.generation += u64::from(watched_more);
      // Files written into a directory before it was watched are found by a second walk.
      if !watched_more {
        break;
      }
      walk = workspace.walk_as(&fs, &shape);
    }
    self.watching.watcher.watch_end(root);
    // An open directory does not report its removal, so the lock, which keeps it open, is given back.
    if !self.watching.watcher.hears_end(root) {
      self.directories.locks.release(root);
    }
    if shape != Shape::Workspace {
      // A file that is also in a workspace belongs to that workspace.
      let is_own = |target: Target| target.root == root;
      walk.files.retain(|file| self.target(&root.join(file)).is_some_and(is_own));
    }
    problems.extend(walk.problems.iter().map(ToString::to_string));
    self.directories.links.retain(|link| !link.starts_with(root));
    let links = walk.problems.iter().filter(|one| one.is_link()).map(|one| root.join(one.path()));
    self.directories.links.extend(links);
    may_pass |= walk.problems.iter().any(Problem::may_pass);
    self.directories.unreadable.retain(|path| !path.starts_with(root));
    let unreadable = walk.problems.iter().filter(|one| one.may_pass());
    self.directories.unreadable.extend(unreadable.map(|one| workspace.absolute(one.path())));
    let probe = fs.probe(workspace.root());
    let why = if limit.is_some() {
      Some(Why::Unwatched)
    } else {
      probe.needs_polling.then_some(Why::Shared)
    };
    if let Some(limit) = limit {
      problems.push(format!("{limit}; until then files are polled"));
    }
    let now = self.now();
    self.directories.polls.set(root, why, now);
    if may_pass {
      self.directories.retries.failed(root, now);
    } else {
      self.directories.retries.succeeded(root);
    }
    let room = Room::of(root, probe, why.map(|why| why.to_string()));
    self.directories.rooms.insert(root.to_owned(), room);
    let mut stamps = HashMap::new();
    for file in &walk.files {
      let target = Target::new(root, file);
      match &mut how {
        Scan::Again => self.queue.dirty(target, now),
        Scan::Poll => match fs.stamp(workspace.root(), file) {
          Ok(Some(stamp)) => drop(stamps.insert(target, stamp)),
          // The file is gone since, or cannot be read: its pass finds out which.
          Ok(None) | Err(_) => self.queue.dirty(target, now),
        },
        Scan::First(known) => {
          // What was written while this installation waited for another one to end is new to it.
          let is_new = || {
            let stamp = fs.stamp(workspace.root(), file).ok().flatten();
            stamp.is_none_or(|stamp| self.directories.locks.is_of_others(root, &stamp))
          };
          if self.directories.locks.was_foreign(root) && is_new() {
            self.engine.take_over(&target);
          } else if self.adoption.roots.contains(root) && !is_new() {
            self.adoption.baseline.insert(target.clone());
          }
          match known.remove(&target.path()) {
            // A file that could not be guarded is tried again: limits and owners may have changed.
            Some(row) if row.note.is_some() => {
              let at = self.engine.clock().now();
              self.engine.ledger_mut().set_stamp(&row.path, None, row.hash, at)?;
              self.queue.dirty(target, now);
            }
            Some(row) if self.engine.is_current(&target, &row).unwrap_or(false) => {
              if row.pending.contains(Pending::ATTRIBUTE) {
                self.queue.attribute(target, now);
              } else if row.pending.contains(Pending::RESHAPE) {
                self.queue.reshape(target, now);
              }
            }
            _ => self.queue.dirty(target, now),
          }
        }
      }
    }
    match how {
      Scan::First(_) => {}
      Scan::Poll => {
        // A file that went between the start and the first poll is in no earlier poll.
        if self.directories.polls.is_first(root) {
          self.mark_missing(root)?;
        }
        for target in self.directories.polls.changed(root, stamps) {
          self.queue.dirty(target, now);
        }
      }
      Scan::Again => {
        self.mark_missing(root)?;
        self.note_adopted(root)?;
      }
    }
    self.await_no_more();
    match told(problems) {
      None => {
        self.directories.incomplete.remove(root);
        self.engine.recovered(&key)
      }
      Some(text) => {
        self.directories.incomplete.insert(root.to_owned());
        self.engine.degrade(&key, &text)
      }
    }
  }

  /// Whether a missing directory may appear later without a complaint: it never existed, no person named
  /// it, and another guarded directory exists. The agent creates it when it needs it.
  fn is_awaited(&self, root: &Path) -> Result<bool, EngineError> {
    let is_known = self.engine.ledger().state(&adopted_key(root))?.is_some();
    let is_absent =
      root.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let others = self.directories.workspaces.iter().any(|other| other.is_dir());
    Ok(is_absent && others && !is_known && !self.directories.is_named)
  }

  /// Notes that a directory that appeared while the daemon runs has no baseline: all its content is new.
  fn note_adopted(&mut self, root: &Path) -> Result<(), EngineError> {
    let key = adopted_key(root);
    if self.adoption.roots.contains(root) || self.engine.ledger().state(&key)?.is_some() {
      return Ok(());
    }
    let at = self.engine.clock().now();
    Ok(self.engine.ledger_mut().set_state(&key, "{}", at)?)
  }

  /// Marks files as dirty that the ledger knows and that may be gone: the event of their removal may be
  /// lost.
  fn mark_missing(&mut self, root: &Path) -> Result<(), EngineError> {
    let now = self.now();
    for row in self.engine.ledger().files()? {
      if let (true, Ok(rel)) = (row.workspace == root, row.path.strip_prefix(root))
        && row.status != FileStatus::Missing
      {
        // Existing files are dirty already.
        self.queue.dirty(Target::new(root, rel), now);
      }
    }
    Ok(())
  }

  /// A polled workspace that is gone takes its files with it.
  fn mark_gone(&mut self, root: &Path) {
    let now = self.now();
    for target in self.directories.polls.changed(root, HashMap::new()) {
      self.queue.dirty(target, now);
    }
  }

  /// Watches the nearest existing directory above a missing one, to see it appear.
  fn await_directory(&mut self, root: &Path, is_absent: bool) {
    let nearest = |skipped| root.ancestors().skip(skipped).find(|dir| dir.is_dir());
    let above = nearest(1);
    if let Some(Err(error)) = above.map(|dir| self.watching.watcher.add(dir)) {
      tracing::warn!(target: "memfw", %error, "a missing workspace is polled for");
      let now = self.now();
      self.directories.polls.set(root, Some(Why::Unwatched), now);
    }
    // What came before that was watched made no event.
    if is_absent && nearest(0) != above {
      self.directories.rescans.insert(root.to_owned());
    }
  }

  /// Stops watching the parents of formerly missing directories once all directories exist, because
  /// these watches cause events of their own.
  fn await_no_more(&mut self) {
    let is_there =
      |root: &PathBuf| root.canonicalize().is_ok_and(|real| real == *root && real.is_dir());
    if self.directories.workspaces.iter().all(is_there) {
      for dir in self.watching.watcher.watched() {
        let needed = self.sources.is_watched(&dir);
        if !needed && !self.directories.workspaces.iter().any(|root| dir.starts_with(root)) {
          self.watching.watcher.remove(&dir);
        }
      }
    }
  }

  /// The memory file at the path of an event.
  pub(super) fn target(&self, path: &Path) -> Option<Target> {
    self.directories.target(path)
  }
}
