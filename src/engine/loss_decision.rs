//! Carries out a person's decision about a loss: the loss is accepted, or the version from before is restored.
//!
//! A rejection is the journalled restore of `restore`, so poison that is in quarantine stays out. The row says that the
//! file is being restored before the file is changed; after a crash the next check or another rejection completes it.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind, Target, decisions::by_whom, event::shown,
  loss_check::extent, pending::target_of, prepare::ATTEMPTS, restore::Restored,
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
    if loss.found.state == LossState::Restoring {
      return Err(EngineError::refused_with(
        format!("`{}` is being rejected", loss.id),
        format!(
          "to complete that: `memfw reject {0}`; to take it back then: `memfw undo {0}`",
          loss.id
        ),
      ));
    }
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
    self.begin_restoring(loss, by)?;
    let restored = match self.restore(&target, loss.found.base, by) {
      Ok(restored) => restored,
      Err(error) => {
        let mut back = self.read_again(loss)?;
        if back.found.state == LossState::Restoring {
          back.found.state = LossState::Lost;
          back.reviewed = None;
          let at = self.now();
          self.ledger.change_loss(&back, &[], at)?;
        }
        return Err(error);
      }
    };
    let event = event(loss, EventKind::LossRejected, by_whom(by, reason));
    for _ in 0..ATTEMPTS {
      let mut done = self.read_again(loss)?;
      match done.found.state {
        LossState::Restoring => {
          done.found.state = LossState::Rejected;
          done.restored = restored.left;
          let at = self.now();
          if self.ledger.change_loss(&done, &[event.row()], at)? {
            event.log(None);
          }
        }
        // A check of the daemon may have completed it already.
        LossState::Rejected => return Ok((done, restored)),
        _ => break,
      }
    }
    Err(changed(loss))
  }

  /// Records that the file is being restored. The daemon may measure the loss meanwhile: as long as its base is the one
  /// that the person has chosen, it is still the same loss.
  fn begin_restoring(&mut self, loss: &Loss, by: &str) -> Result<(), EngineError> {
    for _ in 0..ATTEMPTS {
      let mut begun = self.read_again(loss)?;
      must_wait(&begun)?;
      if begun.found.base != loss.found.base {
        break;
      }
      begun.found.state = LossState::Restoring;
      let at = self.now();
      begun.reviewed = Some((at, by.to_owned()));
      if self.ledger.change_loss(&begun, &[], at)? {
        return Ok(());
      }
    }
    Err(changed(loss))
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
      LossState::Approved => {}
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
    let undone = self.read_again(loss)?;
    // Its lines may be back meanwhile, or another loss may have the same.
    self.measure(loss.file)?;
    Ok(undone)
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
