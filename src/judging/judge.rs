//! Judges the text of a version by all current criteria: the rules, the model, earlier decisions of a
//! person, and the answers of the judge. Reads the ledger, and no file.
#![forbid(unsafe_code)]

use std::{
  cell::{OnceCell, RefCell, RefMut},
  ops::Range,
  path::Path,
  sync::Arc,
  time::Duration,
};

use super::{
  approvals::Version,
  blocks,
  judge_context::{Heard, JudgeContext, Precedent, RestoredText},
  judgement::BlockJudgement,
  lapse::lapse,
  origin::Origin,
  precedent::precedent,
  read_version::ReadVersion,
  slices::{Interrupt, KeyMemo, LARGE, Memo, Slice, Turn},
  treatment::Treatment,
  unit::Brought,
};
use crate::{
  config::{Config, JudgeVia},
  detect::{
    Code, Text,
    effects::KnownSlot,
    model::{self, Assessment, Assessor, Context, Depth},
    reading::Question,
    rules::{RuleSet, Rules},
  },
  memory::{Around, Block, ContentHash, cut::cut_comment},
  os::Clock,
  provenance::{Evidence, Source},
  store::{Ledger, QuestionState, ScoreKey, StoreError},
};

/// Why text could not be judged now.
#[derive(Debug, thiserror::Error)]
pub enum JudgingError {
  /// The ledger.
  #[error(transparent)]
  Store(#[from] StoreError),
  /// More urgent work interrupted the judgement of a large file.
  #[error("put off for more urgent work")]
  Preempted,
}

/// The model, if there is one.
pub type Layer2 = Option<&'static dyn Assessor>;

/// The facts that a judgement needs in addition to the text.
pub struct Beside<'a> {
  /// Where the text comes from.
  pub origin: &'a Origin,
  /// The codes that a person allowed for this origin.
  pub allowed: &'a [Code],
  /// The values of trusted memory.
  pub slots: &'a [KnownSlot],
  /// Whether the text is out of its file; then the earlier decision does not count.
  pub is_out: bool,
}

/// The criteria by which text is judged.
pub struct Judge {
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
  rules: Rules,
  /// Layer 2, if there is a model.
  model: Layer2,
  /// Findings in large files whose judgement is not complete yet.
  memo: RefCell<Memo>,
  /// Keys of texts in a file whose texts are not all known yet.
  keys: RefCell<KeyMemo>,
  /// Decides whether the judgement of a large file must be interrupted.
  interrupt: Option<Interrupt>,
  /// Whether the current operation can be interrupted and started again.
  may_interrupt: bool,
  /// A smaller file, in bytes, is judged at once.
  sliced_from: usize,
}

impl Judge {
  /// Judges by the built-in rules, without a model.
  pub fn new(clock: Arc<dyn Clock>, config: Arc<Config>) -> Self {
    Self {
      clock,
      config,
      rules: Rules::default(),
      model: None,
      memo: RefCell::default(),
      keys: RefCell::default(),
      interrupt: None,
      may_interrupt: false,
      sliced_from: LARGE,
    }
  }

  /// Replaces the configuration.
  pub fn configure(&mut self, config: Arc<Config>) {
    self.config = config;
    self.forget_slices();
  }

  /// Replaces the rules. Text that was judged before is not judged again.
  pub fn set_rules(&mut self, rules: Rules) {
    self.rules = rules;
    self.forget_slices();
  }

  /// The current rules.
  pub fn rules(&self) -> &RuleSet {
    self.rules.set()
  }

  /// The current rules, for another thread.
  pub fn rules_in_force(&self) -> Rules {
    self.rules.clone()
  }

  /// Sets the model of layer 2; before this, only the rules judge.
  pub fn set_model(&mut self, model: Layer2) {
    self.model = model;
  }

  /// The current model.
  pub const fn model(&self) -> Layer2 {
    self.model
  }

  /// Sets a function that is called while a large file is judged. If it returns `true`, the judgement
  /// is interrupted ([`JudgingError::Preempted`]) and continues there the next time.
  pub fn set_interrupt(&mut self, interrupt: Interrupt) {
    self.interrupt = Some(interrupt);
  }

