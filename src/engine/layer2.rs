//! Layer 2 in the engine: the heads judge with the rules, the encoder reads behind them.
//!
//! What the encoder has said about a text is in the ledger, by content and version of the model. So a text
//! is read once, a judgement never waits for the encoder, and a process that dies in between has nothing to
//! make good but to look again. A file with text that is still to be read has [`Pending::MODEL`].
//!
//! The engine gathers texts and takes down what was said; whoever calls it decides on which thread they are
//! read.
#![forbid(unsafe_code)]

use std::{collections::HashSet, ops::Range, path::Path};

use zeroize::Zeroizing;

use super::{
  Engine, EngineError, Event, EventKind, Target,
  attribute::lines_of,
  judge::{BlockJudgement, BlockText, Treatment},
  origin::Origin,
  rejudge::Sentence,
  rows,
  view::View,
};
use crate::{
  detect::{
    Action, Code, JudgeOptions, Scope, Verdict,
    model::{self, Assessment, Assessor, Depth, Health},
    policy,
  },
  memory::{Block, ContentHash, line::LineKind},
  os::Fs,
  provenance::{State, Trust},
  store::{Attributed, BlockRow, FileRow, FileStatus, Pending},
};

/// What judges beside the rules, if anything does.
pub type Layer2 = Option<&'static dyn Assessor>;

/// The key under which stands that the model is damaged.
pub const DAMAGED: &str = "model";

/// What is to be read in a file.
#[derive(Debug)]
pub enum Reading {
  /// Nothing (more).
  Nothing {
    /// Markers are to be renewed when the file is idle.
    reshape_due: bool,
  },
  /// It is not known yet who wrote what, or the file is not what the ledger knows: again, soon.
  NotNow,
  /// These texts.
  Texts(Scoring),
}

/// Texts of one file that are to be read.
#[derive(Debug)]
pub struct Scoring {
  target: Target,
  scope: Scope,
  texts: Vec<Text>,
}

/// One of them.
#[derive(Debug)]
struct Text {
  hash: ContentHash,
  trust: Trust,
  bytes: Zeroizing<Vec<u8>>,
}

/// What was said about them.
#[derive(Debug)]
pub struct Scored {
  /// The file.
  pub target: Target,
  version: String,
  found: Vec<(ContentHash, Assessment)>,
  /// How the model is, by now.
  health: Health,
}

impl Scoring {
  /// The file.
  pub fn target(&self) -> &Target {
    &self.target
  }

  /// Reads them, one after the other: the heads say what the encoder need not see.
  pub fn run(&self, assessor: &dyn Assessor) -> Scored {
    let options = JudgeOptions { scope: self.scope, ..JudgeOptions::default() };
    let read = |text: &Text| {
      let rules = policy::strength(&crate::detect::judge(&text.bytes, &options));
      let wanted = |glance| policy::wants_encoder(text.trust, glance);
      (text.hash, model::look(assessor, &text.bytes, rules, wanted))
    };
    Scored {
      target: self.target.clone(),
      version: assessor.version().to_owned(),
      found: self.texts.iter().map(read).collect(),
      health: assessor.health(),
    }
  }

  /// What is said when they cannot be read at all.
  pub fn unread(&self, assessor: &dyn Assessor, why: &str) -> Scored {
    let nothing = Assessment {
      probabilities: model::Probabilities::default(),
      sentence: None,
      nearest: None,
      depth: Depth::Heads,
    };
    Scored {
      target: self.target.clone(),
      version: assessor.version().to_owned(),
      found: self.texts.iter().map(|text| (text.hash, nothing.clone())).collect(),
      health: Health { damages: vec![why.to_owned()] },
    }
  }
}

/// Lines of one revision of a block.
struct Unit {
  /// The index of the block.
  index: usize,
  origin: Origin,
  /// Indices of the lines.
  lines: Vec<usize>,
  hash: ContentHash,
  bytes: Zeroizing<Vec<u8>>,
}

