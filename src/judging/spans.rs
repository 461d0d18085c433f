//! Spans and lines: which lines of a block a span touches.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::Block;

/// The indices of the lines of a block that a span touches.
pub(super) fn lines_in(block: &Block, span: &Range<usize>) -> Vec<usize> {
  let first = block.lines.partition_point(|line| line.span.end <= span.start);
  let lines = block.lines.iter().enumerate().skip(first);
  let touched = lines.take_while(|(_, line)| line.span.start < span.end.max(span.start + 1));
  touched.map(|(index, _)| index).collect()
}

/// Whether a span touches one of these lines, which are sorted.
pub(super) fn touches(lines: &[Range<usize>], span: &Range<usize>) -> bool {
  let first = lines.partition_point(|line| line.end <= span.start);
  lines.get(first).is_some_and(|line| overlaps(line, span))
}

/// Whether two spans have a byte in common; an empty span counts as one byte.
pub fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end.max(b.start + 1) && b.start < a.end
}
