//! One memory file as segments that tile it, and the blocks among them.
//!
//! Invariant: joining the spans of the segments gives the file byte for byte, for any bytes. Structure is
//! parsed without memfw's own comments, so a marker does not change the structure around it.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{
  Block, BlockId, KnownBlock,
  builder::Builder,
  comments::{self, Comments, Continued, Hole, HoleKind, Known},
  grown, line,
  markdown::Enclosure,
  outline::Outline,
};

/// A file, parsed.
#[derive(Debug)]
pub struct Document {
  segments: Vec<Segment>,
  blocks: Vec<Block>,
  /// The blocks before any of their lines were divided; `None` if none was.
  undivided: Option<Vec<Block>>,
  enclosures: Vec<Enclosure>,
  continued: Vec<Continued>,
  forged: Vec<Range<usize>>,
  utf8: bool,
  coarse: bool,
  /// The facts with which the file was read; empty if nothing in the file could depend on them.
  known: Known,
}

/// A run of bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
  /// What it is.
  pub kind: SegmentKind,
  /// Bytes of the file.
  pub span: Range<usize>,
}

/// What a run of bytes is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentKind {
  /// A leading byte order mark.
  Bom,
  /// Lines between blocks that contain only space.
  Blank,
  /// A part of the block with this index.
  Block(usize),
  /// An opening marker line of a known id.
  Opener(BlockId),
  /// A closing marker line.
  Closer,
  /// A trailing id comment of a known id, with the space before it.
  IdMark(BlockId),
  /// A placeholder of a known id.
  Placeholder(BlockId),
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Document {
  /// Parses a file. Never fails; takes time linear in the length.
  pub fn parse(bytes: &[u8], known: &Known) -> Self {
    let start = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    let Comments { holes, continued, forged, mentioned, enclosures } =
      comments::find(bytes, start, known);
    let text = std::str::from_utf8(bytes).ok();
    let outline = Outline::of(bytes, text, start, &holes);
    let (mut blocks, joined) = Builder::build(bytes, &holes, &outline);
    let coarse = joined || outline.coarse;
    enclose(&mut blocks, &holes, &enclosures);
    let segments = tile(bytes.len(), start, &blocks, holes);
    // Most files have no comment of memfw, and need no copy of the ids.
    let known = if mentioned { known.clone() } else { Known::default() };
    let enclosures = outline.enclosures;
    let utf8 = text.is_some();
    Self { segments, blocks, undivided: None, enclosures, continued, forged, utf8, coarse, known }
  }

  /// The segments; their spans joined are the file.
  pub fn segments(&self) -> &[Segment] {
    &self.segments
  }

  /// The ids of the placeholders in the file, in file order.
  pub fn placeholders(&self) -> impl Iterator<Item = &BlockId> {
    self.segments.iter().filter_map(|segment| match &segment.kind {
      SegmentKind::Placeholder(id) => Some(id),
      _ => None,
    })
  }

  /// The blocks, in file order.
  pub fn blocks(&self) -> &[Block] {
    &self.blocks
  }

  /// The index of the block that contains a byte, or of the one before it.
  pub(crate) fn block_at(&self, at: usize) -> Option<usize> {
    let start = |block: &Block| block.lines.first().map_or(usize::MAX, |line| line.span.start);
    self.blocks.partition_point(|block| start(block) <= at).checked_sub(1)
  }

  /// The code or the HTML that began before a byte and contains it.
  pub fn enclosure(&self, at: usize) -> Option<&Enclosure> {
    self.enclosures.iter().find(|one| one.span.start < at && at < one.span.end)
  }

  /// Lines on which text follows a placeholder.
  pub fn continued(&self) -> &[Continued] {
    &self.continued
  }

  /// Marker lines that have a known id but repeat it or are inside another marker. They are text.
  pub fn forged(&self) -> &[Range<usize>] {
    &self.forged
  }

  /// The facts with which the file was read, if they mattered.
  pub(crate) fn known(&self) -> &Known {
    &self.known
  }

  /// Whether the file has so many lines or blocks that neighbours are judged as one unit.
  pub fn is_coarse(&self) -> bool {
    self.coarse
  }

  /// Whether the whole file is UTF-8.
  pub fn is_utf8(&self) -> bool {
    self.utf8
  }

  /// Splits lines that begin with an owner's line of the last version from the text that others added after
  /// it (see `grown`). Must be called before the file is compared with that version.
  pub fn divide(&mut self, bytes: &[u8], known: &[KnownBlock]) {
    let divided = grown::divide(&self.blocks, bytes, known);
    self.undivided = divided.map(|divided| std::mem::replace(&mut self.blocks, divided));
  }

  /// The blocks with the lines of the file, before any were divided.
  pub(crate) fn undivided(&self) -> &[Block] {
    self.undivided.as_deref().unwrap_or(&self.blocks)
  }

  /// What replaces a range of the file by `text`: a marker line in the range stays if the other line of its pair is
  /// outside, because a marker that begins and does not end would enclose what follows.
  pub fn with_pairs(&self, bytes: &[u8], range: &Range<usize>, text: Vec<u8>) -> Vec<u8> {
    let is_in = |span: &Range<usize>| range.start <= span.start && span.end <= range.end;
    let (mut stay, mut opener) = (Vec::new(), None);
    for Segment { kind, span } in &self.segments {
      match kind {
        SegmentKind::Opener(_) => opener = Some(span),
        SegmentKind::Closer => match opener.take() {
          Some(opener) if is_in(opener) != is_in(span) => {
            let cut = if is_in(opener) { opener } else { span };
            stay.extend_from_slice(line::slice(bytes, cut.clone()));
          }
          _ => {}
        },
        _ => {}
      }
    }
    if stay.is_empty() {
      return text;
    }
    // A marker has a line of its own.
    let begins = range.start.checked_sub(1).and_then(|before| bytes.get(before));
    let at = match begins {
      None | Some(b'\n' | b'\r') => 0,
      _ => line::line_end(&text, 0),
    };
    let (head, tail) = text.split_at_checked(at).unwrap_or((&text, &[]));
    [head, &stay, tail].concat()
  }

  /// The file without marker lines and id comments, otherwise exact; placeholders stay.
  pub fn strip(&self, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for segment in &self.segments {
      if !matches!(
        segment.kind,
        SegmentKind::Opener(_) | SegmentKind::Closer | SegmentKind::IdMark(_)
      ) {
        out.extend_from_slice(line::slice(bytes, segment.span.clone()));
      }
    }
    out
  }
}

