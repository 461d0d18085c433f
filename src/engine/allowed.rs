//! What a person allows a source for good: codes that are excused in all its text.
//!
//! Such a word counts only for a source that somebody saw, never for one that a text claims or that nobody
//! knows. What had to leave its file before it was known whose it is goes back by the way of every approved
//! text: durably decided here, and put in its place by the lazy pass.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind,
  judge::{BlockJudgement, Origin},
  origin::{is_observed, is_somebody},
  review::{Approval, by_whom},
};
use crate::{
  detect::Code,
  memory::{BlockId, line},
  os::Fs,
  provenance::{Source, State, trust_of},
  store::NewSourceException,
};

/// The name under which memfw itself decides.
const BY: &str = "memfw";

impl<F: Fs> Engine<F> {
  /// Excuses these codes for all text of a source that comes from now on.
  pub fn allow(
    &mut self,
    source: &Source,
    codes: &[Code],
    word: Approval<'_>,
  ) -> Result<(), EngineError> {
    if !is_somebody(source) {
      return Err(EngineError::refused_with(
        format!("`{source}` names nobody, so it would let anybody in"),
        "approve the text itself: `memfw quarantine approve ID`",
      ));
    }
    if codes.contains(&Code::ManualQuarantine) {
      return Err(EngineError::refused(format!(
        "`{}` is the word of a person and not excused for a source",
        Code::ManualQuarantine
      )));
    }
    let at = self.now();
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
    self.ledger.except_source(&new, &[event.row()], at)?;
    event.log(None);
    Ok(())
  }

  /// The codes that are excused for text of this origin.
  pub(super) fn allowed_to(&self, origin: &Origin) -> Result<Vec<Code>, EngineError> {
    if !origin.observed {
      return Ok(vec![]);
    }
    let found = self.ledger.exceptions_for(&origin.source, self.now())?;
    Ok(found.into_iter().map(|one| one.code).collect())
  }

  /// Notes which of them a judgement needed.
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
    let at = self.now();
    Ok(self.ledger.use_source_exceptions(&origin.source, &used, at)?)
  }

  /// Decides for items whose source has just become known and is allowed all that they are there for.
  pub(super) fn let_in<'a>(
    &mut self,
    items: impl Iterator<Item = &'a BlockId>,
  ) -> Result<(), EngineError> {
    for id in items {
      let item = self.ledger.item(id.as_str())?;
      let is_known = is_observed(&item.source, item.attestation);
      if !is_known || !item.status.is_waiting() || item.codes.is_empty() {
        continue;
      }
      let at = self.now();
      let mut found = self.ledger.exceptions_for(&item.source, at)?;
      found.retain(|one| item.codes.contains(&one.code));
      if found.len() < item.codes.len() {
        continue;
      }
      let plain = self.ledger.unseal(&item.id)?;
      let reason = format!("`{}` is allowed that", item.source);
      let until = found.iter().filter_map(|one| one.expires_at).min();
      let event = Event::new(EventKind::Approved)
        .path(&item.path)
        .block(&item.id)
        .origin(&item.source, item.trust)
        .detail(format!("it goes back when the file is idle, {}", by_whom(BY, Some(&reason))));
      self.want_reshape(&item.path)?;
      self.ledger.except(item.hash, &item.codes, &reason, at, until)?;
      self.ledger.except(line::norm_hash(&plain), &item.codes, &reason, at, until)?;
      self.ledger.use_source_exceptions(&item.source, &item.codes, at)?;
      self.ledger.decide(&item.id, State::Approved, BY, at, &[event.row()])?;
      event.log(None);
    }
    Ok(())
  }
}
