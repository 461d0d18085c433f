//! One memory file as segments that tile it, and the blocks among them.
//!
//! Invariant: joining the spans of the segments gives the file byte for byte, whatever the bytes are.
//! Structure is parsed with memfw's own comments taken out, so a marker changes nothing around it.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use sha2::{Digest, Sha256};

pub use crate::memory::comments::Known;
use crate::memory::{
  BlockId, BlockKind, ContentHash, Line,
  comments::{self, Comments, Hole, HoleKind},
  line::{self, LineKind},
  markdown::{self, Top},
};

/// A file, parsed.
#[derive(Debug)]
pub struct Document {
  segments: Vec<Segment>,
  blocks: Vec<Block>,
  continued: Vec<Continued>,
  forged: Vec<Range<usize>>,
  utf8: bool,
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
  /// Lines between blocks that hold nothing but space.
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

/// The unit of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
  /// What it is, without the headings before it.
  pub kind: BlockKind,
  /// Its bytes in the file; comments of memfw that stand in between are not part of it.
  pub parts: Vec<Range<usize>>,
  /// Its lines, blank ones between others included.
  pub lines: Vec<Line>,
  /// The line, as an index into `lines`, at which the block itself begins after its headings.
  pub body: usize,
  /// Of the raw bytes of the parts.
  pub hash: ContentHash,
  /// Of the same with each line end as `\n` and without the last one.
  pub norm_hash: ContentHash,
  /// First line in the file, from 1.
  pub start_line: usize,
  /// Last line in the file, from 1.
  pub end_line: usize,
  /// A line put directly below would be swallowed, whatever it is: an unclosed fence, an unclosed
  /// comment, an HTML block that only a blank line ends.
  pub open_ended: bool,
  /// Its last line has a line end.
  pub terminated: bool,
  /// The marker that encloses it, or the id comment on one of its lines.
  pub marker: Option<BlockId>,
}

/// Text on the same line after a placeholder: a file without a final newline was appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
  /// The placeholder.
  pub id: BlockId,
  /// The text after it, line end included.
  pub rest: Range<usize>,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

impl Document {
  /// Parses a file. Never fails; takes time linear in the length.
  pub fn parse(bytes: &[u8], known: &Known) -> Self {
    let start = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    let Comments { holes, continued, forged, enclosures } = comments::find(bytes, start, known);
    let utf8 = std::str::from_utf8(bytes).is_ok();
    let lines = lines(bytes, start, &holes);
    let front = front_matter(bytes, &lines);
    let tops = structure(bytes, &holes, &lines, front, utf8);
    let mut build = Build::new(bytes, &holes);
    build.walk(&lines, front, &tops);
    let mut blocks = build.blocks;
    enclose(&mut blocks, &holes, &enclosures);
    let segments = tile(bytes.len(), start, &blocks, holes);
    Self { segments, blocks, continued, forged, utf8 }
  }

  /// The segments; their spans joined are the file.
  pub fn segments(&self) -> &[Segment] {
    &self.segments
  }

  /// The blocks, in file order.
  pub fn blocks(&self) -> &[Block] {
    &self.blocks
  }

  /// Lines on which text follows a placeholder.
  pub fn continued(&self) -> &[Continued] {
    &self.continued
  }

  /// Marker lines that bear a known id but repeat it or stand inside another marker. They are text.
  pub fn forged(&self) -> &[Range<usize>] {
    &self.forged
  }

