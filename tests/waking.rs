//! What the daemon does without an event: after a suspend, and about files that somebody keeps open.
//! The guard runs in the test, with a clock that can be moved, and is told of no event at all.

use {
  crate::support::{needle, poison},
  memfw::{
    config::Config,
    daemon::{Guard, Parts},
    engine::Engine,
    os::{Clock, RealFs, SystemClock, Watcher},
    provenance::NoAgent,
    seal::MasterKey,
    store::{Access, EventFilter, Ledger, Pending},
  },
  std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
      Arc,
      atomic::{AtomicU64, Ordering},
    },
    time::Duration,
  },
  tempfile::TempDir,
};

/// The machine's clock, and by how many milliseconds it is ahead.
#[derive(Default)]
struct Ahead {
  monotonic: AtomicU64,
  asleep: AtomicU64,
}

impl Clock for Ahead {
  fn now(&self) -> i64 {
    SystemClock.now()
  }

  fn monotonic(&self) -> Duration {
    SystemClock.monotonic() + Duration::from_millis(self.monotonic.load(Ordering::Relaxed))
  }

  fn asleep(&self) -> Duration {
    Duration::from_millis(self.asleep.load(Ordering::Relaxed))
  }
}

struct World {
  dir: TempDir,
  clock: Arc<Ahead>,
  guard: Guard,
}

impl World {
  fn new() -> Self {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("workspace");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("MEMORY.md"), "# Memory\n").unwrap();
    let ledger = Self::ledger_in(dir.path(), Access::ReadWrite);
    let clock = Arc::new(Ahead::default());
    let fs = RealFs::default();
    let data = dir.path().to_owned();
    let shared = Arc::clone(&clock) as Arc<dyn Clock>;
    // No marker is due while a test lasts.
    let config = Arc::new(Config { reshape_idle: Duration::from_hours(1), ..Config::default() });
    let engine = Engine::new(fs, ledger, Box::new(NoAgent), shared, config, data);
    let watcher = Watcher::new(Box::new(|_| {})).unwrap();
    let workspaces = vec![root];
    let mut guard = Guard::new(Parts {
      engine,
      fs,
      watcher,
      workspaces,
      sources: vec![],
      notes: vec![],
      alarm: None,
      report_only: None,
    });
    guard.start().unwrap();
    Self { dir, clock, guard }
  }

  fn ledger_in(dir: &Path, access: Access) -> Ledger {
    Ledger::open(&dir.join("ledger.sqlite"), access, Some(MasterKey::new([7; 32]))).unwrap()
  }

  fn ledger(&self) -> Ledger {
    Self::ledger_in(self.dir.path(), Access::ReadOnly)
  }

  fn memory(&self) -> PathBuf {
    self.dir.path().canonicalize().unwrap().join("workspace/MEMORY.md")
  }

  /// Does all work that is due, as the loop does.
  fn settle(&mut self) {
    loop {
      if !self.guard.work().unwrap() {
        self.guard.finish_start().unwrap();
        match self.guard.next_due() {
          Some(wait) if wait < Duration::from_secs(10) => crate::support::pace(wait),
          _ => return,
        }
      }
    }
  }

  fn holds(&self, n: usize) -> bool {
    fs::read_to_string(self.memory()).unwrap().contains(&needle(n))
  }

  fn append(&self) -> File {
    OpenOptions::new().append(true).open(self.memory()).unwrap()
  }
}

#[test]
fn after_a_suspend_everything_is_looked_at_again() {
  let mut world = World::new();
  world.settle();
  writeln!(world.append(), "{}", poison(1)).unwrap();
  // Two readings of a clock are never quite the same; that is no sleep.
  world.clock.asleep.store(20, Ordering::Relaxed);
  world.guard.woke();
  world.settle();
  assert!(world.holds(1));
  world.clock.asleep.store(3_600_020, Ordering::Relaxed);
  world.guard.woke();
  world.settle();
  assert!(!world.holds(1));
  let events = world.ledger().events(&EventFilter::default()).unwrap();
  let said = events.iter().filter(|event| event.event == "rescanned").collect::<Vec<_>>();
  assert_eq!(said.len(), 1);
  assert_eq!(said[0].detail, "the machine was suspended for 3600 s");
  // It is over.
  world.guard.woke();
  assert!(world.guard.next_due().is_none_or(|due| due > Duration::from_mins(1)));
}

#[test]
fn a_file_that_somebody_keeps_open_is_read_again_once_a_minute() {
  let mut world = World::new();
  let mut holder = world.append();
  world.settle();
  let row = world.ledger().file(&world.memory()).unwrap().unwrap();
  assert!(row.pending.contains(Pending::RETRY), "its stamp vouches for nothing");
  assert!(world.guard.next_due().is_some_and(|due| due > Duration::from_secs(50)));
  writeln!(holder, "{}", poison(1)).unwrap();
  world.settle();
  assert!(world.holds(1), "nobody told");
  world.clock.monotonic.fetch_add(61_000, Ordering::Relaxed);
  world.settle();
  assert!(!world.holds(1));
  let minute = Duration::from_mins(1);
  assert!(world.guard.next_due().is_some_and(|due| due <= minute), "it is open still");
  // Once it is closed, that was the last time.
  drop(holder);
  world.clock.monotonic.fetch_add(61_000, Ordering::Relaxed);
  world.settle();
  assert!(world.guard.next_due().is_none_or(|due| due > minute));
  let row = world.ledger().file(&world.memory()).unwrap().unwrap();
  assert!(!row.pending.contains(Pending::RETRY), "its stamp counts again");
}
