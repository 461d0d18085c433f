//! The current and recently removed memory of a workspace, with its sources. Text that is copied within the
//! workspace already has an origin, as does text that an agent still knows from a file after its removal.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
  Engine, EngineError, Target, attribute::lines_of, origin::Origin, replaced::left_behind,
};
use crate::{
  files::Fs,
  provenance::{Evidence, Remembered, Source},
  store::{Item, Ledger, Revision, StoreError},
};

/// The most files that are searched, the most recently changed first.
const MAX_FILES: usize = 32;
/// The most bytes of text.
const MAX_BYTES: usize = 256 * 1024;
/// The most quarantined texts, the newest first.
const MAX_OUT: usize = 100;
/// The longest text that was added at once, in bytes; a longer one is not copied as one entry.
const MAX_TEXT_BYTES: usize = 16 * 1024;

impl<F: Fs> Engine<F> {
  /// All text of a workspace's memory with a known origin, up to a limit. If a file differs from what
  /// the ledger knows, text of its last version is included.
  pub(super) fn remembered(&mut self, root: &Path) -> Result<Vec<Remembered>, EngineError> {
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    for file in &self.ledger.latest_files(root, MAX_FILES)? {
      let rows = self.ledger.blocks(file.id)?;
      if !rows.iter().any(|row| row.live().any(is_known)) {
        continue;
      }
      let Ok(rel) = file.path.strip_prefix(root) else { continue };
      let target = Target::new(root, rel);
      // A note unchanged since before memfw is not worth opening: its kept version has the same lines.
      let is_told = rows.iter().any(|row| row.live().any(is_told));
      let bytes = if is_told { self.files.read_known(&target, file.hash)? } else { None };
      let Some(bytes) = bytes else {
        for one in left_behind(&self.ledger, &target, rows.iter(), None)? {
          if is_fit(&one.text, left) {
            left -= one.text.len();
            found.push(one);
          }
        }
        continue;
      };
      let view = self.view_known(&target, Some(file), bytes)?;
      for (row, block) in rows.iter().zip(view.document.blocks()) {
        for revision in row.live().filter(|revision| is_known(revision)) {
          let mut text = String::new();
          for line in lines_of(row, block, &[revision.number]) {
            let line = view.bytes.get(line.span.clone()).unwrap_or_default();
            for chunk in line.utf8_chunks() {
              text.push_str(chunk.valid());
            }
          }
          if is_fit(&text, left) {
            left -= text.len();
            found.push(remember(&self.ledger, rel, text, Origin::of_revision(revision)));
          }
        }
      }
    }
    for (item, text) in texts_out(&self.ledger, None)? {
      let Ok(rel) = item.path.strip_prefix(root) else { continue };
      if is_fit(&text, left) {
        left -= text.len();
        found.push(remember(&self.ledger, rel, text, Origin::of_held(&item)));
      }
    }
    found.extend(self.replaced.of(root, self.now()).cloned());
    Ok(found)
  }
}

/// The quarantined texts of a file, or of all files, that can be unsealed; the newest first.
pub(super) fn texts_out(
  ledger: &Ledger,
  path: Option<&Path>,
) -> Result<Vec<(Item, String)>, StoreError> {
  let mut found = Vec::new();
  for item in ledger.told_items_out(path, MAX_OUT)? {
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
  match ledger.unseal(&item.id) {
    Ok(bytes) => Ok(Some(bytes.utf8_chunks().map(|chunk| chunk.valid()).collect())),
    Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. } | StoreError::NoKey) => Ok(None),
    Err(error) => Err(error),
  }
}

pub(super) fn is_fit(text: &str, left: usize) -> bool {
  !text.trim().is_empty() && text.len() <= MAX_TEXT_BYTES.min(left)
}

/// Whether the agent's records have shown where it came from.
pub(super) fn is_told(revision: &Revision) -> bool {
  let is_known = !matches!(revision.source.kind(), "baseline" | "unknown" | "external-edit");
  is_known && !revision.trail.due
}

/// Like `is_attributed`, or text from before memfw.
pub(super) fn is_known(revision: &Revision) -> bool {
  is_told(revision) || revision.source.is_baseline()
}

/// Whether anybody except the owner and the agent has contributed to it since memfw was installed.
pub(super) fn is_of_others(source: &Source, fed_by: &[Source]) -> bool {
  let mut all = std::iter::once(source).chain(fed_by);
  all.any(|source| !matches!(source.as_str(), "agent" | "user:owner" | "baseline"))
}
