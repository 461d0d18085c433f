//! A small seeded generator: the same seed gives the same schedule, on every machine.
#![forbid(unsafe_code)]

/// SplitMix64 (Steele, Lea, Flood 2014): one word of state, good enough to pick steps.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
  pub(crate) fn new(seed: u64) -> Self {
    Self(seed)
  }

  pub(crate) fn next(&mut self) -> u64 {
    self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = self.0;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
  }

  /// A number below `n`, which is not 0.
  pub(crate) fn below(&mut self, n: usize) -> usize {
    (self.next() % n as u64) as usize
  }

  /// True in one of `n` cases.
  pub(crate) fn one_in(&mut self, n: usize) -> bool {
    self.below(n) == 0
  }

  pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
    &from[self.below(from.len())]
  }
}
