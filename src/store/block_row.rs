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
  memory::{BlockId, ContentHash, LineHash},
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
  /// Identifies the line; short where an older version recorded it.
  pub hash: LineHash,
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

/// The number and the distance of a line, after its hash.
const LINE_REST: usize = 8;

/// The lines of a block as one column, with whole hashes.
pub(super) fn join_lines(lines: &[BlockLine]) -> Vec<u8> {
  let mut bytes = Vec::with_capacity(lines.len() * (LineHash::LEN + LINE_REST));
  for line in lines {
    bytes.extend_from_slice(line.hash.bytes());
    bytes.extend_from_slice(&line.revision.to_be_bytes());
    bytes.extend_from_slice(&line.offset.to_be_bytes());
  }
  bytes
}

/// The lines of a block in such a column; the column `length` has the number of bytes of each hash.
pub(super) fn lines(
  row: &Row<'_>,
  index: usize,
  length: usize,
) -> rusqlite::Result<Vec<BlockLine>> {
  let all = row.get_ref(index)?.as_blob().map_err(|error| bad(index, Type::Blob, error))?;
  let length = row.get(length)?;
  let mut rest = all;
  let mut lines = Vec::new();
  while !rest.is_empty() {
    let line = next_line(&mut rest, length)
      .ok_or_else(|| bad(index, Type::Blob, Unexpected(format!("{} bytes", all.len()))))?;
    lines.push(line);
  }
  Ok(lines)
}

fn next_line(rest: &mut &[u8], length: i64) -> Option<BlockLine> {
  let hash = take_hash(rest, length)?;
  let revision = u32::from_be_bytes(take(rest)?);
  let offset = u32::from_be_bytes(take(rest)?);
  Some(BlockLine { hash, revision, offset })
}

/// The number of bytes of each hash that this version writes, as a column has it.
pub(super) const HASH_LEN: i64 = LineHash::LEN as i64;
/// That of older versions.
const SHORT_LEN: i64 = LineHash::SHORT as i64;

/// Takes a hash with this number of bytes.
pub(super) fn take_hash(rest: &mut &[u8], length: i64) -> Option<LineHash> {
  match length {
    HASH_LEN => take(rest).map(LineHash::from_bytes),
    SHORT_LEN => take(rest).map(LineHash::from_short),
    _ => None,
  }
}

/// Takes the first bytes.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
  let (taken, left) = rest.split_first_chunk::<N>()?;
  *rest = left;
  Some(*taken)
}
