//! The access to the memory files: workspaces, open files, and the lock that serialises edits.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
  sync::{
    Arc,
    mpsc::{Receiver, TryRecvError},
  },
  time::Duration,
};

use super::{EngineError, Target};
use crate::{
  config::{Config, Owner, Protocol},
  files::{Fs, MemoryFile as _, OpenError, Refusal, Rung, Shapes, Stamp, TargetRules},
  memory::ContentHash,
  os::{Clock, LockError, WriteLock, Writing, user},
};

/// How long to wait for another memfw process to release the write lock.
const WRITE_LOCK_WAIT: Duration = Duration::from_secs(10);
/// How long to wait for a holder that was stopped (SIGSTOP, Ctrl-Z, a debugger), which may hold the lock for hours:
/// longer than most operations take (a choice).
const WRITE_LOCK_HALTED: Duration = Duration::from_millis(500);
/// How long to wait for the write lock before memfw closes its own open files. A child process inherits
/// all descriptors, and with them the lock, until it runs `exec`, so the lock may be busy for a moment.
const WRITE_LOCK_MOMENT: Duration = Duration::from_millis(20);

/// How long another program may have a lease on a file before an open waits for its end: memfw itself holds one for
/// at most half a second (a choice).
const LEASED_LONG: Duration = Duration::from_secs(1);
/// The most files for which an open waits at one time, each on a thread (a choice: one program leases few files).
const MAX_OPENING: usize = 8;

/// The most files that are remembered as read; beyond that all are forgotten and must be read again.
const MAX_READ: usize = 4096;

/// The highest rung that the configuration allows on a file system.
pub fn ceiling(config: &Config) -> Rung {
  match config.protocol {
    Protocol::Auto => Rung::Lease,
    Protocol::EqualLengthOnly => Rung::EqualLengthOnly,
    Protocol::NoLease => Rung::NoLease,
  }
}

/// The memory files of all workspaces. Knows nothing about their content.
pub struct Files<F: Fs> {
  fs: F,
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
  /// memfw's data directory, where the lock is.
  data: PathBuf,
  /// Open workspaces, with the rung of their file system.
  roots: HashMap<PathBuf, (F::Root, Rung)>,
  /// Open files that could not be leased yet. Opening them again would cause events that wake memfw.
  kept_open: HashMap<Target, F::File>,
  /// The directories that are not workspaces.
  shapes: Shapes,
  /// Files that another program has read since their last write.
  read: HashSet<Target>,
  /// Targets that memfw has opened since the last [`Files::take_opens`].
  opens: Vec<Target>,
  /// Since when a program's lease keeps memfw from opening a file.
  leased: HashMap<Target, Duration>,
  /// Opens that wait for the leases of other programs.
  opening: HashMap<Target, Receiver<Result<F::File, OpenError>>>,
}

impl<F: Fs> Files<F> {
  /// Access to files through `fs`; the lock is in the directory `data`.
  pub(super) fn new(fs: F, clock: Arc<dyn Clock>, config: Arc<Config>, data: PathBuf) -> Self {
    Self {
      fs,
      clock,
      config,
      data,
      roots: HashMap::new(),
      kept_open: HashMap::new(),
      shapes: Shapes::default(),
      read: HashSet::new(),
      opens: Vec::new(),
      leased: HashMap::new(),
      opening: HashMap::new(),
    }
  }

  /// Replaces the configuration and the file system. All workspaces and files are opened again.
  pub(super) fn configure(&mut self, config: Arc<Config>, fs: F) {
    self.config = config;
    self.fs = fs;
    self.roots.clear();
    self.kept_open.clear();
    self.opening.clear();
  }

  /// memfw's data directory.
  pub(super) fn data(&self) -> &Path {
    &self.data
  }

  /// The file system.
  pub(super) fn fs(&self) -> &F {
    &self.fs
  }

  /// The directories that are not workspaces.
  pub(super) fn shapes(&self) -> &Shapes {
    &self.shapes
  }

  /// Sets the directories that are not workspaces.
  pub fn set_shapes(&mut self, shapes: Shapes) {
    self.shapes = shapes;
  }

  /// Opens a workspace, unless it is open already.
  pub(super) fn open_root(&mut self, path: &Path) -> Result<(), EngineError> {
    if !self.roots.contains_key(path) {
      let root = self.fs.open_root(path).map_err(EngineError::Root)?;
      let rung = self.fs.rung(&root);
      self.roots.insert(path.to_owned(), (root, rung));
    }
    Ok(())
  }

  /// Forgets the open directory of a workspace, because it may have been replaced.
  pub fn forget_root(&mut self, root: &Path) {
    self.roots.remove(root);
    self.kept_open.retain(|target, _| target.root != root);
  }

