//! The engine's parts, and the little that all its operations share.
#![forbid(unsafe_code)]

use std::{
  cell::RefCell,
  path::{Path, PathBuf},
  sync::Arc,
  time::Duration,
};

use super::{
  agent_link::AgentLink, decisions::Decisions, degraded, error::EngineError, event::Event,
  file_memory::FileMemory, files::Files, ids::Ids, judge_queue::JudgeQueue, loss_round::LossCheck,
  open_edits::OpenEdits, replaced::Replaced, target::Target, versions::Versions,
};
use crate::{
  config::Config,
  detect::model::Assessor,
  files::Fs,
  judging::{
    approvals::Approvals,
    judge::{Judge, Layer2},
    placeholder_cache::PlaceholderCache,
    treatment::Treatment,
  },
  memory::BlockId,
  os::{Clock, random},
  provenance::AgentRecords,
  store::{Ledger, Part},
};

/// The engine: ledger, files, the agent framework's records, and the clock.
pub struct Engine<F: Fs> {
  pub(super) files: Files<F>,
  pub(super) ledger: Ledger,
  pub(super) link: AgentLink,
  pub(super) clock: Arc<dyn Clock>,
  pub(super) config: Arc<Config>,
  pub(super) judge: Judge,
  /// Edits that are in the journal.
  pub(super) open_edits: OpenEdits,
  /// What is known about single files between two passes.
  pub(super) file_memory: FileMemory,
  /// The placeholders that are in files.
  pub(super) placeholders: RefCell<PlaceholderCache>,
  /// Unused ids.
  pub(super) ids: RefCell<Ids>,
  pub(super) versions: Versions,
  /// Text of outsiders that was replaced recently.
  pub(super) replaced: Replaced,
  /// Files that are compared with what they had.
  pub(super) losses: LossCheck,
  /// How long poison was in its file, for each redaction since [`Engine::take_exposures`].
  pub(super) exposures: Vec<Duration>,
  /// Whether a text was taken out of its file because of its source since [`Engine::take_departed`].
  pub(super) has_departed: bool,
}

impl<F: Fs> Engine<F> {
  /// Creates an engine on this ledger. `data` is memfw's data directory; it contains the lock that
  /// serialises edits of files.
  pub fn new(
    fs: F,
    ledger: Ledger,
    agent: Box<dyn AgentRecords>,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
    data: PathBuf,
  ) -> Self {
    Self {
      files: Files::new(fs, Arc::clone(&clock), Arc::clone(&config), data),
      ledger,
      link: AgentLink::new(agent, Arc::clone(&clock), Arc::clone(&config)),
      judge: Judge::new(Arc::clone(&clock), Arc::clone(&config)),
      versions: Versions::new(Arc::clone(&config)),
      clock,
      config,
      open_edits: OpenEdits::default(),
      file_memory: FileMemory::default(),
      placeholders: RefCell::default(),
      ids: RefCell::default(),
      replaced: Replaced::default(),
      losses: LossCheck::default(),
      exposures: Vec::new(),
      has_departed: false,
    }
  }

  /// Adds layer 2 to the engine.
  #[must_use]
  pub fn with_model(mut self, model: &'static dyn Assessor) -> Self {
    self.judge.set_model(Some(model));
    self
  }

  /// The ledger, for reading.
  pub fn ledger(&self) -> &Ledger {
    &self.ledger
  }

  /// Ends the engine and returns its ledger. Public for the simulation in `tests/`, which starts the next engine on
  /// the ledger of the one that it ended.
  pub fn into_ledger(self) -> Ledger {
    self.ledger
  }

  /// The ledger, for writing.
  pub fn ledger_mut(&mut self) -> &mut Ledger {
    &mut self.ledger
  }

  /// memfw's data directory.
  pub fn data(&self) -> &Path {
    self.files.data()
  }

  /// The access to memory files.
  pub fn files(&mut self) -> &mut Files<F> {
    &mut self.files
  }

  /// Files whose current content is not kept as a version yet.
  pub fn versions_due(&mut self) -> Result<Vec<Target>, EngineError> {
    let at = self.now();
    self.versions.due(&mut self.ledger, at)
  }

