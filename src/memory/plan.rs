//! The plan: which changes follow from text, facts and verdicts. Pure.
//!
//! Invariants: only fresh lines are ever redacted; a redaction has the length of what it replaces; a plan
//! made after applying one is empty.
#![forbid(unsafe_code)]

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::memory::{
  Block, BlockId, Comparison, Document, Facts, Fate, KnownBlock, LineHash, SegmentKind,
  line::{self, LineKind},
  marker, placeholder, reshape,
};

/// What policy requires for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
  /// Leave it unchanged.
  Keep,
  /// Take its fresh lines out.
  Quarantine,
  /// Neutralise comments that claim to be memfw's.
  Neutralise,
}

/// The verdict on one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
  /// What to do.
  pub action: Action,
  /// Where the findings are, in bytes of the file. They select the fresh runs of an edited block that are
  /// taken out; without any, all are.
  pub spans: Vec<Range<usize>>,
  /// The lines to take out, as indices into those of the block, fresh or not; with `None`, `spans` decides.
  pub lines: Option<Vec<usize>>,
}

/// The purpose of a redaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactionKind {
  /// Poison is replaced by a placeholder.
  Quarantine,
  /// A forged comment is neutralised.
  Neutralise,
}

/// Bytes to overwrite at equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
  /// The id of the text that is taken out.
  pub id: BlockId,
  /// Bytes of the file.
  pub span: Range<usize>,
  /// The present content.
  pub original: Vec<u8>,
  /// The content after the change, of equal length.
  pub replacement: Vec<u8>,
  /// The line of the file at which it starts, from 1.
  pub start_line: usize,
  /// The index of its block in the document.
  pub block: usize,
  /// Its purpose.
  pub kind: RedactionKind,
}

/// The changes to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
  /// Urgent, in place, in file order, disjoint.
  pub redactions: Vec<Redaction>,
  /// Lazy: the whole new text. Never together with redactions, because those change the text first.
  pub reshape: Option<Vec<u8>>,
}

/// Makes the plan. `judged` has one entry for each block; blocks without one are kept.
pub fn plan(
  bytes: &[u8],
  document: &Document,
  comparison: &Comparison,
  facts: &Facts<'_>,
  judged: &[Judged],
  new_id: &mut dyn FnMut() -> BlockId,
) -> Plan {
  let mut redactions = Vec::new();
  for (index, (block, judged)) in document.blocks().iter().zip(judged).enumerate() {
    let kind = match judged.action {
      Action::Keep => continue,
      Action::Quarantine => RedactionKind::Quarantine,
      Action::Neutralise => RedactionKind::Neutralise,
    };
    for run in fresh_runs(bytes, document, block, comparison.fates.get(index), facts.known, judged)
    {
      for span in pieces(document, run, kind) {
        let original = line::slice(bytes, span.clone());
        // Between memfw's comments only space is allowed.
        if line::is_blank(original) {
          continue;
        }
        let replacement = match kind {
          RedactionKind::Quarantine => None,
          RedactionKind::Neutralise => match marker::neutralise(original) {
            Some(text) => Some(text),
            None => continue,
          },
        };
        let id = new_id();
        let replacement = replacement.unwrap_or_else(|| placeholder::redact(original, &id));
        let from = block.parts.first().map_or(0, |part| part.start);
        let above = line::newlines(line::slice(bytes, from..span.start));
        redactions.push(Redaction {
          id,
          original: original.to_vec(),
          replacement,
          start_line: block.start_line + above,
          block: index,
          kind,
          span,
        });
      }
    }
  }
  // A redaction changes the text on which a rewrite would be based.
  let reshape =
    if redactions.is_empty() { reshape::reshape(bytes, document, comparison, facts) } else { None };
  Plan { redactions, reshape }
}

