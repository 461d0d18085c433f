//! Rescans: which directories are watched, which files are dirty, and what is polled instead.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet, HashMap, HashSet},
  io,
  os::unix::fs::MetadataExt as _,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  adoption::adopted_key,
  core::Core,
  discovery::Sources,
  health::{Room, joined},
  marker_form::renew_markers,
  poll::{EVERY, Polls, Retries, Why},
  queue::Written,
  service::seconds,
};
use crate::{
  engine::{EngineError, Event, EventKind, Target, event::shown},
  files::{Fs as _, Refusal, Shape, WatchError, Workspace, mounts, workspace::Problem},
  store::{FileRow, FileStatus, PartKind, Pending},
};

/// After a rescan the next one waits this many times as long as the rescan took (a choice): a stream of
/// directories that come and go must not keep files waiting.
const RESCAN_REST: u32 = 4;

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

/// What the scans of the guarded directories have found, and when the next ones are due.
#[derive(Default)]
pub(super) struct Rescans {
  /// The configuration files from which the directories were found.
  pub(super) sources: Sources,
  /// What `status` reports about each directory.
  pub(super) rooms: BTreeMap<PathBuf, Room>,
  /// Directories that are polled because events are not reliable there.
  polls: Polls,
  /// Those of which a part could not be read, and may be readable later.
  retries: Retries,
  /// Those of which a part is not guarded.
  incomplete: HashSet<PathBuf>,
  /// The paths in them that could not be read.
  unreadable: HashSet<PathBuf>,
  /// Symbolic links in them that no rescan followed.
  links: HashSet<PathBuf>,
  /// Memory files that are hidden by a mount.
  mounted: BTreeSet<PathBuf>,
  /// Directories whose file system is mounted read-only.
  read_only: HashSet<PathBuf>,
  /// Directories that need a rescan.
  dirty: BTreeSet<PathBuf>,
  /// The earliest time of the next rescan.
  next_rescan: Duration,
}

impl Rescans {
  /// No scan so far; the directories were found from these files.
  pub(super) fn of(sources: Sources) -> Self {
    Self { sources, ..Self::default() }
  }

  /// Whether a directory is to be scanned again.
  pub(super) fn is_due(&self) -> bool {
    !self.dirty.is_empty()
  }

  /// How long until the next scan or poll, or until the configuration files are read again.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let rescan = self.is_due().then(|| self.next_rescan.saturating_sub(now));
    let due =
      [rescan, self.sources.next_due(now), self.polls.next_due(now), self.retries.next_due(now)];
    due.into_iter().flatten().min()
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeups(&self, core: &Core) -> Vec<String> {
    let mut wakeups = Vec::new();
    for (root, room) in &self.rooms {
      if let Some(why) = &room.polled {
        wakeups.push(format!("polls `{}` every {}: {why}", shown(root), seconds(EVERY)));
      }
    }
    wakeups.extend(core.directories.locks.wakeups());
    wakeups.extend(self.retries.wakeups());
    wakeups
  }

  /// Adds directories: watches them, and marks every file as dirty that differs from its row in the
  /// ledger.
  pub(super) fn first_scan(
    &mut self,
    core: &mut Core,
    roots: &[PathBuf],
  ) -> Result<(), EngineError> {
    renew_markers(&mut core.engine)?;
    let roots = &core.directories.locks.owned(&mut core.engine, roots)?[..];
    let rows = core.engine.ledger().files()?;
    let mut known: HashMap<PathBuf, FileRow> =
      rows.into_iter().map(|row| (row.path.clone(), row)).collect();
    core.adoption.choose(&mut core.engine, roots, core.directories.is_named)?;
    for root in roots {
      // Watching starts before the scan, so that no change falls between them.
      self.scan(core, root, Scan::First(&mut known))?;
    }
    // The scan does not find a file that is gone.
    let now = core.now();
    for row in known.into_values().filter(|row| row.status != FileStatus::Missing) {
      if let (true, Ok(rel)) =
        (roots.contains(&row.workspace), row.path.strip_prefix(&row.workspace))
      {
        core.queue.dirty(Target::new(&row.workspace, rel), now);
      }
    }
    let found = core.queue.dirty_targets().filter(|target| roots.contains(&target.root));
    core.adoption.first.extend(found.cloned());
    Ok(())
  }

