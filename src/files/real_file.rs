//! One open memory file of the real kernel: leased, read and written through one descriptor.
#![forbid(unsafe_code)]

use std::{
  fs::File,
  io,
  os::{fd::AsFd as _, unix::fs::FileExt as _},
  path::{Path, PathBuf},
  time::Duration,
};

use rustix::io::Errno;

use super::{
  access::{judge, lower},
  fs::{FsError, MemoryFile, OpenError, Stamp, TargetRules, Touch},
  lease::{self, Grant},
  resolve::{self, Facts},
};
use crate::os::clock::{Clock as _, SystemClock};

/// One open memory file. Dropping it releases a held lease.
#[derive(Debug)]
pub struct RealFile {
  pub(super) file: File,
  pub(super) path: PathBuf,
  pub(super) access: Touch,
  /// Whether leases count on its file system.
  pub(super) leases: bool,
  pub(super) max_bytes: u64,
  /// Monotonic time just before the lease was granted.
  pub(super) leased_at: Option<Duration>,
}

impl RealFile {
  /// Whether the held lease is undisturbed: no program waits for it and it was not broken by force.
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
  /// Reads like [`Self::fill`], but without a permission event, whose handler would wait for memfw's
  /// lease; `None` without a lease, or if the file cannot be mapped.
  fn fill_leased(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<usize>, FsError> {
    if self.leased_at.is_none() {
      return Ok(None);
    }
    let size = self.facts()?.stamp.size;
    let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let count = there.min(buffer.len());
    let Some(part) = buffer.get_mut(..count) else { return Ok(None) };
    let read = lease::read(self.file.as_fd(), offset, part);
    // If the length has changed, the lease was broken, and the file is read in the ordinary way.
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
    // Taken before the request, so that the lease never counts as younger than it is.
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

  fn is_awaited(&self) -> bool {
    self.leased_at.is_some() && !self.is_undisturbed()
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
    // Without a lease a writer may be appending: read on, but never past the cap.
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
    // The file has at most as many bytes as the cap, so no larger buffer is allocated.
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
      // A longer file would be filled with NUL; kills after that left torn files.
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
    // `fdatasync` also writes a changed size; the times need not survive.
    self.file.sync_data().map_err(|error| self.failed("sync", error))
  }

  fn stamp(&self) -> Result<Stamp, FsError> {
    Ok(self.facts()?.stamp)
  }
}

impl Drop for RealFile {
  fn drop(&mut self) {
    // Closing is not enough if a child process between fork and exec still has the descriptor.
    self.release();
  }
}

/// One write at the end of the file, wherever that is at that moment.
#[cfg(linux)]
fn append(file: &File, bytes: &[u8]) -> rustix::io::Result<usize> {
  let parts = [io::IoSlice::new(bytes)];
  rustix::io::pwritev2(file, &parts, 0, rustix::io::ReadWriteFlags::APPEND)
}

/// One write at the end of the file.
#[cfg(not(linux))]
fn append(file: &File, bytes: &[u8]) -> rustix::io::Result<usize> {
  use rustix::fs::OFlags;

  let flags = rustix::fs::fcntl_getfl(file)?;
  rustix::fs::fcntl_setfl(file, flags | OFlags::APPEND)?;
  let written = rustix::io::write(file, bytes);
  rustix::fs::fcntl_setfl(file, flags)?;
  written
}
