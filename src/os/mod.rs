//! What the operating system does for memfw: opening, leasing, overwriting, watching, locking.
//!
//! Everything that touches a memory file goes through the [`Fs`] and [`MemoryFile`] traits, so that
//! the file protocol ([`redact`], [`reshape`], and the engine above) can run against a simulated
//! file system as well. This room decides nothing about content and knows no ledger.
//!
//! Invariants held here: bytes are overwritten only where they were just compared equal (I3), and
//! only in a regular file below the workspace root (I6); while a lease is held the file is touched
//! through that one descriptor alone (I5). `unsafe` stands in [`lease`] and nowhere else.

pub mod alarm;
pub mod clock;
mod create;
pub mod descriptors;
pub mod errand;
pub mod fs;
#[cfg(target_os = "linux")]
pub mod gate;
#[cfg(target_os = "linux")]
mod inotify;
pub mod key;
pub mod lease;
pub mod lock;
pub mod mend;
pub mod mounts;
#[cfg(any(test, not(target_os = "linux")))]
mod notified;
pub mod page;
pub mod paths;
pub mod placed;
pub mod probe;
pub mod program;
pub mod random;
pub mod real;
pub mod real_file;
pub mod redact;
pub mod reshape;
mod resolve;
pub mod shape;
pub mod socket;
pub mod strangers;
pub mod systemd;
pub mod thread;
pub mod user;
pub mod watch;
pub mod workspace;

pub use alarm::Alarm;
pub use clock::{Clock, SystemClock, pause};
pub use fs::{
  Entry, Fs, FsError, Kind, Listing, MemoryFile, OpenError, Reason, Refusal, RootDir, Shown, Stamp,
  TargetRules, Touch,
};
pub use lock::{DaemonLock, LockError, WriteLock};
pub use paths::{Env, Home};
pub use probe::{Probe, Rung};
pub use real::{RealFs, Root};
pub use real_file::RealFile;
pub use shape::{Shape, Shapes};
pub use watch::{Limit, Taken, WatchError, WatchEvent, Watcher};
pub use workspace::{Problem, Walk, Workspace};
