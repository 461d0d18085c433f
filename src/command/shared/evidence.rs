//! The evidence for the origin of a text, as one line for people.
#![forbid(unsafe_code)]

use crate::{provenance::Evidence, terminal::time};

/// The sources other than its own that limit the trust of a text, from the JSON of a row of the ledger.
/// Others have chosen the names; they are not escaped.
pub fn fed_by(json: &str) -> Vec<String> {
  serde_json::from_str::<Evidence>(json).map(|evidence| evidence.fed_by).unwrap_or_default()
}

/// The evidence in the JSON of a row of the ledger, as one line; `None` if there is none. Others have
/// chosen the names in it; they are not escaped.
pub fn line(json: &str) -> Option<String> {
  let evidence: Evidence = serde_json::from_str(json).ok()?;
  Some(evidence.line(&time::rfc3339))
}
