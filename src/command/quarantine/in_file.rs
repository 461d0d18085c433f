//! The text of a flagged block, which is in its file and sealed nowhere.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, hash_map::Entry},
  ops::Range,
  path::{Path, PathBuf},
};

use crate::{
  app::engine::read_file,
  files::{RealFs, Workspace},
  judging::text::BlockText,
  memory::{Document, Known},
  store::{Item, Ledger, StoreError},
};

/// The bytes of a block in its file, and their place.
pub(super) type Standing = (Option<Vec<u8>>, Option<Range<usize>>);

/// A file and its blocks.
type Parsed = (Vec<u8>, Document);

/// The bytes of a guarded file; `None` if it cannot be read, which `status` reports.
pub(super) fn read(
  ledger: &Ledger,
  path: &Path,
  max_bytes: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
  let Some(row) = ledger.file(path)? else { return Ok(None) };
  let Ok(rel) = path.strip_prefix(&row.workspace) else { return Ok(None) };
  let Ok(workspace) = Workspace::open(&RealFs::default(), &row.workspace) else { return Ok(None) };
  Ok(read_file(&workspace, rel, max_bytes))
}

/// Finds the block of an item in its file.
pub(super) fn standing(ledger: &Ledger, file: &[u8], item: &Item) -> Result<Standing, StoreError> {
  Ok(find(file, &parse(ledger, file, &item.path)?, item))
}

/// The texts of flagged blocks; each file is read once.
pub(in crate::command) struct FlaggedTexts<'l> {
  ledger: &'l Ledger,
  max_bytes: u64,
  files: HashMap<PathBuf, Option<Parsed>>,
}

impl<'l> FlaggedTexts<'l> {
  pub(in crate::command) fn new(ledger: &'l Ledger, max_bytes: u64) -> Self {
    Self { ledger, max_bytes, files: HashMap::new() }
  }

  /// The text of a flagged block; `None` if the file cannot be read or has changed since.
  pub(in crate::command) fn of(&mut self, item: &Item) -> Result<Option<Vec<u8>>, StoreError> {
    let parsed = match self.files.entry(item.path.clone()) {
      Entry::Occupied(known) => known.into_mut(),
      Entry::Vacant(new) => {
        let bytes = read(self.ledger, &item.path, self.max_bytes)?;
        let parsed = bytes
          .map(|bytes| parse(self.ledger, &bytes, &item.path).map(|document| (bytes, document)));
        new.insert(parsed.transpose()?)
      }
    };
    Ok(parsed.as_ref().and_then(|(bytes, document)| find(bytes, document, item).0))
  }
}

fn parse(ledger: &Ledger, file: &[u8], path: &Path) -> Result<Document, StoreError> {
  let markers = ledger.marker_ids(path)?;
  Ok(Document::parse(file, &Known { markers, ..Known::default() }))
}

fn find(file: &[u8], document: &Document, item: &Item) -> Standing {
  let block = document.blocks().iter().find(|block| block.hash == item.hash);
  let Some(block) = block else { return (None, None) };
  let place = block.parts.first().zip(block.parts.last());
  let place = place.map(|(first, last)| first.start..last.end);
  (Some(BlockText::new(file, block).bytes().to_vec()), place)
}
