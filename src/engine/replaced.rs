//! Foreign text that was recently removed from memory, with its origin. An agent that rewrites a file
//! or moves its text has replaced the foreign words before the question about their source is asked.
//!
//! Invariant: this is kept in the process alone, and the text comes from the sealed versions. Without
//! versions, or after a restart, only text that still exists somewhere has an origin.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet, VecDeque},
  path::{Path, PathBuf},
};

use super::{
  EngineError, Target,
  attributed_text::{is_fit, is_known, remember, texts_out},
};
use crate::{
  judging::origin::Origin,
  memory::{Document, Known, Line, LineHash, line::line_hash},
  provenance::Remembered,
  store::{BlockRow, Ledger, StoreError},
};

/// How long removed text may return in another form, in microseconds (a choice: an agent tidies up
/// within minutes).
const REMEMBERED_FOR: i64 = 3_600_000_000;
/// The most bytes of text; the newest is kept.
const MAX_BYTES: usize = 64 * 1024;

/// Foreign text that was removed from its file, the oldest first.
#[derive(Default)]
pub(super) struct Replaced(VecDeque<Gone>);

struct Gone {
  root: PathBuf,
  at: i64,
  what: Remembered,
}

impl Replaced {
  /// The text that was recently removed from a workspace.
  pub(super) fn of(&self, root: &Path, now: i64) -> impl Iterator<Item = &Remembered> {
    let is_late = move |gone: &&Gone| now.saturating_sub(gone.at) <= REMEMBERED_FOR;
    self.0.iter().filter(move |gone| gone.root == root).filter(is_late).map(|gone| &gone.what)
  }

  /// Notes the text of known origin in the last version of a file that is not in the current one. `rows` are
  /// the blocks of the last version; `document` is `None` if the file is gone.
  pub(super) fn note_version<'r>(
    &mut self,
    ledger: &Ledger,
    at: i64,
    target: &Target,
    rows: impl Iterator<Item = &'r BlockRow>,
    document: Option<&Document>,
  ) -> Result<(), EngineError> {
    for what in left_behind(ledger, target, rows, document)? {
      self.note(&target.root, at, what);
    }
    Ok(())
  }

  fn note(&mut self, root: &Path, at: i64, what: Remembered) {
    self.0.retain(|gone| {
      at.saturating_sub(gone.at) <= REMEMBERED_FOR && (gone.root != root || gone.what != what)
    });
    self.0.push_back(Gone { root: root.to_owned(), at, what });
    let mut left = MAX_BYTES;
    let fit = self.0.iter().rev().take_while(|gone| {
      let fits = gone.what.text.len() <= left;
      left = left.saturating_sub(gone.what.text.len());
      fits
    });
    let n_old = self.0.len() - fit.count();
    self.0.drain(..n_old);
  }
}

/// The text of known origin in the last version of a file that is not in the current one, if a version is
/// kept.
pub(super) fn left_behind<'r>(
  ledger: &Ledger,
  target: &Target,
  rows: impl Iterator<Item = &'r BlockRow>,
  document: Option<&Document>,
) -> Result<Vec<Remembered>, EngineError> {
  let blocks = document.map(Document::blocks).unwrap_or_default();
  let stands: HashSet<LineHash> =
    blocks.iter().flat_map(|block| &block.lines).map(|line| line.hash).collect();
  let mut left: Vec<(Remembered, Vec<LineHash>)> = Vec::new();
  for row in rows {
    for revision in row.revisions.iter().filter(|revision| is_known(revision)) {
      let lines = row.lines.iter().filter(|line| line.revision == revision.number);
      let gone: Vec<LineHash> =
        lines.map(|line| line.hash).filter(|hash| !stands.contains(hash)).collect();
      if gone.is_empty() {
        continue;
      }
      left
        .push((remember(ledger, &target.rel, String::new(), Origin::of_revision(revision)), gone));
    }
  }
  if left.is_empty() {
    return Ok(vec![]);
  }
  // Quarantined text has an origin of its own, as long as its item exists.
  let mut lines = kept_lines(ledger, target)?;
  for text in texts_out(ledger, Some(&target.path()))? {
    for line in text.1.lines() {
      lines.remove(&line_hash(line.as_bytes()));
    }
  }
  let told = left.into_iter().map(|(what, gone)| {
    let text = gone.iter().filter_map(|hash| lines.get(hash)).map(String::as_str).collect();
    Remembered { text, ..what }
  });
  Ok(told.filter(|what| is_fit(&what.text, MAX_BYTES)).collect())
}

/// The lines of the newest kept version of a file; none if it cannot be read.
fn kept_lines(ledger: &Ledger, target: &Target) -> Result<HashMap<LineHash, String>, StoreError> {
  let Some(newest) = ledger.versions(&target.path())?.into_iter().next() else {
    return Ok(HashMap::new());
  };
  let bytes = match ledger.version_bytes(newest.hash) {
    Ok(bytes) => bytes,
    Err(StoreError::NoKey | StoreError::Unsealable { .. } | StoreError::UnknownVersion { .. }) => {
      return Ok(HashMap::new());
    }
    Err(error) => return Err(error),
  };
  let document = Document::parse(&bytes, &Known::default());
  let lines = document.blocks().iter().flat_map(|block| &block.lines);
  let text = |line: &Line| {
    let line = bytes.get(line.span.clone()).unwrap_or_default();
    line.utf8_chunks().map(|chunk| chunk.valid()).collect()
  };
  Ok(lines.map(|line| (line.hash, text(line))).collect())
}
