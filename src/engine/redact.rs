//! Takes poison out of files: the text is sealed in quarantine before the first byte is overwritten.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  path::Path,
  time::Duration,
};

use super::{
  Engine, EngineError, Event, EventKind, HOLD_OFF, Target, UNLEASED_AFTER,
  edit::{Durable, Edit, Lease, Locked, Sync},
};
use crate::{
  detect::{Action, Code, KeptFindings, Layer},
  failpoint::Plan,
  files::{Fs, MemoryFile, overwrite::Change},
  judging::{
    claim::claims, judgement::BlockJudgement, lapse::extend_approvals, origin::Origin,
    precedent::context, spans, view::View,
  },
  memory::{Around, BlockId, ContentHash, Redaction, RedactionKind, placeholder},
  provenance::State,
  store::{EventAction, Existing, Ledger, NewEvent, NewItem, NewOp, OpId, OpKind, StoreError},
};

/// The result of a redaction.
pub(super) enum Redacted {
  /// The poison was taken out.
  Done {
    /// The whole file after the redaction.
    bytes: Vec<u8>,
    /// The items of the removed texts.
    ids: Vec<BlockId>,
    /// The edit, to be finished when these bytes are recorded.
    edit: Durable,
  },
  /// The file changed, or too much time passed under the lease: nothing (more) was written.
  Changed,
}

impl<F: Fs> Engine<F> {
  /// Takes the redactions of a plan out of the file, as one journalled edit ([`super::edit`]).
  ///
  /// The quarantine rows are written together with the journal, so they are durable before the first
  /// byte is overwritten. Directly before that, each range is compared with the bytes that the plan is
  /// based on.
  pub(super) fn redact(
    &mut self,
    target: &Target,
    file: &mut F::File,
    locked: Locked<'_>,
    view: &View,
    redactions: &[Redaction],
    started: Duration,
  ) -> Result<Redacted, EngineError> {
    let redactions = self.named(target, view, redactions)?;
    let edit = Edit::<F, _>::new(Plan::Redact, locked, target, file);
    let journal =
      |engine: &mut Self, file: &F::File| engine.admit(target, file, view, &redactions, started);
    let Some(mut edit) = edit.journalled(self, view.hash, journal)? else {
      return Ok(Redacted::Changed);
    };
    // The next steps compare before they write, so the redaction can do without a lease. But without a
    // lease, or after a write of another program, the whole version must be read again.
    let lease = edit.lease_again(self, UNLEASED_AFTER)?;
    let now = edit.file().read_all()?;
    let same = now == *view.bytes && (!locked.leased || lease == Lease::Held);
    // An agent's tool was faster and is about to verify another version; the hold-off for that version
    // applies.
    if now != *view.bytes && self.link.is_on_record(target, ContentHash::of(&now)) {
      edit.given_up(self)?;
      return Ok(Redacted::Changed);
    }
    let changes: Vec<Change<'_>> = redactions
      .iter()
      .map(|Named { redaction, .. }| Change {
        offset: redaction.span.start as u64,
        expected: &redaction.original,
        replacement: &redaction.replacement,
      })
      .collect();
    // A ledger that was removed or replaced meanwhile does not contain the bytes that would be
    // overwritten.
    self.ledger.check_place()?;
    let (edit, result) = edit.overwrite(&changes)?;
    let mut bytes = view.bytes.to_vec();
    for Named { redaction, .. } in result.applied.iter().filter_map(|&index| redactions.get(index))
    {
      if let Some(range) = bytes.get_mut(redaction.span.clone()) {
        range.copy_from_slice(&redaction.replacement);
      }
    }
    // Only if every byte of the version is known can the result be recorded and followed.
    let whole = result.stale.is_empty() && same;
    if whole {
      // The next version may exist before this one is recorded.
      let at = self.now();
      self.link.note_write(&mut self.ledger, target, view, at)?;
      let gone: Vec<&Redaction> = redactions.iter().map(|one| &one.redaction).collect();
      extend_approvals(&mut self.ledger, at, &target.path(), view, &bytes, &gone)?;
    }
    // This is safe without a lease, too: the record follows only from exactly the bytes that were
    // edited, so text that another program wrote meanwhile gains no trust.
    let versions = whole.then(|| (view.hash, ContentHash::of(&bytes)));
    let edit = edit.followed(self, versions)?.durable(self, Sync::GiveBack)?;
    if !whole {
      edit.finish_unrecorded(self, &target.path())?;
      return Ok(Redacted::Changed);
    }
    let ids = redactions.into_iter().map(|named| named.redaction.id).collect();
    Ok(Redacted::Done { bytes, ids, edit })
  }

