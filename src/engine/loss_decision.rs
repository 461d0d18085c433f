//! Carries out a person's decision about a loss: the loss is accepted, or the version from before is restored.
//!
//! A rejection is the journalled restore of `restore`, so poison that is in quarantine stays out. The row says that the
//! file is being restored before the file is changed; after a crash the next check or another rejection completes it.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind, Target, decisions::by_whom, event::shown,
  loss_check::extent, pending::target_of, restore::Restored,
};
use crate::{
  files::Fs,
  memory::ContentHash,
  store::{Loss, LossState},
};

impl<F: Fs> Engine<F> {
  /// Accepts a loss: from now on the file is compared with what it has left.
  pub fn approve_loss(
    &mut self,
    loss: &Loss,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Loss, EngineError> {
    must_wait(loss)?;
    let at = self.now();
    let mut decided = loss.clone();
    decided.found.state = LossState::Approved;
    decided.reviewed = Some((at, by.to_owned()));
    let event = event(
      loss,
      EventKind::LossApproved,
      format!("{}, {}", extent(&loss.found), by_whom(by, reason)),
    );
    self.put(&decided, &event)?;
    self.read_again(loss)
  }

  /// Restores what the file had before the loss.
  pub fn reject_loss(
    &mut self,
    loss: &Loss,
    by: &str,
    reason: Option<&str>,
  ) -> Result<(Loss, Restored), EngineError> {
    must_wait(loss)?;
    self.must_be_kept(loss)?;
    let target = self.target_of_loss(loss)?;
    let at = self.now();
    let mut begun = loss.clone();
    begun.found.state = LossState::Restoring;
    begun.reviewed = Some((at, by.to_owned()));
    if !self.ledger.change_loss(&begun, &[], at)? {
      return Err(changed(loss));
    }
    let restored = match self.restore(&target, loss.found.base, by) {
      Ok(restored) => restored,
      Err(error) => {
        let mut back = self.read_again(loss)?;
        if back.found.state == LossState::Restoring {
          back.found.state = LossState::Lost;
          back.reviewed = None;
          self.ledger.change_loss(&back, &[], at)?;
        }
        return Err(error);
      }
    };
    let mut done = self.read_again(loss)?;
    // A check of the daemon may have completed it already.
    if done.found.state == LossState::Restoring {
      done.found.state = LossState::Rejected;
      done.restored = self.newest_version(&target)?;
      let event = event(loss, EventKind::LossRejected, by_whom(by, reason));
      self.put(&done, &event)?;
    }
    Ok((self.read_again(loss)?, restored))
  }

  /// Takes the decision about a loss back: it waits again, and a restored file has again what it had.
  pub fn undo_loss(
    &mut self,
    loss: &Loss,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Loss, EngineError> {
    self.must_be_kept(loss)?;
    match loss.found.state {
      LossState::Approved => {
        if let Some(later) =
          self.ledger.open_loss(loss.file)?.filter(|one| one.found.state.is_waiting())
        {
          return Err(EngineError::refused_with(
            format!("`{}` has lost more since", shown(&loss.path)),
            format!("decide about that first: `memfw show {}`", later.id),
          ));
        }
      }
      LossState::Rejected => self.take_text_back(loss, by)?,
      state => {
        return Err(EngineError::refused(format!(
          "`{}` is {}: there is no decision to undo",
          loss.id,
          state.shown()
        )));
      }
    }
    let event = event(loss, EventKind::Undone, format!("lost again, {}", by_whom(by, reason)));
    let at = self.now();
    if !self.ledger.undecide_loss(loss, &[event.row()], at)? {
      return Err(changed(loss));
    }
    event.log(None);
    self.read_again(loss)
  }

  /// Gives a restored file the content that it had before.
  fn take_text_back(&mut self, loss: &Loss, by: &str) -> Result<(), EngineError> {
    let target = self.target_of_loss(loss)?;
    let path = shown(&loss.path);
    let present = self.present(&target)?.map(|text| ContentHash::of(&text));
    // An undoing that was interrupted has already done it.
    if present == loss.found.after {
      return Ok(());
    }
    if present != loss.restored {
      return Err(EngineError::refused_with(
        format!("`{path}` has changed since it was restored"),
        format!("choose one of its versions: `memfw restore {path} --list`"),
      ));
    }
    let Some(after) = loss.found.after else {
      return Err(EngineError::refused_with(
        format!("`{path}` was gone, and memfw removes no memory file"),
        format!("remove it yourself: `rm {path}`"),
      ));
    };
    self.restore(&target, after, by).map(drop)
  }

  fn put(&mut self, loss: &Loss, event: &Event) -> Result<(), EngineError> {
    let at = self.now();
    if !self.ledger.change_loss(loss, &[event.row()], at)? {
      return Err(changed(loss));
    }
    event.log(None);
    Ok(())
  }

  fn must_be_kept(&self, loss: &Loss) -> Result<(), EngineError> {
    if self.ledger.is_version_kept(loss.found.base)? {
      return Ok(());
    }
    Err(EngineError::refused_with(
      format!("what `{}` had before is not kept any more", shown(&loss.path)),
      "`versions.max_mb` sets how much space versions may take",
    ))
  }

  fn target_of_loss(&self, loss: &Loss) -> Result<Target, EngineError> {
    let target = target_of(&self.ledger, &loss.path)?;
    let error =
      || EngineError::refused(format!("`{}` is in no guarded workspace", shown(&loss.path)));
    target.ok_or_else(error)
  }

  fn newest_version(&self, target: &Target) -> Result<Option<ContentHash>, EngineError> {
    Ok(self.ledger.versions(&target.path())?.first().map(|version| version.hash))
  }

  fn read_again(&self, loss: &Loss) -> Result<Loss, EngineError> {
    let found = self.ledger.loss(loss.id.as_str())?;
    found
      .ok_or_else(|| EngineError::refused(format!("the text of `{}` is back by itself", loss.id)))
  }
}

fn event(loss: &Loss, kind: EventKind, detail: String) -> Event {
  Event::new(kind).path(&loss.path).block(&loss.id).detail(detail)
}

fn must_wait(loss: &Loss) -> Result<(), EngineError> {
  if loss.found.state.is_waiting() {
    return Ok(());
  }
  Err(EngineError::refused_with(
    format!("`{}` is already {}", loss.id, loss.found.state.shown()),
    format!("to take that back: `memfw undo {}`", loss.id),
  ))
}

/// Another process has changed the row since it was read.
fn changed(loss: &Loss) -> EngineError {
  EngineError::refused_with(
    format!("`{}` has changed meanwhile", loss.id),
    format!("look at it once more: `memfw show {}`", loss.id),
  )
}
