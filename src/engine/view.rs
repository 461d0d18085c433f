//! The version of a file, compared and judged, and its form with markers.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Engine, EngineError, Target, marker_preference};
use crate::{
  config::Markers,
  files::Fs,
  judging::{
    judge_context::RestoredText,
    label::Labels,
    origin::Origin,
    read_version::{ReadVersion, Reader},
    treatment::Treatment,
    view::{COARSE, View},
  },
  memory::{ContentHash, MarkerMode},
  provenance::Standing,
  store::{BlockRow, FileRow},
};

/// The marker mode of a file.
pub struct Marking {
  /// The mode in force.
  pub mode: MarkerMode,
  /// Why it is not the configured mode.
  pub why: Option<String>,
}

impl<F: Fs> Engine<F> {
  /// Compares a version that was judged before with the ledger. Nothing in it is fresh, so it needs no origin; text
  /// that is fresh after all is nobody's.
  pub(super) fn view_known(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: impl Into<Arc<Vec<u8>>>,
  ) -> Result<View, EngineError> {
    self.view(target, row, bytes, Origin::unknown(), None)
  }

  /// Compares `bytes` with the ledger and judges fresh text. In a writable file, text that could not be
  /// taken out before counts as fresh.
  pub(super) fn view(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: impl Into<Arc<Vec<u8>>>,
    origin: Origin,
    restored: Option<&RestoredText>,
  ) -> Result<View, EngineError> {
    self.view_as(target, row, bytes, origin, restored, true)
  }

  /// Creates a view like [`Engine::view`], for a file that is `writable` or not.
  pub(super) fn view_as(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: impl Into<Arc<Vec<u8>>>,
    origin: Origin,
    restored: Option<&RestoredText>,
    writable: bool,
  ) -> Result<View, EngineError> {
    let began = self.clock.monotonic();
    let path = target.path();
    // One snapshot of the ledger for all queries about a file: otherwise each query would lock it
    // again.
    let _snapshot = self.ledger.snapshot()?;
    let mut read = self.read_version(target, row, bytes, writable)?;
    if let Some(restored) = restored {
      // A person has approved the whole text. Lines of it may be known, because the file had them once.
      read.comparison.renew(&read.document, &read.facts.known, &restored.span);
    }
    let file = (&*path, self.treatment(target));
    let of = (&origin, restored);
    let judgements = self.judge.fresh(&self.ledger, file, &read, of, writable, began)?;
    let ReadVersion { bytes, document, facts, comparison, .. } = read;
    let hash = ContentHash::of(&bytes);
    Ok(View { bytes, hash, document, facts, comparison, judgements, origin, is_undo: false })
  }

  /// Compares `bytes` with the ledger, without a judgement.
  pub(super) fn read_version(
    &self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: impl Into<Arc<Vec<u8>>>,
    writable: bool,
  ) -> Result<ReadVersion, EngineError> {
    let placeholders = &mut self.placeholders.borrow_mut();
    let reader = Reader { ledger: &self.ledger, placeholders, now: self.now() };
    Ok(reader.read((&target.path(), row), bytes.into(), writable)?)
  }

  /// The marker mode for this file.
  fn marking(&self, target: &Target, hash: ContentHash) -> Marking {
    // People maintain these files by hand, and every byte in them is an instruction.
    if self.treatment(target) != Treatment::Memory || self.files.shapes().is_elsewhere(&target.root)
    {
      return Marking { mode: MarkerMode::None, why: None };
    }
    let none = |why: String| Marking { mode: MarkerMode::None, why: Some(why) };
    // If the ledger cannot be read here, the next write to it fails and is reported.
    if marker_preference::is_unmarked(&self.ledger, &target.path()).unwrap_or_default() {
      return none(marker_preference::WHY.to_owned());
    }
    match self.link.standing(target) {
      Standing::Unreadable(why) => return none(why),
      Standing::Recorded { hash: recorded, .. } if recorded != hash => {
        return none("edited by another program since the agent's last recorded write".to_owned());
      }
      Standing::Recorded { .. } | Standing::NoRecord => {}
    }
    let mode = match self.config.markers {
      Markers::None => MarkerMode::None,
      Markers::Id => MarkerMode::Id,
      Markers::Wrap | Markers::Auto => MarkerMode::Wrap,
    };
    Marking { mode, why: None }
  }

  /// The reshape that is due. Wrappers are reduced to ids, and ids to no markers, if the agent would
  /// otherwise not read the whole file because of its limit.
  pub(super) fn reshape_of(
    &self,
    target: &Target,
    view: &View,
    rows: &[BlockRow],
  ) -> (Option<Vec<u8>>, Marking) {
    let labels = self.ledger.name_key().map(Labels::new).unwrap_or_default();
    if view.document.is_coarse() {
      let plan = view.plan(MarkerMode::None, true, rows, &labels);
      return (plan.reshape, Marking { mode: MarkerMode::None, why: Some(COARSE.to_owned()) });
    }
    let mut marking = self.marking(target, view.hash);
    let limit = self
      .link
      .records()
      .injection_limit(&target.root, &target.rel)
      .filter(|_| self.config.markers == Markers::Auto);
    loop {
      let plan = view.plan(marking.mode, true, rows, &labels);
      let result: &[u8] = plan.reshape.as_deref().unwrap_or(&view.bytes);
      let lower = match (marking.mode, limit) {
        (MarkerMode::Wrap, Some(limit)) if chars(result) > limit => (MarkerMode::Id, limit),
        (MarkerMode::Id, Some(limit)) if chars(result) > limit => (MarkerMode::None, limit),
        _ => {
          // Without text to mark, no marker is missing.
          marking.why = marking.why.filter(|_| rows.iter().any(|row| row.marker.is_some()));
          let new = view.with_gaps(plan.reshape);
          return (new, marking);
        }
      };
      let (mode, limit) = lower;
      let why = over_limit(mode, limit);
      marking = Marking { mode, why: Some(why) };
    }
  }
}

/// Why a file has fewer markers than configured.
fn over_limit(mode: MarkerMode, limit: usize) -> String {
  let limit = match (limit / 1000, limit % 1000) {
    (0, rest) => rest.to_string(),
    (thousands, rest) => format!("{thousands},{rest:03}"),
  };
  let what = if mode == MarkerMode::None {
    "markers omitted: they"
  } else {
    "only short markers: full ones"
  };
  format!("{what} would exceed the agent's limit of {limit} characters")
}

/// The length in characters as the agent counts them: UTF-16 code units, because it is written in
/// JavaScript.
fn chars(bytes: &[u8]) -> usize {
  bytes
    .utf8_chunks()
    .map(|chunk| {
      chunk.valid().chars().map(char::len_utf16).sum::<usize>()
        + usize::from(!chunk.invalid().is_empty())
    })
    .sum()
}
