//! The arithmetic between the products of matrices, with the same bits on every processor.
//!
//! Floats round otherwise when they are added in another order, or multiplied and added in one
//! step. Here each sum has one order (in sixteen lanes, or one after the other), and nothing is
//! fused: the compiler may do neither by itself. How many lanes a processor works on at a time is
//! all that differs. The functions of the mathematics library are not used either, because
//! libraries differ.
//!
//! Everything is inlined into what `widest` runs, for only there the wide instructions are allowed.
#![forbid(unsafe_code)]
#![expect(
  clippy::inline_always,
  reason = "what is not inlined into `widest` is compiled for the oldest processor"
)]

use rten_simd::{
  Isa, SimdOp,
  ops::{BitOps as _, NumOps as _},
};

/// The lanes of a sum; as many floats as the widest register holds.
pub(super) const LANES: usize = 16;
/// The rows that `tile` takes at a time: enough sums for an addition to wait for none before it.
pub(super) const ROWS: usize = 4;

/// As many floats as there are lanes.
pub(super) type Lanes = [f32; LANES];

/// 1.5 * 2^23: added to a float below 2^22, it leaves the nearest integer, ties to even, in the low bits.
const INTEGERS: f32 = 12_582_912.0;

/// Runs this with the widest instructions that the processor has.
pub(super) fn widest<R>(work: impl FnOnce() -> R) -> R {
  struct Work<F>(F);
  impl<R, F: FnOnce() -> R> SimdOp for Work<F> {
    type Output = R;

    #[inline(always)]
    fn eval<I: Isa>(self, _isa: I) -> R {
      (self.0)()
    }
  }
  Work(work).dispatch()
}

/// How floats are written as bytes: `float = (byte - zero) * scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coding {
  pub(super) scale: f32,
  pub(super) zero: u8,
}

/// Writes these floats as bytes, by the range of all of them: ONNX's `DynamicQuantizeLinear`, but with a
/// product instead of a quotient, which is faster and gives a few bytes of a text their neighbour.
#[inline(always)]
pub(super) fn encode(values: &[f32], bytes: &mut Vec<u8>) -> Coding {
  let low = reduce(values, 0.0, |x| x, lower);
  let high = reduce(values, 0.0, |x| x, higher);
  let scale = if high > low { (high - low) / 255.0 } else { 1.0 };
  let steps = 1.0 / scale;
  let zero = integer(-low * steps).clamp(0, 255);
  bytes.clear();
  bytes.extend(values.iter().map(|x| (integer(x * steps) + zero).clamp(0, 255) as u8));
  Coding { scale, zero: zero as u8 }
}

/// The nearest integer of a float below 2^22, ties to even.
#[inline(always)]
fn integer(x: f32) -> i32 {
  (x + INTEGERS).to_bits().wrapping_sub(INTEGERS.to_bits()) as i32
}

/// Brings a row to mean nought and variance one, then scales and shifts it: ONNX's `LayerNormalization`.
#[inline(always)]
pub(super) fn normalize(row: &mut [f32], weight: &[f32], bias: &[f32]) {
  /// Keeps a row of equal numbers from a division by nought; as in training.
  const EPSILON: f32 = 1e-12;
  let count = row.len() as f32;
  let mean = sum(row, |x| x) / count;
  let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
  let scale = 1.0 / (variance + EPSILON).sqrt();
  for ((x, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
    *x = (*x - mean) * scale * weight + bias;
  }
}

/// Each number above the highest becomes its share of the whole.
#[inline(always)]
pub(super) fn softmax(row: &mut [f32]) {
  let highest = reduce(row, f32::MIN, |x| x, higher);
  for x in row.iter_mut() {
    *x = exp(*x - highest);
  }
  let share = 1.0 / sum(row, |x| x);
  for x in row.iter_mut() {
    *x *= share;
  }
}

/// What `of` makes of each number, added up.
#[inline(always)]
pub(super) fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
  reduce(row, 0.0, of, |sum, x| sum + x)
}

/// What `of` makes of each number, joined in lanes, and then the lanes by halves.
#[inline(always)]
fn reduce(row: &[f32], start: f32, of: impl Fn(f32) -> f32, join: impl Fn(f32, f32) -> f32) -> f32 {
  let mut lanes = [start; LANES];
  let (chunks, rest) = row.as_chunks::<LANES>();
  for chunk in chunks {
    for (lane, x) in lanes.iter_mut().zip(chunk) {
      *lane = join(*lane, of(*x));
    }
  }
  for (lane, x) in lanes.iter_mut().zip(rest) {
    *lane = join(*lane, of(*x));
  }
  for half in [8, 4, 2, 1] {
    let (low, high) = lanes.split_at_mut(half);
    for (low, high) in low.iter_mut().zip(high) {
      *low = join(*low, *high);
    }
  }
  lanes[0]
}

