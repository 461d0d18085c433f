//! Processes one memory file from change to end, for the daemon, the command line and the tests alike.
//!
//! The engine owns the ledger and the access to the files. The engine does not decide (policy does),
//! does not wait for events (the daemon does), and never changes a byte whose former content is not
//! durable in the ledger. It changes a file by five plans, all by the journalled edit of `edit`: a redaction
//! ([`pass`], [`redact`]: urgent, equal length, in place), markers ([`lazy`]: the file is idle), an approval
//! ([`put_back`]), a restore ([`restore`]: an earlier version), and recovery ([`recover`]: an edit that a crash
//! interrupted). [`review`] carries out a person's decisions with these plans.
#![forbid(unsafe_code)]

pub mod adopt;
mod agent_link;
#[cfg(test)]
mod agent_link_tests;
#[cfg(test)]
mod allowed_tests;
mod approvals;
mod approved;
pub mod assess;
pub mod attribute;
#[cfg(test)]
mod attribute_tests;
pub mod bulk;
mod claim;
pub mod consult;
#[cfg(test)]
mod consult_tests;
pub mod decisions;
mod degraded;
mod edit;
pub mod error;
pub mod event;
pub mod facts;
#[cfg(test)]
mod faulty_fs;
pub mod files;
pub mod foresee;
pub mod gate_check;
mod given_back;
#[cfg(test)]
mod grown_tests;
mod ids;
mod inferred;
pub mod judge;
pub mod judge_context;
pub mod judge_queue;
pub mod judgement;
pub mod judging;
pub mod label;
mod landing;
mod lapse;
#[cfg(test)]
mod lapse_tests;
mod layer1;
pub mod layer2;
#[cfg(test)]
mod layer2_tests;
pub mod lazy;
#[cfg(test)]
mod line_hash_tests;
mod lost;
pub mod marker_preference;
pub mod origin;
#[cfg(test)]
mod parts_tests;
pub mod pass;
pub mod pending;
mod placeholder_cache;
mod precedent;
pub mod put_back;
#[cfg(test)]
mod put_back_tests;
mod read_version;
pub mod readable;
pub mod record;
pub mod recover;
pub mod redact;
mod rejudge;
mod remembered;
mod renamed;
#[cfg(test)]
mod renamed_tests;
mod replaced;
pub mod restore;
pub mod retain;
pub mod review;
pub mod rows;
#[cfg(test)]
mod rows_tests;
pub mod scoring;
pub mod settled;
pub mod slices;
#[cfg(test)]
mod source_tests;
mod taken;
#[cfg(test)]
mod testing;
mod text;
pub mod together;
#[cfg(test)]
mod together_tests;
mod trusted;
pub mod undo;
#[cfg(test)]
mod undo_tests;
pub mod unit;
pub mod unmark;
mod verifying_read;
pub mod versions;
pub mod view;

use std::{
  cell::RefCell,
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
  sync::Arc,
  time::Duration,
};

use judge::Treatment;
use placeholder_cache::PlaceholderCache;

pub use attribute::Attributing;
pub use consult::Consulting;
pub use error::{Consequence, EngineError};
pub use event::{Event, EventKind};
pub use foresee::Foreseen;
pub use gate_check::Passed;
pub use layer2::{Layer2, Reading};
pub use lazy::LazyOutcome;
pub use pass::{Hint, Outcome};
pub use scoring::{Scored, Scoring, ScoringRun};

use crate::{
  config::{Config, Protocol},
  detect::model::Assessor,
  files::{Fs, Rung, Stamp},
  memory::{BlockId, ContentHash},
  os::{Clock, random},
  provenance::AgentRecords,
  store::{self, Ledger, Part, PartKind},
};

/// How long to wait for a lease on a file that another program has open, before memfw reads and redacts
/// it without one (docs/adr/0002: a choice; from the first refusal to about 4 ms was tried).
pub const UNLEASED_AFTER: Duration = Duration::from_millis(5);
/// How long an agent's tool verifies its write on an idle machine (docs/adr/0002, measured 0.2-0.6 ms).
pub const HOLD_OFF: Duration = Duration::from_millis(50);
/// How long to wait for the verifying read of a tool whose write is on record. The read always comes;
/// an earlier edit makes the tool fail. With seven busy processes on two cores the read took longer than
/// [`HOLD_OFF`] in 2 of 17 runs (a choice: fifty times the slowest scheduling that was seen).
pub const VERIFY_WITHIN: Duration = Duration::from_secs(3);
/// The longest time for which a file that is changed again and again can delay a redaction by such reads (a choice:
/// two of them).
pub const MAX_VERIFY_WAIT: Duration = Duration::from_secs(6);
/// How long a reshape waits after a tool has written a file and may verify it, or has read it and may
/// write it. A reshape is never urgent, so this is a choice, ten times [`HOLD_OFF`]: on a loaded machine
/// a verifying read came more than 20 ms after its write, and the tool failed because it found markers.
pub const VERIFIED_AFTER: Duration = Duration::from_millis(500);
/// How long to wait for the writer of an incomplete last line with poison, who may write in pieces and
/// close the file after each. Later pieces are still judged with the line that they continue.
pub const TAIL_GRACE: Duration = Duration::from_millis(20);
/// The longest time for which a writer can delay a redaction by never finishing a line.
pub const MAX_TAIL_WAIT: Duration = Duration::from_millis(500);
/// An incomplete last line counts as complete when the file has not changed for this long and no lease
/// was granted.
pub const TAIL_COMPLETE_AFTER: Duration = Duration::from_millis(500);
/// The minimum age of a stamp that memfw trusts (docs/adr/0002: before Linux 6.13 file times advance by
/// 1 to 10 ms).
pub const RACY: Duration = Duration::from_millis(20);
/// Without events for the closing of files (everywhere but on Linux), a file counts as closed after
/// this time without a change.
pub const CLOSE_TICK: Duration = if cfg!(linux) { Duration::ZERO } else { RACY };
/// The highest rung that the configuration allows on a file system.
pub fn ceiling(config: &Config) -> Rung {
  match config.protocol {
    Protocol::Auto => Rung::Lease,
    Protocol::EqualLengthOnly => Rung::EqualLengthOnly,
    Protocol::NoLease => Rung::NoLease,
  }
}

