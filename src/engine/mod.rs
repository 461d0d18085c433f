//! One memory file, from dirty to done: the same for the daemon, the command line and the tests.
//!
//! The engine owns the ledger and the way to the files. It never decides (policy does), never waits
//! for an event (the daemon does) and never touches a byte that is not durable in the ledger first.
//! Its two ways to change a file are [`pass`] (urgent, equal length, in place) and [`lazy`] (markers
//! and compaction, when the file is idle); [`review`] does what a person decided, [`recover`] ends
//! what a crash interrupted.
#![forbid(unsafe_code)]

pub mod adopt;
pub mod allowed;
#[cfg(test)]
mod allowed_tests;
mod approved;
pub mod assess;
pub mod attribute;
#[cfg(test)]
mod attribute_tests;
pub mod bulk;
mod claim;
mod class;
#[cfg(test)]
mod class_tests;
pub mod consult;
#[cfg(test)]
mod consult_tests;
mod edit;
pub mod error;
pub mod event;
pub mod facts;
pub mod gate_check;
mod given_back;
#[cfg(test)]
mod grown_tests;
mod ids;
pub mod judge;
pub mod judgement;
pub mod label;
mod landing;
mod lapse;
#[cfg(test)]
mod lapse_tests;
pub mod layer2;
#[cfg(test)]
mod layer2_tests;
pub mod lazy;
mod lost;
pub mod origin;
pub mod pass;
mod placeholder_cache;
mod precedent;
pub mod put_back;
#[cfg(test)]
mod put_back_tests;
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
pub use gate_check::Passed;
pub use layer2::{Layer2, Reading, Scored, Scoring};
pub use lazy::LazyOutcome;
pub use pass::{Hint, Outcome};

use crate::{
  config::{Config, Owner, Protocol},
  detect::{model::Assessor, rules::Rules},
  files::{Fs, Rung, Shapes, Stamp, TargetRules},
  memory::BlockId,
  os::{Clock, LockError, WriteLock, random, user},
  provenance::AgentRecords,
  store::{self, Ledger},
};

/// How long a file that somebody else has open is waited for before it is read and redacted without
/// a lease (docs/adr/0002: a choice; from the first refusal to about 4 ms was tried).
pub const UNLEASED_AFTER: Duration = Duration::from_millis(5);
/// For how long an agent's tool verifies its write on an idle machine (docs/adr/0002, measured 0.2-0.6 ms).
pub const HOLD_OFF: Duration = Duration::from_millis(50);
/// How long the verifying read of a tool is waited for whose write is on record. It always comes, and the tool
/// fails when it comes too late: with seven busy processes on two cores it took longer than [`HOLD_OFF`] in 2
/// of 17 runs (a choice: fifty times the slowest scheduling that was seen).
pub const VERIFY_WITHIN: Duration = Duration::from_secs(3);
/// How long a reshape leaves a file alone that an agent's tool has written and may verify, or has read and
/// may write. It is never urgent, so this is a choice, ten times [`HOLD_OFF`]: on a loaded machine a
/// verifying read came more than 20 ms after its write, and the tool failed because markers were there.
pub const VERIFIED_AFTER: Duration = Duration::from_millis(500);
/// How long an unfinished last line with poison in it is left to its writer, who may write in pieces and
/// close the file after each of them; what comes later still goes with the line it continues.
pub const TAIL_GRACE: Duration = Duration::from_millis(20);
/// No writer puts a redaction off for longer than this by never finishing a line.
pub const MAX_TAIL_WAIT: Duration = Duration::from_millis(500);
/// An incomplete last line counts as complete when the file has not changed for so long and no lease
/// could be had.
pub const TAIL_COMPLETE_AFTER: Duration = Duration::from_millis(500);
/// How young a stamp may not be to be trusted (docs/adr/0002: before Linux 6.13 file times
/// advance by 1 to 10 ms).
pub const RACY: Duration = Duration::from_millis(20);
/// Where no event tells that a writer has closed the file (everywhere but on Linux), this time without
/// a change stands for it.
pub const CLOSE_TICK: Duration = if cfg!(linux) { Duration::ZERO } else { RACY };
/// How long another process of memfw may hold the write lock before we give up.
pub const WRITE_LOCK_WAIT: Duration = Duration::from_secs(10);
/// For how long it may be held by nobody: a program that is just being started has all descriptors of whoever
/// starts it, and with them the lock, until it runs.
const WRITE_LOCK_MOMENT: Duration = Duration::from_millis(20);

/// Files of which is remembered that they were read; then they are forgotten, and waited for.
const MAX_READ: usize = 4096;

/// Keys of reduced protection in the ledger start with this.
pub const DEGRADED: &str = "degraded:";

/// The highest rung that the configuration lets a file system stand on.
pub fn ceiling(config: &Config) -> Rung {
  match config.protocol {
    Protocol::Auto => Rung::Lease,
    Protocol::EqualLengthOnly => Rung::EqualLengthOnly,
    Protocol::NoLease => Rung::NoLease,
  }
}

