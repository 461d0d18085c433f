//! What can go wrong around a file, told apart by what follows from it.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::{
  files::{FsError, OpenError},
  os::{LockError, random::RandomError, shown::Shown},
  store::StoreError,
};

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
  /// The ledger.
  #[error(transparent)]
  Store(#[from] StoreError),
  /// The file system.
  #[error(transparent)]
  Fs(#[from] FsError),
  /// A file could not be opened for a reason that may pass.
  #[error("{0}")]
  Open(OpenError),
  /// An edit was interrupted, and cannot be completed now.
  #[error("an interrupted edit of {} waits: {why}", Shown(path))]
  Interrupted {
    /// The file.
    path: PathBuf,
    /// What keeps it from being completed.
    why: String,
  },
  /// Another process of memfw keeps the write lock.
  #[error(transparent)]
  Lock(#[from] LockError),
  /// The operating system gave no random bytes.
  #[error(transparent)]
  Random(#[from] RandomError),
  /// A workspace that is not there.
  #[error(transparent)]
  Root(#[from] OpenError),
  /// Something else has to be done before the rest of a large file is judged.
  #[error("put off for more urgent work")]
  Preempted,
  /// Every id that was tried is taken.
  #[error("no free block id was found")]
  NoFreeId,
  /// What a person asked for cannot be done now.
  #[error("{error}")]
  Refused {
    /// What cannot be done, and why.
    error: String,
    /// What to do about it.
    hint: Option<String>,
  },
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
  /// Again, later: nothing is lost meanwhile, but nothing is protected either.
  Retry,
  /// This file is left alone.
  Skip,
  /// Nothing can be guarded.
  Stop,
}

impl EngineError {
  /// Something that cannot be done now.
  pub fn refused(error: impl Into<String>) -> Self {
    Self::Refused { error: error.into(), hint: None }
  }

  /// The same with what to do about it.
  pub fn refused_with(error: impl Into<String>, hint: impl Into<String>) -> Self {
    Self::Refused { error: error.into(), hint: Some(hint.into()) }
  }

  /// What follows.
  pub fn consequence(&self) -> Consequence {
    match self {
      // Another process was quicker with an id; the next try has others.
      Self::Store(StoreError::RepeatedId { .. }) => Consequence::Retry,
      Self::Store(error) if !error.is_outage() => Consequence::Stop,
      Self::Store(_)
      | Self::Lock(_)
      | Self::Random(_)
      | Self::NoFreeId
      | Self::Preempted
      | Self::Fs(_)
      | Self::Open(_)
      | Self::Interrupted { .. }
      | Self::Root(_) => Consequence::Retry,
      Self::Refused { .. } => Consequence::Skip,
    }
  }
}
