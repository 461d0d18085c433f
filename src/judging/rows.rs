//! Converts a version of a file to its rows in the ledger, with the revision that brought each line of
//! each block.
//!
//! Invariant: a line never gains trust by being moved. If it joins another block, its revision is
//! copied to that block.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
};

use super::{judgement::BlockJudgement, origin::Origin, spans::overlaps, view::View};
use crate::{
  detect::{Code, KeptFindings, Verdict},
  memory::{Block, BlockId, Fate, Inherited, Line, LineHash, line::LineKind},
  provenance::{Attestation, Source, State, Trust},
  store::{BlockLine, BlockRow, Revision},
};

impl View {
  /// The rows of the ledger for this version. The redactions must have been written already.
  pub fn rows<E>(
    &self,
    at: i64,
    mut new_id: impl FnMut() -> Result<BlockId, E>,
  ) -> Result<Vec<BlockRow>, E> {
    let mut rows: Vec<BlockRow> = Vec::with_capacity(self.document.blocks().len());
    // The marker of a run of fresh blocks is the id of its first block.
    let mut run: Option<BlockId> = None;
    for (index, block) in self.document.blocks().iter().enumerate() {
      let known = self.comparison.fates.get(index).and_then(Fate::known);
      let old = known.and_then(|known| self.facts.rows.get(known));
      let mut row = match old {
        Some(old) => old.clone(),
        None => blank_row(block, new_id()?),
      };
      // A part of a block that was split inherits the origin, with an id of its own.
      if self.comparison.heirs.contains(&index) {
        row.id = new_id()?;
        row.marker = None;
      }
      if let (Some(known), Some(old)) = (known, old)
        && !self.says_what(index, block, known, old)
      {
        row.clear(State::Validated);
      }
      let judgement = self.judgements.get(index).and_then(Option::as_ref);
      let origin = judgement.and_then(|one| one.origin.as_ref()).unwrap_or(&self.origin);
      let approved = judgement.is_some_and(|one| one.approved);
      let written = self.is_written(index).then(|| revise(&mut row, origin, approved, at));
      match self.comparison.inherited.get(&index) {
        Some(inherited) => self.bring(&mut row, block, known, inherited, written),
        None => row.lines = lines(block, old, written.unwrap_or(0)),
      }
      if let (Some(written), Some(judgement)) = (written, judgement) {
        excuse(&mut row, block, written, &judgement.excused);
      }
      row.hash = block.hash;
      row.norm_hash = block.norm_hash;
      row.ordinal = u32::try_from(index).unwrap_or(u32::MAX);
      row.start_line = u32::try_from(block.start_line).unwrap_or(u32::MAX);
      row.end_line = u32::try_from(block.end_line).unwrap_or(u32::MAX);
      if let Some(judgement) = judgement {
        judged(&mut row, judgement, block);
      }
      let open = |row: &BlockRow| row.live().filter(|one| !one.approved).count();
      let is_rid = old.is_some_and(|old| open(&row) < open(old));
      approve(&mut row, block, is_rid);
      // Text from before memfw gets no marker, and neither does a block that contains no other text.
      if row.is_baseline() {
        row.marker = None;
      } else if row.marker.is_none() {
        let first = run.take().filter(|_| written.is_some());
        row.marker = Some(first.unwrap_or_else(|| row.id.clone()));
      }
      run = row.marker.clone().filter(|_| written.is_some());
      rows.push(row);
    }
    divide(&mut rows);
    Ok(rows)
  }

  /// Whether a block still contains text of the known block to which the decision applies. A heading
  /// alone does not count, because it goes with the text below it, unless the block was only a heading or
  /// the decision is about the heading.
  fn says_what(&self, index: usize, block: &Block, known: usize, old: &BlockRow) -> bool {
    let Some(inherited) = self.comparison.inherited.get(&index) else { return true };
    let lines = block.lines.iter().zip(inherited).enumerate();
    let is_own = |from: &Option<Inherited>| from.is_some_and(|from| from.known == known);
    let mut kept = lines.filter(|(_, (line, from))| line.kind == LineKind::Text && is_own(from));
    if kept.clone().any(|(at, _)| at >= block.body)
      || kept.next().is_some() && flags_heading(old, block)
    {
      return true;
    }
    let now: HashSet<LineHash> = block.lines.iter().map(|line| line.hash).collect();
    old.lines.iter().all(|old| now.contains(&old.hash))
  }

  /// Whether the last writer wrote a line of a block.
  fn is_written(&self, index: usize) -> bool {
    match self.comparison.fates.get(index) {
      Some(Fate::Inserted) | None => true,
      Some(Fate::Edited { fresh, .. }) => !fresh.is_empty(),
      Some(Fate::Unchanged { .. } | Fate::Moved { .. }) => false,
    }
  }

