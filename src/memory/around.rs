//! The context of a text: the lines around it that a decision about it depended on.
//!
//! The context is: the headings above the text, whether a thematic break (`---`) separates it from them, the
//! line that introduces it, the HTML elements that contain it, the front matter of its file, and the sentence
//! that it is part of. Neighbouring entries that are
//! complete by themselves are not part of the context, because they come and go daily.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{
  Block, BlockKind, ContentHash, Document, LineHash,
  lead::{self, HtmlLead, OpenElements, introduces, rank_of, underline},
  line::{self, Line, LineKind, line_hash},
  plan::starts_entry,
};

/// How many lines of its own block, and of the text that introduces it, count on either side (a choice: no
/// sentence is longer).
const MAX_LINES: usize = 32;

/// How many bytes at the start of a name are the hash of the neighbours alone.
const NEIGHBOURS: usize = 16;

/// The bytes after them in a name that covers more. Names of version 1 do not cover [`Around::holders`], and
/// those of version 2 do not cover [`Around::is_parted`].
const WIDE_1: &[u8] = b"wide";
const WIDE_2: &[u8] = b"wid2";
const WIDE: &[u8] = b"wid3";
const VERSIONS: [&[u8]; 3] = [WIDE, WIDE_2, WIDE_1];

/// The beginning of a line's hash. Stored names of contexts are made of these.
type ShortHash = [u8; LineHash::SHORT];

fn short_hash(line: &[u8]) -> ShortHash {
  line_hash(line).short()
}

/// The lines around a run of bytes in its file, as hashes. Blank lines and memfw's own comments do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
  /// The neighbours in its block: all that older versions counted.
  above: Option<ShortHash>,
  below: Option<ShortHash>,
  /// Whether code or HTML began before the text and contains it, and whether that is HTML.
  inside: Option<bool>,
  /// The headings above it, the nearest first.
  headings: Vec<ShortHash>,
  /// The lines that introduce it, the nearest first.
  intro: Vec<ShortHash>,
  /// The lines above it that belong to its statement, the nearest first.
  before: Vec<ShortHash>,
  /// The lines below it that do, the nearest first.
  after: Vec<ShortHash>,
  /// After how many of those a new statement begins: the rest may have been added since.
  ends: Vec<usize>,
  /// The title right above its list, the HTML elements that are open at its start, and the front matter.
  holders: Vec<ShortHash>,
  /// Whether a thematic break is between it and the nearest heading, or the start of the file.
  is_parted: bool,
}

impl Around {
  /// The lines around `span`, in bytes of `file`. If the span begins or ends within a line, the rest of that
  /// line is its neighbour.
  pub fn of(file: &[u8], document: &Document, span: &Range<usize>) -> Self {
    Self::without(file, document, span, &[])
  }

  /// Like [`Around::of`], as if the lines in `absent` were not in the file: those that the same edit takes
  /// out, or that were restored next to the text.
  pub fn without(
    file: &[u8],
    document: &Document,
    span: &Range<usize>,
    absent: &[Range<usize>],
  ) -> Self {
    let blocks = document.undivided();
    let Some(at) = document.block_at(span.start) else { return Self::default() };
    let page = Page { file, blocks, absent: Absent::of(absent) };
    let Some(block) = blocks.get(at) else { return Self::default() };
    let (above, below) = page.neighbours(block, span);
    let enclosure = document.enclosure(span.start).filter(|one| !page.is_absent(one.span.start));
    let (after, ends) = page.after(block, span);
    Self {
      above,
      below,
      inside: enclosure.map(|one| one.is_html),
      headings: page.headings(at, span),
      intro: page.intro(at),
      before: page.before(block, span),
      after,
      ends,
      holders: page.holders(at, span),
      is_parted: page.is_parted(at),
    }
  }

  /// Whether the text is the whole content of its block.
  pub const fn is_whole(&self) -> bool {
    self.above.is_none() && self.below.is_none()
  }

  /// A name for this context in the file at `path`.
  pub fn name(&self, path: &[u8]) -> ContentHash {
    self.cut(path, self.after.len(), WIDE)
  }

  /// Whether the decision with this context name was made in this context, or before something was added
  /// below the text. Names of older versions cover only neighbours, so only those are compared.
  pub fn is_of(&self, path: &[u8], name: &ContentHash) -> bool {
    if !Self::is_wide(name) {
      return *name == self.neighbours(path);
    }
    let rest = name.0.get(NEIGHBOURS..).unwrap_or_default();
    let version = VERSIONS.into_iter().find(|one| rest.starts_with(one)).unwrap_or(WIDE);
    let mut ends = self.ends.iter().copied().chain([self.after.len()]);
    ends.any(|end| self.cut(path, end, version).0.get(NEIGHBOURS..) == Some(rest))
  }

