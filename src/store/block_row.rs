//! Blocks of memory and their revisions, as rows: hashes and provenance, never text.
#![forbid(unsafe_code)]

use std::{collections::HashSet, path::PathBuf};

use rusqlite::{Row, types::Type};

use super::{
  Micros, OriginRecord,
  column::{Unexpected, bad},
};
use crate::{
  detect::{Code, KeptFindings},
  memory::{BlockId, ContentHash},
  provenance::{Attestation, Source, State, Trust},
};

/// What the ledger knows about one block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockRow {
  /// Its id, unique in the ledger.
  pub id: BlockId,
  /// The hash of its raw bytes.
  pub hash: ContentHash,
  /// The hash with line ends normalised.
  pub norm_hash: ContentHash,
  /// Its lines, in order.
  pub lines: Vec<BlockLine>,
  /// The marker around it.
  pub marker: Option<BlockId>,
  /// Its position among the blocks of the file, from 0.
  pub ordinal: u32,
  /// Its first line, from 1.
  pub start_line: u32,
  /// Its last line, from 1.
  pub end_line: u32,
  /// Whether it is valid, flagged or decided about.
  pub state: State,
  /// Its finding codes.
  pub codes: Vec<Code>,
  /// Its score, 0..1.
  pub score: f32,
  /// The findings; spans are in bytes of the block.
  pub findings: KeptFindings,
  /// The writings of the block, in order; number 0 is the first.
  pub revisions: Vec<Revision>,
}

impl BlockRow {
  /// Forgets all findings; the block has this state from now on.
  pub fn clear(&mut self, state: State) {
    self.state = state;
    self.codes.clear();
    self.score = 0.0;
    self.findings = KeptFindings::default();
  }

  /// The revision with this number. Numbers count from 0 without a gap.
  pub fn revision(&self, number: u32) -> Option<&Revision> {
    self.revisions.get(number as usize).filter(|revision| revision.number == number)
  }

  /// Whether a person has approved the lines of the revision with this number.
  pub fn is_approved(&self, number: u32) -> bool {
    self.revision(number).is_some_and(|revision| revision.approved)
  }

  /// Whether the whole block is baseline.
  pub fn is_baseline(&self) -> bool {
    self.revisions.iter().all(|revision| revision.source.is_baseline())
      || self.live().all(|revision| revision.source.is_baseline())
  }

  /// The revisions of which a line still exists.
  pub fn live(&self) -> impl Iterator<Item = &Revision> {
    let numbers: HashSet<u32> = self.lines.iter().map(|line| line.revision).collect();
    self.revisions.iter().filter(move |revision| numbers.contains(&revision.number))
  }
}

/// One line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockLine {
  /// The first eight bytes of its hash.
  pub hash: [u8; 8],
  /// The revision that wrote it.
  pub revision: u32,
  /// Its distance from the first line of the block, in lines of the file: memfw's comments may be
  /// in between.
  pub offset: u32,
}

/// One writing of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
  /// Its number within the block, from 0.
  pub number: u32,
  /// The source of the text.
  pub source: Source,
  /// The trust of the source.
  pub trust: Trust,
  /// How the source is known.
  pub attestation: Attestation,
  /// The agent's session.
  pub session: Option<String>,
  /// When memfw saw it.
  pub at: Micros,
  /// How the origin is known.
  pub trail: OriginRecord,
  /// Whether a person has approved its lines.
  pub approved: bool,
}

/// The place of a block, current or former.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
  /// Its file.
  pub path: PathBuf,
  /// Whether it still exists.
  pub present: bool,
  /// The row of the block, with its revisions.
  pub block: BlockRow,
}

/// A row with the columns that only the store needs.
#[derive(Debug)]
pub(super) struct Stored {
  pub(super) key: i64,
  pub(super) row: BlockRow,
}

const LINE_LEN: usize = 16;

/// The lines of a block as one column.
pub(super) fn join_lines(lines: &[BlockLine]) -> Vec<u8> {
  let mut bytes = Vec::with_capacity(lines.len() * LINE_LEN);
  for line in lines {
    bytes.extend_from_slice(&line.hash);
    bytes.extend_from_slice(&line.revision.to_be_bytes());
    bytes.extend_from_slice(&line.offset.to_be_bytes());
  }
  bytes
}

/// The lines of a block in such a column.
pub(super) fn lines(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<BlockLine>> {
  let bytes = row.get_ref(index)?.as_blob().map_err(|error| bad(index, Type::Blob, error))?;
  let (chunks, rest) = bytes.as_chunks::<LINE_LEN>();
  if !rest.is_empty() {
    return Err(bad(index, Type::Blob, Unexpected(format!("{} bytes", bytes.len()))));
  }
  let line = |bytes: &[u8; LINE_LEN]| {
    let &[hash @ .., r0, r1, r2, r3, o0, o1, o2, o3] = bytes;
    BlockLine {
      hash,
      revision: u32::from_be_bytes([r0, r1, r2, r3]),
      offset: u32::from_be_bytes([o0, o1, o2, o3]),
    }
  };
  Ok(chunks.iter().map(line).collect())
}