  /// Has files of any size judged in slices.
  pub const fn slice_all(&mut self) {
    self.sliced_from = 0;
  }

  /// Whether large files are judged in slices.
  pub const fn has_interrupt(&self) -> bool {
    self.interrupt.is_some()
  }

  /// Sets whether the current operation can be interrupted and started again.
  pub const fn allow_interrupt(&mut self, allowed: bool) {
    self.may_interrupt = allowed;
  }

  /// A turn at texts that are judged again; `began` is the time when their file was read.
  pub fn turn(&self, began: Duration) -> Turn {
    Turn::new(self.interrupt.clone(), Arc::clone(&self.clock), began)
  }

  /// The keys of the texts of a file, as far as they were computed in earlier turns.
  pub fn keys(&self, path: &Path) -> RefMut<'_, KeyMemo> {
    let mut keys = self.keys.borrow_mut();
    keys.of(path);
    keys
  }

  /// Discards these keys, because all are known.
  pub fn forget_keys(&self) {
    *self.keys.borrow_mut() = KeyMemo::default();
  }

  /// Discards the findings of slices, because the rules have changed or the judgement is complete.
  pub fn forget_slices(&self) {
    *self.memo.borrow_mut() = Memo::default();
  }

  /// Whether the encoder reads the texts later about which the heads are not sure.
  pub fn reads_on(&self) -> bool {
    self.model.is_some_and(|model| model.health().degradation().is_none())
  }

  /// The model's assessment of a text: the result from the ledger, if it is at least of this depth, or else
  /// the result of the heads now.
  pub(super) fn assess(
    &self,
    ledger: &Ledger,
    text: &Text<'_>,
    rules: f32,
    context: &Context<'_>,
    least: Depth,
  ) -> Result<Option<Assessment>, StoreError> {
    let Some(model) = self.model else { return Ok(None) };
    let known = ledger.score(ScoreKey::new(text.bytes(), context), model.version())?;
    if let Some(known) = known.filter(|known| known.depth >= least) {
      return Ok(Some(known));
    }
    Ok(Some(model::assess(model, text, rules, Depth::Heads, context)))
  }

  /// Whether a judge is asked about text of this file, by its path in the workspace.
  pub fn asks_about(&self, rel: &Path, treatment: Treatment) -> bool {
    self.config.judge_via != JudgeVia::Off
      && treatment != Treatment::Ignore
      && !self.config.judge_exclude_files.iter().any(|one| one.matches(rel))
  }

  /// Whether text of this origin may be sent: the origin is known, and neither its source nor what fed
  /// it is excluded.
  pub fn may_send(&self, origin: &Origin) -> bool {
    let excluded = &self.config.judge_exclude_sources;
    let is_excluded = |source: &Source| excluded.iter().any(|one| one.matches(source));
    let json = &origin.trail.evidence_json;
    let fed_by = match serde_json::from_str::<Evidence>(json) {
      Ok(evidence) => evidence.fed_by,
      // With unreadable evidence, the source may be excluded.
      Err(_) if !json.is_empty() && !excluded.is_empty() => return false,
      Err(_) => vec![],
    };
    !origin.trail.due
      && !is_excluded(&origin.source)
      && !fed_by.iter().any(|fed| is_excluded(&Source::new(fed)))
  }

  /// Judges the fresh text of a version; one judgement for each block with fresh lines. `began` is the
  /// time when the version was read. Approved text is judged again where its approval has lapsed, if
  /// the file is `writable` and no person has just brought text back.
  pub fn fresh(
    &self,
    ledger: &Ledger,
    file: (&Path, Treatment),
    read: &ReadVersion,
    (origin, restored): (&Origin, Option<&RestoredText>),
    writable: bool,
    began: Duration,
  ) -> Result<Vec<Option<BlockJudgement>>, JudgingError> {
    let (path, treatment) = file;
    let ReadVersion { bytes, document, facts, comparison, continued, has_decisions } = read;
    let now = self.clock.now();
    let failed = OnceCell::new();
    let mut ask = |hash: &ContentHash, run: &Range<usize>| {
      let around = || Around::of(bytes, document, run);
      let found = precedent(ledger, path, around, hash, origin, now);
      or_note(found, &failed, Precedent::None)
    };
    let slice = (bytes.len() >= self.sliced_from).then(|| {
      let interrupt = self.interrupt.clone().filter(|_| self.may_interrupt);
      Slice::new(&self.memo, (path, origin), Turn::new(interrupt, Arc::clone(&self.clock), began))
    });
    let mut assess = |text: &Text<'_>, rules: f32, context: &Context<'_>| {
      // Text that the encoder left out of another file is new here, and may be read.
      let ask =
        || or_note(self.assess(ledger, text, rules, context, Depth::Encoder), &failed, None);
      match &slice {
        Some(slice) => slice.assessed(text.bytes(), rules, ask),
        None => ask(),
      }
    };
    let mut cx = JudgeContext {
      slice: slice.as_ref(),
      reads_on: self.reads_on(),
      known: &facts.rows,
      continued,
      cut: cut_comment(bytes, document.known()),
      restored,
      precedent: has_decisions.then_some(&mut ask),
      // What the source may do is not considered: the source becomes known later.
      ..JudgeContext::new(origin, treatment, &self.config, self.rules(), &mut assess)
    };
    let mut judgements = blocks::judge_fresh(bytes, document, comparison, &mut cx);
    let is_cut = slice.as_ref().is_some_and(Slice::is_cut);
    if *has_decisions && restored.is_none() && writable && !is_cut {
      let version = Version { path, bytes, document };
      lapse(ledger, now, &version, comparison, &mut judgements, &mut cx)?;
    }
    match failed.into_inner() {
      Some(error) => Err(error.into()),
      None if is_cut => Err(JudgingError::Preempted),
      None => Ok(judgements),
    }
  }

  /// The judgement on these lines of a block with this origin. `asks` says whether the judge may be
  /// asked about text of this file.
  pub fn lines(
    &self,
    ledger: &Ledger,
    (version, treatment, asks): (&Version<'_>, Treatment, bool),
    (block, fresh, brought): (&Block, &[Range<usize>], &[Option<Brought>]),
    beside: &Beside<'_>,
  ) -> Result<BlockJudgement, StoreError> {
    let Beside { origin, allowed, slots, is_out } = *beside;
    let &Version { path, bytes, document } = version;
    let now = self.clock.now();
    let failed = OnceCell::new();
    let mut ask = |hash: &ContentHash, run: &Range<usize>| {
      let around = || Around::of(bytes, document, run);
      let found = precedent(ledger, path, around, hash, origin, now);
      or_note(found, &failed, Precedent::None)
    };
    let mut hear =
      |question: &Question<'_>| or_note(heard(ledger, question), &failed, Heard::Silence);
    let mut assess = |text: &Text<'_>, rules: f32, context: &Context<'_>| {
      or_note(self.assess(ledger, text, rules, context, Depth::HeadsAlone), &failed, None)
    };
    let mut cx = JudgeContext {
      consult: (asks && self.may_send(origin)).then_some(&mut hear),
      reads_on: self.reads_on(),
      cut: cut_comment(bytes, document.known()),
      allowed,
      slots,
      precedent: (!is_out).then_some(&mut ask),
      ..JudgeContext::new(origin, treatment, &self.config, self.rules(), &mut assess)
    };
    let mut judgement = blocks::judge_lines(bytes, block, fresh, brought, &mut cx);
    judgement.origin.get_or_insert_with(|| origin.clone());
    match failed.into_inner() {
      Some(error) => Err(error),
      None => Ok(judgement),
    }
  }
}

/// The result, or `otherwise` with its error noted. The first error counts.
fn or_note<T>(result: Result<T, StoreError>, failed: &OnceCell<StoreError>, otherwise: T) -> T {
  result.unwrap_or_else(|error| {
    failed.set(error).ok();
    otherwise
  })
}

/// The state of a question.
fn heard(ledger: &Ledger, question: &Question<'_>) -> Result<Heard, StoreError> {
  Ok(match ledger.reading(question.hash())? {
    Some((_, Some(reading))) => Heard::Answer(reading),
    None | Some((QuestionState::Waiting, None)) => Heard::Ask,
    Some((QuestionState::Answered | QuestionState::Failed, None)) => Heard::Silence,
  })
}
