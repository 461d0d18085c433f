//! Restores approved bytes to their file, exactly.
//!
//! The approval is durable before the file is changed, the operation is journalled, and the file is
//! compared before the write. For a while afterwards, another program may save an older version with
//! the placeholder over the file; then the bytes are restored again. A person's deletion is final.
#![forbid(unsafe_code)]

use std::{cell::Cell, time::Duration};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  decisions::{Approval, Contexts, Placed, already, refuse_decided},
  edit::{Edit, Locked, Replacement},
  event::shown,
  landing::{Landing, Restore, misplaced, refuse_inside},
  pending::{self, target_of},
  pieces::forms_of,
  prepare::{ATTEMPTS, MOMENT, PATIENCE, is_judged},
  record::ScannedVersion,
};
use crate::{
  failpoint::{Plan, Point, hit},
  files::{Fs, MemoryFile, Touch, overwrite::Change},
  judging::{
    approvals::{WATCHED_FOR, plain_of},
    judge_context::RestoredText,
    origin::Origin,
    precedent::{context, contexts},
  },
  memory::{Around, BlockId, ContentHash, Document, Known, consecutive, marker, placeholder},
  provenance::State,
  store::{Item, Pending, StoreError, Writer},
};

/// Why bytes are restored.
#[derive(Clone, Copy)]
enum Cause<'a> {
  /// A person approved them.
  Approval {
    word: Approval<'a>,
    /// Whether an earlier attempt has made the approval durable.
    decided: &'a Cell<bool>,
  },
  /// The judge has released them, or the owner said them: they return to their place, or not at all.
  Release { word: Approval<'a>, decided: &'a Cell<bool> },
  /// They are approved, and their placeholder came back.
  Again,
}

impl Cause<'_> {
  /// How long to wait for the file.
  const fn patience(&self) -> Duration {
    match self {
      Self::Approval { .. } => PATIENCE,
      Self::Release { .. } | Self::Again => Duration::ZERO,
    }
  }
}

impl<F: Fs> Engine<F> {
  /// Brings recently approved text back whose placeholder is in the file again. Does not wait for other
  /// programs; returns whether there is work left for later.
  pub(super) fn bring_back_again(&mut self, target: &Target) -> Result<bool, EngineError> {
    let mut is_left = false;
    self.recover_file(&target.path())?;
    // Without the key nothing can be unsealed; `status` reports that.
    if !self.ledger.has_key() {
      return Ok(false);
    }
    let since = self.now().saturating_sub(WATCHED_FOR);
    let approved = self.ledger.approved_since(&target.path(), since)?;
    if approved.is_empty() {
      return Ok(false);
    }
    // A file that cannot be opened has no place for any of them.
    let bytes = match self.files.open(target)? {
      Ok(file) => file.read_all()?,
      Err(_) => vec![],
    };
    for id in approved {
      match self.bring_back(target, &bytes, &id) {
        Ok(is_due) => is_left |= is_due,
        // All other items are restored.
        Err(EngineError::Store(error)) if error.is_of_one_record() => {
          self.give_up_awaited(&id, &error)?;
        }
        Err(error) => return Err(error),
      }
    }
    Ok(is_left)
  }

  /// Brings one text back to a file with this content; returns whether that is still to be done.
  fn bring_back(
    &mut self,
    target: &Target,
    bytes: &[u8],
    id: &BlockId,
  ) -> Result<bool, EngineError> {
    let item = self.ledger.item(id.as_str())?;
    // Most approved texts are in their files: no lease is requested for them. Each form of a placeholder has the short
    // one in it.
    if !item.awaited && marker::find(bytes, placeholder::short(id).as_bytes(), 0).is_none() {
      return Ok(false);
    }
    let done = if item.status == State::Split {
      self.split_again(target, &item)
    } else {
      self.put_back_once(target, &item, Cause::Again).map(|placed| placed.is_some())
    };
    match done {
      Ok(true) => Ok(false),
      Ok(false) | Err(EngineError::Refused { .. }) => self.has_place(target, &item),
      Err(error) => Err(error),
    }
  }

