//! The copies of an item's text in a version of its file, and the verdict by which one of them leaves.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::{
  detect::{Action, Decision, Verdict},
  judging::{judgement::BlockJudgement, view::View},
  memory::{
    BlockId, Fate, Line, LineHash,
    line::{self, LineKind},
    placeholder,
  },
  provenance::State,
  store::Item,
};

/// A copy of an item's text in its file.
pub(super) struct Copy {
  /// Its bytes in the file, with memfw's comments between and behind its lines.
  pub(super) span: Range<usize>,
  /// The index of its block, and those of its lines in the block.
  pub(super) block: usize,
  pub(super) lines: Vec<usize>,
  /// The line of the file at which it begins, from 1.
  pub(super) line: usize,
  /// Whether a person approved it.
  is_approved: bool,
  /// Whether the version before has it, too.
  pub(super) is_present: bool,
}

impl Copy {
  /// The copy that the approval restored: of those with approved lines the nearest to the former line.
  pub(super) fn find(view: &View, item: &Item, plain: &[u8]) -> Option<Self> {
    let copies = Self::all(view, plain).into_iter();
    copies.min_by_key(|copy| (!copy.is_approved, copy.line.abs_diff(item.line as usize)))
  }

  /// The copies of a text, in the order of the file.
  pub(super) fn all(view: &View, plain: &[u8]) -> Vec<Self> {
    let text: Vec<LineHash> = plain
      .split_inclusive(|byte| *byte == b'\n')
      .filter(|line| !line::is_blank(line))
      .map(|line| line::line_hash(line::content(line)))
      .collect();
    let copies = view.document.blocks().iter().enumerate().flat_map(|(index, block)| {
      let says = |(_, line): &(usize, &Line)| line.kind != LineKind::Blank;
      let lines: Vec<(usize, &Line)> = block.lines.iter().enumerate().filter(says).collect();
      let runs = lines.windows(text.len().max(1)).filter(|run| {
        run.iter().map(|(_, line)| line.hash).eq(text.iter().copied())
          && run.iter().all(|(_, line)| !line.is_tail)
      });
      runs.filter_map(|run| Self::of(view, index, run)).collect::<Vec<_>>()
    });
    copies.collect()
  }

  fn of(view: &View, block: usize, run: &[(usize, &Line)]) -> Option<Self> {
    let (first, last) = (run.first()?.1, run.last()?.1);
    let fate = view.comparison.fates.get(block);
    let known = fate.and_then(Fate::known);
    let is_former = |known: &usize| view.facts.known.get(*known).is_none_or(|known| known.former);
    let fresh = match fate {
      Some(Fate::Edited { fresh, .. }) => &fresh[..],
      _ => &[],
    };
    let is_present = known.is_some_and(|known| !is_former(&known))
      && !run.iter().any(|(index, _)| fresh.contains(index));
    let row = known.and_then(|known| view.facts.rows.get(known));
    let is_approved = row.is_some_and(|row| {
      let lines = run.iter().filter_map(|(index, _)| row.lines.get(*index));
      lines.into_iter().any(|line| row.is_approved(line.revision))
    });
    Some(Self {
      span: first.span.start..last.span.end,
      block,
      lines: run.iter().map(|(index, _)| *index).collect(),
      line: first.number,
      is_approved,
      is_present,
    })
  }

  /// The file with the placeholder of the item in place of the copy.
  pub(super) fn replaced(&self, View { bytes, document, .. }: &View, id: &BlockId) -> Vec<u8> {
    let head = bytes.get(..self.span.start).unwrap_or_default();
    let tail = bytes.get(self.span.end..).unwrap_or_default();
    let eol = line::eol(line::slice(bytes, self.span.clone()));
    let compact = [placeholder::compact(id).as_bytes(), eol].concat();
    [head, &document.with_pairs(bytes, &self.span, compact), tail].concat()
  }
}

/// The verdict that the item had before.
pub(super) fn verdict(item: &Item, former: State, lines: Vec<usize>) -> BlockJudgement {
  let decision = Decision {
    verdict: Verdict::Quarantine,
    action: if former == State::Held { Action::Hold } else { Action::Quarantine },
    score: item.score,
    codes: item.codes.clone(),
  };
  BlockJudgement { lines: Some(lines), ..BlockJudgement::of(decision) }
}
