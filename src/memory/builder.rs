//! Blocks from lines: which line belongs to which block, and the hashes of both.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{
  Block, BlockKind, ContentHash, Line, LineHash,
  block::digest,
  coarse::{self, Grain, Joiner},
  comments::Hole,
  line::{self, LineKind},
  markdown::Top,
  outline::{Outline, TextLine},
};

/// Makes blocks of lines.
pub(crate) struct Builder<'a> {
  bytes: &'a [u8],
  holes: &'a [Hole],
  out: Out<'a>,
  open: Option<Block>,
  /// Blank lines that belong to the open block if another line of it follows.
  blank: Vec<usize>,
  /// The end of the parser's range of the open block.
  end: usize,
}

/// What becomes of the blocks.
enum Out<'a> {
  /// They are only counted, without their lines.
  Counted(usize),
  Joined(Joiner<'a>),
}

impl Out<'_> {
  fn n_blocks(self) -> usize {
    if let Self::Counted(n_blocks) = self { n_blocks } else { 0 }
  }

  fn blocks(self) -> (Vec<Block>, bool) {
    if let Self::Joined(joiner) = self { joiner.finish() } else { Default::default() }
  }
}

impl<'a> Builder<'a> {
  /// The blocks of a file, without their markers; also whether neighbours were joined, because they are too many.
  pub(crate) fn build(bytes: &'a [u8], holes: &'a [Hole], outline: &Outline) -> (Vec<Block>, bool) {
    let walked = |out| {
      let mut builder = Self { bytes, holes, out, open: None, blank: Vec::new(), end: 0 };
      builder.walk(&outline.lines, outline.front, &outline.tops);
      builder.out
    };
    // A block has a line of text. Where there may be too many, they are counted first, because all of them at one
    // time would take up to a hundred times the memory of their bytes.
    let most = coarse::most_blocks(bytes.len());
    let n_lines = outline.lines.iter().filter(|line| !line.blank).count();
    let n_blocks = if n_lines > most { walked(Out::Counted(0)).n_blocks() } else { 0 };
    walked(Out::Joined(Joiner::new(bytes, holes, Grain::of(n_blocks, most)))).blocks()
  }

  fn walk(&mut self, lines: &[TextLine], front: usize, tops: &[Top]) {
    for (at, text) in lines.iter().enumerate().take(front) {
      if at == 0 {
        self.start(BlockKind::FrontMatter, false, text.number);
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
            self.join_or_start(top.kind, top.open_ended, text.number);
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
        self.join_or_start(BlockKind::Definition, false, text.number);
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
  fn join_or_start(&mut self, kind: BlockKind, open_ended: bool, start_line: usize) {
    if let Some(open) = &mut self.open
      && open.kind == BlockKind::Heading
    {
      open.kind = kind;
      open.open_ended = open_ended;
      open.body = open.lines.len() + self.blank.len();
    } else {
      self.finish();
      self.blank.clear();
      self.start(kind, open_ended, start_line);
    }
  }

  fn start(&mut self, kind: BlockKind, open_ended: bool, start_line: usize) {
    self.open = Some(Block {
      kind,
      parts: Vec::new(),
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

  fn add(&mut self, text: &TextLine) {
    let Some(open) = &mut self.open else { return };
    if matches!(self.out, Out::Counted(_)) {
      return;
    }
    open.end_line = text.number;
    // Most blocks have one line and one part, and a vector makes room for four.
    if open.lines.is_empty() {
      open.lines.reserve_exact(1);
      open.parts.reserve_exact(1);
    }
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
      (LineHash::of([line::content(&whole)]), LineKind::of(&whole))
    } else {
      push(text.span.clone());
      let kind = if text.blank {
        LineKind::Blank
      } else {
        LineKind::of(line::slice(self.bytes, text.span.clone()))
      };
      // A block of one line gets this from its own hash.
      (LineHash::default(), kind)
    };
    open.lines.push(Line {
      span: text.span.clone(),
      number: text.number,
      hash,
      kind,
      is_tail: false,
    });
  }

  fn finish(&mut self) {
    let Some(mut block) = self.open.take() else { return };
    self.end = 0;
    match &mut self.out {
      Out::Counted(n_blocks) => *n_blocks += 1,
      Out::Joined(joiner) => {
        digest(&mut block, self.bytes);
        joiner.add(block);
      }
    }
  }
}
