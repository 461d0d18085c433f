//! JSON that several commands print alike: the origin of a text, and the facts about an item.
#![forbid(unsafe_code)]

use serde_json::{Map, Value, json};

use super::evidence;
use crate::{
  engine::event::{rounded, shown},
  provenance::{Attestation, Source, Trust},
  store::{Item, OriginRecord, Revision},
};

/// Keys and values of an object, in their order.
type Object = Map<String, Value>;

/// The origin of a revision.
pub fn of_revision(revision: &Revision) -> Object {
  let Revision { source, trust, attestation, session, trail, .. } = revision;
  origin((source, *trust, *attestation), session.as_deref(), trail)
}

/// What is known about an item without its text: its place, its state, its origin, and its findings.
pub fn of_item(item: &Item) -> Object {
  let Item { source, trust, attestation, session, trail, .. } = item;
  let mut value = object(json!({
    "id": item.id.as_str(),
    "file": shown(&item.path),
    "line": item.line,
    "status": item.status.as_str(),
  }));
  value.extend(origin((source, *trust, *attestation), session.as_deref(), trail));
  value.extend(object(json!({
    "score": rounded(item.score),
    "codes": item.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
  })));
  value
}

fn origin(
  (source, trust, attestation): (&Source, Trust, Attestation),
  session: Option<&str>,
  trail: &OriginRecord,
) -> Object {
  object(json!({
    "source": source.as_str(),
    "trust": trust.as_str(),
    "attestation": attestation.as_str(),
    "session_id": session,
    "evidence": evidence::line(&trail.evidence_json),
    "fed_by": evidence::fed_by(&trail.evidence_json),
  }))
}

/// The keys and values of a literal object.
pub fn object(value: Value) -> Object {
  match value {
    Value::Object(object) => object,
    _ => Object::new(),
  }
}
