//! The numbers of the encoder, from the ONNX file that its training writes.
//!
//! The weights are found by the names that `training/encoder/graph.py` gives them, and the sizes by their
//! shapes; `network` does what the graph says. A file in which anything is missing or of another shape is
//! not loaded.
#![forbid(unsafe_code)]

use std::{cell::RefCell, collections::HashMap};

use rten_gemm::{GemmExecutor, PackedBMatrix};
use rten_onnx::{
  onnx::{DataType, ModelProto, TensorProto},
  protobuf::{DecodeMessage as _, ReadPos, ValueReader},
};
use rten_tensor::NdTensorView;

use super::{numbers::LANES, packed::Packed};

/// Multiplies bytes exactly, with whatever instructions there are.
pub(super) type Multiplier = GemmExecutor<u8, i8, i32>;

/// A product with a matrix of eight-bit weights and a sum with a bias.
pub(super) struct Linear {
  /// `[inputs, outputs]`, laid out for this processor.
  pub(super) weight: PackedBMatrix<i8>,
  /// The value of one unit of a weight of this output.
  pub(super) scales: Vec<f32>,
  pub(super) bias: Vec<f32>,
}

/// Scale and shift of a row after it has mean zero and variance one.
pub(super) struct Norm {
  pub(super) weight: Vec<f32>,
  pub(super) bias: Vec<f32>,
}

/// One layer of the transformer.
pub(super) struct Layer {
  /// Queries, keys and values side by side, because they are computed from the same bytes.
  pub(super) query_key_value: Linear,
  pub(super) attended: Linear,
  pub(super) attended_norm: Norm,
  pub(super) widened: Linear,
  pub(super) narrowed: Linear,
  pub(super) narrowed_norm: Norm,
}

/// All of it.
pub(super) struct Weights {
  /// Numbers of a state.
  pub(super) width: usize,
  /// Those of them that belong to one head.
  pub(super) head: usize,
  /// A row of bytes a token.
  pub(super) tokens: Vec<u8>,
  pub(super) token_scale: f32,
  pub(super) token_zero: u8,
  /// A row a place.
  pub(super) positions: Vec<f32>,
  pub(super) embedded_norm: Norm,
  pub(super) layers: Vec<Layer>,
  /// A row each for injection and poison: for the first token's state, then for the mean of all.
  pub(super) outputs: [Vec<f32>; 2],
  pub(super) bias: [f32; 2],
}

/// The layers that the third output has for itself, above the lowest ones of the encoder.
pub(super) struct Upper {
  /// Layers of the encoder below.
  pub(super) shared: usize,
  pub(super) layers: Vec<Layer>,
  /// For the first token's state, then for the mean of all.
  pub(super) output: Vec<f32>,
  pub(super) bias: f32,
}

impl Upper {
  /// The layers in this file, or nothing where it does not fit an encoder.
  pub(super) fn read(model: Packed<'_>, below: &Weights) -> Option<Self> {
    let file = File::of(model)?;
    let n_layers = below.layers.len();
    let shared = (0..n_layers).find(|n| file.has(&format!("layer.{}.", n + 1)))?;
    let whole = file.head()? == below.head && !file.has(&format!("layer.{}.", n_layers + 1));
    let layers = (shared + 1..=n_layers).map(|n| file.layer(n, below.width));
    let layers = layers.collect::<Option<Vec<Layer>>>()?;
    let output = file.floats("authority.weight")?;
    let [bias] = file.floats("authority.bias")?.try_into().ok()?;
    let fits = whole
      && output.len() == 2 * below.width
      && layers.iter().all(|layer| layer.narrowed_norm.bias.len() == below.width);
    fits.then_some(Self { shared, layers, output, bias })
  }
}

