//! Memory files on the real kernel: found without following links, checked before they are opened,
//! leased, and read and written through one descriptor.
//!
//! Invariant I6: what is written is a regular, single-linked file of our own uid or of a configured
//! one, inside the workspace root's mount. Everything else is read at most.
#![forbid(unsafe_code)]

use std::{
  cell::OnceCell,
  ffi::OsStr,
  fs::File,
  io,
  os::{
    fd::{AsFd as _, OwnedFd},
    unix::{ffi::OsStrExt as _, fs::FileExt as _},
  },
  path::{Path, PathBuf},
  time::Duration,
};

use rustix::{
  fs::{Dir, Mode, OFlags},
  io::Errno,
};

use super::{
  clock::{Clock as _, SystemClock},
  fs::{
    Entry, Fs, FsError, Kind, Listing, MemoryFile, OpenError, Reason, Refusal, RootDir, Stamp,
    TargetRules, Touch,
  },
  lease::{self, Grant},
  probe::{Probe, Rung, probe},
  resolve::{self, Facts, Resolver, Target},
  user,
};

/// The kernel's file system.
#[derive(Clone, Copy, Debug)]
pub struct RealFs {
  resolver: Resolver,
  /// The highest rung that is used, whatever a file system offers.
  ceiling: Rung,
}

/// An open workspace directory.
#[derive(Debug)]
pub struct Root {
  path: PathBuf,
  handle: OwnedFd,
  stamp: Stamp,
  /// Found out when it is first asked for.
  probe: OnceCell<Probe>,
}

/// One open memory file. Dropping it gives a held lease back.
#[derive(Debug)]
pub struct RealFile {
  file: File,
  path: PathBuf,
  access: Touch,
  /// Whether leases count where it lies.
  leases: bool,
  max_bytes: u64,
  /// Monotonic time just before the lease was granted.
  leased_at: Option<Duration>,
}

impl Default for RealFs {
  fn default() -> Self {
    #[cfg(target_os = "linux")]
    let resolver = Resolver::Kernel;
    #[cfg(not(target_os = "linux"))]
    let resolver = Resolver::Stepwise;
    Self { resolver, ceiling: Rung::Lease }
  }
}

impl RootDir for Root {
  fn path(&self) -> &Path {
    &self.path
  }

  fn is_current(&self) -> bool {
    rustix::fs::lstat(&self.path)
      .is_ok_and(|stat| resolve::facts(&stat).stamp.same_file(&self.stamp))
  }
}

impl Fs for RealFs {
  type Root = Root;
  type File = RealFile;

  fn rung(&self, root: &Root) -> Rung {
    self.probe(root).rung
  }

  fn open_root(&self, path: &Path) -> Result<Root, OpenError> {
    let refused = |refusal| OpenError { path: path.to_owned(), refusal };
    let real = match path.canonicalize() {
      Ok(real) => real,
      Err(error) => {
        let errno = Errno::from_io_error(&error);
        return Err(refused(errno.map_or_else(|| Refusal::Io(error), resolve::refusal)));
      }
    };
    let found = rustix::fs::stat(&real).map_err(|errno| refused(resolve::refusal(errno)))?;
    let kind = resolve::facts(&found).kind;
    if kind != Kind::Directory {
      return Err(refused(Refusal::NotRegular(kind)));
    }
    let handle = resolve::root(&real).map_err(refused)?;
    let stat = rustix::fs::fstat(&handle).map_err(|errno| refused(resolve::refusal(errno)))?;
    Ok(Root { path: real, handle, stamp: resolve::facts(&stat).stamp, probe: OnceCell::new() })
  }

  fn stamp(&self, root: &Root, rel: &Path) -> Result<Option<Stamp>, FsError> {
    Ok(self.look(root, rel)?.map(|facts| facts.stamp))
  }

  fn kind(&self, root: &Root, rel: &Path) -> Result<Option<Kind>, FsError> {
    Ok(self.look(root, rel)?.map(|facts| facts.kind))
  }

  fn open(&self, root: &Root, rel: &Path, rules: &TargetRules) -> Result<RealFile, OpenError> {
    let path = root.path.join(rel);
    self
      .open_checked(root, rel, &path, rules)
      .map_err(|refusal| OpenError { path: path.clone(), refusal })
  }

  fn create(&self, root: &Root, rel: &Path) -> Result<(), OpenError> {
    self.make(root, rel).map_err(|refusal| OpenError { path: root.path.join(rel), refusal })
  }

