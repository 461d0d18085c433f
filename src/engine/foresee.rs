//! What would be taken out of a version of a file that does not exist yet, and the attempt to write it.
//!
//! A plugin inside the agent asks before a write ([`crate::link`]). The text is judged as the urgent pass would
//! judge it right after the write, with the origin that the plugin observed; no file is changed.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind, Target, attribute::item_origin, judge::BlockJudgement,
  origin::Origin, redact::origin_in, view::View,
};
use crate::{
  detect::{Action, Code, Layer},
  files::{Fs, FsError, MemoryFile as _},
  memory::{BlockId, Redaction, RedactionKind},
  provenance::{Attribution, Source, State},
  store::{AttributionRecord, ItemOrigin, OriginRecord, Pending},
};

/// The name under which the ledger notes that a text did not get into its file.
const REFUSED: &str = "refused before it was written";

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

  /// What the urgent pass would take out of `after`, if the text that `before` does not have came from there.
  pub fn foresee(
    &mut self,
    target: &Target,
    (before, after): (&[u8], Vec<u8>),
    from: &Attribution,
  ) -> Result<Foreseen, EngineError> {
    let row = self.ledger.file(&target.path())?;
    let origin = Origin::attributed(&self.config, from, &OriginRecord::default());
    let view = self.view_as(target, row.as_ref(), after, origin, None, true)?;
    let mut gone = view.urgent().redactions;
    let before = String::from_utf8_lossy(before);
    // Text that is there already is not this call's: the daemon deals with it.
    gone.retain(|one| {
      let text = std::str::from_utf8(&one.original);
      let is_there = text.is_ok_and(|text| before.contains(text.trim()));
      one.kind == RedactionKind::Quarantine && !is_there
    });
    Ok(Foreseen { view, gone })
  }

  /// Seals the texts that did not get into their file, so that they wait for the owner; their ids. Nothing is
  /// sealed if a person has approved one of them in the meantime.
  pub fn seal_attempt(
    &mut self,
    target: &Target,
    foreseen: &Foreseen,
    took_ms: f64,
  ) -> Result<Vec<BlockId>, EngineError> {
    let Foreseen { view, gone } = foreseen;
    let path = target.path();
    let named = self.named(target, view, gone)?;
    let absent: Vec<_> = gone.iter().map(|one| one.span.clone()).collect();
    let mut items = Vec::with_capacity(named.len());
    let mut events: Vec<Event> = Vec::with_capacity(named.len());
    for one in &named {
      let mut item = self.new_item(&path, view, one, &absent)?;
      // The daemon's records cannot tell more about a write that never happened.
      item.trail.due = false;
      let judgement = view.judgements.get(one.redaction.block).and_then(Option::as_ref);
      let kind = match (one.back, item.status) {
        (true, _) => EventKind::Returned,
        (false, State::Held) => EventKind::Held,
        (false, _) => EventKind::Quarantined,
      };
      let action = if item.status == State::Held { Action::Hold } else { Action::Quarantine };
      let event = Event::new(kind).path(&path).of(&origin_in(view, judgement)).block(&item.id);
      let layer = judgement.map_or(Layer::Rules, BlockJudgement::layer);
      let event = event.decided(layer, &item.codes, item.score, action.as_str());
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
    self.keep_words(target, &ids, &view.origin, at)?;
    Ok(ids)
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
    let items: Vec<ItemOrigin> = ids.iter().map(|id| item_origin(id, origin)).collect();
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
