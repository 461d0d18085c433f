//! The daemon inside a test, without its event loop, and with a clock that can be moved.

use {
  super::{Ahead, Harness, eventually, ledger_in, needle, pace},
  memfw::{
    config::Config,
    daemon::{Daemon, Helpers},
    files::RealFs,
    provenance::{AgentRecords, NoAgent},
    store::{Access, Ledger, StateKey},
  },
  std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
  },
  tempfile::TempDir,
  tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel},
};

/// Does all work that is due within some seconds, as the loop does.
pub(crate) fn settle(daemon: &mut Daemon) {
  loop {
    if !daemon.work().unwrap() {
      daemon.finish_start().unwrap();
      match daemon.next_due() {
        Some(wait) if wait < Duration::from_secs(10) => pace(wait),
        _ => return,
      }
    }
  }
}

/// A workspace on which a daemon is to be started. Without further calls no agent is asked, and no program is run.
pub(crate) struct Stage {
  dir: TempDir,
  pub(crate) root: PathBuf,
  config: Config,
  agent: Box<dyn AgentRecords>,
  helpers: Helpers,
  asks_elsewhere: bool,
}

impl Stage {
  /// An empty workspace, on which no marker is due while a test lasts.
  pub(crate) fn new() -> Self {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("workspace");
    fs::create_dir(&root).unwrap();
    let config = Config { reshape_idle: Duration::from_hours(1), ..Config::default() };
    let (agent, helpers) = (Box::new(NoAgent), Helpers::default());
    Self { dir, root, config, agent, helpers, asks_elsewhere: false }
  }

  /// The directory around the workspace.
  pub(crate) fn dir(&self) -> &Path {
    self.dir.path()
  }

  /// A change of the configuration.
  pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
    change(&mut self.config);
    self
  }

  pub(crate) fn agent(self, agent: impl AgentRecords + 'static) -> Self {
    Self { agent: Box::new(agent), ..self }
  }

  pub(crate) fn helpers(self, helpers: Helpers) -> Self {
    Self { helpers, ..self }
  }

  /// The agent's records are asked on another thread.
  pub(crate) fn asks_elsewhere(self) -> Self {
    Self { asks_elsewhere: true, ..self }
  }

  /// The content of `MEMORY.md`.
  pub(crate) fn memory(self, text: &str) -> Self {
    fs::write(self.root.join("MEMORY.md"), text).unwrap();
    self
  }

  /// Starts the daemon.
  pub(crate) fn start(self) -> Inside {
    let Self { dir, root, config, agent, helpers, asks_elsewhere } = self;
    let clock = Arc::<Ahead>::default();
    let harness = Harness::new(RealFs::default(), dir.path()).config(config).agent(agent);
    let mut daemon = harness.clock(Arc::clone(&clock) as Arc<_>).daemon(&root, helpers);
    let (wake, answered) = unbounded_channel();
    if asks_elsewhere {
      daemon.ask_elsewhere(wake);
    }
    daemon.start().unwrap();
    Inside { dir, root, clock, daemon, answered }
  }
}

/// A workspace with the daemon on it.
pub(crate) struct Inside {
  /// The directory around the workspace, with the ledger.
  pub(crate) dir: TempDir,
  pub(crate) root: PathBuf,
  pub(crate) clock: Arc<Ahead>,
  pub(crate) daemon: Daemon,
  /// What would wake the loop, where the records are asked on another thread.
  pub(crate) answered: UnboundedReceiver<()>,
}

impl Inside {
  pub(crate) fn ledger(&self) -> Ledger {
    ledger_in(self.dir.path(), Access::ReadOnly)
  }

  pub(crate) fn memory(&self) -> PathBuf {
    self.root.join("MEMORY.md")
  }

  pub(crate) fn write(&self, file: &str, text: &str) {
    fs::write(self.root.join(file), text).unwrap();
  }

  pub(crate) fn read(&self, file: &str) -> String {
    fs::read_to_string(self.root.join(file)).unwrap()
  }

  /// `MEMORY.md`, open for lines at its end.
  pub(crate) fn append(&self) -> File {
    OpenOptions::new().append(true).open(self.memory()).unwrap()
  }

  /// Whether a poisoned line is in `MEMORY.md`.
  pub(crate) fn holds(&self, n: usize) -> bool {
    self.read("MEMORY.md").contains(&needle(n))
  }

  /// Works like the daemon's loop, as long as no step of it waits.
  pub(crate) fn work_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
    eventually(what, || {
      self.daemon.listen();
      while self.daemon.work().unwrap() {}
      self.daemon.finish_start().unwrap();
      done(self)
    });
  }

  /// The sources of all text of a file.
  pub(crate) fn sources(&self, file: &str) -> Vec<String> {
    let (_, blocks) = self.ledger().provenance(&self.root.join(file)).unwrap().unwrap();
    blocks.iter().flat_map(|block| &block.revisions).map(|one| one.source.to_string()).collect()
  }

  /// How protection is reduced.
  pub(crate) fn degradations(&self) -> String {
    let healths = self.ledger().states().unwrap();
    let degraded = healths.into_iter().filter(|(key, ..)| matches!(key, StateKey::Degraded(_)));
    degraded.map(|(_, text, _)| text).collect::<Vec<_>>().join("; ")
  }
}
