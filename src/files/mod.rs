//! Memory files: finding, opening, leasing, reading, overwriting and watching them.
//!
//! All access to memory files uses the [`Fs`] and [`MemoryFile`] traits, so that the file protocol
//! ([`overwrite`], [`rewrite`], and the engine above) can also run on a simulated file system. This room
//! decides nothing about content and does not know the ledger.
//!
//! Invariants held here: bytes are overwritten only where they were just compared equal (I3), and only in a
//! regular file below the workspace root (I6); while a lease is held, the file is touched through that one
//! descriptor alone (I5). `unsafe` code is in [`lease`] and nowhere else.

mod access;
mod create;
pub mod fs;
#[cfg(linux)]
pub mod gate;
#[cfg(linux)]
mod inotify;
pub mod lease;
pub mod memory_layout;
pub mod mounts;
#[cfg(any(test, not(linux)))]
mod notified;
pub mod overwrite;
pub mod probe;
pub mod real;
pub mod real_file;
mod resolve;
pub mod rewrite;
pub mod skill_tree;
pub mod watch;
pub mod watch_event;
pub mod workspace;

pub use fs::{
  Entry, Fs, FsError, Kind, Listing, MemoryFile, OpenError, Reason, Refusal, RootDir, Stamp,
  TargetRules, Touch,
};
pub use memory_layout::{Shape, Shapes};
pub use probe::{Probe, Rung};
pub use real::{RealFs, Root};
pub use real_file::RealFile;
pub use watch::{Taken, Watcher};
pub use watch_event::{Limit, WatchError, WatchEvent};
pub use workspace::{Problem, Walk, Workspace};
