//! Files with very many lines or blocks: neighbours are judged as one unit, so that the work and the ledger
//! rows for one file are bounded. Every byte is still in a unit that is judged.
//!
//! Where a unit ends depends on its content and not on its distance from the start of the file, so a line
//! that is inserted at the top changes only the units around it.
#![forbid(unsafe_code)]

use crate::memory::{
  Block, BlockKind, Line, LineHash,
  block::digest,
  comments::Hole,
  line::{self, LineKind},
};

/// Blocks of one file, at most, not counting those that comments of memfw keep apart.
pub const MAX_BLOCKS: usize = 4096;
/// How many blocks every file may have; each so many bytes allow one more (a choice: a list of short items
/// has one for 25 bytes).
const FREE_BLOCKS: usize = 1024;
const BYTES_A_BLOCK: usize = 32;
/// Lines of one file, at most, not counting those that comments of memfw keep apart. A line is 16 bytes in
/// the ledger.
pub const MAX_LINES: usize = 65_536;
const FREE_LINES: usize = 8192;
const BYTES_A_LINE: usize = 8;

/// How many blocks a file of this length may have.
pub(crate) fn most_blocks(length: usize) -> usize {
  (FREE_BLOCKS + length / BYTES_A_BLOCK).min(MAX_BLOCKS)
}

/// How many lines a file of this length may have.
pub(crate) fn most_lines(length: usize) -> usize {
  (FREE_LINES + length / BYTES_A_LINE).min(MAX_LINES)
}

/// Decides where a unit of several parts ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grain {
  size: usize,
}

impl Grain {
  /// For `parts` parts in at most `most` units; `None` where each part is its own unit.
  pub(crate) fn of(parts: usize, most: usize) -> Option<Self> {
    // A unit has at least half of the size, and a power of two changes rarely while a file grows.
    (parts > most)
      .then(|| Self { size: parts.saturating_mul(2).div_ceil(most.max(1)).next_power_of_two() })
  }

  /// Whether a unit of `count` parts ends with a part of this hash.
  pub(crate) fn ends(self, count: usize, hash: u64) -> bool {
    // The size is a power of two, so this mask selects one part in `size`.
    let chosen = hash & (self.size as u64 - 1) == 0;
    count >= self.size * 2 || count >= self.size / 2 && chosen
  }
}

/// A hash of bytes for [`Grain::ends`]: FNV-1a, because it decides only where a unit ends.
pub(crate) fn spread(bytes: &[u8]) -> u64 {
  let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
  let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, add);
  hash ^ (hash >> 32)
}

/// Joins neighbours where there are too many blocks. Comments of memfw between them keep them apart.
pub(crate) struct Joiner<'a> {
  bytes: &'a [u8],
  holes: &'a [Hole],
  grain: Option<Grain>,
  units: Vec<Block>,
  /// The blocks of the last unit; 0 if it is complete.
  count: usize,
  /// The first hole that is not before the last unit.
  hole: usize,
}

impl<'a> Joiner<'a> {
  /// Without a `grain`, each block is its own unit.
  pub(crate) const fn new(bytes: &'a [u8], holes: &'a [Hole], grain: Option<Grain>) -> Self {
    Self { bytes, holes, grain, units: Vec::new(), count: 0, hole: 0 }
  }

  /// Adds the next block of the file.
  pub(crate) fn add(&mut self, block: Block) {
    let Some(grain) = self.grain else { return self.units.push(block) };
    let start = block.parts.first().map_or(0, |part| part.start);
    let last = self.units.last_mut();
    let gap =
      last.as_ref().and_then(|unit| unit.parts.last()).map_or(start, |part| part.end)..start;
    while self.holes.get(self.hole).is_some_and(|hole| hole.span.end <= gap.start) {
      self.hole += 1;
    }
    let is_apart = self.holes.get(self.hole).is_some_and(|hole| hole.span.start <= gap.end)
      || block.kind == BlockKind::FrontMatter
      || last.as_ref().is_some_and(|unit| unit.kind == BlockKind::FrontMatter);
    self.count = if is_apart { 1 } else { self.count + 1 };
    let first = block.norm_hash.0.first_chunk().copied().unwrap_or_default();
    let ends = grain.ends(self.count, u64::from_le_bytes(first));
    match last {
      Some(unit) if self.count > 1 => add(unit, block, self.bytes, gap),
      _ => self.units.push(block),
    }
    if ends {
      self.count = 0;
    }
  }

  /// The units; also whether neighbours were joined.
  pub(crate) fn finish(mut self) -> (Vec<Block>, bool) {
    if self.grain.is_some() {
      for unit in &mut self.units {
        unit.lines.shrink_to_fit();
        digest(unit, self.bytes);
      }
    }
    (self.units, self.grain.is_some())
  }
}

/// Adds a block to the unit before it; `gap` contains only blank lines.
fn add(unit: &mut Block, block: Block, bytes: &[u8], gap: std::ops::Range<usize>) {
  if !gap.is_empty() {
    let hash = LineHash::of([line::content(line::slice(bytes, gap.clone()))]);
    unit.lines.push(Line {
      span: gap.clone(),
      number: unit.end_line.saturating_add(1),
      hash,
      kind: LineKind::Blank,
      is_tail: false,
    });
  }
  if let (Some(last), Some(next)) = (unit.parts.last_mut(), block.parts.first()) {
    last.end = next.end;
  }
  unit.parts.extend(block.parts.into_iter().skip(1));
  unit.lines.extend(block.lines);
  unit.kind = stricter(unit.kind, block.kind);
  unit.end_line = block.end_line;
  unit.open_ended = block.open_ended;
}

/// The kind of two joined blocks: the kind whose middle is more restricted.
const fn stricter(one: BlockKind, other: BlockKind) -> BlockKind {
  match (one, other) {
    (BlockKind::Html, _) | (_, BlockKind::Html) => BlockKind::Html,
    (BlockKind::Code, _) | (_, BlockKind::Code) => BlockKind::Code,
    _ => BlockKind::Paragraph,
  }
}
