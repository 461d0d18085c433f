//! The simulated file system as the engine sees it: each call is a point at which others run, at
//! which the call may fail, and at which the engine may be killed.
#![forbid(unsafe_code)]

use std::{
  cell::{Cell, RefCell},
  io,
  panic::resume_unwind,
  path::{Path, PathBuf},
  rc::Rc,
  sync::Arc,
  time::Duration,
};

use memfw::files::{
  Fs, FsError, Kind, Listing, MemoryFile, OpenError, Reason, Refusal, RootDir, Rung, Stamp,
  TargetRules, Touch,
};

use super::{
  absent::in_empty,
  clock::{Killed, SimClock},
  control::Control,
  disk::Inode,
  fault::Fate,
  oracle::Write,
  world::World,
};

/// The workspace of all schedules; it exists in no real file system.
pub(crate) const ROOT: &str = "/sim/workspace";
/// The directory in its place while its file system is not mounted.
pub(crate) const EMPTY: &str = "/sim/empty";
/// The user who owns a file that is not ours.
const STRANGER: u32 = 4711;

/// A handle on the world, given to the engine.
#[derive(Clone)]
pub(crate) struct SimFs {
  pub(crate) world: Rc<RefCell<World>>,
  pub(crate) clock: Arc<SimClock>,
}

pub(crate) struct SimRoot {
  path: PathBuf,
  /// Whether this is the empty directory in the place of the workspace.
  is_empty: bool,
}

impl RootDir for SimRoot {
  fn path(&self) -> &Path {
    &self.path
  }

  fn is_current(&self) -> bool {
    true
  }
}

impl SimFs {
  /// The engine calls. The world is not borrowed while the engine is being killed.
  fn enter(&self, name: &str) -> Result<(), io::Error> {
    let fate = self.world.borrow_mut().called(name, false);
    match fate {
      // A full disk is no matter for calls that need no space.
      Fate::Fine | Fate::Fails(io::ErrorKind::StorageFull) => Ok(()),
      Fate::Fails(kind) | Fate::Strikes(kind) => Err(self.failure(kind)),
      Fate::Killed => resume_unwind(Box::new(Killed)),
    }
  }

  fn failure(&self, kind: io::ErrorKind) -> io::Error {
    self.world.borrow_mut().note(match kind {
      io::ErrorKind::Interrupted => "fault: interrupted",
      io::ErrorKind::StorageFull => "fault: disk full",
      _ => "fault: input/output error",
    });
    io::Error::from(kind)
  }

  /// Where a path below an open directory leads now.
  fn place(&self, root: &SimRoot, rel: &Path) -> PathBuf {
    if root.is_empty {
      return in_empty(rel);
    }
    self.world.borrow().disk.at(&root.path.join(rel)).into_owned()
  }

  /// What may be done with a file, as its inode says.
  fn touch(&self, inode: &Inode) -> Touch {
    if self.world.borrow().control == Control::BlindOpen {
      Touch::Full
    } else if inode.foreign {
      Touch::ReadOnly(Reason::ForeignOwner(STRANGER))
    } else if inode.links > 1 {
      Touch::ReadOnly(Reason::HardLinked(inode.links as u64))
    } else {
      Touch::Full
    }
  }
}

impl Fs for SimFs {
  type Root = SimRoot;
  type File = SimFile;

  fn open_root(&self, path: &Path) -> Result<SimRoot, OpenError> {
    let is_away = self.world.borrow().disk.is_away;
    match is_away {
      Some(false) => Err(OpenError { path: path.to_owned(), refusal: Refusal::Absent }),
      _ => Ok(SimRoot { path: path.to_owned(), is_empty: is_away.is_some() }),
    }
  }

  fn stamp(&self, root: &SimRoot, rel: &Path) -> Result<Option<Stamp>, FsError> {
    let path = root.path.join(rel);
    self.enter("lstat").map_err(|error| FsError::io("stat", &path, error))?;
    let place = self.place(root, rel);
    let world = self.world.borrow();
    Ok(world.disk.lookup(&place).map(|ino| world.stamp(ino)))
  }