  /// Sets the lines of an edited block. A line from another block brings its revision along, and the
  /// findings of that block.
  fn bring(
    &self,
    row: &mut BlockRow,
    block: &Block,
    own: Option<usize>,
    inherited: &[Option<Inherited>],
    written: Option<u32>,
  ) {
    let mut brought: HashMap<(usize, u32), u32> = HashMap::new();
    let mut numbers: Vec<Option<u32>> = Vec::with_capacity(block.lines.len());
    for (line, from) in block.lines.iter().zip(inherited) {
      numbers.push(match *from {
        Some(Inherited { known, revision }) if Some(known) == own => Some(revision),
        Some(Inherited { known, revision }) => {
          let number = brought.entry((known, revision));
          Some(*number.or_insert_with(|| match self.facts.rows.get(known) {
            Some(other) => adopt(row, other, revision),
            None => revision,
          }))
        }
        None => written.filter(|_| line.kind != LineKind::Blank),
      });
    }
    // Findings move along with the text of a block, and with its headings only if they are in these.
    for (at, from) in inherited.iter().enumerate() {
      let Some(from) = from.filter(|from| Some(from.known) != own) else { continue };
      let moves = |row: &&BlockRow| {
        row.state == State::Flagged && (at >= block.body || flags_heading(row, block))
      };
      if let Some(other) = self.facts.rows.get(from.known).filter(moves) {
        row.state = State::Flagged;
        row.score = row.score.max(other.score);
        row.codes.extend(&other.codes);
        row.codes.sort_unstable();
        row.codes.dedup();
      }
    }
    // A blank line belongs to the text above it, or at the top to the text below.
    let mut last = numbers.iter().flatten().next().copied().unwrap_or(0);
    let numbered = block.lines.iter().zip(numbers).map(|(line, number)| {
      last = number.unwrap_or(last);
      placed(block, line, last)
    });
    row.lines = numbered.collect();
  }
}

/// Gives consecutive blocks under one marker separate markers if they differ in source, trust, state or
/// findings, so that no block is marked with the source of its neighbour. Because an id opens only once in
/// a file, blocks that another block has come between also get a marker of their own.
pub fn divide(rows: &mut [BlockRow]) {
  let mut runs: Vec<(BlockId, Range<usize>)> = Vec::new();
  let mut before: Option<(BlockId, Vec<MarkerFacts>)> = None;
  for (index, row) in rows.iter().enumerate() {
    let Some(old) = row.marker.clone() else {
      before = None;
      continue;
    };
    let now = (old.clone(), said(row));
    match runs.last_mut() {
      Some((_, run)) if before.as_ref() == Some(&now) => run.end = index + 1,
      _ => runs.push((old, index..index + 1)),
    }
    before = Some(now);
  }
  let ids = |rows: &[BlockRow], run: &Range<usize>| -> Vec<BlockId> {
    rows.get(run.clone()).unwrap_or_default().iter().map(|row| row.id.clone()).collect()
  };
  // The run with the block that a marker is named after keeps the marker, or else the first run.
  let mut keepers: HashMap<BlockId, usize> = HashMap::new();
  for (index, (old, run)) in runs.iter().enumerate() {
    let is_named = ids(rows, run).contains(old);
    let keeper = keepers.entry(old.clone()).or_insert(index);
    *keeper = if is_named { index } else { *keeper };
  }
  for (index, (old, run)) in runs.into_iter().enumerate() {
    if keepers.get(&old) == Some(&index) {
      continue;
    }
    let own = ids(rows, &run).into_iter().find(|id| !keepers.contains_key(id));
    let Some(own) = own else { continue };
    keepers.insert(own.clone(), index);
    for row in rows.get_mut(run).into_iter().flatten() {
      row.marker = Some(own.clone());
    }
  }
}

/// What a marker says about a revision.
type MarkerFacts = (Source, Trust, Attestation, Option<String>, Vec<Code>);

/// What a marker around only this block would say.
fn said(row: &BlockRow) -> Vec<MarkerFacts> {
  let flags = if row.state == State::Flagged { row.codes.clone() } else { vec![] };
  let mut said: Vec<MarkerFacts> = Vec::new();
  // Text from before memfw is not named.
  for one in row.live().filter(|one| !one.source.is_baseline()) {
    let (source, session) = (one.source.clone(), one.session.clone());
    let one = (source, one.trust, one.attestation, session, flags.clone());
    if !said.contains(&one) {
      said.push(one);
    }
  }
  said
}

/// Whether a flag of a known block may be about the headings that it shares with `block`. Text that was left in
/// place is judged again as soon as it can be taken out, so any of it counts.
fn flags_heading(row: &BlockRow, block: &Block) -> bool {
  let start = block.parts.first().map_or(0, |part| part.start);
  let head = block.body.checked_sub(1).and_then(|last| block.lines.get(last));
  let len = head.map_or(0, |line| line.span.end.saturating_sub(start));
  row.state == State::Flagged
    && (row.codes.contains(&Code::LeftInPlace)
      || row.findings.read().iter().any(|finding| finding.span.start < len))
}