/// A stamp as the ledger keeps it.
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

  /// The key under which reduced protection of this file is noted.
  pub fn key(&self) -> String {
    format!("file:{}", event::shown(&self.path()))
  }
}

/// The engine: ledger, files, records of the agent framework, time.
pub struct Engine<F: Fs> {
  fs: F,
  ledger: Ledger,
  agent: Arc<dyn AgentRecords>,
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
  /// The rules in force.
  judging: Rules,
  /// Open workspaces, and how their files can be edited.
  roots: HashMap<PathBuf, (F::Root, Rung)>,
  /// Files that were opened and could not be leased yet: opening again would wake ourselves.
  hot: HashMap<Target, F::File>,
  /// Edits that are in the journal.
  open_edits: edit::OpenEdits,
  /// Files with poison that could not be sealed, as they were when that was reported.
  unsealed: HashMap<Target, Stamp>,
  /// What stands in files in place of what was taken out.
  forms: RefCell<PlaceholderCache>,
  /// Ids that nothing has.
  ids: RefCell<ids::Ids>,
  /// The last of what is held out of a file that a model that reads was asked about, while more is left.
  consulted_to: HashMap<Target, BlockId>,
  /// A version that was recorded and not kept yet.
  noted: Option<versions::UnkeptVersion>,
  /// Files that somebody has read since they were written.
  read: HashSet<Target>,
  /// Outsiders' text that was replaced of late.
  replaced: replaced::Replaced,
  /// Targets that were opened since the last [`Engine::take_opens`].
  opens: Vec<Target>,
  /// How long poison stood in a file, for each redaction since [`Engine::take_exposures`].
  exposures: Vec<Duration>,
  /// Whether something left its file since [`Engine::take_departed`] because of its source.
  has_departed: bool,
  /// memfw's data directory, where the lock is.
  data: PathBuf,
  /// What judges beside the rules.
  model: Layer2,
  /// The directories that are no workspaces.
  shapes: Shapes,
  /// What was found in a large file that is not done with.
  memo: RefCell<slices::Memo>,
  /// Says whether a large file has to wait.
  interrupt: Option<slices::Interrupt>,
  /// Whether what is under way can be done again from the start.
  may_interrupt: bool,
}

impl<F: Fs> Engine<F> {
  /// An engine on this ledger. `data` is memfw's data directory, where the lock is that serialises
  /// those who touch files.
  pub fn new(
    fs: F,
    ledger: Ledger,
    agent: Box<dyn AgentRecords>,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
    data: PathBuf,
  ) -> Self {
    Self {
      fs,
      ledger,
      agent: Arc::from(agent),
      clock,
      config,
      judging: Rules::default(),
      roots: HashMap::new(),
      hot: HashMap::new(),
      open_edits: edit::OpenEdits::default(),
      unsealed: HashMap::new(),
      forms: RefCell::default(),
      ids: RefCell::default(),
      consulted_to: HashMap::new(),
      noted: None,
      replaced: replaced::Replaced::default(),
      read: HashSet::new(),
      opens: Vec::new(),
      exposures: Vec::new(),
      has_departed: false,
      data,
      model: None,
      shapes: Shapes::default(),
      memo: RefCell::default(),
      interrupt: None,
      may_interrupt: false,
    }
  }

  /// The same with a model that judges beside the rules.
  #[must_use]
  pub fn with_model(mut self, model: &'static dyn Assessor) -> Self {
    self.model = Some(model);
    self
  }

  /// The ledger.
  pub fn ledger(&self) -> &Ledger {
    &self.ledger
  }

  /// Ends the engine and gives its ledger back.
  pub fn into_ledger(self) -> Ledger {
    self.ledger
  }

  /// The ledger, to write.
  pub fn ledger_mut(&mut self) -> &mut Ledger {
    &mut self.ledger
  }

  /// The configuration in force.
  pub fn config(&self) -> &Config {
    &self.config
  }

  /// Goes on with another configuration; everything is opened anew.
  pub fn configure(&mut self, config: Arc<Config>, fs: F) {
    self.config = config;
    self.fs = fs;
    self.roots.clear();
    self.hot.clear();
    self.forget_slices();
  }

  /// Judges by these rules from now on; what is known is not judged again.
  pub fn set_rules(&mut self, rules: Rules) {
    self.forget_slices();
    self.judging = rules;
  }

  /// Goes on with other records of the agent framework.
  pub fn set_agent(&mut self, agent: Box<dyn AgentRecords>) {
    self.agent = Arc::from(agent);
  }

  /// Which directories are no workspaces: what is in them is treated as the configuration says of them.
  pub fn set_shapes(&mut self, shapes: Shapes) {
    self.shapes = shapes;
  }

  /// How the text of a file is treated.
  fn treatment(&self, target: &Target) -> Treatment {
    Treatment::of(&target.rel, self.shapes.is_elsewhere(&target.root), &self.config)
  }

  /// The records of the agent framework, to be asked elsewhere.
  pub fn agent(&self) -> Arc<dyn AgentRecords> {
    Arc::clone(&self.agent)
  }

  /// Whether the agent's index holds any of these texts of a file; `None` where it has none.
  pub fn still_indexed(&self, target: &Target, texts: &[&[u8]]) -> Option<bool> {
    self.agent.still_indexed(&target.root, &target.rel, texts)
  }

