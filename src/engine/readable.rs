//! Cuts a memory file into excerpts for `recall`, with what the ledger knows about each.
//!
//! Nothing is written and nothing is judged here: text that the ledger does not know is unknown.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use super::{EngineError, event::shown};
use crate::{
  judging::{
    label::Labels,
    placeholder_cache::PlaceholderCache,
    read_version::{ReadVersion, Reader},
  },
  memory::{Block, Fate, Line, LineHash, SegmentKind, line, line::LineKind},
  provenance::{Source, State},
  recall::{Blocked, Content, Excerpt, Excerpts, Known, Withheld},
  store::{BlockRow, FileRow, ItemFilter, Ledger, Revision, Snapshot},
};

/// Reads versions of files for an agent.
pub struct Readable<'a> {
  ledger: Snapshot<'a>,
  labels: Labels,
  placeholders: PlaceholderCache,
  /// `None` if text that was taken out cannot be recognised, so that no unknown text may be handed out.
  withheld: Option<Withheld>,
  now: i64,
}

/// The origin of a line: the row of its block, and the revision that wrote it.
type OriginRow<'r> = (&'r BlockRow, &'r Revision);

impl<'a> Readable<'a> {
  /// Reads by one view of the ledger, at a time in microseconds UTC.
  pub fn new(ledger: &'a Ledger, now: i64) -> Result<Self, EngineError> {
    let labels = ledger.name_key().map(Labels::new).unwrap_or_default();
    let (ledger, placeholders) = (ledger.snapshot()?, PlaceholderCache::default());
    Ok(Self { ledger, labels, placeholders, withheld: None, now })
  }

  /// Has unknown text compared with all text that was taken out; before that, all unknown text counts as
  /// withheld. `false` if that is not possible, for instance without the key.
  pub fn compare_withheld(&mut self) -> Result<bool, EngineError> {
    let statuses = vec![State::Quarantined, State::Held, State::Rejected];
    let items = self.ledger.items(&ItemFilter { statuses, path: None })?;
    let mut texts = Vec::new();
    for item in items.iter().filter(|item| item.len.is_some()) {
      let Ok(text) = self.ledger.unseal(&item.id) else { return Ok(false) };
      texts.push(text);
    }
    self.withheld = Withheld::new(texts.iter().map(|text| text.as_slice()));
    Ok(self.withheld.is_some())
  }

  /// The excerpts of a version of a file.
  pub fn excerpts(&mut self, file: &FileRow, bytes: Vec<u8>) -> Result<Excerpts, EngineError> {
    let Self { ledger, placeholders, now, .. } = self;
    // A file that is not writable keeps its text, and the ledger names the entries that had to be taken out.
    let reader = Reader { ledger, placeholders, now: *now };
    let read = reader.read((&file.path, Some(file)), bytes.into(), false)?;
    // Rows of entries that wait for a person do not vouch for text that is still in the file.
    let waiting = ledger.blocks(file.id)?.into_iter().filter(|row| row.state.is_waiting());
    let mut held: HashMap<LineHash, Blocked> = HashMap::new();
    for row in waiting {
      let blocked = Blocked { id: row.id.clone(), state: row.state, codes: row.codes.clone() };
      held.extend(row.lines.iter().map(|line| (line.hash, blocked.clone())));
    }
    let mut list = Vec::new();
    let (mut gap, mut seen, mut n_lines) = (Vec::new(), HashSet::new(), LineCounter::default());
    for segment in read.document.segments() {
      let span = segment.span.clone();
      match &segment.kind {
        SegmentKind::Blank => gap.extend_from_slice(line::slice(&read.bytes, span)),
        SegmentKind::Block(index) if seen.insert(*index) => {
          if let Some(block) = read.document.blocks().get(*index) {
            self.block(&read, *index, block, &held, std::mem::take(&mut gap), &mut list);
          }
        }
        SegmentKind::Placeholder(id) => {
          let item = self.ledger.item(id.as_str())?;
          if item.status.is_waiting() {
            let line = n_lines.at(&read.bytes, span.start);
            let (entry, gap) = (usize::MAX, std::mem::take(&mut gap));
            let content =
              Content::Blocked(Blocked { id: item.id, state: item.status, codes: item.codes });
            list.push(Excerpt { entry, start_line: line, end_line: line, gap, content });
          }
        }
        _ => {}
      }
    }
    // A text that was too short for a placeholder left only spaces.
    for id in self.ledger.waiting_ids(&file.path)? {
      let is_named =
        |one: &Excerpt| matches!(&one.content, Content::Blocked(blocked) if blocked.id == id);
      if !list.iter().any(is_named) {
        let item = self.ledger.item(id.as_str())?;
        let line = item.line as usize;
        let content = Content::Blocked(Blocked { id, state: item.status, codes: item.codes });
        list.push(Excerpt {
          entry: usize::MAX,
          start_line: line,
          end_line: line,
          gap: vec![],
          content,
        });
      }
    }
    Ok(Excerpts { file: shown(&file.path), list })
  }

