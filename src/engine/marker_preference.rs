//! Whether a person wants memfw's markers, for all files, for one file, or for all but one.
//!
//! The preference is in the ledger, so it also applies to the daemon and after restarts. [`super::unmark`]
//! carries it out.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{EngineError, event::shown};
use crate::store::{Ledger, Rename, StateKey, StoreError};

/// Why a file has no markers, in `memfw status`.
pub(super) const WHY: &str =
  "taken out by `memfw markers remove`; `memfw markers add` writes them again";

/// Whether a person wants no markers in a file.
pub fn is_unmarked(ledger: &Ledger, path: &Path) -> Result<bool, StoreError> {
  let own = ledger.state(&key_of(path))?;
  let word = if own.is_some() { own } else { ledger.state(&StateKey::Unmarked)? };
  Ok(word.is_some_and(|(json, _)| json == "true"))
}

/// Notes whether markers are wanted in all files.
pub fn want(ledger: &mut Ledger, wanted: bool, at: i64) -> Result<(), EngineError> {
  for (key, ..) in ledger.states()? {
    if matches!(key, StateKey::UnmarkedFile(_)) {
      ledger.remove_state(&key)?;
    }
  }
  set(ledger, &StateKey::Unmarked, (!wanted, false), at)
}

/// Notes whether markers are wanted in one file.
pub fn want_in(ledger: &mut Ledger, path: &Path, wanted: bool, at: i64) -> Result<(), EngineError> {
  let all = ledger.state(&StateKey::Unmarked)?.is_some_and(|(json, _)| json == "true");
  set(ledger, &key_of(path), (!wanted, all), at)
}

/// Moves the preferences about renamed files along.
pub(super) fn rename(ledger: &mut Ledger, renames: &[Rename]) -> Result<(), EngineError> {
  // All preferences are removed before the first is written, because files may have swapped their paths.
  let mut kept = Vec::new();
  for Rename { from, to } in renames {
    if let Some((json, at)) = ledger.state(&key_of(from))? {
      ledger.remove_state(&key_of(from))?;
      kept.push((key_of(to), json, at));
    }
  }
  for (key, json, at) in kept {
    ledger.set_state(&key, &json, at)?;
  }
  Ok(())
}

/// Notes a preference under a key, unless it equals the default without it.
fn set(
  ledger: &mut Ledger,
  key: &StateKey,
  (unmarked, otherwise): (bool, bool),
  at: i64,
) -> Result<(), EngineError> {
  if unmarked == otherwise {
    ledger.remove_state(key)?;
  } else {
    ledger.set_state(key, &unmarked.to_string(), at)?;
  }
  Ok(())
}

fn key_of(path: &Path) -> StateKey {
  StateKey::UnmarkedFile(shown(path))
}
