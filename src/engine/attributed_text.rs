//! Text whose origin is known, as the agent's records are told about it.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::{
  judging::{approvals::plain_of, origin::Origin},
  provenance::{Evidence, Remembered, Source},
  store::{Item, Ledger, Revision, StoreError},
};

/// The most quarantined texts, the newest first.
const MAX_OUT: usize = 100;

/// The longest text that was added at once, in bytes; a longer one is not copied as one entry.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The quarantined texts of a file, or of all files, that can be unsealed; the newest first.
pub(super) fn texts_out(
  ledger: &Ledger,
  path: Option<&Path>,
) -> Result<Vec<(Item, String)>, StoreError> {
  let mut found = Vec::new();
  for item in ledger.attributed_items_out(path, MAX_OUT)? {
    if let Some(text) = text_of(ledger, &item)? {
      found.push((item, text));
    }
  }
  Ok(found)
}

/// Combines a text with its origin.
pub(super) fn remember(ledger: &Ledger, rel: &Path, text: String, origin: Origin) -> Remembered {
  let evidence: Evidence = serde_json::from_str(&origin.trail.evidence_json).unwrap_or_default();
  let fed_by: Vec<Source> = evidence.fed_by.iter().map(|source| Source::new(source)).collect();
  let of_others = is_of_others(&origin.source, &fed_by);
  let Origin { source, attestation, request, .. } =
    if of_others { origin.with_request(ledger) } else { origin };
  let asked = request.map(|request| request.asked).unwrap_or_default();
  Remembered { file: rel.to_path_buf(), text, source, fed_by, attestation, asked }
}

/// The text of an item; `None` if it cannot be unsealed.
fn text_of(ledger: &Ledger, item: &Item) -> Result<Option<String>, StoreError> {
  let bytes = plain_of(ledger, &item.id)?;
  Ok(bytes.map(|bytes| bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()))
}

pub(super) fn is_fit(text: &str, left: usize) -> bool {
  !text.trim().is_empty() && text.len() <= MAX_TEXT_BYTES.min(left)
}

/// Whether the agent's records have shown where it came from.
pub(super) fn is_attributed(revision: &Revision) -> bool {
  let is_known = !matches!(revision.source.kind(), "baseline" | "unknown" | "external-edit");
  is_known && !revision.trail.due
}

/// Like `is_attributed`, or text from before memfw.
pub(super) fn is_known(revision: &Revision) -> bool {
  is_attributed(revision) || revision.source.is_baseline()
}

/// Whether anybody except the owner and the agent has contributed to it since memfw was installed.
pub(super) fn is_of_others(source: &Source, fed_by: &[Source]) -> bool {
  let mut all = std::iter::once(source).chain(fed_by);
  all.any(|source| !matches!(source.as_str(), "agent" | "user:owner" | "baseline"))
}
