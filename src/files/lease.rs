//! Write leases (`F_SETLEASE`), and the signal that a broken lease sends.
//!
//! A write lease is granted only while no other open file description or mapping of the file
//! exists, and from then on every other `open` and `truncate` waits until the lease is released (not so
//! on overlayfs, which does not see a mapping whose descriptor is closed). A waiting opener makes the
//! kernel send a signal to the holder, by default `SIGIO`, whose default action ends the process; and
//! `F_UNLCK` resets the chosen signal to that default. So `SIGIO` is ignored before every lease.
//!
//! A leased file is read through a mapping ([`read`]): an ordinary read can be blocked by a permission
//! event of fanotify (the gate's, or a virus scanner's), whose handler opens the file and so waits for
//! the lease that is released after the read: 45.0 s, measured. Mappings raise no such event.
//!
//! This is the only file with `unsafe`: rustix wraps neither `F_SETLEASE` nor `sigaction`, and a
//! mapping is unsafe wherever it is made.
#![cfg_attr(
  linux,
  expect(unsafe_code, reason = "F_SETLEASE, sigaction and mappings have no safe wrapper")
)]

use std::{io, time::Duration};

/// From this age of a lease on nothing is written. The kernel breaks an ignored lease after
/// `lease-break-time` (45 s); openers should wait far less than that.
pub const LIMIT: Duration = Duration::from_millis(500);

/// The answer to a request for a write lease.
#[derive(Debug)]
pub enum Grant {
  /// It is held until [`release`].
  Granted,
  /// Another program has the file open or mapped.
  Busy,
  /// The kernel, the file system or the owner of the file rules it out.
  Unsupported(io::Error),
}

#[cfg(linux)]
pub use linux::{acquire, prepare, read, release, undisturbed};
#[cfg(not(linux))]
pub use other::{acquire, prepare, read, release, undisturbed};

#[cfg(linux)]
mod linux {
  use std::{
    io, mem,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr,
  };

  use super::Grant;

  /// `F_SETSIG` of linux/fcntl.h, which the libc crate lacks for glibc. Equal on every architecture
  /// that Rust supports.
  const F_SETSIG: libc::c_int = 10;
  /// `F_WRLCK`, whose type differs between C libraries.
  const WRITE: libc::c_int = libc::F_WRLCK as libc::c_int;
  /// `F_UNLCK`, likewise.
  const NONE: libc::c_int = libc::F_UNLCK as libc::c_int;
  /// Where a mapping may begin: a multiple of every page size (4 to 64 KiB).
  const ALIGNMENT: u64 = 1 << 16;

