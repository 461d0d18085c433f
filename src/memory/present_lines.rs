//! A file in which some lines do not count: which of the others a text in it depends on.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{
  Block, BlockKind, LineHash,
  lead::{self, HtmlLead, OpenElements, introduces, rank_of, underline},
  line::{self, Line, LineKind, line_hash},
  plan::starts_entry,
};

/// How many lines of its own block, and of the text that introduces it, count on either side (a choice: no
/// sentence is longer).
const MAX_LINES: usize = 32;

/// The beginning of a line's hash. Stored names of contexts are made of these.
pub(super) type ShortHash = [u8; LineHash::SHORT];

pub(super) fn short_hash(line: &[u8]) -> ShortHash {
  line_hash(line).short()
}

/// A file in which some lines do not count.
pub(super) struct PresentLines<'a> {
  pub(super) file: &'a [u8],
  pub(super) blocks: &'a [Block],
  pub(super) absent: Absent,
}

/// The spans that do not count, by their beginning, because a file is checked once for each of its lines.
pub(super) struct Absent {
  spans: Vec<Range<usize>>,
  /// The farthest end of each span and of those before it.
  ends: Vec<usize>,
}

impl Absent {
  pub(super) fn of(spans: &[Range<usize>]) -> Self {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|span| span.start);
    let mut farthest = 0;
    let ends = spans.iter().map(|span| {
      farthest = farthest.max(span.end);
      farthest
    });
    let ends = ends.collect();
    Self { spans, ends }
  }

  /// The farthest end of the spans that begin at `at` or before.
  fn end(&self, at: usize) -> usize {
    let after = self.spans.partition_point(|span| span.start <= at);
    after.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0)
  }

  /// The spans that begin after `start` and before `end`.
  fn within(&self, start: usize, end: usize) -> impl Iterator<Item = &Range<usize>> {
    let first = self.spans.partition_point(|span| span.start <= start);
    self.spans.iter().skip(first).take_while(move |span| span.start < end)
  }
}

impl<'a> PresentLines<'a> {
  pub(super) fn is_absent(&self, at: usize) -> bool {
    self.absent.end(at) > at
  }

  fn says(&self, line: &Line) -> bool {
    let is_covered = || self.absent.end(line.span.start) >= line.span.end;
    line.kind != LineKind::Blank && !is_covered()
  }

  /// The hash of the rest of a line whose end is absent.
  fn hash(&self, line: &Line) -> ShortHash {
    let end = line.span.start + self.text(line).len();
    match self.absent.within(line.span.start, end).find(|gone| end <= gone.end) {
      Some(gone) => short_hash(line::slice(self.file, line.span.start..gone.start)),
      None => line.hash.short(),
    }
  }