/// Copies a revision of another block to a block, unless it has it already; returns its number.
fn adopt(row: &mut BlockRow, other: &BlockRow, number: u32) -> u32 {
  let Some(revision) = other.revision(number) else { return number };
  let of = |revision: &Revision| (revision.at, revision.trust, revision.attestation);
  let same = |own: &&Revision| {
    of(own) == of(revision)
      && own.source == revision.source
      && own.session == revision.session
      && own.approved == revision.approved
      && own.trail == revision.trail
  };
  if let Some(own) = row.revisions.iter().find(same) {
    return own.number;
  }
  let number = next_number(row);
  row.revisions.push(Revision { number, ..revision.clone() });
  number
}

/// Adds a revision for fresh lines; returns its number.
fn revise(row: &mut BlockRow, origin: &Origin, approved: bool, at: i64) -> u32 {
  let number = next_number(row);
  row.revisions.push(Revision {
    number,
    source: origin.source.clone(),
    trust: origin.trust,
    attestation: origin.attestation,
    session: origin.session.clone(),
    at,
    trail: origin.trail.clone(),
    approved,
  });
  number
}

/// Gives the approved ones among the lines that the last writer wrote a revision of their own.
fn excuse(row: &mut BlockRow, block: &Block, written: u32, spans: &[Range<usize>]) {
  let number = next_number(row);
  let is_in = |line: &Line| spans.iter().any(|span| overlaps(&line.span, span));
  let lines = block.lines.iter().zip(&mut row.lines);
  for (_, known) in lines.filter(|(line, known)| known.revision == written && is_in(line)) {
    known.revision = number;
  }
  if let Some(revision) = row.revision(written).filter(|_| !spans.is_empty()).cloned() {
    row.revisions.push(Revision { number, approved: true, ..revision });
  }
}

fn next_number(row: &BlockRow) -> u32 {
  row.revisions.last().map_or(0, |revision| revision.number.saturating_add(1))
}

fn blank_row(block: &Block, id: BlockId) -> BlockRow {
  BlockRow {
    id,
    hash: block.hash,
    norm_hash: block.norm_hash,
    lines: vec![],
    marker: None,
    ordinal: 0,
    start_line: 0,
    end_line: 0,
    state: State::Validated,
    codes: vec![],
    score: 0.0,
    findings: KeptFindings::default(),
    revisions: vec![],
  }
}

/// The lines of a block that is new, or has the same lines as before.
fn lines(block: &Block, old: Option<&BlockRow>, written: u32) -> Vec<BlockLine> {
  let mut before = old.map(|old| old.lines.as_slice()).unwrap_or_default().iter();
  block
    .lines
    .iter()
    .map(|line| placed(block, line, before.next().map_or(written, |old| old.revision)))
    .collect()
}

fn placed(block: &Block, line: &Line, revision: u32) -> BlockLine {
  let offset = line.number.saturating_sub(block.start_line);
  BlockLine { hash: line.hash, revision, offset: u32::try_from(offset).unwrap_or(u32::MAX) }
}

/// Sets whether a block is approved: a person must have approved all text below its headings, because
/// the approval of some lines does not cover those beside them. Findings are dropped if the block
/// `is_rid` of their lines.
fn approve(row: &mut BlockRow, block: &Block, is_rid: bool) {
  let said = || block.lines.iter().zip(&row.lines).filter(|(line, _)| line.kind == LineKind::Text);
  let n_above =
    block.lines.iter().take(block.body).filter(|line| line.kind == LineKind::Text).count();
  // A block that consists of headings alone is approved by its headings.
  let skipped = if said().count() > n_above { n_above } else { 0 };
  let mut read = said().skip(skipped).map(|(_, known)| row.is_approved(known.revision)).peekable();
  let is_read = read.peek().is_some() && read.all(|approved| approved);
  match row.state {
    State::Approved if !is_read => row.state = State::Validated,
    State::Flagged if !is_rid => {}
    State::Validated | State::Flagged if is_read => {
      row.clear(State::Approved);
    }
    _ => {}
  }
}

/// Adds the judgement to the row of a block that stays.
pub fn judged(row: &mut BlockRow, judgement: &BlockJudgement, block: &Block) {
  let decision = &judgement.decision;
  if decision.verdict == Verdict::Pass {
    // Findings in other lines of the block remain.
    if row.state == State::Unvalidated {
      row.state = State::Validated;
    }
    return;
  }
  row.state = State::Flagged;
  row.score = row.score.max(decision.score);
  row.codes.extend(&decision.codes);
  row.codes.sort_unstable();
  row.codes.dedup();
  let start = block.parts.first().map_or(0, |part| part.start);
  let end = block.parts.last().map_or(start, |part| part.end);
  row.findings = KeptFindings::within(&judgement.findings, start, end.saturating_sub(start));
}

/// The lines of a block that these revisions brought.
pub fn lines_of<'a>(
  row: &'a BlockRow,
  block: &'a Block,
  revisions: &'a [u32],
) -> impl Iterator<Item = &'a Line> {
  let lines = block.lines.iter().zip(&row.lines);
  lines.filter(|(_, known)| revisions.contains(&known.revision)).map(|(line, _)| line)
}
