//! Where the check for losses is, between two of its steps.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::{
  memory::{BlockId, LineHash},
  store::Unmeasured,
};

/// What is known about the check between two of its steps.
#[derive(Debug, Default)]
pub(super) struct LossCheck {
  /// The file that was measured last.
  pub(super) last: i64,
  /// The work that a change of that file left.
  pub(super) round: Option<Round>,
}

/// The open losses that a change of a file may concern, because their lines may have come into it or left it.
#[derive(Debug)]
pub(super) struct Round {
  /// The file is measured as soon as none is left.
  pub(super) due: Unmeasured,
  /// The lines that have come or gone.
  pub(super) changed: HashSet<LineHash>,
  /// Those that are not looked at yet, the next one last.
  pub(super) left: Vec<BlockId>,
}
