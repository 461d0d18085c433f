//! Judges known lines whose arrangement has changed: a line between them was removed, their order changed,
//! or a blank line is gone. No line is fresh, but their combined meaning was not judged yet.
//!
//! Text that a person approved, or was notified about, stays as long as the arrangement of its lines does
//! not change.
#![forbid(unsafe_code)]

use std::{collections::HashSet, ops::Range};

use super::{
  decide::{self, LayerResults},
  judge_context::JudgeContext,
  judgement::BlockJudgement,
  layer1::effects_of,
  origin::Origin,
  text::BareText,
  unit::Brought,
};
use crate::{
  detect::{Finding, Severity, Verdict},
  memory::{
    Block, Comparison, Fate, LineHash,
    line::{LineKind, line_hash},
  },
  provenance::{State, Trust},
  store::BlockRow,
};

/// The origin of each line of a block of the document; `None` for blank lines.
pub(super) fn brought(
  block: &Block,
  index: usize,
  comparison: &Comparison,
  cx: &JudgeContext<'_>,
) -> Vec<Option<Brought>> {
  let judged = Brought::judged(cx.origin);
  let fate = comparison.fates.get(index);
  let inherited = comparison.inherited.get(&index);
  let row = fate.and_then(Fate::known).and_then(|known| Some((known, cx.known.get(known)?)));
  let of = |at: usize| match (inherited, row) {
    (Some(lines), _) => {
      let from = lines.get(at).copied().flatten()?;
      Brought::by(cx.known.get(from.known)?, from.known, from.revision)
    }
    (None, Some((known, row))) => Brought::by(row, known, row.lines.get(at)?.revision),
    (None, None) => None,
  };
  let lines = block.lines.iter().enumerate();
  lines.map(|(at, line)| (line.kind != LineKind::Blank).then(|| of(at).unwrap_or(judged))).collect()
}

/// The judgement on the combined meaning of known lines of a block, if there are findings, or if the
/// encoder must read them. `findings` are those of the whole block, with spans in bytes of the file.
/// `alone` says that the block has no fresh lines, so that no other judgement asks the model about it.
pub(super) fn judge(
  file: &[u8],
  block: &Block,
  findings: &[Finding],
  brought: &[Option<Brought>],
  alone: bool,
  cx: &mut JudgeContext<'_>,
) -> Option<BlockJudgement> {
  let is_news = |finding: &&Finding| {
    finding.severity > Severity::Info && is_news(block, brought, &finding.span, cx.known)
  };
  let news: Vec<Finding> = findings.iter().filter(is_news).cloned().collect();
  let mut lines: Vec<usize> = (0..block.lines.len())
    .filter(|&index| news.iter().any(|finding| is_in(block, index, &finding.span)))
    .collect();
  let is_unsaid = lines.is_empty();
  if is_unsaid && alone {
    lines = rearranged(block, brought, cx.known);
  }
  let origin = least_trusted(&lines, brought, cx.known)?;
  if is_unsaid && (origin.trust > Trust::Untrusted || origin.party().has_all_powers()) {
    return None;
  }
  let spans: Vec<Range<usize>> = lines
    .iter()
    .filter_map(|&index| block.lines.get(index))
    .map(|line| line.span.clone())
    .collect();
  let mut cx = cx.beside(&origin, &[]);
  let whole = cx.text(file, &block.parts);
  let said = BareText::of(&whole);
  let reading = said.read();
  let assessment = decide::assessment(file, (&spans, &reading), &news, &mut cx);
  let effects = effects_of(&reading, &spans, &cx);
  let seen = LayerResults { findings: news, effects, assessment };
  let judgement = decide::judge_found(file, block, &spans, brought, seen, &mut cx);
  let is_told = lines.iter().all(|&index| {
    let by = brought.get(index).copied().flatten().and_then(|by| by.known);
    by.and_then(|known| cx.known.get(known)).is_some_and(|row| row.state == State::Flagged)
  });
  // A person knows of flagged text already.
  let says = judgement.decision.verdict != Verdict::Pass
    && (judgement.decision.leaves() || !is_told || is_unsaid);
  (says || is_unsaid && judgement.wants_encoder(origin.trust)).then_some(judgement)
}

