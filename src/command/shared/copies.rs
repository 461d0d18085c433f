//! Copies of quarantined text: blocks of the same workspace that have most of it, such as a daily note
//! that was promoted into the curated memory, or a diary about it.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
  app::engine::read_file,
  engine::event::{rounded, shown},
  files::{RealFs, Workspace},
  judging::text::BlockText,
  memory::{Document, Known, likeness::Likeness},
  store::{Item, Ledger, StoreError},
};

/// The part of the quarantined words from which a block counts as a copy; a choice: two entries about
/// one thing share less than half of their text.
const COPY: f32 = 0.5;
/// The most copies that are listed.
const MAX_COPIES: usize = 32;
/// The most bytes that are searched, so that an answer takes seconds at most.
const MAX_BYTES: u64 = 64 << 20;

/// A block with quarantined text.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
  /// The absolute path of the file.
  pub file: PathBuf,
  /// Its first line, from 1.
  pub start_line: usize,
  /// Its last line.
  pub end_line: usize,
  /// The part of the quarantined text that the block has, 0 to 1.
  pub share: f32,
}

impl Copy {
  /// As JSON.
  pub fn to_json(&self) -> Value {
    json!({
      "file": shown(&self.file),
      "start_line": self.start_line,
      "end_line": self.end_line,
      "share": rounded(self.share),
    })
  }
}

/// The copies of an item in its workspace, the most complete first.
pub fn find(
  ledger: &Ledger,
  item: &Item,
  text: &[u8],
  max_file_bytes: u64,
) -> Result<Vec<Copy>, StoreError> {
  let Some(row) = ledger.file(&item.path)? else { return Ok(vec![]) };
  let fs = RealFs::default();
  let Ok(workspace) = Workspace::open(&fs, &row.workspace) else { return Ok(vec![]) };
  let likeness = Likeness::of(text);
  let mut found: Vec<Copy> = Vec::new();
  let mut left = MAX_BYTES;
  for rel in workspace.walk(&fs).files {
    // `status` reports files that cannot be opened.
    let Some(bytes) = read_file(&workspace, &rel, max_file_bytes) else { continue };
    let Some(rest) = left.checked_sub(bytes.len() as u64) else { break };
    left = rest;
    let path = workspace.absolute(&rel);
    // Placeholders have none of the words.
    let markers = ledger.marker_ids(&path)?;
    let document = Document::parse(&bytes, &Known { markers, ..Known::default() });
    for block in document.blocks() {
      let share = if block.hash == item.hash {
        1.0
      } else {
        likeness.share_in(BlockText::new(&bytes, block).bytes())
      };
      if share >= COPY {
        let (start_line, end_line) = (block.start_line, block.end_line);
        found.push(Copy { file: path.clone(), start_line, end_line, share });
      }
    }
  }
  found.sort_by(|a, b| b.share.total_cmp(&a.share));
  found.truncate(MAX_COPIES);
  Ok(found)
}
