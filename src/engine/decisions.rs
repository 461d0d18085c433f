//! What a person has decided about a text, in the ledger: approvals with their exceptions, what takes
//! them back, and codes that a person allows for a source.
//!
//! An allowance applies only to an observed source, not to a claimed or an unknown one. It brings no
//! text back: text that was taken out before its source was known waits for a person like any other.
//! No file is read or written here; [`super::review`] and [`super::put_back`] do that.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{EngineError, Event, EventKind, pieces::refuse_divided};
use crate::{
  config::Config,
  detect::Code,
  judging::{
    judgement::BlockJudgement,
    origin::{Origin, can_be_allowed},
  },
  memory::{BlockId, ContentHash, line},
  provenance::{Source, State, trust_of},
  store::{Item, ItemFilter, Ledger, NewApproval, NewSourceException, StoreError},
};

/// Where the approved bytes are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
  /// At the placeholder.
  AtPlaceholder,
  /// At the end of the file, in the same context as before.
  Appended,
  /// At the end of the file, in another context.
  Elsewhere,
  /// In their own place: they never left the file (a flagged block).
  InPlace,
  /// Nowhere: their file does not exist, and the next write of them is let through.
  NextWrite,
}

/// A person's approval of a text.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
  /// Who approves.
  pub by: &'a str,
  /// Why.
  pub reason: Option<&'a str>,
  /// Until when it applies to new copies of the text, in microseconds since the epoch; `None` for ever.
  pub until: Option<i64>,
  /// Whether the text is added to the end of its file if its place is gone, or has another context now.
  pub at_end: bool,
}

/// The contexts that an approval is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contexts<'a> {
  /// That of the text.
  pub own: ContentHash,
  /// Those of the lines of which the text is a part, with the hashes of the lines: they are approved with it.
  pub lines: &'a [(ContentHash, ContentHash)],
  /// The new ones of the approved texts beside it, with the hashes of these texts.
  pub beside: &'a [(ContentHash, ContentHash)],
}

impl Contexts<'_> {
  /// The context of the text alone.
  pub(super) const fn own(own: ContentHash) -> Self {
    Self { own, lines: &[], beside: &[] }
  }
}

/// Decisions at one time.
pub struct Decisions<'a> {
  pub(super) ledger: &'a mut Ledger,
  pub(super) config: &'a Config,
  /// Now, in microseconds since the epoch.
  pub(super) at: i64,
}

