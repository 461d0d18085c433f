//! Attribution: looks up in the agent's records who wrote a new text, after everything that had to be
//! taken out has been taken out.
//!
//! The slow step in the middle can run on another thread: [`Engine::attribution_request`] gathers the text,
//! [`AttributionRequest::ask`] asks the records, and [`Engine::answered`] records the answers and lets
//! policy decide again where the source is new. No lease is held in between.
//!
//! Invariant: only the records change a source. Open questions are kept in the ledger alone, so a
//! restart asks them again.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use zeroize::Zeroizing;

use super::{
  Engine, EngineError, Event, EventKind, Target,
  attribution_request::{
    Attributed, AttributionRequest, PATIENCE, PATIENCE_UNSEEN, Piece, Subject, is_overdue,
    origin_of,
  },
  inferred, pending,
};
use crate::{
  files::Fs,
  judging::{origin::Origin, rows::lines_of, view::View},
  provenance::{Answer, Outlook, Request, Trust},
  store::{
    AgentRecord, AttributionRecord, BlockRow, FileStatus, Item, Ledger, PartKind, Pending,
    Revision, StoreError,
  },
};

/// The state of the attribution of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributing {
  /// Nothing is due any more.
  Done {
    /// Whether markers are to be renewed when the file is idle.
    reshape_due: bool,
    /// Whether the origin of young text is only inferred: ask again soon, and nothing waits for that.
    is_inferred: bool,
  },
  /// The write is not on record yet: ask again later.
  Later,
  /// The file differs from what the ledger knows, or another program uses it: ask again soon.
  NotNow,
  /// The records cannot be read; `status` says so. They are asked again after a change, a start, or a
  /// while.
  Unreadable,
}

impl<F: Fs> Engine<F> {
  /// Asks about everything that is due in a file and records the answers. `waited` is how long the
  /// questions have been due, by a monotonic clock.
  pub fn attribute(
    &mut self,
    target: &Target,
    waited: Duration,
  ) -> Result<Attributing, EngineError> {
    let Some(request) = self.attribution_request(target)? else { return Ok(Attributing::NotNow) };
    let answers = request.ask(&**self.link.records());
    self.answered(target, &request, &answers, waited)
  }

  /// Gathers all due questions about a file; `None` while the file differs from the ledger's version.
  pub fn attribution_request(
    &mut self,
    target: &Target,
  ) -> Result<Option<AttributionRequest>, EngineError> {
    let Some(mut request) = self.gather(target)? else { return Ok(None) };
    if !request.queries.is_empty() {
      request.memory = self.remembered(&target.root)?;
    }
    with_records(&self.ledger, request, &target.path()).map(Some)
  }

