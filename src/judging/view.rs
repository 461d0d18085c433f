//! A version of a file with all results for it: blocks, fates, judgements, plan.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
  facts::{FileFacts, known_block},
  judgement::BlockJudgement,
  label::Labels,
  origin::Origin,
};
use crate::{
  detect::{Code, Finding},
  memory::{
    self, BlockId, Comparison, ContentHash, Document, Facts, Judged, KnownBlock, MarkerMode, Plan,
    compare, id::MIN_ID_DIGITS,
  },
  store::{BlockRow, Pending},
};

/// The note for a file with too many lines or blocks to know each of them, or too much markup to parse.
pub const COARSE: &str =
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

  /// What the encoder has to read of a version that was just judged.
  pub fn reading_due(&self) -> Pending {
    let wants = |judgement: &BlockJudgement| {
      judgement.wants_encoder(judgement.origin.as_ref().unwrap_or(&self.origin).trust)
    };
    let is_due = self.judgements.iter().flatten().any(wants);
    if is_due { Pending::MODEL } else { Pending::NONE }
  }

  /// The new text of the file, or the present one, with the placeholders that return to their places. Each
  /// returns only where no block reads differently with it.
  pub fn with_gaps(&self, reshaped: Option<Vec<u8>>) -> Option<Vec<u8>> {
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
