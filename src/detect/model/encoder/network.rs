//! The transformer: from the ids of a text to two logits.
//!
//! It does what the graph in the file says (`training/encoder/graph.py`). Products with weights are
//! products of bytes, which `rten-gemm` makes exactly; everything else is `numbers`, whose results depend
//! on no processor. So the whole has the same bits everywhere.
#![forbid(unsafe_code)]
#![expect(
  clippy::inline_always,
  reason = "what is not inlined into `widest` is compiled for the oldest processor"
)]

use std::ops::Range;

use rten_gemm::{GemmInputA, GemmInputB, GemmOptions, QuantParams};
use rten_tensor::NdTensorView;

use super::{
  numbers::{self, Coding, LANES, ROWS, widest},
  weights::{Layer, Linear, Multiplier, Norm, Upper, Weights},
};

/// The score of a missing token: its share is zero.
const NEVER: f32 = -1e30;

/// The buffers of a run, kept from one text to the next.
#[derive(Default)]
pub(super) struct RunBuffers {
  /// A row a token: its state after a layer.
  states: Vec<f32>,
  product: Product,
  /// Queries, keys and values of all heads, then what is between the two products of a layer.
  wide: Vec<f32>,
  /// The output of the heads, side by side.
  seen: Vec<f32>,
  head: Head,
}

/// A product of floats, written as bytes, with a matrix of weights.
#[derive(Default)]
struct Product {
  multiplier: Multiplier,
  bytes: Vec<u8>,
  zeros: Vec<u8>,
  /// A row a token.
  sums: Vec<i32>,
  /// The value of one unit in each column of the sums.
  factors: Vec<f32>,
}

/// The buffers of one head.
#[derive(Default)]
struct Head {
  /// A row a number of a key, a column a token.
  keys: Vec<f32>,
  /// How much each of four tokens looks at each token.
  scores: [Vec<f32>; ROWS],
}

impl Weights {
  /// The two logits of a text, or nothing where an id is none of this model's. `shown` gets the
  /// states after the embedding and after each layer, a row a token.
  pub(super) fn logits(
    &self,
    ids: &[i32],
    desk: &mut RunBuffers,
    mut shown: impl FnMut(&[f32]),
  ) -> Option<[f32; 2]> {
    self.embed(ids, &mut desk.states)?;
    shown(&desk.states);
    for layer in &self.layers {
      self.step(layer, desk)?;
      shown(&desk.states);
    }
    let [injection, poison] = &self.outputs;
    let pooled = self.pooled(&desk.states)?;
    Some([logit(&pooled, injection, self.bias[0]), logit(&pooled, poison, self.bias[1])])
  }

  /// The one logit of layers of its own above the lowest of these.
  pub(super) fn authority(&self, upper: &Upper, ids: &[i32], desk: &mut RunBuffers) -> Option<f32> {
    self.embed(ids, &mut desk.states)?;
    for layer in self.layers.get(..upper.shared)?.iter().chain(&upper.layers) {
      self.step(layer, desk)?;
    }
    Some(logit(&self.pooled(&desk.states)?, &upper.output, upper.bias))
  }

  fn embed(&self, ids: &[i32], states: &mut Vec<f32>) -> Option<()> {
    states.clear();
    for (id, position) in ids.iter().zip(self.positions.chunks_exact(self.width)) {
      let from = usize::try_from(*id).ok()?.checked_mul(self.width)?;
      let token = self.tokens.get(from..from.checked_add(self.width)?)?;
      let token = token.iter().map(|byte| f32::from(*byte) - f32::from(self.token_zero));
      states
        .extend(token.zip(position).map(|(token, position)| token * self.token_scale + position));
    }
    widest(
      #[inline(always)]
      || self.embedded_norm.rows(states),
    );
    (!ids.is_empty() && states.len() == ids.len() * self.width).then_some(())
  }

  fn step(&self, layer: &Layer, desk: &mut RunBuffers) -> Option<()> {
    let RunBuffers { states, product, wide, seen, head } = desk;
    product.of(states, &layer.query_key_value)?;
    widest(
      #[inline(always)]
      || {
        product.floats(&layer.query_key_value, wide, |out, x| *out = x);
        seen.resize(states.len(), 0.0);
        for own in (0..self.width).step_by(self.head) {
          head.attend(own..own + self.head, self.width, wide, seen);
        }
      },
    );
    product.add(seen, &layer.attended, &layer.attended_norm, states)?;
    product.of(states, &layer.widened)?;
    widest(
      #[inline(always)]
      || product.floats(&layer.widened, wide, |out, x| *out = numbers::gelu(x)),
    );
    product.add(wide, &layer.narrowed, &layer.narrowed_norm, states)
  }

  /// The first token's state and the mean of all, side by side.
  fn pooled(&self, states: &[f32]) -> Option<Vec<f32>> {
    let mut pooled = states.get(..self.width)?.to_vec();
    let mut mean = vec![0.0; self.width];
    for row in states.chunks_exact(self.width) {
      for (sum, x) in mean.iter_mut().zip(row) {
        *sum += x;
      }
    }
    let n = (states.len() / self.width) as f32;
    pooled.extend(mean.iter().map(|sum| sum / n));
    Some(pooled)
  }
}