  /// The excerpts of one block.
  fn block(
    &self,
    read: &ReadVersion,
    index: usize,
    block: &Block,
    held: &HashMap<LineHash, Blocked>,
    gap: Vec<u8>,
    list: &mut Vec<Excerpt>,
  ) {
    let mut gap = Some(gap);
    let mut run: Option<(Option<OriginRow<'_>>, Vec<&Line>)> = None;
    let mut close = |run: Option<(Option<OriginRow<'_>>, Vec<&Line>)>| {
      let Some((origin, lines)) = run else { return };
      let text: Vec<u8> =
        lines.iter().flat_map(|line| own_bytes(&read.bytes, block, line)).collect();
      let blocked = || lines.iter().find_map(|line| held.get(&line.hash));
      let content = match (origin, blocked()) {
        (Some((row, revision)), _) => Content::Known { text, known: self.known(row, revision) },
        (None, Some(blocked)) => Content::Blocked(blocked.clone()),
        (None, None) => {
          let withheld = self.withheld.as_ref().is_none_or(|withheld| withheld.is_in(&text));
          Content::Unknown { text, withheld }
        }
      };
      list.push(Excerpt {
        entry: index,
        start_line: lines.first().map_or(block.start_line, |line| line.number),
        end_line: lines.last().map_or(block.end_line, |line| line.number),
        gap: gap.take().unwrap_or_default(),
        content,
      });
    };
    for (at, line) in block.lines.iter().enumerate() {
      let origin = origin_of(read, index, at);
      match &mut run {
        // A blank line belongs to the text above it.
        Some((_, lines)) if line.kind == LineKind::Blank => lines.push(line),
        Some((last, lines)) if is_one(*last, origin) => lines.push(line),
        _ => close(run.replace((origin, vec![line]))),
      }
    }
    close(run);
  }

  fn known(&self, row: &BlockRow, revision: &Revision) -> Known {
    let state = match row.state {
      _ if revision.approved => State::Approved,
      State::Approved => State::Validated,
      state => state,
    };
    let label: Source = self.labels.source(&revision.source);
    Known {
      id: row.id.clone(),
      label,
      trust: revision.trust,
      attestation: revision.attestation,
      state,
      codes: row.codes.clone(),
      at: revision.at,
      approved: revision.approved,
    }
  }
}

/// The origin of a line of a block; `None` for a line that the ledger does not know.
fn origin_of(read: &ReadVersion, index: usize, at: usize) -> Option<OriginRow<'_>> {
  let (row, number) = if let Some(lines) = read.comparison.inherited.get(&index) {
    let from = lines.get(at).copied().flatten()?;
    (read.facts.rows.get(from.known)?, from.revision)
  } else {
    let known = read.comparison.fates.get(index).and_then(Fate::known)?;
    let row = read.facts.rows.get(known)?;
    (row, row.lines.get(at)?.revision)
  };
  Some((row, row.revision(number)?))
}

/// Whether two lines have one origin.
fn is_one(one: Option<OriginRow<'_>>, other: Option<OriginRow<'_>>) -> bool {
  match (one, other) {
    (None, None) => true,
    (Some((row, revision)), Some((row_too, revision_too))) => {
      row.id == row_too.id && revision.number == revision_too.number
    }
    _ => false,
  }
}

/// The bytes of a line without comments of memfw.
fn own_bytes<'b>(
  bytes: &'b [u8],
  block: &'b Block,
  line: &'b Line,
) -> impl Iterator<Item = u8> + 'b {
  let first = block.parts.partition_point(|part| part.end <= line.span.start);
  let parts = block.parts.iter().skip(first).take_while(|part| part.start < line.span.end);
  parts.flat_map(move |part| {
    let span = part.start.max(line.span.start)..part.end.min(line.span.end);
    line::slice(bytes, span).iter().copied()
  })
}

/// Counts lines up to ascending offsets.
#[derive(Default)]
struct LineCounter {
  at: usize,
  line: usize,
}

impl LineCounter {
  /// The number of the line that contains an offset, from 1.
  fn at(&mut self, bytes: &[u8], offset: usize) -> usize {
    loop {
      let end = line::line_end(bytes, self.at);
      if end > offset || end == self.at {
        return self.line + 1;
      }
      (self.at, self.line) = (end, self.line + 1);
    }
  }
}