  /// Stops waiting to restore a text whose bytes cannot be read: it, or a part of it, was deleted, or its seal does not
  /// open. If it is in its file, nothing is lost by that.
  fn give_up_awaited(&mut self, id: &BlockId, error: &StoreError) -> Result<(), EngineError> {
    let item = match self.ledger.item(id.as_str()) {
      Err(error) if error.is_of_one_record() => return Ok(()),
      item => item?,
    };
    if !item.awaited {
      return Ok(());
    }
    self.ledger.restored(id)?;
    let event = Event::new(EventKind::Recovered).path(&item.path).block(id);
    let why = format!("its approved text is not restored: {error}");
    self.tell(event.origin(&item.source, item.trust).detail(why))
  }

  /// Whether the placeholder of an item is in a writable file.
  fn has_place(&mut self, target: &Target, item: &Item) -> Result<bool, EngineError> {
    let plain = self.ledger.unseal(&item.id)?;
    let Ok(file) = self.files.open(target)? else { return Ok(false) };
    let may_be_written = matches!(file.access(), Touch::Full);
    let bytes = file.read_all()?;
    let restore = Restore::find(&bytes, &item.id, &plain);
    let fits = restore.may_be_written(self.files.may_reshape(&target.root));
    let is_there = may_be_written && fits && restore.placed == Placed::AtPlaceholder;
    if !is_there
      || item.status == State::Approved && self.approvals().is_back(item, &bytes, &plain)?
    {
      return Ok(false);
    }
    Ok(self.lands(target, item, &plain, bytes, restore, false)?.is_right)
  }

  pub(super) fn put_back(
    &mut self,
    item: &Item,
    word: Approval<'_>,
  ) -> Result<Placed, EngineError> {
    let Some(target) = target_of(&self.ledger, &item.path)? else {
      return self.approve_next_write(item, word);
    };
    if self.files.stamp(&target)?.is_none() {
      return Err(EngineError::refused_with(
        format!("`{}` does not exist any more", shown(&item.path)),
        format!("restore the file first: `memfw restore {}`", shown(&item.path)),
      ));
    }
    let decided = Cell::new(false);
    for _ in 0..ATTEMPTS {
      // Text that others wrote meanwhile is judged first, so that the approval does not cover it.
      self.catch_up(&target)?;
      let cause = Cause::Approval { word, decided: &decided };
      match self.put_back_once(&target, item, cause) {
        Ok(Some(placed)) => return Ok(placed),
        Ok(None) => {}
        Err(error) => return Err(self.not_back_yet(item, error, decided.get())?),
      }
    }
    let error =
      EngineError::refused_with("others keep writing to the file", "approve it once more");
    Err(self.not_back_yet(item, error, decided.get())?)
  }

  /// Approves a text that was refused and whose file the ledger does not know: memfw creates no file, so the
  /// approval is about the next write of the same content.
  fn approve_next_write(&mut self, item: &Item, word: Approval<'_>) -> Result<Placed, EngineError> {
    let _writing = self.files.lock()?;
    refuse_decided(&self.ledger, item)?;
    if item.status == State::Approved {
      return Err(already(item));
    }
    let plain = self.ledger.unseal(&item.id)?;
    // A text that was taken out of a file belongs back into that file, which memfw has lost sight of.
    let refused = if self.was_refused(item)? {
      self.ledger.existing_item(&item.path, item.hash, item.n)?
    } else {
      None
    };
    let here = refused.and_then(|refused| refused.context).ok_or_else(|| {
      EngineError::refused_with(
        format!("`{}` is in no guarded workspace", shown(&item.path)),
        format!("take the text from `memfw show {}`", item.id),
      )
    })?;
    self.decisions().excuse_also(item, &plain, word, Placed::NextWrite, Contexts::own(here))?;
    Ok(Placed::NextWrite)
  }

  /// Brings back an item that no person has decided about, in the name of `word`. Does not wait for
  /// other programs; returns whether it is still to be done.
  pub(super) fn release(
    &mut self,
    target: &Target,
    item: &Item,
    word: Approval<'_>,
  ) -> Result<bool, EngineError> {
    let decided = Cell::new(false);
    match self.put_back_once(target, item, Cause::Release { word, decided: &decided }) {
      Ok(Some(_)) => Ok(false),
      // Once the decision is durable, the item returns like other approved ones.
      done if decided.get() => {
        pending::add(&mut self.ledger, &item.path, Pending::RESHAPE)?;
        match done {
          Err(error) if !matches!(error, EngineError::Refused { .. }) => Err(error),
          _ => Ok(false),
        }
      }
      Err(EngineError::Refused { .. }) | Ok(None) => self.has_place(target, item),
      Err(error) => Err(error),
    }
  }