  /// Requests a rescan of the directory of a path, or of all directories without a path.
  pub(super) fn rescan_later(&mut self, core: &Core, path: Option<&Path>) {
    for root in core.directories.workspaces.clone() {
      let concerned = path.is_none_or(|path| path.starts_with(&root) || root.starts_with(path));
      let of_interest = path.and_then(|path| path.strip_prefix(&root).ok()).is_none_or(|rel| {
        rel.as_os_str().is_empty() || core.directories.shapes.of(&root).has_dir(rel)
      });
      if concerned && of_interest {
        self.dirty.insert(root);
      }
    }
  }

  /// Rescans the directories that have changed, once for any number of events.
  pub(super) fn rescan_due(&mut self, core: &mut Core) {
    let started = core.now();
    self.dirty.extend(self.retries.take(started));
    if self.dirty.is_empty() || started < self.next_rescan {
      return;
    }
    for root in std::mem::take(&mut self.dirty) {
      core.report(|core| self.scan(core, &root, Scan::Again));
    }
    self.sources.watch(core);
    let now = core.now();
    self.next_rescan = now + now.saturating_sub(started).saturating_mul(RESCAN_REST);
  }

  /// Requests a rescan of everything, and records why.
  pub(super) fn rescan(&mut self, core: &mut Core, why: &str) {
    self.rescan_later(core, None);
    let event = Event::new(EventKind::Rescanned).detail(why);
    core.report(|core| core.engine.tell(event));
  }

  /// The mount table changed, so a watch may no longer be on the directory at its path.
  pub(super) fn mounts_changed(&mut self, core: &mut Core) {
    let misplaced = core.watching.watcher.misplaced();
    for dir in &misplaced {
      core.watching.watcher.remove(dir);
    }
    let concerned: Vec<PathBuf> = core
      .directories
      .workspaces
      .iter()
      .filter(|root| {
        let moved = misplaced.iter().any(|dir| dir.starts_with(root) || root.starts_with(dir));
        // A mount that becomes read-only, or writable again, changes no stamp.
        let is_other = mounts::is_read_only(root) != self.read_only.contains(*root);
        moved || is_other || self.incomplete.contains(*root)
      })
      .cloned()
      .collect();
    for root in &concerned {
      core.engine.files().forget_root(root);
      if self.read_only.contains(root) {
        core.report(|core| forget_notes(core, root));
      }
      core.report(|core| self.scan(core, root, Scan::Again));
    }
    // A mount over a single file does not affect the watched directories.
    let before = self.find_mounts(core);
    for path in before.symmetric_difference(&self.mounted.clone()) {
      self.mark(core, path);
    }
    if !misplaced.is_empty() {
      let event = Event::new(EventKind::Rescanned).detail("a file system was mounted or unmounted");
      core.report(|core| core.engine.tell(event));
    }
  }

  /// Finds the memory files that are hidden by a mount, and returns those that were found before.
  pub(super) fn find_mounts(&mut self, core: &Core) -> BTreeSet<PathBuf> {
    let points = mounts::points().into_iter();
    let mounted = points.filter(|path| core.directories.target(path).is_some()).collect();
    std::mem::replace(&mut self.mounted, mounted)
  }

  /// Polls what is due. Returns whether anything was.
  pub(super) fn poll(&mut self, core: &mut Core) -> bool {
    let now = core.now();
    let due = self.polls.take(now);
    for root in &due {
      core.report(|core| self.scan(core, root, Scan::Poll));
    }
    !due.is_empty()
  }

