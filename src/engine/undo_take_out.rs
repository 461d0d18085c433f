//! Takes a take-out by hand back: the text returns to its place, and the block is what it was before.
//!
//! The text returns like an approved one, so a process that dies meanwhile loses nothing: the text is approved then,
//! until a person takes this back.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind,
  decisions::{Approval, by_whom},
  event::shown,
  pending::{self, target_of},
};
use crate::{
  detect::Code,
  files::{Fs, MemoryFile as _},
  memory::placeholder,
  provenance::State,
  store::{Before, BlockRow, Item, Pending, TakenOut},
};

/// The reason of the approval by which a text returns.
const WHY: &str = "its take-out was undone";

impl<F: Fs> Engine<F> {
  /// Restores an item that a person had taken out, as the block that it was. After an error the item may be approved,
  /// which the caller takes back.
  pub(super) fn undo_take_out(
    &mut self,
    item: &Item,
    taken: &TakenOut,
    by: &str,
    reason: Option<&str>,
  ) -> Result<Item, EngineError> {
    self.refuse_without_place(item)?;
    let known = self.approved_blocks(item)?;
    let why = reason.unwrap_or(WHY);
    let word = Approval { by, reason: Some(why), until: None, at_end: false };
    self.approve_as(item.id.as_str(), word)?;
    // Another process must not record the version meanwhile.
    let _writing = self.files.lock()?;
    let was = self.ledger.block(&taken.block)?.map(|place| place.block);
    let event = Event::new(EventKind::Undone)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(format!("{} again as {}, {}", taken.state, taken.block, by_whom(by, reason)));
    let (at, events) = (self.now(), [event.row()]);
    if taken.state == State::Approved {
      self.ledger.forget_taken_out(&item.id, at, &events)?;
      event.log(None);
      return self.ledger.item(item.id.as_str()).map_err(Into::into);
    }
    let blocks = self.approved_blocks(item)?.into_iter();
    let is_it = |block: &BlockRow| {
      known.iter().all(|one| one.id != block.id)
        && (block.hash == item.hash || was.as_ref().is_some_and(|was| was.hash == block.hash))
    };
    let Some(back) = blocks.filter(is_it).min_by_key(|block| block.start_line.abs_diff(item.line))
    else {
      return Err(EngineError::refused_with(
        format!("the text of `{}` would be a part of another block now", item.id),
        format!("restore it as an approved text: `memfw approve {}`", item.id),
      ));
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
    pending::add(&mut self.ledger, &item.path, Pending::RESHAPE)?;
    self.ledger.undo_taken_out(&item.id, &back.id, &before, at, &events)?;
    event.log(None);
    let mut item = item.clone();
    (item.id, item.status, item.in_file) = (taken.block.clone(), taken.state, true);
    Ok(item)
  }

  /// Refuses an item whose place is not in its file: elsewhere the text would be another block.
  fn refuse_without_place(&mut self, item: &Item) -> Result<(), EngineError> {
    let plain = self.ledger.unseal(&item.id)?;
    let bytes = match target_of(&self.ledger, &item.path)? {
      Some(target) => self.files.open(&target)?.ok().map(|file| file.read_all()).transpose()?,
      None => None,
    };
    if bytes.is_some_and(|bytes| placeholder::find(&bytes, &item.id, &plain).is_some()) {
      return Ok(());
    }
    Err(EngineError::refused_with(
      format!("the placeholder of `{}` is not in `{}` any more", item.id, shown(&item.path)),
      format!("add its text to the end: `memfw approve {} --at-end`", item.id),
    ))
  }

  /// The approved blocks of an item's file.
  fn approved_blocks(&self, item: &Item) -> Result<Vec<BlockRow>, EngineError> {
    let found = self.ledger.provenance(&item.path)?;
    let blocks = found.map(|(_, blocks)| blocks).unwrap_or_default();
    Ok(blocks.into_iter().filter(|block| block.state == State::Approved).collect())
  }
}
