//! The form of markers: after a change of it, all markers are written again.
#![forbid(unsafe_code)]

use crate::{
  engine::{Engine, EngineError, pending},
  files::RealFs,
  store::{FileStatus, Pending, StateKey},
};

/// The form in which markers are written now: without names chosen by others.
const MARKER_FORM: &str = "2";

/// Markers of an earlier memfw hold names chosen by others, so all markers are written again, once.
pub(super) fn renew_markers(engine: &mut Engine<RealFs>) -> Result<(), EngineError> {
  let ledger = engine.ledger();
  if ledger.state(&StateKey::MarkerForm)?.is_some_and(|(form, _)| form == MARKER_FORM) {
    return Ok(());
  }
  for row in ledger.files()?.into_iter().filter(|row| row.status == FileStatus::Watched) {
    pending::add(engine.ledger_mut(), &row.path, Pending::RESHAPE)?;
  }
  let at = engine.clock().now();
  Ok(engine.ledger_mut().set_state(&StateKey::MarkerForm, MARKER_FORM, at)?)
}