/// A file with all that may be read in it.
struct Gathered {
  row: FileRow,
  rows: Vec<BlockRow>,
  view: View,
  units: Vec<Unit>,
}

/// Whether the encoder is to read something in a version that was just judged.
pub(super) fn reading_due(view: &View) -> Pending {
  let wants = |judgement: &BlockJudgement| {
    judgement.wants_encoder(judgement.origin.as_ref().unwrap_or(&view.origin).trust)
  };
  let is_due = view.judgements.iter().flatten().any(wants);
  if is_due { Pending::MODEL } else { Pending::NONE }
}

impl<F: Fs> Engine<F> {
  /// What the model thinks of a text: what the encoder has said, or else what the heads say now.
  pub(super) fn assess(
    &self,
    text: &[u8],
    rules: f32,
  ) -> Result<Option<Assessment>, crate::store::StoreError> {
    let Some(model) = self.model else { return Ok(None) };
    if let Some(known) = self.ledger.score(ContentHash::of(text), model.version())? {
      return Ok(Some(known));
    }
    Ok(Some(model::assess(model, text, rules, Depth::Heads)))
  }

  /// Takes note of the model at a start: what another one said is not worth anything, and what is damaged
  /// is a degradation.
  pub fn start_model(&mut self) -> Result<(), EngineError> {
    let Some(model) = self.model else { return Ok(()) };
    self.tell_health(&model.health())?;
    let at = self.now();
    self.ledger.take_model(model.version(), at)?;
    Ok(())
  }

  /// Whether the encoder reads what the heads are not sure of.
  pub(super) fn reads_on(&self) -> bool {
    self.model.is_some_and(|model| model.health().degradation().is_none())
  }

  /// The model in force.
  pub fn model(&self) -> Layer2 {
    self.model
  }

  /// Files with text that is to be read.
  pub fn scores_due(&self) -> Result<Vec<Target>, EngineError> {
    let due = self.ledger.scores_due()?.into_iter();
    Ok(
      due
        .filter_map(|(root, path)| path.strip_prefix(&root).ok().map(|rel| Target::new(&root, rel)))
        .collect(),
    )
  }

  /// Whether text of a file is to be read.
  pub fn is_reading_pending(&self, target: &Target) -> Result<bool, EngineError> {
    let row = self.ledger.file(&target.path())?;
    Ok(row.is_some_and(|row| row.pending.contains(Pending::MODEL)))
  }

  /// What is to be read in a file, once it is known who wrote what.
  pub fn scoring(&mut self, target: &Target) -> Result<Reading, EngineError> {
    let Some(row) = self.ledger.file(&target.path())? else {
      return Ok(Reading::Nothing { reshape_due: false });
    };
    let reshape_due = row.pending.contains(Pending::RESHAPE);
    let Some(model) = self.model.filter(|_| row.pending.contains(Pending::MODEL)) else {
      return Ok(Reading::Nothing { reshape_due });
    };
    if row.status != FileStatus::Watched {
      // When it is back it is judged anew.
      self.no_longer_due(target, Pending::MODEL)?;
      return Ok(Reading::Nothing { reshape_due });
    }
    if row.pending.contains(Pending::ATTRIBUTE) {
      return Ok(Reading::NotNow);
    }
    let Some(gathered) = self.gather_units(target)? else { return Ok(Reading::NotNow) };
    let mut texts: Vec<Text> = Vec::new();
    let mut seen = HashSet::new();
    for unit in gathered.units {
      if seen.insert(unit.hash) && self.ledger.score(unit.hash, model.version())?.is_none() {
        texts.push(Text { hash: unit.hash, trust: unit.origin.trust, bytes: unit.bytes });
      }
    }
    Ok(Reading::Texts(Scoring { target: target.clone(), scope: self.config.scope, texts }))
  }

