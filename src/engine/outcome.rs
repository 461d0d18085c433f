//! What a pass over a file is told, and what it leads to.
#![forbid(unsafe_code)]

use std::time::Duration;

/// What the caller knows about a file from events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
  /// How long the file has been known to be dirty.
  pub waited: Duration,
  /// Whether another program opened the file after its writer had closed it.
  pub opened_since_close: bool,
  /// Whether this is the first scan of the workspace, so that the content is the baseline.
  pub adopting: bool,
  /// Whether the content is an earlier version that a person restores.
  pub is_restored: bool,
}

/// The result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
  /// Its stamp equals that of the ledger: nothing was opened.
  Unchanged {
    /// Whether markers or placeholders are to be renewed when the file is idle.
    reshape_due: bool,
    /// Whether the stamp is too young to be trusted: scan again after [`super::Engine::settles_in`].
    recheck: bool,
  },
  /// The file was processed.
  Done {
    /// Whether markers or placeholders are to be renewed when the file is idle.
    reshape_due: bool,
    /// Whether the stamp is too young to be trusted: scan again after [`super::Engine::settles_in`].
    recheck: bool,
  },
  /// The file does not exist any more.
  Gone,
  /// The file cannot be opened or read; the ledger has the reason.
  Unscannable,
  /// Another program has the file open: try again soon.
  Busy,
  /// The file was processed as far as possible while another program has it open: scan again when it is
  /// closed.
  HeldOpen,
  /// The file was processed, but another program keeps it open, perhaps with a mapping, whose changes
  /// cause no event: scan again after a while.
  StillOpen {
    /// Whether markers or placeholders are to be renewed when the file is idle.
    reshape_due: bool,
  },
  /// The file contains poison, but nothing can be sealed: the poison was reported and stays.
  Unsealed,
  /// An agent's tool is about to verify its write, or a writer has not finished its line: try again
  /// after this time, or when another program has opened the file.
  HoldOff(Duration),
  /// The file changed during the pass: try again at once.
  Changed,
}