  /// Closes the directory of a workspace until it is needed again.
  pub fn close_root(&mut self, root: &Path) {
    self.roots.remove(root);
  }

  /// Whether files of this workspace may change their length.
  pub fn may_reshape(&self, root: &Path) -> bool {
    self.roots.get(root).is_some_and(|(_, rung)| *rung == Rung::Lease)
  }

  /// The rules by which files are opened. The names of owners are looked up each time, because a user
  /// may be created later.
  pub(super) fn rules(&self) -> TargetRules {
    let owners = self
      .config
      .owners
      .iter()
      .filter_map(|owner| match owner {
        Owner::Uid(uid) => Some(*uid),
        // A name that no user has owns no file.
        Owner::Name(name) => user::uid(name).ok(),
      })
      .collect();
    TargetRules { max_bytes: self.config.max_file_bytes, owners }
  }

  /// Acquires the lock that serialises edits of files. Each process holds it for one operation at most.
  pub(super) fn lock(&mut self) -> Result<WriteLock, EngineError> {
    match WriteLock::acquire(&self.data, WRITE_LOCK_MOMENT) {
      // The holder may be waiting for a lease on a file that this process keeps open.
      Err(LockError::Busy { .. }) => self.kept_open.clear(),
      answer => return Ok(answer?),
    }
    match WriteLock::acquire(&self.data, WRITE_LOCK_HALTED) {
      Err(LockError::Busy { holder: Some(Writing { is_halted: false, .. }) | None, .. }) => {}
      answer => return Ok(answer?),
    }
    Ok(WriteLock::acquire(&self.data, WRITE_LOCK_WAIT)?)
  }

  /// The stamp of the path itself, without following links.
  pub(super) fn stamp(&mut self, target: &Target) -> Result<Option<Stamp>, EngineError> {
    self.open_root(&target.root)?;
    match self.roots.get(&target.root) {
      Some((root, _)) => Ok(self.fs.stamp(root, &target.rel)?),
      None => Ok(None),
    }
  }

  /// Opens the target; the inner error is a reason not to touch the file.
  pub(super) fn open(
    &mut self,
    target: &Target,
  ) -> Result<Result<F::File, OpenError>, EngineError> {
    self.open_within(target, Duration::ZERO)
  }

  /// For how long a program's lease has kept memfw from opening a file.
  pub(super) fn leased_for(&self, target: &Target) -> Duration {
    let since = self.leased.get(target);
    since.map_or(Duration::ZERO, |since| self.clock.monotonic().saturating_sub(*since))
  }

  /// Opens the target for a person, who waits up to `patience` while the daemon has a lease on it.
  pub(super) fn open_within(
    &mut self,
    target: &Target,
    patience: Duration,
  ) -> Result<Result<F::File, OpenError>, EngineError> {
    let rules = self.rules();
    self.open_root(&target.root)?;
    self.opens.push(target.clone());
    match self.roots.get(&target.root) {
      Some((root, _)) => {
        let opened = self.fs.open_within(root, &target.rel, &rules, patience, &*self.clock);
        if let Err(OpenError { refusal: Refusal::Busy, .. }) = &opened {
          self.leased.entry(target.clone()).or_insert_with(|| self.clock.monotonic());
          return Ok(self.open_at_last(target, &rules).unwrap_or(opened));
        }
        self.leased.remove(target);
        self.opening.remove(target);
        Ok(opened)
      }
      None => Ok(Err(OpenError { path: target.path(), refusal: Refusal::Absent })),
    }
  }

  /// The file if an open that waited for the lease of another program has succeeded; begins such an open once
  /// the lease has lasted for [`LEASED_LONG`].
  fn open_at_last(
    &mut self,
    target: &Target,
    rules: &TargetRules,
  ) -> Option<Result<F::File, OpenError>> {
    if let Some(opening) = self.opening.get(target) {
      let opened = match opening.try_recv() {
        Err(TryRecvError::Empty) => return None,
        Ok(opened) => Some(opened),
        Err(TryRecvError::Disconnected) => None,
      };
      self.opening.remove(target);
      // Another file may have taken the name while the open waited.
      if let Some(Ok(file)) = &opened
        && !self.is_on_path(target, file).unwrap_or(false)
      {
        return None;
      }
      if opened.is_some() {
        self.leased.remove(target);
      }
      return opened;
    }
    if self.leased_for(target) >= LEASED_LONG && self.opening.len() < MAX_OPENING {
      let (root, _) = self.roots.get(&target.root)?;
      // The event of this open counts as a foreign one, and wakes the daemon at once.
      let opening = self.fs.open_waiting(root, &target.rel, rules)?;
      self.opening.insert(target.clone(), opening);
    }
    None
  }

