//! What the origin of a text rests on, as one line for people.
#![forbid(unsafe_code)]

use super::time;
use crate::provenance::Evidence;

/// The evidence of a row of the ledger as a line; `None` where there is none. The names in it are those of
/// others and not escaped.
pub fn line(json: &str) -> Option<String> {
  let evidence: Evidence = serde_json::from_str(json).ok()?;
  let mut parts = Vec::new();
  if let Some(fed) = &evidence.fed {
    parts.push(format!("from {} at {}", fed.source, time::rfc3339(fed.at)));
  }
  if let Some(written) = &evidence.written {
    let session = written.session.as_deref().map(|session| format!(" in session {session}"));
    let at = time::rfc3339(written.at);
    parts.push(format!("written by {}{} at {at}", written.tool, session.unwrap_or_default()));
  }
  if let Some(share) = evidence.fed.as_ref().and_then(|fed| fed.share) {
    parts.push(format!("{} % of its words from there", (share.clamp(0.0, 1.0) * 100.0).round()));
  }
  if evidence.ledger_hash {
    parts.push("the agent's ledger has the hash of this version".to_owned());
  }
  parts.extend(evidence.note);
  (!parts.is_empty()).then(|| parts.join(", "))
}
