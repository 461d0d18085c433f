//! Finding memfw's own comments in a file: the holes that are taken out before structure is parsed.
//!
//! A comment counts only if the ledger knows its id, if it is exactly as memfw prints it, and if its fields
//! contain no words; any other comment is text and is judged as text.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  sync::LazyLock,
};

use aho_corasick::AhoCorasick;

use crate::memory::{BlockId, line, marker, placeholder};

/// Text on the same line after a placeholder: a file without a final newline was appended to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
  /// The placeholder.
  pub id: BlockId,
  /// The text after it, including the line end.
  pub rest: Range<usize>,
}

/// What the ledger knows about one file: the ids whose comments are memfw's.
#[derive(Clone, Debug, Default)]
pub struct Known {
  /// Ids of markers and id comments.
  pub markers: HashSet<BlockId>,
  /// Ids of placeholders.
  pub placeholders: HashSet<BlockId>,
  /// The redacted form as it was written, for ids whose form is known. With it the whole region is
  /// recognised; without it only the placeholder's own line is, and further lines of spaces are blank.
  pub redacted: HashMap<BlockId, Vec<u8>>,
  /// Whether a word is a flag of markers; without this function every word may be one.
  pub is_flag: Option<fn(&str) -> bool>,
  /// Whether a word is the beginning of such a flag; without it every word may be.
  pub begins_flag: Option<fn(&str) -> bool>,
  /// Sources and sessions of the file as recorded in the ledger: earlier versions wrote them in full.
  pub names: HashSet<String>,
}

impl Known {
  /// Whether memfw wrote the content of a marker with a known id.
  pub(super) fn is_ours(&self, marker: &marker::Marker) -> bool {
    let is_flag = self.is_flag.unwrap_or(|_| true);
    self.markers.contains(&marker.id)
      && (marker.is_terse(is_flag)
        || marker.is_terse_but_for(is_flag, |name| self.names.contains(name)))
  }
}

/// What a hole is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoleKind {
  /// An opening marker line.
  Opener(BlockId),
  /// A closing marker line, matched or orphaned.
  Closer,
  /// A trailing id comment with the space before it.
  IdMark(BlockId),
  /// A placeholder of this id, with the space around it if it fills its line.
  Placeholder(BlockId),
}

/// A run of bytes that is memfw's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
  /// Bytes of the file.
  pub span: Range<usize>,
  /// What it is.
  pub kind: HoleKind,
}

/// The comments that were found in one file.
#[derive(Debug, Default)]
pub struct Comments {
  /// In file order, disjoint.
  pub holes: Vec<Hole>,
  /// Lines on which text follows a placeholder.
  pub continued: Vec<Continued>,
  /// Marker lines with a known id that are text, because they repeat an id or are inside another marker.
  pub forged: Vec<Range<usize>>,
  /// Whether `memfw` occurs anywhere in the file.
  pub mentioned: bool,
  /// The range that each matched opener encloses; an opener that is never closed encloses up to
  /// `usize::MAX`.
  pub enclosures: Vec<(BlockId, Range<usize>)>,
}

static WORD: LazyLock<AhoCorasick> =
  LazyLock::new(|| AhoCorasick::new(["memfw"]).expect("one short literal always builds"));

/// Finds the comments in `bytes` from `from` on.
pub fn find(bytes: &[u8], from: usize, known: &Known) -> Comments {
  let mut scan =
    Scan { bytes, known, out: Comments::default(), opened: HashSet::new(), open: None };
  // Without known ids every comment is text, so the file is not searched.
  if known.markers.is_empty() && known.placeholders.is_empty() {
    return scan.out;
  }
  // Lines are visited once, in order; `done` is the end of the processed part.
  let mut done = from;
  let mut words = Vec::new();
  let mut current: Option<Range<usize>> = None;
  for hit in WORD.find_iter(bytes.get(from..).unwrap_or_default()) {
    let word = from + hit.start();
    scan.out.mentioned = true;
    if let Some(line) = &current {
      if word < line.end {
        words.push(word);
        continue;
      }
      done = scan.line(line.clone(), &words, done);
      words.clear();
    }
    let start = line::line_start(bytes, word, done);
    current = Some(start..line::line_end(bytes, word));
    words.push(word);
  }
  if let Some(line) = current {
    scan.line(line, &words, done);
  }
  if let Some(id) = scan.open.take() {
    let start = scan.opened_at(&id);
    scan.out.enclosures.push((id, start..usize::MAX));
  }
  scan.out
}

