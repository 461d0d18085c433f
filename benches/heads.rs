//! The n-gram heads, per block. Target: 40 us for a block of 100 bytes.
//! `cargo bench --bench heads`

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memfw::detect::model::Heads;

const WEIGHTS: &[u8] = include_bytes!("../models/heads.bin");

const BLOCKS: &[(&str, &str)] = &[
  (
    "one sentence",
    "Ann likes the window seat on night trains and does not want to be woken before the last stop, ever.",
  ),
  (
    "three sentences",
    "Ann likes the window seat on night trains. She has a card for it. Do not wake her before the last.",
  ),
  ("Russian", "Мама любит место у окна и не хочет, чтобы её будили до последней."),
  ("Chinese", "她喜欢靠窗的座位，夜里坐火车的时候不希望在终点站之前被人叫醒，从来都是这样的。"),
];

fn blocks(criterion: &mut Criterion) {
  let heads = Heads::load(WEIGHTS).expect("the weights of this repository are whole");
  let mut group = criterion.benchmark_group("heads, one block");
  for (name, text) in BLOCKS {
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function(*name, |bencher| bencher.iter(|| heads.read(black_box(text))));
  }
  group.finish();
}

fn load(criterion: &mut Criterion) {
  criterion.bench_function("load the heads", |bencher| bencher.iter(|| Heads::load(WEIGHTS)));
}

criterion_group!(benches, blocks, load);
criterion_main!(benches);
