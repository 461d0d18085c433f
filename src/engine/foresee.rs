//! What would be taken out of a version of a file that does not exist yet, and the attempt to write it.
//!
//! A plugin inside the agent asks before a write ([`crate::link`]). The text is judged as the urgent pass would
//! judge it right after the write, with the origin that the plugin observed; no file is changed.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::Path,
  slice,
};

use super::{Engine, EngineError, Event, EventKind, Target, redact::origin_in};
use crate::{
  detect::{Action, Code, Layer},
  files::{Fs, FsError, MemoryFile as _},
  judging::{judgement::BlockJudgement, origin::Origin, view::View},
  memory::{
    BlockId, BlockKind, ContentHash, Document, Known, Line, LineHash, Redaction, RedactionKind,
    line::LineKind, placeholder,
  },
  provenance::{Attribution, Source, State},
  store::{
    AttributionRecord, EventFilter, EventRow, FileRow, Item, ItemOrigin, OriginRecord, Pending,
  },
};

/// The name under which the ledger notes that a text did not get into its file.
const REFUSED: &str = "refused before it was written";

/// In a file with more blocks, code inside lists and quotes is not told from other text (a choice).
const MAX_BLOCKS_IN_DEPTH: usize = 2000;

/// What would be taken out of a version.
pub struct Foreseen {
  view: View,
  gone: Vec<Redaction>,
}

impl Foreseen {
  /// Whether nothing would be taken out.
  pub fn is_clean(&self) -> bool {
    self.gone.is_empty()
  }

  fn judgements(&self) -> impl Iterator<Item = &BlockJudgement> {
    self.gone.iter().filter_map(|one| self.view.judgements.get(one.block)?.as_ref())
  }

  /// The codes of the findings that decided.
  pub fn codes(&self) -> Vec<Code> {
    let mut codes: Vec<Code> = Vec::new();
    for code in self.judgements().flat_map(|one| &one.decision.codes) {
      if !codes.contains(code) {
        codes.push(*code);
      }
    }
    codes
  }

  /// The highest score.
  pub fn score(&self) -> f32 {
    self.judgements().map(|one| one.decision.score).fold(0.0, f32::max)
  }

  /// Whether all of it would only wait for the owner because of who gave the order.
  pub fn is_held(&self) -> bool {
    self.judgements().all(|one| one.decision.action == Action::Hold)
  }

  /// The source of the new text.
  pub fn source(&self) -> &Source {
    &self.view.origin.source
  }

  /// A name for the texts in this file.
  pub fn hash(&self, path: &Path) -> ContentHash {
    let texts = self.gone.iter().map(|one| &one.original[..]);
    ContentHash::of_parts([path.as_os_str().as_encoded_bytes()].into_iter().chain(texts))
  }

  /// The bytes of the texts.
  pub fn n_bytes(&self) -> usize {
    self.gone.iter().map(|one| one.original.len()).sum()
  }

  /// Something that happened to the texts.
  pub fn event(&self, kind: EventKind, path: &Path) -> Event {
    let layer = self.judgements().next().map_or(Layer::Rules, BlockJudgement::layer);
    let action = if self.is_held() { Action::Hold } else { Action::Quarantine };
    let event = Event::new(kind).path(path).of(&self.view.origin);
    event.decided(layer, &self.codes(), self.score(), action)
  }
}

/// The lines of a file, each with whether it is inside code or HTML.
#[derive(Default)]
struct There(HashSet<(LineHash, bool)>);

impl There {
  fn new(bytes: &[u8]) -> Self {
    let document = Document::parse(bytes, &Known::default());
    Self(lines(&document).map(|(line, is_inside)| (line.hash, is_inside)).collect())
  }

  /// Whether all lines of a text that would be taken out were there, in the same way.
  fn has(&self, document: &Document, gone: &Redaction) -> bool {
    let is_of = |line: &Line| line.span.start < gone.span.end && gone.span.start < line.span.end;
    let mut of = lines(document).filter(|(line, _)| is_of(line)).peekable();
    of.peek().is_some() && of.all(|(line, is_inside)| self.0.contains(&(line.hash, is_inside)))
  }

  /// The lines that were inside code or HTML only, and are not any more.
  fn shown_now(&self, after: &[u8]) -> Vec<u8> {
    if !self.0.iter().any(|(_, is_inside)| *is_inside) {
      return vec![];
    }
    let document = Document::parse(after, &Known::default());
    let is_new =
      |line: &Line| self.0.contains(&(line.hash, true)) && !self.0.contains(&(line.hash, false));
    let lines = lines(&document).filter(|(line, is_inside)| !is_inside && is_new(line));
    lines.flat_map(|(line, _)| after.get(line.span.clone()).unwrap_or_default()).copied().collect()
  }
}