  /// Whether the whole file is UTF-8.
  pub fn is_utf8(&self) -> bool {
    self.utf8
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

/// A line of text: where it stands, and whether it holds a hole.
struct TextLine {
  span: Range<usize>,
  /// Index of the first hole at or after the line's start.
  hole: usize,
  holed: bool,
  blank: bool,
}

/// The lines of the text between the holes. A hole that takes whole lines is between lines; one inside
/// a line is inside that line.
fn lines(bytes: &[u8], start: usize, holes: &[Hole]) -> Vec<TextLine> {
  let mut lines = Vec::with_capacity(bytes.len() / 40);
  let (mut at, mut hole) = (start, 0);
  while at < bytes.len() {
    if let Some(next) = holes.get(hole)
      && next.span.start <= at
    {
      at = at.max(next.span.end);
      hole += 1;
      continue;
    }
    let (begin, first_hole) = (at, hole);
    let mut end = line::line_end(bytes, at);
    let mut blank = true;
    // Holes inside the line are jumped over; one that starts where the line ends is not inside.
    while let Some(next) = holes.get(hole).filter(|next| next.span.start < end) {
      blank &= line::is_blank(line::slice(bytes, at..next.span.start));
      at = next.span.end;
      hole += 1;
      // A region of several lines that begins inside this line has taken its line end.
      end = if at >= end && matches!(bytes.get(at - 1), Some(b'\n' | b'\r')) {
        at
      } else {
        line::line_end(bytes, at)
      };
    }
    blank &= line::is_blank(line::slice(bytes, at..end));
    let holed = hole > first_hole;
    // A hole at the very end of the last line is not part of it.
    let stop = match holes.get(hole.wrapping_sub(1)) {
      Some(last) if holed && last.span.end == end => last.span.start,
      _ => end,
    };
    lines.push(TextLine { span: begin..stop, hole: first_hole, holed, blank });
    at = end;
  }
  lines
}

/// How many lines at the start are front matter.
fn front_matter(bytes: &[u8], lines: &[TextLine]) -> usize {
  let text = |line: &TextLine| line::slice(bytes, line.span.clone()).trim_ascii_end();
  if lines.first().is_none_or(|first| text(first) != b"---") {
    return 0;
  }
  let close = lines.iter().skip(1).position(|line| matches!(text(line), b"---" | b"..."));
  close.map_or(0, |at| at + 2)
}

/// Runs of blank lines longer than this are shortened for the parser, which walks all open containers
/// for each of them; to markdown they mean the same.
const MAX_BLANK_RUN: usize = 4;

/// The top-level blocks after the front matter, in bytes of the file.
fn structure(
  bytes: &[u8],
  holes: &[Hole],
  lines: &[TextLine],
  front: usize,
  utf8: bool,
) -> Vec<Top> {
  let Some(first) = lines.get(front) else { return Vec::new() };
  let start = first.span.start;
  // What the parser does not see: holes and the rest of long blank runs.
  let mut cuts: Vec<Range<usize>> = Vec::new();
  // Bytes that the parser must read as plain text.
  let mut plain: Vec<usize> = Vec::new();
  let mut next_hole = first.hole;
  let mut run = 0;
  for text in lines.get(front..).unwrap_or_default() {
    while let Some(hole) = holes.get(next_hole).filter(|hole| hole.span.start < text.span.start) {
      cuts.push(hole.span.clone());
      next_hole += 1;
    }
    run = if text.blank { run + 1 } else { 0 };
    if run > MAX_BLANK_RUN {
      cuts.push(text.span.clone());
      while holes.get(next_hole).is_some_and(|hole| hole.span.start < text.span.end) {
        next_hole += 1;
      }
      continue;
    }
    let content = line::slice(bytes, text.span.clone());
    if let Some(at) = markdown::flatten(content) {
      plain.push(text.span.start + at);
    }
  }
  cuts.extend(holes.iter().skip(next_hole).map(|hole| hole.span.clone()));

  let text = parser_text(bytes, start, &cuts, &plain, utf8);
  let mut tops = markdown::structure(&text);
  // Offsets in the parsed text become offsets in the file.
  let mut map = OffsetMap { cuts: &cuts, next: 0, shift: start };
  for top in &mut tops {
    top.span.start = map.to_file(top.span.start);
    // Ends run ahead of later starts only inside nested structure, which is not listed here.
    top.span.end = OffsetMap { ..map }.to_file_end(top.span.end);
  }
  tops
}

/// The text that the parser sees: from `start`, without the cuts, each invalid byte as one 0x1A.
fn parser_text<'a>(
  bytes: &'a [u8],
  start: usize,
  cuts: &[Range<usize>],
  plain: &[usize],
  utf8: bool,
) -> Cow<'a, str> {
  let whole = bytes.get(start..).unwrap_or_default();
  if cuts.is_empty()
    && plain.is_empty()
    && utf8
    && let Ok(text) = std::str::from_utf8(whole)
  {
    return Cow::Borrowed(text);
  }
  let mut out = String::with_capacity(whole.len());
  let mut plain = plain.iter().copied().peekable();
  let mut at = start;
  for cut in cuts.iter().cloned().chain([bytes.len()..bytes.len()]) {
    let mut from = at;
    while from < cut.start {
      let to = plain.next_if(|p| *p < cut.start).unwrap_or(cut.start).max(from);
      push_valid(line::slice(bytes, from..to), &mut out);
      from = to;
      if to < cut.start {
        // One plain letter instead of what would open one container more.
        push_plain(line::slice(bytes, to..to + 1), &mut out);
        from += 1;
      }
    }
    at = cut.end;
  }
  Cow::Owned(out)
}

