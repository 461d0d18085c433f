//! What a person decides: approve, reject, and put into quarantine by hand.
//!
//! An approval restores the exact bytes. Its operation, its exception and its decision are durable
//! before the file is touched: a crash in between is finished at the next start, and at the worst the
//! bytes are still sealed and can be approved once more.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use super::{
  Engine, EngineError, Event, EventKind, Hint, Outcome, Target,
  edit::{Lease, Locked, lease_within},
  event::shown,
  judge::{BlockJudgement, Consulted, Origin},
  redact::Redacted,
};
use crate::{
  detect::{Action, Code, Decision, Verdict},
  failpoint::{Point, hit},
  files::{Fs, MemoryFile, Touch},
  memory::{Around, BlockId, ContentHash, Fate, line},
  provenance::State,
  store::{ExceptionKey, FileRow, Item, ItemFilter, Ledger, Pending, StoreError},
};

/// How long a file that somebody else has open is waited for when a person asked for something.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often a file that is replaced under our hands is tried.
pub(super) const ATTEMPTS: u32 = 5;
/// How often a file that others write is looked at meanwhile.
const RETRY: Duration = Duration::from_millis(2);

/// Where the approved bytes are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
  /// Where the placeholder stood.
  AtPlaceholder,
  /// At the end of the file, where the same stands around them as did before.
  Appended,
  /// At the end of the file, under other words than before.
  Elsewhere,
  /// They stood in the file all the time (a flagged block).
  InPlace,
}

/// A person's word that a text is fine.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
  /// Who says so.
  pub by: &'a str,
  /// Why.
  pub reason: Option<&'a str>,
  /// Until when it holds for text that comes anew, microseconds since the epoch; `None` for good.
  pub until: Option<i64>,
  /// Whether it goes to the end of its file where its place is gone, or something else stands around that.
  pub at_end: bool,
}

impl<F: Fs> Engine<F> {
  /// Brings the bytes of a quarantined item back, or clears a flagged block; for good.
  pub fn approve(
    &mut self,
    id: &str,
    by: &str,
    reason: Option<&str>,
  ) -> Result<(Item, Placed), EngineError> {
    self.approve_as(id, Approval { by, reason, until: None, at_end: false })
  }