/// The lines with text, each with whether it is inside code or HTML.
fn lines(document: &Document) -> impl Iterator<Item = (&Line, bool)> {
  // Code inside lists is looked for only where that is quick.
  let is_short = document.blocks().len() < MAX_BLOCKS_IN_DEPTH;
  document.blocks().iter().flat_map(move |block| {
    let is_block = matches!(block.kind, BlockKind::Code | BlockKind::Html);
    let is_inside = move |line: &Line| {
      is_block || is_short && document.enclosure(line.span.end.saturating_sub(1)).is_some()
    };
    let text = block.lines.iter().filter(|line| line.kind == LineKind::Text);
    text.map(move |line| (line, is_inside(line)))
  })
}

impl<F: Fs> Engine<F> {
  /// The current bytes of a file: empty if it does not exist, `None` if memfw cannot read it.
  pub fn current(&mut self, target: &Target) -> Result<Option<Vec<u8>>, EngineError> {
    match self.files.stamp(target) {
      Ok(Some(_)) => {}
      Ok(None) => return Ok(Some(vec![])),
      Err(EngineError::Fs(FsError::Refused { .. })) => return Ok(None),
      Err(error) => return Err(error),
    }
    let Ok(file) = self.files.open(target)? else { return Ok(None) };
    Ok(Some(file.read_all()?))
  }

  /// What the urgent pass would take out of `after`, if the text that `before` does not have came from there. The
  /// judgement may be interrupted ([`EngineError::Preempted`]), and then begins again.
  pub fn foresee(
    &mut self,
    target: &Target,
    versions: (&[u8], Vec<u8>),
    from: &Attribution,
  ) -> Result<Foreseen, EngineError> {
    self.judge.allow_interrupt(true);
    let foreseen = self.foresee_both(target, versions, from);
    self.judge.allow_interrupt(false);
    self.judge.forget_slices();
    foreseen
  }

  fn foresee_both(
    &mut self,
    target: &Target,
    (before, after): (&[u8], Vec<u8>),
    from: &Attribution,
  ) -> Result<Foreseen, EngineError> {
    let row = self.ledger.file(&target.path())?;
    let origin = Origin::attributed(&self.config, from, &OriginRecord::default());
    let there = There::new(before);
    let shown = there.shown_now(&after);
    let foreseen = self.foresee_as(target, row.as_ref(), after, origin.clone(), &there)?;
    if shown.is_empty() || !foreseen.is_clean() {
      return Ok(foreseen);
    }
    // The ledger knows these lines, but nobody has judged them as what they become.
    self.foresee_as(target, None, shown, origin, &There::default())
  }

  fn foresee_as(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    after: Vec<u8>,
    origin: Origin,
    there: &There,
  ) -> Result<Foreseen, EngineError> {
    let view = self.view_as(target, row, after, origin, None, true)?;
    let mut gone = view.urgent().redactions;
    // Text that is there already is not this call's: the daemon deals with it.
    gone.retain(|one| one.kind == RedactionKind::Quarantine && !there.has(&view.document, one));
    Ok(Foreseen { view, gone })
  }

  /// The ids under which the texts will wait: those that they have already, or new ones.
  pub fn names(&self, target: &Target, foreseen: &Foreseen) -> Result<Vec<BlockId>, EngineError> {
    let path = target.path();
    let mut copies: HashMap<ContentHash, u32> = HashMap::new();
    let name = |one: &Redaction| {
      let hash = ContentHash::of(&one.original);
      let n = copies.entry(hash).or_default();
      let old = self.ledger.existing_item(&path, hash, *n)?;
      *n += 1;
      old.map_or_else(|| self.new_id(), |old| Ok(old.id))
    };
    foreseen.gone.iter().map(name).collect()
  }

  /// How many texts that did not get into their file were sealed since then, and their bytes.
  pub fn attempts_since(&self, since: i64) -> Result<(usize, usize), EngineError> {
    let (mut texts, mut bytes) = (0, 0);
    for kind in [EventKind::Quarantined, EventKind::Held] {
      let filter = EventFilter { since: Some(since), event: Some(kind), ..EventFilter::default() };
      for event in self.ledger.events(&filter)?.iter().filter(|event| event.detail == REFUSED) {
        texts += 1;
        if let Some(id) = &event.block {
          // What was pruned since takes no room.
          let item = self.ledger.item(id.as_str()).ok();
          bytes += item.and_then(|item| item.len).unwrap_or_default() as usize;
        }
      }
    }
    Ok((texts, bytes))
  }

