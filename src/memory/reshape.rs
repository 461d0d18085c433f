//! The lazy rewrite: markers as the ledger has them, placeholders on one line.
//!
//! Invariant: `strip(reshape(x)) == strip(x)`, except for placeholders, with the same blocks. It is checked
//! before anything is returned: a rewrite that would read differently is not made, and provenance stays in
//! the ledger alone.
#![forbid(unsafe_code)]

use std::{collections::HashSet, ops::Range};

use crate::memory::{
  Block, BlockId, BlockKind, Comparison, Document, Facts, Known, KnownBlock, MarkerMode,
  SegmentKind, line,
  marker::{self, CLOSER},
  placeholder,
};

/// The new text of the file; `None` if nothing would or may change.
pub fn reshape(
  bytes: &[u8],
  document: &Document,
  comparison: &Comparison,
  facts: &Facts<'_>,
) -> Option<Vec<u8>> {
  // Another line with the id of a marker could be read as that marker.
  if !document.forged().is_empty() {
    return None;
  }
  // A file in another encoding loses memfw's comments and gets none.
  let is_text = document.is_utf8() && !bytes.contains(&0);
  let inserts = match facts.mode {
    _ if !is_text => Vec::new(),
    MarkerMode::Wrap => wrappers(bytes, document, comparison, facts),
    MarkerMode::Id => id_comments(bytes, document, comparison, facts),
    MarkerMode::None => Vec::new(),
  };
  let (mut out, mut bare) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
  let mut inserts = inserts.iter().peekable();
  for segment in document.segments() {
    let mut at = segment.span.start;
    let kept: &[u8] = &match &segment.kind {
      SegmentKind::Opener(_) | SegmentKind::Closer | SegmentKind::IdMark(_) => continue,
      SegmentKind::Placeholder(id) => settled(bytes, &segment.span, id, facts),
      SegmentKind::Block(_) => {
        while let Some(insert) = inserts.next_if(|insert| insert.at < segment.span.end) {
          let before = line::slice(bytes, at..insert.at);
          out.extend_from_slice(before);
          bare.extend_from_slice(before);
          out.extend_from_slice(&insert.text);
          at = at.max(insert.at);
        }
        line::slice(bytes, at..segment.span.end).to_vec()
      }
      SegmentKind::Bom | SegmentKind::Blank => line::slice(bytes, segment.span.clone()).to_vec(),
    };
    out.extend_from_slice(kept);
    // Two bytes that a comment of memfw separated must not become one line end.
    if segment.span.start > 0
      && bare.last() == Some(&b'\r')
      && kept.first() == Some(&b'\n')
      && bytes.get(segment.span.start - 1) != Some(&b'\r')
    {
      return None;
    }
    bare.extend_from_slice(kept);
    while let Some(insert) =
      inserts.next_if(|insert| insert.at == segment.span.end && insert.closes)
    {
      out.extend_from_slice(&insert.text);
    }
  }
  if out == bytes {
    return None;
  }
  let read = Document::parse(&out, &ids(document, facts));
  let hashes = |of: &Document| of.blocks().iter().map(|block| block.hash).collect::<Vec<_>>();
  (read.strip(&out) == bare && hashes(&read) == hashes(document)).then_some(out)
}

/// Text to insert at an offset: before the text that begins there, or (`closes`) after the text that ends
/// there.
struct Insert {
  at: usize,
  text: Vec<u8>,
  closes: bool,
}

fn wrappers(
  bytes: &[u8],
  document: &Document,
  comparison: &Comparison,
  facts: &Facts<'_>,
) -> Vec<Insert> {
  let blocks = document.blocks();
  let wanted: Vec<Option<&BlockId>> = (blocks.iter().zip(&comparison.fates))
    .map(|(block, fate)| {
      let known = facts.known.get(fate.known()?)?;
      let id = known.marker.as_ref().filter(|id| facts.tags.contains_key(*id))?;
      // Front matter must begin the file, and an open block would swallow the closing line.
      let fits = block.kind != BlockKind::FrontMatter && !block.open_ended && block.terminated;
      fits.then_some(id)
    })
    .collect();
  let mut inserts = Vec::new();
  let mut used: HashSet<&BlockId> = HashSet::new();
  let mut at = 0;
  // Between two blocks there are only blank text and memfw's comments, so adjacent means next in order.
  for run in wanted.chunk_by(|a, b| a == b) {
    let first = at;
    at += run.len();
    let Some(id) = run.first().copied().flatten() else { continue };
    let own = comparison.fates.get(first).and_then(super::Fate::known);
    let own = own.and_then(|known| facts.known.get(known)).map(|known| &known.id);
    // An id may open only once in a file.
    let Some(id) = [Some(id), own].into_iter().flatten().find(|id| !used.contains(id)) else {
      continue;
    };
    let Some(marker) = facts.tags.get(id) else { continue };
    let known = comparison.fates.get(first).and_then(super::Fate::known);
    let known = known.and_then(|known| facts.known.get(known));
    let above = blocks.get(first).zip(known).and_then(|(block, known)| body_alone(block, known));
    if let Some((start, end)) = ends(bytes, document, first, at) {
      let start = above.unwrap_or(start);
      used.insert(id);
      let eol = line::eol(line::slice(bytes, start..line::line_end(bytes, start)));
      let whole = |text: &str| [text.as_bytes(), eol].concat();
      inserts.push(Insert { at: start, text: whole(&marker.print()), closes: false });
      inserts.push(Insert { at: end, text: whole(CLOSER), closes: true });
    }
  }
  inserts
}