  fn list(&self, root: &Root, rel: &Path, limit: usize) -> Result<Listing, FsError> {
    let path = root.path.join(rel);
    let refused = |refusal| FsError::Refused { path: path.clone(), refusal };
    let failed = |errno: Errno| FsError::io("list", &path, errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = if rel.as_os_str().is_empty() {
      rustix::fs::openat(&root.handle, ".", flags, Mode::empty())
        .map_err(|errno| refused(resolve::refusal(errno)))?
    } else {
      let target = self.resolver.find(root.handle.as_fd(), rel).map_err(refused)?;
      match target.facts().map_err(refused)?.kind {
        Kind::Directory => {}
        Kind::Symlink => return Err(refused(Refusal::Symlink)),
        kind => return Err(refused(Refusal::NotRegular(kind))),
      }
      target.open(flags).map_err(|errno| refused(resolve::refusal(errno)))?
    };
    let mut listing = Listing::default();
    for entry in Dir::new(directory).map_err(failed)? {
      let entry = entry.map_err(failed)?;
      let name = entry.file_name().to_bytes();
      if name == b"." || name == b".." {
        continue;
      }
      if listing.entries.len() == limit {
        listing.truncated = true;
        break;
      }
      let name = OsStr::from_bytes(name).to_owned();
      let mut kind = resolve::kind(entry.file_type());
      if kind == Kind::Other {
        // Some file systems do not say in the directory what an entry is.
        // If it is gone since, or lies on another mount, opening it will say so.
        if let Ok(Some(found)) = self.kind(root, &rel.join(&name)) {
          kind = found;
        }
      }
      listing.entries.push(Entry { name, kind });
    }
    listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listing)
  }
}

impl RealFs {
  /// The same, standing on no higher rung than this.
  #[must_use]
  pub fn up_to(self, ceiling: Rung) -> Self {
    Self { ceiling, ..self }
  }

  /// What the file system of a workspace can do, as far as it is used.
  pub fn probe<'r>(&self, root: &'r Root) -> &'r Probe {
    root.probe.get_or_init(|| self.probe_dir(&root.path))
  }

  /// The same for a directory that is not open.
  pub fn probe_dir(&self, dir: &Path) -> Probe {
    probe(dir).up_to(self.ceiling)
  }

  /// Facts of what stands at a path, `None` if nothing does.
  fn look(self, root: &Root, rel: &Path) -> Result<Option<Facts>, FsError> {
    match self.resolver.find(root.handle.as_fd(), rel).and_then(|target| target.facts()) {
      Ok(facts) => Ok(Some(facts)),
      Err(Refusal::Absent) => Ok(None),
      Err(refusal) => Err(FsError::Refused { path: root.path.join(rel), refusal }),
    }
  }

  fn open_checked(
    self,
    root: &Root,
    rel: &Path,
    path: &Path,
    rules: &TargetRules,
  ) -> Result<RealFile, Refusal> {
    let target = self.resolver.find(root.handle.as_fd(), rel)?;
    let found = target.facts()?;
    let wanted = judge(&found, rules)?;
    let (handle, access) = match open_inode(&target, wanted) {
      Err(Refusal::Absent) => {
        // No /proc, or the name is gone since. The stepwise way tells which.
        open_inode(&Resolver::Stepwise.find(root.handle.as_fd(), rel)?, wanted)?
      }
      answer => answer?,
    };
    let opened = resolve::facts(&rustix::fs::fstat(&handle).map_err(resolve::refusal)?);
    if !opened.stamp.same_file(&found.stamp) {
      return Err(Refusal::Replaced);
    }
    // The file may have grown or been linked between the check and the open.
    let access = lower(access, judge(&opened, rules)?);
    Ok(RealFile {
      file: File::from(handle),
      path: path.to_owned(),
      access,
      // Where others write past a lease, one that is granted all the same does not count.
      leases: !self.probe(root).needs_polling,
      max_bytes: rules.max_bytes,
      leased_at: None,
    })
  }
}

impl RealFs {
  /// The directory is found as any file is; below it stands one plain name, so no link can be followed
  /// and nothing that is there can be opened.
  fn make(self, root: &Root, rel: &Path) -> Result<(), Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (parent, Some(name)) = (rel.parent(), rel.file_name()) else {
      return Err(Refusal::Escapes);
    };
    let directory = match parent.filter(|parent| !parent.as_os_str().is_empty()) {
      Some(parent) => {
        let target = self.resolver.find(root.handle.as_fd(), parent)?;
        match target.facts()?.kind {
          Kind::Directory => target.open(flags).map_err(resolve::refusal)?,
          Kind::Symlink => return Err(Refusal::Symlink),
          kind => return Err(Refusal::NotRegular(kind)),
        }
      }
      None => {
        rustix::fs::openat(&root.handle, ".", flags, Mode::empty()).map_err(resolve::refusal)?
      }
    };
    let found = resolve::facts(&rustix::fs::fstat(&directory).map_err(resolve::refusal)?);
    if found.uid != user::effective_uid() {
      return Err(Refusal::ForeignDirectory(found.uid));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::openat(&directory, name, flags, mode).map_err(resolve::refusal)?;
    rustix::fs::fsync(&directory).map_err(resolve::refusal)
  }
}