  fn text(&self, line: &Line) -> &'a [u8] {
    line::content(line::slice(self.file, line.span.clone()))
  }

  /// The rest of a line that a span begins or ends within.
  fn rest(&self, part: Range<usize>) -> Option<&'a [u8]> {
    let text = line::content(line::slice(self.file, part));
    (!line::is_blank(text)).then_some(text)
  }

  fn head(&self, line: &Line, span: &Range<usize>) -> Option<&'a [u8]> {
    self.rest(line.span.start..span.start.max(line.span.start))
  }

  fn tail(&self, line: &Line, span: &Range<usize>) -> Option<&'a [u8]> {
    self.rest(span.end.min(line.span.end)..line.span.end)
  }

  /// The nearest lines of its block.
  pub(super) fn neighbours(
    &self,
    block: &Block,
    span: &Range<usize>,
  ) -> (Option<ShortHash>, Option<ShortHash>) {
    let (mut above, mut below) = (None, None);
    for one in &block.lines {
      if one.span.end <= span.start {
        above = if self.says(one) { Some(self.hash(one)) } else { above };
      } else if one.span.start >= span.end {
        if self.says(one) {
          below.get_or_insert(self.hash(one));
        }
        if below.is_some() {
          break;
        }
      } else {
        above = self.head(one, span).map(short_hash).or(above);
        below = self.tail(one, span).map(short_hash).or(below);
      }
    }
    (above, below)
  }

  /// The headings above a part of the block at `index`: each of a higher rank than the one before.
  pub(super) fn headings(&self, index: usize, span: &Range<usize>) -> Vec<ShortHash> {
    let mut chain = Vec::new();
    let (mut rank, mut folds) = (usize::MAX, 0);
    for block in self.blocks.iter().take(index + 1).rev() {
      if block.kind == BlockKind::Html {
        chain.extend(self.html_heading(block, span, (&mut rank, &mut folds)));
      }
      let count = if block.kind == BlockKind::Heading { block.lines.len() } else { block.body };
      // A heading of two lines has its rank in the lower one.
      let (mut lower, mut goes_on) = (None, false);
      let lines = block.lines.iter().take(count).filter(|one| one.span.start < span.end);
      for one in lines.rev().filter(|one| self.says(one)) {
        let text = self.text(one).trim_ascii();
        let own = rank_of(text);
        if underline(text).is_some() {
          (lower, goes_on) = (underline(text), false);
          continue;
        }
        let Some(of) = own.or(lower) else { continue };
        let counts = of < rank || goes_on && own.is_none();
        (lower, goes_on) = (lower.filter(|_| own.is_none()), counts && own.is_none());
        rank = rank.min(of);
        // A heading that is part of the text replaces the one of its rank above it.
        if counts && one.span.end <= span.start {
          chain.push(self.hash(one));
        }
      }
    }
    chain
  }

  /// All lines of a block of HTML above `span` that is a heading, or the title of a foldable element around
  /// `span`. `folds` is how many foldable elements end between the block and the span.
  fn html_heading(
    &self,
    block: &Block,
    span: &Range<usize>,
    (rank, folds): (&mut usize, &mut usize),
  ) -> Vec<ShortHash> {
    let body = block.lines.iter().skip(block.body);
    let lines: Vec<&Line> =
      body.filter(|one| one.span.end <= span.start && self.says(one)).collect();
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return vec![] };
    let lead = HtmlLead::of(line::slice(self.file, first.span.start..last.span.end));
    let is_unfolded = lead.opened > *folds + lead.closed;
    *folds = (*folds + lead.closed).saturating_sub(lead.opened);
    let is_heading = lead.rank.is_some_and(|of| of < *rank);
    *rank = lead.rank.map_or(*rank, |of| of.min(*rank));
    if is_heading || lead.has_title && is_unfolded {
      return lines.into_iter().rev().map(|one| self.hash(one)).collect();
    }
    vec![]
  }

  /// The lines that introduce the block at `index`: a block that ends with a colon or is emphasised as a
  /// whole, or a quote with such a line. It is right above the block, above it in its list, or right above
  /// that list.
  pub(super) fn intro(&self, index: usize) -> Vec<ShortHash> {
    let Some(mut below) = self.blocks.get(index) else { return vec![] };
    for block in self.blocks.iter().take(index).rev() {
      // A heading is between them.
      if below.body > 0 {
        break;
      }
      let body = block.lines.iter().skip(block.body).filter(|one| self.says(one));
      let lines: Vec<&Line> = body.rev().take(MAX_LINES).collect();
      let Some(last) = lines.first() else {
        if block.body > 0 {
          break;
        }
        continue;
      };
      let is_quoted = block.kind == BlockKind::Quote;
      if introduces(self.text(last))
        || is_quoted && lines.iter().any(|one| introduces(self.text(one)))
      {
        return lines.into_iter().map(|one| self.hash(one)).collect();
      }
      if (below.kind, block.kind) != (BlockKind::Item, BlockKind::Item) {
        break;
      }
      below = block;
    }
    vec![]
  }

  /// What contains the block at `index`, except headings and introductions.
  pub(super) fn holders(&self, index: usize, span: &Range<usize>) -> Vec<ShortHash> {
    let mut holders: Vec<ShortHash> = self.title(index).into_iter().collect();
    let above = |block: &'a Block| {
      block.lines.iter().filter(|one| one.span.end <= span.start && self.says(one))
    };
    let mut elements = OpenElements::default();
    for block in self.blocks.iter().take(index + 1) {
      match block.kind {
        BlockKind::Html => {
          above(block).for_each(|one| elements.read(self.text(one)));
        }
        // A date or a number in front matter changes daily without changing a meaning.
        BlockKind::FrontMatter => {
          let lines = above(block).filter(|one| !self.text(one).iter().any(u8::is_ascii_digit));
          holders.extend(lines.map(|one| self.hash(one)).take(MAX_LINES));
        }
        _ => {}
      }
    }
    holders.extend(elements.into_hashes());
    holders
  }

  /// Whether a thematic break is between the block at `index` and the nearest heading above it.
  pub(super) fn is_parted(&self, index: usize) -> bool {
    if self.blocks.get(index).is_none_or(|block| block.body > 0) {
      return false;
    }
    for block in self.blocks.iter().take(index).rev() {
      if block.kind == BlockKind::Rule && block.lines.iter().any(|one| self.says(one)) {
        return true;
      }
      if block.kind == BlockKind::Heading || block.body > 0 {
        return false;
      }
    }
    false
  }

  /// The line right above the list of the block at `index`, if it is the title of the list: no sign ends a
  /// sentence in it.
  fn title(&self, index: usize) -> Option<ShortHash> {
    let mut below = self.blocks.get(index).filter(|block| block.kind == BlockKind::Item)?;
    for block in self.blocks.iter().take(index).rev() {
      // A heading is between them.
      if below.body > 0 {
        return None;
      }
      match block.kind {
        BlockKind::Item => below = block,
        BlockKind::Paragraph => {
          let last = block.lines.iter().skip(block.body).rfind(|one| self.says(one))?;
          return lead::is_title(self.text(last)).then(|| self.hash(last));
        }
        _ => return None,
      }
    }
    None
  }

  /// The lines above the text in its block that belong to its statement: those of its own entry, those of
  /// the entries that it is nested in, and the head of a table.
  pub(super) fn before(&self, block: &Block, span: &Range<usize>) -> Vec<ShortHash> {
    let body = block.lines.iter().skip(block.body);
    let up: Vec<&Line> = body.filter(|one| one.span.start < span.end).collect();
    let first = up.iter().find(|one| one.span.end > span.start);
    let (mut is_open, mut depth) = match first {
      Some(first) => (!is_entry(block, self.text(first)), indent(self.text(first))),
      None => (true, 0),
    };
    let mut lines: Vec<ShortHash> =
      first.and_then(|first| self.head(first, span)).map(short_hash).into_iter().collect();
    let above = up.iter().rev().filter(|one| one.span.end <= span.start && self.says(one));
    for one in above {
      let text = self.text(one);
      if is_open || indent(text) < depth {
        lines.push(self.hash(one));
        (is_open, depth) = (!is_entry(block, text), indent(text));
      }
      if lines.len() >= MAX_LINES {
        break;
      }
    }
    if block.kind == BlockKind::Table {
      let head = up.iter().find(|one| one.span.end <= span.start && self.says(one));
      lines.extend(head.map(|one| self.hash(one)));
    }
    lines
  }

  /// The lines below the text up to the next entry, and after how many of them a new statement begins.
  pub(super) fn after(&self, block: &Block, span: &Range<usize>) -> (Vec<ShortHash>, Vec<usize>) {
    let (mut lines, mut ends) = (vec![], vec![]);
    let is_heading = block.lines.get(block.body).is_some_and(|first| span.end <= first.span.start);
    let mut goes_on = !is_heading && lead::goes_on(line::slice(self.file, span.clone()));
    for one in block.lines.iter().skip(block.body).filter(|one| one.span.end > span.start) {
      if one.span.start < span.end {
        if let Some(tail) = self.tail(one, span) {
          lines.push(short_hash(tail));
          goes_on = lead::goes_on(tail);
        }
        continue;
      }
      let text = self.text(one);
      if one.kind == LineKind::Blank {
        goes_on = false;
      } else if self.says(one) {
        if is_entry(block, text) || lines.len() >= MAX_LINES {
          break;
        }
        if !goes_on && !text.trim_ascii_start().first().is_some_and(u8::is_ascii_lowercase) {
          ends.push(lines.len());
        }
        lines.push(self.hash(one));
        goes_on = lead::goes_on(text);
      }
    }
    (lines, ends)
  }
}

/// How deep a line is indented, in columns.
fn indent(text: &[u8]) -> usize {
  let space = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
  space.map(|&byte| if byte == b'\t' { 4 } else { 1 }).sum()
}

/// Whether a line begins an entry of its own: an item of a list, a row of a table.
fn is_entry(block: &Block, text: &[u8]) -> bool {
  block.kind == BlockKind::Table || block.kind == BlockKind::Item && starts_entry(text)
}