  fn kind(&self, root: &SimRoot, rel: &Path) -> Result<Option<Kind>, FsError> {
    let path = root.path.join(rel);
    self.enter("lstat").map_err(|error| FsError::io("stat", &path, error))?;
    let place = self.place(root, rel);
    let world = self.world.borrow();
    Ok(world.disk.lookup(&place).map(|ino| world.disk.inode(ino).kind))
  }

  fn open(&self, root: &SimRoot, rel: &Path, rules: &TargetRules) -> Result<SimFile, OpenError> {
    let path = root.path.join(rel);
    let refused = |refusal| OpenError { path: path.clone(), refusal };
    self.enter("find").map_err(|error| refused(Refusal::Io(error)))?;
    let found = self.world.borrow().disk.lookup(&self.place(root, rel));
    let found = found.ok_or_else(|| refused(Refusal::Absent))?;
    match self.world.borrow().disk.inode(found).kind {
      Kind::File => {}
      Kind::Symlink => return Err(refused(Refusal::Symlink)),
      kind => return Err(refused(Refusal::NotRegular(kind))),
    }
    self.enter("open").map_err(|error| refused(Refusal::Io(error)))?;
    let place = self.place(root, rel);
    let mut world = self.world.borrow_mut();
    if world.disk.lookup(&place) != Some(found) {
      return Err(refused(Refusal::Replaced));
    }
    if world.disk.is_leased(&place) {
      // Only the engine takes leases here, so it would wait for itself.
      world.oracle.violation("I5: the engine opens a file that it has leased");
      return Err(refused(Refusal::Busy));
    }
    let now = world.now_ns();
    let fd = world.disk.open(&place, false, false, now).ok_or_else(|| refused(Refusal::Absent))?;
    let size = world.disk.inode(found).data.len() as u64;
    drop(world);
    // The file may have grown or been linked between the check and the open.
    let mut file = SimFile {
      fs: self.clone(),
      path: path.clone(),
      fd,
      access: Touch::Full,
      leased_at: None,
      leased_len: None,
      age: Cell::new(None),
      compared: Cell::new(false),
      first: RefCell::new(None),
    };
    self.enter("fstat").map_err(|error| refused(Refusal::Io(error)))?;
    if size > rules.max_bytes {
      return Err(refused(Refusal::TooLarge { size, limit: rules.max_bytes }));
    }
    let inode = self.world.borrow().disk.inode(found).clone();
    file.access = self.touch(&inode);
    Ok(file)
  }

  fn create(&self, root: &SimRoot, rel: &Path) -> Result<(), OpenError> {
    let path = root.path.join(rel);
    let refused = |refusal| OpenError { path: path.clone(), refusal };
    self.enter("create").map_err(|error| refused(Refusal::Io(error)))?;
    let place = self.place(root, rel);
    let mut world = self.world.borrow_mut();
    let now = world.now_ns();
    if root.is_empty {
      return Err(refused(Refusal::Permission));
    }
    if world.disk.lookup(&place).is_some() {
      return Err(refused(Refusal::Io(io::ErrorKind::AlreadyExists.into())));
    }
    world.disk.create(&place, Kind::File, now);
    Ok(())
  }

  fn rung(&self, _root: &SimRoot) -> Rung {
    self.world.borrow().rung
  }

  fn has_coarse_times(&self, _root: &SimRoot) -> bool {
    self.world.borrow().step_ns > 1
  }

  fn list(&self, _root: &SimRoot, _rel: &Path, _limit: usize) -> Result<Listing, FsError> {
    Ok(Listing::default())
  }
}

/// An open file of the engine.
pub(crate) struct SimFile {
  fs: SimFs,
  path: PathBuf,
  fd: u64,
  access: Touch,
  leased_at: Option<Duration>,
  /// How long the file was when the lease was granted, in bytes.
  leased_len: Option<usize>,
  /// How old the lease was when the engine looked last.
  age: Cell<Option<Duration>>,
  /// Whether the last call compared: without a lease, the write that follows is taken together with
  /// it, because what lies between is a documented remainder (about a microsecond).
  compared: Cell<bool>,
  /// What was read first, for the control that compares blindly.
  first: RefCell<Option<Vec<u8>>>,
}