  /// Whether a text may still be restored. Another process may have decided about it while this one waited for the
  /// write lock, or between two attempts.
  fn is_meant_still(&self, item: &Item, cause: Cause<'_>) -> Result<bool, EngineError> {
    let is_approved = || -> Result<bool, EngineError> {
      Ok(self.ledger.item(item.id.as_str())?.status == State::Approved)
    };
    match cause {
      Cause::Again => is_approved(),
      Cause::Approval { decided, .. } | Cause::Release { decided, .. } if decided.get() => {
        if is_approved()? {
          return Ok(true);
        }
        // The daemon does not continue it either.
        decided.set(false);
        Err(EngineError::refused(format!("the approval of `{}` was taken back meanwhile", item.id)))
      }
      Cause::Approval { .. } => refuse_decided(&self.ledger, item).map(|()| true),
      Cause::Release { .. } => Ok(self.ledger.item(item.id.as_str())?.status.is_waiting()),
    }
  }

  /// One attempt; `None` if another program wrote the file or replaced it meanwhile.
  fn put_back_once(
    &mut self,
    target: &Target,
    item: &Item,
    cause: Cause<'_>,
  ) -> Result<Option<Placed>, EngineError> {
    let (writing, mut file) = self.lock_leased(target, cause.patience())?;
    if !self.files.is_on_path(target, &file)? {
      return Ok(None);
    }
    let leased = file.leased_for().is_some();
    if !self.is_meant_still(item, cause)? {
      return Ok(None);
    }
    let plain = self.ledger.unseal(&item.id)?;
    let bytes = file.read_all()?;
    let row = self.ledger.file(&item.path)?;
    // The restore records the whole version, and must not record text that was not judged.
    if !is_judged(&mut self.ledger, row.as_ref(), ContentHash::of(&bytes), self.clock.now())? {
      return Ok(None);
    }
    let restore = Restore::find(&bytes, &item.id, &plain);
    // The placeholder may have been copied, or the text may have been added to the end.
    let is_out = restore.placed == Placed::AtPlaceholder;
    let is_within = || !is_out && marker::find(&bytes, &plain, 0).is_some();
    if matches!(cause, Cause::Again)
      && (is_within() || self.approvals().is_back(item, &bytes, &plain)?)
    {
      if item.awaited {
        self.ledger.restored(&item.id)?;
      }
      return Ok(None);
    }
    // Removing the old placeholder shifts text, which needs a lease.
    let may_drop = leased && self.files.may_reshape(&target.root);
    let Landing { restore, around, is_right, beside, place, open } =
      self.lands(target, item, &plain, bytes.clone(), restore, may_drop)?;
    let here = context(&self.ledger, &item.path, &around)?;
    match cause {
      // If the placeholder was deleted, the text stays out.
      Cause::Again | Cause::Release { .. }
        if restore.placed != Placed::AtPlaceholder || !is_right =>
      {
        return Ok(None);
      }
      Cause::Approval { word, decided } if !is_right && !word.at_end && !decided.get() => {
        return Err(misplaced(item, place));
      }
      Cause::Approval { word, decided }
        if restore.placed != Placed::AtPlaceholder
          && (placeholder::has_lines(&bytes, &plain)
            || decided.get() && is_within()
            || self.is_in_line(target, item, &bytes)?) =>
      {
        if decided.get() {
          // The program that replaced the file had read the restored text.
          self.ledger.restored(&item.id)?;
          return Ok(Some(Placed::AtPlaceholder));
        }
        if item.status == State::Approved {
          return Err(already(item));
        }
        // The text never left the disk (a power cut), or is in the file twice: another copy is not
        // wanted.
        file.release();
        let here = context(&self.ledger, &item.path, &around_text(&bytes, &plain))?;
        self.decisions().excuse_also(item, &plain, word, Placed::InPlace, Contexts::own(here))?;
        return Ok(Some(Placed::InPlace));
      }
      Cause::Approval { .. } | Cause::Release { .. } | Cause::Again => {}
    }
    refuse_inside(item, open)?;
    if !restore.may_be_written(self.files.may_reshape(&target.root)) {
      return Err(EngineError::refused_with(
        "the placeholder was changed, and this file system allows no change of length",
        format!("take the text from `memfw show {}`", item.id),
      ));
    }
    let version = ContentHash::of(&bytes);
    let part = Change {
      offset: restore.offset as u64,
      expected: &restore.before,
      replacement: &restore.after,
    };
    let what = Replacement { before: (&bytes, version), after: &restore.new, part: Some(part) };
    let edit = Edit::<F, _>::new(Plan::Approve, Locked::new(&writing, leased), target, &mut file);
    let patience = cause.patience().min(MOMENT);
    let written = edit.replaced(self, &what, patience, |engine| {
      // Recovery drops an edit that was not begun: the text is awaited then, for as long as memfw is down. Before a
      // decision this has no effect.
      if !item.awaited {
        engine.ledger.await_restore(&item.id)?;
      }
      if let Cause::Approval { word, decided } | Cause::Release { word, decided } = cause
        && !decided.replace(true)
      {
        let lines = engine.lines_around(target, item, (&bytes, &restore, &plain))?;
        let beside = contexts(&engine.ledger, &item.path, &beside)?;
        let contexts = Contexts { own: here, lines: &lines, beside: &beside };
        engine.decisions().excuse_also(item, &plain, word, restore.placed, contexts)?;
      }
      hit(Point::ApproveAfterDecision);
      Ok(())
    })?;
    // The decision is durable, so the daemon continues if this attempt gives up.
    let Some(edit) = written.done()? else { return Ok(None) };
    let versions = (version, ContentHash::of(&restore.new));
    let Some(edit) = edit.landed(self, versions)? else { return Ok(None) };
    let seen = ScannedVersion::written(&edit, leased, self.clock.monotonic());
    let origin = Origin::of_item(item).with_request(&self.ledger);
    let restored = RestoredText { span: restore.span(&plain), origin };
    // The version is recorded under the write lock, before any other pass over the file.
    let row = self.ledger.file(&item.path)?;
    let view = self.view(target, row.as_ref(), restore.new, Origin::unknown(), Some(&restored))?;
    self.record(target, &file, &view, &seen)?;
    edit.finish(self)?;
    self.ledger.restored(&item.id)?;
    self.versions.keep_noted(&mut self.ledger, Writer::Memfw, self.clock.now())?;
    drop(file);
    drop(writing);
    if matches!(cause, Cause::Again) {
      let event = Event::new(EventKind::BroughtBack).path(&item.path).block(&item.id);
      let why = if item.awaited {
        "its file could not be written before"
      } else {
        "an older version had restored its placeholder"
      };
      self.tell(event.origin(&item.source, item.trust).detail(why))?;
    }
    Ok(Some(restore.placed))
  }
}