  fn gather(&mut self, target: &Target) -> Result<Option<AttributionRequest>, EngineError> {
    let path = target.path();
    let (root, rel) = (target.root.clone(), target.rel.clone());
    let owner_devices = self.config.agent_owner_devices.clone();
    let (file, queries, memory, lost) = (None, vec![], vec![], vec![]);
    let mut request = AttributionRequest { root, rel, file, queries, memory, owner_devices, lost };
    if !self.ledger.has_key() {
      return Ok(Some(request));
    }
    let now = self.now();
    let due = self.ledger.due_items(&path)?.into_iter().map(|item| (item, false));
    let again = inferred::items_due_again(&self.ledger, &path, now)?;
    for (item, is_again) in due.chain(again.into_iter().map(|item| (item, true))) {
      match self.ledger.unseal(&item.id) {
        Ok(text) => {
          let piece = Piece { of: Subject::Item(item.id), is_again, text };
          request.push(item.sighting, item.seen_at, piece);
        }
        Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. }) => {
          request.lost.extend((!is_again).then_some(item.id));
        }
        Err(error) => return Err(error.into()),
      }
    }
    let Some((row, blocks)) = self.ledger.provenance(&path)? else { return Ok(Some(request)) };
    let asks = |one: &Revision| one.trail.due || inferred::is_due_again(one, now);
    let is_due = blocks.iter().any(|block| block.live().any(asks));
    // Text of a file that is gone is asked about when the file is back.
    if !is_due || row.status != FileStatus::Watched {
      return Ok(Some(request));
    }
    let Some(bytes) = self.files.read_known(target, row.hash)? else {
      // Text that was taken out of the file is asked about anyway.
      return Ok((!request.queries.is_empty()).then_some(request));
    };
    let View { bytes, document, .. } = self.view_known(target, Some(&row), bytes)?;
    for (block, text) in blocks.iter().zip(document.blocks()) {
      for revision in block.revisions.iter().filter(|one| asks(one)) {
        let Some(sighting) = revision.trail.sighting else { continue };
        let text = lines_of(block, text, &[revision.number])
          .map(|line| bytes.get(line.span.clone()).unwrap_or_default())
          .collect::<Vec<&[u8]>>()
          .concat();
        if text.is_empty() {
          continue;
        }
        let of = Subject::Revision(block.id.clone(), revision.number);
        let (is_again, text) = (!revision.trail.due, Zeroizing::new(text));
        request.push(sighting, revision.at, Piece { of, is_again, text });
      }
    }
    request.file = row.hash.map(|hash| (hash, bytes));
    Ok(Some(request))
  }

  /// Records the answers of the agent's records.
  pub fn answered(
    &mut self,
    target: &Target,
    request: &AttributionRequest,
    answers: &[Answer],
    waited: Duration,
  ) -> Result<Attributing, EngineError> {
    let path = target.path();
    if !self.ledger.has_key() {
      return pending::remove(&mut self.ledger, &target.path(), Pending::ATTRIBUTE)
        .map(|()| Attributing::Unreadable);
    }
    let mut said: Vec<Attributed> = Vec::new();
    let (mut later, mut unreadable) = (false, None);
    for (query, answer) in request.queries.iter().zip(answers) {
      match &answer.outlook {
        Outlook::Unreadable(why) => unreadable = Some(why.clone()),
        outlook => {
          let patience = match outlook {
            Outlook::Later => PATIENCE,
            Outlook::Unseen => PATIENCE_UNSEEN,
            Outlook::Final | Outlook::Unreadable(_) => Duration::ZERO,
          };
          let is_early = !is_overdue(self.now(), query.seen_at, waited, patience);
          for (piece, attribution) in query.pieces.iter().zip(&answer.attributions) {
            // An answer that is only inferred does not wait for the rest of a better one.
            if is_early && !piece.is_again {
              later = true;
              continue;
            }
            let (of, sighting, is_again) = (piece.of.clone(), query.sighting, piece.is_again);
            let attribution = attribution.clone();
            said.push(Attributed { of, sighting, attribution, is_again, is_early });
          }
        }
      }
    }
    let part = target.part(PartKind::Attribution);
    if let Some(why) = &unreadable {
      self.degrade(part, &format!("who wrote new text cannot be determined: {why}"))?;
    } else {
      self.recovered(part)?;
      self.link.follow_late(&mut self.ledger, target)?;
    }
    // Before the answers are recorded, so that the question about an item that must wait stays open.
    self.give_back_to_owner(target, request, &mut said, waited)?;
    let left = !said.is_empty() || !request.lost.is_empty() || !(later || unreadable.is_some());
    if left && !self.record_answers(target, request, &said)? {
      return Ok(Attributing::NotNow);
    }
    for (query, answer) in request.queries.iter().zip(answers) {
      self.link.clear_of_us(&mut self.ledger, target, query, answer)?;
    }
    self.link.class_back(&mut self.ledger, target)?;
    if later {
      return Ok(Attributing::Later);
    }
    if unreadable.is_some() {
      pending::remove(&mut self.ledger, &target.path(), Pending::ATTRIBUTE)?;
      return Ok(Attributing::Unreadable);
    }
    // New text may have been written meanwhile.
    let row = self.ledger.file(&path)?;
    let pending = row.map_or(Pending::NONE, |row| row.pending);
    if pending.contains(Pending::ATTRIBUTE) {
      let is_early = said.iter().any(|one| one.is_early);
      return Ok(if is_early { Attributing::Later } else { Attributing::NotNow });
    }
    let is_inferred = self.is_asked_again(&path)?;
    Ok(Attributing::Done { reshape_due: pending.contains(Pending::RESHAPE), is_inferred })
  }

  /// Records the answers in the ledger; `false` if the file has changed since.
  fn record_answers(
    &mut self,
    target: &Target,
    request: &AttributionRequest,
    said: &[Attributed],
  ) -> Result<bool, EngineError> {
    let path = target.path();
    let writing = self.files.lock()?;
    let Some((row, blocks)) = self.ledger.provenance(&path)? else { return Ok(true) };
    if request.file.as_ref().is_some_and(|(hash, _)| row.hash != Some(*hash)) {
      return Ok(false);
    }
    let at = self.now();
    let mut events = Vec::new();
    let mut items = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    let mut is_news = false;
    for one in said {
      let Subject::Item(id) = &one.of else { continue };
      let origin = origin_of(&self.config, one);
      let before = self.ledger.item(id.as_str())?;
      let known = Origin::of_held(&before);
      if !before.trail.due && !origin.may_replace(&known) {
        continue;
      }
      requests.extend(origin.request.clone());
      items.push(origin.for_item(id));
      if before.trail.due || !origin.is_like(&known) {
        is_news = true;
        events.extend(item_event(target, &before, &origin));
      }
    }
    for id in &request.lost {
      let item = self.ledger.item(id.as_str())?;
      let mut origin = Origin::of_item(&item);
      // Without its bytes the item can never be asked about.
      origin.trail.due = false;
      items.push(origin.for_item(id));
    }
    let mut known = super::rejudge::Known::new(blocks);
    for one in said {
      let Subject::Revision(id, number) = &one.of else { continue };
      let origin = origin_of(&self.config, one);
      requests.extend(origin.request.clone());
      if known.fill(id, *number, one.sighting, &origin) {
        is_news = true;
        let is_known = origin.source.kind() != "unknown";
        let event = || Event::new(EventKind::Attributed).path(&path).block(id).of(&origin);
        events.extend(is_known.then(event));
      }
    }
    known.forget_dead();
    let verdicts = match &request.file {
      Some((_, bytes)) => self.judge_again(target, &row, bytes, &mut known, &writing)?,
      None => vec![],
    };
    let rows = known.rows();
    // Items that were added meanwhile are asked about next time.
    let is_there = row.status == FileStatus::Watched;
    let still = is_there && rows.iter().any(|row| row.live().any(|one| one.trail.due))
      || self.ledger.due_items(&path)?.iter().any(|due| !items.iter().any(|one| one.id == due.id));
    let still = still || items.iter().any(|item| item.trail.due);
    let mut due = if still { Pending::ATTRIBUTE } else { Pending::NONE };
    if known.unread {
      // The encoder may have read it before its source was known.
      due = due | Pending::MODEL;
    }
    if is_news && self.is_judged_by_model(target) {
      due = due | Pending::JUDGE;
    }
    if let Some((_, bytes)) = &request.file
      && verdicts.is_empty()
      && self.is_marking_due(target, &row, bytes, rows.to_vec())?
    {
      due = due | Pending::RESHAPE;
    }
    let changed: Vec<BlockRow> = known.changed();
    let event_rows: Vec<_> = events.iter().map(Event::row).collect();
    self.ledger.attribute(&AttributionRecord {
      path: &path,
      blocks: &changed,
      items: &items,
      requests: &requests,
      done: Pending::ATTRIBUTE,
      due,
      events: &event_rows,
      at,
    })?;
    for event in &events {
      event.log(None);
    }
    // Taking text out acquires the lock itself.
    drop(writing);
    match &request.file {
      Some((hash, _)) if !verdicts.is_empty() => self.take_out(target, *hash, &verdicts),
      _ => Ok(true),
    }
  }
}

/// The event about a quarantined item, if one is due.
fn item_event(target: &Target, item: &Item, origin: &Origin) -> Option<Event> {
  let id = &item.id;
  let event = |kind| Event::new(kind).path(&target.path()).block(id).of(origin);
  if item.status.is_waiting() && origin.trust == Trust::Trusted {
    let next = format!("it stays out; `memfw approve {id}` restores it");
    return Some(event(EventKind::FoundTrusted).detail(next));
  }
  let is_news = origin.source.kind() != "unknown";
  is_news.then(|| event(EventKind::Attributed))
}

/// Adds to each version the record that is about it by now.
fn with_records(
  ledger: &Ledger,
  mut request: AttributionRequest,
  path: &Path,
) -> Result<AttributionRequest, EngineError> {
  if let Some(record) = ledger.agent_record(path)?.filter(AgentRecord::is_about_file) {
    let queries = request.queries.iter_mut();
    for query in queries.filter(|query| query.sighting.version == record.base) {
      query.on_record = record.version;
    }
  }
  Ok(request)
}
