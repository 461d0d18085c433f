//! Notes in the ledger that protection is reduced, by part.
#![forbid(unsafe_code)]

use super::event::{Event, EventKind};
use crate::store::{Ledger, Part, StateKey, StoreError};

/// Notes that protection is reduced. An event is written once, and again when the reason changes.
pub(super) fn degrade(
  ledger: &mut Ledger,
  part: impl Into<Part>,
  why: &str,
  at: i64,
) -> Result<(), StoreError> {
  let key = StateKey::degraded(part);
  let json = serde_json::Value::from(why).to_string();
  if ledger.state(&key)?.is_some_and(|(known, _)| known == json) {
    return Ok(());
  }
  ledger.set_state(&key, &json, at)?;
  Event::new(EventKind::Degraded).detail(why).tell(ledger, at)
}

/// Notes that a reduction of protection has ended.
pub(super) fn recovered(
  ledger: &mut Ledger,
  part: impl Into<Part>,
  at: i64,
) -> Result<(), StoreError> {
  let key = StateKey::degraded(part);
  let Some((json, _)) = ledger.state(&key)? else { return Ok(()) };
  ledger.remove_state(&key)?;
  let why: String = serde_json::from_str(&json).unwrap_or_default();
  Event::new(EventKind::Restored).detail(format!("no longer: {why}")).tell(ledger, at)
}

/// Forgets all reduced protection.
pub(super) fn clear(ledger: &mut Ledger) -> Result<(), StoreError> {
  for (key, ..) in ledger.states()? {
    if matches!(key, StateKey::Degraded(_)) {
      ledger.remove_state(&key)?;
    }
  }
  Ok(())
}