impl SimFile {
  fn enter(&self, op: &'static str) -> Result<(), FsError> {
    self.compared.set(false);
    self.fs.enter(op).map_err(|error| FsError::io(op, &self.path, error))
  }

  fn ino(&self, world: &World) -> usize {
    world.disk.ino(self.fd).unwrap()
  }

  fn is_blind(&self) -> bool {
    self.fs.world.borrow().control == Control::BlindComparison
  }

  fn is_leased(&self) -> bool {
    let world = self.fs.world.borrow();
    world.disk.inode(self.ino(&world)).lease == Some(self.fd)
  }

  fn now(&self) -> Vec<u8> {
    let world = self.fs.world.borrow();
    world.disk.inode(self.ino(&world)).data.clone()
  }

  /// What was read, or what it was at first when comparing is blind.
  fn seen(&self, now: Vec<u8>) -> Vec<u8> {
    if self.is_blind() { self.first.borrow_mut().get_or_insert(now).clone() } else { now }
  }

  /// Writes `bytes` at `at`; or cuts.
  fn edit(&self, at: usize, bytes: Option<&[u8]>) {
    let mut world = self.fs.world.borrow_mut();
    let world = &mut *world;
    let ino = self.ino(world);
    let now = world.now_ns();
    let before = world.disk.inode(ino).data.clone();
    let blind = world.control == Control::BlindComparison;
    let leased = blind || world.disk.inode(ino).lease == Some(self.fd);
    match bytes {
      Some(bytes) => world.disk.write(ino, at, bytes, now),
      None => world.disk.truncate(ino, at, now),
    }
    let after = &world.disk.inode(ino).data;
    if world.trace.is_some() {
      let shown = after.escape_ascii().to_string();
      world.say(|| format!("now: {shown}"));
    }
    world.oracle.changes_at_write = world.n_changes;
    // What happens to a file that has no name any more is of no interest to anybody.
    if world.ino_of(&self.path) == Some(ino) {
      world.judge_place();
      world.hear_of(&self.path);
      let inode = world.disk.inode(ino);
      let unsafe_target = inode.unsafe_since.is_some_and(|call| call < world.oracle.asked_at);
      let (after, maps) = (inode.data.clone(), inode.maps);
      let (path, before, after) = (&*self.path, &before[..], &after[..]);
      let (rung, age, leased_len) = (world.rung, self.age.get(), self.leased_len);
      let write = Write {
        path,
        leased,
        leased_len,
        age,
        rung,
        maps,
        unsafe_target,
        at,
        bytes,
        before,
        after,
      };
      let what = world.oracle.judge(&world.book, &write);
      if let Some(what) = what {
        world.tally.count(what);
      }
    }
  }

  /// Notes whether a write is going to be continued.
  fn half_written(&self, is_half: bool) {
    let before = is_half.then(|| self.now());
    let mut world = self.fs.world.borrow_mut();
    let ino = self.ino(&world);
    let known = world.half_written.take();
    let known = known.filter(|(of, _)| is_half && *of == ino);
    world.half_written = known.or_else(|| before.map(|before| (ino, before)));
  }

  /// A write that fails or is killed may have got as far as a page boundary.
  fn cut_short(&self, at: usize, bytes: &[u8]) {
    let torn = self.fs.world.borrow_mut().torn(at, bytes.len());
    if let Some(n) = torn {
      self.edit(at, Some(&bytes[..n]));
    }
  }

  /// A call that changes the file. A failure is nothing to an engine that is deaf to it.
  fn enter_change(&self, op: &'static str) -> Result<bool, FsError> {
    match self.enter(op) {
      Err(_) if self.fs.world.borrow().control == Control::DeafToErrors => Ok(false),
      answer => answer.map(|()| true),
    }
  }