impl Weights {
  /// The weights in this file, or nothing where it is not of the expected shape.
  pub(super) fn read(model: Packed<'_>) -> Option<Self> {
    let file = File::of(model)?;
    let embedded_norm = file.norm("hidden.0")?;
    let width = embedded_norm.bias.len();
    let head = file.head()?;
    let whole = head > 0 && head.is_multiple_of(LANES) && width > 0 && width.is_multiple_of(head);
    if !whole {
      return None;
    }
    let layers = (1..).take_while(|n| file.has(&format!("layer.{n}.")));
    let layers = layers.map(|n| file.layer(n, width)).collect::<Option<Vec<Layer>>>()?;
    // Otherwise the norm after the last layer would be left out with it.
    let beyond = file.has(&format!("hidden.{}.", layers.len() + 1));
    let tokens = file.bytes("tokens_quantized", DataType::UINT8)?;
    let positions = file.floats("positions")?;
    let outputs = file.floats("logits.weight")?;
    let fits = !(layers.is_empty() || beyond)
      && tokens.len().is_multiple_of(width)
      && positions.len().is_multiple_of(width)
      && outputs.len() == 4 * width;
    let (pairs, _) = outputs.as_chunks::<2>();
    let weights = Self {
      width,
      head,
      token_scale: *file.floats("tokens_scale")?.first()?,
      token_zero: u8::try_from(*file.integers("tokens_zero_point", DataType::UINT8)?.first()?)
        .ok()?,
      tokens,
      positions,
      embedded_norm,
      layers,
      outputs: [
        pairs.iter().map(|pair| pair[0]).collect(),
        pairs.iter().map(|pair| pair[1]).collect(),
      ],
      bias: file.floats("logits.bias")?.try_into().ok()?,
    };
    fits.then_some(weights)
  }

  /// Whether there is a row for each piece of a vocabulary, and for each place in a text of so many.
  pub(super) fn cover(&self, pieces: usize, places: usize) -> bool {
    self.tokens.len() / self.width >= pieces && self.positions.len() / self.width >= places
  }
}

struct File {
  tensors: HashMap<String, TensorProto>,
}

impl File {
  fn of(mut model: Packed<'_>) -> Option<Self> {
    let graph = ModelProto::decode(ValueReader::new(ReadPos::new(&mut model))).ok()?.graph?;
    if !model.is_at_end() {
      return None;
    }
    let tensors = graph.initializer.into_iter();
    let named = tensors.filter_map(|tensor| Some((tensor.name.clone()?, tensor)));
    Some(Self { tensors: named.collect() })
  }

  fn has(&self, prefix: &str) -> bool {
    self.tensors.keys().any(|name| name.starts_with(prefix))
  }

  /// The numbers of a head: the last of four that a state is reshaped by.
  fn head(&self) -> Option<usize> {
    let shape = self.bytes("shape.heads", DataType::INT64)?;
    let (words, _) = shape.as_chunks::<8>();
    usize::try_from(i64::from_le_bytes(*words.get(3)?)).ok()
  }

  fn layer(&self, n: usize, width: usize) -> Option<Layer> {
    let name = |part: &str| format!("layer.{n}.{part}");
    let parts = [name("query"), name("key"), name("value")];
    let widened = self.linear(&[name("widened")], width)?;
    let wide = widened.bias.len();
    let layer = Layer {
      query_key_value: self.linear(&parts, width)?,
      attended: self.linear(&[name("attended")], width)?,
      attended_norm: self.norm(&name("attended.norm"))?,
      widened,
      narrowed: self.linear(&[name("narrowed")], wide)?,
      narrowed_norm: self.norm(&format!("hidden.{n}"))?,
    };
    let fits = layer.query_key_value.bias.len() == 3 * width
      && [&layer.attended, &layer.narrowed].iter().all(|linear| linear.bias.len() == width)
      && [&layer.attended_norm, &layer.narrowed_norm].iter().all(|norm| norm.bias.len() == width);
    fits.then_some(layer)
  }

  fn norm(&self, name: &str) -> Option<Norm> {
    let weight = self.floats(&format!("{name}.weight"))?;
    let bias = self.floats(&format!("{name}.bias"))?;
    (weight.len() == bias.len()).then_some(Norm { weight, bias })
  }

