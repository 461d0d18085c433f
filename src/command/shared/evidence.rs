//! What the origin of a text rests on, as one line for people.
#![forbid(unsafe_code)]

use crate::{provenance::Evidence, terminal::time};

/// The sources that a text is trusted no more than beside its own, as a row of the ledger has them. The names
/// are those of others and not escaped.
pub fn fed_by(json: &str) -> Vec<String> {
  serde_json::from_str::<Evidence>(json).map(|evidence| evidence.fed_by).unwrap_or_default()
}

/// The evidence of a row of the ledger as a line; `None` where there is none. The names in it are those of
/// others and not escaped.
pub fn line(json: &str) -> Option<String> {
  let evidence: Evidence = serde_json::from_str(json).ok()?;
  Some(evidence.line(&time::rfc3339))
}
