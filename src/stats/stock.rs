//! The trust of memory day by day, from the blocks that appeared and disappeared.
#![forbid(unsafe_code)]

use crate::provenance::Trust;

/// Largest number of days: ten years.
pub const MAX_DAYS: i64 = 3_660;

/// Blocks of one trust that appeared and disappeared on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
  /// The day, counted from 1970.
  pub day: i64,
  /// The trust of the blocks: the lowest of everything that was written into each.
  pub trust: Trust,
  /// Blocks that appeared.
  pub came: u64,
  /// Blocks that disappeared.
  pub went: u64,
}

/// The content of memory at the end of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
  /// The day, counted from 1970.
  pub day: i64,
  blocks: [u64; Trust::ALL.len()],
}

impl Level {
  /// Blocks of one trust.
  pub fn of(&self, trust: Trust) -> u64 {
    Trust::ALL.iter().zip(self.blocks).find(|(one, _)| **one == trust).map_or(0, |(_, n)| n)
  }

  /// All blocks.
  pub fn all(&self) -> u64 {
    self.blocks.iter().sum()
  }
}

/// The content of memory at the end of each day from `first` to `last`, for at most [`MAX_DAYS`]
/// days: the latest. The moves may be in any order.
pub fn levels(moves: &[Move], first: i64, last: i64) -> Vec<Level> {
  let first = first.max(last.saturating_sub(MAX_DAYS - 1));
  let mut moves: Vec<&Move> = moves.iter().filter(|one| one.day <= last).collect();
  moves.sort_by_key(|one| one.day);
  let mut moves = moves.into_iter().peekable();
  // Signed, because a disappearance may be listed before an appearance on one day.
  let mut standing = [0_i128; Trust::ALL.len()];
  let mut levels = Vec::new();
  for day in first..=last {
    while let Some(one) = moves.next_if(|one| one.day <= day) {
      for (trust, n) in Trust::ALL.iter().zip(&mut standing) {
        if *trust == one.trust {
          *n += i128::from(one.came) - i128::from(one.went);
        }
      }
    }
    levels.push(Level { day, blocks: standing.map(|n| u64::try_from(n).unwrap_or(0)) });
  }
  levels
}

#[cfg(test)]
mod tests {
  use super::*;

  const fn moved(day: i64, trust: Trust, came: u64, went: u64) -> Move {
    Move { day, trust, came, went }
  }

  #[test]
  fn what_was_there_is_what_came_less_what_went() {
    let moves = [
      moved(12, Trust::Hostile, 0, 2),
      moved(3, Trust::Verified, 10, 0),
      moved(11, Trust::Hostile, 3, 0),
      moved(12, Trust::Verified, 1, 4),
      moved(14, Trust::Verified, 100, 0),
    ];
    let found = levels(&moves, 10, 13);
    let told: Vec<_> = found
      .iter()
      .map(|level| (level.day, level.of(Trust::Verified), level.of(Trust::Hostile), level.all()))
      .collect();
    assert_eq!(told, [(10, 10, 0, 10), (11, 10, 3, 13), (12, 7, 1, 8), (13, 7, 1, 8)]);
  }

  #[test]
  fn no_span_is_too_long_and_no_number_is_below_nothing() {
    let found = levels(&[moved(0, Trust::Trusted, 1, 5)], i64::MIN, 10_000);
    assert_eq!(found.len(), MAX_DAYS as usize);
    assert_eq!((found[0].day, found[0].all()), (10_001 - MAX_DAYS, 0));
    assert_eq!(levels(&[], 5, 4), []);
  }
}