  /// Whether a decision was made between equal neighbours, regardless of the rest of the context.
  pub fn is_beside(&self, path: &[u8], name: &ContentHash) -> bool {
    self.neighbours(path).0.get(..NEIGHBOURS) == name.0.get(..NEIGHBOURS)
  }

  /// Whether a name covers more than the neighbours; names of older versions do not.
  pub fn is_wide(name: &ContentHash) -> bool {
    let rest = name.0.get(NEIGHBOURS..).unwrap_or_default();
    VERSIONS.iter().any(|one| rest.starts_with(one))
  }

  /// The name in older versions: a hash of the neighbours.
  pub fn neighbours(&self, path: &[u8]) -> ContentHash {
    // The flag distinguishes a missing neighbour from one whose hash is zero.
    let byte = |one: Option<ShortHash>| [u8::from(one.is_some())];
    let (above, below) = (self.above.unwrap_or_default(), self.below.unwrap_or_default());
    let parts = [&byte(self.above)[..], &above, &byte(self.below), &below, path];
    ContentHash::of_parts(parts)
  }

  /// The name of this version as if only `below` lines followed.
  fn cut(&self, path: &[u8], below: usize, version: &[u8]) -> ContentHash {
    let inside = [self.inside.map_or(0, |is_html| 1 + u8::from(is_html))];
    let mut lists = vec![
      &self.headings[..],
      &self.intro[..],
      &self.before[..],
      self.after.get(..below).unwrap_or_default(),
    ];
    if version != WIDE_1 {
      lists.push(&self.holders);
    }
    let parted = [short_hash(b"---")];
    if version == WIDE && self.is_parted {
      lists.push(&parted);
    }
    // The lengths prevent lines of one list from counting as lines of the next.
    let lengths: Vec<[u8; 8]> =
      lists.iter().map(|list| (list.len() as u64).to_le_bytes()).collect();
    let lines = lists.iter().flat_map(|list| list.iter()).map(|hash| &hash[..]);
    let lengths = lengths.iter().map(|length| &length[..]);
    let all =
      ContentHash::of_parts(std::iter::once(&inside[..]).chain(lengths).chain(lines).chain([path]));
    let head = self.neighbours(path).0.into_iter().take(NEIGHBOURS);
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(head.chain(version.iter().copied()).chain(all.0)) {
      *to = from;
    }
    ContentHash(name)
  }
}

/// A file in which some lines do not count.
struct Page<'a> {
  file: &'a [u8],
  blocks: &'a [Block],
  absent: Absent,
}

/// The spans that do not count, by their beginning, because a file is checked once for each of its lines.
struct Absent {
  spans: Vec<Range<usize>>,
  /// The farthest end of each span and of those before it.
  ends: Vec<usize>,
}