fn push_plain(byte: &[u8], out: &mut String) {
  for b in byte {
    out.push(match b {
      b'\n' | b'\r' => char::from(*b),
      _ if b.is_ascii() => 'x',
      _ => '\u{1a}',
    });
  }
}

fn push_valid(bytes: &[u8], out: &mut String) {
  for chunk in bytes.utf8_chunks() {
    out.push_str(chunk.valid());
    out.extend(chunk.invalid().iter().map(|_| '\u{1a}'));
  }
}

/// Offsets of the parsed text to offsets of the file; asked in ascending order.
struct OffsetMap<'a> {
  cuts: &'a [Range<usize>],
  next: usize,
  shift: usize,
}

impl OffsetMap<'_> {
  /// Behind the cuts that stand at the offset.
  fn to_file(&mut self, offset: usize) -> usize {
    while let Some(cut) = self.cuts.get(self.next).filter(|cut| cut.start <= offset + self.shift) {
      self.shift += cut.len();
      self.next += 1;
    }
    offset + self.shift
  }

  /// Before the cuts that stand at the offset.
  fn to_file_end(mut self, offset: usize) -> usize {
    while let Some(cut) = self.cuts.get(self.next).filter(|cut| cut.start < offset + self.shift) {
      self.shift += cut.len();
      self.next += 1;
    }
    offset + self.shift
  }
}

/// Makes blocks of lines.
struct Build<'a> {
  bytes: &'a [u8],
  holes: &'a [Hole],
  blocks: Vec<Block>,
  open: Option<Block>,
  /// Blank lines that belong to the open block if another line of it follows.
  blank: Vec<usize>,
  /// The end of the parser's range of the open block.
  end: usize,
  counted: usize,
  line_number: usize,
}

impl<'a> Build<'a> {
  fn new(bytes: &'a [u8], holes: &'a [Hole]) -> Self {
    Self {
      bytes,
      holes,
      blocks: Vec::new(),
      open: None,
      blank: Vec::new(),
      end: 0,
      counted: 0,
      line_number: 1,
    }
  }

  fn walk(&mut self, lines: &[TextLine], front: usize, tops: &[Top]) {
    for (at, text) in lines.iter().enumerate().take(front) {
      if at == 0 {
        self.start(BlockKind::FrontMatter, false, text.span.start);
      }
      self.add(text);
    }
    self.finish();
    let mut tops = tops.iter().peekable();
    for (at, text) in lines.iter().enumerate().skip(front) {
      let mut started = false;
      // Two blocks cannot start on one line; should the parser say so, they are one.
      while let Some(top) = tops.next_if(|top| top.span.start < text.span.end) {
        if !text.blank {
          if !started {
            self.join_or_start(top.kind, top.open_ended, text.span.start);
          }
          started = true;
        }
        self.end = self.end.max(top.span.end);
      }
      if text.blank {
        self.blank.push(at);
        continue;
      }
      let defined = self.open.as_ref().is_some_and(|open| open.kind == BlockKind::Definition);
      let inside = text.span.start < self.end || defined && self.blank.is_empty();
      if !started && (self.open.is_none() || !inside) {
        self.join_or_start(BlockKind::Definition, false, text.span.start);
      }
      for blank in std::mem::take(&mut self.blank) {
        if let Some(blank) = lines.get(blank) {
          self.add(blank);
        }
      }
      self.add(text);
    }
    self.finish();
  }

  /// A heading joins what follows it, unless a new heading's block is already complete.
  fn join_or_start(&mut self, kind: BlockKind, open_ended: bool, at: usize) {
    if let Some(open) = &mut self.open
      && open.kind == BlockKind::Heading
    {
      open.kind = kind;
      open.open_ended = open_ended;
      open.body = open.lines.len() + self.blank.len();
    } else {
      self.finish();
      self.blank.clear();
      self.start(kind, open_ended, at);
    }
  }

  fn start(&mut self, kind: BlockKind, open_ended: bool, at: usize) {
    let start_line = self.number(at);
    self.open = Some(Block {
      kind,
      parts: Vec::with_capacity(1),
      lines: Vec::new(),
      body: 0,
      hash: ContentHash([0; 32]),
      norm_hash: ContentHash([0; 32]),
      start_line,
      end_line: start_line,
      open_ended,
      terminated: false,
      marker: None,
    });
  }

