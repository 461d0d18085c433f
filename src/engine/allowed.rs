//! Codes that a person permanently allows for a source: they are excused in all text of that source.
//!
//! An allowance applies only to an observed source, not to a claimed or an unknown one. It brings no
//! text back: text that was taken out before its source was known waits for a person like any other.
#![forbid(unsafe_code)]

use super::{
  Engine, EngineError, Event, EventKind,
  judge::{BlockJudgement, Origin},
  origin::can_be_allowed,
  review::{Approval, by_whom},
};
use crate::{
  detect::Code,
  files::Fs,
  provenance::{Source, trust_of},
  store::NewSourceException,
};

impl<F: Fs> Engine<F> {
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
        "approve the text itself: `memfw quarantine approve ID`",
      ));
    }
    if codes.contains(&Code::ManualQuarantine) {
      return Err(EngineError::refused(format!(
        "`{}` is a person's decision and cannot be allowed for a source",
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
    let at = self.now();
    Ok(self.ledger.use_source_exceptions(&origin.source, &used, at)?)
  }
}
