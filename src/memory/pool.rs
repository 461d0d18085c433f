//! Lines of the last version that no line accounts for yet: a line may have moved.
//!
//! Invariant: of equal lines, those of the last version account for a line before those that had left
//! earlier, and among them the least trusted comes first.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BinaryHeap, HashMap},
};

use crate::{
  memory::{Block, KnownBlock, KnownLine, Line, LineHash, line::LineKind},
  provenance::Trust,
};

/// A line of a known block, in the order in which such lines account for an equal one: lines of the last
/// version before those that had left it, then the least trusted first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KnownAt {
  former: bool,
  trust: Trust,
  pub(crate) known: usize,
  pub(crate) revision: u32,
}

impl KnownAt {
  pub(crate) fn new(known: usize, block: &KnownBlock, line: &KnownLine) -> Self {
    Self { former: block.former, trust: line.trust, known, revision: line.revision }
  }
}

/// Lines of the last version that no line accounts for yet.
#[derive(Default)]
pub(crate) struct Pool {
  lines: HashMap<LineHash, BinaryHeap<Reverse<KnownAt>>>,
}

impl Pool {
  pub(crate) fn add(&mut self, hash: LineHash, at: KnownAt) {
    self.lines.entry(hash).or_default().push(Reverse(at));
  }

  fn take(&mut self, hash: LineHash) -> Option<KnownAt> {
    self.lines.get_mut(&hash)?.pop().map(|Reverse(at)| at)
  }

  fn holder(&self, hash: LineHash) -> Option<usize> {
    self.lines.get(&hash)?.peek().map(|Reverse(at)| at.known)
  }

  /// The lines of an edited block that its own last version accounts for: the common beginning and end stay
  /// in place, and the middle counts as a multiset. The rest of the last version is added to the pool.
  pub(crate) fn own(
    &mut self,
    block: &Block,
    old: Option<&KnownBlock>,
    known: usize,
  ) -> Vec<Option<KnownAt>> {
    let mut own = vec![None; block.lines.len()];
    let Some(old) = old else { return own };
    let fits = |(new, old): &(&Line, &KnownLine)| new.hash == old.hash;
    let front = block.lines.iter().zip(&old.lines).take_while(fits).count();
    let (new_rest, old_rest) =
      (block.lines.get(front..).unwrap_or_default(), old.lines.get(front..).unwrap_or_default());
    let back = new_rest.iter().rev().zip(old_rest.iter().rev()).take_while(fits).count();
    let mut middle: HashMap<LineHash, Vec<KnownAt>> = HashMap::new();
    for line in old_rest.iter().take(old_rest.len() - back) {
      middle.entry(line.hash).or_default().push(KnownAt::new(known, old, line));
    }
    let in_place = |line: Option<&KnownLine>| line.map(|line| KnownAt::new(known, old, line));
    let after = new_rest.len() - back;
    for (at, (origin, line)) in own.iter_mut().zip(&block.lines).enumerate() {
      *origin = match at.checked_sub(front) {
        _ if line.kind == LineKind::Blank => None,
        None => in_place(old.lines.get(at)),
        Some(at) if at >= after => in_place(old_rest.get(old_rest.len() - back + at - after)),
        Some(_) => middle.get_mut(&line.hash).and_then(Vec::pop),
      };
    }
    for (hash, left) in middle {
      for at in left {
        self.add(hash, at);
      }
    }
    own
  }

  /// Accounts for the lines of an edited block that its own last version does not, and prefers an equal,
  /// less trusted line that has left its place.
  pub(crate) fn account(&mut self, block: &Block, origins: &mut [Option<KnownAt>]) {
    for (line, origin) in block.lines.iter().zip(origins) {
      match origin {
        None if line.kind != LineKind::Blank => *origin = self.take(line.hash),
        Some(own) if line.kind == LineKind::Text => {
          let left = self.lines.get_mut(&line.hash).and_then(BinaryHeap::peek_mut);
          if let Some(mut left) = left.filter(|left| left.0 < *own) {
            std::mem::swap(&mut left.0, own);
          }
        }
        _ => {}
      }
    }
  }

  /// Where a block without a match has lines of the last version: the known block of the first such line,
  /// headings last, and the origin of each line. Punctuation shows kinship only if it is all that one of
  /// the two blocks has.
  pub(crate) fn split_off(
    &mut self,
    block: &Block,
    known: &[KnownBlock],
  ) -> Option<(usize, Vec<Option<KnownAt>>)> {
    let said = |line: &&Line| line.kind != LineKind::Blank;
    let telling = block
      .lines
      .iter()
      .any(|line| line.kind == LineKind::Text && self.holder(line.hash).is_some());
    if !telling {
      let mut held: HashMap<usize, usize> = HashMap::new();
      for at in block.lines.iter().filter_map(|line| self.holder(line.hash)) {
        *held.entry(at).or_default() += 1;
      }
      let whole =
        |at: usize| known.get(at).map(|known| known.lines.len()) <= held.get(&at).copied();
      let mut holders = block.lines.iter().filter(said).map(|line| self.holder(line.hash));
      if !holders.clone().flatten().any(whole) && !holders.all(|holder| holder.is_some()) {
        return None;
      }
    }
    let mut origins = vec![None; block.lines.len()];
    self.account(block, &mut origins);
    let lines = || block.lines.iter().zip(&origins).enumerate();
    let tells = |line: &Line| !telling || line.kind == LineKind::Text;
    let from = |body: usize| {
      let mut lines = lines().skip(body).filter(|(_, (line, _))| tells(line));
      lines.find_map(|(_, (_, at))| at.map(|at| at.known))
    };
    let known = from(block.body).or_else(|| from(0))?;
    Some((known, origins))
  }
}
