//! A version of a file, compared with what the ledger knows: blocks, fates, judgements, plan.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
};

use super::{
  Engine, EngineError, Target,
  facts::{FileFacts, known_block},
  judge::{self, BlockJudgement, JudgeContext, Origin, Precedent, Restored, Treatment},
  label::Labels,
  lapse::Version,
  precedent::precedent,
  slices::{LARGE, Slice},
};
use crate::{
  config::Markers,
  detect::{Code, Finding},
  files::Fs,
  memory::{
    self, Around, BlockId, Comparison, ContentHash, Document, Facts, Judged, KnownBlock,
    MarkerMode, Plan, compare,
    id::{MAX_ID_DIGITS, MIN_ID_DIGITS},
  },
  provenance::{Standing, State},
  store::{BlockRow, FileRow},
};

/// The most former blocks that are recognised when they come back; a writer that empties a file and
/// fills it again brings all of them at once.
const MAX_FORMER: u32 = 20_000;

/// How long a writer may continue an unfinished line after that line was taken out, in microseconds (a
/// choice: writers that write in pieces do so within milliseconds).
const CONTINUED_FOR: i64 = 10_000_000;

/// The note for a file with too many lines or blocks to know each of them.
pub(super) const COARSE: &str =
  "it has so many lines or blocks that neighbours are judged and known as one";