impl<F: Fs> Engine<F> {
  /// The lines of which a text is a part, which are approved with it: their hashes, with their contexts.
  fn lines_around(
    &mut self,
    target: &Target,
    item: &Item,
    (bytes, restore, plain): (&[u8], &Restore, &[u8]),
  ) -> Result<Vec<(ContentHash, ContentHash)>, EngineError> {
    if !item.is_inline() {
      return Ok(vec![]);
    }
    let row = self.ledger.file(&item.path)?;
    let view = self.view_known(target, row.as_ref(), bytes.to_vec())?;
    let document = view.facts.read(&restore.new);
    self.line_approvals(item, (&restore.new, &document), &restore.span(plain))
  }
}

impl<F: Fs> Engine<F> {
  /// Whether an approved part of a line is back among the other parts.
  pub(super) fn is_in_line(
    &mut self,
    target: &Target,
    item: &Item,
    bytes: &[u8],
  ) -> Result<bool, EngineError> {
    let Some(of) = item.part.as_ref().filter(|of| of.is_inline) else { return Ok(false) };
    // An earlier attempt may have approved it.
    if self.ledger.item(item.id.as_str())?.status != State::Approved {
      return Ok(false);
    }
    // Another part may be deleted.
    let Some(plain) = plain_of(&self.ledger, &of.id)? else { return Ok(false) };
    let row = self.ledger.file(&item.path)?;
    let view = self.view_known(target, row.as_ref(), bytes.to_vec())?;
    let forms = forms_of(&self.ledger.parts_of(&of.id)?, &plain, None);
    Ok(consecutive::find(bytes, &view.document, &forms).is_some())
  }
}

/// The context of an approved text that is in its file already.
fn around_text(bytes: &[u8], plain: &[u8]) -> Around {
  let document = Document::parse(bytes, &Known::default());
  let span = placeholder::lines_equal_to(bytes, plain).next();
  span.map_or_else(Around::default, |span| Around::of(bytes, &document, &span))
}
