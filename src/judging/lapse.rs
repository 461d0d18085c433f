//! Lapsed approvals: approved text whose meaning has changed, because it is under another heading,
//! after other introducing words, or part of another sentence. It is judged as if no person had read
//! it.
#![forbid(unsafe_code)]

use std::{ops::Range, path::Path};

use super::{
  approvals::{Approvals, Version},
  approved, blocks,
  claim::claims,
  judge_context::JudgeContext,
  judgement::BlockJudgement,
  origin::Origin,
  precedent::{allowed_to, context},
  spans, together,
  unit::Brought,
  view::View,
};
use crate::{
  memory::{Around, Comparison, Document, Fate, Redaction, RedactionKind, line::LineKind},
  store::{Ledger, StoreError},
};

/// Adds the judgements on approved text whose approval has lapsed. Fresh text has its own judgements
/// already.
pub(super) fn lapse(
  ledger: &Ledger,
  at: i64,
  version: &Version<'_>,
  comparison: &Comparison,
  judgements: &mut [Option<BlockJudgement>],
  cx: &mut JudgeContext<'_>,
) -> Result<(), StoreError> {
  let &Version { path, bytes, document } = version;
  if !cx.known.iter().any(|row| row.revisions.iter().any(|one| one.approved)) {
    return Ok(());
  }
  let approvals = Approvals::new(ledger, at);
  let fresh = fresh(document, comparison);
  // Text that is taken out now is in no later context.
  let leaving = leaving(document, comparison, judgements);
  let mut absent: Vec<Range<usize>> = claims(bytes).collect();
  absent.extend(leaving.iter().cloned());
  let mut lapsed = Vec::new();
  let mut standing = None;
  for run in approved::runs(document, comparison, cx, &[&fresh[..], &leaving].concat()) {
    let is_known = |text: &[u8]| approvals.was_approved(path, text);
    for part in approved::parts(bytes, document, &run, is_known)? {
      let now = [&[][..], &absent].map(|gone| Around::without(bytes, document, &part.span, gone));
      let is_lapsed = if part.is_known {
        approvals.have_lapsed(path, &part.hashes, &now)?
      } else {
        let standing = match &mut standing {
          Some(standing) => standing,
          none => none.insert(approvals.texts(path)?),
        };
        !approvals.is_within_lines(version, standing, &part.span, &absent)?
      };
      if is_lapsed {
        lapsed.extend(part.by_block());
      }
    }
  }
  for (index, lines, by) in lapsed {
    let Some(block) = document.blocks().get(index) else { continue };
    let spans: Vec<Range<usize>> =
      lines.iter().filter_map(|&at| Some(block.lines.get(at)?.span.clone())).collect();
    let row = cx.known.get(by.0);
    let Some(revision) = row.and_then(|row| row.revision(by.1)) else { continue };
    let origin = Origin::of_revision(revision).with_request(ledger);
    let allowed = allowed_to(ledger, &origin, at)?;
    let mut cx = cx.beside(&origin, &allowed);
    let mut brought = together::brought(block, index, comparison, &cx);
    // No person has read the lines in their current context.
    for &at in &lines {
      if let Some(one) = brought.get_mut(at) {
        *one = Some(Brought::judged(&origin));
      }
    }
    let mut judgement = blocks::judge_lines(bytes, block, &spans, &brought, &mut cx);
    let Some(slot) = judgements.get_mut(index).filter(|_| judgement.decision.leaves()) else {
      continue;
    };
    judgement.lines.get_or_insert(lines);
    judgement.origin.get_or_insert(origin);
    // A block has one judgement, so the one on its fresh lines is joined.
    *slot = Some(match slot.take() {
      Some(other) if other.decision.leaves() => {
        judgement.beside(other, || lines_in(document, index, &fresh))
      }
      _ => judgement,
    });
  }
  Ok(())
}

/// Extends approvals to the context after a redaction, because memfw's own redaction does not change the
/// meaning of approved text nearby: an approval that is valid in `view` is also valid in the `left` rest
/// of it, which has equal length.
pub fn extend_approvals(
  ledger: &mut Ledger,
  at: i64,
  path: &Path,
  view: &View,
  left: &[u8],
  redactions: &[&Redaction],
) -> Result<(), StoreError> {
  if !view.facts.rows.iter().any(|row| row.revisions.iter().any(|one| one.approved)) {
    return Ok(());
  }
  // The next pass knows the new placeholders, so they are part of no context.
  let quarantined = redactions.iter().filter(|one| one.kind == RedactionKind::Quarantine);
  let written = quarantined.map(|one| (&one.id, &one.replacement[..]));
  let document = view.facts.read_redacted(left, written);
  let [before, after] = [&view.bytes[..], left].map(|bytes| claims(bytes).collect::<Vec<_>>());
  for (item, span) in Approvals::new(ledger, at).places_in(path, left)? {
    let around = |gone| Around::without(&view.bytes, &view.document, &span, gone);
    let goes = redactions.iter().any(|one| spans::overlaps(&one.span, &span));
    // An approval that was not valid before does not become valid by a redaction.
    if goes
      || !Approvals::new(ledger, at).still_holds(
        path,
        item.hash,
        &[around(&[]), around(&before)],
      )?
    {
      continue;
    }
    let text = left.get(span.clone()).unwrap_or_default();
    let now = [&[][..], &after].map(|gone| Around::without(left, &document, &span, gone));
    for around in now {
      let here = context(ledger, path, &around)?;
      for hash in approved::hashes(text) {
        ledger.except_in(path, hash, here)?;
      }
    }
  }
  Ok(())
}

/// The fresh lines.
fn fresh(document: &Document, comparison: &Comparison) -> Vec<Range<usize>> {
  let blocks = document.blocks().iter().zip(&comparison.fates);
  let of = |(block, fate): (&crate::memory::Block, &Fate)| -> Vec<Range<usize>> {
    let lines = block.lines.iter().enumerate();
    let is_fresh = |at: usize| match fate {
      Fate::Unchanged { .. } | Fate::Moved { .. } => false,
      Fate::Inserted => true,
      Fate::Edited { fresh, .. } => fresh.contains(&at),
    };
    lines.filter(|(at, _)| is_fresh(*at)).map(|(_, one)| one.span.clone()).collect()
  };
  blocks.flat_map(of).collect()
}

/// The lines that these judgements take out.
fn leaving(
  document: &Document,
  comparison: &Comparison,
  judgements: &[Option<BlockJudgement>],
) -> Vec<Range<usize>> {
  let fresh = fresh(document, comparison);
  let mut all = Vec::new();
  for (index, judgement) in judgements.iter().enumerate() {
    let Some(judgement) = judgement.as_ref().filter(|one| one.decision.leaves()) else { continue };
    let lines = judgement.lines.clone().unwrap_or_else(|| lines_in(document, index, &fresh));
    let Some(block) = document.blocks().get(index) else { continue };
    all.extend(lines.iter().filter_map(|&at| Some(block.lines.get(at)?.span.clone())));
  }
  all
}

/// The lines of a block that are in one of these spans and are not blank.
fn lines_in(document: &Document, index: usize, spans: &[Range<usize>]) -> Vec<usize> {
  let lines = document.blocks().get(index).into_iter().flat_map(|block| &block.lines).enumerate();
  let is_in = |span: &Range<usize>| spans.iter().any(|one| spans::overlaps(one, span));
  lines
    .filter(|(_, one)| one.kind != LineKind::Blank && is_in(&one.span))
    .map(|(at, _)| at)
    .collect()
}
