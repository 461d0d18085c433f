//! Matching the blocks of a file with those of its last known version.
//!
//! Invariant: a line that the last version had, and that no other line of the file accounts for, is never
//! fresh, even if it moved. Only fresh lines may be taken out of a file.
//! Invariant: a line never gains trust by moving: it keeps its revision, and if several lines could be the
//! one that moved, the least trusted of them counts.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BinaryHeap, HashMap, HashSet, VecDeque},
  ops::Range,
};

use crate::{
  memory::{
    Block, BlockId, ContentHash, Document, KnownBlock, Line, LineHash,
    line::LineKind,
    pool::{KnownAt, Pool},
    relisted::relisted,
  },
  provenance::Trust,
};

/// How a block relates to the last version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
  /// Equal bytes (or equal except for line ends), in the same order.
  Unchanged {
    /// Index of the known block.
    known: usize,
  },
  /// Equal bytes (or equal except for line ends), in another place.
  Moved {
    /// Index of the known block.
    known: usize,
  },
  /// Another version of a known block. A known block that was split is named by several fates; see
  /// [`Comparison::heirs`].
  Edited {
    /// Index of the known block.
    known: usize,
    /// Indices of the block's lines that the last version did not have.
    fresh: Vec<usize>,
  },
  /// A block of which nothing was there before.
  Inserted,
}

impl Fate {
  /// The known block, if there is one.
  pub const fn known(&self) -> Option<usize> {
    match self {
      Self::Unchanged { known } | Self::Moved { known } | Self::Edited { known, .. } => {
        Some(*known)
      }
      Self::Inserted => None,
    }
  }
}

/// The comparison of a file with its last version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
  /// One for each block of the document.
  pub fates: Vec<Fate>,
  /// Indices of known blocks that no block continues.
  pub removed: Vec<usize>,
  /// Blocks of the document, by index, whose known block continues in another block too: a block was split.
  /// They inherit its provenance but need an id of their own.
  pub heirs: HashSet<usize>,
  /// For each block that is edited or returned, by index, the known line of each of its lines; `None` for a
  /// line that is blank or fresh.
  pub inherited: HashMap<usize, Vec<Option<Inherited>>>,
}

impl Comparison {
  /// Treats all text at `span` as fresh, also what the last version had: the text was written as a whole.
  pub fn renew(&mut self, document: &Document, known: &[KnownBlock], span: &Range<usize>) {
    let is_in = |line: &Line| {
      let is_at = line.span.start < span.end && span.start < line.span.end;
      is_at && line.kind != LineKind::Blank
    };
    for (index, (block, fate)) in document.blocks().iter().zip(&mut self.fates).enumerate() {
      let Some(at) = fate.known().filter(|_| block.lines.iter().any(is_in)) else { continue };
      let own = || known.get(at).into_iter().flat_map(|old| &old.lines);
      let inherited = self.inherited.entry(index).or_insert_with(|| {
        own().map(|line| Some(Inherited { known: at, revision: line.revision })).collect()
      });
      inherited.resize(block.lines.len(), None);
      let mut fresh = Vec::new();
      for (number, (line, from)) in block.lines.iter().zip(inherited).enumerate() {
        *from = from.filter(|_| line.kind != LineKind::Blank && !is_in(line));
        if from.is_none() && line.kind != LineKind::Blank {
          fresh.push(number);
        }
      }
      *fate = Fate::Edited { known: at, fresh };
    }
  }
}

/// The known line that a line of an edited block matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
  /// Index of the known block that had it.
  pub known: usize,
  /// The revision of that block that brought it.
  pub revision: u32,
}

/// Compares a document with the last known version of its file. Time is linear in lines, up to sorting.
pub fn compare(document: &Document, known: &[KnownBlock]) -> Comparison {
  compare_text(&[], document, known)
}

