//! From one version of a file to its rows in the ledger: who brought each line of each block.
//!
//! Invariant: a line never gains trust by being moved. Where it joins another block, the revision that
//! brought it comes along.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::{
  EngineError,
  judge::{BlockJudgement, Origin},
  redact::findings_json,
  view::View,
};
use crate::{
  detect::Verdict,
  memory::{Block, BlockId, Fate, Inherited, Line, line::LineKind},
  provenance::State,
  store::{BlockLine, BlockRow, Revision},
};

impl View {
  /// The rows of the ledger for this version. What is to leave the file must have left it already.
  pub fn rows(
    &self,
    at: i64,
    mut new_id: impl FnMut() -> Result<BlockId, EngineError>,
  ) -> Result<Vec<BlockRow>, EngineError> {
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
      // A part of a block that was split inherits its origin under an id of its own.
      if self.comparison.heirs.contains(&index) {
        row.id = new_id()?;
        row.marker = None;
      }
      let judgement = self.judgements.get(index).and_then(Option::as_ref);
      let origin = judgement.and_then(|one| one.origin.as_ref()).unwrap_or(&self.origin);
      let written = self.is_written(index).then(|| revise(&mut row, origin, at));
      match self.comparison.inherited.get(&index) {
        Some(inherited) => self.bring(&mut row, block, known, inherited, written),
        None => row.lines = lines(block, old, written.unwrap_or(0)),
      }
      row.hash = block.hash;
      row.norm_hash = block.norm_hash;
      row.ordinal = u32::try_from(index).unwrap_or(u32::MAX);
      row.start_line = u32::try_from(block.start_line).unwrap_or(u32::MAX);
      row.end_line = u32::try_from(block.end_line).unwrap_or(u32::MAX);
      if let Some(judgement) = judgement {
        judged(&mut row, judgement, block);
      }
      // What was there before memfw is not wrapped, and neither is a block of which nothing else is left.
      if row.is_baseline() {
        row.marker = None;
      } else if row.marker.is_none() {
        let first = run.take().filter(|_| written.is_some());
        row.marker = Some(first.unwrap_or_else(|| row.id.clone()));
      }
      run = row.marker.clone().filter(|_| written.is_some());
      rows.push(row);
    }
    Ok(rows)
  }

  /// Whether the last writer wrote any line of a block.
  fn is_written(&self, index: usize) -> bool {
    match self.comparison.fates.get(index) {
      Some(Fate::Inserted) | None => true,
      Some(Fate::Edited { fresh, .. }) => !fresh.is_empty(),
      Some(Fate::Unchanged { .. } | Fate::Moved { .. }) => false,
    }
  }

  /// The lines of an edited block. One that comes from another block brings its revision along, and what
  /// was found in that block.
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
    // A blank line belongs to what stands above it, or at the top to what stands below.
    let mut last = numbers.iter().flatten().next().copied().unwrap_or(0);
    let numbered = block.lines.iter().zip(numbers).map(|(line, number)| {
      last = number.unwrap_or(last);
      placed(block, line, last)
    });
    row.lines = numbered.collect();
  }
}

/// Makes sure that a block has this revision of another one; gives its number here.
fn adopt(row: &mut BlockRow, other: &BlockRow, number: u32) -> u32 {
  if other.state == State::Flagged {
    row.state = State::Flagged;
    row.score = row.score.max(other.score);
    row.codes.extend(&other.codes);
    row.codes.sort_unstable();
    row.codes.dedup();
  }
  let Some(revision) = other.revision(number) else { return number };
  let of = |revision: &Revision| (revision.at, revision.trust, revision.attestation);
  let same = |own: &&Revision| {
    of(own) == of(revision)
      && own.source == revision.source
      && own.session == revision.session
      && own.trail == revision.trail
  };
  if let Some(own) = row.revisions.iter().find(same) {
    return own.number;
  }
  let number = next_number(row);
  row.revisions.push(Revision { number, ..revision.clone() });
  number
}

/// Adds a revision for fresh lines; gives its number.
fn revise(row: &mut BlockRow, origin: &Origin, at: i64) -> u32 {
  let number = next_number(row);
  row.revisions.push(Revision {
    number,
    source: origin.source.clone(),
    trust: origin.trust,
    attestation: origin.attestation,
    session: origin.session.clone(),
    at,
    trail: origin.trail.clone(),
  });
  number
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
    findings_json: String::new(),
    revisions: vec![],
  }
}

/// The lines of a block that is new, or the same as before line for line.
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

/// Notes a judgement on a block that stays.
pub(super) fn judged(row: &mut BlockRow, judgement: &BlockJudgement, block: &Block) {
  let decision = &judgement.decision;
  if decision.verdict == Verdict::Pass {
    // What was found in other lines of it stays found.
    if judgement.approved && row.state != State::Flagged {
      row.state = State::Approved;
    } else if row.state == State::Unvalidated {
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
  row.findings_json = findings_json(&judgement.findings, start, end.saturating_sub(start));
}
