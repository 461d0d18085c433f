//! Logistic regression over sparse binary features, by AdaGrad (Duchi and others, 2011).
//!
//! The order of the examples is shuffled by a seed, so the same examples give the same weights. The
//! hold on a weight is spread over the examples that have its feature, which in one round comes to
//! the same as holding it once. The weights of the last rounds are averaged.

/// What is learned from.
pub(crate) struct Examples<'e> {
  /// The features of each line, each once, ascending.
  pub(crate) rows: &'e [&'e [u32]],
  /// Of each line, how much it counts: below zero for what is harmless, zero for what says nothing.
  pub(crate) counts: &'e [f32],
  /// Lines of which the first has to come out above the second, and how much that counts.
  pub(crate) pairs: &'e [(usize, usize, f32)],
}

/// How it is learned.
pub(crate) struct Pace {
  /// How often each example is seen.
  pub(crate) rounds: usize,
  /// The length of a first step.
  pub(crate) step: f32,
  /// How strongly each weight is held near zero.
  pub(crate) hold: f32,
  /// Of the order.
  pub(crate) seed: u64,
}

/// Weights and bias.
pub(crate) struct Linear {
  /// A weight a feature.
  pub(crate) weights: Vec<f32>,
  /// The logit of a line without features.
  pub(crate) bias: f32,
}

/// Learns weights for features below `size`.
pub(crate) fn learn(size: usize, examples: &Examples<'_>, pace: &Pace) -> Linear {
  let mut state = State::new(size, examples, pace);
  let mut order: Vec<usize> = (0..examples.rows.len())
    .filter(|row| examples.counts[*row] != 0.0)
    .chain((0..examples.pairs.len()).map(|pair| examples.rows.len() + pair))
    .collect();
  let mut random = pace.seed | 1;
  let mut mean = Linear { weights: vec![0.0; size], bias: 0.0 };
  let averaged = pace.rounds.div_ceil(3);
  for round in 0..pace.rounds {
    shuffle(&mut order, &mut random);
    for &at in &order {
      match at.checked_sub(examples.rows.len()) {
        None => state.line(at),
        Some(pair) => state.pair(pair),
      }
    }
    if round + averaged >= pace.rounds {
      for (mean, slot) in mean.weights.iter_mut().zip(&state.slots) {
        *mean += slot.weight / averaged as f32;
      }
      mean.bias += state.bias.weight / averaged as f32;
    }
  }
  mean
}

/// A weight, the squares of its slopes so far, and the hold of one example.
#[derive(Clone, Copy, Default)]
struct Slot {
  weight: f32,
  squares: f32,
  hold: f32,
}

impl Slot {
  fn pull(&mut self, slope: f32, step: f32) {
    let slope = slope + self.hold * self.weight;
    self.squares += slope * slope;
    self.weight -= step * slope / (self.squares.sqrt() + 1e-6);
  }
}

struct State<'e> {
  slots: Vec<Slot>,
  bias: Slot,
  units: Vec<f32>,
  examples: &'e Examples<'e>,
  step: f32,
}

impl<'e> State<'e> {
  fn new(size: usize, examples: &'e Examples<'e>, pace: &Pace) -> Self {
    let mut seen = vec![0.0_f32; size];
    let mut add = |row: usize| {
      for feature in examples.rows[row] {
        seen[*feature as usize] += 1.0;
      }
    };
    (0..examples.rows.len()).filter(|row| examples.counts[*row] != 0.0).for_each(&mut add);
    examples.pairs.iter().for_each(|(above, below, _)| {
      add(*above);
      add(*below);
    });
    let hold = |seen: f32| pace.hold / seen.max(1.0);
    Self {
      slots: seen.into_iter().map(|seen| Slot { hold: hold(seen), ..Slot::default() }).collect(),
      bias: Slot::default(),
      units: examples.rows.iter().map(|row| 1.0 / (row.len().max(1) as f32).sqrt()).collect(),
      examples,
      step: pace.step,
    }
  }

  fn sum(&self, row: usize) -> f32 {
    let features = self.examples.rows[row].iter();
    self.units[row] * features.map(|feature| self.slots[*feature as usize].weight).sum::<f32>()
  }

  fn pull(&mut self, row: usize, slope: f32) {
    let slope = slope * self.units[row];
    for feature in self.examples.rows[row] {
      self.slots[*feature as usize].pull(slope, self.step);
    }
  }

  fn line(&mut self, row: usize) {
    let count = self.examples.counts[row];
    let slope = -count / (1.0 + (count.signum() * (self.sum(row) + self.bias.weight)).exp());
    self.pull(row, slope);
    self.bias.pull(slope, self.step);
  }

  /// Features that both lines have say nothing about which is which.
  fn pair(&mut self, pair: usize) {
    let (above, below, count) = self.examples.pairs[pair];
    let slope = -count / (1.0 + (self.sum(above) - self.sum(below)).exp());
    for (row, other, slope) in [(above, below, slope), (below, above, -slope)] {
      let slope = slope * self.units[row];
      let other = self.examples.rows[other];
      for feature in self.examples.rows[row] {
        if other.binary_search(feature).is_err() {
          self.slots[*feature as usize].pull(slope, self.step);
        }
      }
    }
  }
}

/// Fisher and Yates, with xorshift64* for numbers.
fn shuffle(order: &mut [usize], random: &mut u64) {
  for at in (1..order.len()).rev() {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    let number = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
    order.swap(at, number as usize % (at + 1));
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_feature_that_tells_is_learned_and_the_same_way_each_time() {
    let rows: Vec<[u32; 2]> = (0..200).map(|n| [n % 2, 2 + n % 7]).collect();
    let rows: Vec<&[u32]> = rows.iter().map(<[u32; 2]>::as_slice).collect();
    let counts: Vec<f32> = (0..200).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let examples = Examples { rows: &rows, counts: &counts, pairs: &[(0, 1, 1.0)] };
    let pace = Pace { rounds: 5, step: 0.3, hold: 0.1, seed: 7 };
    let found = learn(16, &examples, &pace);
    assert!(found.weights[0] > 1.0 && found.weights[1] < -1.0, "{:?}", found.weights);
    assert!(found.weights[2..9].iter().all(|weight| weight.abs() < 0.5));
    assert_eq!(found.weights, learn(16, &examples, &pace).weights);
  }
}
