//! Finds which lines of a file were approved, from the revisions that brought them. The approved text
//! decides, not the later state of its item.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{judge_context::JudgeContext, spans::overlaps, together};
use crate::{
  memory::{
    Comparison, ContentHash, Document, SegmentKind,
    line::{self, LineKind},
  },
  store::StoreError,
};

/// The most lines of an approved text that is searched for among its neighbours (a choice: few texts
/// are longer, and a longer one is found where it is alone or was written at another time).
const MAX_LINES: usize = 32;

/// The most blanks at the end of an approved text that is recognised with more blanks behind it (a choice: two are a line
/// break in markdown, and a line that was cut off between two words ends in one).
const MAX_BLANKS: usize = 2;

/// A line that a person has approved.
#[derive(Clone, Debug)]
pub(super) struct Line {
  block: usize,
  index: usize,
  span: Range<usize>,
  /// The indices of the known block and its revision.
  by: (usize, u32),
  /// When it was written.
  at: i64,
}

/// Consecutive lines that were approved as one text.
pub(super) struct Part<'a> {
  lines: &'a [Line],
  pub(super) span: Range<usize>,
  pub(super) hashes: [ContentHash; 2],
  /// Whether exactly this text was approved, and not a longer one of which this is the rest.
  pub(super) is_known: bool,
}

impl Part<'_> {
  /// The indices of its lines in each block, with the revision that brought them.
  pub(super) fn by_block(&self) -> Vec<(usize, Vec<usize>, (usize, u32))> {
    let of = |lines: &[Line]| {
      let first = lines.first()?;
      Some((first.block, lines.iter().map(|one| one.index).collect(), first.by))
    };
    self.lines.chunk_by(|a, b| (a.block, a.by) == (b.block, b.by)).filter_map(of).collect()
  }
}

/// Runs of consecutive approved lines, without those in `others`.
pub(super) fn runs(
  document: &Document,
  comparison: &Comparison,
  cx: &JudgeContext<'_>,
  others: &[Range<usize>],
) -> Vec<Vec<Line>> {
  let mut runs: Vec<Vec<Line>> = Vec::new();
  let mut goes_on = false;
  for (block, one) in document.blocks().iter().enumerate() {
    let brought = together::brought(one, block, comparison, cx);
    let lines = one.lines.iter().zip(brought).enumerate();
    for (index, (line, by)) in lines.filter(|(_, (line, _))| line.kind != LineKind::Blank) {
      let approved = by.and_then(|by| {
        let known = by.known?;
        let revision = cx.known.get(known)?.revision(by.revision)?;
        let is_other = others.iter().any(|other| overlaps(other, &line.span));
        let (by, at) = ((known, by.revision), revision.at);
        let line = Line { block, index, span: line.span.clone(), by, at };
        (revision.approved && !is_other).then_some(line)
      });
      match (runs.last_mut().filter(|_| goes_on), approved) {
        (Some(run), Some(line)) => run.push(line),
        (None, Some(line)) => {
          runs.push(vec![line]);
          goes_on = true;
        }
        (_, None) => goes_on = false,
      }
    }
  }
  runs
}

/// Divides a run of approved lines into the texts that were approved, and the rests of others.
pub(super) fn parts<'a>(
  file: &[u8],
  document: &Document,
  run: &'a [Line],
  is_known: impl Fn(&[u8]) -> Result<bool, StoreError>,
) -> Result<Vec<Part<'a>>, StoreError> {
  let holes = holes(document);
  let part = |lines: &'a [Line], is_known| -> Option<Part<'a>> {
    let span = lines.first()?.span.start..lines.last()?.span.end;
    Some(Part { lines, hashes: hashes(&text(file, &span, &holes)), span, is_known })
  };
  let mut parts = Vec::new();
  let mut left = 0..0;
  let mut at = 0;
  while let Some(rest) = run.get(at..).filter(|rest| !rest.is_empty()) {
    let written = rest.chunk_by(|a, b| a.at == b.at).next().map_or(0, <[Line]>::len);
    // Likely ends first: the whole run, then the lines that were written at one time.
    let ends = [rest.len(), written].into_iter().chain((1..=rest.len().min(MAX_LINES)).rev());
    let mut found = None;
    'ends: for end in ends {
      let Some(mut one) = rest.get(..end).and_then(|lines| part(lines, true)) else { continue };
      let whole = text(file, &one.span, &holes);
      for text in std::iter::once(&whole[..]).chain(without_fill(&whole)) {
        if is_known(text)? {
          one.hashes = hashes(text);
          found = Some(one);
          break 'ends;
        }
      }
    }
    let length = found.as_ref().map_or(1, |one| one.lines.len());
    if found.is_some() {
      parts.extend(run.get(std::mem::take(&mut left)).and_then(|lines| part(lines, false)));
      left = at + length..at + length;
    } else {
      left.end = at + length;
    }
    parts.extend(found);
    at += length;
  }
  parts.extend(run.get(left).and_then(|lines| part(lines, false)));
  Ok(parts)
}