  /// Gives each redaction its number among equal texts and its id: text that came back gets its old id,
  /// all other text a new one. An item whose placeholder is in the file is another copy of the same
  /// text.
  pub(super) fn named(
    &mut self,
    target: &Target,
    view: &View,
    redactions: &[Redaction],
  ) -> Result<Vec<Named>, EngineError> {
    let standing: HashSet<&BlockId> = view.document.placeholders().collect();
    let path = target.path();
    let mut absent: Vec<Range<usize>> = claims(&view.bytes).collect();
    absent.extend(redactions.iter().map(|redaction| redaction.span.clone()));
    let mut next: HashMap<ContentHash, u32> = HashMap::new();
    let mut taken: HashSet<(ContentHash, u32)> = HashSet::new();
    let mut named = Vec::with_capacity(redactions.len());
    for redaction in redactions {
      let mut redaction = redaction.clone();
      let mut n = 0;
      let mut back = false;
      if redaction.kind == RedactionKind::Quarantine {
        let hash = ContentHash::of(&redaction.original);
        let is_free = |n: u32, old: Option<&Existing>| {
          !taken.contains(&(hash, n)) && !old.is_some_and(|old| standing.contains(&old.id))
        };
        let from = next.get(&hash).copied().unwrap_or(0);
        let mut old;
        (n, old) = first_item(&self.ledger, &path, hash, from, is_free)?;
        let is_approved = |old: &Existing| old.status == State::Approved;
        if old.as_ref().is_some_and(is_approved) {
          // A person approved this text in this context, and has not withdrawn the approval: it stays.
          let around = |gone| Around::without(&view.bytes, &view.document, &redaction.span, gone);
          let now = [around(&[]), around(&absent)];
          if self.approvals().still_holds(&path, hash, &now)? {
            continue;
          }
          let here = self.approvals().approved_in_context(&path, hash, &now)?;
          let was_here = |old: &Existing| is_approved(old) && here.contains(&old.id);
          if !here.is_empty() {
            (n, old) = first_item(&self.ledger, &path, hash, 0, |n, old| {
              is_free(n, old) && old.is_none_or(was_here)
            })?;
          }
          if !old.as_ref().is_some_and(was_here) {
            // The other copies are the approved ones.
            let stay = elsewhere(view, redactions, &redaction.original);
            (n, old) = first_item(&self.ledger, &path, hash, from, |n, old| {
              is_free(n, old) && (n >= stay || !old.is_some_and(is_approved))
            })?;
          }
          if let Some(old) = old.as_ref().filter(|old| is_approved(old)) {
            let at = self.now();
            self.ledger.decide(&old.id, State::Quarantined, "memfw", at, &[])?;
            // What a person took out earlier is taken out by memfw now.
            self.ledger.forget_taken_out(&old.id, at, &[])?;
          }
        }
        taken.insert((hash, n));
        if n >= from {
          next.insert(hash, n + 1);
        }
        back = old.is_some();
        redaction.id = match old {
          Some(old) => old.id,
          None => self.new_id()?,
        };
        redaction.replacement = placeholder::redact(&redaction.original, &redaction.id);
      }
      named.push(Named { redaction, n, back });
    }
    Ok(named)
  }

