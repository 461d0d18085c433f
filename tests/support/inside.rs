//! The daemon inside of a test, with a clock that can be moved.

use {
  super::pace,
  memfw::{
    config::Config,
    daemon::{Daemon, Discovery, Helpers, Options},
    engine::Engine,
    files::{RealFs, Shapes, Watcher},
    os::{Clock, SystemClock},
    provenance::{AgentRecords, NoAgent},
    seal::MasterKey,
    store::{Access, Ledger},
  },
  std::{
    path::Path,
    sync::{
      Arc,
      atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
  },
};

/// The machine's clock, and by how many milliseconds it is ahead.
#[derive(Default)]
pub(crate) struct Ahead {
  /// The clock on the wall.
  pub(crate) wall: AtomicU64,
  pub(crate) monotonic: AtomicU64,
  /// How long the machine slept.
  pub(crate) asleep: AtomicU64,
}

impl Clock for Ahead {
  fn now(&self) -> i64 {
    SystemClock.now() + self.wall.load(Relaxed) as i64 * 1_000
  }

  fn monotonic(&self) -> Duration {
    SystemClock.monotonic() + Duration::from_millis(self.monotonic.load(Relaxed))
  }

  fn asleep(&self) -> Duration {
    Duration::from_millis(self.asleep.load(Relaxed))
  }
}

/// The ledger of such a daemon.
pub(crate) fn ledger_in(dir: &Path, access: Access) -> Ledger {
  Ledger::open(&dir.join("ledger.sqlite"), access, Some(MasterKey::new([7; 32]))).unwrap()
}

/// A daemon that guards `root`, with its ledger in `dir`.
pub(crate) fn daemon_in(
  dir: &Path,
  root: &Path,
  (clock, config): (Arc<dyn Clock>, Config),
  agent: Box<dyn AgentRecords>,
  helpers: Helpers,
) -> Daemon {
  let (fs, ledger) = (RealFs::default(), ledger_in(dir, Access::ReadWrite));
  let engine = Engine::new(fs, ledger, Box::new(NoAgent), clock, Arc::new(config), dir.to_owned());
  let found = Discovery {
    workspaces: vec![root.to_owned()],
    shapes: Shapes::default(),
    is_named: true,
    agent,
    files: vec![],
    notes: vec![],
    helpers,
    is_complete: true,
  };
  let options =
    Options { found, fs, alarm: None, is_key_older: false, report_only: None, bad_rules: None };
  Daemon::new(engine, Watcher::new().unwrap(), options)
}

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