struct Scan<'a> {
  bytes: &'a [u8],
  known: &'a Known,
  out: Comments,
  opened: HashSet<BlockId>,
  open: Option<BlockId>,
}

impl Scan<'_> {
  /// Processes a line that contains `memfw` at `words`; returns the end of the processed part, which is
  /// after the line if a region of several lines began in it.
  fn line(&mut self, span: Range<usize>, words: &[usize], done: usize) -> usize {
    if span.end <= done {
      return done;
    }
    // A region that ended inside this line includes its start.
    let span = span.start.max(done)..span.end;
    let text = line::slice(self.bytes, span.clone()).trim_ascii();
    if text == marker::CLOSER.as_bytes() {
      return self.closer(span);
    }
    if text.starts_with(b"<!-- memfw:id=")
      && let Some(marker) = marker::Marker::parse(text)
      && self.known.is_ours(&marker)
    {
      return self.opener(span, marker.id);
    }
    self.inline(span, words, done)
  }

  fn opener(&mut self, span: Range<usize>, id: BlockId) -> usize {
    let end = span.end;
    if self.open.is_some() || self.opened.contains(&id) {
      self.out.forged.push(span);
    } else {
      self.opened.insert(id.clone());
      self.out.holes.push(Hole { span, kind: HoleKind::Opener(id.clone()) });
      self.open = Some(id);
    }
    end
  }

  fn closer(&mut self, span: Range<usize>) -> usize {
    let end = span.end;
    if let Some(id) = self.open.take() {
      let start = self.opened_at(&id);
      self.out.enclosures.push((id, start..span.start));
    // In a file without markers of memfw, a closing line cannot be memfw's.
    } else if self.known.markers.is_empty() {
      return end;
    }
    self.out.holes.push(Hole { span, kind: HoleKind::Closer });
    end
  }

  fn opened_at(&self, id: &BlockId) -> usize {
    let mut openers = self.out.holes.iter().rev();
    openers.find(|hole| hole.kind == HoleKind::Opener(id.clone())).map_or(0, |hole| hole.span.end)
  }

  /// Placeholders and id comments inside a line, or filling it.
  fn inline(&mut self, span: Range<usize>, words: &[usize], done: usize) -> usize {
    let first = self.out.holes.len();
    // A region may have begun on earlier lines, which were too short for the placeholder.
    let mut at = done;
    for &word in words {
      if word < at {
        continue;
      }
      if let Some(hole) = self.hole_at(word, &span, at) {
        at = hole.span.end;
        self.out.holes.push(hole);
        if at >= span.end {
          break;
        }
      }
    }
    self.short_forms(&span, first);
    let Some(end) = self.out.holes.get(first..).and_then(<[_]>::last).map(|hole| hole.span.end)
    else {
      return span.end;
    };
    if end < span.end {
      self.widen(&span, first);
      return span.end;
    }
    // A region may end inside a later line.
    let inside = end < self.bytes.len() && !matches!(self.bytes.get(end - 1), Some(b'\n' | b'\r'));
    if inside {
      self.widen(&(end..line::line_end(self.bytes, end)), self.out.holes.len() - 1);
    }
    self.out.holes.last().map_or(end, |hole| hole.span.end)
  }

  /// The comment whose `memfw` begins at `word`; the comment must start at or after `at`.
  fn hole_at(&self, word: usize, line: &Range<usize>, at: usize) -> Option<Hole> {
    if let Some((span, id)) = placeholder::comment_at(self.bytes, word)
      && self.known.placeholders.contains(&id)
    {
      let span = self.region(&id, span.start, at).unwrap_or(span);
      return (span.start >= at).then_some(Hole { span, kind: HoleKind::Placeholder(id) });
    }
    if let Some((span, id)) = placeholder::id_comment_at(self.bytes, word)
      && self.known.markers.contains(&id)
    {
      let spaced = span.start > at.max(line.start)
        && self.bytes.get(span.start.wrapping_sub(1)) == Some(&b' ');
      let start = if spaced { span.start - 1 } else { span.start };
      return (span.start >= at)
        .then_some(Hole { span: start..span.end, kind: HoleKind::IdMark(id) });
    }
    // The short form as part of a region that memfw wrote.
    let window = line::slice(self.bytes, word..line.end.min(word + placeholder::MAX_COMPACT));
    let end = window.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b':');
    let id = placeholder::short_id(window.get(..end.unwrap_or(window.len()))?)?;
    let span = self.known.placeholders.contains(&id).then(|| self.region(&id, word, at))??;
    Some(Hole { span, kind: HoleKind::Placeholder(id) })
  }

  fn region(&self, id: &BlockId, start: usize, at: usize) -> Option<Range<usize>> {
    let form = self.known.redacted.get(id)?;
    let offset = placeholder::offset_in(form, id)?;
    placeholder::region_at(self.bytes, start, form, offset).filter(|span| span.start >= at)
  }

  /// Short forms in the parts of a line outside the other holes. If the line contains text too, they count
  /// only between placeholders and the ends of the line: id comments come and go, and must not decide what
  /// is a placeholder.
  fn short_forms(&mut self, span: &Range<usize>, first: usize) {
    let ours = self.out.holes.get(first..).unwrap_or_default();
    let firm =
      |hole: Option<&Hole>| hole.is_none_or(|hole| matches!(hole.kind, HoleKind::Placeholder(_)));
    let (mut found, mut all_filled) = (Vec::new(), true);
    let mut at = span.start;
    for index in 0..=ours.len() {
      let next = ours.get(index);
      let gap = at..next.map_or(span.end, |hole| hole.span.start).max(at);
      at = next.map_or(at, |hole| hole.span.end);
      let text = line::slice(self.bytes, gap.clone());
      let ids = self.known_short_forms(text);
      all_filled &= !ids.is_empty() || line::is_blank(text);
      let before = index.checked_sub(1).and_then(|before| ours.get(before));
      let firm = firm(before) && firm(next);
      // Each includes the space up to the next one.
      let ends = ids.iter().skip(1).map(|(at, _)| gap.start + at).chain([gap.end]);
      let mut start = gap.start;
      for ((_, id), end) in ids.iter().zip(ends) {
        let kind = HoleKind::Placeholder(id.clone());
        found.push((firm, Hole { span: start..end, kind }));
        start = end;
      }
    }
    let found = found.into_iter().filter(|(firm, _)| all_filled || *firm).map(|(_, hole)| hole);
    self.out.holes.extend(found);
    if let Some(ours) = self.out.holes.get_mut(first..) {
      ours.sort_by_key(|hole| hole.span.start);
    }
  }

  /// The short forms, with their offsets, if `text` contains nothing else; otherwise none.
  fn known_short_forms(&self, text: &[u8]) -> Vec<(usize, BlockId)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
      at += rest.len() - rest.trim_ascii_start().len();
      let word = text.get(at..).unwrap_or_default();
      let length = word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len());
      if length == 0 {
        break;
      }
      match placeholder::short_id(word.get(..length).unwrap_or_default()) {
        Some(id) if self.known.placeholders.contains(&id) => found.push((at, id)),
        _ => return Vec::new(),
      }
      at += length;
    }
    found
  }

  /// If a line contains only holes and space, the holes cover all of it, including the line end; otherwise
  /// text that follows a placeholder is reported.
  fn widen(&mut self, span: &Range<usize>, first: usize) {
    let mut at = span.start;
    let mut blank = true;
    for hole in self.out.holes.iter().skip(first) {
      blank &= line::is_blank(line::slice(self.bytes, at..hole.span.start.max(at)));
      at = hole.span.end;
    }
    let rest = at..span.end;
    let rest_blank = line::is_blank(line::slice(self.bytes, rest.clone()));
    let Some(ours) = self.out.holes.get_mut(first..) else { return };
    if blank && rest_blank {
      let mut at = span.start;
      for hole in ours.iter_mut() {
        hole.span.start = at.min(hole.span.start);
        at = hole.span.end;
      }
      if let Some(last) = ours.last_mut() {
        last.span.end = span.end;
      }
    } else if !rest_blank && let Some(Hole { kind: HoleKind::Placeholder(id), .. }) = ours.last() {
      self.out.continued.push(Continued { id: id.clone(), rest });
    }
  }
}