  /// Writes down what was said, and asks policy again about the texts that were read.
  pub fn scored(&mut self, scored: &Scored) -> Result<Reading, EngineError> {
    let Scored { target, version, found, health } = scored;
    self.tell_health(health)?;
    if health.degradation().is_some() {
      // The next start looks again at what could not be read now.
      self.ledger.forget_model()?;
    }
    let at = self.now();
    self.ledger.note_scores(version, found, at)?;
    let Some(gathered) = self.gather_units(target)? else { return Ok(Reading::NotNow) };
    if gathered.row.pending.contains(Pending::ATTRIBUTE) {
      return Ok(Reading::NotNow);
    }
    let looked: HashSet<ContentHash> = found.iter().map(|(hash, _)| *hash).collect();
    let mut is_new = false;
    for unit in &gathered.units {
      is_new |= !looked.contains(&unit.hash) && self.ledger.score(unit.hash, version)?.is_none();
    }
    if is_new {
      // New text came meanwhile.
      return self.scoring(target);
    }
    self.judge_scored(target, gathered, scored)
  }

  fn judge_scored(
    &mut self,
    target: &Target,
    gathered: Gathered,
    scored: &Scored,
  ) -> Result<Reading, EngineError> {
    let path = target.path();
    let Gathered { row, rows: before, view, units } = gathered;
    let mut rows = before.clone();
    let mut sentences: Vec<Sentence> = Vec::new();
    let mut events = Vec::new();
    for unit in &units {
      let Some(block) = view.document.blocks().get(unit.index) else { continue };
      let Some(after) = rows.get_mut(unit.index) else { continue };
      // Where the encoder cannot be used the heads are asked again, and have the last word.
      let is_read = self.ledger.score(unit.hash, &scored.version)?.is_some();
      if !is_read && scored.health.degradation().is_none() {
        continue;
      }
      let fresh: Vec<Range<usize>> = spans(block, &unit.lines);
      let (origin, allowed) = (&unit.origin, self.allowed_to(&unit.origin)?);
      let judgement = self.judge_lines(target, &view.bytes, block, &fresh, (origin, &allowed))?;
      self.note_allowed(origin, &allowed, &judgement)?;
      let is_whole = says(block, &unit.lines) == says(block, &all(block));
      // What may not be written was told already, and is judged anew when it may.
      let is_left = row.note.is_some() && after.codes.contains(&Code::LeftInPlace);
      if judgement.decision.action == Action::Quarantine && !is_left {
        add(&mut sentences, after, block, unit, judgement);
      } else if judgement.decision.verdict != Verdict::Pass {
        let known = after.clone();
        rows::judged(after, &judgement, block);
        if known.codes != after.codes {
          events.push(told(&path, after, &judgement, &unit.origin));
        }
      } else if is_whole && after.state == State::Flagged {
        // The encoder does not share the suspicion of the heads.
        after.state = State::Validated;
        after.codes.clear();
        after.score = 0.0;
        after.findings_json.clear();
      }
    }
    let pairs = before.iter().zip(&rows);
    let changed: Vec<BlockRow> =
      pairs.filter(|(before, row)| before != row).map(|(_, row)| row.clone()).collect();
    let event_rows: Vec<_> = events.iter().map(Event::row).collect();
    let at = self.now();
    // What was there before memfw is not marked for having been read.
    let marking_due =
      !changed.is_empty() && self.is_marking_due(target, &row, &view.bytes, &rows)?;
    let writing = self.lock()?;
    let Some(now) = self.ledger.file(&path)?.filter(|now| now.hash == row.hash) else {
      return Ok(Reading::NotNow);
    };
    // What has to leave the file is due until it has left.
    let mut pending = now.pending;
    if sentences.is_empty() {
      pending = pending.without(Pending::MODEL);
      if marking_due {
        pending = pending | Pending::RESHAPE;
      }
    }
    let blocks = changed.as_slice();
    self.ledger.attribute(&Attributed {
      path: &path,
      blocks,
      items: &[],
      pending,
      events: &event_rows,
      at,
    })?;
    drop(writing);
    for event in &events {
      event.log(None);
    }
    match row.hash {
      Some(hash) if !sentences.is_empty() => {
        self.take_out(target, hash, &sentences)?;
        // What is left of it is looked at once more.
        Ok(Reading::NotNow)
      }
      _ => Ok(Reading::Nothing { reshape_due: pending.contains(Pending::RESHAPE) }),
    }
  }