impl Decisions<'_> {
  /// Makes an approval durable: by content, for its findings, in the context of the text now.
  pub(super) fn excuse(
    &mut self,
    item: &Item,
    approval: Approval<'_>,
    (placed, context): (Placed, ContentHash),
  ) -> Result<(), EngineError> {
    self.approve(item, &[(item.hash, context)], &[], (approval, placed))
  }

  fn approve(
    &mut self,
    item: &Item,
    texts: &[(ContentHash, ContentHash)],
    beside: &[(ContentHash, ContentHash)],
    (approval, placed): (Approval<'_>, Placed),
  ) -> Result<(), EngineError> {
    let Approval { by, reason, until, .. } = approval;
    let event = Event::new(EventKind::Approved)
      .path(&item.path)
      .block(&item.id)
      .origin(&item.source, item.trust)
      .detail(match placed {
        Placed::AtPlaceholder => format!("back in its place, {}", by_whom(by, reason)),
        Placed::Appended => format!("appended, {}", by_whom(by, reason)),
        Placed::Elsewhere => format!("appended in another context, {}", by_whom(by, reason)),
        Placed::InPlace => by_whom(by, reason),
        Placed::NextWrite => format!("for the next write, {}", by_whom(by, reason)),
      });
    let reason = reason.unwrap_or_default();
    let approval = NewApproval { by, reason, codes: &item.codes, at: self.at, until, beside };
    self.ledger.approve(&item.id, item.status, texts, &approval, &[event.row()])?;
    event.log(None);
    Ok(())
  }

  /// Makes an approval durable, also for the text with other line ends.
  pub(super) fn excuse_also(
    &mut self,
    item: &Item,
    plain: &[u8],
    word: Approval<'_>,
    placed: Placed,
    contexts: Contexts<'_>,
  ) -> Result<(), EngineError> {
    let Contexts { own, lines, beside } = contexts;
    // A sync program may save the file with other line ends.
    let own = [(item.hash, own), (line::norm_hash(plain), own)];
    self.approve(item, &[&own, lines].concat(), beside, (word, placed))
  }

  /// Withdraws approvals of text that is now quarantined by hand: a person's latest decision applies.
  pub(super) fn reopen(&mut self, path: &Path, text: &[u8], by: &str) -> Result<(), EngineError> {
    let hash = ContentHash::of(text);
    if let Some(item) = self.ledger.existing_item(path, hash, 0)?
      && item.status == State::Approved
    {
      self.ledger.decide(&item.id, State::Quarantined, by, self.at, &[])?;
    }
    self.withdraw(&[hash, line::norm_hash(text)], |ledger, item| {
      // An approval in another file is a decision of its own.
      let Some(item) = item else { return Ok(true) };
      match ledger.item(item.as_str()) {
        Ok(item) => Ok(item.path == path),
        Err(StoreError::UnknownId { .. }) => Ok(true),
        Err(error) => Err(error),
      }
    })
  }

  /// Withdraws approvals of text that is rejected now, also with other line ends. The approval of
  /// another copy that is in a file is a decision of its own.
  pub(super) fn take_back(&mut self, item: &Item) -> Result<(), EngineError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: None };
    let stands = self.ledger.items(&filter)?.iter().any(|other| other.hash == item.hash);
    let mut hashes = vec![item.hash];
    match self.ledger.unseal(&item.id) {
      Ok(plain) => hashes.push(line::norm_hash(&plain)),
      // Without its bytes, only the exact hash is known.
      Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. } | StoreError::NoKey) => {}
      Err(error) => return Err(error.into()),
    }
    self.withdraw(&hashes, |_, of| Ok(of.is_none() && !stands))?;
    Ok(self.ledger.withdraw_exceptions_of(&item.id)?)
  }

  /// Withdraws those approvals for whose item `is_meant` is true.
  fn withdraw(
    &mut self,
    hashes: &[ContentHash],
    is_meant: impl Fn(&Ledger, Option<&BlockId>) -> Result<bool, StoreError>,
  ) -> Result<(), EngineError> {
    for &hash in hashes {
      for exception in self.ledger.exceptions_of(hash)? {
        if is_meant(self.ledger, exception.key.item.as_ref())? {
          self.ledger.withdraw_exception(&exception.key)?;
        }
      }
    }
    Ok(())
  }

  /// Excuses these codes for all future text of a source.
  pub fn allow(
    &mut self,
    source: &Source,
    codes: &[Code],
    word: Approval<'_>,
  ) -> Result<(), EngineError> {
    if !can_be_allowed(source) {
      return Err(EngineError::refused_with(
        format!("`{source}` identifies nobody, so allowing it would allow anybody"),
        "approve the text itself: `memfw approve ID`",
      ));
    }
    if codes.contains(&Code::ManualQuarantine) {
      return Err(EngineError::refused(format!(
        "`{}` is a person's decision and cannot be allowed for a source",
        Code::ManualQuarantine
      )));
    }
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let event = Event::new(EventKind::Allowed)
      .origin(source, trust_of(&self.config.trust_rules, source, &[]))
      .detail(format!("{}, {}", words.join(" "), by_whom(word.by, word.reason)));
    let new = NewSourceException {
      source,
      codes,
      reason: word.reason.unwrap_or_default(),
      made_by: word.by,
      expires_at: word.until,
    };
    self.ledger.except_source(&new, &[event.row()], self.at)?;
    event.log(None);
    Ok(())
  }

  /// Notes which allowances a judgement used.
  pub(super) fn note_allowed(
    &mut self,
    origin: &Origin,
    allowed: &[Code],
    judgement: &BlockJudgement,
  ) -> Result<(), EngineError> {
    let is_found = |code: &&Code| judgement.findings.iter().any(|finding| finding.code == **code);
    let used: Vec<Code> = allowed.iter().filter(is_found).copied().collect();
    if used.is_empty() {
      return Ok(());
    }
    Ok(self.ledger.use_source_exceptions(&origin.source, &used, self.at)?)
  }
}

/// Refuses a decision if somebody has made another one since the item was read. One that waits can be decided about,
/// whatever it was. Under the write lock, under which all decisions are made, it stays so.
pub(super) fn refuse_decided(ledger: &Ledger, read: &Item) -> Result<(), EngineError> {
  let now = ledger.item(read.id.as_str())?;
  if now.status == read.status || now.status.is_waiting() {
    return Ok(());
  }
  refuse_divided(&now)?;
  Err(already(&now))
}

/// Refuses to take a decision back that is not the one that was read.
pub(super) fn refuse_undone(ledger: &Ledger, read: &Item) -> Result<(), EngineError> {
  let now = ledger.item(read.id.as_str())?;
  if now.status == read.status { Ok(()) } else { Err(nothing_to_undo(&now)) }
}

/// The error for an item about which somebody has decided.
pub(super) fn already(item: &Item) -> EngineError {
  let state = if item.status == State::Forgotten { "deleted" } else { item.status.as_str() };
  EngineError::refused(format!("`{}` is already {state}", item.id))
}

/// The error for an item about which nobody has decided.
pub(super) fn nothing_to_undo(item: &Item) -> EngineError {
  EngineError::refused(format!("`{}` is {}: there is no decision to undo", item.id, item.status))
}

pub(super) fn by_whom(by: &str, reason: Option<&str>) -> String {
  match reason {
    Some(reason) => format!("by {by}: {reason}"),
    None => format!("by {by}"),
  }
}
