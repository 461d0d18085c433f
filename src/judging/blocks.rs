//! Judges fresh lines: the layers give findings, and policy decides by them.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  claim::{edited, one_foreign},
  decide::{LayerResults, assessment, judge_found},
  judge_context::JudgeContext,
  judgement::BlockJudgement,
  layer1::{effects_of, found},
  slices::Slice,
  spans::{lines_in, touches},
  text::BareText,
  together,
  unit::Brought,
};
use crate::{
  detect::Finding,
  memory::{Block, Comparison, Document, Fate},
};

/// Judges the blocks of a document that have fresh lines, in order; `None` for the others.
pub fn judge_fresh(
  file: &[u8],
  document: &Document,
  comparison: &Comparison,
  cx: &mut JudgeContext<'_>,
) -> Vec<Option<BlockJudgement>> {
  let mut foreign = false;
  let blocks = document.blocks().iter().zip(&comparison.fates).enumerate();
  blocks
    .map(|(index, (block, fate))| {
      // The remaining blocks are judged in the next turn.
      if cx.slice.is_some_and(Slice::is_over) {
        return None;
      }
      let fresh: Vec<Range<usize>> = match fate {
        Fate::Unchanged { .. } | Fate::Moved { .. } => return None,
        Fate::Inserted => block.lines.iter().map(|line| line.span.clone()).collect(),
        Fate::Edited { fresh, .. } => fresh
          .iter()
          .filter_map(|&index| block.lines.get(index))
          .map(|line| line.span.clone())
          .collect(),
      };
      let whole = cx.text(file, &block.parts);
      let said = BareText::of(&whole);
      let reading = said.read();
      let brought = together::brought(block, index, comparison, cx);
      let all = found(&reading, block, &brought, cx);
      let is_fresh = |finding: &Finding| touches(&fresh, &finding.span);
      let (mut findings, others): (Vec<Finding>, Vec<Finding>) =
        all.into_iter().partition(is_fresh);
      let composed = together::judge(file, block, &others, &brought, fresh.is_empty(), cx);
      if fresh.is_empty() {
        return composed;
      }
      let (goes, stays): (Option<_>, Option<_>) =
        if composed.as_ref().is_some_and(|one| one.decision.leaves()) {
          (composed, None)
        } else {
          (None, composed)
        };
      findings.extend(stays.into_iter().flat_map(|one| one.findings));
      let effects = effects_of(&reading, &fresh, cx);
      let assessment = assessment(file, (&fresh, &reading), &findings, cx);
      if cx.origin.source.is_baseline() || cx.origin.is_taken_over {
        one_foreign(&mut findings, &mut foreign);
      }
      if let (Fate::Edited { .. }, Some(marker)) = (fate, &block.marker) {
        findings.push(edited(block, marker));
      }
      let seen = LayerResults { findings, effects, assessment };
      let own = judge_found(file, block, &fresh, &brought, seen, cx);
      Some(match goes {
        Some(composed) => {
          composed.beside(own, || fresh.iter().flat_map(|span| lines_in(block, span)).collect())
        }
        None => own,
      })
    })
    .collect()
}

/// Judges these lines of a block as if they were fresh.
pub(super) fn judge_lines(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  brought: &[Option<Brought>],
  cx: &mut JudgeContext<'_>,
) -> BlockJudgement {
  let whole = cx.text(file, &block.parts);
  let said = BareText::of(&whole);
  let reading = said.read();
  let mut findings = found(&reading, block, brought, cx);
  findings.retain(|finding| touches(fresh, &finding.span));
  let effects = effects_of(&reading, fresh, cx);
  let assessment = assessment(file, (fresh, &reading), &findings, cx);
  let seen = LayerResults { findings, effects, assessment };
  judge_found(file, block, fresh, brought, seen, cx)
}
