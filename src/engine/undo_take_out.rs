//! Takes a take-out by hand back: the text returns to its place, and the block is what it was before.
//!
//! The text returns like an approved one, so a process that dies meanwhile loses nothing: the text is approved then,
//! until a person takes this back.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind,
  decisions::{Approval, Placed, by_whom},
  event::shown,
};
use crate::{
  detect::Code,
  files::Fs,
  provenance::State,
  store::{Before, BlockRow, Item, TakenOut},
};

/// The reason of the approval by which a text returns.
const WHY: &str = "its take-out was undone";

impl<F: Fs> Engine<F> {
  /// Restores an item that a person had taken out, as the block that it was; returns whether it is in its file.
  pub(super) fn undo_take_out(
    &mut self,
    item: &Item,
    taken: &TakenOut,
    by: &str,
    reason: Option<&str>,
  ) -> Result<(Item, bool), EngineError> {
    let why = reason.unwrap_or(WHY);
    let word = Approval { by, reason: Some(why), until: None, at_end: false };
    let (_, placed) = self.approve_as(item.id.as_str(), word)?;
    if placed == Placed::NextWrite {
      return Ok((self.ledger.item(item.id.as_str())?, false));
    }
    let was = self.ledger.block(&taken.block)?.map(|place| place.block);
    let back = self.back(item, was.as_ref())?;
    let id = back.as_ref().map_or(&item.id, |_| &taken.block);
    let event = Event::new(EventKind::Undone)
      .path(&item.path)
      .block(id)
      .origin(&item.source, item.trust)
      .detail(format!("{} again, {}", taken.state, by_whom(by, reason)));
    let (at, events) = (self.now(), [event.row()]);
    let Some(back) = back.filter(|_| taken.state != State::Approved) else {
      // Before the take-out it was approved, too.
      self.ledger.forget_taken_out(&item.id, at, &events)?;
      event.log(None);
      return Ok((self.ledger.item(item.id.as_str())?, true));
    };
    let mut codes = was.as_ref().map_or(&item.codes, |was| &was.codes).clone();
    codes.retain(|code| *code != Code::ManualQuarantine);
    let before = Before {
      id: &taken.block,
      state: taken.state,
      codes: &codes,
      score: was.as_ref().map_or(item.score, |was| was.score),
      findings: was.as_ref().map_or(&item.findings, |was| &was.findings),
    };
    self.ledger.undo_taken_out(&item.id, &back.id, &before, at, &events)?;
    event.log(None);
    self.renew(&item.path)?;
    let mut item = item.clone();
    (item.id, item.status, item.in_file) = (taken.block.clone(), taken.state, true);
    Ok((item, true))
  }

  /// The block that a restored item is in its file.
  fn back(&self, item: &Item, was: Option<&BlockRow>) -> Result<Option<BlockRow>, EngineError> {
    let Some((_, blocks)) = self.ledger.provenance(&item.path)? else {
      return Err(EngineError::refused(format!("`{}` is not guarded", shown(&item.path))));
    };
    let is_it = |block: &BlockRow| {
      block.state == State::Approved
        && (block.hash == item.hash || was.is_some_and(|was| was.hash == block.hash))
    };
    let line = item.line;
    let found =
      blocks.into_iter().filter(is_it).min_by_key(|block| block.start_line.abs_diff(line));
    Ok(found)
  }
}