/// Like [`compare`], if the bytes of the document are at hand: then a line also matches if only its list
/// marker changed.
pub fn compare_text(bytes: &[u8], document: &Document, known: &[KnownBlock]) -> Comparison {
  let blocks = document.blocks();
  let mut pairs = Pairs { of_block: vec![None; blocks.len()], of_known: vec![None; known.len()] };
  // Equal bytes come first, so that a copy with other line ends does not take a block's identity.
  pairs.by_key(blocks, known, |block| block.hash, |known| known.hash);
  pairs.by_key(blocks, known, |block| block.norm_hash, |known| known.norm_hash);
  pairs.least_trusted(known);
  let equal: Vec<bool> = pairs.of_block.iter().map(Option::is_some).collect();
  let relisted = pairs.relisted(bytes, blocks, known);
  let blocks = relisted.as_deref().unwrap_or(blocks);
  pairs.by_marker_and_lines(blocks, known);
  pairs.by_neighbours();

  let in_order = pairs.in_order(&equal);
  let mut pool = Pool::default();
  let mut fates = Vec::with_capacity(blocks.len());
  let mut origins: HashMap<usize, Vec<Option<KnownAt>>> = HashMap::new();
  for (index, block) in blocks.iter().enumerate() {
    let is = |flags: &[bool]| flags.get(index).copied().unwrap_or(false);
    fates.push(match pairs.of_block.get(index).copied().flatten() {
      None => Fate::Inserted,
      Some(at) => {
        let old = known.get(at);
        // A block that equals a former one may have been assembled from lines of the last version.
        if !is(&equal) || old.is_none_or(|old| old.former) {
          origins.insert(index, pool.own(block, old, at));
        }
        match is(&equal) {
          true if is(&in_order) => Fate::Unchanged { known: at },
          true => Fate::Moved { known: at },
          false => Fate::Edited { known: at, fresh: Vec::new() },
        }
      }
    });
  }
  for (at, block) in known.iter().enumerate() {
    if pairs.of_known.get(at).copied().flatten().is_none() {
      block.lines.iter().for_each(|line| pool.add(line.hash, KnownAt::new(at, block, line)));
    }
  }
  // Unmatched lines of the last version account for lines that were joined or split off.
  for (index, block) in blocks.iter().enumerate() {
    if let Some(origins) = origins.get_mut(&index) {
      pool.account(block, origins);
    }
  }
  let mut heirs = HashSet::new();
  let mut taken: HashSet<usize> = fates.iter().filter_map(Fate::known).collect();
  for (index, (block, fate)) in blocks.iter().zip(&mut fates).enumerate() {
    if *fate == Fate::Inserted
      && let Some((known, lines)) = pool.split_off(block, known)
    {
      // The first part keeps the identity of the block.
      if !taken.insert(known) {
        heirs.insert(index);
      }
      origins.insert(index, lines);
      *fate = Fate::Edited { known, fresh: Vec::new() };
    }
  }
  for (index, (block, fate)) in blocks.iter().zip(&mut fates).enumerate() {
    if let (Fate::Edited { fresh, .. }, Some(origins)) = (fate, origins.get(&index)) {
      let lines = block.lines.iter().zip(origins).enumerate();
      let unknown = lines.filter(|(_, (line, at))| at.is_none() && line.kind != LineKind::Blank);
      fresh.extend(unknown.map(|(at, _)| at));
    }
  }
  let inherit = |at: KnownAt| Inherited { known: at.known, revision: at.revision };
  let inherited = origins
    .into_iter()
    .map(|(index, lines)| (index, lines.into_iter().map(|line| line.map(inherit)).collect()));
  let inherited = inherited.collect();
  let removed = (0..known.len()).filter(|at| !taken.contains(at)).collect();
  Comparison { fates, removed, heirs, inherited }
}

/// Which block continues which known one.
struct Pairs {
  of_block: Vec<Option<usize>>,
  of_known: Vec<Option<usize>>,
}

/// Whether a known block had already left the file, its trust, and its index.
type Rank = (bool, Trust, usize);

/// If a line is in more unmatched blocks than this, it does not show which of them it came from.
const MAX_HOLDERS: usize = 16;

impl Pairs {
  fn pair(&mut self, block: usize, known: usize) {
    if let (Some(of_block), Some(of_known)) =
      (self.of_block.get_mut(block), self.of_known.get_mut(known))
      && of_block.is_none()
      && of_known.is_none()
    {
      *of_block = Some(known);
      *of_known = Some(block);
    }
  }

  fn block_is_free(&self, block: usize) -> bool {
    self.of_block.get(block).is_some_and(Option::is_none)
  }

  fn known_is_free(&self, known: usize) -> bool {
    self.of_known.get(known).is_some_and(Option::is_none)
  }

