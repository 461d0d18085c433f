//! Why the daemon could not run.
#![forbid(unsafe_code)]

use crate::engine::EngineError;

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
  /// The engine failed.
  #[error(transparent)]
  Engine(#[from] EngineError),
  /// The ledger cannot be written, and the daemon may not wait until it can.
  #[error("{0}")]
  Outage(String),
  /// The ledger was replaced by another one, so the daemon must start again with the new one.
  #[error("the ledger was replaced")]
  Replaced,
  /// The watcher could not be created.
  #[error("cannot watch directories: {0}")]
  Watch(String),
  /// The event loop could not be created.
  #[error("cannot start the event loop: {0}")]
  Loop(#[from] std::io::Error),
}