  /// One matrix of these, side by side.
  fn linear(&self, names: &[String], inputs: usize) -> Option<Linear> {
    let (mut scales, mut bias, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
      let own = self.floats(&format!("{name}.bias"))?;
      let outputs = own.len();
      let factors = self.floats(&format!("{name}.weight_scale"))?;
      let zeros = self.integers(&format!("{name}.weight_zero_point"), DataType::INT8)?;
      let weight = self.bytes(&format!("{name}.weight_quantized"), DataType::INT8)?;
      let weight: Vec<i8> = weight.into_iter().map(u8::cast_signed).collect();
      // Two products of a byte with a larger weight overflow the sixteen bits that AVX2 adds them in.
      let exact = weight.iter().all(|weight| (-64..=64).contains(weight));
      let fits = outputs > 0
        && [factors.len(), zeros.len()] == [outputs; 2]
        && weight.len() == inputs * outputs;
      if !exact || !fits || zeros.iter().any(|zero| *zero != 0) {
        return None;
      }
      scales.extend(factors);
      bias.extend(own);
      parts.push((weight, outputs));
    }
    let mut weight = Vec::with_capacity(inputs * bias.len());
    let mut rows: Vec<_> =
      parts.iter().map(|(part, outputs)| part.chunks_exact(*outputs)).collect();
    for _ in 0..inputs {
      weight.extend(rows.iter_mut().filter_map(Iterator::next).flatten());
    }
    let view = NdTensorView::from_data([inputs, bias.len()], weight.as_slice());
    Some(Linear { weight: Multiplier::new().prepack_b(view), scales, bias })
  }

  fn floats(&self, name: &str) -> Option<Vec<f32>> {
    let tensor = self.tensors.get(name)?;
    if tensor.data_type? != DataType::FLOAT {
      return None;
    }
    let floats = match &tensor.raw_data {
      Some(raw) => {
        let raw = raw.borrow();
        let (words, rest) = raw.as_chunks::<4>();
        rest.is_empty().then(|| words.iter().map(|word| f32::from_le_bytes(*word)).collect())?
      }
      None => tensor.float_data.clone(),
    };
    floats.iter().all(|x| x.is_finite()).then_some(floats)
  }

  /// Numbers that are few enough to be written out.
  fn integers(&self, name: &str, kind: DataType) -> Option<Vec<i32>> {
    let tensor = self.tensors.get(name)?;
    (tensor.data_type? == kind).then(|| tensor.int32_data.clone())
  }

  /// Taken out, because they are many.
  fn bytes(&self, name: &str, kind: DataType) -> Option<Vec<u8>> {
    let tensor = self.tensors.get(name)?;
    (tensor.data_type? == kind).then(|| tensor.raw_data.as_ref().map(RefCell::take))?
  }
}

#[cfg(test)]
pub(super) mod tests {
  use super::*;

  const TINY: &[u8] = include_bytes!("../../../../fixtures/encoder/tiny.onnx");

  /// The tiny model, in which this was done to each of these tensors.
  fn with(names: &[&str], change: impl Fn(&mut TensorProto)) -> Option<Weights> {
    let mut model = ModelProto::parse_buf(TINY).unwrap();
    let tensors = &mut model.graph.as_mut().unwrap().initializer;
    let wanted = |tensor: &&mut TensorProto| names.contains(&tensor.name.as_deref().unwrap());
    assert_eq!(tensors.iter_mut().filter(wanted).map(change).count(), names.len());
    Weights::read(Packed::new(&packed(&model.write_buf().unwrap())).unwrap())
  }

  fn packed(model: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(model, 1).unwrap()
  }

  /// The tiny model as a file of upper layers: its only layer, and an output made of one of its own.
  pub(in super::super) fn upper() -> Vec<u8> {
    let mut model = ModelProto::parse_buf(TINY).unwrap();
    for tensor in &mut model.graph.as_mut().unwrap().initializer {
      let name = tensor.name.clone().unwrap();
      if let Some(part) = name.strip_prefix("logits.") {
        tensor.name = Some(format!("authority.{part}"));
        let half = raw(tensor).len() / 2;
        raw(tensor).truncate(half);
      }
    }
    model.write_buf().unwrap()
  }

