//! The text of a block, whose parts may be separated by memfw's comments.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use super::claim::without_markers;
use crate::{
  detect::Text,
  memory::{Block, Document},
};

/// Joins the parts of a block and keeps the file position of each byte.
pub struct BlockText {
  bytes: Vec<u8>,
  /// The start of each part in `bytes`, and its span in the file.
  parts: Vec<(usize, Range<usize>)>,
}

impl BlockText {
  /// The text of `block` in `file`.
  pub fn new(file: &[u8], block: &Block) -> Self {
    Self::of_spans(file, &block.parts)
  }

  /// The text of these spans of `file`.
  pub fn of_spans(file: &[u8], spans: &[Range<usize>]) -> Self {
    let mut bytes = Vec::new();
    let mut parts = Vec::new();
    for part in spans {
      if let Some(text) = file.get(part.clone()) {
        parts.push((bytes.len(), part.clone()));
        bytes.extend_from_slice(text);
      }
    }
    Self { bytes, parts }
  }

  /// Puts spaces in place of a span of the joined bytes; line ends stay.
  pub fn blank(&mut self, span: Range<usize>) {
    let bytes = self.bytes.get_mut(span).unwrap_or_default();
    bytes.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b' ');
  }

  /// The same for a span of the file.
  pub fn blank_in_file(&mut self, span: &Range<usize>) {
    for (start, part) in self.parts.clone() {
      let from = span.start.clamp(part.start, part.end) - part.start;
      let end = span.end.clamp(part.start, part.end) - part.start;
      self.blank(start + from..start + end.max(from));
    }
  }

  /// A span of the file as spans of the joined bytes.
  pub fn of_file(&self, span: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let at = |(start, part): &(usize, Range<usize>)| {
      let from = span.start.clamp(part.start, part.end) - part.start;
      let end = span.end.clamp(part.start, part.end) - part.start;
      (from < end).then_some(start + from..start + end)
    };
    self.parts.iter().filter_map(at)
  }

  /// The text of the block with this index; empty without such a block.
  pub fn of(file: &[u8], document: &Document, index: usize) -> Vec<u8> {
    document.blocks().get(index).map(|block| Self::new(file, block).bytes).unwrap_or_default()
  }

  /// The joined bytes.
  pub fn bytes(&self) -> &[u8] {
    &self.bytes
  }

  /// A span of the joined bytes as a span of the file, including gaps.
  pub fn to_file(&self, span: &Range<usize>) -> Range<usize> {
    let at = |offset: usize| {
      self
        .parts
        .get(..self.parts.partition_point(|(start, _)| *start <= offset))
        .and_then(<[_]>::last)
        .map_or(0, |(start, part)| part.start + (offset - start).min(part.len()))
    };
    let last = span.end.saturating_sub(1).max(span.start);
    at(span.start)..(at(last) + usize::from(span.end > span.start))
  }
}

/// A text without memfw's comments, which are nobody's words.
pub(super) struct BareText<'a> {
  of: &'a BlockText,
  bytes: Cow<'a, [u8]>,
  claims: Vec<Range<usize>>,
}

impl<'a> BareText<'a> {
  /// What a text says.
  pub(super) fn of(of: &'a BlockText) -> Self {
    let (bytes, claims) = without_markers(of.bytes());
    Self { of, bytes, claims }
  }

  /// Begins to read it.
  pub(super) fn read(&self) -> BlockReading<'_> {
    BlockReading { of: self.of, text: Text::new(&self.bytes), claims: &self.claims }
  }
}

/// A text of the file as the layers read it, normalised once for all of them.
pub(super) struct BlockReading<'a> {
  /// The text with memfw's comments.
  pub(super) of: &'a BlockText,
  /// The text without them.
  pub(super) text: Text<'a>,
  /// The lines that only claim to be such a comment.
  pub(super) claims: &'a [Range<usize>],
}
