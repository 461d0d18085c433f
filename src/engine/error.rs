//! The engine's errors, classified by their consequence.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::{
  files::{FsError, OpenError},
  judging::judge::JudgingError,
  os::{LockError, random::RandomError, shown::Shown},
  store::StoreError,
};

/// Why the engine could not process a file or carry out a decision.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
  /// The ledger.
  #[error(transparent)]
  Store(#[from] StoreError),
  /// The file system.
  #[error(transparent)]
  Fs(#[from] FsError),
  /// A file could not be opened for a reason that may be temporary.
  #[error("{0}")]
  Open(OpenError),
  /// An edit was interrupted, and cannot be completed now.
  #[error("an interrupted edit of {} waits: {why}", Shown(path))]
  Interrupted {
    /// The file.
    path: PathBuf,
    /// Why it cannot be completed.
    why: String,
  },
  /// Another memfw process holds the write lock.
  #[error(transparent)]
  Lock(#[from] LockError),
  /// The operating system gave no random bytes.
  #[error(transparent)]
  Random(#[from] RandomError),
  /// A workspace that is not there.
  #[error(transparent)]
  Root(OpenError),
  /// More urgent work interrupted the judgement of a large file.
  #[error("put off for more urgent work")]
  Preempted,
  /// Every id that was tried is in use.
  #[error("no free block id was found")]
  NoFreeId,
  /// A person's request cannot be carried out now.
  #[error("{error}")]
  Refused {
    /// What cannot be done, and why.
    error: String,
    /// What to do about it.
    hint: Option<String>,
  },
}

impl From<JudgingError> for EngineError {
  fn from(error: JudgingError) -> Self {
    match error {
      JudgingError::Store(error) => Self::Store(error),
      JudgingError::Preempted => Self::Preempted,
    }
  }
}

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
  /// Try again later. Nothing is lost meanwhile, but the file is not protected either.
  Retry,
  /// This file is skipped.
  Skip,
  /// Nothing can be guarded.
  Stop,
}

impl EngineError {
  /// An error for a request that cannot be carried out now.
  pub fn refused(error: impl Into<String>) -> Self {
    Self::Refused { error: error.into(), hint: None }
  }

  /// An error for a request that cannot be carried out now, with a hint for the person.
  pub fn refused_with(error: impl Into<String>, hint: impl Into<String>) -> Self {
    Self::Refused { error: error.into(), hint: Some(hint.into()) }
  }

  /// What follows.
  pub fn consequence(&self) -> Consequence {
    match self {
      // Another process used the id first; the next try uses other ids.
      Self::Store(StoreError::RepeatedId { .. }) => Consequence::Retry,
      // One text that cannot be read does not stop the guarding of all others.
      Self::Store(error) if error.is_of_one_record() => Consequence::Retry,
      // Waiting does not help with a damaged ledger, or with that of a newer memfw.
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
