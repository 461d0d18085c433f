//! Events of the ledger as JSON, and their names.
#![forbid(unsafe_code)]

use serde_json::json;

use crate::{
  detect::{Code, Layer},
  engine::{
    EventKind,
    event::{rounded, shown},
  },
  memory::BlockId,
  provenance::{Attestation, Source, Trust},
  store::EventRow,
  terminal::{failure::Failure, time},
};

/// The kind with this name; refuses a name that no event has.
pub fn kind_of(event: &str) -> Result<EventKind, Failure> {
  if let Ok(kind) = event.parse() {
    return Ok(kind);
  }
  let names = EventKind::ALL.iter().map(|kind| kind.as_str());
  let hint = match crate::config::nearest(event, names.clone()) {
    Some(name) => format!("did you mean `{name}`?"),
    None => format!("the events are {}", names.collect::<Vec<_>>().join(", ")),
  };
  Err(Failure::usage(format!("unknown event `{event}`")).hint(hint))
}

/// One event as JSON.
pub fn to_json(row: &EventRow) -> serde_json::Value {
  json!({
    "at": time::rfc3339(row.at),
    "event": row.event.as_str(),
    "file": row.path.as_deref().map(shown),
    "block": row.block.as_ref().map(BlockId::as_str),
    "source": row.source.as_ref().map(Source::as_str),
    "trust": row.trust.map(Trust::as_str),
    "attestation": row.attestation.map(Attestation::as_str),
    "session_id": row.session,
    "layer": row.layer.map(Layer::as_str),
    "codes": row.codes.iter().copied().map(Code::as_str).collect::<Vec<_>>(),
    "score": row.score.map(rounded),
    "action": row.action,
    "detail": row.detail,
    "count": row.count,
    "took_ms": row.took_us.map(|us| us as f64 / 1e3),
  })
}
