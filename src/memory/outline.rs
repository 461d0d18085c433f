//! The structure of a file before there are blocks: its lines of text between memfw's own comments, and the
//! top-level blocks of the markdown parser, in bytes of the file.
//!
//! Invariant: every byte that is in no hole is in exactly one line.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use crate::memory::{
  BlockKind,
  coarse::{self, Grain},
  comments::Hole,
  line,
  markdown::{self, Enclosure, Top},
};

/// A line of text: its span, and whether it has a hole.
pub(crate) struct TextLine {
  pub(crate) span: Range<usize>,
  /// Index of the first hole at or after the line's start.
  pub(crate) hole: usize,
  /// Whether that hole is inside the line.
  pub(crate) holed: bool,
  pub(crate) blank: bool,
  /// Its number in the file, from 1; lone returns do not count, as in any editor.
  pub(crate) number: usize,
}

/// The structure of a file before there are blocks.
pub(crate) struct Outline {
  pub(crate) lines: Vec<TextLine>,
  /// How many lines at the start are front matter.
  pub(crate) front: usize,
  /// The blocks of the parser after the front matter.
  pub(crate) tops: Vec<Top>,
  /// The code and the HTML among those blocks.
  pub(crate) enclosures: Vec<Enclosure>,
  /// Whether each line is a block, and may be several lines of the file, because the file has too many lines or
  /// too much markup.
  pub(crate) coarse: bool,
}

impl Outline {
  /// `text` is the file if it is UTF-8; lines start at `start`, after a byte order mark.
  pub(crate) fn of(bytes: &[u8], text: Option<&str>, start: usize, holes: &[Hole]) -> Self {
    let is_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
    let count = bytes.iter().filter(is_end).count();
    let grain = Grain::of(count, coarse::most_lines(bytes.len()));
    let lines = lines(bytes, text, start, holes, grain);
    if grain.is_some() || markdown::has_too_many_signs(bytes) {
      // The parser would need up to a hundred times the size of such a file as memory.
      let tops = lines.iter().filter(|line| !line.blank).map(|line| Top {
        span: line.span.clone(),
        kind: BlockKind::Paragraph,
        open_ended: false,
      });
      let tops = tops.collect();
      return Self { lines, front: 0, tops, enclosures: Vec::new(), coarse: true };
    }
    let front = front_matter(bytes, &lines, holes);
    let (tops, enclosures) = structure(bytes, text, holes, &lines, front);
    Self { lines, front, tops, enclosures, coarse: false }
  }
}

/// The lines of the text between the holes. A hole that covers whole lines is between lines; one inside a
/// line is inside that line.
fn lines(
  bytes: &[u8],
  text: Option<&str>,
  start: usize,
  holes: &[Hole],
  grain: Option<Grain>,
) -> Vec<TextLine> {
  let mut lines = Vec::with_capacity(bytes.len() / 40);
  let (mut at, mut hole, mut number) = (start, 0, 1);
  // Nearly every file has no lone return, and then the standard library finds line ends faster.
  let text = text.filter(|_| !bytes.contains(&b'\r'));
  let single_end = |at: usize| match text.and_then(|text| text.get(at..)) {
    Some(rest) => rest.find('\n').map_or(bytes.len(), |offset| at + offset + 1),
    None => line::line_end(bytes, at),
  };
  // A unit of several lines ends before a line in which a hole begins.
  let line_end = |at: usize, hole: usize| {
    let mut end = single_end(at);
    let Some(grain) = grain else { return end };
    let stop = holes.get(hole).map_or(usize::MAX, |hole| hole.span.start);
    let (mut from, mut count) = (at, 1);
    while end < bytes.len() {
      let next = single_end(end);
      if grain.ends(count, coarse::spread(line::slice(bytes, from..end))) || next > stop {
        break;
      }
      (from, end) = (end, next);
      count += 1;
    }
    end
  };
  let newlines = |span| line::newlines(line::slice(bytes, span));
  while at < bytes.len() {
    if let Some(next) = holes.get(hole)
      && next.span.start <= at
    {
      number += newlines(at..next.span.end);
      at = at.max(next.span.end);
      hole += 1;
      continue;
    }
    let (begin, first_hole) = (at, hole);
    let mut end = line_end(at, hole);
    let mut blank = true;
    // Holes inside the line are skipped; one that starts where the line ends is not inside.
    while let Some(next) = holes.get(hole).filter(|next| next.span.start < end) {
      blank &= line::is_blank(line::slice(bytes, at..next.span.start));
      at = next.span.end;
      hole += 1;
      // A region of several lines that begins inside this line includes its line end.
      end = if at >= end && matches!(bytes.get(at - 1), Some(b'\n' | b'\r')) {
        at
      } else {
        line_end(at, hole)
      };
    }
    blank &= line::is_blank(line::slice(bytes, at..end));
    let holed = hole > first_hole;
    // A hole at the very end of the last line is not part of it.
    let stop = match holes.get(hole.wrapping_sub(1)) {
      Some(last) if holed && last.span.end == end => last.span.start,
      _ => end,
    };
    lines.push(TextLine { span: begin..stop, hole: first_hole, holed, blank, number });
    number += if holed || grain.is_some() {
      newlines(begin..end)
    } else {
      usize::from(bytes.get(end - 1) == Some(&b'\n'))
    };
    at = end;
  }
  lines
}

