//! Fresh ids: drawn and looked up some at a time, and none given twice.
//!
//! The ledger knows an id only when what has it is recorded. A file with a thousand new blocks has a
//! thousand ids before that, of sixteen million: twice in a hundred times two of them were the same.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::EngineError;
use crate::memory::{
  BlockId,
  id::{MAX_ID_DIGITS, MIN_ID_DIGITS},
};

/// How many ids are drawn at a time: as many as a command or a changed file needs.
const SPARE_IDS: usize = 32;
/// From so many ids on that were given it is looked up which of them the ledger knows by now.
const MANY: usize = 1024;

/// Eight random bytes for each id of a draw.
pub(super) type Drawn = [u8; SPARE_IDS * 8];

/// Ids to give, and those that were given and may not be in the ledger yet.
#[derive(Debug, Default)]
pub(super) struct Ids {
  spare: Vec<BlockId>,
  given: HashSet<BlockId>,
  sweep_at: usize,
}

impl Ids {
  /// A fresh id. `random` draws; `taken` tells which ids the ledger has.
  pub(super) fn next(
    &mut self,
    random: impl Fn() -> Result<Drawn, EngineError>,
    taken: impl Fn(&[BlockId]) -> Result<HashSet<BlockId>, EngineError>,
  ) -> Result<BlockId, EngineError> {
    if self.spare.is_empty() {
      self.sweep(&taken)?;
      self.draw(random, taken)?;
    }
    let id = self.spare.pop().ok_or(EngineError::NoFreeId)?;
    self.given.insert(id.clone());
    Ok(id)
  }

  fn draw(
    &mut self,
    random: impl Fn() -> Result<Drawn, EngineError>,
    taken: impl Fn(&[BlockId]) -> Result<HashSet<BlockId>, EngineError>,
  ) -> Result<(), EngineError> {
    for digits in MIN_ID_DIGITS..=MAX_ID_DIGITS {
      let random = random()?;
      let (chunks, _) = random.as_chunks::<8>();
      let mut drawn: Vec<BlockId> =
        chunks.iter().map(|chunk| BlockId::from_random(*chunk, digits)).collect();
      // In the order in which they were drawn, so that neighbours share no digits.
      let mut seen = HashSet::new();
      drawn.retain(|id| !self.given.contains(id) && seen.insert(id.clone()));
      let taken = taken(&drawn)?;
      drawn.retain(|id| !taken.contains(id));
      // Longer ids where half of the short ones are taken.
      if drawn.len() > SPARE_IDS / 2 {
        self.spare = drawn;
        return Ok(());
      }
    }
    Err(EngineError::NoFreeId)
  }

  /// Forgets those that the ledger knows, so that a daemon does not keep all that it ever gave.
  fn sweep(
    &mut self,
    taken: impl Fn(&[BlockId]) -> Result<HashSet<BlockId>, EngineError>,
  ) -> Result<(), EngineError> {
    if self.given.len() >= self.sweep_at.max(MANY) {
      let all: Vec<BlockId> = self.given.drain().collect();
      let known = taken(&all)?;
      self.given.extend(all.into_iter().filter(|id| !known.contains(id)));
      // Seldom enough, however many are under way.
      self.sweep_at = self.given.len() * 2;
    }
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use std::cell::{Cell, RefCell};

  use super::*;
  use crate::os::random;

  /// Draws the same few numbers again and again, a little shifted each time.
  fn poor(draws: &Cell<u8>) -> Drawn {
    draws.set(draws.get().wrapping_add(1));
    let n = draws.get();
    std::array::from_fn(|at| {
      let (which, byte) = ((at / 8) as u8, at % 8);
      if byte == 2 { which.wrapping_add(n.wrapping_mul(10)) } else { 7 }
    })
  }

  #[test]
  fn no_id_is_given_twice_before_the_ledger_knows_it() {
    let draws = Cell::new(0);
    let mut ids = Ids::default();
    let mut seen = HashSet::new();
    for n in 0..5000 {
      let id = ids.next(|| Ok(poor(&draws)), |_| Ok(HashSet::new()));
      let Ok(id) = id else {
        assert!(n > 200, "they ran out at {n}");
        return;
      };
      assert!(seen.insert(id.clone()), "{id} twice, at {n}");
    }
  }

  #[test]
  fn what_the_ledger_knows_is_not_kept_in_mind() {
    let recorded = RefCell::new(HashSet::new());
    let mut ids = Ids::default();
    for _ in 0..10 * MANY {
      let known = |asked: &[BlockId]| {
        Ok(asked.iter().filter(|id| recorded.borrow().contains(*id)).cloned().collect())
      };
      let id = ids.next(|| Ok(random::array()?), known).unwrap();
      assert!(recorded.borrow_mut().insert(id));
      assert!(ids.given.len() <= MANY + SPARE_IDS);
    }
  }
}