  /// Scans a directory: watches its subdirectories and marks its files as dirty.
  pub(super) fn scan(
    &mut self,
    core: &mut Core,
    root: &Path,
    mut how: Scan<'_>,
  ) -> Result<(), EngineError> {
    let part = || PartKind::Workspace.of(shown(root));
    if !core.own(root)? {
      return Ok(());
    }
    let fs = core.fs;
    let workspace = match Workspace::open(&fs, root) {
      Ok(workspace) => workspace,
      Err(error) => {
        self.await_directory(core, root, matches!(error.refusal, Refusal::Absent));
        let now = core.now();
        if matches!(error.refusal, Refusal::Io(_) | Refusal::Permission) {
          self.retries.failed(root, now);
        } else {
          self.retries.succeeded(root);
        }
        self.incomplete.insert(root.to_owned());
        if matches!(how, Scan::Poll) {
          // A polled workspace that is gone takes its files with it.
          for target in self.polls.changed(root, HashMap::new()) {
            core.queue.dirty(target, now);
          }
        }
        if is_awaited(core, root)? {
          self.rooms.insert(root.to_owned(), Room::awaited(root));
          return core.engine.recovered(part());
        }
        return core.engine.degrade(part(), &error.to_string());
      }
    };
    let real = workspace.absolute(Path::new(""));
    if real != root {
      // Events name the directory that is watched, so those of another one would be nobody's.
      core.watching.watcher.remove(root);
      self.await_directory(core, root, false);
      self.incomplete.insert(root.to_owned());
      let why = format!(
        "`{0}` has become a link to `{1}`, where nothing is guarded: restart memfw to guard that \
        directory",
        shown(root),
        shown(&real)
      );
      return core.engine.degrade(part(), &why);
    }
    let shape = core.directories.shapes.of(root).clone();
    let mut problems: Vec<String> = Vec::new();
    let mut limit = None;
    let mut may_pass = false;
    let mut walk = workspace.walk_as(&fs, &shape);
    loop {
      let watched = core.watching.watcher.watched();
      let mut watched_more = false;
      for dir in walk.dirs.iter().map(|dir| workspace.absolute(dir)) {
        if watched.binary_search(&dir).is_ok() {
          continue;
        }
        match core.watching.watcher.add(&dir) {
          Ok(()) => watched_more = true,
          Err(WatchError::Limit(reached)) => limit = Some(reached),
          Err(error) => {
            // The directory went or was replaced after it was found, so its changes cause no events.
            let is_gone = matches!(error, WatchError::NotADirectory(_) | WatchError::Replaced(_));
            let is_there = dir.symlink_metadata().map_or(dir == root, |found| found.is_dir());
            if is_gone && is_there {
              self.dirty.insert(root.to_owned());
            }
            // A directory that came and went again was never unguarded.
            if !is_gone {
              may_pass = true;
              problems.push(error.to_string());
            }
          }
        }
      }
      core.watching.generation += u64::from(watched_more);
      // Files written into a directory before it was watched are found by a second walk.
      if !watched_more {
        break;
      }
      walk = workspace.walk_as(&fs, &shape);
    }
    core.watching.watcher.watch_end(root);
    // An open directory does not report its removal, so the lock, which keeps it open, is given back.
    if !core.watching.watcher.hears_end(root) {
      core.directories.locks.release(root);
    }
    if shape != Shape::Workspace {
      // A file that is also in a workspace belongs to that workspace.
      let is_own = |target: Target| target.root == root;
      walk.files.retain(|file| core.directories.target(&root.join(file)).is_some_and(is_own));
    }
    problems.extend(walk.problems.iter().map(ToString::to_string));
    self.links.retain(|link| !link.starts_with(root));
    let links = walk.problems.iter().filter(|one| one.is_link()).map(|one| root.join(one.path()));
    self.links.extend(links);
    may_pass |= walk.problems.iter().any(Problem::may_pass);
    self.unreadable.retain(|path| !path.starts_with(root));
    let unreadable = walk.problems.iter().filter(|one| one.may_pass());
    self.unreadable.extend(unreadable.map(|one| workspace.absolute(one.path())));
    if mounts::is_read_only(root) {
      self.read_only.insert(root.to_owned());
      problems.push(format!(
        "`{}` is mounted read-only: new text is judged, and poison in it cannot be taken out; mount it \
         writable again, and memfw catches up",
        shown(root)
      ));
    } else {
      self.read_only.remove(root);
    }
    let probe = fs.probe(workspace.root());
    let why = if limit.is_some() {
      Some(Why::Unwatched)
    } else {
      probe.needs_polling.then_some(Why::Shared)
    };
    if let Some(limit) = limit {
      problems.push(format!("{limit}; until then files are polled"));
    }
    let now = core.now();
    self.polls.set(root, why, now);
    if may_pass {
      self.retries.failed(root, now);
    } else {
      self.retries.succeeded(root);
    }
    let room = Room::of(root, probe, why.map(|why| why.to_string()));
    self.rooms.insert(root.to_owned(), room);
    let mut stamps = HashMap::new();
    for file in &walk.files {
      let target = Target::new(root, file);
      match &mut how {
        Scan::Again => {
          let written = written(&target.path());
          core.queue.written(target, now, written);
        }
        Scan::Poll => match fs.stamp(workspace.root(), file) {
          Ok(Some(stamp)) => drop(stamps.insert(target, stamp)),
          // The file is gone since, or cannot be read: its pass finds out which.
          Ok(None) | Err(_) => core.queue.dirty(target, now),
        },
        Scan::First(known) => {
          // What was written while this installation waited for another one to end is new to it.
          let is_new = || {
            let stamp = fs.stamp(workspace.root(), file).ok().flatten();
            stamp.is_none_or(|stamp| core.directories.locks.is_of_others(root, &stamp))
          };
          if core.directories.locks.was_foreign(root) && is_new() {
            core.engine.take_over(&target);
          } else if core.adoption.roots.contains(root) && !is_new() {
            core.adoption.baseline.insert(target.clone());
          }
          match known.remove(&target.path()) {
            // A file that could not be guarded is tried again: limits and owners may have changed.
            Some(row) if row.note.is_some() => {
              let at = core.engine.clock().now();
              core.engine.ledger_mut().set_stamp(&row.path, None, row.hash, at)?;
              core.queue.dirty(target, now);
            }
            Some(row) if core.engine.is_current(&target, &row).unwrap_or(false) => {
              if row.pending.contains(Pending::ATTRIBUTE) {
                core.queue.attribute(target, now);
              } else if row.pending.contains(Pending::RESHAPE) {
                core.queue.reshape(target, now);
              }
            }
            _ => core.queue.dirty(target, now),
          }
        }
      }
    }
    match how {
      Scan::First(_) => {}
      Scan::Poll => {
        // A file that went between the start and the first poll is in no earlier poll.
        if self.polls.is_first(root) {
          mark_missing(core, root)?;
        }
        for target in self.polls.changed(root, stamps) {
          core.queue.dirty(target, now);
        }
      }
      Scan::Again => {
        mark_missing(core, root)?;
        core.adoption.note_new(&mut core.engine, root)?;
      }
    }
    self.await_no_more(core);
    match joined(problems) {
      None => {
        self.incomplete.remove(root);
        core.engine.recovered(part())
      }
      Some(text) => {
        self.incomplete.insert(root.to_owned());
        core.engine.degrade(part(), &text)
      }
    }
  }