  /// Seals the texts that did not get into their file, so that they wait for the owner, under these ids
  /// ([`Engine::names`]) where they have none yet; their ids. Nothing is sealed if a person has approved one of
  /// them in the meantime.
  pub fn seal_attempt(
    &mut self,
    target: &Target,
    foreseen: &Foreseen,
    names: &[BlockId],
    took_ms: f64,
  ) -> Result<Vec<BlockId>, EngineError> {
    let Foreseen { view, gone } = foreseen;
    let path = target.path();
    let mut named = self.named(target, view, gone)?;
    for one in named.iter_mut().filter(|one| !one.back) {
      let place = gone.iter().position(|gone| gone.span == one.redaction.span);
      let name = place.and_then(|at| names.get(at));
      if let Some(id) = name
        && self.ledger.ids_taken(slice::from_ref(id))?.is_empty()
      {
        one.redaction.id = id.clone();
        one.redaction.replacement = placeholder::redact(&one.redaction.original, id);
      }
    }
    // In a file that is not there yet, an approval is about the same write again.
    let is_known = self.ledger.file(&path)?.is_some();
    let absent: Vec<_> = gone.iter().filter(|_| is_known).map(|one| one.span.clone()).collect();
    let mut items = Vec::with_capacity(named.len());
    let mut events: Vec<Event> = Vec::with_capacity(named.len());
    for one in &named {
      let mut item = self.new_item(&path, view, one, &absent)?;
      // The daemon's records cannot tell more about a write that never happened.
      item.trail.due = false;
      let judgement = view.judgements.get(one.redaction.block).and_then(Option::as_ref);
      let kind = match (one.back, item.status) {
        (true, _) => EventKind::RefusedAgain,
        (false, State::Held) => EventKind::Held,
        (false, _) => EventKind::Quarantined,
      };
      let action = if item.status == State::Held { Action::Hold } else { Action::Quarantine };
      let event = Event::new(kind).path(&path).of(&origin_in(view, judgement)).block(&item.id);
      let layer = judgement.map_or(Layer::Rules, BlockJudgement::layer);
      let event = event.decided(layer, &item.codes, item.score, action);
      events.push(event.detail(REFUSED.to_owned()));
      items.push(item);
    }
    let at = self.now();
    let rows: Vec<_> = events.iter().map(|event| event.row_in(took_ms)).collect();
    if self.ledger.quarantine(&items, &[], &rows, at)?.is_refused() {
      return Ok(vec![]);
    }
    let ids: Vec<BlockId> = items.iter().map(|item| item.id.clone()).collect();
    drop(items);
    for event in &events {
      event.log(Some(took_ms));
    }
    // They are sealed, whatever becomes of what explains them.
    if let Err(error) = self.keep_words(target, &ids, &view.origin, at) {
      tracing::warn!(%error, "the words that explain a refused text could not be kept");
    }
    Ok(ids)
  }

  /// Whether an item is a text whose write was refused, as far as events are kept.
  pub(super) fn was_refused(&self, item: &Item) -> Result<bool, EngineError> {
    let filter = EventFilter { since: Some(item.quarantined_at), ..EventFilter::default() };
    let is_of_it = |event: &EventRow| event.block.as_ref() == Some(&item.id);
    let events = self.ledger.events(&filter)?;
    Ok(events.iter().any(|event| is_of_it(event) && event.detail == REFUSED))
  }

  /// Seals the owner's request and the passage that explains the texts.
  fn keep_words(
    &mut self,
    target: &Target,
    ids: &[BlockId],
    origin: &Origin,
    at: i64,
  ) -> Result<(), EngineError> {
    let Some(request) = &origin.request else { return Ok(()) };
    let items: Vec<ItemOrigin> = ids.iter().map(|id| origin.for_item(id)).collect();
    self.ledger.attribute(&AttributionRecord {
      path: &target.path(),
      blocks: &[],
      items: &items,
      requests: std::slice::from_ref(request),
      done: Pending::NONE,
      due: Pending::NONE,
      events: &[],
      at,
    })?;
    Ok(())
  }
}