/// Whether a thing with these facts may be opened, and for what. That it lies on the mount of the root
/// was seen on the way to it; its device says nothing, for on an overlay it is that of a layer.
fn judge(facts: &Facts, rules: &TargetRules) -> Result<Touch, Refusal> {
  match facts.kind {
    Kind::File => {}
    Kind::Symlink => return Err(Refusal::Symlink),
    kind => return Err(Refusal::NotRegular(kind)),
  }
  if facts.stamp.size > rules.max_bytes {
    return Err(Refusal::TooLarge { size: facts.stamp.size, limit: rules.max_bytes });
  }
  if facts.uid != user::effective_uid() && !rules.owners.contains(&facts.uid) {
    return Ok(Touch::ReadOnly(Reason::ForeignOwner(facts.uid)));
  }
  if facts.links > 1 {
    return Ok(Touch::ReadOnly(Reason::HardLinked(facts.links)));
  }
  Ok(Touch::Full)
}

/// The lesser of two permissions.
fn lower(one: Touch, other: Touch) -> Touch {
  if one == Touch::Full { other } else { one }
}

/// Opens a checked target for writing if that is wanted and possible, else for reading.
/// O_NONBLOCK: should a pipe stand there after all, or somebody hold a lease, we do not wait.
fn open_inode(target: &Target, wanted: Touch) -> Result<(OwnedFd, Touch), Refusal> {
  let mut access = wanted;
  if wanted == Touch::Full {
    let reason = match target.open(OFlags::RDWR | OFlags::NONBLOCK) {
      Ok(handle) => return Ok((handle, access)),
      Err(Errno::ACCESS) => Reason::NotWritable,
      Err(Errno::ROFS) => Reason::ReadOnlyFileSystem,
      Err(Errno::PERM) => Reason::Immutable,
      Err(Errno::TXTBSY) => Reason::Executing,
      Err(errno) => return Err(resolve::refusal(errno)),
    };
    access = Touch::ReadOnly(reason);
  }
  let handle = target.open(OFlags::RDONLY | OFlags::NONBLOCK).map_err(resolve::refusal)?;
  Ok((handle, access))
}

impl RealFile {
  /// Whether the held lease is whole: nobody waits for it and it was not broken by force.
  pub fn is_undisturbed(&self) -> bool {
    self.leased_at.is_some() && lease::undisturbed(self.file.as_fd()).unwrap_or(false)
  }

  fn failed(&self, op: &'static str, source: io::Error) -> FsError {
    FsError::io(op, &self.path, source)
  }

  fn writable(&self) -> Result<(), FsError> {
    match self.access {
      Touch::Full => Ok(()),
      Touch::ReadOnly(reason) => Err(FsError::ReadOnly { path: self.path.clone(), reason }),
    }
  }

  fn facts(&self) -> Result<Facts, FsError> {
    rustix::fs::fstat(&self.file)
      .map(|stat| resolve::facts(&stat))
      .map_err(|errno| self.failed("stat", errno.into()))
  }

  /// Fills as much of `buffer` as there is.
  fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, FsError> {
    if let Some(done) = self.fill_leased(offset, buffer)? {
      return Ok(done);
    }
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
      match self.file.read_at(rest, offset.saturating_add(done as u64)) {
        Ok(0) => break,
        Ok(count) => done += count,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => return Err(self.failed("read", error)),
      }
    }
    Ok(done)
  }
}

impl RealFile {
  /// The same without a permission event, whose handler would wait for our lease; `None` where there
  /// is no lease, or the file cannot be mapped.
  fn fill_leased(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<usize>, FsError> {
    if self.leased_at.is_none() {
      return Ok(None);
    }
    let size = self.facts()?.stamp.size;
    let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let count = there.min(buffer.len());
    let Some(part) = buffer.get_mut(..count) else { return Ok(None) };
    let read = lease::read(self.file.as_fd(), offset, part);
    // A file that got another length meanwhile is read in the ordinary way: the lease was broken.
    Ok((read.is_ok() && self.facts()?.stamp.size == size).then_some(count))
  }
}

impl MemoryFile for RealFile {
  fn path(&self) -> &Path {
    &self.path
  }

  fn access(&self) -> Touch {
    self.access
  }

  fn recheck(&mut self, rules: &TargetRules) -> Result<Touch, OpenError> {
    let refused = |refusal| OpenError { path: self.path.clone(), refusal };
    let stat = rustix::fs::fstat(&self.file).map_err(|errno| refused(resolve::refusal(errno)))?;
    let facts = resolve::facts(&stat);
    let now = judge(&facts, rules).map_err(refused)?;
    self.access = lower(self.access, now);
    self.max_bytes = rules.max_bytes;
    Ok(self.access)
  }

