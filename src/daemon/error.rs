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
  Loop(std::io::Error),
  /// The thread that listens for the gate could not be started.
  #[error("cannot listen for the gate: {0}")]
  Gate(std::io::Error),
  /// Signals could not be received, so the daemon could not be stopped in order.
  #[error("cannot receive signals: {0}")]
  Signals(std::io::Error),
}