  /// The clock.
  pub fn clock(&self) -> &dyn Clock {
    &*self.clock
  }

  /// Microseconds since the epoch, now.
  fn now(&self) -> i64 {
    self.clock.now()
  }

  /// Writes the log line of an event and its row.
  pub fn tell(&mut self, event: Event) -> Result<(), EngineError> {
    let at = self.now();
    self.ledger.append_events(&[event.row()], at)?;
    event.log(None);
    Ok(())
  }

  /// A writer has closed a file: who read it before has not read what stands there now.
  pub fn closed_by_writer(&mut self, target: &Target) {
    self.read.remove(target);
  }

  /// Somebody else has opened a file since its writer closed it.
  pub fn opened_by_reader(&mut self, target: &Target) {
    if self.read.len() >= MAX_READ {
      self.read.clear();
    }
    self.read.insert(target.clone());
  }

  /// The targets that were opened since this was asked last: their events are our own.
  pub fn take_opens(&mut self) -> Vec<Target> {
    std::mem::take(&mut self.opens)
  }

  /// How long after the last write to its file poison left it, for each urgent redaction since this was
  /// asked last.
  pub fn take_exposures(&mut self) -> Vec<Duration> {
    std::mem::take(&mut self.exposures)
  }

  /// Whether something left its file because its source became known, since this was asked last.
  pub fn take_departed(&mut self) -> bool {
    std::mem::take(&mut self.has_departed)
  }

  /// memfw's data directory.
  pub fn data(&self) -> &Path {
    &self.data
  }

  /// Notes that protection is reduced; said once, until it changes or is over.
  pub fn degrade(&mut self, key: &str, why: &str) -> Result<(), EngineError> {
    let key = format!("{DEGRADED}{key}");
    let json = serde_json::Value::from(why).to_string();
    if self.ledger.health(&key)?.is_some_and(|(known, _)| known == json) {
      return Ok(());
    }
    let at = self.now();
    self.ledger.set_health(&key, &json, at)?;
    self.tell(Event::new(EventKind::Degraded).detail(why))
  }

  /// Notes that what was reduced is whole again.
  pub fn recovered(&mut self, key: &str) -> Result<(), EngineError> {
    let key = format!("{DEGRADED}{key}");
    if self.ledger.health(&key)?.is_none() {
      return Ok(());
    }
    self.ledger.remove_health(&key)?;
    self.tell(Event::new(EventKind::Restored).detail(key))
  }

  /// Forgets all reduced protection: a start finds out anew.
  pub fn clear_degradations(&mut self) -> Result<(), EngineError> {
    for (key, ..) in self.ledger.healths()? {
      if key.starts_with(DEGRADED) {
        self.ledger.remove_health(&key)?;
      }
    }
    Ok(())
  }

  /// Forgets the open directory of a workspace, which may have been replaced.
  pub fn forget_root(&mut self, root: &Path) {
    self.roots.remove(root);
    self.hot.retain(|target, _| target.root != root);
  }

  /// Closes the directory of a workspace until it is needed again: the kernel tells of the end of a
  /// directory only when nobody has it open.
  pub fn close_root(&mut self, root: &Path) {
    self.roots.remove(root);
  }

  /// Opens a workspace, once.
  fn root(&mut self, path: &Path) -> Result<(), EngineError> {
    if !self.roots.contains_key(path) {
      let root = self.fs.open_root(path)?;
      let rung = self.fs.rung(&root);
      self.roots.insert(path.to_owned(), (root, rung));
    }
    Ok(())
  }

  /// Whether files of this workspace may change their length.
  fn may_reshape(&self, path: &Path) -> bool {
    self.roots.get(path).is_some_and(|(_, rung)| *rung == Rung::Lease)
  }

  fn rules(&self) -> TargetRules {
    let owners = self
      .config
      .owners
      .iter()
      .filter_map(|owner| match owner {
        Owner::Uid(uid) => Some(*uid),
        // A name that nobody has owns no file.
        Owner::Name(name) => user::uid(name).ok(),
      })
      .collect();
    TargetRules { max_bytes: self.config.max_file_bytes, owners }
  }

  /// The lock that serialises those who touch files; nobody keeps it longer than one operation.
  fn lock(&mut self) -> Result<WriteLock, EngineError> {
    match WriteLock::acquire(&self.data, WRITE_LOCK_MOMENT) {
      // Whoever holds it may be waiting for a lease on what we keep open.
      Err(LockError::Busy { .. }) => self.hot.clear(),
      answer => return Ok(answer?),
    }
    Ok(WriteLock::acquire(&self.data, WRITE_LOCK_WAIT)?)
  }

  /// A fresh id that nothing has. A first scan, which needs one for every block, has longer ones that are
  /// not looked up ([`adopt`]).
  fn new_id(&self) -> Result<BlockId, EngineError> {
    let taken = |ids: &[BlockId]| Ok(self.ledger.ids_taken(ids)?);
    self.ids.borrow_mut().next(|| Ok(random::array()?), taken)
  }
}
