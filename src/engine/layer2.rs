//! Layer 2 in the engine: the heads judge with the rules, the encoder reads behind them.
//!
//! What the encoder has said about a text is in the ledger, by content, context and version of the model. So a
//! text is read once behind each source, a judgement never waits for the encoder, and a process that dies in between has nothing to
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
  judge::{BlockJudgement, BlockText, Consulted, Treatment},
  origin::Origin,
  rejudge::{Beside, Removal, brought},
  rows,
  view::View,
};
use crate::{
  detect::{
    Code, JudgeOptions, Scope, Verdict,
    effects::KnownSlot,
    model::{self, Assessment, Assessor, Context, Depth, Health},
    policy,
  },
  files::Fs,
  memory::{Block, line::LineKind},
  provenance::State,
  store::{AttributionRecord, BlockRow, FileRow, FileStatus, Pending, ScoreKey},
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
  /// The values that trusted memory holds, where a text is from outside.
  slots: Vec<KnownSlot>,
}

/// One of them.
#[derive(Debug)]
struct Text {
  key: ScoreKey,
  origin: Origin,
  bytes: Zeroizing<Vec<u8>>,
}

/// What was said about them.
#[derive(Debug)]
pub struct Scored {
  /// The file.
  pub target: Target,
  version: String,
  found: Vec<(ScoreKey, Assessment)>,
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
      let wanted = |glance| policy::wants_encoder(text.origin.trust, glance);
      let context = text.origin.context(&self.slots);
      (text.key, model::look(assessor, &text.bytes, rules, &context, wanted))
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
      authority: None,
      sentence: None,
      nearest: None,
      depth: Depth::Heads,
    };
    Scored {
      target: self.target.clone(),
      version: assessor.version().to_owned(),
      found: self.texts.iter().map(|text| (text.key, nothing.clone())).collect(),
      health: Health { damages: vec![why.to_owned()] },
    }
  }
}

/// Lines of one revision of a block.
pub(super) struct Unit {
  /// The index of the block.
  pub(super) index: usize,
  /// The number of the revision.
  pub(super) number: u32,
  pub(super) origin: Origin,
  /// Indices of the lines.
  lines: Vec<usize>,
  key: ScoreKey,
  bytes: Zeroizing<Vec<u8>>,
}

