//! Carries out a person's decisions: approve, reject, delete, and quarantine by hand.
//!
//! An approval restores the exact bytes. Its operation, its exception and its decision are durable
//! before the file is changed. The next start completes an interrupted approval; in the worst case the
//! bytes are still sealed and can be approved again.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

pub use super::decisions::{Approval, Placed};
use super::{
  Engine, EngineError, Event, EventKind, Target,
  decisions::{already, by_whom, refuse_decided},
  edit::Locked,
  event::shown,
  pending::{self, target_of},
  pieces::refuse_divided,
  prepare::PATIENCE,
  redact::Redacted,
};
use crate::{
  detect::{Action, Code, Decision, Verdict},
  failpoint::{Point, hit},
  files::{Fs, MemoryFile},
  judging::{approvals::plain_of, judgement::BlockJudgement, origin::Origin},
  memory::{Around, BlockId, ContentHash, Fate, Gap, placeholder},
  provenance::State,
  store::{BlockRow, Item, Ledger, Pending},
};

impl<F: Fs> Engine<F> {
  /// Restores the bytes of a quarantined item, or clears a flagged block, without a time limit.
  pub fn approve(
    &mut self,
    id: &str,
    by: &str,
    reason: Option<&str>,
  ) -> Result<(Item, Placed), EngineError> {
    self.approve_as(id, Approval { by, reason, until: None, at_end: false })
  }

