//! Layer 2 in the engine: the heads judge together with the rules, and the encoder reads later.
//!
//! The ledger keeps the encoder's results by content, context and version of the model. So each text is
//! read once for each source, a judgement never waits for the encoder, and after a crash the file only
//! has to be examined again. A file with unread text has [`Pending::MODEL`].
//!
//! The engine gathers texts and records the results; its caller decides on which thread they are read.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  path::Path,
  time::Duration,
};

use zeroize::Zeroizing;

use super::{
  Engine, EngineError, Event, EventKind, Target, degraded,
  event::shown,
  pending,
  rejudge::Removal,
  scoring::{Scored, Scoring, Text, Unit},
};
use crate::{
  detect::{
    Action, Code, Layer, Verdict,
    model::{Depth, Health},
  },
  files::Fs,
  judging::{
    judge::Beside,
    judgement::{BlockJudgement, Consulted},
    origin::Origin,
    precedent::allowed_to,
    rows,
    text::BlockText,
    treatment::Treatment,
    unit::brought,
    view::View,
  },
  memory::{Block, line::LineKind},
  provenance::State,
  store::{
    AttributionRecord, BlockRow, FileRow, FileStatus, Ledger, PartKind, Pending, ScoreKey,
    StoreError,
  },
};

/// What there is to read in a file.
#[derive(Debug)]
pub enum Reading {
  /// Nothing (more).
  Nothing {
    /// Whether markers are to be renewed when the file is idle.
    reshape_due: bool,
  },
  /// The sources are not known yet, or the file differs from what the ledger knows: try again soon.
  NotNow,
  /// These texts.
  Texts(Scoring),
}

/// A file with all texts in it that may be read.
pub(super) struct Gathered {
  pub(super) row: FileRow,
  pub(super) rows: Vec<BlockRow>,
  pub(super) view: View,
  pub(super) units: Vec<Unit>,
}

impl<F: Fs> Engine<F> {
  /// Notes the model at a start: results of another model are dropped, and a damaged model is reported
  /// as a degradation.
  pub fn start_model(&mut self) -> Result<(), EngineError> {
    let Some(model) = self.judge.model() else { return Ok(()) };
    tell_health(&mut self.ledger, &model.health(), self.clock.now())?;
    let at = self.now();
    self.ledger.take_model(model.version(), at)?;
    Ok(())
  }

  /// Gathers the unread texts of a file, once their sources are known.
  pub fn scoring(&mut self, target: &Target) -> Result<Reading, EngineError> {
    let Some(row) = self.ledger.file(&target.path())? else {
      return Ok(Reading::Nothing { reshape_due: false });
    };
    let reshape_due = row.pending.contains(Pending::RESHAPE);
    let Some(model) = self.judge.model().filter(|_| row.pending.contains(Pending::MODEL)) else {
      return Ok(Reading::Nothing { reshape_due });
    };
    if row.status != FileStatus::Watched {
      // A file that is gone is judged again when it is back.
      pending::remove(&mut self.ledger, &target.path(), Pending::MODEL)?;
      return Ok(Reading::Nothing { reshape_due });
    }
    if row.pending.contains(Pending::ATTRIBUTE) {
      return Ok(Reading::NotNow);
    }
    let Some(gathered) = self.gather_units(target)? else { return Ok(Reading::NotNow) };
    let mut texts: Vec<Text> = Vec::new();
    let mut seen = HashSet::new();
    let Gathered { rows, view, units, .. } = gathered;
    let slots = if units.iter().any(|unit| unit.origin.is_foreign()) {
      self.trusted_slots(target, &rows, &view, None)?
    } else {
      vec![]
    };
    for unit in units {
      // Equal texts of one origin share a result.
      if !seen.insert(unit.key) {
        continue;
      }
      let known = self.ledger.score(unit.key, model.version())?.map(|known| known.depth);
      let block = view.document.blocks().get(unit.index);
      if let Some(block) = block.filter(|_| known != Some(Depth::Encoder)) {
        let bytes = Zeroizing::new(unit_text(&view.bytes, block, &unit.lines).bytes().to_vec());
        texts.push(Text { key: unit.key, origin: unit.origin, bytes, is_left: known.is_some() });
      }
    }
    Ok(Reading::Texts(Scoring {
      target: target.clone(),
      scope: self.config.scope,
      rules: self.judge.rules_in_force(),
      texts,
      slots,
    }))
  }