  /// The line number at an offset, asked in ascending order.
  fn number(&mut self, at: usize) -> usize {
    let between = line::slice(self.bytes, self.counted..at);
    self.line_number += between.iter().filter(|b| **b == b'\n').count();
    self.counted = at.max(self.counted);
    self.line_number
  }

  fn add(&mut self, text: &TextLine) {
    let number = self.number(text.span.start);
    let Some(open) = &mut self.open else { return };
    open.end_line = number;
    let mut push = |part: Range<usize>| match open.parts.last_mut() {
      _ if part.is_empty() => {}
      Some(last) if last.end == part.start => last.end = part.end,
      _ => open.parts.push(part),
    };
    let (hash, kind) = if text.holed {
      let mut at = text.span.start;
      let mut pieces = Vec::new();
      for hole in self.holes.iter().skip(text.hole) {
        if hole.span.start >= text.span.end {
          break;
        }
        pieces.push(at..hole.span.start);
        at = hole.span.end;
      }
      pieces.push(at..text.span.end.max(at));
      pieces.iter().cloned().for_each(&mut push);
      let whole: Vec<u8> =
        pieces.iter().flat_map(|piece| line::slice(self.bytes, piece.clone())).copied().collect();
      (line::hash_of([line::content(&whole)]), LineKind::of(&whole))
    } else {
      push(text.span.clone());
      let kind = if text.blank {
        LineKind::Blank
      } else {
        LineKind::of(line::slice(self.bytes, text.span.clone()))
      };
      // A block of one line gets this from its own hash.
      ([0; 8], kind)
    };
    open.lines.push(Line { span: text.span.clone(), hash, kind });
  }

  fn finish(&mut self) {
    let Some(mut block) = self.open.take() else { return };
    self.end = 0;
    let parts = || block.parts.iter().map(|part| line::slice(self.bytes, part.clone()));
    let last = parts().next_back().unwrap_or_default();
    let ending = line::eol(last);
    block.terminated = !ending.is_empty();
    let returns = parts().any(|part| part.contains(&b'\r'));
    if returns {
      let mut norm = normalise(parts());
      if norm.last() == Some(&b'\n') {
        norm.pop();
      }
      block.norm_hash = ContentHash::of(&norm);
      block.hash = ContentHash::of_parts(parts());
    } else {
      // One pass: the normal form is all but the last line end.
      let mut hasher = Sha256::new();
      let count = block.parts.len();
      for (at, part) in parts().enumerate() {
        hasher.update(if at + 1 == count { line::content(part) } else { part });
      }
      block.norm_hash = ContentHash(hasher.clone().finalize().into());
      hasher.update(ending);
      block.hash = ContentHash(hasher.finalize().into());
    }
    let single = block.lines.len() == 1;
    for text in &mut block.lines {
      if text.hash == [0; 8] {
        text.hash = if single && !returns {
          line::first_eight(&block.norm_hash.0)
        } else {
          line::hash_of([line::content(line::slice(self.bytes, text.span.clone()))])
        };
      }
    }
    self.blocks.push(block);
  }
}

/// Each line end as `\n`.
fn normalise<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
  let mut out = Vec::new();
  let mut after_return = false;
  for byte in parts.flatten().copied() {
    match byte {
      b'\r' => out.push(b'\n'),
      b'\n' if after_return => {}
      _ => out.push(byte),
    }
    after_return = byte == b'\r';
  }
  out
}

/// Tells the blocks which marker is theirs.
fn enclose(blocks: &mut [Block], holes: &[Hole], enclosures: &[(BlockId, Range<usize>)]) {
  let mut next = 0;
  let mut first_of_unclosed = true;
  let mut hole = 0;
  for block in blocks {
    let Some(start) = block.parts.first().map(|part| part.start) else { continue };
    let end = block.parts.last().map_or(start, |part| part.end);
    while enclosures.get(next).is_some_and(|(_, span)| span.end <= start) {
      next += 1;
    }
    if let Some((id, span)) = enclosures.get(next)
      && span.contains(&start)
      && (span.end != usize::MAX || std::mem::take(&mut first_of_unclosed))
    {
      block.marker = Some(id.clone());
    }
    while holes.get(hole).is_some_and(|hole| hole.span.end <= start) {
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

/// Segments from blocks and holes; what neither takes is blank.
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