  /// The bytes of a file; `None` if the ledger does not know this content.
  pub(super) fn read_known(
    &mut self,
    target: &Target,
    hash: Option<ContentHash>,
  ) -> Result<Option<Vec<u8>>, EngineError> {
    // The holder of this lock never waits at the gate.
    let writing = self.lock()?;
    self.read_under(target, hash, &writing)
  }

  /// Reads a file like [`Files::read_known`], for a caller that has the write lock.
  pub(super) fn read_under(
    &mut self,
    target: &Target,
    hash: Option<ContentHash>,
    _: &WriteLock,
  ) -> Result<Option<Vec<u8>>, EngineError> {
    let Ok(file) = self.open(target)? else { return Ok(None) };
    let bytes = file.read_all()?;
    Ok((hash == Some(ContentHash::of(&bytes))).then_some(bytes))
  }

  /// Reads a file without any effect on other programs; `None` if that is not possible, or if its
  /// workspace is not open.
  pub(super) fn glance(
    &mut self,
    target: &Target,
    rules: &TargetRules,
  ) -> Option<(Vec<u8>, Stamp)> {
    let (root, _) = self.roots.get(&target.root)?;
    self.opens.push(target.clone());
    self.fs.glance(root, &target.rel, rules)
  }

  /// Creates an empty file; the inner error is the reason why it cannot be created.
  pub(super) fn create(&mut self, target: &Target) -> Result<Result<(), OpenError>, EngineError> {
    self.open_root(&target.root)?;
    Ok(match self.roots.get(&target.root) {
      Some((root, _)) => self.fs.create(root, &target.rel),
      None => Ok(()),
    })
  }

  /// Whether the path still leads to this file; an editor may have renamed another one over it.
  pub(super) fn is_on_path(
    &mut self,
    target: &Target,
    file: &F::File,
  ) -> Result<bool, EngineError> {
    let open = file.stamp()?;
    Ok(self.stamp(target)?.is_some_and(|stamp| stamp.same_file(&open)))
  }

  /// Takes the open file of a target, if it was kept open.
  pub(super) fn take_open(&mut self, target: &Target) -> Option<F::File> {
    self.kept_open.remove(target)
  }

  /// Closes the file of a target, if it was kept open.
  pub(super) fn close(&mut self, target: &Target) {
    self.kept_open.remove(target);
  }

  /// Keeps a file open: closing it, or opening it again, would cause events that wake memfw.
  pub(super) fn keep_open(&mut self, target: &Target, file: F::File) {
    self.kept_open.insert(target.clone(), file);
  }

  /// Notes that memfw opens a file by other means.
  pub(super) fn note_open(&mut self, target: &Target) {
    self.opens.push(target.clone());
  }

  /// How often memfw has opened a target since the last [`Files::take_opens`].
  pub(super) fn n_opens(&self, target: &Target) -> usize {
    self.opens.iter().filter(|opened| *opened == target).count()
  }

  /// Takes the targets that memfw has opened since the last call.
  pub fn take_opens(&mut self) -> Vec<Target> {
    std::mem::take(&mut self.opens)
  }

  /// Notes that a writer has closed a file. Earlier readers have not read the current content.
  pub fn closed_by_writer(&mut self, target: &Target) {
    self.read.remove(target);
  }

  /// Notes that another program has opened a file since its writer closed it.
  pub fn opened_by_reader(&mut self, target: &Target) {
    if self.read.len() >= MAX_READ {
      self.read.clear();
    }
    self.read.insert(target.clone());
  }

  /// Whether another program has read a file since its last write.
  pub(super) fn was_read(&self, target: &Target) -> bool {
    self.read.contains(target)
  }

  /// How much older than it is a change may seem by the file's times.
  pub(super) fn time_step(&self, target: &Target, stamp: &Stamp) -> Duration {
    let coarse =
      self.roots.get(&target.root).is_some_and(|(root, _)| self.fs.has_coarse_times(root));
    if coarse { stamp.time_step() } else { Duration::ZERO }
  }

  /// How long ago the file changed, by its own stamps and the wall clock; `None` if the clock was set back since, so
  /// that the stamp is from the future.
  pub(super) fn age(&self, stamp: &Stamp) -> Option<Duration> {
    let now_ns = self.clock.now().saturating_mul(1000);
    let since = now_ns.saturating_sub(stamp.changed_ns(now_ns));
    u64::try_from(since).ok().map(Duration::from_nanos)
  }

  /// The age of a file, or the time that the caller has `waited` for it to become idle, if its stamp is from the
  /// future.
  pub(super) fn since_change(&self, stamp: &Stamp, waited: Duration) -> Duration {
    self.age(stamp).unwrap_or(waited)
  }
}
