//! Parsing, comparing and planning of real memory files: bytes a second and time a block.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  hint::black_box,
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memfw::{
  memory::{BlockId, Document, Facts, Known, KnownBlock, KnownLine, MarkerMode, compare, plan},
  provenance::Trust,
};

const REAL: &[&[u8]] = &[
  include_bytes!("../fixtures/memory/real/starknet-agentic.md"),
  include_bytes!("../fixtures/memory/real/forgemaster.md"),
  include_bytes!("../fixtures/memory/real/dreamserver.md"),
  include_bytes!("../fixtures/memory/real/openclaw-workspace.md"),
  include_bytes!("../fixtures/memory/real/sophie.md"),
  include_bytes!("../fixtures/memory/real/memory-viewer.md"),
  include_bytes!("../fixtures/memory/real/openclaw-memory-template.md"),
];

fn known_of(document: &Document) -> Vec<KnownBlock> {
  let blocks = document.blocks().iter().enumerate();
  let known = blocks.filter_map(|(at, block)| {
    Some(KnownBlock {
      id: format!("{at:06x}").parse().ok()?,
      hash: block.hash,
      norm_hash: block.norm_hash,
      lines: block
        .lines
        .iter()
        .map(|line| KnownLine {
          hash: line.hash,
          revision: 0,
          trust: Trust::Verified,
          is_owner: false,
        })
        .collect(),
      marker: None,
      former: false,
    })
  });
  known.collect()
}

fn benches(criterion: &mut Criterion) {
  let none = Known::default();
  let text: Vec<u8> = REAL.concat();
  let blocks = Document::parse(&text, &none).blocks().len() as u64;

  let mut group = criterion.benchmark_group("parse");
  group.throughput(Throughput::Bytes(text.len() as u64));
  group.bench_function("bytes", |b| b.iter(|| Document::parse(black_box(&text), &none)));
  group.throughput(Throughput::Elements(blocks));
  group.bench_function("blocks", |b| b.iter(|| Document::parse(black_box(&text), &none)));
  let long = text.repeat(100);
  group.throughput(Throughput::Bytes(long.len() as u64));
  group.sample_size(20);
  group.bench_function("megabytes", |b| b.iter(|| Document::parse(black_box(&long), &none)));
  let items: Vec<String> = (0..100_000).map(|n| format!("- item {n}\n")).collect();
  let items = items.concat();
  group.throughput(Throughput::Elements(100_000));
  group.bench_function("tiny items", |b| {
    b.iter(|| Document::parse(black_box(items.as_bytes()), &none));
  });
  group.finish();

  let mut group = criterion.benchmark_group("compare and plan");
  let before = known_of(&Document::parse(&text, &none));
  let appended = [&text[..], b"\n- one more thing to remember\n"].concat();
  let document = Document::parse(&appended, &none);
  let (tags, gone) = (HashMap::new(), HashSet::new());
  let facts =
    Facts { known: &before, tags: &tags, gone: &gone, mode: MarkerMode::Wrap, compact: true };
  group.throughput(Throughput::Elements(blocks));
  let Ok(unused) = "ffffff".parse::<BlockId>() else { return };
  group.bench_function("one block appended", |b| {
    b.iter(|| {
      let comparison = compare(black_box(&document), &before);
      plan(&appended, &document, &comparison, &facts, &[], &mut || unused.clone())
    });
  });
  group.finish();
}

criterion_group!(parse, benches);
criterion_main!(parse);