/// A file with all that may be read in it.
pub(super) struct Gathered {
  pub(super) row: FileRow,
  pub(super) rows: Vec<BlockRow>,
  pub(super) view: View,
  pub(super) units: Vec<Unit>,
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
    context: &Context<'_>,
  ) -> Result<Option<Assessment>, crate::store::StoreError> {
    let Some(model) = self.model else { return Ok(None) };
    if let Some(known) = self.ledger.score(ScoreKey::new(text, context), model.version())? {
      return Ok(Some(known));
    }
    Ok(Some(model::assess(model, text, rules, Depth::Heads, context)))
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
    let slots = if gathered.units.iter().any(|unit| unit.origin.is_foreign()) {
      self.trusted_slots(target, &gathered.rows, &gathered.view, None)?
    } else {
      vec![]
    };
    for unit in gathered.units {
      if seen.insert(unit.key) && self.ledger.score(unit.key, model.version())?.is_none() {
        texts.push(Text { key: unit.key, origin: unit.origin, bytes: unit.bytes });
      }
    }
    Ok(Reading::Texts(Scoring { target: target.clone(), scope: self.config.scope, texts, slots }))
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
    let looked: HashSet<ScoreKey> = found.iter().map(|(key, _)| *key).collect();
    let mut is_new = false;
    for unit in &gathered.units {
      is_new |= !looked.contains(&unit.key) && self.ledger.score(unit.key, version)?.is_none();
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
    mut gathered: Gathered,
    scored: &Scored,
  ) -> Result<Reading, EngineError> {
    let mut units = Vec::new();
    for unit in gathered.units {
      // Where the encoder cannot be used the heads are asked again, and have the last word.
      let is_read = self.ledger.score(unit.key, &scored.version)?.is_some();
      if is_read || scored.health.degradation().is_some() {
        units.push(unit);
      }
    }
    gathered.units = units;
    Ok(self.judge_units(target, gathered, Pending::MODEL)?.0)
  }

  /// Judges units of a file anew and does what follows; `done` is what has been done about them. Of an
  /// `answer` of a model that reads only what it is about counts. Gives the judgements as well.
  pub(super) fn judge_units(
    &mut self,
    target: &Target,
    gathered: Gathered,
    done: Pending,
  ) -> Result<(Reading, Vec<BlockJudgement>), EngineError> {
    let path = target.path();
    let is_answer = done == Pending::JUDGE;
    let mut judgements = Vec::new();
    let Gathered { row, rows: before, view, units } = gathered;
    let mut rows = before.clone();
    // Only what somebody outside says is compared.
    let slots = if units.iter().any(|unit| unit.origin.is_foreign()) {
      self.trusted_slots(target, &before, &view, None)?
    } else {
      vec![]
    };
    let mut sentences: Vec<Removal> = Vec::new();
    let mut events = Vec::new();
    for unit in &units {
      let Some(block) = view.document.blocks().get(unit.index) else { continue };
      let Some(after) = rows.get_mut(unit.index) else { continue };
      let fresh: Vec<Range<usize>> = spans(block, &unit.lines);
      let origin = &unit.origin;
      let allowed = self.allowed_to(origin)?;
      let brought = brought(after, block, unit.index, &[unit.number], origin);
      let judged = (block, fresh.as_slice(), brought.as_slice());
      let beside = Beside { origin, allowed: &allowed, slots: &slots, is_out: false };
      let judgement = self.judge_lines(target, (&view.bytes, &view.document), judged, &beside)?;
      self.note_allowed(origin, &allowed, &judgement)?;
      if is_answer {
        judgements.push(judgement.clone());
        if !matches!(judgement.consulted, Consulted::Answer(_)) {
          continue;
        }
      }
      let is_whole = says(block, &unit.lines) == says(block, &all(block));
      // What may not be written was told already, and is judged anew when it may.
      let is_left = row.note.is_some() && after.codes.contains(&Code::LeftInPlace);
      if judgement.decision.leaves() && !is_left {
        add(&mut sentences, after, block, unit, judgement);
      } else if judgement.decision.verdict != Verdict::Pass {
        let known = after.clone();
        rows::judged(after, &judgement, block);
        if known.codes != after.codes {
          events.push(told(&path, after, &judgement, &unit.origin));
        }
      } else if is_whole && after.state == State::Flagged {
        // Who has read it does not share the suspicion.
        after.state = State::Validated;
        after.codes.clear();
        after.score = 0.0;
        after.findings_json.clear();
      }
    }
    rows::divide(&mut rows);
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
      return Ok((Reading::NotNow, judgements));
    };
    // What has to leave the file is due until it has left; and a model that reads, until it is asked.
    let is_done = sentences.is_empty() && !is_answer;
    let marks = sentences.is_empty() && marking_due;
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
      Some(hash) if !sentences.is_empty() => {
        self.take_out(target, hash, &sentences)?;
        // What is left of it is looked at once more.
        Reading::NotNow
      }
      _ => Reading::Nothing { reshape_due: (now.pending | due).contains(Pending::RESHAPE) },
    };
    Ok((reading, judgements))
  }

  /// The texts of a file that may be read; `None` while it is not what the ledger knows.
  pub(super) fn gather_units(&mut self, target: &Target) -> Result<Option<Gathered>, EngineError> {
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
          let found = units_of(index, known, block, &view.bytes).into_iter();
          units.extend(found.map(|unit| self.as_asked(unit)));
        }
      }
    }
    Ok(Some(Gathered { row, rows, view, units }))
  }

  /// A unit with what the owner had asked for: the model is told of it, so it belongs to what was read.
  fn as_asked(&self, unit: Unit) -> Unit {
    let origin = self.with_request(unit.origin);
    let key = ScoreKey::new(&unit.bytes, &origin.context(&[]));
    Unit { origin, key, ..unit }
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
    let (number, origin) = (revision.number, Origin::of_revision(revision));
    let key = ScoreKey::new(&bytes, &origin.context(&[]));
    Unit { index, number, origin, lines, key, bytes }
  };
  let open = row.live().filter(|revision| !revision.approved);
  open.map(unit).filter(|unit| !unit.bytes.trim_ascii().is_empty()).collect()
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
  sentences: &mut Vec<Removal>,
  row: &BlockRow,
  block: &Block,
  unit: &Unit,
  judgement: BlockJudgement,
) {
  let before = sentences.iter().position(|one| one.id == row.id);
  let mut one = match before {
    Some(at) => sentences.swap_remove(at),
    None => Removal { id: row.id.clone(), lines: Some(vec![]), judgement },
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
