//! A block as the last version of its file had it.
#![forbid(unsafe_code)]

use crate::{
  memory::{BlockId, ContentHash, LineHash},
  provenance::Trust,
};

/// A line of a known block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownLine {
  /// As in [`crate::memory::Line`].
  pub hash: LineHash,
  /// The revision that added it, 0 for the first.
  pub revision: u32,
  /// How far the source of that revision is trusted.
  pub trust: Trust,
  /// Whether the owner said it or a person approved it: it stays even if others add text to it.
  pub is_owner: bool,
}

/// A block of the last version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownBlock {
  /// The id that the ledger gave it.
  pub id: BlockId,
  /// The hash of its raw bytes.
  pub hash: ContentHash,
  /// As in [`crate::memory::Block::norm_hash`].
  pub norm_hash: ContentHash,
  /// Its lines, in order.
  pub lines: Vec<KnownLine>,
  /// The marker that encloses it.
  pub marker: Option<BlockId>,
  /// It left the file before the last version and is known in case it returns.
  pub former: bool,
}

impl KnownBlock {
  /// The trust of its least trusted line.
  pub(crate) fn trust(&self) -> Trust {
    self.lines.iter().map(|line| line.trust).min().unwrap_or(Trust::Trusted)
  }
}
