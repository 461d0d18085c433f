//! Layer 2: heads a block, encoder a text of so many pieces, and what loading costs.
//!
//! Targets on one core: heads 40 us a block, encoder 2 ms at 32 pieces and 6 ms at 128.
//! `cargo bench --bench model`; `training/bench_encoder.py` measures onnxruntime with the same file, for
//! the ratio.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use memfw::detect::model::{
  Assessor as _, Damage, Depth, Encoder, Model, Tokenizer, digest::EMBEDDED, encoder,
};

const BLOCK: &str = "Ann likes the window seat on night trains and does not want to be woken before the last stop, ever.";

/// A text of exactly so many pieces, the first and the last one included.
fn of_pieces(tokenizer: &Tokenizer, n: usize) -> String {
  let mut text = String::new();
  for word in BLOCK.split(' ').cycle() {
    let longer = format!("{text}{word} ");
    if tokenizer.encode(&longer, encoder::MAX_TOKENS + 1).len() > n {
      break;
    }
    text = longer;
  }
  text
}

fn embedded() -> Result<Encoder, Damage> {
  Encoder::load(EMBEDDED.encoder, EMBEDDED.authority, EMBEDDED.vocabulary)
}

fn heads(criterion: &mut Criterion) {
  let model = Model::embedded();
  criterion.bench_function("heads, a block of 100 bytes", |bencher| {
    bencher.iter(|| model.assess(black_box(BLOCK), Depth::Heads));
  });
  let note = BLOCK.repeat(20);
  criterion.bench_function("heads, a block of 2,000 bytes", |bencher| {
    bencher.iter(|| model.assess(black_box(&note), Depth::Heads));
  });
}

fn close(criterion: &mut Criterion) {
  let encoder = embedded().expect("it is embedded");
  let tokenizer = Tokenizer::load(EMBEDDED.vocabulary).expect("it is embedded");
  for n in [16, 32, 64, 128] {
    let text = of_pieces(&tokenizer, n);
    let said = tokenizer.encode(&text, encoder::MAX_TOKENS).len();
    criterion.bench_function(&format!("encoder, {said} pieces"), |bencher| {
      bencher.iter(|| encoder.logits(black_box(&[text.as_str()])));
    });
  }
  // What is known, in twelve pieces, and an entry that makes 48 of it.
  let context = "web page. asked: when does it open";
  let entry = of_pieces(&tokenizer, 48 - tokenizer.encode(context, encoder::MAX_CONTEXT).len() + 1);
  let said =
    tokenizer.encode_pair(context, encoder::MAX_CONTEXT, &entry, encoder::MAX_TOKENS).len();
  criterion.bench_function(&format!("authority, {said} pieces"), |bencher| {
    bencher.iter(|| encoder.authority(black_box(context), black_box(&[entry.as_str()])));
  });
  let model = Model::embedded();
  criterion.bench_function("all of it, a block of 100 bytes", |bencher| {
    bencher.iter(|| model.assess(black_box(BLOCK), Depth::Encoder));
  });
  let text = BLOCK.repeat(40);
  criterion.bench_function("tokenizer, 4,000 bytes", |bencher| {
    bencher.iter(|| tokenizer.encode(black_box(&text), usize::MAX));
  });
}

fn load(criterion: &mut Criterion) {
  criterion.bench_function("load and check heads and fusion", |bencher| {
    bencher.iter(|| Model::of(EMBEDDED).version().len());
  });
  criterion.bench_function("load the encoder", |bencher| {
    bencher.iter(|| embedded().is_ok());
  });
}

criterion_group!(benches, heads, close, load);
criterion_main!(benches);
