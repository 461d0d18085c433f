//! Fresh lines to findings to decisions: which layer says what, and what policy makes of it.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::{
  config::Config,
  detect::{self, Action, Code, Decision, Finding, JudgeOptions, PolicyInput, Verdict},
  memory::{Block, Comparison, ContentHash, Document, Fate},
  provenance::{Source, Trust},
};

/// What is asked about one text apart from the text.
#[derive(Clone, Debug)]
pub struct Origin {
  /// Where it came from.
  pub source: Source,
  /// How far that is trusted.
  pub trust: Trust,
  /// Whether it was observed, so that it is a second kind of evidence.
  pub observed: bool,
}

impl Origin {
  /// Nobody saw who wrote it.
  pub fn unknown() -> Self {
    Self { source: Source::unknown(), trust: Trust::Untrusted, observed: false }
  }

  /// It was there before memfw.
  pub fn baseline() -> Self {
    Self { source: Source::baseline(), trust: Trust::Verified, observed: false }
  }
}

/// The judgement on one block of the document; blocks without fresh lines have none.
#[derive(Clone, Debug)]
pub struct BlockJudgement {
  /// What policy says.
  pub decision: Decision,
  /// What was found in the fresh lines, spans in bytes of the file.
  pub findings: Vec<Finding>,
  /// Whether the text was there before memfw and stays as it is, whatever was found.
  pub spared: bool,
}

/// Joins the parts of a block and remembers where each byte came from.
pub struct BlockText {
  bytes: Vec<u8>,
  /// Start in `bytes`, span in the file.
  parts: Vec<(usize, Range<usize>)>,
}

impl BlockText {
  /// The text of `block` in `file`.
  pub fn new(file: &[u8], block: &Block) -> Self {
    let mut bytes = Vec::new();
    let mut parts = Vec::new();
    for part in &block.parts {
      if let Some(text) = file.get(part.clone()) {
        parts.push((bytes.len(), part.clone()));
        bytes.extend_from_slice(text);
      }
    }
    Self { bytes, parts }
  }

  /// The text of the block with this index; empty where there is none.
  pub fn of(file: &[u8], document: &Document, index: usize) -> Vec<u8> {
    document.blocks().get(index).map(|block| Self::new(file, block).bytes).unwrap_or_default()
  }

  /// The joined bytes.
  pub fn bytes(&self) -> &[u8] {
    &self.bytes
  }

  /// A span of the joined bytes as a span of the file (holes in between included).
  pub fn to_file(&self, span: &Range<usize>) -> Range<usize> {
    let at = |offset: usize| {
      self
        .parts
        .iter()
        .rev()
        .find(|(start, _)| *start <= offset)
        .map_or(0, |(start, part)| part.start + (offset - start).min(part.len()))
    };
    let last = span.end.saturating_sub(1).max(span.start);
    at(span.start)..(at(last) + usize::from(span.end > span.start))
  }
}

/// Judges the blocks of a document that have fresh lines, in order; `None` for the others.
///
/// `excused` names the codes that a person has approved for exactly these bytes; `known_poison` tells
/// whether exactly these bytes are in quarantine already.
pub fn judge_fresh(
  file: &[u8],
  document: &Document,
  comparison: &Comparison,
  origin: &Origin,
  config: &Config,
  lookup: &mut dyn FnMut(&ContentHash) -> Precedent,
) -> Vec<Option<BlockJudgement>> {
  document
    .blocks()
    .iter()
    .zip(&comparison.fates)
    .map(|(block, fate)| {
      let fresh: Vec<Range<usize>> = match fate {
        Fate::Unchanged { .. } | Fate::Moved { .. } => return None,
        Fate::Inserted => block.lines.iter().map(|line| line.span.clone()).collect(),
        Fate::Edited { fresh, .. } => fresh
          .iter()
          .filter_map(|&index| block.lines.get(index))
          .map(|line| line.span.clone())
          .collect(),
      };
      if fresh.is_empty() {
        return None;
      }
      Some(judge_block(file, block, &fresh, origin, config, lookup))
    })
    .collect()
}

/// What was decided about the same bytes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precedent {
  /// Nothing.
  None,
  /// A person approved them: these codes are excused (all of them where the list is empty).
  Excused(Vec<Code>),
  /// They are in quarantine, for these codes.
  Quarantined(Vec<Code>),
}

fn judge_block(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  origin: &Origin,
  config: &Config,
  lookup: &mut dyn FnMut(&ContentHash) -> Precedent,
) -> BlockJudgement {
  let text = BlockText::new(file, block);
  let options = JudgeOptions { scope: config.scope, ..JudgeOptions::default() };
  let findings: Vec<Finding> = detect::judge(text.bytes(), &options)
    .into_iter()
    .map(|finding| Finding { span: text.to_file(&finding.span), ..finding })
    .filter(|finding| fresh.iter().any(|line| overlaps(line, &finding.span)))
    .collect();
  // The same question is asked of the block and of each run of fresh lines, for either may be what
  // a person decided about.
  let mut excused = Vec::new();
  let mut all_excused = false;
  for run in runs(fresh) {
    let bytes = file.get(run.clone()).unwrap_or_default();
    match lookup(&ContentHash::of(bytes)) {
      Precedent::None => {}
      Precedent::Excused(codes) => {
        all_excused |= codes.is_empty();
        excused.extend(codes);
      }
      Precedent::Quarantined(codes) => {
        return BlockJudgement {
          decision: Decision {
            verdict: Verdict::Quarantine,
            action: Action::Quarantine,
            score: 1.0,
            codes,
          },
          findings: vec![],
          spared: false,
        };
      }
    }
  }
  if all_excused {
    excused.extend(findings.iter().map(|finding| finding.code));
  }
  let input = PolicyInput {
    trust: origin.trust,
    source_observed: origin.observed,
    sensitivity: config.sensitivity,
    baseline: origin.source.is_baseline(),
    baseline_action: config.baseline_action,
    excused: &excused,
  };
  let decision = detect::policy::decide(&findings, &input);
  let spared = input.baseline && decision.action != Action::Quarantine;
  BlockJudgement { decision, findings, spared }
}

/// Joins line spans that touch into runs.
pub fn runs(lines: &[Range<usize>]) -> Vec<Range<usize>> {
  let mut runs: Vec<Range<usize>> = Vec::new();
  for line in lines {
    match runs.last_mut() {
      Some(run) if run.end == line.start => run.end = line.end,
      _ => runs.push(line.clone()),
    }
  }
  runs
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end.max(b.start + 1) && b.start < a.end
}
