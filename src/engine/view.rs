//! One version of a file, read against what the ledger knows: blocks, fates, judgements, plan.
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

/// Blocks that left a file and are still known when they come back; a writer that empties a file and
/// fills it again brings all of them at once.
const MAX_FORMER: u32 = 20_000;

/// How long after a line was taken out unfinished its writer may still go on with it, in microseconds (a
/// choice: those who write in pieces do so within milliseconds).
const CONTINUED_FOR: i64 = 10_000_000;

/// What is said of a file with more lines or blocks than are known one by one.
pub(super) const COARSE: &str =
  "it has so many lines or blocks that neighbours are judged and known as one";

/// A version of a file with everything that follows from it.
pub struct View {
  /// The bytes.
  pub bytes: Vec<u8>,
  /// Their hash.
  pub hash: ContentHash,
  /// Their blocks.
  pub document: Document,
  /// What the ledger knows.
  pub facts: FileFacts,
  /// What became of each block since then.
  pub comparison: Comparison,
  /// The judgement on each block with fresh lines.
  pub judgements: Vec<Option<BlockJudgement>>,
  /// Where fresh lines came from.
  pub origin: Origin,
}

/// How markers stand in a file.
pub struct Marking {
  /// The mode in force.
  pub mode: MarkerMode,
  /// Why it is not the one that the configuration asks for.
  pub why: Option<String>,
}

impl View {
  /// A version that differs from a judged one only in markers and placeholders: nothing in it is
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

  /// What is to be changed: poison and forged markers at once, or else, lazily, the markers.
  pub fn plan(&self, mode: MarkerMode, compact: bool, rows: &[BlockRow], labels: &Labels) -> Plan {
    let tags = FileFacts::tags(rows, labels);
    let known: Vec<KnownBlock> = self.tagged(rows);
    let facts = Facts { known: &known, tags: &tags, gone: &self.facts.gone, mode, compact };
    let judged: Vec<Judged> = self.judgements.iter().map(|one| wanted(one.as_ref())).collect();
    // The engine names what is taken out, for what comes back keeps its name; until then an id of
    // the same length stands in.
    let mut stand_in = || BlockId::from_random([0; 8], MIN_ID_DIGITS);
    memory::plan(&self.bytes, &self.document, &self.comparison, &facts, &judged, &mut stand_in)
  }

  /// What is to be changed at once; no marker is written.
  pub fn urgent(&self) -> Plan {
    self.plan(MarkerMode::None, false, &[], &Labels::default())
  }

  /// The known blocks with the markers that `rows` give them: a block that has just become known is
  /// wrapped as what it is now.
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

/// Whether the same text may stand in a file because of this row. What was to leave and did not, by a
/// person's word or because the file may not be written, has none that vouches for it.
fn vouches(row: &BlockRow, writable: bool) -> bool {
  let left = row.state == State::Flagged && row.codes.contains(&Code::LeftInPlace);
  !(row.state.is_waiting() || left && writable)
}

/// Whether a person has approved a line of it.
fn is_approved(row: &BlockRow) -> bool {
  row.revisions.iter().any(|revision| revision.approved)
}

/// What the plan is to do about a judgement.
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
  /// Reads `bytes` against the ledger and judges what is fresh. In a file that may be written that is also
  /// what was to leave it before and could not.
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

  /// The same for a file that may be `writable` or not.
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
    // One view of the ledger for all the questions of one file: each alone would lock it anew.
    let _snapshot = self.ledger.snapshot()?;
    let placeholders = self.ledger.placeholder_ids(&path)?;
    let mut redacted = HashMap::new();
    for id in ids_in(&bytes).into_iter().filter(|id| placeholders.contains_key(id)) {
      // Without its form only the placeholder's own line is recognised, which is enough to go on.
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
    // Taken out before anything is compared: also single lines of theirs must not be known.
    rows.retain(|row| vouches(row, writable));
    former.retain(|row| vouches(row, writable));
    // An approval that was taken back or has ended holds for what stands there, and not for what comes anew.
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
      // Whose text it is becomes known later.
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

  /// Text behind the placeholder of something that was taken out of an unfinished line a moment ago: the
  /// writer was not done, and what follows belongs to it. What comes later is somebody else's line.
  fn continued(&self, document: &Document) -> Result<Vec<Range<usize>>, EngineError> {
    let mut rest = Vec::new();
    // One placeholder may be copied to any number of lines.
    let mut asked: HashMap<&BlockId, bool> = HashMap::new();
    for continued in document.continued() {
      let is_young = match asked.get(&continued.id) {
        Some(is_young) => *is_young,
        None => {
          let item = self.ledger.item(continued.id.as_str())?;
          let age = self.now().saturating_sub(item.seen_at);
          let is_young = item.status.is_waiting() && !item.terminated && age <= CONTINUED_FOR;
          asked.insert(&continued.id, is_young);
          is_young
        }
      };
      if is_young {
        rest.push(continued.rest.clone());
      }
    }
    Ok(rest)
  }

  /// How markers may stand in this file.
  fn marking(&self, target: &Target, hash: ContentHash) -> Marking {
    // People keep these files by hand, and every byte of them is an instruction.
    if self.treatment(target) != Treatment::Memory || self.shapes.is_elsewhere(&target.root) {
      return Marking { mode: MarkerMode::None, why: None };
    }
    let none = |why: String| Marking { mode: MarkerMode::None, why: Some(why) };
    // Where the ledger cannot be asked, what follows cannot be recorded either.
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

  /// The reshape that is due, stepped down from wrappers to ids to nothing where the agent would
  /// read no further than its limit.
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
          // Where there is nothing to mark, nothing is missing.
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

/// Why a file has fewer markers than it was to have.
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

/// Characters as the agent counts them: UTF-16 code units, for it is written in JavaScript.
fn chars(bytes: &[u8]) -> usize {
  bytes
    .utf8_chunks()
    .map(|chunk| {
      chunk.valid().chars().map(char::len_utf16).sum::<usize>()
        + usize::from(!chunk.invalid().is_empty())
    })
    .sum()
}

/// The ids that stand behind a `memfw:` somewhere in the text.
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
