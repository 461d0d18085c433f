//! Tests of the memory core as a whole, and what they share.
#![forbid(unsafe_code)]

mod appends;
mod blocks;
mod comments;
mod fixtures;
mod grown;
mod hostile;
mod matching;
mod properties;
mod reshaping;

use std::collections::{HashMap, HashSet};

use super::*;
use crate::provenance::{Source, Trust};

/// The id with this number.
fn id(number: usize) -> BlockId {
  format!("{number:06x}").parse().unwrap()
}

/// The ledger's view of a document: block `n` has the id `first + n`.
fn ledger(document: &Document, first: usize) -> Vec<KnownBlock> {
  let block = |(at, block): (usize, &Block)| KnownBlock {
    id: id(first + at),
    hash: block.hash,
    norm_hash: block.norm_hash,
    lines: block
      .lines
      .iter()
      .map(|line| KnownLine {
        hash: line.hash,
        revision: 0,
        trust: Trust::Untrusted,
        is_owner: false,
      })
      .collect(),
    marker: block.marker.clone(),
    former: false,
  };
  document.blocks().iter().enumerate().map(block).collect()
}

fn parse(text: impl AsRef<[u8]>) -> Document {
  Document::parse(text.as_ref(), &Known::default())
}

fn known(markers: &[usize], placeholders: &[usize]) -> Known {
  Known {
    markers: markers.iter().copied().map(id).collect(),
    placeholders: placeholders.iter().copied().map(id).collect(),
    ..Known::default()
  }
}

fn marker(number: usize) -> Marker {
  Marker::new(id(number), Source::new("moltbook:user123"), Trust::Untrusted, "2026-11-21T14:32:00Z")
}

/// The spans joined; panics when they leave a gap.
fn tiled(document: &Document, bytes: &[u8]) -> Vec<u8> {
  let mut at = 0;
  let mut out = Vec::new();
  for segment in document.segments() {
    assert_eq!(segment.span.start, at, "a gap or an overlap before {segment:?}");
    assert!(!segment.span.is_empty(), "{segment:?}");
    at = segment.span.end;
    out.extend_from_slice(&bytes[segment.span.clone()]);
  }
  assert_eq!(at, bytes.len());
  out
}

/// The text of each block.
fn texts(document: &Document, bytes: &[u8]) -> Vec<String> {
  let text = |block: &Block| {
    let parts: Vec<u8> =
      block.parts.iter().flat_map(|part| bytes[part.clone()].iter().copied()).collect();
    std::str::from_utf8(&parts).unwrap_or("(not UTF-8)").to_owned()
  };
  document.blocks().iter().map(text).collect()
}

/// Gives every block one verdict.
fn judge_all(document: &Document, length: usize, action: Action) -> Vec<Judged> {
  let judged = Judged { action, spans: std::iter::once(0..length).collect(), lines: None };
  vec![judged; document.blocks().len()]
}

/// Plans with no markers and ids from `first` on.
fn redactions(
  bytes: &[u8],
  document: &Document,
  before: &[KnownBlock],
  judged: &[Judged],
  first: usize,
) -> Plan {
  let comparison = compare(document, before);
  let (tags, gone) = (HashMap::new(), HashSet::new());
  let facts =
    Facts { known: before, tags: &tags, gone: &gone, mode: MarkerMode::None, compact: false };
  let mut next = first;
  plan(bytes, document, &comparison, &facts, judged, &mut || {
    next += 1;
    id(next - 1)
  })
}

/// Overwrites, checking that only the spans change and only at equal length.
fn apply(bytes: &[u8], plan: &Plan) -> Vec<u8> {
  let mut out = bytes.to_vec();
  let mut done = 0;
  for redaction in &plan.redactions {
    assert!(redaction.span.start >= done, "in order and disjoint");
    done = redaction.span.end;
    assert_eq!(bytes[redaction.span.clone()], redaction.original);
    assert_eq!(redaction.original.len(), redaction.replacement.len());
    out[redaction.span.clone()].copy_from_slice(&redaction.replacement);
  }
  out
}

/// Knowing what a plan put in.
fn knowing(known: &Known, plan: &Plan) -> Known {
  let mut known = known.clone();
  for redaction in &plan.redactions {
    known.placeholders.insert(redaction.id.clone());
    known.redacted.insert(redaction.id.clone(), redaction.replacement.clone());
  }
  known
}
