//! The daemon's work without an event: after a suspend, and on files that another program keeps
//! open. The daemon runs in the test, with a clock that can be moved, and gets no event at all.

use crate::support::{Inside, Stage, ledger_in, poison, settle};
use memfw::{
  files::{Fs as _, RealFs, Rung, lease},
  os::WriteLock,
  store::{Access, EventFilter, EventKind, Pending},
};
use std::{
  fs::{self, OpenOptions},
  io::{BufRead as _, BufReader, Write as _},
  os::fd::AsFd as _,
  path::Path,
  process::{Child, ChildStdin, ChildStdout, Command, Stdio},
  sync::mpsc,
  time::Duration,
};

fn world() -> Inside {
  Stage::new().memory("# Memory\n").start()
}

#[test]
fn after_a_suspend_everything_is_looked_at_again() {
  let mut world = world();
  settle(&mut world.daemon);
  writeln!(world.append(), "{}", poison(1)).unwrap();
  // Two readings of a clock are never quite equal; that is no suspend.
  world.clock.suspend(Duration::from_millis(20));
  world.daemon.woke();
  settle(&mut world.daemon);
  assert!(world.holds(1));
  world.clock.suspend(Duration::from_hours(1));
  world.daemon.woke();
  settle(&mut world.daemon);
  assert!(!world.holds(1));
  let events = world.ledger().events(&EventFilter::default()).unwrap();
  let said = events.iter().filter(|event| event.event == EventKind::Rescanned).collect::<Vec<_>>();
  assert_eq!(said.len(), 1);
  assert_eq!(said[0].detail, "the machine was suspended for 3600 s");
  // The suspend is over.
  world.daemon.woke();
  assert!(world.daemon.next_due().is_none_or(|due| due > Duration::from_mins(1)));
}

#[test]
fn a_day_that_is_over_is_reported_once_and_a_quiet_one_never() {
  const DAY: Duration = Duration::from_hours(24);
  let mut world = world();
  settle(&mut world.daemon);
  writeln!(world.append(), "{}", poison(1)).unwrap();
  world.clock.suspend(Duration::from_hours(1));
  world.daemon.woke();
  settle(&mut world.daemon);
  let told = |world: &Inside| -> Vec<String> {
    let filter = EventFilter { event: Some(EventKind::Summary), ..EventFilter::default() };
    let events = world.ledger().events(&filter).unwrap();
    events.into_iter().map(|event| event.detail).collect()
  };
  assert_eq!(told(&world), [""; 0], "the day is not over");
  assert!(world.daemon.next_due().is_none_or(|due| due > Duration::from_mins(1)), "a timer for it");
  world.clock.advance_wall(DAY);
  settle(&mut world.daemon);
  settle(&mut world.daemon);
  let first = told(&world);
  assert_eq!(first.len(), 1, "{first:?}");
  assert!(first[0].contains(", 1 quarantined; 1 waits for review"), "{first:?}");
  // There was no event since, but an item waits; then it is decided, and there is no message.
  world.clock.advance_wall(2 * DAY);
  settle(&mut world.daemon);
  let second = told(&world);
  assert_eq!(second.len(), 2, "{second:?}");
  assert!(second[0].contains(": 0 blocks seen") && second[0].contains(" to "), "{second:?}");
  let mut ledger = ledger_in(world.dir.path(), Access::ReadWrite);
  let waiting = ledger.items(&memfw::store::ItemFilter::waiting()).unwrap();
  ledger.decide(&waiting[0].id, memfw::provenance::State::Rejected, "ann", 1, &[]).unwrap();
  world.clock.advance_wall(DAY);
  settle(&mut world.daemon);
  assert_eq!(told(&world).len(), 2, "a quiet day");
}

#[test]
fn a_file_that_somebody_keeps_open_is_read_again_once_a_minute() {
  let mut world = world();
  let mut holder = world.append();
  settle(&mut world.daemon);
  let row = world.ledger().file(&world.memory()).unwrap().unwrap();
  assert!(row.pending.contains(Pending::RETRY), "its stamp vouches for nothing");
  assert!(world.daemon.next_due().is_some_and(|due| due > Duration::from_secs(50)));
  writeln!(holder, "{}", poison(1)).unwrap();
  settle(&mut world.daemon);
  assert!(world.holds(1), "nobody told");
  world.clock.advance_monotonic(Duration::from_secs(61));
  settle(&mut world.daemon);
  assert!(!world.holds(1));
  let minute = Duration::from_mins(1);
  assert!(world.daemon.next_due().is_some_and(|due| due <= minute), "it is open still");
  // Once it is closed, that was the last time.
  drop(holder);
  world.clock.advance_monotonic(Duration::from_secs(61));
  settle(&mut world.daemon);
  assert!(world.daemon.next_due().is_none_or(|due| due > minute));
  let row = world.ledger().file(&world.memory()).unwrap().unwrap();
  assert!(!row.pending.contains(Pending::RETRY), "its stamp counts again");
}