  /// Ensures that a lease break cannot end this process: `SIGIO` is ignored unless a handler is
  /// installed. Cheap (one system call) after the first time.
  pub fn prepare() -> io::Result<()> {
    if disposition()? == libc::SIG_DFL {
      // SAFETY: a zeroed `sigaction` is a valid value (no flags, empty mask, `SIG_DFL`); the
      // pointer to it is valid for the call; the old action is not asked for. Ignoring a signal
      // runs no code of memfw's.
      let answer = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_IGN;
        libc::sigaction(libc::SIGIO, &raw const action, ptr::null_mut())
      };
      check(answer)?;
      if disposition()? == libc::SIG_DFL {
        return Err(io::Error::other("SIGIO cannot be ignored"));
      }
    }
    Ok(())
  }

  pub(super) fn disposition() -> io::Result<libc::sighandler_t> {
    // SAFETY: a zeroed `sigaction` is a valid value; a null new action only queries; the kernel
    // fills the old one, which lives for the call.
    unsafe {
      let mut current: libc::sigaction = mem::zeroed();
      check(libc::sigaction(libc::SIGIO, ptr::null(), &raw mut current))?;
      Ok(current.sa_sigaction)
    }
  }

  /// Requests the write lease on an open regular file.
  pub fn acquire(file: BorrowedFd<'_>) -> io::Result<Grant> {
    prepare()?;
    let pid = libc::c_int::try_from(std::process::id()).map_err(io::Error::other)?;
    // `F_UNLCK` reset both, so they are set before every lease.
    fcntl(file, libc::F_SETOWN, pid)?;
    fcntl(file, F_SETSIG, libc::SIGIO)?;
    grant(file)
  }

  pub(super) fn grant(file: BorrowedFd<'_>) -> io::Result<Grant> {
    let Err(error) = fcntl(file, libc::F_SETLEASE, WRITE) else {
      return Ok(Grant::Granted);
    };
    match error.raw_os_error() {
      Some(libc::EAGAIN) => Ok(Grant::Busy),
      // EACCES: another user's file and no CAP_LEASE. ENOLCK, EINVAL, EOPNOTSUPP: leases are switched
      // off (`fs.leases-enable`), or the file system has none. EPERM: a security module.
      Some(
        libc::EACCES
        | libc::EPERM
        | libc::ENOLCK
        | libc::EINVAL
        | libc::EOPNOTSUPP
        | libc::ENOTTY
        | libc::ENOSYS,
      ) => Ok(Grant::Unsupported(error)),
      _ => Err(error),
    }
  }

  /// Releases the lease. Without a lease the kernel reports an error, which is ignored.
  pub fn release(file: BorrowedFd<'_>) {
    fcntl(file, libc::F_SETLEASE, NONE).ok();
  }

  /// Whether a granted lease is undisturbed: no program waits for its release and it was not broken.
  pub fn undisturbed(file: BorrowedFd<'_>) -> io::Result<bool> {
    // While a break is in progress the kernel answers with the lease that would be left.
    Ok(fcntl(file, libc::F_GETLEASE, 0)? == WRITE)
  }

  /// Reads into all of `buffer` from `offset` on, through a mapping. The caller knows that the file is
  /// that long: bytes after its end in its last page read as NUL, and later pages are an error.
  pub fn read(file: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    if buffer.is_empty() {
      return Ok(());
    }
    let lead = usize::try_from(offset % ALIGNMENT).map_err(io::Error::other)?;
    let start = libc::off_t::try_from(offset - offset % ALIGNMENT).map_err(io::Error::other)?;
    let len = buffer.len().saturating_add(lead);
    // SAFETY: a mapping at an address of the kernel's choice overlaps no memory that Rust knows of;
    // the descriptor is open, being borrowed. No reference into the mapping is ever made.
    let map = unsafe {
      let fd = file.as_raw_fd();
      libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, start)
    };
    if map == libc::MAP_FAILED {
      return Err(io::Error::last_os_error());
    }
    let to = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let from = libc::iovec { iov_base: map.wrapping_byte_add(lead), iov_len: buffer.len() };
    // SAFETY: the kernel writes `buffer` alone, which is borrowed for us exclusively. It reads the
    // mapping as another process's memory: a page that is gone, because another program broke the
    // lease and truncated the file, is a short count and no signal.
    let count = unsafe {
      let pid = libc::pid_t::try_from(std::process::id()).unwrap_or_default();
      libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0)
    };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping that was made above, with its own length; nothing refers to it any more.
    check(unsafe { libc::munmap(map, len) })?;
    match usize::try_from(count) {
      Ok(count) if count == buffer.len() => Ok(()),
      Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
      Err(_) => Err(error),
    }
  }

  fn fcntl(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    value: libc::c_int,
  ) -> io::Result<libc::c_int> {
    // SAFETY: the descriptor is open, being borrowed; all commands used here take an integer and
    // no pointer, so no memory is involved.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, value) })
  }

  fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
  }
}

/// No leases.
#[cfg(not(linux))]
mod other {
  use std::{io, os::fd::BorrowedFd};

  use super::Grant;

  /// Nothing to prepare.
  pub fn prepare() -> io::Result<()> {
    Ok(())
  }

  /// There are no leases.
  pub fn acquire(_file: BorrowedFd<'_>) -> io::Result<Grant> {
    Ok(Grant::Unsupported(io::ErrorKind::Unsupported.into()))
  }

  /// There is nothing to release.
  pub fn release(_file: BorrowedFd<'_>) {}

  /// There is no lease under which to read.
  pub fn read(_file: BorrowedFd<'_>, _offset: u64, _buffer: &mut [u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
  }

  /// There is no lease.
  pub fn undisturbed(_file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(false)
  }
}

#[cfg(test)]
#[cfg(linux)]
#[path = "lease_tests.rs"]
pub(crate) mod tests;
