//! Lines of the owner to which another writer has added text at the end.
//!
//! The two parts become separate lines, so that each keeps its origin and only the added part can be taken
//! out. Text before the owner's words, or within them, makes the whole line a new one.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
};

use sha2::{Digest, Sha256};

use crate::memory::{
  Block, KnownBlock, KnownLine, Line, LineHash,
  line::{self, LineKind},
  placeholder,
};

/// Longest line, in bytes, whose beginning is compared with the known ones (a choice).
const MAX_LINE: usize = 4096;

/// At how many places in one version a known line is searched for (a choice: 0.1 s at most).
const MAX_PLACES: usize = 1 << 18;

/// The blocks, with each line divided that begins with a missing line of the last version; `None` if there
/// is no such line.
pub(crate) fn divide(blocks: &[Block], bytes: &[u8], known: &[KnownBlock]) -> Option<Vec<Block>> {
  let mut absent = absent(blocks, known);
  if absent.is_empty() {
    return None;
  }
  let of_line = |line: &KnownLine| line.hash;
  let stood: HashSet<LineHash> =
    known.iter().flat_map(|block| block.lines.iter().map(of_line)).collect();
  let mut places = MAX_PLACES;
  let mut divided: Option<Vec<Block>> = None;
  for (at, block) in blocks.iter().enumerate() {
    // How many lines of this block have already been divided.
    let mut more = 0;
    for (index, line) in block.lines.iter().enumerate() {
      if line.kind != LineKind::Text || stood.contains(&line.hash) || absent.is_empty() {
        continue;
      }
      let Some(Grown { head, tail }) = grown(bytes, block, line, &absent, &mut places) else {
        continue;
      };
      if let Some(count) = absent.get_mut(&head.hash) {
        *count -= 1;
        if *count == 0 {
          absent.remove(&head.hash);
        }
      }
      let all = divided.get_or_insert_with(|| blocks.to_vec());
      let Some(block) = all.get_mut(at) else { continue };
      // Headings come before the body, and so do both parts of a divided heading.
      block.body += usize::from(index + more < block.body);
      block.lines.splice(index + more..=index + more, [head, tail]);
      more += 1;
    }
  }
  divided
}

/// By hash, how many times fewer than in the last version each line of the owner is there.
fn absent(blocks: &[Block], known: &[KnownBlock]) -> HashMap<LineHash, usize> {
  let mut count: HashMap<LineHash, usize> = HashMap::new();
  let present = known.iter().filter(|block| !block.former);
  for line in present.flat_map(|block| &block.lines).filter(|line| line.is_owner) {
    *count.entry(line.hash).or_default() += 1;
  }
  if count.is_empty() {
    return count;
  }
  for line in blocks.iter().flat_map(|block| &block.lines) {
    if let Some(left) = count.get_mut(&line.hash) {
      *left = left.saturating_sub(1);
    }
  }
  count.retain(|_, left| *left > 0);
  count
}

/// The two parts of a line.
struct Grown {
  head: Line,
  tail: Line,
}

/// The longest beginning of a line that equals one of the `absent` lines, and the rest, if the rest has
/// room for a placeholder.
fn grown(
  bytes: &[u8],
  block: &Block,
  line: &Line,
  absent: &HashMap<LineHash, usize>,
  places: &mut usize,
) -> Option<Grown> {
  let end = line.span.end - line::eol(line::slice(bytes, line.span.clone())).len();
  // Comments of memfw are not part of the line.
  let parts = || {
    block.parts.iter().filter_map(|part| {
      let span = part.start.max(line.span.start)..part.end.min(end);
      (!span.is_empty()).then_some(span)
    })
  };
  let length: usize = parts().map(|part| part.len()).sum();
  if length > MAX_LINE {
    return None;
  }
  let mut hasher = Sha256::new();
  let mut found: Option<(LineHash, usize)> = None;
  for at in parts().flatten() {
    // The added text may begin here.
    if let Some(left) = places.checked_sub(1)
      && at > line.span.start
      && end - at >= placeholder::MAX_SHORT
    {
      *places = left;
      // Each beginning of the line is hashed in one pass, by finishing a copy of the hasher.
      let hash = LineHash::of_digest(&hasher.clone().finalize().into());
      if absent.contains_key(&hash) {
        found = Some((hash, at));
      }
    }
    hasher.update(line::slice(bytes, at..at + 1));
  }
  let (hash, at) = found?;
  let rest = |span: Range<usize>| parts().map(move |part| part.start.max(span.start)..part.end);
  let tail: Vec<u8> = rest(at..end)
    .filter(|part| !part.is_empty())
    .flat_map(|part| line::slice(bytes, part).to_vec())
    .collect();
  let kind = LineKind::of(&tail);
  let head = Line { span: line.span.start..at, hash, ..line.clone() };
  let tail =
    Line { span: at..line.span.end, hash: LineHash::of([&tail[..]]), kind, is_tail: true, ..*line };
  (kind == LineKind::Text).then_some(Grown { head, tail })
}