/// A version of a file with all results for it.
pub struct View {
  /// The bytes.
  pub bytes: Vec<u8>,
  /// Their hash.
  pub hash: ContentHash,
  /// Their blocks.
  pub document: Document,
  /// What the ledger knows.
  pub facts: FileFacts,
  /// The fate of each block since the known version.
  pub comparison: Comparison,
  /// The judgement on each block with fresh lines.
  pub judgements: Vec<Option<BlockJudgement>>,
  /// The origin of fresh lines.
  pub origin: Origin,
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
  pub fn renewed(bytes: Vec<u8>, rows: &[BlockRow], before: &FileFacts) -> Self {
    let mut ids = before.ids.clone();
    ids.markers.extend(rows.iter().filter_map(|row| row.marker.clone()));
    ids.markers.extend(rows.iter().map(|row| row.id.clone()));
    let facts = FileFacts {
      known: rows.iter().map(|row| known_block(row, false)).collect(),
      rows: rows.to_vec(),
      ids,
      gone: before.gone.clone(),
    };
    let document = facts.read(&bytes);
    let comparison = compare(&document, &facts.known);
    let judgements = document.blocks().iter().map(|_| None).collect();
    let hash = ContentHash::of(&bytes);
    Self { bytes, hash, document, facts, comparison, judgements, origin: Origin::unknown() }
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

/// Whether this row allows its text to be in a file. Text that had to be taken out and was not, by a
/// person's decision or because the file was not writable, is not allowed by its row.
fn vouches(row: &BlockRow, writable: bool) -> bool {
  let left = row.state == State::Flagged && row.codes.contains(&Code::LeftInPlace);
  !(row.state.is_waiting() || left && writable)
}

/// Whether a person has approved one of its lines.
fn is_approved(row: &BlockRow) -> bool {
  row.revisions.iter().any(|revision| revision.approved)
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
  /// Compares `bytes` with the ledger and judges fresh text. In a writable file, text that could not be
  /// taken out before counts as fresh.
  pub(super) fn view(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: Vec<u8>,
    origin: Origin,
    restored: Option<&Restored>,
  ) -> Result<View, EngineError> {
    self.view_as(target, row, bytes, origin, restored, true)
  }

  /// Creates a view like [`Engine::view`], for a file that is `writable` or not.
  pub(super) fn view_as(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: Vec<u8>,
    origin: Origin,
    restored: Option<&Restored>,
    writable: bool,
  ) -> Result<View, EngineError> {
    let began = self.clock.monotonic();
    let path = target.path();
    // One snapshot of the ledger for all queries about a file: otherwise each query would lock it
    // again.
    let _snapshot = self.ledger.snapshot()?;
    let placeholders = self.ledger.placeholder_ids(&path)?;
    let mut redacted = HashMap::new();
    for id in ids_in(&bytes).into_iter().filter(|id| placeholders.contains_key(id)) {
      // Without its bytes only the line of the placeholder itself is recognised, which is enough.
      if let Some(form) = self.forms.borrow_mut().of(&self.ledger, &id) {
        redacted.insert(id, form);
      }
    }
    let (mut rows, mut former, mut markers) = (vec![], vec![], HashSet::new());
    if let Some(row) = row {
      rows = self.ledger.blocks(row.id)?;
      former = self.ledger.former_blocks(row.id, MAX_FORMER)?;
      markers = self.ledger.marker_ids(&path)?;
    }
    // They are removed before the comparison, so that single lines of them are not known either.
    rows.retain(|row| vouches(row, writable));
    former.retain(|row| vouches(row, writable));
    // A withdrawn or expired approval applies to text in the file, but not to new copies.
    if former.iter().any(is_approved) && self.ledger.has_lost_approval(&path, self.now())? {
      former.retain(|row| !is_approved(row));
    }
    let mut facts = FileFacts::new(rows, former, markers, &placeholders, redacted);
    let document = facts.read(&bytes);
    facts.gone.extend(self.spare_placeholders(&document, &bytes, &placeholders)?);
    let comparison = compare(&document, &facts.known);
    let continued = self.continued(&document)?;
    let now = self.now();
    let ledger = &self.ledger;
    let decided =
      !placeholders.is_empty() || ledger.has_exceptions()? || ledger.was_renamed(&path)?;
    let mut failed = None;
    let mut unread = None;
    let mut ask = |hash: &ContentHash, run: &Range<usize>| {
      let around = || Around::of(&bytes, &document, run);
      precedent(ledger, &path, around, hash, &origin, now).unwrap_or_else(|error| {
        failed.get_or_insert(error);
        Precedent::None
      })
    };
    let slice = (bytes.len() >= LARGE).then(|| {
      let of = (&*path, &origin);
      let interrupt = self.interrupt.as_ref().filter(|_| self.may_interrupt);
      Slice::new(&self.memo, of, interrupt, &*self.clock, began)
    });
    let mut court = JudgeContext {
      slice: slice.as_ref(),
      consult: None,
      reads_on: self.reads_on(),
      origin: &origin,
      treatment: self.treatment(target),
      config: &self.config,
      rules: self.judging.set(),
      known: &facts.rows,
      continued: &continued,
      restored,
      // The source becomes known later.
      allowed: &[],
      slots: &[],
      precedent: decided.then_some(&mut ask),
      assess: &mut |text, rules, context| {
        let mut ask = || {
          self.assess(text, rules, context).unwrap_or_else(|error| {
            unread.get_or_insert(error);
            None
          })
        };
        match &slice {
          Some(slice) => slice.assessed(text, rules, ask),
          None => ask(),
        }
      },
    };
    let mut judgements = judge::judge_fresh(&bytes, &document, &comparison, &mut court);
    if slice.as_ref().is_some_and(Slice::is_cut) {
      return Err(failed.or(unread).map_or(EngineError::Preempted, EngineError::from));
    }
    if decided && restored.is_none() && writable {
      let version = Version { path: &path, bytes: &bytes, document: &document };
      self.lapse(&version, &comparison, &mut judgements, &mut court)?;
    }
    if let Some(error) = failed.or(unread) {
      return Err(error.into());
    }
    let hash = ContentHash::of(&bytes);
    Ok(View { bytes, hash, document, facts, comparison, judgements, origin })
  }

  /// The text after the placeholders of unfinished lines that were taken out a moment ago: the writer
  /// continues the line. Later text belongs to another line.
  fn continued(&self, document: &Document) -> Result<Vec<Range<usize>>, EngineError> {
    let mut rest = Vec::new();
    // A placeholder may be copied to any number of lines.
    let mut asked: HashMap<&BlockId, bool> = HashMap::new();
    for continued in document.continued() {
      let is_young = if let Some(is_young) = asked.get(&continued.id) {
        *is_young
      } else {
        let item = self.ledger.item(continued.id.as_str())?;
        let age = self.now().saturating_sub(item.seen_at);
        let is_young = item.status.is_waiting() && !item.terminated && age <= CONTINUED_FOR;
        asked.insert(&continued.id, is_young);
        is_young
      };
      if is_young {
        rest.push(continued.rest.clone());
      }
    }
    Ok(rest)
  }

  /// The marker mode for this file.
  fn marking(&self, target: &Target, hash: ContentHash) -> Marking {
    // People maintain these files by hand, and every byte in them is an instruction.
    if self.treatment(target) != Treatment::Memory || self.shapes.is_elsewhere(&target.root) {
      return Marking { mode: MarkerMode::None, why: None };
    }
    let none = |why: String| Marking { mode: MarkerMode::None, why: Some(why) };
    // If the ledger cannot be read here, the next write to it fails and is reported.
    if self.is_unmarked(&target.path()).unwrap_or_default() {
      return none(super::unmark::WHY.to_owned());
    }
    match self.agent.standing(&target.root, &target.rel) {
      Standing::Unreadable(why) => return none(why),
      Standing::Recorded { hash: recorded, .. } if recorded != hash => {
        return none("edited by somebody else since the agent's last recorded write".to_owned());
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
      .agent
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
          return (plan.reshape, marking);
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

/// The ids after `memfw:` anywhere in the text.
pub(super) fn ids_in(bytes: &[u8]) -> HashSet<BlockId> {
  const WORD: &[u8] = b"memfw:";
  let mut found = HashSet::new();
  let mut at = 0;
  while let Some(start) = memory::marker::find(bytes, WORD, at) {
    at = start + WORD.len();
    let digits = bytes.get(at..).unwrap_or_default();
    let n = digits.iter().take(MAX_ID_DIGITS + 1).take_while(|b| b.is_ascii_hexdigit()).count();
    let id = digits.get(..n).and_then(|digits| std::str::from_utf8(digits).ok());
    found.extend(id.and_then(|id| id.parse().ok()));
  }
  found
}
