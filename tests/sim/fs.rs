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

use memfw::os::{
  Fs, FsError, Kind, Listing, MemoryFile, OpenError, Refusal, RootDir, Rung, Stamp, TargetRules,
  Touch,
};

use super::{
  clock::{Killed, SimClock},
  disk::PAGE,
  oracle::Write,
  world::{Control, Fate, World},
};

/// The workspace of all schedules; it exists in no real file system.
pub(crate) const ROOT: &str = "/sim/workspace";

/// A handle on the world, given to the engine.
#[derive(Clone)]
pub(crate) struct SimFs {
  pub(crate) world: Rc<RefCell<World>>,
  pub(crate) clock: Arc<SimClock>,
}

pub(crate) struct SimRoot(PathBuf);

impl RootDir for SimRoot {
  fn path(&self) -> &Path {
    &self.0
  }

  fn is_current(&self) -> bool {
    true
  }
}

fn eio() -> io::Error {
  io::Error::from(io::ErrorKind::Interrupted)
}

impl SimFs {
  /// The engine calls. The world is not borrowed while the engine is being killed.
  fn enter(&self, name: &str) -> Result<(), io::Error> {
    let fate = self.world.borrow_mut().called(name, false);
    match fate {
      Fate::Fine => Ok(()),
      Fate::Fails => Err(eio()),
      Fate::Killed => resume_unwind(Box::new(Killed)),
    }
  }
}

impl Fs for SimFs {
  type Root = SimRoot;
  type File = SimFile;

  fn open_root(&self, path: &Path) -> Result<SimRoot, OpenError> {
    Ok(SimRoot(path.to_owned()))
  }

  fn stamp(&self, root: &SimRoot, rel: &Path) -> Result<Option<Stamp>, FsError> {
    let path = root.0.join(rel);
    self.enter("lstat").map_err(|error| FsError::io("stat", &path, error))?;
    let world = self.world.borrow();
    Ok(world.disk.lookup(&path).map(|ino| world.disk.stamp(ino)))
  }

  fn kind(&self, root: &SimRoot, rel: &Path) -> Result<Option<Kind>, FsError> {
    Ok(self.stamp(root, rel)?.map(|_| Kind::File))
  }

  fn open(&self, root: &SimRoot, rel: &Path, rules: &TargetRules) -> Result<SimFile, OpenError> {
    let path = root.0.join(rel);
    let refused = |refusal| OpenError { path: path.clone(), refusal };
    self.enter("open").map_err(|error| refused(Refusal::Io(error)))?;
    let mut world = self.world.borrow_mut();
    if world.disk.is_leased(&path) {
      // Only the engine takes leases here, so it would wait for itself.
      world.oracle.violation("I5: the engine opens a file that it has leased");
      return Err(refused(Refusal::Busy));
    }
    let now = world.now_ns();
    let fd = world.disk.open(&path, false, false, now).ok_or_else(|| refused(Refusal::Absent))?;
    let ino = world.disk.ino(fd).unwrap();
    let size = world.disk.inode(ino).data.len() as u64;
    if size > rules.max_bytes {
      world.disk.close(fd);
      return Err(refused(Refusal::TooLarge { size, limit: rules.max_bytes }));
    }
    drop(world);
    Ok(SimFile {
      fs: self.clone(),
      path,
      fd,
      leased_at: None,
      compared: Cell::new(false),
      first: RefCell::new(None),
    })
  }

  fn rung(&self, _root: &SimRoot) -> Rung {
    self.world.borrow().rung
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
  leased_at: Option<Duration>,
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

  /// The content, or what it was at first when comparing is blind.
  fn content(&self) -> Vec<u8> {
    let world = self.fs.world.borrow();
    let now = world.disk.inode(self.ino(&world)).data.clone();
    drop(world);
    if self.is_blind() { self.first.borrow_mut().get_or_insert(now).clone() } else { now }
  }

  /// Writes `bytes` at `at`, of which only `n` get there; or cuts.
  fn edit(&self, at: usize, bytes: Option<&[u8]>, n: usize) {
    let mut world = self.fs.world.borrow_mut();
    let world = &mut *world;
    let ino = self.ino(world);
    let now = world.now_ns();
    let before = world.disk.inode(ino).data.clone();
    let blind = world.control == Control::BlindComparison;
    let leased = blind || world.disk.inode(ino).lease == Some(self.fd);
    match bytes {
      Some(bytes) => world.disk.write(ino, at, &bytes[..n], now),
      None => world.disk.truncate(ino, at, now),
    }
    let after = world.disk.inode(ino).data.escape_ascii().to_string();
    world.say(|| format!("now: {after}"));
    world.oracle.all_is_durable();
    world.oracle.changes_at_write = world.n_changes;
    // What happens to a file that has no name any more is of no interest to anybody.
    if world.disk.lookup(&self.path) == Some(ino) {
      let after = world.disk.inode(ino).data.clone();
      let (path, before, after) = (&*self.path, &before[..], &after[..]);
      let rung = world.rung;
      world.oracle.judge(&world.book, &Write { path, leased, rung, at, bytes, before, after });
    }
  }

  /// A write that fails or is killed may have got as far as a page boundary.
  fn cut_short(&self, at: usize, bytes: &[u8]) {
    let next = (at / PAGE + 1) * PAGE;
    let some = self.fs.world.borrow_mut().rng.one_in(2);
    if some && next < at + bytes.len() {
      self.edit(at, Some(bytes), next - at);
    }
  }
}

impl Drop for SimFile {
  fn drop(&mut self) {
    self.fs.world.borrow_mut().disk.close(self.fd);
  }
}

impl MemoryFile for SimFile {
  fn path(&self) -> &Path {
    &self.path
  }