/// How many lines at the start are front matter.
fn front_matter(bytes: &[u8], lines: &[TextLine], holes: &[Hole]) -> usize {
  let text = |line: &TextLine| -> &[u8] {
    // Up to the first hole, if only space follows it.
    let hole = holes.get(line.hole).filter(|_| line.holed).map(|hole| hole.span.clone());
    let (end, after) = hole.map_or((line.span.end, line.span.end), |hole| (hole.start, hole.end));
    if line::is_blank(line::slice(bytes, after..line.span.end)) {
      line::slice(bytes, line.span.start..end).trim_ascii_end()
    } else {
      line::slice(bytes, line.span.clone())
    }
  };
  if lines.first().is_none_or(|first| text(first) != b"---") {
    return 0;
  }
  let close = lines.iter().skip(1).position(|line| matches!(text(line), b"---" | b"..."));
  close.map_or(0, |at| at + 2)
}

/// Runs of blank lines longer than this are shortened for the parser, because it walks all open containers
/// for each of them; their meaning in markdown does not change.
const MAX_BLANK_RUN: usize = 4;

/// The top-level blocks after the front matter, in bytes of the file.
fn structure(
  bytes: &[u8],
  text: Option<&str>,
  holes: &[Hole],
  lines: &[TextLine],
  front: usize,
) -> (Vec<Top>, Vec<Enclosure>) {
  let Some(first) = lines.get(front) else { return Default::default() };
  let start = first.span.start;
  // The cuts that the parser does not get: holes and the rest of long blank runs.
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

  let text = parser_text(bytes, text, start, &cuts, &plain);
  let (mut tops, mut enclosures) = markdown::structure(&text);
  // Offsets in the parsed text become offsets in the file.
  let mut map = OffsetMap { cuts: &cuts, next: 0, shift: start };
  for top in &mut tops {
    top.span.start = map.in_file(top.span.start);
    // Ends are after later starts only inside nested structure, which is not listed here.
    top.span.end = OffsetMap { ..map }.end_in_file(top.span.end);
  }
  let mut map = OffsetMap { cuts: &cuts, next: 0, shift: start };
  for one in &mut enclosures {
    one.span.start = map.in_file(one.span.start);
    one.span.end = OffsetMap { ..map }.end_in_file(one.span.end);
  }
  (tops, enclosures)
}

/// The text that the parser sees: from `start`, without the cuts, each invalid byte as one 0x1A.
fn parser_text<'a>(
  bytes: &'a [u8],
  text: Option<&'a str>,
  start: usize,
  cuts: &[Range<usize>],
  plain: &[usize],
) -> Cow<'a, str> {
  let whole = bytes.get(start..).unwrap_or_default();
  if cuts.is_empty()
    && plain.is_empty()
    && let Some(text) = text.and_then(|text| text.get(start..))
  {
    return Cow::Borrowed(text);
  }
  let mut out = String::with_capacity(whole.len());
  let mut plain = plain.iter().copied().peekable();
  let mut at = start;
  for cut in cuts.iter().cloned().chain(std::iter::once(bytes.len()..bytes.len())) {
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
      // A letter opens no container.
      _ if b.is_ascii() => 'x',
      _ => '\u{1a}',
    });
  }
}

fn push_valid(bytes: &[u8], out: &mut String) {
  for chunk in bytes.utf8_chunks() {
    out.push_str(chunk.valid());
    // One byte for one byte, so that offsets stay equal.
    out.extend(chunk.invalid().iter().map(|_| '\u{1a}'));
  }
}

/// Converts offsets of the parsed text to offsets of the file; they must be queried in ascending order.
struct OffsetMap<'a> {
  cuts: &'a [Range<usize>],
  next: usize,
  shift: usize,
}

impl OffsetMap<'_> {
  /// The offset after the cuts at this place.
  fn in_file(&mut self, offset: usize) -> usize {
    while let Some(cut) = self.cuts.get(self.next).filter(|cut| cut.start <= offset + self.shift) {
      self.shift += cut.len();
      self.next += 1;
    }
    offset + self.shift
  }

  /// The offset before the cuts at this place.
  fn end_in_file(mut self, offset: usize) -> usize {
    while let Some(cut) = self.cuts.get(self.next).filter(|cut| cut.start < offset + self.shift) {
      self.shift += cut.len();
      self.next += 1;
    }
    offset + self.shift
  }
}