/// Where the text below the headings of a block starts, if the headings are from other revisions than the
/// text.
fn body_alone(block: &Block, known: &KnownBlock) -> Option<usize> {
  let (head, body) = known.lines.split_at_checked(block.body)?;
  let says =
    |index: &usize| block.lines.get(*index).is_some_and(|line| line.kind != line::LineKind::Blank);
  let is_same = known.lines.len() == block.lines.len();
  let heads = (0..block.body).filter(says).filter_map(|index| head.get(index));
  let alone = heads.clone().next().is_some()
    && heads.clone().all(|head| !body.iter().any(|line| line.revision == head.revision));
  (is_same && alone).then(|| block.lines.get(block.body).map(|line| line.span.start)).flatten()
}

/// Where the blocks `first..after` start and end, if those are line boundaries without the id comments;
/// text that continues the line of a placeholder does not qualify.
fn ends(bytes: &[u8], document: &Document, first: usize, after: usize) -> Option<(usize, usize)> {
  let blocks = document.blocks();
  let start = blocks.get(first)?.parts.first()?.start;
  let end = blocks.get(after.checked_sub(1)?)?.parts.last()?.end;
  let mut line = start;
  let at = document.segments().partition_point(|segment| segment.span.end <= start);
  for segment in document.segments().get(..at)?.iter().rev() {
    if !matches!(segment.kind, SegmentKind::IdMark(_)) || segment.span.end != line {
      break;
    }
    line = segment.span.start;
  }
  let at_start = line == 0
    || matches!(bytes.get(line - 1), Some(b'\n' | b'\r'))
    || bytes.get(..line) == Some(b"\xef\xbb\xbf");
  at_start.then_some((start, end))
}

fn id_comments(
  bytes: &[u8],
  document: &Document,
  comparison: &Comparison,
  facts: &Facts<'_>,
) -> Vec<Insert> {
  let of = |(block, fate): (&Block, &super::Fate)| {
    if !matches!(block.kind, BlockKind::Paragraph | BlockKind::Item) || !block.terminated {
      return None;
    }
    let known = facts.known.get(fate.known()?)?;
    let marker = known.marker.as_ref().filter(|id| facts.tags.contains_key(*id))?;
    let id = if facts.tags.contains_key(&known.id) { &known.id } else { marker };
    let text = block.lines.get(block.body)?;
    let whole = line::slice(bytes, text.span.clone());
    let at = text.span.end - line::eol(whole).len();
    // The content of the line without its old id comment.
    let mut kept = Vec::new();
    for part in &block.parts {
      let (start, end) = (part.start.max(text.span.start), part.end.min(at));
      kept.extend_from_slice(line::slice(bytes, start..end.max(start)));
    }
    (at < text.span.end && takes_a_comment(&kept)).then(|| Insert {
      at,
      text: format!(" {}", marker::id_comment(id)).into_bytes(),
      closes: false,
    })
  };
  document.blocks().iter().zip(&comparison.fates).filter_map(of).collect()
}

/// Whether a comment at the end of this line of an item or paragraph stays a comment: not in the info
/// string of a fence, in indented code, or after a hard line break.
fn takes_a_comment(line: &[u8]) -> bool {
  let mut text = line.trim_ascii_start();
  // Four columns of indentation make it code.
  if line.len() > text.len() + 3 {
    return false;
  }
  loop {
    let marker = match text {
      [b'-' | b'*' | b'+', rest @ ..] => Some(rest),
      [b'0'..=b'9', ..] => {
        let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
        text.get(digits..).and_then(|rest| match rest {
          [b'.' | b')', rest @ ..] => Some(rest),
          _ => None,
        })
      }
      _ => None,
    };
    match marker {
      // Five spaces after a list marker begin code.
      Some([b' ', rest @ ..]) if !rest.starts_with(b"    ") => text = rest.trim_ascii_start(),
      Some([] | [b' ' | b'\t', ..]) => return false,
      _ => break,
    }
  }
  !text.is_empty()
    && !matches!(text, [b'`', b'`', b'`', ..] | [b'~', b'~', ..] | [b'#' | b'>' | b'|' | b'<', ..])
    && !matches!(text.last(), Some(b' ' | b'\t' | b'\\'))
}

/// The new form of a placeholder.
fn settled(bytes: &[u8], span: &Range<usize>, id: &BlockId, facts: &Facts<'_>) -> Vec<u8> {
  let text = line::slice(bytes, span.clone());
  if !facts.compact {
    return text.to_vec();
  }
  let eol = line::eol(text);
  let starts = span.start == 0 || matches!(bytes.get(span.start - 1), Some(b'\n' | b'\r'));
  if facts.gone.contains(id) {
    // The line end belongs to the text before it, such as the mark of a quote.
    return if starts || eol.is_empty() { Vec::new() } else { text.to_vec() };
  }
  let ends = !eol.is_empty() || span.end == bytes.len();
  // A placeholder that shares its line with text is not changed.
  if starts && ends { [placeholder::compact(id).as_bytes(), eol].concat() } else { text.to_vec() }
}

/// The facts with which the new text will be read.
fn ids(document: &Document, facts: &Facts<'_>) -> Known {
  let mut known = document.known().clone();
  known.markers.extend(facts.tags.keys().cloned());
  known.markers.extend(facts.known.iter().filter_map(|block| block.marker.clone()));
  known
}