  /// The item of a text that leaves its file, or that does not get into it. `absent` is what the file loses.
  pub(super) fn new_item<'a>(
    &self,
    path: &'a Path,
    view: &View,
    named: &'a Named,
    absent: &[Range<usize>],
  ) -> Result<NewItem<'a>, EngineError> {
    let Named { redaction, n, .. } = named;
    let judgement = view.judgements.get(redaction.block).and_then(Option::as_ref);
    let decision = judgement.map(|judgement| &judgement.decision);
    let held = decision.is_some_and(|decision| decision.action == Action::Hold);
    let origin = origin_in(view, judgement);
    let around = Around::without(&view.bytes, &view.document, &redaction.span, absent);
    Ok(NewItem {
      id: redaction.id.clone(),
      path,
      line: redaction.start_line as u32,
      bytes: &redaction.original,
      redacted: &redaction.replacement,
      n: *n,
      terminated: redaction.original.last() == Some(&b'\n'),
      status: if held { State::Held } else { State::Quarantined },
      source: origin.source,
      trust: origin.trust,
      attestation: origin.attestation,
      session: origin.session,
      score: decision.map_or(1.0, |decision| decision.score),
      codes: decision.map_or(&[][..], |decision| &decision.codes).to_vec(),
      findings: KeptFindings::within(
        judgement.map_or(&[][..], |judgement| &judgement.findings),
        redaction.span.start,
        redaction.original.len(),
      ),
      layer: judgement.map_or(Layer::Rules, BlockJudgement::layer),
      trail: origin.trail,
      context: Some(context(&self.ledger, path, &around)?),
    })
  }

  /// Makes rows and operations durable; `None` if a person approved one of the texts meanwhile.
  fn admit(
    &mut self,
    target: &Target,
    file: &F::File,
    view: &View,
    redactions: &[Named],
    started: Duration,
  ) -> Result<Option<Vec<OpId>>, EngineError> {
    let path = target.path();
    let took_ms = self.clock.monotonic().saturating_sub(started).as_secs_f64() * 1e3;
    let stamp = file.stamp()?;
    let since = self.files.since_change(&stamp, Duration::ZERO);
    let is_long = since >= HOLD_OFF && self.link.is_on_record(target, view.hash);
    let ms = since.as_millis();
    let stood = is_long
      .then(|| format!("it stayed for {ms} ms, so that the agent's tool could read it back"));
    let mut items = Vec::new();
    let mut ops = Vec::with_capacity(redactions.len());
    let mut events: Vec<Event> = Vec::new();
    // A later approval sees the file without the text of this redaction, and with the neutralised
    // claims.
    let mut absent: Vec<Range<usize>> = claims(&view.bytes).collect();
    absent.extend(redactions.iter().map(|named| named.redaction.span.clone()));
    for named in redactions {
      let Named { redaction, back, .. } = named;
      let judgement = view.judgements.get(redaction.block).and_then(Option::as_ref);
      let decision = judgement.map(|judgement| &judgement.decision);
      let codes = decision.map_or(&[][..], |decision| &decision.codes);
      let score = decision.map_or(1.0, |decision| decision.score);
      let origin = &origin_in(view, judgement);
      let event = |kind| {
        let event = Event::new(kind).path(&path).of(origin);
        match &stood {
          Some(stood) => event.detail(stood.clone()),
          None => event,
        }
      };
      let neutralise = redaction.kind == RedactionKind::Neutralise;
      ops.push(NewOp {
        kind: if neutralise { OpKind::Neutralise } else { OpKind::Redact },
        path: &path,
        dev: stamp.dev,
        ino: stamp.ino,
        offset: redaction.span.start as u64,
        before: &redaction.original,
        after: &redaction.replacement,
      });
      if neutralise {
        let forged = event(EventKind::ForgedMarker);
        events.push(forged.decided(
          Layer::Rules,
          &[Code::ForgedMarker],
          score,
          EventAction::Neutralise,
        ));
        continue;
      }
      let held = decision.is_some_and(|decision| decision.action == Action::Hold);
      let kind = match (*back, held) {
        _ if view.is_undo => EventKind::Undone,
        (true, _) => EventKind::Returned,
        (false, true) => EventKind::Held,
        (false, false) => EventKind::Quarantined,
      };
      let action = if held { Action::Hold } else { Action::Quarantine };
      let layer = judgement.map_or(Layer::Rules, BlockJudgement::layer);
      events.push(event(kind).block(&redaction.id).decided(layer, codes, score, action));
      items.push(self.new_item(&path, view, named, &absent)?);
    }
    let at = self.now();
    let rows: Vec<NewEvent> = events.iter().map(|event| event.row_in(took_ms)).collect();
    let admission = self.ledger.quarantine(&items, &ops, &rows, at)?;
    // The plan is made again, now with the approval.
    if admission.is_refused() {
      return Ok(None);
    }
    // Logged when it has happened.
    for event in &events {
      event.log(Some(took_ms));
    }
    Ok(Some(admission.ops))
  }
}

/// The origin of a block, which may be known better than that of the rest of the file.
pub(super) fn origin_in(view: &View, judgement: Option<&BlockJudgement>) -> Origin {
  let of = |one: &BlockJudgement| one.taken_from.clone().or_else(|| one.origin.clone());
  judgement.and_then(of).unwrap_or_else(|| view.origin.clone())
}

/// How many copies of a text in a version are not taken out.
fn elsewhere(view: &View, redactions: &[Redaction], text: &[u8]) -> u32 {
  let leaves = |span: &Range<usize>| redactions.iter().any(|one| spans::overlaps(&one.span, span));
  let stay = placeholder::lines_equal_to(&view.bytes, text).filter(|span| !leaves(span)).count();
  u32::try_from(stay).unwrap_or(u32::MAX)
}

/// A redaction with what the ledger knows about its text.
pub(super) struct Named {
  pub(super) redaction: Redaction,
  /// Its number among equal texts of the file.
  pub(super) n: u32,
  /// Whether the text was in quarantine before.
  pub(super) back: bool,
}

/// The first number, from `from` on, that is acceptable among equal texts, and the item with that
/// number, if any.
fn first_item(
  ledger: &Ledger,
  path: &Path,
  hash: ContentHash,
  from: u32,
  will_do: impl Fn(u32, Option<&Existing>) -> bool,
) -> Result<(u32, Option<Existing>), StoreError> {
  let mut n = from;
  loop {
    let old = ledger.existing_item(path, hash, n)?;
    if will_do(n, old.as_ref()) {
      return Ok((n, old));
    }
    n += 1;
  }
}