  /// Equal keys: first from both ends, so that equal blocks in a row keep their places, then in order.
  fn by_key(
    &mut self,
    blocks: &[Block],
    known: &[KnownBlock],
    of_block: impl Fn(&Block) -> ContentHash,
    of_known: impl Fn(&KnownBlock) -> ContentHash,
  ) {
    let fits = |(block, known): &(&Block, &KnownBlock)| of_block(block) == of_known(known);
    let front = blocks.iter().zip(known).take_while(fits).count();
    (0..front).for_each(|at| self.pair(at, at));
    let back = blocks.iter().rev().zip(known.iter().rev()).take_while(fits).count();
    for at in 1..=back {
      self.pair(blocks.len() - at, known.len() - at);
    }
    let mut free: HashMap<ContentHash, VecDeque<usize>> = HashMap::new();
    for (at, known) in known.iter().enumerate().filter(|(at, _)| self.known_is_free(*at)) {
      free.entry(of_known(known)).or_default().push_back(at);
    }
    if free.is_empty() {
      return;
    }
    for (at, block) in blocks.iter().enumerate() {
      if self.block_is_free(at)
        && let Some(known) = free.get_mut(&of_block(block)).and_then(VecDeque::pop_front)
      {
        self.pair(at, known);
      }
    }
  }

  /// Which of several equal blocks left the file cannot be known, so it is never assumed to be the least
  /// trusted one.
  fn least_trusted(&mut self, known: &[KnownBlock]) {
    // Only present blocks compete with present ones; usually none left.
    let former = |at: &usize| known.get(*at).is_some_and(|block| block.former);
    let back = self.of_block.iter().flatten().any(former);
    let mut left: HashMap<ContentHash, BinaryHeap<Reverse<Rank>>> = HashMap::new();
    let free = known.iter().enumerate().filter(|(at, _)| self.known_is_free(*at));
    for (at, block) in free.filter(|(_, block)| back || !block.former) {
      let rank = Reverse((block.former, block.trust(), at));
      left.entry(block.norm_hash).or_default().push(rank);
    }
    if left.is_empty() {
      return;
    }
    for pair in &mut self.of_block {
      let Some((at, block)) = pair.and_then(|at| Some((at, known.get(at)?))) else { continue };
      let Some(left) = left.get_mut(&block.norm_hash) else { continue };
      let rank = (block.former, block.trust(), at);
      // A block of the last version is a better match than one that had left before.
      if let Some(mut least) =
        left.peek_mut().filter(|least| least.0.0 == rank.0 && least.0.1 < rank.1)
      {
        let Reverse((.., instead)) = std::mem::replace(&mut *least, Reverse(rank));
        self.of_known.swap(at, instead);
        *pair = Some(instead);
      }
    }
  }

  /// The unmatched blocks with the hashes that their lines had under other list markers.
  fn relisted(&self, bytes: &[u8], blocks: &[Block], known: &[KnownBlock]) -> Option<Vec<Block>> {
    if bytes.is_empty() || !(0..blocks.len()).any(|at| self.block_is_free(at)) {
      return None;
    }
    let free = known.iter().enumerate().filter(|(at, _)| self.known_is_free(*at));
    let lines: HashSet<LineHash> =
      free.flat_map(|(_, block)| block.lines.iter().map(|line| line.hash)).collect();
    if lines.is_empty() {
      return None;
    }
    relisted(bytes, blocks, |at| self.block_is_free(at), &lines)
  }

