//! The text of a memory file, cut where the origin changes.
#![forbid(unsafe_code)]

use std::ops::RangeInclusive;

use crate::{
  detect::Code,
  memory::BlockId,
  provenance::{Attestation, Source, State, Trust},
};

/// The excerpts of one memory file, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Excerpts {
  /// The path of the file in a form that can be printed.
  pub file: String,
  /// Its excerpts.
  pub list: Vec<Excerpt>,
}

impl Excerpts {
  /// Only those with a line of a range.
  #[must_use]
  pub fn within(&self, lines: RangeInclusive<usize>) -> Self {
    let is_in = |one: &&Excerpt| one.start_line <= *lines.end() && one.end_line >= *lines.start();
    Self { file: self.file.clone(), list: self.list.iter().filter(is_in).cloned().collect() }
  }
}

/// Neighbouring lines of one entry that have one origin, or the place of an entry that is blocked.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
  /// The number of the entry in its file; the excerpts of an entry are neighbours.
  pub entry: usize,
  /// First line in the file, from 1.
  pub start_line: usize,
  /// Last line in the file.
  pub end_line: usize,
  /// The blank lines between the excerpt before it and this one.
  pub gap: Vec<u8>,
  /// The text, if there is any.
  pub content: Content,
}

/// What is known about an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
  /// Text that the ledger knows.
  Known {
    /// The lines, without comments of memfw.
    text: Vec<u8>,
    /// What the ledger knows about them.
    known: Known,
  },
  /// Text that was written since the last scan.
  Unknown {
    /// The lines.
    text: Vec<u8>,
    /// Whether it contains text that was taken out of memory elsewhere.
    withheld: bool,
  },
  /// An entry that was taken out.
  Blocked(Blocked),
}

/// What the ledger knows about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
  /// The id of its block.
  pub id: BlockId,
  /// The label of its source: no part of it was chosen by somebody else, except for a domain.
  pub label: Source,
  /// The trust of the source.
  pub trust: Trust,
  /// How the source is known.
  pub attestation: Attestation,
  /// The state of the block.
  pub state: State,
  /// The finding codes of the block.
  pub codes: Vec<Code>,
  /// When memfw first saw the text, in microseconds UTC.
  pub at: i64,
  /// Whether a person has approved the text.
  pub approved: bool,
}

/// An entry of which nothing is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
  /// The id of the item or the block.
  pub id: BlockId,
  /// Its state.
  pub state: State,
  /// The finding codes.
  pub codes: Vec<Code>,
}