  /// Writes as much as the system takes at once: all of it, nearly always.
  fn put(
    &self,
    name: &'static str,
    at: usize,
    bytes: &[u8],
    alone: bool,
  ) -> Result<usize, FsError> {
    let fate = self.fs.world.borrow_mut().called(name, alone);
    let deaf = self.fs.world.borrow().control == Control::DeafToErrors;
    let failed = |kind| {
      let error = FsError::io(name, &self.path, self.fs.failure(kind));
      if deaf { Ok(bytes.len()) } else { Err(error) }
    };
    match fate {
      Fate::Fails(io::ErrorKind::StorageFull) => {
        let room = self.now().len().saturating_sub(at).min(bytes.len());
        if room < bytes.len() {
          // What is there already needs no space.
          self.edit(at, Some(&bytes[..room]));
          return failed(io::ErrorKind::StorageFull);
        }
      }
      Fate::Fails(kind) | Fate::Strikes(kind) => {
        self.cut_short(at, bytes);
        return failed(kind);
      }
      Fate::Killed => {
        self.cut_short(at, bytes);
        resume_unwind(Box::new(Killed));
      }
      Fate::Fine => {}
    }
    let mut n = bytes.len();
    if n > 1 && self.fs.world.borrow_mut().rng.one_in(20) {
      let mut world = self.fs.world.borrow_mut();
      n = 1 + world.rng.below(n - 1);
      world.note("short write");
    }
    self.half_written(n < bytes.len());
    self.edit(at, Some(&bytes[..n]));
    Ok(n)
  }
}

impl Drop for SimFile {
  fn drop(&mut self) {
    let mut world = self.fs.world.borrow_mut();
    // It was opened for writing where that was possible, which is all that its close tells.
    world.hear_close(self.fd, self.access == Touch::Full);
    world.disk.close(self.fd);
  }
}

impl MemoryFile for SimFile {
  fn path(&self) -> &Path {
    &self.path
  }

  fn access(&self) -> Touch {
    self.access
  }

  fn recheck(&mut self, rules: &TargetRules) -> Result<Touch, OpenError> {
    let refused = |refusal| OpenError { path: self.path.clone(), refusal };
    self.fs.enter("fstat").map_err(|error| refused(Refusal::Io(error)))?;
    let world = self.fs.world.borrow();
    let inode = world.disk.inode(self.ino(&world)).clone();
    drop(world);
    let size = inode.data.len() as u64;
    if size > rules.max_bytes {
      return Err(refused(Refusal::TooLarge { size, limit: rules.max_bytes }));
    }
    if self.access == Touch::Full {
      self.access = self.fs.touch(&inode);
    }
    Ok(self.access)
  }

  fn try_lease(&mut self) -> Result<bool, FsError> {
    if self.leased_at.is_some() {
      return Ok(true);
    }
    let before = self.fs.clock.elapsed();
    self.enter("lease")?;
    let mut world = self.fs.world.borrow_mut();
    let world = &mut *world;
    if world.rung == Rung::NoLease {
      let source = io::Error::from(io::ErrorKind::Unsupported);
      return Err(FsError::LeaseUnsupported { path: self.path.clone(), source });
    }
    let blind = world.control == Control::BlindComparison;
    // An overlay does not see mappings whose descriptor is closed.
    let granted = blind || world.disk.lease(self.fd, world.rung == Rung::Lease);
    if granted {
      self.leased_at = Some(before);
      let inode = world.disk.inode(self.ino(world));
      self.leased_len = Some(inode.data.len());
      if inode.maps > 0 {
        world.note("lease granted despite a mapping");
      }
      if world.disk.n_leases() > 1 {
        world.oracle.violation("I5: two leases at a time");
      }
    } else {
      world.note("lease refused");
      // Those who wait for the lease wait for a while.
      let long = world.rng.one_in(3);
      let wait = if long { world.rng.below(1_500_000) } else { world.rng.below(5_000) };
      world.clock.advance(wait as i64);
    }
    Ok(granted)
  }

  fn leased_for(&self) -> Option<Duration> {
    let age = self.leased_at.map(|since| self.fs.clock.elapsed().saturating_sub(since));
    self.age.set(age);
    let young = self.fs.world.borrow().control == Control::YoungLease;
    if young { age.map(|_| Duration::ZERO) } else { age }
  }

  fn is_awaited(&self) -> bool {
    self.leased_at.is_some() && self.fs.world.borrow().is_awaited(&self.path)
  }