/// The known lines of a block with partly new neighbours, because a comment became text, for example. In
/// another arrangement, the rules and the model may find nothing.
fn rearranged(block: &Block, brought: &[Option<Brought>], known: &[BlockRow]) -> Vec<usize> {
  let span = |index: usize| block.lines.get(index).map(|line| line.span.clone());
  let is_moved =
    |index: &usize| span(*index).is_some_and(|span| is_news(block, brought, &span, known));
  let is_open = |index: &usize| {
    let by = brought.get(*index).copied().flatten();
    by.and_then(|by| Some((known.get(by.known?)?, by.revision)))
      .is_some_and(|(row, revision)| !row.is_approved(revision))
  };
  if !(0..block.lines.len()).any(|index| is_moved(&index)) {
    return vec![];
  }
  (0..block.lines.len()).filter(is_open).collect()
}

/// The least trusted origin of these lines.
fn least_trusted(
  lines: &[usize],
  brought: &[Option<Brought>],
  known: &[BlockRow],
) -> Option<Origin> {
  let of = |index: &usize| {
    let by = brought.get(*index).copied().flatten()?;
    Some(Origin::of_revision(known.get(by.known?)?.revision(by.revision)?))
  };
  lines.iter().filter_map(of).min_by_key(|origin| (origin.trust, !origin.observed))
}

/// Whether the text at `span` was not judged yet in this arrangement of its lines and their neighbours.
fn is_news(
  block: &Block,
  brought: &[Option<Brought>],
  span: &Range<usize>,
  known: &[BlockRow],
) -> bool {
  let mut touched = (0..block.lines.len()).filter(|&index| is_in(block, index, span));
  let Some(first) = touched.next() else { return false };
  let last = touched.next_back().unwrap_or(first);
  let by = || (first..=last).filter_map(|index| brought.get(index).copied().flatten());
  let of: HashSet<Option<usize>> = by().map(|by| by.known).collect();
  let mut of = of.into_iter();
  // Lines of several known blocks were never in one block before.
  let (Some(only), None) = (of.next(), of.next()) else { return true };
  // Fresh lines have their own judgement.
  let Some(row) = only.and_then(|only| known.get(only)) else { return false };
  let was_so = |beside| was_arranged_so(block, first, last, row, beside);
  if !was_so(Beside::Nothing) {
    return true;
  }
  // The words are those of the former decision. Text that a person was notified about is judged again if
  // the text above it changed, because that may have been the heading of a report.
  if by().all(|by| row.is_approved(by.revision)) {
    return false;
  }
  !was_so(if row.state == State::Flagged { Beside::TextAbove } else { Beside::Lines })
}

/// Which neighbours of a run of lines must be unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
  /// None.
  Nothing,
  /// The next line above that is not blank: a list is often two lines below its heading.
  TextAbove,
  /// That line, and both direct neighbours.
  Lines,
}

/// Whether a known block had these lines in this arrangement, with these required neighbours (`beside`).
fn was_arranged_so(
  block: &Block,
  first: usize,
  last: usize,
  row: &BlockRow,
  beside: Beside,
) -> bool {
  let now: Vec<LineHash> = block.lines.iter().map(|line| line.hash).collect();
  let old: Vec<LineHash> = row.lines.iter().map(|line| line.hash).collect();
  let part = now.get(first..=last).unwrap_or_default();
  let here = neighbours(&now, first, last, beside);
  old.windows(part.len().max(1)).enumerate().any(|(at, one)| {
    one == part && neighbours(&old, at, at + one.len().saturating_sub(1), beside) == here
  })
}

/// The hashes of the required neighbours of a run of lines; `None` at the ends of the block.
fn neighbours(
  lines: &[LineHash],
  first: usize,
  last: usize,
  beside: Beside,
) -> [Option<LineHash>; 3] {
  let blank = line_hash(b"");
  let before = lines.get(..first).unwrap_or_default();
  let text_above = before.iter().rev().find(|line| **line != blank).copied();
  match beside {
    Beside::Nothing => [None; 3],
    Beside::TextAbove => [text_above, None, None],
    Beside::Lines => [text_above, before.last().copied(), lines.get(last + 1).copied()],
  }
}

fn is_in(block: &Block, index: usize, span: &Range<usize>) -> bool {
  block.lines.get(index).is_some_and(|line| {
    line.kind != LineKind::Blank
      && span.start < line.span.end
      && line.span.start < span.end.max(span.start + 1)
  })
}
