//! A version of a file, compared with what the ledger knows: blocks, fates, judgements, plan.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
  Engine, EngineError, Target,
  facts::{FileFacts, known_block},
  judge::{BlockJudgement, Origin, RestoredText, Treatment},
  label::Labels,
  marker_preference,
  read_version::{ReadVersion, Reader},
};
use crate::{
  config::Markers,
  detect::{Code, Finding},
  files::Fs,
  memory::{
    self, BlockId, Comparison, ContentHash, Document, Facts, Judged, KnownBlock, MarkerMode, Plan,
    compare, id::MIN_ID_DIGITS,
  },
  provenance::Standing,
  store::{BlockRow, FileRow},
};

/// The note for a file with too many lines or blocks to know each of them, or too much markup to parse.
pub(super) const COARSE: &str =
  "it has too many lines or blocks or too much markup, so neighbours are judged as one";

/// A version of a file with all results for it.
pub struct View {
  /// The content of the file, of which there is one copy, because it may be large.
  pub bytes: Arc<Vec<u8>>,
  /// The hash of `bytes`.
  pub hash: ContentHash,
  /// The segments and blocks of `bytes`.
  pub document: Document,
  /// The ledger's facts about the file.
  pub facts: FileFacts,
  /// The fate of each block since the known version.
  pub comparison: Comparison,
  /// The judgement on each block with fresh lines.
  pub judgements: Vec<Option<BlockJudgement>>,
  /// The origin of fresh lines.
  pub origin: Origin,
  /// Whether text is taken out because the approval of it is undone.
  pub is_undo: bool,
}

/// The marker mode of a file.
pub struct Marking {
  /// The mode in force.
  pub mode: MarkerMode,
  /// Why it is not the configured mode.
  pub why: Option<String>,
}

impl View {
  /// A version that differs from a judged one only in markers and placeholders, so that nothing is
  /// fresh.
  pub fn renewed(bytes: impl Into<Arc<Vec<u8>>>, rows: Vec<BlockRow>, before: &FileFacts) -> Self {
    let bytes = bytes.into();
    let mut ids = before.ids.clone();
    ids.markers.extend(rows.iter().filter_map(|row| row.marker.clone()));
    ids.markers.extend(rows.iter().map(|row| row.id.clone()));
    let facts = FileFacts {
      known: rows.iter().map(|row| known_block(row, false)).collect(),
      rows,
      ids,
      gone: before.gone.clone(),
      gaps: before.gaps.clone(),
    };
    let document = facts.read(&bytes);
    let comparison = compare(&document, &facts.known);
    let judgements = document.blocks().iter().map(|_| None).collect();
    let hash = ContentHash::of(&bytes);
    Self {
      bytes,
      hash,
      document,
      facts,
      comparison,
      judgements,
      origin: Origin::unknown(),
      is_undo: false,
    }
  }

  /// The edits: poison and forged markers at once, or otherwise, lazily, the markers.
  pub fn plan(&self, mode: MarkerMode, compact: bool, rows: &[BlockRow], labels: &Labels) -> Plan {
    let tags = FileFacts::tags(rows, labels);
    let known: Vec<KnownBlock> = self.tagged(rows);
    let facts = Facts { known: &known, tags: &tags, gone: &self.facts.gone, mode, compact };
    let judged: Vec<Judged> = self.judgements.iter().map(|one| wanted(one.as_ref())).collect();
    // The engine assigns the ids of redactions, because text that comes back keeps its id; until then
    // an id of the same length is used.
    let mut stand_in = || BlockId::from_random([0; 8], MIN_ID_DIGITS);
    memory::plan(&self.bytes, &self.document, &self.comparison, &facts, &judged, &mut stand_in)
  }

  /// The edits that are needed at once, without markers.
  pub fn urgent(&self) -> Plan {
    self.plan(MarkerMode::None, false, &[], &Labels::default())
  }

  /// The new text of the file, or the present one, with the placeholders that return to their places. Each
  /// returns only where no block reads differently with it.
  fn with_gaps(&self, reshaped: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut new = reshaped;
    let hashes = |of: &Document| of.blocks().iter().map(|block| block.hash).collect::<Vec<_>>();
    for (id, gap) in &self.facts.gaps {
      let Some(with) = gap.insert(new.as_deref().unwrap_or(&self.bytes), id) else { continue };
      let read = self.facts.read(&with);
      if hashes(&read) == hashes(&self.document) && read.placeholders().any(|one| one == id) {
        new = Some(with);
      }
    }
    new
  }

  /// The known blocks with the markers from `rows`: a block that has just become known gets its current
  /// marker.
  fn tagged(&self, rows: &[BlockRow]) -> Vec<KnownBlock> {
    let mut known = self.facts.known.clone();
    for (fate, row) in self.comparison.fates.iter().zip(rows) {
      if let Some(block) = fate.known().and_then(|index| known.get_mut(index)) {
        block.marker.clone_from(&row.marker);
      }
    }
    known
  }
}

/// The action of the plan for a judgement.
fn wanted(judgement: Option<&BlockJudgement>) -> Judged {
  let Some(judgement) = judgement else {
    return Judged { action: memory::Action::Keep, spans: vec![], lines: None };
  };
  let forged = |finding: &&Finding| finding.code == Code::ForgedMarker;
  let action = if judgement.decision.leaves() {
    memory::Action::Quarantine
  } else if judgement.findings.iter().any(|finding| forged(&finding)) && !judgement.spared {
    memory::Action::Neutralise
  } else {
    memory::Action::Keep
  };
  let spans = judgement.findings.iter().map(|finding| finding.span.clone()).collect();
  let lines = judgement.lines.clone().filter(|_| action == memory::Action::Quarantine);
  Judged { action, spans, lines }
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
      return none(super::unmark::WHY.to_owned());
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