  /// Approves an item like [`Engine::approve`], with all options.
  pub fn approve_as(
    &mut self,
    id: &str,
    approval: Approval<'_>,
  ) -> Result<(Item, Placed), EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file {
      if item.status != State::Flagged {
        return Err(already(&item));
      }
      self.decide_and_renew(&item, refuse_decided, |engine| {
        let whole = Around::default().neighbours(&engine.ledger.known_as(&item.path)?);
        engine.decisions().excuse(&item, approval, (Placed::InPlace, whole))
      })?;
      return Ok((item, Placed::InPlace));
    }
    refuse_divided(&item)?;
    let placed = self.put_back(&item, approval)?;
    Ok((item, placed))
  }

  /// Rejects an item: the lazy pass removes its placeholder; its sealed bytes are kept.
  pub fn reject(&mut self, id: &str, by: &str, reason: Option<&str>) -> Result<Item, EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file {
      return Err(EngineError::refused_with(
        format!("`{}` is {} and is in its file", item.id, item.status),
        format!("take it out first: `memfw quarantine add {}`", item.id),
      ));
    }
    if !item.status.is_waiting() {
      return Err(already(&item));
    }
    let at = self.now();
    let event = Event::new(EventKind::Rejected)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(by_whom(by, reason));
    self.decide_and_renew(&item, refuse_decided, |engine| {
      engine.keep_gap(&item)?;
      engine.decisions().take_back(&item)?;
      hit(Point::RejectBeforeDecision);
      let (seen, rejected) = (item.status, State::Rejected);
      engine.ledger.decide_once(&item.id, seen, rejected, (by, at), &[event.row()])?;
      hit(Point::RejectAfterDecision);
      event.log(None);
      Ok(())
    })?;
    Ok(item)
  }

  /// Notes where the placeholder of an item is, because its rejection removes it. A file that cannot be read
  /// now has no such place.
  fn keep_gap(&mut self, item: &Item) -> Result<(), EngineError> {
    let Some(target) = target_of(&self.ledger, &item.path)? else { return Ok(()) };
    let Ok(Ok(file)) = self.files.open(&target) else { return Ok(()) };
    let (Ok(bytes), Some(plain)) = (file.read_all(), plain_of(&self.ledger, &item.id)?) else {
      return Ok(());
    };
    if let Some(found) = placeholder::find(&bytes, &item.id, &plain) {
      self.ledger.keep_gap(&item.id, &Gap::around(&bytes, &found.span))?;
    }
    Ok(())
  }

  /// Deletes the sealed bytes of an item permanently: the lazy pass removes its placeholder; its record
  /// is kept.
  pub fn delete(&mut self, id: &str, by: &str, reason: Option<&str>) -> Result<Item, EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file || item.status == State::Approved {
      // The lines may have other numbers since it was taken out and restored.
      let (path, known) = (shown(&item.path), self.ledger.provenance(&item.path)?);
      let mut blocks = known.into_iter().flat_map(|(_, blocks)| blocks);
      let (what, hint) = match blocks.find(|block| block.hash == item.hash) {
        Some(block) => (
          " and is in its file",
          format!("take it out first: `memfw quarantine add {path}:{}`", block.start_line),
        ),
        None if item.in_file => {
          (" and is in its file", format!("see the current content: `memfw provenance {path}`"))
        }
        None => ("", format!("take the approval back first: `memfw undo {}`", item.id)),
      };
      return Err(EngineError::refused_with(
        format!("`{}` is {}{what}", item.id, item.status),
        hint,
      ));
    }
    refuse_divided(&item)?;
    if item.status == State::Forgotten {
      return Err(already(&item));
    }
    let at = self.now();
    let event = Event::new(EventKind::Deleted)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(by_whom(by, reason));
    self.decide_under_lock(&item, refuse_delete, |engine| {
      engine.ledger.forget(&item.id, by, at, &[event.row()])?;
      Ok(())
    })?;
    event.log(None);
    // The write-ahead log still contains the former page.
    self.ledger.checkpoint()?;
    self.renew(&item.path)?;
    Ok(item)
  }

  /// Quarantines a block of a file because a person asks for it. `line` is a line of the block, counted
  /// from 1. Returns the id of the item.
  pub fn quarantine_line(
    &mut self,
    target: &Target,
    line: usize,
    by: &str,
    reason: Option<&str>,
  ) -> Result<BlockId, EngineError> {
    self.catch_up(target)?;
    let (writing, mut file) = self.lock_leased(target, PATIENCE)?;
    if !self.files.is_on_path(target, &file)? {
      return Err(EngineError::refused_with("the file is being replaced", "try again"));
    }
    let started = self.clock.monotonic();
    let bytes = file.read_all()?;
    let row = self.ledger.file(&target.path())?;
    let mut view = self.view_known(target, row.as_ref(), bytes)?;
    let index = view
      .document
      .blocks()
      .iter()
      .position(|block| (block.start_line..=block.end_line).contains(&line))
      .ok_or_else(|| EngineError::refused(format!("there is no block at line {line}")))?;
    let known = view.comparison.fates.get(index).and_then(Fate::known);
    let row = known.and_then(|known| view.facts.rows.get(known)).cloned();
    // The item gets the origin of its least trusted text, so that an approval cannot raise trust.
    let worst = row.as_ref().and_then(|row| row.revisions.iter().min_by_key(|one| one.trust));
    if let Some(worst) = worst {
      view.origin = Origin::of_revision(worst).with_request(&self.ledger);
    }
    // To the plan it is a fresh block with a verdict; all other blocks stay.
    if let Some(fate) = view.comparison.fates.get_mut(index) {
      *fate = Fate::Inserted;
    }
    let mut codes = row.as_ref().map(|row| row.codes.clone()).unwrap_or_default();
    codes.push(Code::ManualQuarantine);
    for (other, judgement) in view.judgements.iter_mut().enumerate() {
      *judgement = (other == index).then(|| {
        BlockJudgement::of(Decision {
          verdict: Verdict::Quarantine,
          action: Action::Quarantine,
          score: 1.0,
          codes: codes.clone(),
        })
      });
    }
    let locked = Locked::new(&writing, file.leased_for().is_some());
    // No program has to wait for the disk, except a tool that compares what it reads with a record.
    if !self.link.is_on_record(target, view.hash) {
      file.release();
    }
    let at = self.now();
    let plan = view.urgent();
    if plan.redactions.is_empty() {
      return Err(EngineError::refused(format!("there is nothing to take out at line {line}")));
    }
    let text = crate::judging::text::BlockText::of(&view.bytes, &view.document, index);
    self.decisions().reopen(&target.path(), &text, by)?;
    // Parts of it may have been approved alone.
    for redaction in &plan.redactions {
      self.decisions().reopen(&target.path(), &redaction.original, by)?;
    }
    if let Some(row) = &row {
      // After this, the block row does not keep the same bytes in the file if they come back, even by a
      // power cut.
      self.ledger.decide(&row.id, State::Quarantined, by, at, &[])?;
    }
    let hashes: Vec<_> = plan.redactions.iter().map(|one| ContentHash::of(&one.original)).collect();
    let done = self.redact(target, &mut file, locked, &view, &plan.redactions, started)?;
    let Redacted::Done { ids, edit, .. } = done else {
      drop(file);
      drop(writing);
      let id = self.taken_out_meanwhile(target, &hashes)?;
      self.note_taken_out(&id, row.as_ref().filter(|_| hashes.len() == 1), by)?;
      return Ok(id);
    };
    if let [id] = &ids[..] {
      self.note_taken_out(id, row.as_ref(), by)?;
    }
    // The following pass records the new content.
    edit.finish_unrecorded(self, &target.path())?;
    self.versions.note_ours(ContentHash::of(&file.read_all()?));
    drop(file);
    drop(writing);
    self.catch_up(target)?;
    tracing::debug!(target: "memfw", "{}", by_whom(by, reason));
    ids
      .into_iter()
      .next()
      .ok_or_else(|| EngineError::refused(format!("there is nothing to take out at line {line}")))
  }

  /// Notes what an item was, so that its take-out can be undone.
  fn note_taken_out(
    &mut self,
    id: &BlockId,
    was: Option<&BlockRow>,
    by: &str,
  ) -> Result<(), EngineError> {
    let Some(was) = was else { return Ok(()) };
    let at = self.now();
    Ok(self.ledger.note_taken_out(id, (&was.id, was.state), (by, at))?)
  }

  /// The item of a text that another process took out while a person asked for it: after the decision about
  /// its block, any pass takes it out.
  fn taken_out_meanwhile(
    &mut self,
    target: &Target,
    hashes: &[ContentHash],
  ) -> Result<BlockId, EngineError> {
    self.catch_up(target)?;
    for hash in hashes {
      let item = self.ledger.existing_item(&target.path(), *hash, 0)?;
      if let Some(item) = item.filter(|item| item.status.is_waiting()) {
        return Ok(item.id);
      }
    }
    Err(EngineError::refused_with("the file has changed in the meantime", "try again"))
  }

  /// Makes a decision after which the markers or placeholders of a file are due, and renews them.
  pub(super) fn decide_and_renew(
    &mut self,
    item: &Item,
    check: fn(&Ledger, &Item) -> Result<(), EngineError>,
    decide: impl FnOnce(&mut Self) -> Result<(), EngineError>,
  ) -> Result<(), EngineError> {
    self.decide_under_lock(item, check, decide)?;
    self.renew(&item.path)
  }

  /// Makes a decision after which the markers or placeholders of a file are due. A lazy pass that has begun
  /// before does not know the decision, and must not clear the mark: so the write lock is held meanwhile. No other
  /// decision is made meanwhile; `check` refuses if one was made since the item was read.
  fn decide_under_lock(
    &mut self,
    item: &Item,
    check: fn(&Ledger, &Item) -> Result<(), EngineError>,
    decide: impl FnOnce(&mut Self) -> Result<(), EngineError>,
  ) -> Result<(), EngineError> {
    let _writing = self.files.lock()?;
    // What is refused leaves no mark: nothing would clear it.
    check(&self.ledger, item)?;
    pending::add(&mut self.ledger, &item.path, Pending::RESHAPE)?;
    decide(self)
  }

  /// Runs the lazy pass over a file, at once if no other program has the file open: a person is
  /// waiting.
  pub(super) fn renew(&mut self, path: &Path) -> Result<(), EngineError> {
    let Some(target) = target_of(&self.ledger, path)? else { return Ok(()) };
    self.catch_up(&target)?;
    pending::add(&mut self.ledger, path, Pending::RESHAPE)?;
    // Markers wait until the sources are known.
    self.attribute(&target, Duration::ZERO)?;
    self.link.class_back(&mut self.ledger, &target)?;
    match self.write_due(&target, Duration::ZERO) {
      // The decision is made. The mark stays, and the daemon writes what cannot be written now.
      Ok(_) | Err(EngineError::Fs(_)) => Ok(()),
      Err(error) => Err(error),
    }
  }
}

/// Refuses to delete an item about which somebody has decided, or one without which other parts of the same text cannot
/// return to their file.
fn refuse_delete(ledger: &Ledger, read: &Item) -> Result<(), EngineError> {
  refuse_decided(ledger, read)?;
  let Some(part) = &read.part else { return Ok(()) };
  let whole = ledger.item(part.id.as_str())?;
  if !whole.awaited {
    return Ok(());
  }
  Err(EngineError::refused_with(
    format!("other parts of `{}` are approved and not back in the file yet", whole.id),
    format!("delete it when the daemon has restored them; `memfw show {}` names them", whole.id),
  ))
}