/// The runs of fresh lines that the findings are about.
fn fresh_runs(
  bytes: &[u8],
  document: &Document,
  block: &Block,
  fate: Option<&Fate>,
  known: &[KnownBlock],
  judged: &Judged,
) -> Vec<Range<usize>> {
  let (at, fresh) = match (fate, &judged.lines) {
    (Some(fate), Some(lines)) => (fate.known().unwrap_or(usize::MAX), lines),
    // Every line of a new block is fresh.
    (Some(Fate::Inserted), None) => {
      let ends = block.parts.first().zip(block.parts.last());
      return ends.map(|(first, last)| first.start..last.end).into_iter().collect();
    }
    (Some(Fate::Edited { known, fresh }), None) => (*known, fresh),
    _ => return Vec::new(),
  };
  let mut runs: Vec<Range<usize>> = Vec::new();
  let mut last: Option<usize> = None;
  for &index in fresh {
    let Some(text) = block.lines.get(index) else { continue };
    // The beginning of the line stays, and so does its line end.
    if text.is_tail && runs.last().is_none_or(|run| run.end != text.span.start) {
      let end = text.span.end - line::eol(line::slice(bytes, text.span.clone())).len();
      runs.push(text.span.start..end);
      last = None;
      continue;
    }
    let joins = last.is_some_and(|last| {
      let mut between = block.lines.iter().take(index).skip(last + 1);
      between.all(|line| line.kind == LineKind::Blank)
        && !(block.open_ended && starts_entry(line::slice(bytes, text.span.clone())))
    });
    match runs.last_mut() {
      Some(run) if joins => run.end = text.span.end,
      _ => runs.push(text.span.clone()),
    }
    last = Some(index);
  }
  // Only the last line of a file can be continued by an append.
  if at.checked_add(1) == Some(known.len())
    && let Some(old) = known.get(at).and_then(|known| known.lines.last())
    // If the line is still there as often as before, nothing was added to it.
    && count(document.blocks().iter().flat_map(|block| &block.lines).map(|line| line.hash), old.hash)
      < count(known.iter().flat_map(|known| &known.lines).map(|line| line.hash), old.hash)
  {
    for run in &mut runs {
      run.start = joined_at(bytes, run, old.hash).unwrap_or(run.start);
    }
  }
  runs.retain(|run| {
    judged.lines.is_some()
      || judged.spans.is_empty()
      || judged.spans.iter().any(|span| {
        // An empty span covers the byte at its offset.
        span.start < run.end && run.start < span.end.max(span.start + 1)
      })
  });
  runs
}

/// Whether a line that a fence, comment or HTML block includes would otherwise have begun an entry of its
/// own: its writer may not have known of the fence, and one entry must not be judged for another.
pub(crate) fn starts_entry(line: &[u8]) -> bool {
  let text = line.trim_ascii_start();
  let after = match text {
    [b'-' | b'*' | b'+', rest @ ..] => rest,
    [b'#', ..] => {
      let level = text.iter().take_while(|byte| **byte == b'#').count();
      text.get(level..).unwrap_or_default()
    }
    _ => {
      let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
      match text.get(digits..) {
        // CommonMark's limit for the number of an item.
        Some([b'.' | b')', rest @ ..]) if (1..=9).contains(&digits) => rest,
        _ => return false,
      }
    }
  };
  matches!(after, [b' ' | b'\t', ..])
}

fn count(hashes: impl Iterator<Item = LineHash>, of: LineHash) -> usize {
  hashes.filter(|hash| *hash == of).count()
}

/// Longest line whose beginning is searched for the file's former last line.
const MAX_JOINED: usize = 4096;

/// Where a file without a final newline was appended to: the offset in the first line of `run` at which the
/// former last line, known by its hash, ends. `None` if it does not, or if the rest is too short for a
/// placeholder that is distinguishable from text.
fn joined_at(bytes: &[u8], run: &Range<usize>, old: LineHash) -> Option<usize> {
  let end = line::line_end(bytes, run.start).min(run.end);
  let text = line::content(line::slice(bytes, run.start..end));
  let room = placeholder::MAX_COMPACT;
  let mut hasher = Sha256::new();
  for (at, byte) in text.iter().enumerate().take(MAX_JOINED) {
    hasher.update([*byte]);
    let length = at + 1;
    if text.len() - length < room {
      return None;
    }
    if LineHash::of_digest(&hasher.clone().finalize().into()) == old {
      return Some(run.start + length);
    }
  }
  None
}

/// A run without the comments of memfw in it. An id comment leaves together with its line, unless the line
/// is only neutralised.
fn pieces(document: &Document, run: Range<usize>, kind: RedactionKind) -> Vec<Range<usize>> {
  let segments = document.segments();
  let first = segments.partition_point(|segment| segment.span.end <= run.start);
  let mut pieces: Vec<Range<usize>> = Vec::new();
  for segment in segments.iter().skip(first) {
    let span = segment.span.start.max(run.start)..segment.span.end.min(run.end);
    if span.is_empty() {
      break;
    }
    match segment.kind {
      SegmentKind::Opener(_) | SegmentKind::Closer | SegmentKind::Placeholder(_) => continue,
      SegmentKind::IdMark(_) if kind == RedactionKind::Neutralise => continue,
      SegmentKind::IdMark(_) | SegmentKind::Blank | SegmentKind::Block(_) | SegmentKind::Bom => {}
    }
    match pieces.last_mut() {
      Some(last) if last.end == span.start => last.end = span.end,
      _ => pieces.push(span),
    }
  }
  pieces
}