  fn try_lease(&mut self) -> Result<bool, FsError> {
    if self.leased_at.is_some() {
      return Ok(true);
    }
    if !self.leases {
      let source = io::ErrorKind::Unsupported.into();
      return Err(FsError::LeaseUnsupported { path: self.path.clone(), source });
    }
    let before = SystemClock.monotonic();
    match lease::acquire(self.file.as_fd()).map_err(|error| self.failed("lease", error))? {
      Grant::Granted => {
        self.leased_at = Some(before);
        Ok(true)
      }
      Grant::Busy => Ok(false),
      Grant::Unsupported(source) => {
        Err(FsError::LeaseUnsupported { path: self.path.clone(), source })
      }
    }
  }

  fn leased_for(&self) -> Option<Duration> {
    self.leased_at.map(|since| SystemClock.monotonic().saturating_sub(since))
  }

  fn release(&mut self) {
    if self.leased_at.take().is_some() {
      lease::release(self.file.as_fd());
    }
  }

  fn read_all(&self) -> Result<Vec<u8>, FsError> {
    let size = self.facts()?.stamp.size;
    let too_large =
      |size| FsError::TooLarge { path: self.path.clone(), size, limit: self.max_bytes };
    if size > self.max_bytes {
      return Err(too_large(size));
    }
    let mut bytes = vec![0; size as usize];
    let mut length = self.fill(0, &mut bytes)?;
    // A writer without regard for us may be appending: read on, never past the cap.
    let mut more = [0; 8192];
    while length == bytes.len() {
      let count = self.fill(length as u64, &mut more)?;
      bytes.extend_from_slice(more.get(..count).unwrap_or_default());
      length += count;
      if length as u64 > self.max_bytes {
        return Err(too_large(length as u64));
      }
      if count == 0 {
        break;
      }
    }
    bytes.truncate(length);
    Ok(bytes)
  }

  fn pread(&self, offset: u64, len: usize) -> Result<Vec<u8>, FsError> {
    // Nothing longer than the cap stands in the file, so nothing longer is set aside for it.
    let mut bytes = vec![0; len.min(usize::try_from(self.max_bytes).unwrap_or(usize::MAX))];
    let count = self.fill(offset, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
  }

  fn pwrite(&self, offset: u64, bytes: &[u8]) -> Result<(), FsError> {
    self.writable()?;
    self.file.write_all_at(bytes, offset).map_err(|error| self.failed("write", error))
  }

  fn truncate(&self, len: u64) -> Result<(), FsError> {
    self.writable()?;
    if len > self.facts()?.stamp.size {
      // A longer file would be filled with NUL; that tore files when we were killed.
      return Err(self.failed("truncate", io::ErrorKind::InvalidInput.into()));
    }
    self.file.set_len(len).map_err(|error| self.failed("truncate", error))
  }

  fn append(&self, bytes: &[u8]) -> Result<(), FsError> {
    self.writable()?;
    let written = loop {
      match append(&self.file, bytes) {
        Err(Errno::INTR) => {}
        answer => break answer.map_err(|errno| self.failed("append to", errno.into()))?,
      }
    };
    if written == bytes.len() {
      Ok(())
    } else {
      Err(FsError::ShortAppend { path: self.path.clone(), written, wanted: bytes.len() })
    }
  }

  fn sync(&self) -> Result<(), FsError> {
    self.file.sync_data().map_err(|error| self.failed("sync", error))
  }

  fn stamp(&self) -> Result<Stamp, FsError> {
    Ok(self.facts()?.stamp)
  }
}

impl Drop for RealFile {
  fn drop(&mut self) {
    // Closing would do, but for a child process that is between fork and exec just now and still
    // holds the descriptor.
    self.release();
  }
}

/// One write at the end of the file, wherever that is at that moment.
#[cfg(target_os = "linux")]
fn append(file: &File, bytes: &[u8]) -> rustix::io::Result<usize> {
  let parts = [io::IoSlice::new(bytes)];
  rustix::io::pwritev2(file, &parts, 0, rustix::io::ReadWriteFlags::APPEND)
}

/// One write at the end of the file. Never compiled here.
#[cfg(not(target_os = "linux"))]
fn append(file: &File, bytes: &[u8]) -> rustix::io::Result<usize> {
  let flags = rustix::fs::fcntl_getfl(file)?;
  rustix::fs::fcntl_setfl(file, flags | OFlags::APPEND)?;
  let written = rustix::io::write(file, bytes);
  rustix::fs::fcntl_setfl(file, flags)?;
  written
}

#[cfg(test)]
#[path = "real_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(target_os = "linux")]
#[path = "elsewhere_tests.rs"]
mod elsewhere_tests;
