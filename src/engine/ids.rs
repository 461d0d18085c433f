//! New ids: drawn and looked up in groups, and never given twice.
//!
//! The ledger knows an id only when its block is recorded. A file with a thousand new blocks needs a
//! thousand ids before that, of sixteen million: in two of a hundred cases two of them would be equal.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::EngineError;
use crate::memory::{
  BlockId,
  id::{MAX_ID_DIGITS, MIN_ID_DIGITS},
};

/// How many ids are drawn at a time: the number that a command or a changed file needs.
const SPARE_IDS: usize = 32;
/// At this number of given ids, those that the ledger knows by now are forgotten.
const MANY: usize = 1024;

/// Eight random bytes for each id of a draw.
pub(super) type Drawn = [u8; SPARE_IDS * 8];

/// Spare ids, and given ids that may not be in the ledger yet.
#[derive(Debug, Default)]
pub(super) struct Ids {
  spare: Vec<BlockId>,
  given: HashSet<BlockId>,
  sweep_at: usize,
}

impl Ids {
  /// A new id. `random` draws bytes; `taken` returns those ids that the ledger has.
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
      // In the order of the draw, so that neighbours share no digits.
      let mut seen = HashSet::new();
      drawn.retain(|id| !self.given.contains(id) && seen.insert(id.clone()));
      let taken = taken(&drawn)?;
      drawn.retain(|id| !taken.contains(id));
      // If half of the short ids are taken, longer ones are drawn.
      if drawn.len() > SPARE_IDS / 2 {
        self.spare = drawn;
        return Ok(());
      }
    }
    Err(EngineError::NoFreeId)
  }

  /// Forgets the ids that the ledger knows, so that a daemon does not keep all ids that it ever gave.
  fn sweep(
    &mut self,
    taken: impl Fn(&[BlockId]) -> Result<HashSet<BlockId>, EngineError>,
  ) -> Result<(), EngineError> {
    if self.given.len() >= self.sweep_at.max(MANY) {
      let all: Vec<BlockId> = self.given.drain().collect();
      let known = taken(&all)?;
      self.given.extend(all.into_iter().filter(|id| !known.contains(id)));
      // The sweep stays rare, however many ids are in use.
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

  /// Draws the same few numbers again and again, with a small offset each time.
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