  /// What judges text.
  pub fn judge(&mut self) -> &mut Judge {
    &mut self.judge
  }

  /// The model in force.
  pub fn model(&self) -> Layer2 {
    self.judge.model()
  }

  /// What a person decides, now.
  pub fn decisions(&mut self) -> Decisions<'_> {
    let at = self.now();
    Decisions { ledger: &mut self.ledger, config: &self.config, at }
  }

  /// The judge's queue, now.
  pub fn judge_queue(&mut self) -> JudgeQueue<'_> {
    let at = self.now();
    JudgeQueue { ledger: &mut self.ledger, config: &self.config, at }
  }

  /// The configuration in force.
  pub fn config(&self) -> &Config {
    &self.config
  }

  /// Replaces the configuration. All workspaces and files are opened again.
  pub fn configure(&mut self, config: Arc<Config>, fs: F) {
    self.files.configure(Arc::clone(&config), fs);
    self.link.configure(Arc::clone(&config));
    self.judge.configure(Arc::clone(&config));
    self.versions.configure(Arc::clone(&config));
    self.config = config;
  }

  /// Replaces the records of the agent framework.
  pub fn set_agent(&mut self, agent: Box<dyn AgentRecords>) {
    self.link.set_records(agent);
  }

  /// What the ledger knows about approvals now.
  pub(super) fn approvals(&self) -> Approvals<'_> {
    Approvals::new(&self.ledger, self.now())
  }

  /// How the text of a file is treated.
  pub(super) fn treatment(&self, target: &Target) -> Treatment {
    Treatment::of(&target.rel, self.files.shapes().is_elsewhere(&target.root), &self.config)
  }

  /// Whether a judge is asked about text of this file.
  pub(super) fn is_judged_by_model(&self, target: &Target) -> bool {
    self.judge.asks_about(&target.rel, self.treatment(target))
  }

  /// The records of the agent framework, to be queried on another thread.
  pub fn agent(&self) -> Arc<dyn AgentRecords> {
    Arc::clone(self.link.records())
  }

  /// The clock by which the engine dates records and measures waits.
  pub fn clock(&self) -> &dyn Clock {
    &*self.clock
  }

  /// Microseconds since the epoch, now.
  pub(super) fn now(&self) -> i64 {
    self.clock.now()
  }

  /// Writes an event to the ledger and to the log.
  pub fn tell(&mut self, event: Event) -> Result<(), EngineError> {
    let at = self.now();
    Ok(event.tell(&mut self.ledger, at)?)
  }

  /// Takes the exposures since the last call: for each urgent redaction, the time from the last write
  /// of the file until the poison was taken out.
  pub fn take_exposures(&mut self) -> Vec<Duration> {
    std::mem::take(&mut self.exposures)
  }

  /// Takes the flag that a text was taken out because its source became known, since the last call.
  pub fn take_departed(&mut self) -> bool {
    std::mem::take(&mut self.has_departed)
  }

  /// Notes that protection is reduced. An event is written once, and again when the reason changes.
  pub fn degrade(&mut self, part: impl Into<Part>, why: &str) -> Result<(), EngineError> {
    let at = self.now();
    Ok(degraded::degrade(&mut self.ledger, part, why, at)?)
  }

  /// Notes that a reduction of protection has ended.
  pub fn recovered(&mut self, part: impl Into<Part>) -> Result<(), EngineError> {
    let at = self.now();
    Ok(degraded::recovered(&mut self.ledger, part, at)?)
  }

  /// Forgets all reduced protection. A start finds out again what is reduced.
  pub fn clear_degradations(&mut self) -> Result<(), EngineError> {
    Ok(degraded::clear(&mut self.ledger)?)
  }

  /// A new id that is not used yet. A first scan needs an id for every block, so its ids are longer and
  /// are not looked up ([`super::adopt`]).
  pub(super) fn new_id(&self) -> Result<BlockId, EngineError> {
    let taken = |ids: &[BlockId]| Ok(self.ledger.ids_taken(ids)?);
    self.ids.borrow_mut().next(|| Ok(random::array()?), taken)
  }
}
