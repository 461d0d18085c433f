//! The encoder: a small transformer that reads what n-grams cannot, run by `rten`.
//!
//! It expects a graph with the inputs `ids` and `mask` and the output `logits`, two numbers a text:
//! injection, memory poison. What they mean is the matter of `fusion`.
//!
//! Each text is run alone. The numbers inside are quantised by the range of all that is run together, so
//! in a batch the score of a text would depend on its neighbours, whom an attacker may choose; batches of
//! eight would save a fifth of the time (docs/detection.md).
//!
//! Invariant: the same text has the same logits whatever else was scored and on how many threads.
#![forbid(unsafe_code)]

use std::{
  num::NonZero,
  sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
  },
  thread,
};

use rten::{ModelOptions, NodeId, RunOptions, ThreadPool, Value, op_registry};

use super::{Damage, Logits, Tokenizer};

/// The pieces of a text that are read, the first and the last included: as many as in training.
pub const MAX_TOKENS: usize = 128;

/// A larger file is none of ours, in bytes without compression.
const MAX_MODEL: usize = 64 << 20;

/// A model with its vocabulary.
pub struct Encoder {
  graph: rten::Model,
  ids: NodeId,
  mask: NodeId,
  logits: NodeId,
  tokenizer: Tokenizer,
  /// One thread: in the background of a daemon more would only be in the way of others.
  pool: Arc<ThreadPool>,
}

impl Encoder {
  /// An encoder from a compressed ONNX file and its vocabulary.
  pub fn load(model: &[u8], vocabulary: &'static [u8]) -> Result<Self, Damage> {
    let tokenizer = Tokenizer::load(vocabulary)?;
    let damage = |why| Damage::new("encoder", why);
    let model = zstd::bulk::decompress(model, MAX_MODEL);
    let mut model = model.map_err(|_error| damage("it cannot be decompressed"))?;
    model.shrink_to_fit();
    // Each operator is code in the binary: these are what the graph is made of.
    let operators = op_registry!(
      Add,
      Cast,
      Concat,
      DequantizeLinear,
      Div,
      DynamicQuantizeLinear,
      Erf,
      Gather,
      LayerNormalization,
      MatMul,
      MatMulInteger,
      Mul,
      ReduceSum,
      Reshape,
      Shape,
      Slice,
      Softmax,
      Sub,
      Transpose,
      Unsqueeze
    );
    // Packed once, and not in each run: 8 MB of memory for 7 ms a text.
    let graph = ModelOptions::with_ops(operators).prepack_weights(true).load(model).ok();
    let graph = graph.ok_or(damage("the run time cannot load it"))?;
    let node = |name| graph.find_node(name).ok_or(damage("it is not of the expected shape"));
    let (ids, mask, logits) = (node("ids")?, node("mask")?, node("logits")?);
    let encoder = Self { graph, ids, mask, logits, tokenizer, pool: one_thread() };
    // A file that gives no two numbers for a text is found out here and not in the middle of the work.
    encoder.of_text("", &encoder.pool)?;
    Ok(encoder)
  }

  /// What it says about each of these texts, on one thread.
  pub fn logits(&self, texts: &[&str]) -> Result<Vec<Logits>, Damage> {
    texts.iter().map(|text| self.of_text(text, &self.pool)).collect()
  }

  /// The same with so many texts at a time, for scans in bulk.
  pub fn logits_abreast(
    &self,
    texts: &[&str],
    threads: NonZero<usize>,
  ) -> Result<Vec<Logits>, Damage> {
    let threads = threads.get().min(texts.len());
    if threads <= 1 {
      return self.logits(texts);
    }
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; texts.len()]);
    let work = || {
      let pool = one_thread();
      loop {
        let index = next.fetch_add(1, Relaxed);
        let Some(text) = texts.get(index) else { return };
        let logits = self.of_text(text, &pool);
        // Nobody panics while holding it: it holds plain numbers.
        let Ok(mut found) = found.lock() else { return };
        if let Some(slot) = found.get_mut(index) {
          *slot = Some(logits);
        }
      }
    };
    thread::scope(|scope| {
      for _ in 0..threads {
        scope.spawn(work);
      }
    });
    let found = found.into_inner().unwrap_or_default();
    let lost = Damage::new("encoder", "a thread that ran it died");
    found.into_iter().map(|one| one.unwrap_or(Err(lost))).collect()
  }

  fn of_text(&self, text: &str, pool: &Arc<ThreadPool>) -> Result<Logits, Damage> {
    self
      .run(self.tokenizer.encode(text, MAX_TOKENS), pool)
      .ok_or(Damage::new("encoder", "it does not run"))
  }

  fn run(&self, ids: Vec<i32>, pool: &Arc<ThreadPool>) -> Option<Logits> {
    let (_, numbers) = self.value(ids, self.logits, pool)?.into_shape_vec::<f32, 2>().ok()?;
    let &[injection, poison] = numbers.as_slice() else { return None };
    (injection.is_finite() && poison.is_finite()).then_some(Logits { injection, poison })
  }

  /// What stands at one node of the graph.
  fn value(&self, ids: Vec<i32>, node: NodeId, pool: &Arc<ThreadPool>) -> Option<Value> {
    let shape = [1, ids.len()];
    let mask = Value::from_shape(shape, vec![1i32; ids.len()]).ok()?;
    let ids = Value::from_shape(shape, ids).ok()?;
    let inputs = vec![(self.ids, ids.into()), (self.mask, mask.into())];
    let options = RunOptions::default().with_thread_pool(Some(Arc::clone(pool)));
    self.graph.run(inputs, &[node], Some(options)).ok()?.into_iter().next()
  }
}