  #[test]
  fn upper_layers_are_those_of_the_same_encoder() {
    let below = with(&[], |_tensor| {}).unwrap();
    let read = |model: &[u8]| Upper::read(Packed::new(&packed(model)).unwrap(), &below);
    let found = read(&upper()).unwrap();
    assert_eq!((found.shared, found.layers.len(), found.output.len()), (0, 1, 64));
    assert!(read(TINY).is_none(), "it has no such output");
  }

  fn raw(tensor: &TensorProto) -> std::cell::RefMut<'_, Vec<u8>> {
    tensor.raw_data.as_ref().unwrap().borrow_mut()
  }

  #[test]
  fn a_file_that_is_cut_off_or_continued_is_refused() {
    let whole = packed(TINY);
    let read = |file: &[u8]| Packed::new(file).and_then(Weights::read).is_some();
    assert!(read(&whole));
    for length in (0..whole.len()).step_by(whole.len() / 40).chain([whole.len() - 1]) {
      assert!(!read(&whole[..length]), "{length}");
    }
    assert!(!read(&[whole.as_slice(), b"more"].concat()));
  }

  #[test]
  fn the_sizes_are_those_of_the_file() {
    let weights = with(&[], |_tensor| {}).unwrap();
    assert_eq!((weights.width, weights.head, weights.layers.len()), (32, 16, 1));
    let layer = weights.layers.first().unwrap();
    assert_eq!((layer.query_key_value.weight.cols(), layer.narrowed.weight.rows()), (96, 48));
  }

  #[test]
  fn nothing_that_is_used_may_be_missing_or_short() {
    let model = ModelProto::parse_buf(TINY).unwrap();
    let names: Vec<String> =
      model.graph.unwrap().initializer.iter().filter_map(|tensor| tensor.name.clone()).collect();
    let used = |name: &&String| {
      ["hidden", "layer", "tokens", "positions", "logits", "shape"]
        .iter()
        .any(|part| name.starts_with(part))
    };
    let used: Vec<&String> = names.iter().filter(used).collect();
    assert!(used.len() > 30, "{used:?}");
    for name in used {
      assert!(with(&[name], |tensor| tensor.name = None).is_none(), "without {name}");
      let short = |tensor: &mut TensorProto| {
        // By one number, so that only the sizes tell.
        let size = if tensor.data_type == Some(DataType::FLOAT) { 4 } else { 1 };
        tensor.int32_data.pop();
        tensor.float_data.pop();
        if tensor.raw_data.is_some() {
          let kept = raw(tensor).len() - size;
          raw(tensor).truncate(kept);
        }
      };
      assert!(with(&[name], short).is_none(), "short {name}");
    }
  }

  #[test]
  fn parts_of_another_width_are_refused() {
    let norm = ["hidden.1.weight", "hidden.1.bias"];
    assert!(with(&norm, |tensor| raw(tensor).truncate(16 * 4)).is_none());
    let all = with(&[], |_tensor| {}).unwrap();
    assert!(all.cover(64, 256) && !all.cover(64, 257) && !all.cover(1 << 20, 1));
  }

  #[test]
  fn weights_that_some_processors_cannot_add_are_refused() {
    let name = "layer.1.widened.weight_quantized";
    assert!(with(&[name], |tensor| raw(tensor)[0] = 64).is_some());
    assert!(with(&[name], |tensor| raw(tensor)[0] = 65).is_none());
    assert!(with(&[name], |tensor| raw(tensor)[0] = (-65_i8).cast_unsigned()).is_none());
    let zeros = "layer.1.widened.weight_zero_point";
    assert!(with(&[zeros], |tensor| tensor.int32_data[0] = 1).is_none());
  }

  #[test]
  fn numbers_that_are_none_are_refused() {
    for name in ["hidden.1.weight", "layer.1.query.bias", "positions"] {
      let spoil =
        |tensor: &mut TensorProto| raw(tensor)[..4].copy_from_slice(&f32::NAN.to_le_bytes());
      assert!(with(&[name], spoil).is_none(), "{name}");
    }
  }
}
