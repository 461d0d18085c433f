//! Takes a person's decision about an item back.
//!
//! An approval is undone by taking exactly the approved bytes out of the file again, under their old id; a
//! rejection by letting the item wait again, with its placeholder in its former place; a take-out by hand is undone
//! in `undo_take_out`. What was deleted cannot be restored.
#![forbid(unsafe_code)]

use std::{ops::Range, time::Duration};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  decisions::{by_whom, nothing_to_undo, refuse_undone},
  edit::{Edit, Locked, Replacement},
  event::shown,
  pending::target_of,
  prepare::{ATTEMPTS, MOMENT, PATIENCE, is_judged},
  record::ScannedVersion,
  redact::Redacted,
  text_copy::{Copy, verdict},
};
use crate::{
  failpoint::Plan,
  files::{Fs, MemoryFile, overwrite::Change},
  judging::{
    approvals::{Approvals, plain_of},
    claim::claims,
    origin::Origin,
    view::View,
  },
  memory::{Around, ContentHash, marker, placeholder},
  provenance::State,
  store::Item,
};

/// How many copies of a text within lines are looked at (a choice: more would be no text that anybody approved once).
const MAX_PLACES: usize = 64;

/// Where the text of an item is after its decision was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
  /// Out of its file again; it had been restored.
  TakenOut,
  /// In the quarantine, with its placeholder in the file.
  Waits,
  /// In the quarantine, without a place in the file.
  WaitsWithoutPlace,
  /// In its file, flagged or in another state of before.
  InFile,
}

impl<F: Fs> Engine<F> {
  /// Takes the decision about an item back, or, without an id, the last decision of a person.
  pub fn undo(
    &mut self,
    id: Option<&str>,
    by: &str,
    reason: Option<&str>,
  ) -> Result<(Item, Undone), EngineError> {
    let last = match id {
      Some(id) => Some(id.to_owned()),
      None => self.ledger.last_decided()?.map(|(id, _)| id.to_string()),
    };
    let last = last.ok_or_else(|| EngineError::refused("there is no decision to undo"))?;
    let item = self.ledger.item(&last)?;
    if let (true, Some(taken)) = (item.status.is_waiting(), self.ledger.taken_out(&item.id)?) {
      let block = match self.undo_take_out(&item, &taken, by, reason) {
        Ok(block) => block,
        Err(error) => {
          // Otherwise the daemon would restore the text as an approved one.
          let now = self.ledger.item(item.id.as_str())?;
          if now.status == State::Approved {
            self.undo_approval(&now, by, None)?;
          }
          return Err(error);
        }
      };
      self.renew(&item.path)?;
      return Ok((block, Undone::InFile));
    }
    let undone = match item.status {
      State::Split if self.undo_split(&item, by, reason)? => Undone::TakenOut,
      State::Split => Undone::WaitsWithoutPlace,
      State::Approved if item.is_inline() && !self.is_line(&item)? => {
        let whole = item.part.as_ref().map(|part| part.id.to_string()).unwrap_or_default();
        return Err(EngineError::refused_with(
          format!("`{}` came back within a line, as a part of `{whole}`", item.id),
          format!("take all parts back: `memfw undo {whole}`"),
        ));
      }
      State::Approved if item.in_file => self.undo_clearing(&item, by, reason)?,
      State::Approved => self.undo_approval(&item, by, reason)?,
      State::Rejected if !item.in_file => self.undo_rejection(&item, by, reason)?,
      State::Forgotten => {
        return Err(EngineError::refused_with(
          format!("the text of `{}` was deleted, and cannot be restored", item.id),
          "undo an earlier decision by its id: `memfw undo ID`",
        ));
      }
      _ => return Err(nothing_to_undo(&item)),
    };
    Ok((self.ledger.item(item.id.as_str())?, undone))
  }

  /// Whether a part of a line is not in that line, but a line of its own: it was added to the end.
  fn is_line(&mut self, item: &Item) -> Result<bool, EngineError> {
    let Some(target) = target_of(&self.ledger, &item.path)? else { return Ok(false) };
    let (Ok(Ok(file)), Some(plain)) = (self.files.open(&target), plain_of(&self.ledger, &item.id)?)
    else {
      return Ok(false);
    };
    let bytes = file.read_all()?;
    Ok(placeholder::has_lines(&bytes, &plain) && !self.is_in_line(&target, item, &bytes)?)
  }