  /// Watches the nearest existing directory above a missing one, to see it appear.
  fn await_directory(&mut self, core: &mut Core, root: &Path, is_absent: bool) {
    let nearest = |skipped| root.ancestors().skip(skipped).find(|dir| dir.is_dir());
    let above = nearest(1);
    if let Some(Err(error)) = above.map(|dir| core.watching.watcher.add(dir)) {
      tracing::warn!(target: "memfw", %error, "a missing workspace is polled for");
      let now = core.now();
      self.polls.set(root, Some(Why::Unwatched), now);
    }
    // What came before that was watched made no event.
    if is_absent && nearest(0) != above {
      self.dirty.insert(root.to_owned());
    }
  }

  /// Stops watching the parents of formerly missing directories once all directories exist, because
  /// these watches cause events of their own.
  fn await_no_more(&mut self, core: &mut Core) {
    let is_there =
      |root: &PathBuf| root.canonicalize().is_ok_and(|real| real == *root && real.is_dir());
    if core.directories.workspaces.iter().all(is_there) {
      for dir in core.watching.watcher.watched() {
        if !self.sources.is_watched(&dir) && core.directories.is_outside(&dir) {
          core.watching.watcher.remove(&dir);
        }
      }
    }
  }

  /// Takes over directories whose locks are free now, and scans them as at a start.
  pub(super) fn take_over(&mut self, core: &mut Core) {
    let now = core.now();
    for root in core.directories.locks.take_due(now) {
      core.report(|core| {
        if !core.own(&root)? {
          return Ok(());
        }
        if core.report_only.is_none() {
          core.recover()?;
        }
        self.first_scan(core, std::slice::from_ref(&root))
      });
    }
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(&mut self, core: &mut Core, root: &Path) {
    for dir in core.watching.watcher.watched() {
      if dir.starts_with(root) && core.directories.is_outside(&dir) {
        core.watching.watcher.remove(&dir);
      }
    }
    let now = core.now();
    self.polls.set(root, None, now);
    self.rooms.remove(root);
    self.incomplete.remove(root);
    self.read_only.remove(root);
    self.retries.succeeded(root);
  }

  /// Marks what is at the path of an event.
  pub(super) fn mark(&mut self, core: &mut Core, path: &Path) {
    let now = core.now();
    if let Some(target) = core.directories.target(path) {
      core.queue.written(target, now, written(path));
    } else if path.is_symlink() != self.links.contains(path) || self.unreadable.contains(path) {
      // A link in place of a directory is reported, and so is its end.
      self.rescan_later(core, Some(path));
    }
  }
}

/// What is at a path, for the order in which files are processed; it is not opened.
fn written(path: &Path) -> Option<Written> {
  let found = path.symlink_metadata().ok()?;
  // A modification time after the last change of the inode was set by a program.
  let at = (found.mtime(), found.mtime_nsec()).min((found.ctime(), found.ctime_nsec()));
  let nanos = u32::try_from(at.1).unwrap_or_default();
  let at = Duration::new(u64::try_from(at.0).unwrap_or_default(), nanos);
  Some(Written { size: found.len(), at })
}

/// Removes the stamps of files that could not be written, so that they are read again: memfw may be able to
/// write them now.
fn forget_notes(core: &mut Core, root: &Path) -> Result<(), EngineError> {
  let at = core.engine.clock().now();
  for row in core.engine.ledger().files()? {
    if row.workspace == root && row.note.is_some() && row.status != FileStatus::Missing {
      core.engine.ledger_mut().set_stamp(&row.path, None, row.hash, at)?;
    }
  }
  Ok(())
}

/// Marks files as dirty that the ledger knows and that may be gone: the event of their removal may be
/// lost.
fn mark_missing(core: &mut Core, root: &Path) -> Result<(), EngineError> {
  let now = core.now();
  for row in core.engine.ledger().files()? {
    if let (true, Ok(rel)) = (row.workspace == root, row.path.strip_prefix(root))
      && row.status != FileStatus::Missing
    {
      // Existing files are dirty already.
      core.queue.dirty(Target::new(root, rel), now);
    }
  }
  Ok(())
}

/// Whether a missing directory may appear later without a complaint: it never existed, no person named
/// it, and another guarded directory exists. The agent creates it when it needs it.
fn is_awaited(core: &Core, root: &Path) -> Result<bool, EngineError> {
  let is_known = core.engine.ledger().state(&adopted_key(root))?.is_some();
  let is_absent =
    root.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
  let others = core.directories.workspaces.iter().any(|other| other.is_dir());
  Ok(is_absent && others && !is_known && !core.directories.is_named)
}
