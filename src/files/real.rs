//! Memory files on the real kernel: found without following links, checked before they are opened,
//! leased, and read and written through one descriptor.
//!
//! Invariant I6: only regular, single-linked files of memfw's own uid or of a configured one are written,
//! inside the workspace root's mount. All others are at most read.
#![forbid(unsafe_code)]

use std::{
  cell::OnceCell,
  ffi::OsStr,
  fs::File,
  os::{
    fd::{AsFd as _, OwnedFd},
    unix::ffi::OsStrExt as _,
  },
  path::{Path, PathBuf},
  sync::mpsc::{Receiver, channel},
  thread,
};

use rustix::{
  fs::{Dir, Mode, OFlags},
  io::Errno,
};

use super::{
  access::{judge, lower},
  create,
  fs::{
    Entry, Fs, FsError, Kind, Listing, MemoryFile, OpenError, Reason, Refusal, RootDir, Stamp,
    TargetRules, Touch,
  },
  probe::{Probe, Rung, probe},
  real_file::RealFile,
  resolve::{self, Facts, Resolver, Target},
};

/// The kernel's file system.
#[derive(Clone, Copy, Debug)]
pub struct RealFs {
  pub(super) resolver: Resolver,
  /// The highest rung that is used, even if a file system offers a higher one.
  ceiling: Rung,
}

/// An open workspace directory.
#[derive(Debug)]
pub struct Root {
  path: PathBuf,
  pub(super) handle: OwnedFd,
  stamp: Stamp,
  /// Probed at the first use.
  probe: OnceCell<Probe>,
}

impl Default for RealFs {
  fn default() -> Self {
    #[cfg(linux)]
    let resolver = Resolver::Kernel;
    #[cfg(not(linux))]
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

  fn has_coarse_times(&self, root: &Root) -> bool {
    self.probe(root).coarse_times
  }

  fn open_root(&self, path: &Path) -> Result<Root, OpenError> {
    let refused = |refusal| OpenError { path: path.to_owned(), refusal };
    // A person configured this path, so its links are followed once; below the root none is.
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

  /// The kernel counts a waiting open for writing as a writer, so the other program gets no new lease for
  /// reading meanwhile, however often it asks.
  fn open_waiting(
    &self,
    root: &Root,
    rel: &Path,
    rules: &TargetRules,
  ) -> Option<Receiver<Result<RealFile, OpenError>>> {
    let target = self.resolver.find(root.handle.as_fd(), rel).ok()?;
    let found = target.facts().ok()?;
    // Only a regular file that may be written: the open of a pipe could wait for ever.
    if !matches!(judge(&found, rules), Ok(Touch::Full)) {
      return None;
    }
    let (leases, rules) = (!self.probe(root).needs_polling, rules.clone());
    let path = root.path.join(rel);
    let (sender, opened) = channel();
    let open = move || {
      let opened = opened_at_last(&target, &found, &rules, leases, &path);
      drop(sender.send(opened.map_err(|refusal| OpenError { path, refusal })));
    };
    thread::Builder::new().name("opener".to_owned()).spawn(open).ok()?;
    Some(opened)
  }

  fn create(&self, root: &Root, rel: &Path) -> Result<(), OpenError> {
    create::make(self.resolver, &root.handle, rel)
      .map_err(|refusal| OpenError { path: root.path.join(rel), refusal })
  }

  /// Opens the file for reading only, because closing it then raises no event, and ten thousand files
  /// are not scanned twice.
  fn glance(&self, root: &Root, rel: &Path, rules: &TargetRules) -> Option<(Vec<u8>, Stamp)> {
    let target = self.resolver.find(root.handle.as_fd(), rel).ok()?;
    let found = target.facts().ok()?;
    if judge(&found, rules).ok()? != Touch::Full || !target.is_writable() {
      return None;
    }
    let handle = target.open(OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let mut file = RealFile {
      file: File::from(handle),
      path: root.path.join(rel),
      access: Touch::ReadOnly(Reason::NotWritable),
      leases: !self.probe(root).needs_polling,
      max_bytes: rules.max_bytes,
      leased_at: None,
    };
    if !file.try_lease().ok()? {
      return None;
    }
    let stamp = file.stamp().ok()?;
    let bytes = file.read_all().ok()?;
    file.release();
    // Another file may have taken the name since the check.
    stamp.same_file(&found.stamp).then_some((bytes, stamp))
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
      let entry = match entry {
        // It was deleted while it was read: there is nothing in it.
        Err(Errno::NOENT) => break,
        entry => entry.map_err(failed)?,
      };
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
        // If it is gone since, or on another mount, opening it reports that.
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
  /// This file system, limited to a rung.
  #[must_use]
  pub fn up_to(self, ceiling: Rung) -> Self {
    Self { ceiling, ..self }
  }

  /// The probe of the file system of a workspace, limited to the configured rung.
  pub fn probe<'r>(&self, root: &'r Root) -> &'r Probe {
    root.probe.get_or_init(|| self.probe_dir(&root.path))
  }

  /// The probe of a directory that is not open.
  pub fn probe_dir(&self, dir: &Path) -> Probe {
    probe(dir).up_to(self.ceiling)
  }

  /// Facts of the entry at a path, `None` if there is none.
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
        // No /proc, or the name is gone since. Resolving it stepwise shows which.
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
      // On file systems where others write despite a lease, a granted lease does not count.
      leases: !self.probe(root).needs_polling,
      max_bytes: rules.max_bytes,
      leased_at: None,
    })
  }
}

/// Opens a checked regular file for writing, and waits for the leases of other programs.
fn opened_at_last(
  target: &Target,
  found: &Facts,
  rules: &TargetRules,
  leases: bool,
  path: &Path,
) -> Result<RealFile, Refusal> {
  let handle = target.open(OFlags::RDWR).map_err(resolve::refusal)?;
  let opened = resolve::facts(&rustix::fs::fstat(&handle).map_err(resolve::refusal)?);
  if !opened.stamp.same_file(&found.stamp) {
    return Err(Refusal::Replaced);
  }
  Ok(RealFile {
    file: File::from(handle),
    path: path.to_owned(),
    // The file may have been linked while the open waited.
    access: judge(&opened, rules)?,
    leases,
    max_bytes: rules.max_bytes,
    leased_at: None,
  })
}

/// Opens a checked target for writing if that is wanted and possible, else for reading.
/// O_NONBLOCK: if it is a pipe after all, or a lease is held, the call does not wait.
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

#[cfg(test)]
#[path = "real_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(linux)]
#[path = "other_user_tests.rs"]
mod other_user_tests;