/// The hashes of the lines of which `span` has a part, without memfw's comments.
pub fn lines_at(
  file: &[u8],
  document: &Document,
  span: &Range<usize>,
) -> Vec<(Range<usize>, [ContentHash; 2])> {
  let holes = holes(document);
  let lines = document.blocks().iter().flat_map(|block| &block.lines);
  let lines = lines.filter(|line| overlaps(&line.span, span));
  lines.map(|line| (line.span.clone(), hashes(&text(file, &line.span, &holes)))).collect()
}

/// The comments of memfw, which are not part of a text.
fn holes(document: &Document) -> Vec<Range<usize>> {
  let of_text = |kind: &SegmentKind| matches!(kind, SegmentKind::Block(_) | SegmentKind::Blank);
  let segments = document.segments().iter();
  segments.filter(|one| !of_text(&one.kind)).map(|one| one.span.clone()).collect()
}

/// The hashes under which an approval is kept: one of the bytes, one of the words.
pub fn hashes(text: &[u8]) -> [ContentHash; 2] {
  [ContentHash::of(text), line::norm_hash(text)]
}

/// A text without the blanks at its end, if there are any: without all of them, and with the first few, which may be its
/// own. Where the length of a file cannot be changed, the blanks of a placeholder stay behind the text that came back,
/// and on its last line if that had no end.
fn without_fill(text: &[u8]) -> impl Iterator<Item = &[u8]> {
  let filled = line::content(text).strip_suffix(b" ");
  let bare = filled.map(<[u8]>::trim_ascii_end).filter(|bare| !bare.is_empty());
  let lengths = bare.map(|bare| bare.len()..=bare.len().saturating_add(MAX_BLANKS));
  lengths.into_iter().flatten().map_while(move |length| filled?.get(..length))
}

/// The bytes at `span`, without the `holes`.
fn text(file: &[u8], span: &Range<usize>, holes: &[Range<usize>]) -> Vec<u8> {
  let mut text = Vec::with_capacity(span.len());
  let mut at = span.start;
  for hole in holes.iter().filter(|hole| overlaps(hole, span)) {
    let before = line::slice(file, at..hole.start.max(at));
    // At the end of a line memfw writes a space before its comment.
    let ends = matches!(file.get(hole.end), None | Some(b'\r' | b'\n'));
    let before = before.strip_suffix(b" ").filter(|_| ends).unwrap_or(before);
    text.extend_from_slice(before);
    at = hole.end.max(at);
  }
  text.extend_from_slice(line::slice(file, at..span.end.max(at)));
  text
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_first_blanks_behind_a_text_may_be_its_own() {
    let bare = |text: &'static str| -> Vec<&str> {
      without_fill(text.as_bytes()).map(|one| std::str::from_utf8(one).unwrap()).collect()
    };
    assert_eq!(bare("- save"), [""; 0]);
    assert_eq!(bare("   \n"), [""; 0]);
    assert_eq!(bare("- save \n"), ["- save"]);
    assert_eq!(bare("- save  "), ["- save", "- save "]);
    assert_eq!(bare("- save         \n"), ["- save", "- save ", "- save  "]);
    assert_eq!(bare("- save\n\n    \n"), ["- save", "- save\n", "- save\n\n"]);
  }
}