  fn release(&mut self) {
    self.leased_len = None;
    if self.leased_at.take().is_some() {
      let mut world = self.fs.world.borrow_mut();
      if let Some(ino) = world.disk.ino(self.fd) {
        let inode = world.disk.inode_mut(ino);
        if inode.lease == Some(self.fd) {
          inode.lease = None;
        }
      }
      // A program that waited for that goes on.
      let n = world.intensity;
      world.run(n);
    }
  }

  fn read_all(&self) -> Result<Vec<u8>, FsError> {
    self.enter("read")?;
    let now = self.now();
    self.fs.world.borrow_mut().costs_bytes(now.len());
    // Under a lease nobody writes meanwhile; else the second half may be of another version.
    let torn = !self.is_leased() && now.len() > 1 && self.fs.world.borrow_mut().rng.one_in(4);
    if !torn {
      return Ok(self.seen(now));
    }
    let half = self.fs.world.borrow_mut().rng.below(now.len());
    self.enter("read the rest")?;
    let later = self.now();
    if later != now {
      self.fs.world.borrow_mut().note("torn read");
    }
    let rest = later.get(half..).unwrap_or_default();
    Ok(self.seen([&now[..half], rest].concat()))
  }

  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    self.enter("pread")?;
    self.compared.set(true);
    let now = self.now();
    Ok(self.seen(now).into_iter().skip(offset as usize).take(len).collect())
  }

  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
    let mut at = offset as usize;
    let alone = self.compared.take() && self.fs.world.borrow().control != Control::OpenGap;
    let n = self.put("pwrite", at, bytes, alone)?;
    let mut rest = &bytes[n..];
    while !rest.is_empty() {
      at = offset as usize + bytes.len() - rest.len();
      let n = self.put("pwrite the rest", at, rest, alone)?;
      rest = &rest[n..];
    }
    Ok(())
  }

  fn truncate(&self, len: u64) -> Result<(), FsError> {
    if !self.enter_change("truncate")? {
      return Ok(());
    }
    if len as usize > self.now().len() {
      return Err(FsError::io("truncate", &self.path, io::ErrorKind::InvalidInput.into()));
    }
    self.edit(len as usize, None);
    Ok(())
  }

  fn append(&self, bytes: &[u8]) -> Result<(), FsError> {
    self.compared.set(false);
    let fate = self.fs.world.borrow_mut().called("append", false);
    // Wherever the end is at that moment.
    let at = self.now().len();
    match fate {
      Fate::Fine | Fate::Fails(io::ErrorKind::StorageFull) => {}
      Fate::Fails(kind) | Fate::Strikes(kind) => {
        return Err(FsError::io("append", &self.path, self.fs.failure(kind)));
      }
      Fate::Killed => {
        if self.fs.world.borrow().twists.tears {
          self.cut_short(at, bytes);
        }
        resume_unwind(Box::new(Killed));
      }
    }
    let short = self.fs.world.borrow_mut().rng.one_in(20);
    let written = if short { bytes.len() / 2 } else { bytes.len() };
    self.edit(at, Some(&bytes[..written]));
    if short {
      let path = self.path.clone();
      return Err(FsError::ShortAppend { path, written, wanted: bytes.len() });
    }
    Ok(())
  }

  fn sync(&self) -> Result<(), FsError> {
    let synced = self.enter_change("fsync");
    let mut world = self.fs.world.borrow_mut();
    let world = &mut *world;
    if !matches!(synced, Ok(true)) {
      if world.twists.faults && world.twist.one_in(2) {
        let ino = self.ino(world);
        world.disk.sync_failed(ino);
        world.note("a failed sync leaves pages clean");
      }
      return synced.map(drop);
    }
    if world.control != Control::IdleSync {
      let ino = self.ino(world);
      world.disk.sync(ino, &world.book);
    }
    Ok(())
  }

  fn stamp(&self) -> Result<Stamp, FsError> {
    self.enter("fstat")?;
    let world = self.fs.world.borrow();
    Ok(world.stamp(self.ino(&world)))
  }
}
