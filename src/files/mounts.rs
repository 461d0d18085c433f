//! Changes of the mount table: a directory that is mounted over, or unmounted, makes no other event.
//!
//! It says only that something changed, not what. No timer: the kernel wakes us.
#![forbid(unsafe_code)]

use std::io;

/// Calls `changed` from a thread of its own after each change, until it answers `false`.
#[cfg(linux)]
pub fn watch(changed: Box<dyn Fn() -> bool + Send>) -> io::Result<()> {
  use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
  };
  let table =
    rustix::fs::open("/proc/self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
  let wait = move || {
    loop {
      // The table is readable at all times; a change is an exceptional condition (proc(5)).
      match poll(&mut [PollFd::new(&table, PollFlags::PRI)], None) {
        Ok(_) if changed() => {}
        Err(Errno::INTR) => {}
        Ok(_) | Err(_) => return,
      }
    }
  };
  std::thread::Builder::new().name("mounts".to_owned()).spawn(wait).map(drop)
}

/// Nothing is told about mounts.
#[cfg(not(linux))]
pub fn watch(_changed: Box<dyn Fn() -> bool + Send>) -> io::Result<()> {
  Ok(())
}