  /// Records the results, and lets policy decide again about the texts that were read.
  ///
  /// More urgent work can interrupt the second judgement ([`EngineError::Preempted`]); with the same `scored`, the
  /// next call continues there.
  pub fn scored(&mut self, scored: &mut Scored) -> Result<Reading, EngineError> {
    let began = self.clock.monotonic();
    let Scored { target, version, found, health, .. } = &*scored;
    tell_health(&mut self.ledger, health, self.clock.now())?;
    if health.degradation().is_some() {
      // The next start reads the texts that could not be read now.
      self.ledger.forget_model()?;
    }
    let at = self.now();
    self.ledger.note_scores(version, found, at)?;
    let Some(gathered) = self.gather_units(target)? else { return Ok(Reading::NotNow) };
    if gathered.row.pending.contains(Pending::ATTRIBUTE) {
      return Ok(Reading::NotNow);
    }
    let looked: HashSet<ScoreKey> = found.iter().map(|(key, _)| *key).collect();
    let (mut is_new, mut n_left) = (false, 0);
    for unit in &gathered.units {
      match self.ledger.score(unit.key, version)?.map(|known| known.depth) {
        None => is_new |= !looked.contains(&unit.key),
        Some(depth) => n_left += usize::from(depth == Depth::HeadsAlone),
      }
    }
    self.tell_left(target, n_left)?;
    if is_new {
      // New text was written meanwhile.
      return self.scoring(target);
    }
    self.judge_scored(gathered, scored, began)
  }

  /// Reports how many texts of a file the encoder leaves out.
  fn tell_left(&mut self, target: &Target, n: usize) -> Result<(), EngineError> {
    let at = self.now();
    if n == 0 {
      return Ok(degraded::recovered(&mut self.ledger, target.part(PartKind::Encoder), at)?);
    }
    let why = format!(
      "`{}` has more new text than the encoder reads of one version: only the rules and the heads have read {n} of its texts",
      shown(&target.path())
    );
    Ok(degraded::degrade(&mut self.ledger, target.part(PartKind::Encoder), &why, at)?)
  }

  fn judge_scored(
    &mut self,
    mut gathered: Gathered,
    scored: &mut Scored,
    began: Duration,
  ) -> Result<Reading, EngineError> {
    let Scored { target, version, health, judged, .. } = scored;
    judged.of(gathered.row.hash);
    let mut units = Vec::new();
    for unit in gathered.units {
      // Without the encoder, the heads are asked again, and their result is final.
      let is_read = self.ledger.score(unit.key, version)?.is_some();
      let is_due = is_read || health.degradation().is_some();
      if is_due && !judged.contains(&unit) {
        units.push(unit);
      }
    }
    gathered.units = units;
    let turn = self.judge.turn(began);
    let is_next = &mut |unit: &Unit| {
      let goes_on = !turn.is_over();
      turn.comes_further();
      if goes_on {
        judged.add(unit);
      }
      goes_on
    };
    let (reading, _) = self.judge_units(target, gathered, Pending::MODEL, is_next)?;
    Ok(reading)
  }