  /// The texts of a file that may be read; `None` while it is not what the ledger knows.
  fn gather_units(&mut self, target: &Target) -> Result<Option<Gathered>, EngineError> {
    let path = target.path();
    let Some((row, rows)) = self.ledger.provenance(&path)? else { return Ok(None) };
    if row.status != FileStatus::Watched {
      return Ok(None);
    }
    let Some(bytes) = self.read_known(target, row.hash)? else { return Ok(None) };
    let view = self.view(target, Some(&row), bytes, Origin::unknown(), None)?;
    let mut units = Vec::new();
    if self.treatment(target) != Treatment::Ignore {
      for (index, (known, block)) in rows.iter().zip(view.document.blocks()).enumerate() {
        // What a person has decided about is decided.
        if matches!(known.state, State::Validated | State::Flagged | State::Unvalidated) {
          units.extend(units_of(index, known, block, &view.bytes));
        }
      }
    }
    Ok(Some(Gathered { row, rows, view, units }))
  }

  fn tell_health(&mut self, health: &Health) -> Result<(), EngineError> {
    match health.degradation() {
      Some(why) => self.degrade(DAMAGED, &why),
      None => self.recovered(DAMAGED),
    }
  }
}

/// What each revision of a block has brought.
fn units_of(index: usize, row: &BlockRow, block: &Block, file: &[u8]) -> Vec<Unit> {
  let brought = |number: u32| {
    let lines: Vec<usize> = lines_of_number(row, number);
    let spans: Vec<Range<usize>> =
      lines_of(row, block, &[number]).map(|line| line.span.clone()).collect();
    (lines, BlockText::of_spans(file, &spans))
  };
  let unit = |revision: &crate::store::Revision| {
    let (lines, text) = brought(revision.number);
    let bytes = Zeroizing::new(text.bytes().to_vec());
    let hash = ContentHash::of(&bytes);
    Unit { index, origin: Origin::of_revision(revision), lines, hash, bytes }
  };
  row.live().map(unit).filter(|unit| !unit.bytes.trim_ascii().is_empty()).collect()
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

/// How many of these lines say anything.
fn says(block: &Block, lines: &[usize]) -> usize {
  let lines = lines.iter().filter_map(|&index| block.lines.get(index));
  lines.filter(|line| line.kind != LineKind::Blank).count()
}

/// Adds lines to what has to leave a block; all of it where nothing else is in it.
fn add(
  sentences: &mut Vec<Sentence>,
  row: &BlockRow,
  block: &Block,
  unit: &Unit,
  judgement: BlockJudgement,
) {
  let before = sentences.iter().position(|one| one.id == row.id);
  let mut one = match before {
    Some(at) => sentences.swap_remove(at),
    None => Sentence { id: row.id.clone(), lines: Some(vec![]), judgement },
  };
  if let Some(lines) = &mut one.lines {
    lines.extend(&unit.lines);
    lines.sort_unstable();
    if says(block, lines) == says(block, &all(block)) {
      one.lines = None;
    }
  }
  sentences.push(one);
}

fn told(path: &Path, row: &BlockRow, judgement: &BlockJudgement, origin: &Origin) -> Event {
  let decision = &judgement.decision;
  Event::new(EventKind::Flagged).path(path).block(&row.id).of(origin).decided(
    judgement.layer(),
    &decision.codes,
    decision.score,
    "keep",
  )
}
