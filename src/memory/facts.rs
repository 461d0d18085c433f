//! What the ledger knows about a file, as far as its new text depends on it.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use crate::memory::{BlockId, KnownBlock, Marker};

/// How provenance is mirrored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum MarkerMode {
  /// A comment pair around each run of blocks.
  Wrap,
  /// One trailing id comment for each entry.
  Id,
  /// Nothing.
  None,
}

impl MarkerMode {
  /// The word used in configuration, JSON and the ledger.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// The ledger's facts about the file.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
  /// The blocks of the last version that were compared.
  pub known: &'a [KnownBlock],
  /// The content of the marker for each id. If a run of blocks was split, its later parts get a marker only
  /// if the id of their own first block is here.
  pub tags: &'a HashMap<BlockId, Marker>,
  /// Rejected or deleted: their placeholder is removed in the next compaction.
  pub gone: &'a HashSet<BlockId>,
  /// How provenance is mirrored.
  pub mode: MarkerMode,
  /// Whether placeholders are reduced to one line, and those of `gone` ids removed.
  pub compact: bool,
}