  /// Judges units of a file again and applies the result; also returns the judgements. `done` is the
  /// step that is done for them. After an answer of the judge, only the units that the answer is about
  /// are changed. `is_next` says of each unit whether it is judged in this turn, or all the rest in the next one.
  pub(super) fn judge_units(
    &mut self,
    target: &Target,
    gathered: Gathered,
    done: Pending,
    is_next: &mut dyn FnMut(&Unit) -> bool,
  ) -> Result<(Reading, Vec<BlockJudgement>), EngineError> {
    let path = target.path();
    let is_answer = done == Pending::JUDGE;
    let mut judgements = Vec::new();
    let Gathered { row, rows: before, view, units } = gathered;
    let mut rows = before.clone();
    // Only the values of foreign text are compared.
    let slots = if units.iter().any(|unit| unit.origin.is_foreign()) {
      self.trusted_slots(target, &before, &view, None)?
    } else {
      vec![]
    };
    let mut removals: Vec<Removal> = Vec::new();
    let mut events = Vec::new();
    // The lines of each block that were judged again and are harmless.
    let mut harmless: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut is_cut = false;
    for unit in &units {
      is_cut = !is_next(unit);
      if is_cut {
        break;
      }
      let Some(block) = view.document.blocks().get(unit.index) else { continue };
      let Some(after) = rows.get_mut(unit.index) else { continue };
      let fresh: Vec<Range<usize>> = spans(block, &unit.lines);
      let origin = &unit.origin;
      let allowed = allowed_to(&self.ledger, origin, self.now())?;
      let brought = brought(after, block, unit.index, &[unit.number], origin);
      let judged = (block, fresh.as_slice(), brought.as_slice());
      let beside = Beside { origin, allowed: &allowed, slots: &slots, is_out: false };
      let judgement = self.judge_lines(target, (&view.bytes, &view.document), judged, &beside)?;
      self.decisions().note_allowed(origin, &allowed, &judgement)?;
      if is_answer {
        judgements.push(judgement.clone());
        if !matches!(judgement.consulted, Consulted::Answer(_)) {
          continue;
        }
      }
      // Text in a file that may not be written was reported already, and is judged again when it may.
      let is_left = row.note.is_some() && after.codes.contains(&Code::LeftInPlace);
      if judgement.decision.leaves() && !is_left {
        add(&mut removals, after, block, unit, judgement);
      } else if judgement.decision.verdict != Verdict::Pass {
        let known = after.clone();
        rows::judged(after, &judgement, block);
        if known.codes != after.codes {
          events.push(flag_event(&path, after, &judgement, &unit.origin));
        }
      } else {
        let lines = harmless.entry(unit.index).or_default();
        lines.extend(&unit.lines);
        if says(block, lines) == says(block, &all(block)) && after.state == State::Flagged {
          // The encoder does not share the suspicion.
          events.push(withdrawn(&path, after, &judgement, &unit.origin));
          after.clear(State::Validated);
        }
      }
    }
    rows::divide(&mut rows);
    let pairs = before.iter().zip(&rows);
    let changed: Vec<BlockRow> =
      pairs.filter(|(before, row)| before != row).map(|(_, row)| row.clone()).collect();
    let event_rows: Vec<_> = events.iter().map(Event::row).collect();
    let at = self.now();
    // The file is read once more, and both views of a large one need not be in memory at one time.
    drop((before, units));
    let View { bytes, .. } = view;
    // Text from before memfw gets no marker only because it was read.
    let marking_due = !changed.is_empty() && self.is_marking_due(target, &row, &bytes, rows)?;
    let writing = self.files.lock()?;
    // Judging took no lock, so another process may have recorded a new version.
    let Some(now) = self.ledger.file(&path)?.filter(|now| now.hash == row.hash) else {
      return Ok((Reading::NotNow, judgements));
    };
    // A removal is due until it is written, and the judge until it was asked.
    let is_done = removals.is_empty() && !is_answer && !is_cut;
    let marks = removals.is_empty() && marking_due;
    let due = if marks { Pending::RESHAPE } else { Pending::NONE };
    let blocks = changed.as_slice();
    self.ledger.attribute(&AttributionRecord {
      path: &path,
      blocks,
      items: &[],
      requests: &[],
      done: if is_done { done } else { Pending::NONE },
      due,
      events: &event_rows,
      at,
    })?;
    drop(writing);
    for event in &events {
      event.log(None);
    }
    let reading = match row.hash {
      Some(hash) if !removals.is_empty() => {
        self.take_out(target, hash, &removals)?;
        // The rest of the file is examined again.
        Reading::NotNow
      }
      _ if is_cut => return Err(EngineError::Preempted),
      _ => Reading::Nothing { reshape_due: (now.pending | due).contains(Pending::RESHAPE) },
    };
    Ok((reading, judgements))
  }

  /// The texts of a file that may be read; `None` while the file differs from what the ledger knows.
  ///
  /// More urgent work can interrupt it ([`EngineError::Preempted`]); the next call continues there.
  pub(super) fn gather_units(&mut self, target: &Target) -> Result<Option<Gathered>, EngineError> {
    let began = self.clock.monotonic();
    let path = target.path();
    let Some((row, rows)) = self.ledger.provenance(&path)? else { return Ok(None) };
    if row.status != FileStatus::Watched {
      return Ok(None);
    }
    let Some(bytes) = self.files.read_known(target, row.hash)? else { return Ok(None) };
    let view = self.view_known(target, Some(&row), bytes)?;
    let mut units = Vec::new();
    if self.treatment(target) != Treatment::Ignore {
      let (turn, mut keys) = (self.judge.turn(began), self.judge.keys(&path));
      for (index, (known, block)) in rows.iter().zip(view.document.blocks()).enumerate() {
        if turn.is_over() {
          return Err(EngineError::Preempted);
        }
        // A person's decision is final.
        if matches!(known.state, State::Validated | State::Flagged | State::Unvalidated) {
          let key = &mut |text: &[u8], origin: &Origin| keys.key(text, origin, &turn);
          units.extend(units_of(&self.ledger, index, known, (block, &view.bytes), key));
        }
      }
    }
    self.judge.forget_keys();
    Ok(Some(Gathered { row, rows, view, units }))
  }
}

