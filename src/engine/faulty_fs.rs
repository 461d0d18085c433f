//! A file system for the engine's tests that fails on request.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{
  collections::HashMap,
  fs, io,
  path::{Path, PathBuf},
  sync::{Arc, Mutex},
  time::Duration,
};

use crate::files::{
  Fs, FsError, Kind, Listing, MemoryFile, OpenError, RealFile, RealFs, Refusal, Root, Rung, Stamp,
  TargetRules, Touch,
};

/// Which calls fail, and which calls were made.
#[derive(Default)]
pub(super) struct Script {
  /// Errors of the next calls of a kind: an error number, and how many times.
  pub(super) fails: HashMap<&'static str, (i32, u32)>,
  /// How many calls of a kind succeed before.
  pub(super) spares: HashMap<&'static str, u32>,
  /// What another program writes after the next read of a whole file.
  pub(super) after_read: Option<(PathBuf, Vec<u8>)>,
  /// The stamp that all files seem to have.
  pub(super) stamp: Option<Stamp>,
  /// What happens after the next look at the stamp of a path.
  pub(super) after_stamp: Option<Box<dyn FnOnce() + Send>>,
  /// Whether another program has a lease, so that no file is opened.
  pub(super) is_leased: bool,
  /// Whether no leases are granted.
  pub(super) no_leases: bool,
  pub(super) n_refused: usize,
  pub(super) n_writes: usize,
}

#[derive(Clone, Default)]
pub(super) struct Faults(pub(super) Arc<Mutex<Script>>);

impl Faults {
  pub(super) fn fail(&self, call: &'static str, errno: i32, times: u32) {
    self.0.lock().unwrap().fails.insert(call, (errno, times));
  }

  /// Lets the call after the next `n` of a kind fail.
  pub(super) fn fail_after(&self, n: u32, call: &'static str, errno: i32) {
    self.0.lock().unwrap().spares.insert(call, n);
    self.fail(call, errno, 1);
  }

  fn enter(&self, call: &'static str, path: &Path) -> Result<(), FsError> {
    let mut script = self.0.lock().unwrap();
    if let Some(n) = script.spares.get_mut(call).filter(|n| **n > 0) {
      *n -= 1;
      return Ok(());
    }
    match script.fails.get_mut(call) {
      Some((errno, times)) if *times > 0 => {
        *times -= 1;
        Err(FsError::io(call, path, io::Error::from_raw_os_error(*errno)))
      }
      _ => Ok(()),
    }
  }
}

pub(super) struct FaultyFs(pub(super) RealFs, pub(super) Faults);

pub(super) struct FaultyFile(RealFile, Faults);

impl Fs for FaultyFs {
  type Root = Root;
  type File = FaultyFile;

  fn open_root(&self, path: &Path) -> Result<Root, OpenError> {
    self.0.open_root(path)
  }
  fn stamp(&self, root: &Root, rel: &Path) -> Result<Option<Stamp>, FsError> {
    if let Some(stamp) = self.1.0.lock().unwrap().stamp {
      return Ok(Some(stamp));
    }
    let stamp = self.0.stamp(root, rel);
    let then = self.1.0.lock().unwrap().after_stamp.take();
    if let Some(then) = then {
      then();
    }
    stamp
  }
  fn kind(&self, root: &Root, rel: &Path) -> Result<Option<Kind>, FsError> {
    self.0.kind(root, rel)
  }
  fn open(&self, root: &Root, rel: &Path, rules: &TargetRules) -> Result<FaultyFile, OpenError> {
    if self.1.0.lock().unwrap().is_leased {
      return Err(OpenError { path: rel.to_owned(), refusal: Refusal::Busy });
    }
    Ok(FaultyFile(self.0.open(root, rel, rules)?, self.1.clone()))
  }
  fn create(&self, root: &Root, rel: &Path) -> Result<(), OpenError> {
    self.0.create(root, rel)
  }
  fn rung(&self, root: &Root) -> Rung {
    self.0.rung(root)
  }
  fn has_coarse_times(&self, root: &Root) -> bool {
    self.0.has_coarse_times(root)
  }
  fn list(&self, root: &Root, rel: &Path, limit: usize) -> Result<Listing, FsError> {
    self.0.list(root, rel, limit)
  }
}

impl MemoryFile for FaultyFile {
  fn path(&self) -> &Path {
    self.0.path()
  }
  fn access(&self) -> Touch {
    self.0.access()
  }
  fn recheck(&mut self, rules: &TargetRules) -> Result<Touch, OpenError> {
    self.0.recheck(rules)
  }
  fn try_lease(&mut self) -> Result<bool, FsError> {
    if self.1.0.lock().unwrap().no_leases {
      let source = io::ErrorKind::Unsupported.into();
      return Err(FsError::LeaseUnsupported { path: self.path().to_owned(), source });
    }
    let granted = self.0.try_lease()?;
    self.1.0.lock().unwrap().n_refused += usize::from(!granted);
    Ok(granted)
  }
  fn leased_for(&self) -> Option<Duration> {
    self.0.leased_for()
  }
  fn is_awaited(&self) -> bool {
    self.0.is_awaited()
  }
  fn release(&mut self) {
    self.0.release();
  }
  fn read_all(&self) -> Result<Vec<u8>, FsError> {
    let bytes = self.0.read_all()?;
    if let Some((path, text)) = self.1.0.lock().unwrap().after_read.take() {
      fs::write(path, text).unwrap();
    }
    Ok(bytes)
  }
  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    self.0.pread(offset, len)
  }
  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
    self.1.enter("write", self.path())?;
    self.1.0.lock().unwrap().n_writes += 1;
    self.0.pwrite(offset, bytes)
  }
  fn truncate(&self, len: u64) -> Result<(), FsError> {
    self.0.truncate(len)
  }
  fn append(&self, bytes: &[u8]) -> Result<(), FsError> {
    self.0.append(bytes)
  }
  fn sync(&self) -> Result<(), FsError> {
    self.1.enter("sync", self.path())?;
    self.0.sync()
  }
  fn stamp(&self) -> Result<Stamp, FsError> {
    let stamp = self.1.0.lock().unwrap().stamp;
    stamp.map_or_else(|| self.0.stamp(), Ok)
  }
}