  /// A flagged block that was cleared is flagged again.
  fn undo_clearing(
    &mut self,
    item: &Item,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Undone, EngineError> {
    // The block is the whole text of its exception.
    self.decide_and_renew(item, refuse_undone, |engine| {
      engine.ledger.withdraw_exceptions_of(&item.id)?;
      engine.undecide(item, (item.status, State::Flagged), by, reason)
    })?;
    Ok(Undone::InFile)
  }

  fn undo_rejection(
    &mut self,
    item: &Item,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Undone, EngineError> {
    let former = self.ledger.former_state(&item.id)?;
    self.decide_and_renew(item, refuse_undone, |engine| {
      engine.undecide(item, (item.status, former), by, reason)
    })?;
    self.waits(item)
  }

  fn undo_approval(
    &mut self,
    item: &Item,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Undone, EngineError> {
    let former = self.ledger.former_state(&item.id)?;
    // In place, the approval ends before the text is taken out.
    let mut now = item.clone();
    if let Some(target) = target_of(&self.ledger, &item.path)? {
      let mut is_absent = false;
      for _ in 0..ATTEMPTS {
        // Without a file there is nothing to take out.
        is_absent = self.files.stamp(&target)?.is_none();
        if is_absent {
          break;
        }
        // Text that others wrote meanwhile is judged by itself.
        self.catch_up(&target)?;
        match self.take_out_again(&target, &mut now, former, (by, reason))? {
          Taken::Out => {
            self.renew(&item.path)?;
            return Ok(Undone::TakenOut);
          }
          Taken::Absent => return self.waits(item),
          Taken::Changed => {
            if !item.awaited {
              self.ledger.restored(&item.id)?;
            }
          }
        }
      }
      if !is_absent && self.files.stamp(&target)?.is_some() {
        return Err(EngineError::refused_with("others keep writing to the file", "try again"));
      }
    }
    let writing = self.files.lock()?;
    refuse_undone(&self.ledger, &now)?;
    self.withdraw(&now, former, (by, reason))?;
    drop(writing);
    self.waits(item)
  }

  /// Withdraws the approval of a text that is in no file any more, under the write lock.
  fn withdraw(
    &mut self,
    item: &Item,
    former: State,
    (by, reason): (&str, Option<&str>),
  ) -> Result<(), EngineError> {
    self.ledger.withdraw_exceptions_of(&item.id)?;
    self.undecide(item, (item.status, former), by, reason)
  }

  /// Takes the approved bytes of an item out of its file, if they are there.
  fn take_out_again(
    &mut self,
    target: &Target,
    item: &mut Item,
    former: State,
    (by, reason): (&str, Option<&str>),
  ) -> Result<Taken, EngineError> {
    let (writing, mut file) = self.lock_leased(target, PATIENCE)?;
    let leased = file.leased_for().is_some();
    if !self.files.is_on_path(target, &file)? {
      return Ok(Taken::Changed);
    }
    refuse_undone(&self.ledger, item)?;
    let started = self.clock.monotonic();
    let bytes = file.read_all()?;
    let plain = self.ledger.unseal(&item.id)?;
    let row = self.ledger.file(&target.path())?;
    if !is_judged(&mut self.ledger, row.as_ref(), ContentHash::of(&bytes), self.clock.now())? {
      return Ok(Taken::Changed);
    }
    let view = self.view_known(target, row.as_ref(), bytes)?;
    let locked = Locked::new(&writing, leased);
    let form = placeholder::redact(&plain, &item.id);
    let (new, part) = if let Some(copy) = Copy::find(&view, item, &plain) {
      if !leased || !self.files.may_reshape(&target.root) {
        // At equal length, as it was taken out first. There are no markers to heed on such a file system.
        return self.redact_again(
          target,
          (&mut file, locked),
          view,
          (item, former, copy),
          (by, started),
        );
      }
      (copy.replaced(&view, &item.id), None)
    } else if let Some(offset) = within_line(&self.approvals(), &view, item, &plain)? {
      // A text that begins or ends within a line: its placeholder takes its place, at equal length.
      let head = view.bytes.get(..offset).unwrap_or_default();
      let tail = view.bytes.get(offset + plain.len()..).unwrap_or_default();
      let part = Change { offset: offset as u64, expected: &plain, replacement: &form };
      ([head, &form, tail].concat(), Some(part))
    } else {
      // Under the same lock: the daemon restores an approved text that is awaited.
      self.withdraw(item, former, (by, reason))?;
      return Ok(Taken::Absent);
    };
    // A process that dies before the decision is taken back leaves the text approved: it is restored again.
    self.ledger.await_restore(&item.id)?;
    let edit = Edit::<F, _>::new(Plan::Approve, locked, target, &mut file);
    let what = Replacement { before: (&view.bytes, view.hash), after: &new, part };
    let written = edit.replaced(self, &what, MOMENT, |_| Ok(()))?;
    let Some(edit) = written.done()? else { return Ok(Taken::Changed) };
    let versions = (view.hash, ContentHash::of(&new));
    let Some(edit) = edit.landed(self, versions)? else { return Ok(Taken::Changed) };
    self.withdraw(item, former, (by, reason))?;
    let seen = ScannedVersion::written(&edit, leased, started);
    self.record_taken_out(target, (&file, new), edit, &seen)?;
    Ok(Taken::Out)
  }

  /// Takes the lines out in place, where a file must keep its length.
  fn redact_again(
    &mut self,
    target: &Target,
    (file, locked): (&mut F::File, Locked<'_>),
    mut view: View,
    (item, former, copy): (&mut Item, State, Copy),
    (by, started): (&str, Duration),
  ) -> Result<Taken, EngineError> {
    // To the plan these lines are the only ones with a verdict.
    view.judgements.iter_mut().for_each(|judgement| *judgement = None);
    if let Some(judgement) = view.judgements.get_mut(copy.block) {
      *judgement = Some(verdict(item, former, copy.lines));
    }
    view.origin = Origin::of_item(item).with_request(&self.ledger);
    view.is_undo = true;
    let plan = view.urgent();
    if plan.redactions.iter().any(|one| ContentHash::of(&one.original) != item.hash) {
      let place = format!("{}:{}", shown(&item.path), copy.line);
      return Err(EngineError::refused_with(
        format!("the text of `{}` is joined with other text now", item.id),
        format!("take the entry out: `memfw quarantine add {place}`"),
      ));
    }
    // The approval ends first: a redaction takes out no text that a person has approved.
    self.ledger.withdraw_exceptions_of(&item.id)?;
    self.ledger.restored(&item.id)?;
    self.ledger.decide(&item.id, former, by, self.clock.now(), &[])?;
    item.status = former;
    match self.redact(target, file, locked, &view, &plan.redactions, started)? {
      Redacted::Done { edit, .. } => {
        edit.finish(self)?;
        let (reviewer, at) = (reviewer(item, by), self.now());
        self.ledger.undecide(&item.id, (former, former), reviewer, at, &[])?;
        Ok(Taken::Out)
      }
      Redacted::Changed => Ok(Taken::Changed),
    }
  }

  fn undecide(
    &mut self,
    item: &Item,
    (from, state): (State, State),
    by: &str,
    reason: Option<&str>,
  ) -> Result<(), EngineError> {
    let event = Event::new(EventKind::Undone)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(format!("{} again, {}", state, by_whom(by, reason)));
    let at = self.now();
    self.ledger.undecide(&item.id, (from, state), reviewer(item, by), at, &[event.row()])?;
    event.log(None);
    Ok(())
  }

  /// Whether an item that waits again has its placeholder.
  fn waits(&mut self, item: &Item) -> Result<Undone, EngineError> {
    let Some(target) = target_of(&self.ledger, &item.path)? else {
      return Ok(Undone::WaitsWithoutPlace);
    };
    let (Ok(Ok(file)), Some(plain)) = (self.files.open(&target), plain_of(&self.ledger, &item.id)?)
    else {
      return Ok(Undone::WaitsWithoutPlace);
    };
    let bytes = file.read_all()?;
    let is_there = placeholder::find(&bytes, &item.id, &plain).is_some();
    Ok(if is_there { Undone::Waits } else { Undone::WaitsWithoutPlace })
  }
}

/// Where the bytes of an item are that are no lines of their own, in the context of its approval. Equal words that others
/// wrote are theirs.
fn within_line(
  approvals: &Approvals<'_>,
  view: &View,
  item: &Item,
  plain: &[u8],
) -> Result<Option<usize>, EngineError> {
  let absent: Vec<Range<usize>> = claims(&view.bytes).collect();
  let mut at = 0;
  for _ in 0..MAX_PLACES {
    let Some(start) = marker::find(&view.bytes, plain, at) else { break };
    let span = start..start + plain.len();
    let now =
      [&[][..], &absent].map(|gone| Around::without(&view.bytes, &view.document, &span, gone));
    if approvals.approved_in_context(&item.path, item.hash, &now)?.contains(&item.id) {
      return Ok(Some(start));
    }
    at = start + 1;
  }
  Ok(None)
}

/// What became of an approved text.
enum Taken {
  Out,
  /// It is not in the file.
  Absent,
  /// Another program wrote the file meanwhile.
  Changed,
}

/// Who stays the reviewer: nobody where a person's decision is undone, else the person, so that memfw does not
/// decide once more.
fn reviewer<'a>(item: &Item, by: &'a str) -> Option<&'a str> {
  let is_ours = item.reviewed_by.as_deref().is_some_and(|by| matches!(by, "memfw" | "judge"));
  is_ours.then_some(by)
}