#[inline(always)]
fn lower(a: f32, b: f32) -> f32 {
  if b < a { b } else { a }
}

#[inline(always)]
fn higher(a: f32, b: f32) -> f32 {
  if b > a { b } else { a }
}

/// Four rows with sixteen columns: `out[i][j]` is the sum of `left[i][k] * right[k * stride + j]` in the order
/// of k.
///
/// Spelled out in vectors, for the compiler finds them here only by halves.
pub(super) fn tile(left: [&[f32]; ROWS], right: &[f32], stride: usize) -> [Lanes; ROWS] {
  Tile { left, right, stride }.dispatch()
}

struct Tile<'a> {
  left: [&'a [f32]; ROWS],
  right: &'a [f32],
  stride: usize,
}

impl SimdOp for Tile<'_> {
  type Output = [Lanes; ROWS];

  #[inline(always)]
  fn eval<I: Isa>(self, isa: I) -> [Lanes; ROWS] {
    let ops = isa.f32();
    let [one, two, three, four] = self.left;
    let mut out = [[0.0; LANES]; ROWS];
    for from in (0..LANES).step_by(ops.len()) {
      let mut sums = [ops.zero(); ROWS];
      let left = one.iter().zip(two).zip(three.iter().zip(four));
      for (((one, two), (three, four)), right) in left.zip(self.right.chunks(self.stride)) {
        let right = ops.load(right.get(from..).unwrap_or_default());
        for (sum, x) in sums.iter_mut().zip([one, two, three, four]) {
          // Not in one step: that would round once where others round twice.
          *sum = ops.add(*sum, ops.mul(ops.splat(*x), right));
        }
      }
      for (out, sum) in out.iter_mut().zip(sums) {
        ops.store(sum, out.get_mut(from..).unwrap_or_default());
      }
    }
    out
  }
}

/// x * P(X <= x) of the normal distribution.
#[inline(always)]
pub(super) fn gelu(x: f32) -> f32 {
  x * (erf(x * std::f32::consts::FRAC_1_SQRT_2) + 1.0) * 0.5
}

/// e^x for x <= 0, to a ten-millionth of it; the polynomial of Cephes' `expf`.
#[inline(always)]
fn exp(x: f32) -> f32 {
  /// Below, the result is no normal number; nothing depends on what is so small.
  const LOWEST: f32 = -87.0;
  /// ln 2 in two parts: the product of the first with an integer is exact.
  const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
  let x = higher(x, LOWEST);
  let twos = x * std::f32::consts::LOG2_E + INTEGERS;
  let n = twos - INTEGERS;
  let r = x - n * LN_2.0 - n * LN_2.1;
  let mut p = 1.987_569_1e-4;
  for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
    p = p * r + coefficient;
  }
  let power = twos.to_bits().wrapping_sub(INTEGERS.to_bits()).wrapping_add(127) << 23;
  (p * r * r + r + 1.0) * f32::from_bits(power)
}