/// The texts that the revisions of a block have brought. The owner's request is part of their keys, because the
/// model gets it.
fn units_of(
  ledger: &Ledger,
  index: usize,
  row: &BlockRow,
  (block, file): (&Block, &[u8]),
  key: &mut dyn FnMut(&[u8], &Origin) -> ScoreKey,
) -> Vec<Unit> {
  let unit = |revision: &crate::store::Revision| {
    let number = revision.number;
    let lines = lines_of_number(row, number);
    let text = unit_text(file, block, &lines);
    if text.bytes().trim_ascii().is_empty() {
      return None;
    }
    let origin = Origin::of_revision(revision).with_request(ledger);
    let key = key(text.bytes(), &origin);
    Some(Unit { index, number, origin, lines, key })
  };
  // A person's decision is final.
  row.live().filter(|revision| !revision.approved).filter_map(unit).collect()
}

/// The text of these lines of a block.
fn unit_text(file: &[u8], block: &Block, lines: &[usize]) -> BlockText {
  BlockText::of_spans(file, &spans(block, lines))
}

fn lines_of_number(row: &BlockRow, number: u32) -> Vec<usize> {
  let lines = row.lines.iter().enumerate();
  lines.filter(|(_, line)| line.revision == number).map(|(index, _)| index).collect()
}

fn all(block: &Block) -> Vec<usize> {
  (0..block.lines.len()).collect()
}

fn spans(block: &Block, lines: &[usize]) -> Vec<Range<usize>> {
  lines.iter().filter_map(|&index| block.lines.get(index)).map(|line| line.span.clone()).collect()
}

/// How many of these lines are not blank.
fn says(block: &Block, lines: &[usize]) -> usize {
  let lines = lines.iter().filter_map(|&index| block.lines.get(index));
  lines.filter(|line| line.kind != LineKind::Blank).count()
}

/// Adds lines of a block to the removals; the whole block if it contains nothing else.
fn add(
  removals: &mut Vec<Removal>,
  row: &BlockRow,
  block: &Block,
  unit: &Unit,
  judgement: BlockJudgement,
) {
  let before = removals.iter().position(|one| one.id == row.id);
  let mut one = match before {
    Some(at) => removals.swap_remove(at),
    None => Removal { id: row.id.clone(), lines: Some(vec![]), judgement },
  };
  if let Some(lines) = &mut one.lines {
    lines.extend(&unit.lines);
    lines.sort_unstable();
    if says(block, lines) == says(block, &all(block)) {
      // Without other text the block is taken out whole, with its heading and its blank lines.
      one.lines = None;
    }
  }
  removals.push(one);
}

fn flag_event(path: &Path, row: &BlockRow, judgement: &BlockJudgement, origin: &Origin) -> Event {
  let decision = &judgement.decision;
  Event::new(EventKind::Flagged).path(path).block(&row.id).of(origin).decided(
    judgement.layer(),
    &decision.codes,
    decision.score,
    Action::Keep,
  )
}

/// The event that a block is not flagged any more. It names the codes and the layer of the flag.
fn withdrawn(path: &Path, row: &BlockRow, judgement: &BlockJudgement, origin: &Origin) -> Event {
  let layer = row.findings.read().first().map_or(Layer::Rules, |one| one.layer);
  Event::new(EventKind::Cleared).path(path).block(&row.id).of(origin).decided(
    layer,
    &row.codes,
    judgement.decision.score,
    Action::Keep,
  )
}

fn tell_health(ledger: &mut Ledger, health: &Health, at: i64) -> Result<(), StoreError> {
  match health.degradation() {
    Some(why) => degraded::degrade(ledger, PartKind::Model, &why, at),
    None => degraded::recovered(ledger, PartKind::Model, at),
  }
}
