//! One version of a file, read against what the ledger knows: blocks, fates, judgements, plan.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  path::Path,
};

use super::{
  Engine, EngineError, Target,
  facts::{FileFacts, known_block},
  judge::{self, BlockJudgement, Court, Origin, Precedent, Restored},
  redact::findings_json,
};
use crate::{
  config::Markers,
  detect::{Action, Code, Finding, Verdict},
  memory::{
    self, Block, BlockId, Comparison, ContentHash, Document, Facts, Fate, Judged, KnownBlock,
    MarkerMode, Plan, compare,
    id::{MAX_ID_DIGITS, MIN_ID_DIGITS},
  },
  os::Fs,
  provenance::{Attestation, Standing, State},
  store::{BlockLine, BlockRow, FileRow, Ledger, Revision, StoreError},
};

/// Blocks that left a file and are still known when they come back; a writer that empties a file and
/// fills it again brings all of them at once.
const MAX_FORMER: u32 = 20_000;

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

impl View {
  /// A version that differs from a judged one only in markers and placeholders: nothing in it is
  /// fresh.
  pub fn renewed(bytes: Vec<u8>, rows: &[BlockRow], before: &FileFacts) -> Self {
    let mut ids = before.ids.clone();
    ids.markers.extend(rows.iter().filter_map(|row| row.marker.clone()));
    ids.markers.extend(rows.iter().map(|row| row.id.clone()));
    let facts = FileFacts {
      known: rows.iter().map(known_block).collect(),
      rows: rows.to_vec(),
      ids,
      gone: before.gone.clone(),
    };
    let document = Document::parse(&bytes, &facts.ids);
    let comparison = compare(&document, &facts.known);
    let judgements = document.blocks().iter().map(|_| None).collect();
    let hash = ContentHash::of(&bytes);
    Self { bytes, hash, document, facts, comparison, judgements, origin: Origin::unknown() }
  }

  /// The rows of the ledger for this version. What is to leave the file must have left it already.
  pub fn rows(
    &self,
    at: i64,
    mut new_id: impl FnMut() -> Result<BlockId, EngineError>,
  ) -> Result<Vec<BlockRow>, EngineError> {
    let mut rows: Vec<BlockRow> = Vec::with_capacity(self.document.blocks().len());
    // The marker of a run of fresh blocks is the id of its first block.
    let mut run: Option<BlockId> = None;
    for (index, block) in self.document.blocks().iter().enumerate() {
      let fate = self.comparison.fates.get(index);
      let old = fate.and_then(Fate::known).and_then(|known| self.facts.rows.get(known));
      let fresh: HashSet<usize> = match fate {
        Some(Fate::Inserted) | None => (0..block.lines.len()).collect(),
        Some(Fate::Edited { fresh, .. }) => fresh.iter().copied().collect(),
        Some(Fate::Unchanged { .. } | Fate::Moved { .. }) => HashSet::new(),
      };
      let mut row = match old {
        Some(old) => old.clone(),
        None => blank_row(block, new_id()?),
      };
      // A part of a block that was split inherits its origin under an id of its own.
      if self.comparison.heirs.contains(&index) {
        row.id = new_id()?;
        row.marker = None;
      }
      let judgement = self.judgements.get(index).and_then(Option::as_ref);
      let origin = judgement.and_then(|one| one.origin.as_ref()).unwrap_or(&self.origin);
      let revision = if fresh.is_empty() { None } else { Some(revise(&mut row, origin, at)) };
      row.lines = lines(block, old, &fresh, revision);
      row.hash = block.hash;
      row.norm_hash = block.norm_hash;
      row.ordinal = u32::try_from(index).unwrap_or(u32::MAX);
      row.start_line = u32::try_from(block.start_line).unwrap_or(u32::MAX);
      row.end_line = u32::try_from(block.end_line).unwrap_or(u32::MAX);
      if let Some(judgement) = judgement {
        judged(&mut row, judgement, block);
      }
      let wrapped = revision.is_some() && !origin.source.is_baseline();
      run = match (wrapped, &row.marker) {
        (false, _) => None,
        (true, Some(own)) => Some(own.clone()),
        (true, None) => {
          let marker = run.unwrap_or_else(|| row.id.clone());
          row.marker = Some(marker.clone());
          Some(marker)
        }
      };
      rows.push(row);
    }
    Ok(rows)
  }