/// Notes for each block the marker that encloses it.
fn enclose(blocks: &mut [Block], holes: &[Hole], enclosures: &[(BlockId, Range<usize>)]) {
  let mut next = 0;
  let mut first_of_unclosed = true;
  let mut hole = 0;
  for block in blocks {
    let Some(first) = block.parts.first().map(|part| part.start) else { continue };
    // A heading may precede the marker of the text below it.
    let start = block.lines.get(block.body).map_or(first, |line| line.span.start);
    let end = block.parts.last().map_or(start, |part| part.end);
    while enclosures.get(next).is_some_and(|(_, span)| span.end <= start) {
      next += 1;
    }
    if let Some((id, span)) = enclosures.get(next)
      && span.contains(&start)
      // A removed closing line must not extend a marker to the rest of the file.
      && (span.end != usize::MAX || std::mem::take(&mut first_of_unclosed))
    {
      block.marker = Some(id.clone());
    }
    while holes.get(hole).is_some_and(|hole| hole.span.end <= first) {
      hole += 1;
    }
    let inside = holes.iter().skip(hole).take_while(|hole| hole.span.start <= end);
    for found in inside {
      if let (HoleKind::IdMark(id), None) = (&found.kind, &block.marker) {
        block.marker = Some(id.clone());
      }
    }
  }
}

/// Segments from blocks and holes; the rest is blank.
fn tile(length: usize, start: usize, blocks: &[Block], holes: Vec<Hole>) -> Vec<Segment> {
  let mut segments = Vec::with_capacity(blocks.len() * 2 + holes.len() + 1);
  let mut at = 0;
  let mut put = |kind: SegmentKind, span: Range<usize>| {
    if at == 0 && start > 0 {
      segments.push(Segment { kind: SegmentKind::Bom, span: 0..start });
      at = start;
    }
    if span.start > at {
      segments.push(Segment { kind: SegmentKind::Blank, span: at..span.start });
    }
    if !span.is_empty() {
      at = span.end;
      segments.push(Segment { kind, span });
    }
  };
  let mut holes = holes.into_iter().peekable();
  for (index, block) in blocks.iter().enumerate() {
    for part in &block.parts {
      while let Some(hole) = holes.next_if(|hole| hole.span.start < part.start) {
        put(hole.kind.into(), hole.span);
      }
      put(SegmentKind::Block(index), part.clone());
    }
  }
  for hole in holes {
    put(hole.kind.into(), hole.span);
  }
  put(SegmentKind::Blank, length..length);
  segments
}

impl From<HoleKind> for SegmentKind {
  fn from(kind: HoleKind) -> Self {
    match kind {
      HoleKind::Opener(id) => Self::Opener(id),
      HoleKind::Closer => Self::Closer,
      HoleKind::IdMark(id) => Self::IdMark(id),
      HoleKind::Placeholder(id) => Self::Placeholder(id),
    }
  }
}