  /// The same with all that a person can say.
  pub fn approve_as(
    &mut self,
    id: &str,
    approval: Approval<'_>,
  ) -> Result<(Item, Placed), EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file {
      if item.status != State::Flagged {
        return Err(EngineError::refused(format!("`{}` is {} already", item.id, item.status)));
      }
      self.want_reshape(&item.path)?;
      let at = self.now();
      let whole = Around::default().neighbours(&self.ledger.known_as(&item.path)?);
      self.excuse(&item, approval, (Placed::InPlace, whole), at)?;
      self.renew(&item.path)?;
      return Ok((item, Placed::InPlace));
    }
    let placed = self.put_back(&item, approval)?;
    Ok((item, placed))
  }

  /// Refuses an item: its placeholder goes with the lazy pass, its sealed bytes stay.
  pub fn reject(&mut self, id: &str, by: &str, reason: Option<&str>) -> Result<Item, EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file {
      return Err(EngineError::refused_with(
        format!("`{}` is {} and stands in its file", item.id, item.status),
        format!("take it out first: `memfw quarantine add {}`", item.id),
      ));
    }
    if !item.status.is_waiting() {
      return Err(EngineError::refused(format!("`{}` is {} already", item.id, item.status)));
    }
    let at = self.now();
    let event = Event::new(EventKind::Rejected)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(by_whom(by, reason));
    self.want_reshape(&item.path)?;
    self.take_back(&item)?;
    hit(Point::RejectBeforeDecision);
    self.ledger.decide(&item.id, State::Rejected, by, at, &[event.row()])?;
    hit(Point::RejectAfterDecision);
    event.log(None);
    self.renew(&item.path)?;
    Ok(item)
  }

  /// Deletes the sealed bytes of an item for good: its placeholder goes with the lazy pass, its record stays.
  pub fn delete(&mut self, id: &str, by: &str, reason: Option<&str>) -> Result<Item, EngineError> {
    let item = self.ledger.item(id)?;
    if item.in_file || item.status == State::Approved {
      // Lines have moved since it was taken out and came back.
      let (path, known) = (shown(&item.path), self.ledger.provenance(&item.path)?);
      let mut blocks = known.into_iter().flat_map(|(_, blocks)| blocks);
      let hint = match blocks.find(|block| block.hash == item.hash) {
        Some(block) => {
          format!("take it out first: `memfw quarantine add {path}:{}`", block.start_line)
        }
        None => format!("see what stands there by now: `memfw provenance {path}`"),
      };
      return Err(EngineError::refused_with(
        format!("`{}` is {} and stands in its file", item.id, item.status),
        hint,
      ));
    }
    if item.status == State::Forgotten {
      return Err(EngineError::refused(format!("`{}` is deleted already", item.id)));
    }
    let at = self.now();
    let event = Event::new(EventKind::Deleted)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(by_whom(by, reason));
    self.want_reshape(&item.path)?;
    self.ledger.forget(&item.id, by, at, &[event.row()])?;
    event.log(None);
    // The write-ahead log still has the page as it was.
    self.ledger.checkpoint()?;
    self.renew(&item.path)?;
    Ok(item)
  }

  /// Takes a block that stands in a file into quarantine because a person says so. `line` is a line
  /// of the block, 1-based. Gives the id of the item.
  pub fn quarantine_line(
    &mut self,
    target: &Target,
    line: usize,
    by: &str,
    reason: Option<&str>,
  ) -> Result<BlockId, EngineError> {
    self.catch_up(target)?;
    let writing = self.lock()?;
    let mut file = self.open_leased(target, PATIENCE)?;
    if !self.is_on_path(target, &file)? {
      return Err(EngineError::refused_with("the file is being replaced", "try again"));
    }
    let started = self.clock.monotonic();
    let bytes = file.read_all()?;
    let row = self.ledger.file(&target.path())?;
    let mut view = self.view(target, row.as_ref(), bytes, Origin::unknown(), None)?;
    let index = view
      .document
      .blocks()
      .iter()
      .position(|block| (block.start_line..=block.end_line).contains(&line))
      .ok_or_else(|| EngineError::refused(format!("no block stands at line {line}")))?;
    let known = view.comparison.fates.get(index).and_then(Fate::known);
    let row = known.and_then(|known| view.facts.rows.get(known)).cloned();
    let worst = row.as_ref().and_then(|row| row.revisions.iter().min_by_key(|one| one.trust));
    if let Some(worst) = worst {
      view.origin = self.with_request(Origin::of_revision(worst));
    }
    // To the plan it is a new block with a verdict; everything else stays.
    if let Some(fate) = view.comparison.fates.get_mut(index) {
      *fate = Fate::Inserted;
    }
    let mut codes = row.as_ref().map(|row| row.codes.clone()).unwrap_or_default();
    codes.push(Code::ManualQuarantine);
    for (other, judgement) in view.judgements.iter_mut().enumerate() {
      *judgement = (other == index).then(|| BlockJudgement {
        decision: Decision {
          verdict: Verdict::Quarantine,
          action: Action::Quarantine,
          score: 1.0,
          codes: codes.clone(),
        },
        findings: vec![],
        spared: false,
        approved: false,
        excused: vec![],
        origin: None,
        excused_by: vec![],
        assessment: None,
        lines: None,
        taken_from: None,
        consulted: Consulted::Nobody,
      });
    }
    let locked = Locked::new(&writing, file.leased_for().is_some());
    // Nobody is kept waiting for the disk, but for a tool that compares what it reads with a record.
    if !self.is_on_record(target, view.hash) {
      file.release();
    }
    let at = self.now();
    let text = super::judge::BlockText::of(&view.bytes, &view.document, index);
    self.reopen(target, &text, by, at)?;
    let plan = view.urgent();
    if plan.redactions.is_empty() {
      return Err(EngineError::refused(format!("there is nothing to take out at line {line}")));
    }
    if let Some(row) = &row {
      // The block row must not vouch for the same bytes when they come back, be it by a power cut.
      self.ledger.decide(&row.id, State::Quarantined, by, at, &[])?;
    }
    let done = self.redact(target, &mut file, locked, &view, &plan.redactions, started)?;
    let Redacted::Done { ids, edit, .. } = done else {
      return Err(EngineError::refused_with("the file changed meanwhile", "try again"));
    };
    // The pass that follows records it.
    edit.finish(self)?;
    drop(file);
    drop(writing);
    self.catch_up(target)?;
    tracing::debug!(target: "memfw", "{}", by_whom(by, reason));
    ids
      .into_iter()
      .next()
      .ok_or_else(|| EngineError::refused(format!("there is nothing to take out at line {line}")))
  }

  /// The guarded file behind a path of the ledger.
  pub fn target_of(&self, path: &Path) -> Result<Option<Target>, EngineError> {
    let row = self.ledger.file(path)?;
    Ok(row.and_then(|row| {
      row.path.strip_prefix(&row.workspace).ok().map(|rel| Target::new(&row.workspace, rel))
    }))
  }

  /// Text that was approved once and is taken out by hand now: the last word of a person counts.
  fn reopen(&mut self, target: &Target, text: &[u8], by: &str, at: i64) -> Result<(), EngineError> {
    let hash = ContentHash::of(text);
    if let Some(item) = self.ledger.existing_item(&target.path(), hash, 0)?
      && item.status == State::Approved
    {
      self.ledger.decide(&item.id, State::Quarantined, by, at, &[])?;
    }
    self.withdraw(&[hash, line::norm_hash(text)], |ledger, item| {
      // What was approved in another file is another word.
      let Some(item) = item else { return Ok(true) };
      match ledger.item(item.as_str()) {
        Ok(item) => Ok(item.path == target.path()),
        Err(StoreError::UnknownId { .. }) => Ok(true),
        Err(error) => Err(error),
      }
    })
  }

  /// Text that was approved once and is refused now, be it with other line ends. An approval of another copy
  /// that stands is another word.
  fn take_back(&mut self, item: &Item) -> Result<(), EngineError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: None };
    let stands = self.ledger.items(&filter)?.iter().any(|other| other.hash == item.hash);
    let mut hashes = vec![item.hash];
    match self.ledger.unseal(&item.id) {
      Ok(plain) => hashes.push(line::norm_hash(&plain)),
      // Nobody knows any more what it says.
      Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. } | StoreError::NoKey) => {}
      Err(error) => return Err(error.into()),
    }
    self.withdraw(&hashes, |_, of| Ok(of.map_or(!stands, |of| *of == item.id)))
  }

  /// Takes the approvals back that are meant, by their items.
  fn withdraw(
    &mut self,
    hashes: &[ContentHash],
    is_meant: impl Fn(&Ledger, Option<&BlockId>) -> Result<bool, StoreError>,
  ) -> Result<(), EngineError> {
    for &hash in hashes {
      for exception in self.ledger.exceptions_of(hash)? {
        if is_meant(&self.ledger, exception.key.item.as_ref())? {
          self.ledger.withdraw_exception(&exception.key)?;
        }
      }
    }
    Ok(())
  }

  /// Makes an approval durable: by content, for what was found in it, in the context in which it now stands.
  pub(super) fn excuse(
    &mut self,
    item: &Item,
    approval: Approval<'_>,
    (placed, context): (Placed, ContentHash),
    at: i64,
  ) -> Result<(), EngineError> {
    let Approval { by, reason, until, .. } = approval;
    let event = Event::new(EventKind::Approved)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(match placed {
        Placed::AtPlaceholder => format!("back in its place, {}", by_whom(by, reason)),
        Placed::Appended => format!("appended, {}", by_whom(by, reason)),
        Placed::Elsewhere => format!("appended under other words, {}", by_whom(by, reason)),
        Placed::InPlace => by_whom(by, reason),
      });
    let why = reason.unwrap_or_default();
    let key = ExceptionKey { hash: item.hash, item: Some(item.id.clone()) };
    self.ledger.except(&key, context, &item.codes, why, at, until)?;
    self.ledger.decide(&item.id, State::Approved, by, at, &[event.row()])?;
    event.log(None);
    Ok(())
  }

  /// Notes that the lazy pass has work in a file: before the decision that makes it so, for alone it does
  /// no harm.
  fn want_reshape(&mut self, path: &Path) -> Result<(), EngineError> {
    self.still_due(path, Pending::RESHAPE)
  }

  /// Lets the lazy pass look at a file, at once where nobody has it open: a person is waiting.
  fn renew(&mut self, path: &Path) -> Result<(), EngineError> {
    let Some(target) = self.target_of(path)? else { return Ok(()) };
    self.catch_up(&target)?;
    self.want_reshape(path)?;
    // Markers wait until it is known who wrote what.
    self.attribute(&target, Duration::ZERO)?;
    self.class_back(&target)?;
    self.lazy(&target, Duration::ZERO)?;
    Ok(())
  }

  /// Brings the ledger up to date with a file, waiting a while for others to close it.
  pub(super) fn catch_up(&mut self, target: &Target) -> Result<(), EngineError> {
    let start = self.clock.monotonic();
    loop {
      let waited = self.clock.monotonic().saturating_sub(start);
      let outcome = self.pass(target, &Hint { waited, ..Hint::default() })?;
      let again = matches!(
        outcome,
        Outcome::Busy | Outcome::HoldOff(_) | Outcome::Changed | Outcome::HeldOpen
      );
      if !again || waited >= PATIENCE {
        return Ok(());
      }
      self.clock.pause(RETRY);
    }
  }

  /// Whether the ledger knows this version as one that was judged to its end. What was found while the file
  /// could not be written is still to leave it, so then the next pass takes it up.
  pub(super) fn is_judged(
    &mut self,
    row: Option<&FileRow>,
    hash: ContentHash,
  ) -> Result<bool, EngineError> {
    let Some(row) = row.filter(|row| row.hash == Some(hash)) else { return Ok(false) };
    if row.note.is_some() {
      let at = self.now();
      self.ledger.set_stamp(&row.path, None, None, at)?;
      return Ok(false);
    }
    Ok(true)
  }

  /// Whether the path still leads to this file; an editor may have renamed another one over it.
  pub(super) fn is_on_path(
    &mut self,
    target: &Target,
    file: &F::File,
  ) -> Result<bool, EngineError> {
    let open = file.stamp()?;
    Ok(self.stamp(target)?.is_some_and(|stamp| stamp.same_file(&open)))
  }

  /// Opens a file and waits a while for its lease, where one can be had at all.
  pub(super) fn open_leased(
    &mut self,
    target: &Target,
    patience: Duration,
  ) -> Result<F::File, EngineError> {
    self.hot.remove(target);
    let mut file = self
      .open_within(target, patience)?
      .map_err(|error| EngineError::refused(error.to_string()))?;
    let name = shown(&target.path());
    if let Touch::ReadOnly(reason) = file.access() {
      return Err(EngineError::refused(format!("`{name}` is not written: {reason}")));
    }
    match lease_within(&mut file, &*self.clock, patience)? {
      // Without leases what follows compares before it writes, and changes no length.
      Lease::Held | Lease::Unsupported => Ok(file),
      Lease::Busy => Err(EngineError::refused_with(
        format!("another program has `{name}` open"),
        "close it there and try again",
      )),
    }
  }
}

pub(super) fn by_whom(by: &str, reason: Option<&str>) -> String {
  match reason {
    Some(reason) => format!("by {by}: {reason}"),
    None => format!("by {by}"),
  }
}