  /// What is to be changed: poison and forged markers at once, or else, lazily, the markers.
  pub fn plan(&self, mode: MarkerMode, compact: bool, rows: &[BlockRow]) -> Plan {
    let tags = FileFacts::tags(rows);
    let known: Vec<KnownBlock> = self.tagged(rows);
    let facts = Facts { known: &known, tags: &tags, gone: &self.facts.gone, mode, compact };
    let judged: Vec<Judged> = self.judgements.iter().map(|one| wanted(one.as_ref())).collect();
    // The engine names what is taken out, for what comes back keeps its name; until then an id of
    // the same length stands in.
    let mut stand_in = || BlockId::from_random([0; 8], MIN_ID_DIGITS);
    memory::plan(&self.bytes, &self.document, &self.comparison, &facts, &judged, &mut stand_in)
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

/// Whether something was found in a block that was not there before memfw.
pub(super) fn is_only_flagged(row: &BlockRow) -> bool {
  row.state == State::Flagged && row.revisions.iter().any(|one| !one.source.is_baseline())
}

/// Adds a revision for fresh lines; gives its number.
fn revise(row: &mut BlockRow, origin: &Origin, at: i64) -> u32 {
  let number = row.revisions.last().map_or(0, |revision| revision.number.saturating_add(1));
  row.revisions.push(Revision {
    number,
    source: origin.source.clone(),
    trust: origin.trust,
    attestation: Attestation::SelfReported,
    session: None,
    at,
  });
  number
}

fn blank_row(block: &Block, id: BlockId) -> BlockRow {
  BlockRow {
    id,
    hash: block.hash,
    norm_hash: block.norm_hash,
    lines: vec![],
    marker: None,
    ordinal: 0,
    start_line: 0,
    end_line: 0,
    state: State::Validated,
    codes: vec![],
    score: 0.0,
    findings_json: String::new(),
    revisions: vec![],
  }
}

/// The lines of a block with the revision that brought each of them.
fn lines(
  block: &Block,
  old: Option<&BlockRow>,
  fresh: &HashSet<usize>,
  revision: Option<u32>,
) -> Vec<BlockLine> {
  let first = old.and_then(|old| old.revisions.first()).map_or(0, |revision| revision.number);
  let before: HashMap<[u8; 8], u32> = old
    .map(|old| old.lines.iter().map(|line| (line.hash, line.revision)).collect())
    .unwrap_or_default();
  block
    .lines
    .iter()
    .enumerate()
    .map(|(index, line)| BlockLine {
      hash: line.hash,
      revision: match revision {
        Some(number) if fresh.contains(&index) => number,
        _ => before.get(&line.hash).copied().unwrap_or(first),
      },
    })
    .collect()
}

/// Notes a judgement on a block that stays.
fn judged(row: &mut BlockRow, judgement: &BlockJudgement, block: &Block) {
  let decision = &judgement.decision;
  if decision.verdict == Verdict::Pass {
    if judgement.approved {
      row.state = State::Approved;
    } else if row.state == State::Unvalidated {
      row.state = State::Validated;
    }
    return;
  }
  row.state = State::Flagged;
  row.score = row.score.max(decision.score);
  row.codes.extend(&decision.codes);
  row.codes.sort_unstable();
  row.codes.dedup();
  let start = block.parts.first().map_or(0, |part| part.start);
  let end = block.parts.last().map_or(start, |part| part.end);
  row.findings_json = findings_json(&judgement.findings, start, end.saturating_sub(start));
}

/// What the plan is to do about a judgement.
fn wanted(judgement: Option<&BlockJudgement>) -> Judged {
  let Some(judgement) = judgement else {
    return Judged { action: memory::Action::Keep, spans: vec![] };
  };
  let forged = |finding: &&Finding| finding.code == Code::ForgedMarker;
  let action = if judgement.decision.action == Action::Quarantine {
    memory::Action::Quarantine
  } else if judgement.findings.iter().any(|finding| forged(&finding)) && !judgement.spared {
    memory::Action::Neutralise
  } else {
    memory::Action::Keep
  };
  let spans = judgement.findings.iter().map(|finding| finding.span.clone()).collect();
  Judged { action, spans }
}

impl<F: Fs> Engine<F> {
  /// Reads `bytes` against the ledger and judges what is fresh.
  pub(super) fn view(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: Vec<u8>,
    origin: Origin,
    restored: Option<&Restored>,
  ) -> Result<View, EngineError> {
    self.view_again(target, row, bytes, origin, restored, false)
  }

  /// The same; with `again`, what was flagged and is no baseline is judged once more.
  pub(super) fn view_again(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    bytes: Vec<u8>,
    origin: Origin,
    restored: Option<&Restored>,
    again: bool,
  ) -> Result<View, EngineError> {
    let path = target.path();
    // One view of the ledger for all the questions of one file: each alone would lock it anew.
    let _snapshot = self.ledger.snapshot()?;
    let placeholders = self.ledger.placeholder_ids(&path)?;
    let mut redacted = HashMap::new();
    for id in ids_in(&bytes).into_iter().filter(|id| placeholders.contains_key(id)) {
      // Without its form only the placeholder's own line is recognised, which is enough to go on.
      if let Ok(form) = self.ledger.redacted_form(&id) {
        redacted.insert(id, form);
      }
    }
    let (mut rows, mut markers) = (vec![], HashSet::new());
    if let Some(row) = row {
      rows = self.ledger.blocks(row.id)?;
      rows.extend(self.ledger.former_blocks(row.id, MAX_FORMER)?);
      markers = self.ledger.marker_ids(&path)?;
    }
    let facts = FileFacts::new(rows, markers, &placeholders, redacted);
    let document = Document::parse(&bytes, &facts.ids);
    let mut comparison = compare(&document, &facts.known);
    if again {
      for fate in &mut comparison.fates {
        let row = fate.known().and_then(|known| facts.rows.get(known));
        if row.is_some_and(is_only_flagged) {
          *fate = Fate::Inserted;
        }
      }
    }
    let continued = self.continued(&document)?;
    let now = self.now();
    let ledger = &self.ledger;
    let decided = !placeholders.is_empty() || ledger.has_exceptions()?;
    let mut failed = None;
    let mut court = Court {
      origin: &origin,
      config: &self.config,
      continued: &continued,
      restored,
      precedent: &mut |hash| {
        if !decided {
          return Precedent::None;
        }
        precedent(ledger, &path, hash, now).unwrap_or_else(|error| {
          failed.get_or_insert(error);
          Precedent::None
        })
      },
    };
    let judgements = judge::judge_fresh(&bytes, &document, &comparison, &mut court);
    if let Some(error) = failed {
      return Err(error.into());
    }
    let hash = ContentHash::of(&bytes);
    Ok(View { bytes, hash, document, facts, comparison, judgements, origin })
  }

  /// Text behind the placeholder of something that was taken out of an unfinished line: the writer
  /// was not done, and what follows belongs to it.
  fn continued(&self, document: &Document) -> Result<Vec<Range<usize>>, EngineError> {
    let mut rest = Vec::new();
    for continued in document.continued() {
      let item = self.ledger.item(continued.id.as_str())?;
      if item.status.is_waiting() && !item.terminated {
        rest.push(continued.rest.clone());
      }
    }
    Ok(rest)
  }

  /// How markers may stand in this file, and why not fuller.
  pub(super) fn marker_mode(
    &self,
    target: &Target,
    hash: ContentHash,
  ) -> (MarkerMode, Option<String>) {
    match self.agent.standing(&target.root, &target.rel) {
      Standing::Unreadable(why) => return (MarkerMode::None, Some(why)),
      Standing::Recorded { hash: recorded } if recorded != hash => {
        let why = "edited by somebody else since the agent's last recorded write".to_owned();
        return (MarkerMode::None, Some(why));
      }
      Standing::Recorded { .. } | Standing::NoRecord => {}
    }
    match self.config.markers {
      Markers::None => (MarkerMode::None, None),
      Markers::Id => (MarkerMode::Id, None),
      Markers::Wrap | Markers::Auto => (MarkerMode::Wrap, None),
    }
  }

  /// The reshape that is due, stepped down from wrappers to ids to nothing where the agent would
  /// read no further than its limit.
  pub(super) fn reshape_of(
    &self,
    target: &Target,
    view: &View,
    rows: &[BlockRow],
  ) -> (Option<Vec<u8>>, MarkerMode) {
    let (mut mode, _) = self.marker_mode(target, view.hash);
    let limit =
      self.agent.injection_limit(&target.rel).filter(|_| self.config.markers == Markers::Auto);
    loop {
      let plan = view.plan(mode, true, rows);
      let result: &[u8] = plan.reshape.as_deref().unwrap_or(&view.bytes);
      let too_long = limit.is_some_and(|limit| chars(result) > limit);
      mode = match mode {
        MarkerMode::Wrap if too_long => MarkerMode::Id,
        MarkerMode::Id if too_long => MarkerMode::None,
        mode => return (plan.reshape, mode),
      };
    }
  }
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
fn ids_in(bytes: &[u8]) -> HashSet<BlockId> {
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

fn precedent(
  ledger: &Ledger,
  path: &Path,
  hash: &ContentHash,
  now: i64,
) -> Result<Precedent, StoreError> {
  if let Some(exception) = ledger.exception(*hash)?
    && exception.holds(now)
  {
    let origin = match ledger.existing_item(path, *hash, 0)? {
      Some(existing) => {
        let item = ledger.item(existing.id.as_str())?;
        Some(Origin { source: item.source, trust: item.trust, observed: false })
      }
      None => None,
    };
    return Ok(Precedent::Excused(exception.codes, origin));
  }
  match ledger.existing_item(path, *hash, 0)? {
    Some(item) if item.status.is_waiting() || item.status == State::Rejected => {
      Ok(Precedent::Quarantined(ledger.item(item.id.as_str())?.codes))
    }
    _ => Ok(Precedent::None),
  }
}