  fn access(&self) -> Touch {
    Touch::Full
  }

  fn recheck(&mut self, _rules: &TargetRules) -> Result<Touch, OpenError> {
    Ok(Touch::Full)
  }

  fn try_lease(&mut self) -> Result<bool, FsError> {
    if self.leased_at.is_some() {
      return Ok(true);
    }
    let before = self.fs.clock.elapsed();
    self.enter("lease")?;
    let mut world = self.fs.world.borrow_mut();
    if world.rung == Rung::NoLease {
      let source = io::Error::from(io::ErrorKind::Unsupported);
      return Err(FsError::LeaseUnsupported { path: self.path.clone(), source });
    }
    let granted = world.control == Control::BlindComparison || world.disk.lease(self.fd);
    if granted {
      self.leased_at = Some(before);
    } else {
      // Those who wait for the lease wait for a while.
      let long = world.rng.one_in(3);
      let wait = if long { world.rng.below(1_500_000) } else { world.rng.below(5_000) };
      world.clock.advance(wait as i64);
    }
    Ok(granted)
  }

  fn leased_for(&self) -> Option<Duration> {
    self.leased_at.map(|since| self.fs.clock.elapsed().saturating_sub(since))
  }

  fn release(&mut self) {
    if self.leased_at.take().is_some() {
      let mut world = self.fs.world.borrow_mut();
      if let Some(ino) = world.disk.ino(self.fd) {
        let inode = world.disk.inode_mut(ino);
        if inode.lease == Some(self.fd) {
          inode.lease = None;
        }
      }
      let n = world.intensity;
      world.run(n);
    }
  }

  fn read_all(&self) -> Result<Vec<u8>, FsError> {
    self.enter("read")?;
    Ok(self.content())
  }

  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    self.enter("pread")?;
    self.compared.set(true);
    Ok(self.content().into_iter().skip(offset as usize).take(len).collect())
  }

  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
    let at = offset as usize;
    let alone = self.compared.take() && self.fs.world.borrow().control != Control::OpenGap;
    let fate = self.fs.world.borrow_mut().called("pwrite", alone);
    match fate {
      Fate::Fine => {
        self.edit(at, Some(bytes), bytes.len());
        Ok(())
      }
      Fate::Fails => {
        self.cut_short(at, bytes);
        Err(FsError::io("write", &self.path, eio()))
      }
      Fate::Killed => {
        self.cut_short(at, bytes);
        resume_unwind(Box::new(Killed));
      }
    }
  }

  fn truncate(&self, len: u64) -> Result<(), FsError> {
    self.enter("truncate")?;
    self.edit(len as usize, None, 0);
    Ok(())
  }

  fn append(&self, bytes: &[u8]) -> Result<(), FsError> {
    self.enter("append")?;
    let world = self.fs.world.borrow();
    let at = world.disk.inode(self.ino(&world)).data.len();
    drop(world);
    self.edit(at, Some(bytes), bytes.len());
    Ok(())
  }

  fn sync(&self) -> Result<(), FsError> {
    self.enter("fsync")?;
    let mut world = self.fs.world.borrow_mut();
    let world = &mut *world;
    let ino = self.ino(world);
    world.disk.sync(ino, &world.book);
    Ok(())
  }

  fn stamp(&self) -> Result<Stamp, FsError> {
    self.enter("fstat")?;
    let world = self.fs.world.borrow();
    Ok(world.disk.stamp(self.ino(&world)))
  }
}