fn logit(pooled: &[f32], weights: &[f32], bias: f32) -> f32 {
  let products: Vec<f32> = pooled.iter().zip(weights).map(|(x, weight)| x * weight).collect();
  numbers::sum(&products, |x| x) + bias
}

impl Norm {
  #[inline(always)]
  fn rows(&self, states: &mut [f32]) {
    for row in states.chunks_exact_mut(self.weight.len()) {
      numbers::normalize(row, &self.weight, &self.bias);
    }
  }
}

impl Product {
  fn of(&mut self, input: &[f32], linear: &Linear) -> Option<()> {
    let bytes = &mut self.bytes;
    let Coding { scale, zero } = widest(
      #[inline(always)]
      || numbers::encode(input, bytes),
    );
    let rows = input.len().checked_div(linear.weight.rows())?;
    let left =
      NdTensorView::try_from_data([rows, linear.weight.rows()], self.bytes.as_slice()).ok()?;
    self.zeros.clear();
    self.zeros.resize(rows, zero);
    self.sums.resize(rows * linear.bias.len(), 0);
    self.factors.clear();
    self.factors.extend(linear.scales.iter().map(|of_weight| scale * of_weight));
    let options = GemmOptions {
      a_quant: Some(QuantParams { zero_point: &self.zeros }),
      ..GemmOptions::default()
    };
    let (left, right) = (GemmInputA::Unpacked(left), GemmInputB::Packed(&linear.weight));
    self.multiplier.gemm(&mut self.sums, left, right, options).ok()
  }

  /// Adds the product to the states, and norms them.
  fn add(
    &mut self,
    input: &[f32],
    linear: &Linear,
    norm: &Norm,
    states: &mut Vec<f32>,
  ) -> Option<()> {
    self.of(input, linear)?;
    widest(
      #[inline(always)]
      || {
        self.floats(linear, states, |out, x| *out += x);
        norm.rows(states);
      },
    );
    Some(())
  }

  /// Shows each number of the result, the bias added, together with the place that is its.
  #[inline(always)]
  fn floats(&self, linear: &Linear, out: &mut Vec<f32>, put: impl Fn(&mut f32, f32)) {
    out.resize(self.sums.len(), 0.0);
    let columns = linear.bias.len();
    for (sums, out) in self.sums.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
      for (((out, sum), factor), bias) in
        out.iter_mut().zip(sums).zip(&self.factors).zip(&linear.bias)
      {
        put(out, *sum as f32 * factor + bias);
      }
    }
  }
}

impl Head {
  /// What the head sees from each token, written to its columns of `seen`. `wide` has a row a token: the
  /// queries of all heads, then their keys, then their values. `own` are the head's columns in each.
  #[inline(always)]
  fn attend(&mut self, own: Range<usize>, width: usize, wide: &[f32], seen: &mut [f32]) {
    let of = |part: usize| part * width + own.start..part * width + own.end;
    let tokens = wide.len() / (3 * width);
    let columns = tokens.next_multiple_of(LANES);
    self.keys.clear();
    self.keys.resize(own.len() * columns, 0.0);
    for (token, row) in wide.chunks_exact(3 * width).enumerate() {
      let column = self.keys.iter_mut().skip(token).step_by(columns);
      column.zip(row.get(of(1)).unwrap_or_default()).for_each(|(slot, x)| *slot = *x);
    }
    for (rows, seen) in wide.chunks(ROWS * 3 * width).zip(seen.chunks_mut(ROWS * width)) {
      let mut rows = rows.chunks_exact(3 * width).map(|row| row.get(of(0)).unwrap_or_default());
      let first = rows.next().unwrap_or_default();
      // Where fewer than four tokens are left, one is computed again, and its result is not used.
      let queries = [
        first,
        rows.next().unwrap_or(first),
        rows.next().unwrap_or(first),
        rows.next().unwrap_or(first),
      ];
      for row in &mut self.scores {
        row.clear();
      }
      for from in (0..columns).step_by(LANES) {
        let keys = self.keys.get(from..).unwrap_or_default();
        for (row, part) in self.scores.iter_mut().zip(numbers::tile(queries, keys, columns)) {
          row.extend(part);
        }
      }
      for row in &mut self.scores {
        row.iter_mut().skip(tokens).for_each(|score| *score = NEVER);
        numbers::softmax(row);
      }
      let shares = self.scores.each_ref().map(|row| row.get(..tokens).unwrap_or_default());
      for at in own.clone().step_by(LANES) {
        let values = wide.get(2 * width + at..).unwrap_or_default();
        let sums = numbers::tile(shares, values, 3 * width);
        for (row, sums) in seen.chunks_exact_mut(width).zip(sums) {
          row.iter_mut().skip(at).zip(sums).for_each(|(x, sum)| *x = sum);
        }
      }
    }
  }
}