impl std::fmt::Debug for Encoder {
  fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    f.debug_struct("Encoder").finish_non_exhaustive()
  }
}

fn one_thread() -> Arc<ThreadPool> {
  Arc::new(ThreadPool::with_num_threads(1))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::model::digest::EMBEDDED;

  const MODEL: &[u8] = include_bytes!("../../../fixtures/encoder/tiny.onnx");
  const VOCABULARY: &[u8] = include_bytes!("../../../fixtures/tokenizer/vocabulary.txt");

  fn packed(model: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(model, 1).unwrap()
  }
  const REFERENCE: &str = include_str!("../../../fixtures/encoder/tiny.jsonl");
  /// Another run time rounds elsewhere, and one number that is rounded to its neighbour moves the result
  /// by a few thousandths; a wrong operator or weight moves it by tenths.
  const TOLERANCE: f32 = 0.02;

  fn encoder() -> Encoder {
    Encoder::load(&packed(MODEL), VOCABULARY).unwrap()
  }

  fn references() -> Vec<(String, Logits)> {
    let lines = REFERENCE.lines().map(|line| {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let logits: [f32; 2] = serde_json::from_value(one["logits"].clone()).unwrap();
      let logits = Logits { injection: logits[0], poison: logits[1] };
      (one["text"].as_str().unwrap().to_owned(), logits)
    });
    lines.collect()
  }

  #[test]
  fn it_says_what_the_reference_run_time_says() {
    let encoder = encoder();
    let references = references();
    assert!(references.len() > 40);
    for (text, expected) in &references {
      let found = encoder.logits(&[text]).unwrap()[0];
      let off = (found.injection - expected.injection).abs();
      let off = off.max((found.poison - expected.poison).abs());
      assert!(off < TOLERANCE, "{text:?}: {found:?}, expected {expected:?}");
    }
  }

  #[test]
  fn the_shipped_encoder_says_layer_by_layer_what_its_training_said() {
    let reference = include_str!("../../../fixtures/encoder/reference.jsonl");
    let encoder = Encoder::load(EMBEDDED.encoder, EMBEDDED.vocabulary).unwrap();
    let mut all = Vec::new();
    for line in reference.lines() {
      let one: serde_json::Value = serde_json::from_str(line).unwrap();
      let text = one["text"].as_str().unwrap();
      let ids: Vec<i32> = serde_json::from_value(one["ids"].clone()).unwrap();
      assert_eq!(encoder.tokenizer.encode(text, MAX_TOKENS), ids, "{text:?}");
      let off = |node: &str, expected: &serde_json::Value| {
        let node = encoder.graph.find_node(node).unwrap();
        let value = encoder.value(ids.clone(), node, &encoder.pool).unwrap();
        let numbers = if node == encoder.logits {
          value.into_shape_vec::<f32, 2>().unwrap().1
        } else {
          value.into_shape_vec::<f32, 3>().unwrap().1
        };
        let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
        let pairs = numbers.iter().zip(&expected);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
      };
      for (layer, state) in one["hidden"].as_array().unwrap().iter().enumerate() {
        let off = off(&format!("hidden.{layer}"), state);
        assert!(off < 0.05, "layer {layer} of {text:?} is off by {off}");
      }
      all.push(off("logits", &one["logits"]));
    }
    all.sort_by(f32::total_cmp);
    assert!(all.len() > 20, "{} references", all.len());
    // A number that is rounded elsewhere moves a logit, by 0.09 at most in these 58 texts.
    let at = |share: usize| all.get(all.len() * share / 100).copied().unwrap_or(f32::NAN);
    assert!(at(50) < 0.001 && at(90) < 0.1 && at(99) < 0.2, "{all:?}");
  }

  #[test]
  fn neighbours_and_threads_change_nothing() {
    let encoder = encoder();
    let references = references();
    let texts: Vec<&str> = references.iter().map(|(text, _)| text.as_str()).collect();
    let alone: Vec<Logits> =
      texts.iter().flat_map(|text| encoder.logits(&[text]).unwrap()).collect();
    assert_eq!(encoder.logits(&texts).unwrap(), alone);
    let abreast = encoder.logits_abreast(&texts, NonZero::new(3).unwrap()).unwrap();
    assert_eq!(abreast, alone);
    assert!(encoder.logits_abreast(&[], NonZero::new(3).unwrap()).unwrap().is_empty());
  }

  #[test]
  fn a_file_that_is_no_encoder_is_damaged() {
    assert!(Encoder::load(b"", VOCABULARY).is_err());
    assert!(Encoder::load(MODEL, VOCABULARY).is_err(), "it is not compressed");
    let half = MODEL.get(..MODEL.len() / 2).unwrap();
    assert!(Encoder::load(&packed(half), VOCABULARY).is_err());
    assert!(Encoder::load(&packed(MODEL), b"[PAD]\n").is_err());
  }
}
