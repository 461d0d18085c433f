//! The current and recently removed memory of a workspace, with its sources. Text that is copied within the
//! workspace already has an origin, as does text that an agent still knows from a file after its removal.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
  Engine, EngineError, Target,
  attributed_text::{is_attributed, is_fit, is_known, remember, texts_out},
  replaced::left_behind,
};
use crate::{
  files::Fs,
  judging::{origin::Origin, rows::lines_of},
  provenance::Remembered,
};

/// The most files that are searched, the most recently changed first.
const MAX_FILES: usize = 32;
/// The most bytes of text.
const MAX_BYTES: usize = 256 * 1024;

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
      let is_attributed = rows.iter().any(|row| row.live().any(is_attributed));
      let bytes = if is_attributed { self.files.read_known(&target, file.hash)? } else { None };
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