impl Absent {
  fn of(spans: &[Range<usize>]) -> Self {
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

impl<'a> Page<'a> {
  fn is_absent(&self, at: usize) -> bool {
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
  fn neighbours(
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
  fn headings(&self, index: usize, span: &Range<usize>) -> Vec<ShortHash> {
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
  fn intro(&self, index: usize) -> Vec<ShortHash> {
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
  fn holders(&self, index: usize, span: &Range<usize>) -> Vec<ShortHash> {
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
  fn is_parted(&self, index: usize) -> bool {
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
  fn before(&self, block: &Block, span: &Range<usize>) -> Vec<ShortHash> {
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
  fn after(&self, block: &Block, span: &Range<usize>) -> (Vec<ShortHash>, Vec<usize>) {
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

#[cfg(test)]
mod tests {
  use super::*;
  use crate::memory::Known;

  const PATH: &[u8] = b"/a.md";

  fn of(text: &str, what: &str) -> Around {
    let document = Document::parse(text.as_bytes(), &Known::default());
    let start = text.find(what).unwrap();
    Around::of(text.as_bytes(), &document, &(start..start + what.len()))
  }

  /// Whether a decision about the first text is valid in the second one.
  fn holds(before: &str, now: &str) -> bool {
    of(now, "Tea").is_of(PATH, &of(before, "Tea").name(PATH))
  }

  #[test]
  fn a_text_alone_in_its_block_is_whole() {
    assert!(of("Tea.\n", "Tea.\n").is_whole());
    assert!(of("a\n\nTea.\n\nb\n", "Tea.\n").is_whole(), "other blocks are no neighbours");
    assert!(of("- a\n- Tea.\n- b\n", "- Tea.\n").is_whole());
    assert!(!of("# Drinks\n\nTea.\n", "Tea.\n").is_whole(), "a heading belongs to its block");
  }

  #[test]
  fn what_changes_the_meaning_counts() {
    for (before, now) in [
      ("# A\n\nTea\n", "# B\n\nTea\n"),
      ("# A\n\n## C\n\nx\n\nTea\n", "# B\n\n## C\n\nx\n\nTea\n"),
      ("A\nb\n===\n\nx\n\nTea\n", "B\nb\n===\n\nx\n\nTea\n"),
      ("A:\n\n- x\n- Tea\n", "B:\n\n- x\n- Tea\n"),
      ("A\nb:\n\nTea\n", "B\nb:\n\nTea\n"),
      ("**A**\n\n1. x\n2. Tea\n", "**B**\n\n1. x\n2. Tea\n"),
      ("A：\n\n- Tea\n", "B：\n\n- Tea\n"),
      ("A\nb\nTea\n", "B\nb\nTea\n"),
      ("Tea\na\nb\n", "Tea\na\nB\n"),
      ("Tea\nA\n", "Tea\nB\n"),
      ("Tea\n", "Tea\nis bad\n"),
      ("Tea,\n", "Tea,\nA\n"),
      ("Tea\n", "A\nTea\n"),
      ("Tea\n", "```\nTea\n```\n"),
      ("Tea\n", "<!--\nTea\n-->\n"),
      ("- A\n  - x\n  - Tea\n", "- B\n  - x\n  - Tea\n"),
      ("- A\n  - x\n    y\n  - Tea\n    more\n", "- A\n  - x\n    y\n  - Tea\n    less\n"),
      (
        "| A | b |\n|---|---|\n| x | y |\n| Tea | z |\n",
        "| B | b |\n|---|---|\n| x | y |\n| Tea | z |\n",
      ),
      ("Buy Tea\n", "Sell Tea\n"),
      ("# A\n\nTea\n", "# A\n\n<h2>B</h2>\n\nTea\n"),
      ("<h2>\nA\n</h2>\n\nx\n\nTea\n", "<h2>\nB\n</h2>\n\nx\n\nTea\n"),
      ("## A\n\n<h3>B</h3>\n\nx\n\nTea\n", "## C\n\n<h3>B</h3>\n\nx\n\nTea\n"),
      (
        "<details><summary>A</summary>\n\n# B\n\nTea\n",
        "<details><summary>C</summary>\n\n# B\n\nTea\n",
      ),
      (
        "<details>\n<summary>A</summary>\n\n<details>\nx\n</details>\n\nTea\n",
        "<details>\n<summary>B</summary>\n\n<details>\nx\n</details>\n\nTea\n",
      ),
      ("A:<br>\n\n- Tea\n", "B:<br>\n\n- Tea\n"),
      ("A\n\n- x\n- Tea\n", "B\n\n- x\n- Tea\n"),
      ("A\n- Tea\n", "- Tea\n"),
      ("<del>\n\nx\n\nTea\n\n</del>\n", "x\n\nTea\n"),
      ("<template>\n\n# A\n\nTea\n\n</template>\n", "# A\n\nTea\n"),
      (
        "<div class=\"false\">\n\nx\n\nTea\n\n</div>\n",
        "<div class=\"true\">\n\nx\n\nTea\n\n</div>\n",
      ),
      ("<del>\n\nx\n\nTea\n\n</del>\n", "<del>\n\nx\n\n</del>\n\nTea\n"),
      ("---\nkind: examples of fraud\n---\n\nTea\n", "Tea\n"),
      ("*A*\n\n- Tea\n", "*B*\n\n- Tea\n"),
      ("> A:\n>\n> x\n\nTea\n", "Tea\n"),
      ("> A:\n>\n> x\n\n- x\n- Tea\n", "> B:\n>\n> x\n\n- x\n- Tea\n"),
      ("# A\n\nTea\n", "# A\n\n---\n\nTea\n"),
      ("# A\n\n---\n\nx\n\nTea\n", "# A\n\nx\n\nTea\n"),
      ("x\n\nTea\n", "x\n\n***\n\nTea\n"),
    ] {
      assert!(holds(before, before), "{before}");
      assert!(!holds(before, now), "{now}");
    }
  }

  #[test]
  fn what_stands_for_itself_does_not_count() {
    for (before, now) in [
      ("# A\n\n## B\n\nTea\n", "# A\n\n## X\n\nx\n\n## B\n\nTea\n\n## C\n\nmore\n"),
      ("# A\n\n# B\n\nTea\n", "# C\n\n# B\n\nTea\n"),
      ("A\n===\n\nB\n===\n\nTea\n", "C\n===\n\nB\n===\n\nTea\n"),
      ("A:\n\n- x\n- Tea\n", "A:\n\n- y\n- z\n- Tea\n- x\n"),
      ("A.\n\n- Tea\n", "B.\n\n- Tea\n"),
      ("A\n\n## C\n\n- Tea\n", "B\n\n## C\n\n- Tea\n"),
      ("<del>\n\nx\n\n</del>\n\nTea\n", "<ins>\n\nx\n\n</ins>\n\nTea\n"),
      ("x\n\nTea\n", "x\n\nTea\n\n<del>\n\ny\n\n</del>\n"),
      ("---\nupdated: 2026-11-01\n---\n\nTea\n", "---\nupdated: 2026-11-02\n---\n\nTea\n"),
      ("A:\n\nx\n\nTea\n", "B:\n\nx\n\nTea\n"),
      ("Tea.\n", "Tea.\nMilk\nand more\n"),
      ("- A\n  - x\n  - Tea\n", "- A\n  - y\n    z\n  - Tea\n  - x\n"),
      ("- a\n\n  Tea.\n", "- a\n  Tea.\n"),
      (
        "| A | b |\n|---|---|\n| Tea | z |\n",
        "| A | b |\n|---|---|\n| x | y |\n| Tea | z |\n| z | z |\n",
      ),
      ("Tea.\r\n", "Tea.\n"),
      ("<h2>A</h2>\n\n## B\n\nTea\n", "<h2>C</h2>\n\n## B\n\nTea\n"),
      (
        "<details><summary>A</summary>\n\nx\n\n</details>\n\nTea\n",
        "<details><summary>B</summary>\n\nx\n\n</details>\n\nTea\n",
      ),
      ("> A\n\nTea\n", "> B\n\nTea\n"),
      ("# A\n\n---\n\nTea\n", "# A\n\n---\n\nx\n\n---\n\nTea\n"),
      ("# A\n\nx\n\n## B\n\nTea\n", "# A\n\nx\n\n---\n\n## B\n\nTea\n\n---\n"),
    ] {
      assert!(holds(before, now), "{now}");
    }
  }

  #[test]
  fn what_leaves_in_the_same_edit_does_not_count() {
    let text = b"one\nMilk\nTea.\nthree\n";
    let document = Document::parse(text, &Known::default());
    let without = Around::without(text, &document, &(9..14), std::slice::from_ref(&(4..9)));
    assert_eq!(without, of("one\nTea.\nthree\n", "Tea.\n"));
    assert_ne!(without, Around::of(text, &document, &(9..14)));
  }

  #[test]
  fn names_of_older_versions_are_known_and_told_apart() {
    let (here, moved) = (of("# A\n\nx\nTea\n", "Tea\n"), of("# B\n\nx\nTea\n", "Tea\n"));
    assert!(Around::is_wide(&here.name(PATH)) && !Around::is_wide(&here.neighbours(PATH)));
    let held = of("<del>\n\nx\n\nTea\n", "Tea\n");
    let before = held.cut(PATH, 0, WIDE_1);
    assert!(Around::is_wide(&before) && held.is_of(PATH, &before));
    assert!(of("x\n\nTea\n", "Tea\n").is_of(PATH, &before), "version 1 did not know the element");
    let (plain, parted) = (of("x\n\nTea\n", "Tea\n"), of("x\n\n---\n\nTea\n", "Tea\n"));
    assert!(parted.is_of(PATH, &plain.cut(PATH, 0, WIDE_2)), "version 2 did not know the break");
    assert!(!parted.is_of(PATH, &plain.name(PATH)));
    assert!(moved.is_of(PATH, &here.neighbours(PATH)) && !moved.is_of(PATH, &here.name(PATH)));
    assert!(
      moved.is_beside(PATH, &here.name(PATH)) && moved.is_beside(PATH, &here.neighbours(PATH))
    );
    assert_ne!(here.name(PATH), here.name(b"/b.md"), "another file is another context");
    assert!(!here.is_beside(b"/b.md", &here.name(PATH)));
  }
}
