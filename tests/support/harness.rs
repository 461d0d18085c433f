//! One way to build the parts under test: a clock that can be moved, a ledger, an engine, a daemon.
//! The unit tests of the crate, the integration tests and the simulation use it, so that no test
//! depends on how these are put together.
//!
//! The crate includes this file in its own tests, where `memfw` is its own name.

use std::{
  path::{Path, PathBuf},
  sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
  },
  time::Duration,
};

use memfw::{
  config::Config,
  daemon::{Daemon, Discovery, Helpers, Options, skill_check::SkillPlaces},
  engine::{Engine, Layer2},
  files::{Fs, RealFs, Shapes, Watcher},
  os::{Clock, SystemClock},
  provenance::{AgentRecords, NoAgent},
  seal::MasterKey,
  store::{Access, Ledger},
};

/// The machine's clocks, and the offsets of this clock from them.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
  /// Microseconds.
  wall: AtomicU64,
  monotonic: AtomicU64,
  /// How long the machine slept, in microseconds.
  asleep: AtomicU64,
  /// By how much each reading moves the monotonic clock, in microseconds.
  step: AtomicU64,
}

impl Ahead {
  /// Moves the wall clock.
  pub(crate) fn advance_wall(&self, by: Duration) {
    self.wall.fetch_add(micros(by), Relaxed);
  }

  /// Sets the clock on the wall back, by no more than it was moved.
  pub(crate) fn set_back(&self, by: Duration) {
    self.wall.fetch_sub(micros(by), Relaxed);
  }

  /// Moves the monotonic clock.
  pub(crate) fn advance_monotonic(&self, by: Duration) {
    self.monotonic.fetch_add(micros(by), Relaxed);
  }

  /// From now on, each reading moves the monotonic clock: work takes long however fast the machine is.
  pub(crate) fn step(&self, by: Duration) {
    self.step.store(micros(by), Relaxed);
  }

  /// Moves both clocks.
  pub(crate) fn advance(&self, by: Duration) {
    self.advance_wall(by);
    self.advance_monotonic(by);
  }

  /// Puts the machine to sleep for this time.
  pub(crate) fn suspend(&self, by: Duration) {
    self.asleep.fetch_add(micros(by), Relaxed);
  }
}

fn micros(time: Duration) -> u64 {
  u64::try_from(time.as_micros()).unwrap()
}

impl Clock for Ahead {
  fn now(&self) -> i64 {
    SystemClock.now() + i64::try_from(self.wall.load(Relaxed)).unwrap()
  }

  fn monotonic(&self) -> Duration {
    let step = self.step.load(Relaxed);
    let ahead = self.monotonic.fetch_add(step, Relaxed) + step;
    SystemClock.monotonic() + Duration::from_micros(ahead)
  }

  fn asleep(&self) -> Duration {
    Duration::from_micros(self.asleep.load(Relaxed))
  }
}

/// The ledger in a directory, by the key of all tests.
pub(crate) fn ledger_in(dir: &Path, access: Access) -> Ledger {
  let key = MasterKey::new([7; 32]);
  Ledger::open(&dir.join("ledger.sqlite"), access, Some(key)).unwrap()
}

/// An engine or a daemon that is to be built. Without further calls it has the default configuration, no agent and
/// no model.
pub(crate) struct Harness<F: Fs> {
  fs: F,
  ledger: Ledger,
  /// memfw's data directory.
  data: PathBuf,
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
  agent: Box<dyn AgentRecords>,
  model: Layer2,
}

impl<F: Fs> Harness<F> {
  /// On a file system, with its ledger in this data directory.
  pub(crate) fn new(fs: F, data: &Path) -> Self {
    Self::with_ledger(fs, data, ledger_in(data, Access::ReadWrite))
  }

  /// On a file system, with this ledger.
  pub(crate) fn with_ledger(fs: F, data: &Path, ledger: Ledger) -> Self {
    Self {
      fs,
      ledger,
      data: data.to_owned(),
      clock: Arc::new(SystemClock),
      config: Arc::default(),
      agent: Box::new(NoAgent),
      model: None,
    }
  }

  pub(crate) fn clock(self, clock: Arc<dyn Clock>) -> Self {
    Self { clock, ..self }
  }

  pub(crate) fn config(self, config: impl Into<Arc<Config>>) -> Self {
    Self { config: config.into(), ..self }
  }

  pub(crate) fn agent(self, agent: Box<dyn AgentRecords>) -> Self {
    Self { agent, ..self }
  }

  pub(crate) fn model(self, model: Layer2) -> Self {
    Self { model, ..self }
  }

  /// The engine.
  pub(crate) fn engine(self) -> Engine<F> {
    let Self { fs, ledger, data, clock, config, agent, model } = self;
    let engine = Engine::new(fs, ledger, agent, clock, config, data);
    let Some(model) = model else { return engine };
    let mut engine = engine.with_model(model);
    engine.start_model().unwrap();
    engine
  }
}

impl Harness<RealFs> {
  /// A daemon that guards this workspace, which a person named.
  pub(crate) fn daemon(mut self, root: &Path, helpers: Helpers) -> Daemon {
    let (fs, agent) = (self.fs, std::mem::replace(&mut self.agent, Box::new(NoAgent)));
    let found = Discovery {
      workspaces: vec![root.to_owned()],
      shapes: Shapes::default(),
      is_named: true,
      agent,
      files: vec![],
      notes: vec![],
      unreadable: vec![],
      distrust: None,
      helpers,
      skills: SkillPlaces { roots: vec![root.join("skills")], besides: &[], is_unread: false },
      is_complete: true,
    };
    let options = Options {
      found,
      fs,
      alarm: None,
      is_key_older: false,
      lost_since: None,
      report_only: None,
      bad_rules: None,
    };
    Daemon::new(self.engine(), Watcher::new().unwrap(), options)
  }
}
