//! The unit of memory, with the hashes of its bytes.
#![forbid(unsafe_code)]

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::memory::{BlockId, BlockKind, ContentHash, Line, LineHash, line};

/// The unit of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
  /// The kind of the block, without the headings before it.
  pub kind: BlockKind,
  /// Its bytes in the file; comments of memfw in between are not part of it.
  pub parts: Vec<Range<usize>>,
  /// Its lines, including blank ones between others.
  pub lines: Vec<Line>,
  /// The line, as an index into `lines`, at which the block itself begins after its headings.
  pub body: usize,
  /// The hash of the raw bytes of the parts.
  pub hash: ContentHash,
  /// The hash of the same bytes with each line end as `\n` and without the last one.
  pub norm_hash: ContentHash,
  /// First line in the file, from 1.
  pub start_line: usize,
  /// Last line in the file, from 1.
  pub end_line: usize,
  /// Any line directly below would become part of this block: it is an unclosed fence, an unclosed comment,
  /// or an HTML block that only a blank line ends.
  pub open_ended: bool,
  /// Its last line has a line end.
  pub terminated: bool,
  /// The marker that encloses it, or the id comment on one of its lines.
  pub marker: Option<BlockId>,
}

/// Fills in the hashes of a block, those of its lines if they are not known yet, and whether it has a line
/// end.
pub(crate) fn digest(block: &mut Block, bytes: &[u8]) {
  let (returns, ending) = {
    let parts = || block.parts.iter().map(|part| line::slice(bytes, part.clone()));
    let last = parts().next_back().unwrap_or_default();
    (parts().any(|part| part.contains(&b'\r')), line::eol(last))
  };
  block.terminated = !ending.is_empty();
  let parts = || block.parts.iter().map(|part| line::slice(bytes, part.clone()));
  let (hash, norm_hash) = if returns {
    let norm_hash = line::norm_hash(&parts().collect::<Vec<_>>().concat());
    (ContentHash::of_parts(parts()), norm_hash)
  } else {
    // One pass suffices: the normal form is everything except the last line end.
    let mut hasher = Sha256::new();
    let count = block.parts.len();
    for (at, part) in parts().enumerate() {
      hasher.update(if at + 1 == count { line::content(part) } else { part });
    }
    let norm_hash = ContentHash(hasher.clone().finalize().into());
    hasher.update(ending);
    (ContentHash(hasher.finalize().into()), norm_hash)
  };
  (block.hash, block.norm_hash) = (hash, norm_hash);
  let single = block.lines.len() == 1;
  for text in &mut block.lines {
    if text.hash == LineHash::default() {
      // The hash of the only line is a prefix of the block's hash, so it is not computed twice.
      text.hash = if single && !returns {
        LineHash::of_digest(&block.norm_hash.0)
      } else {
        LineHash::of([line::content(line::slice(bytes, text.span.clone()))])
      };
    }
  }
}