/// A stamp in the form that the ledger stores.
pub fn stamp_row(stamp: &Stamp) -> store::Stamp {
  store::Stamp {
    dev: stamp.dev,
    ino: stamp.ino,
    size: stamp.size,
    mtime_ns: stamp.mtime_ns,
    ctime_ns: stamp.ctime_ns,
  }
}

/// One memory file of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
  /// The workspace.
  pub root: PathBuf,
  /// The file, relative to the workspace.
  pub rel: PathBuf,
}

impl Target {
  /// A file of a workspace.
  pub fn new(root: &Path, rel: &Path) -> Self {
    Self { root: root.to_owned(), rel: rel.to_owned() }
  }

  /// The absolute path.
  pub fn path(&self) -> PathBuf {
    self.root.join(&self.rel)
  }

  /// Protection of this file, as a part that can be reduced.
  pub fn part(&self, kind: PartKind) -> Part {
    kind.of(event::shown(&self.path()))
  }
}

/// The engine: ledger, files, the agent framework's records, and the clock.
pub struct Engine<F: Fs> {
  files: files::Files<F>,
  ledger: Ledger,
  link: agent_link::AgentLink,
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
  judge: judging::Judge,
  /// Edits that are in the journal.
  open_edits: edit::OpenEdits,
  /// Files with poison that could not be sealed, with their stamps when that was reported.
  unsealed: HashMap<Target, Stamp>,
  /// Files that another installation guarded until now, and that were not processed yet.
  taken_over: HashSet<Target>,
  /// The placeholders that are in files.
  placeholders: RefCell<PlaceholderCache>,
  /// Unused ids.
  ids: RefCell<ids::Ids>,
  /// The last quarantined item of each file that the judge was asked about, while more items remain.
  consulted_to: HashMap<Target, BlockId>,
  versions: versions::Versions,
  /// The version of each file that waits for a verifying read, and since when.
  held: HashMap<Target, (ContentHash, Duration)>,
  /// Text of outsiders that was replaced recently.
  replaced: replaced::Replaced,
  /// How long poison was in its file, for each redaction since [`Engine::take_exposures`].
  exposures: Vec<Duration>,
  /// Whether a text was taken out of its file because of its source since [`Engine::take_departed`].
  has_departed: bool,
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
      files: files::Files::new(fs, Arc::clone(&clock), Arc::clone(&config), data),
      ledger,
      link: agent_link::AgentLink::new(agent, Arc::clone(&clock), Arc::clone(&config)),
      judge: judging::Judge::new(Arc::clone(&clock), Arc::clone(&config)),
      versions: versions::Versions::new(Arc::clone(&config)),
      clock,
      config,
      open_edits: edit::OpenEdits::default(),
      unsealed: HashMap::new(),
      taken_over: HashSet::new(),
      placeholders: RefCell::default(),
      ids: RefCell::default(),
      consulted_to: HashMap::new(),
      held: HashMap::new(),
      replaced: replaced::Replaced::default(),
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

  /// Ends the engine and returns its ledger.
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
  pub fn files(&mut self) -> &mut files::Files<F> {
    &mut self.files
  }

  /// Files whose current content is not kept as a version yet.
  pub fn versions_due(&mut self) -> Result<Vec<Target>, EngineError> {
    let at = self.now();
    self.versions.due(&mut self.ledger, at)
  }

  /// What judges text.
  pub fn judge(&mut self) -> &mut judging::Judge {
    &mut self.judge
  }

  /// The model in force.
  pub fn model(&self) -> Layer2 {
    self.judge.model()
  }

  /// What a person decides, now.
  pub fn decisions(&mut self) -> decisions::Decisions<'_> {
    let at = self.now();
    decisions::Decisions { ledger: &mut self.ledger, config: &self.config, at }
  }

  /// The judge's queue, now.
  pub fn judge_queue(&mut self) -> judge_queue::JudgeQueue<'_> {
    let at = self.now();
    judge_queue::JudgeQueue { ledger: &mut self.ledger, config: &self.config, at }
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
  fn approvals(&self) -> approvals::Approvals<'_> {
    approvals::Approvals::new(&self.ledger, self.now())
  }

  /// How the text of a file is treated.
  fn treatment(&self, target: &Target) -> Treatment {
    Treatment::of(&target.rel, self.files.shapes().is_elsewhere(&target.root), &self.config)
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
  fn now(&self) -> i64 {
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
  /// are not looked up ([`adopt`]).
  fn new_id(&self) -> Result<BlockId, EngineError> {
    let taken = |ids: &[BlockId]| Ok(self.ledger.ids_taken(ids)?);
    self.ids.borrow_mut().next(|| Ok(random::array()?), taken)
  }
}