/// The error function, to half a millionth: a quotient of polynomials in x^2 that Eigen has, too
/// (`generic_fast_erf_float`).
#[inline(always)]
fn erf(x: f32) -> f32 {
  /// Beyond, it is one.
  const END: f32 = 4.0;
  const ABOVE: [f32; 6] =
    [2.770_681_5e-8, -2.101_024e-6, -5.692_506_2e-5, -7.349_906_4e-4, -2.954_6e-3, -1.609_603_3e-2];
  const BELOW: [f32; 4] = [-2.133_740_5e-4, -1.682_827e-3, -7.373_329_3e-3, -1.426_473_9e-2];
  let x = lower(higher(x, -END), END);
  let square = x * x;
  let (mut above, mut below) = (-2.726_142_3e-10, -1.456_607_2e-5);
  for coefficient in ABOVE {
    above = above * square + coefficient;
  }
  for coefficient in BELOW {
    below = below * square + coefficient;
  }
  x * above / below
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;
  use rten_simd::isa::GenericIsa;

  use super::*;

  /// Floats in the range of states, not round.
  fn floats(many: usize) -> Vec<f32> {
    (0..many).map(|n| ((n * 7919 % 1009) as f32 - 500.0) / 61.0).collect()
  }

  fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
  }

  /// Compares both ways of running this: a test is compiled for the least that the architecture has.
  fn same(values: &[f32], kernel: impl Fn(&mut [f32])) {
    let (mut plain, mut wide) = (values.to_vec(), values.to_vec());
    kernel(&mut plain);
    widest(
      #[inline(always)]
      || kernel(&mut wide),
    );
    assert_eq!(bits(&wide), bits(&plain), "{}", values.len());
  }

  #[test]
  fn wide_instructions_change_no_bit() {
    for many in [1, 15, 16, 17, 384, 1000] {
      let values = floats(many);
      let (weight, bias) = (values.clone(), values.clone());
      same(&values, softmax);
      same(
        &values,
        #[inline(always)]
        |row| normalize(row, &weight, &bias),
      );
      same(
        &values,
        #[inline(always)]
        |row| row.iter_mut().for_each(|x| *x = gelu(*x)),
      );
      same(
        &values,
        #[inline(always)]
        |row| {
          let mut bytes = Vec::new();
          let Coding { scale, .. } = encode(row, &mut bytes);
          row.iter_mut().zip(&bytes).for_each(|(x, byte)| *x = f32::from(*byte) * scale);
        },
      );
    }
  }

  #[test]
  fn a_tile_is_the_product_in_its_order_on_every_width() {
    let (left, right) = (floats(4 * 37), floats(37 * 24));
    let mut rows = left.chunks_exact(37);
    let left = [(); ROWS].map(|()| rows.next().unwrap());
    let by_hand = left.map(|row| {
      std::array::from_fn::<f32, LANES, _>(|column| {
        let products = row.iter().zip(right.chunks(24)).map(|(x, row)| x * row[column]);
        products.fold(0.0, |sum, product| sum + product)
      })
    });
    assert_eq!(tile(left, &right, 24), by_hand);
    let generic = Tile { left, right: &right, stride: 24 }.eval(GenericIsa::new());
    assert_eq!(generic, by_hand);
  }

  #[test]
  fn the_error_function_and_the_exponential_are_those_of_the_books() {
    // Abramowitz and Stegun, table 7.1.
    for (x, expected) in [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3)] {
      assert!((erf(x) - expected).abs() < 5e-7, "erf({x}) = {}", erf(x));
      assert!((erf(-x) + expected).abs() < 5e-7);
    }
    assert!((erf(9.0) - 1.0).abs() < 5e-7);
    for n in 0..8_000 {
      let x = -f64::from(n) / 100.0;
      let off = f64::from(exp(x as f32)) / x.exp() - 1.0;
      assert!(off.abs() < 1e-5, "exp({x}) is off by {off}");
    }
    assert!(exp(-1e30) >= 0.0 && exp(-1e30) < 1e-37);
    assert!((gelu(1.0) - 0.841_344_8).abs() < 1e-6 && gelu(-9.0).abs() < 1e-6);
  }

  #[test]
  fn a_normal_row_has_mean_nought_and_variance_one() {
    let mut row = floats(384);
    normalize(&mut row, &[1.0; 384], &[0.0; 384]);
    assert!(sum(&row, |x| x).abs() < 1e-3);
    assert!((sum(&row, |x| x * x) / 384.0 - 1.0).abs() < 1e-4);
    let mut level = [3.0; 32];
    normalize(&mut level, &[1.0; 32], &[0.5; 32]);
    assert_eq!(bits(&level), bits(&[0.5; 32]));
  }

  #[test]
  fn floats_that_are_all_nought_are_written_as_nought() {
    let mut bytes = Vec::new();
    assert_eq!(encode(&[0.0; 20], &mut bytes), Coding { scale: 1.0, zero: 0 });
    assert_eq!(bytes, [0; 20]);
  }

  proptest! {
    #[test]
    fn a_byte_is_the_nearest_to_its_float(values in prop::collection::vec(-900f32..900.0, 1..100)) {
      let mut bytes = Vec::new();
      let Coding { scale, zero } = encode(&values, &mut bytes);
      for (x, byte) in values.iter().zip(&bytes) {
        let back = (f32::from(*byte) - f32::from(zero)) * scale;
        // Half a step, and another half where the place of nought was rounded at the end of the range.
        prop_assert!((back - x).abs() <= scale * 1.001, "{} is {}", x, back);
      }
    }

    #[test]
    fn shares_add_up_to_one(mut row in prop::collection::vec(-50f32..50.0, 1..140)) {
      softmax(&mut row);
      prop_assert!((sum(&row, |x| x) - 1.0).abs() < 1e-5);
      prop_assert!(row.iter().all(|share| (0.0..=1.0).contains(share)));
    }
  }
}