#[test]
fn who_holds_the_write_lock_gets_a_lease_on_what_the_daemon_kept_open() {
  let mut world = world();
  let mut holder = world.append();
  settle(&mut world.daemon);
  writeln!(holder, "{}", poison(1)).unwrap();
  drop(holder);
  world.clock.advance_monotonic(Duration::from_secs(61));
  // A command: it has the lock, and asks for a lease.
  let (data, memory) = (world.dir.path().to_owned(), world.memory());
  let (locked, go) = mpsc::channel();
  let command = std::thread::spawn(move || {
    let _lock = WriteLock::acquire(&data, Duration::from_secs(5)).unwrap();
    locked.send(()).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(memory).unwrap();
    // Less than the time that the daemon waits for the lock.
    (0..2_500).any(|_| {
      crate::support::pace(Duration::from_millis(2));
      matches!(lease::acquire(file.as_fd()).unwrap(), lease::Grant::Granted)
    })
  });
  go.recv().unwrap();
  settle(&mut world.daemon);
  assert!(command.join().unwrap(), "the daemon kept the file open while it waited for the command");
  assert!(!world.holds(1));
}

/// Maps the given file and stores the given bytes, without any other call.
const MAPPER: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
  memory = mmap.mmap(file.fileno(), 0)
print('ready', flush=True)
for line in sys.stdin:
  at, text = line.rstrip('\\n').split(' ', 1)
  memory[int(at):int(at) + len(text)] = text.encode()
  print('stored', flush=True)
";

/// A process that has a file mapped.
struct Mapper {
  child: Child,
  requests: Option<ChildStdin>,
  answers: BufReader<ChildStdout>,
}

impl Mapper {
  /// `None` where there is no Python.
  fn of(file: &Path) -> Option<Self> {
    let mut command = Command::new("python3");
    command.args(["-E", "-S", "-c", MAPPER]).arg(file);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let requests = child.stdin.take();
    let answers = BufReader::new(child.stdout.take()?);
    let mut this = Self { child, requests, answers };
    this.answer("ready").then_some(this)
  }

  fn answer(&mut self, wanted: &str) -> bool {
    let mut line = String::new();
    self.answers.read_line(&mut line).is_ok() && line.trim_end() == wanted
  }

  fn store(&mut self, at: usize, text: &str) {
    writeln!(self.requests.as_mut().unwrap(), "{at} {text}").unwrap();
    assert!(self.answer("stored"));
  }
}

impl Drop for Mapper {
  /// The mapping ends with the process.
  fn drop(&mut self) {
    drop(self.requests.take());
    self.child.wait().unwrap();
  }
}

#[test]
fn stores_through_a_mapping_are_seen_within_a_minute_and_when_it_goes() {
  let mut world = world();
  writeln!(world.append(), "\n- {:x<300}", "").unwrap();
  settle(&mut world.daemon);
  let memory = world.memory();
  let at = fs::read_to_string(&memory).unwrap().find("- x").unwrap();
  let Some(mut mapper) = Mapper::of(&memory) else {
    return eprintln!("SKIPPED: no stores through a mapping: there is no python3 with mmap");
  };
  // The first store makes the page dirty, which changes the file's times; those after it do not.
  mapper.store(at, "- y");
  writeln!(world.append(), "- z").unwrap();
  world.daemon.listen();
  settle(&mut world.daemon);
  let fs = RealFs::default();
  if fs.rung(&fs.open_root(memory.parent().unwrap()).unwrap()) != Rung::Lease {
    return eprintln!("SKIPPED: leases do not see mappings on the file system of temporary files");
  }
  let row = world.ledger().file(&memory).unwrap().unwrap();
  assert!(row.pending.contains(Pending::RETRY), "its stamp vouches for nothing");
  mapper.store(at, &poison(1));
  settle(&mut world.daemon);
  assert!(world.holds(1), "nobody told");
  world.clock.advance_monotonic(Duration::from_secs(61));
  settle(&mut world.daemon);
  assert!(!world.holds(1));
  mapper.store(at, &poison(2));
  drop(mapper);
  world.daemon.listen();
  settle(&mut world.daemon);
  assert!(!world.holds(2));
}

/// The test does not take the events of memfw's own opens, so every slice of work on a large file
/// is interrupted.
#[test]
fn large_files_of_a_first_start_are_processed_whatever_interrupts_them() {
  let stage = Stage::new();
  fs::create_dir(stage.root.join("memory")).unwrap();
  for file in 0..4 {
    let lines = (0..2000).map(|n| format!("- In week {n} garden {file} had {} visitors.\n", n * 7));
    let file = stage.root.join(format!("memory/{file}.md"));
    fs::write(file, lines.collect::<String>()).unwrap();
  }
  // The directory stays until the end.
  let Inside { dir: _dir, mut daemon, .. } = stage.start();
  // A slice is at least 10 ms, so this is enough time for a hundred times the work.
  let turns = (0..3_000).take_while(|_| daemon.work().unwrap()).count();
  assert!(daemon.finish_start().unwrap(), "not at an end after {turns} turns");
}