  /// First an equal marker with shared lines, then an equal marker, then the most shared lines: those of
  /// the block itself count more than those of its headings.
  fn by_marker_and_lines(&mut self, blocks: &[Block], known: &[KnownBlock]) {
    let mut holders: HashMap<LineHash, Vec<usize>> = HashMap::new();
    let mut marked: HashMap<&BlockId, VecDeque<usize>> = HashMap::new();
    for (at, known) in known.iter().enumerate().filter(|(at, _)| self.known_is_free(*at)) {
      for line in &known.lines {
        let of = holders.entry(line.hash).or_default();
        // One entry more than the limit is stored, so that a line beyond the limit is recognised.
        if of.last() != Some(&at) && of.len() <= MAX_HOLDERS {
          of.push(at);
        }
      }
      // An id comment names the block itself.
      for id in
        known.marker.iter().chain((known.marker.as_ref() != Some(&known.id)).then_some(&known.id))
      {
        marked.entry(id).or_default().push_back(at);
      }
    }
    if holders.is_empty() && marked.is_empty() {
      return;
    }
    let mut candidates = Vec::new();
    // Different common lines: those with text below the headings, those with text, and all. A copy counts
    // once.
    let mut shared: HashMap<usize, (usize, usize, usize)> = HashMap::new();
    let mut seen: HashSet<LineHash> = HashSet::new();
    for (at, block) in blocks.iter().enumerate().filter(|(at, _)| self.block_is_free(*at)) {
      shared.clear();
      seen.clear();
      let lines = block.lines.iter().enumerate();
      for (number, line) in lines.filter(|(_, line)| line.kind != LineKind::Blank) {
        let of = holders.get(&line.hash).filter(|of| of.len() <= MAX_HOLDERS);
        if let Some(of) = of.filter(|_| seen.insert(line.hash)) {
          for known in of {
            let (body, telling, all) = shared.entry(*known).or_default();
            *body += usize::from(line.kind == LineKind::Text && number >= block.body);
            *telling += usize::from(line.kind == LineKind::Text);
            *all += 1;
          }
        }
      }
      // Common punctuation is no evidence of kinship.
      shared.retain(|_, (_, telling, _)| *telling > 0);
      for (&of, &count) in &shared {
        let same_marker = block.marker.is_some()
          && known.get(of).is_some_and(|known| {
            known.marker == block.marker || Some(&known.id) == block.marker.as_ref()
          });
        candidates.push((Reverse((same_marker, count)), at, of));
      }
    }
    candidates.sort_unstable();
    let shared_marker = candidates.partition_point(|(Reverse((same_marker, _)), ..)| *same_marker);
    let (with_marker, without) = candidates.split_at(shared_marker);
    for &(_, block, known) in with_marker {
      self.pair(block, known);
    }
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| block.marker.is_some()) {
      let queue = block.marker.as_ref().and_then(|id| marked.get_mut(id));
      if let Some(queue) = queue.filter(|_| self.block_is_free(at)) {
        while let Some(known) = queue.pop_front() {
          if self.known_is_free(known) {
            self.pair(at, known);
            break;
          }
        }
      }
    }
    for &(_, block, known) in without {
      self.pair(block, known);
    }
  }

  /// One free block and one free known block between the same neighbours.
  fn by_neighbours(&mut self) {
    let free: Vec<usize> = (0..self.of_block.len()).filter(|at| self.block_is_free(*at)).collect();
    for at in free {
      let before = match at.checked_sub(1) {
        None => Some(0),
        Some(before) => self.of_block.get(before).copied().flatten().map(|known| known + 1),
      };
      let after = match self.of_block.get(at + 1) {
        None => Some(self.of_known.len()),
        Some(after) => *after,
      };
      if let (Some(lone), Some(after)) = (before, after)
        && lone + 1 == after
      {
        self.pair(at, lone);
      }
    }
  }

  /// Of the equal pairs, those on a longest run that keeps its order.
  fn in_order(&self, equal: &[bool]) -> Vec<bool> {
    let pairs: Vec<(usize, usize)> = (self.of_block.iter().zip(equal).enumerate())
      .filter_map(|(block, (known, equal))| known.filter(|_| *equal).map(|known| (block, known)))
      .collect();
    // Patience sorting: `tails` holds, for each length, the pair with the smallest known index.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    let known_of = |at: usize| pairs.get(at).map_or(0, |pair| pair.1);
    for (at, &(_, known)) in pairs.iter().enumerate() {
      let length = tails.partition_point(|tail| known_of(*tail) < known);
      if let Some(link) = before.get_mut(at) {
        *link = length.checked_sub(1).and_then(|last| tails.get(last).copied());
      }
      match tails.get_mut(length) {
        Some(tail) => *tail = at,
        None => tails.push(at),
      }
    }
    let mut flags = vec![false; self.of_block.len()];
    let mut next = tails.last().copied();
    while let Some(at) = next {
      if let Some(flag) = pairs.get(at).and_then(|pair| flags.get_mut(pair.0)) {
        *flag = true;
      }
      next = before.get(at).copied().flatten();
    }
    flags
  }
}
