//! The race matrix: the real daemon against writers that take no lock, on real file systems.
//!
//! Each writer confirms a block when its write is complete. Afterwards each confirmed block has to
//! be in its file once, or, if it is poison, in quarantine once, byte for byte; an approved one has
//! to be back in its place. Two ways to clean files that are known to lose text must lose text here
//! as well.
//!
//! Variables of the environment: `MEMFW_RACE_OPS` (blocks a cell, and all ten writers), `MEMFW_RACE_ON`
//! (file systems: `temp`, `tmpfs`, `overlay`, `xfs`, `btrfs`, separated by commas), `MEMFW_RACE_ONLY`
//! (writers whose name begins so).
#![forbid(unsafe_code)]

mod account;
mod block;
mod cell;
mod control;
mod helper;
mod place;
mod way;

use {
  crate::support::Random,
  cell::{PER_FILE, Row},
  control::Control,
  memfw::files::probe::{Rung, probe},
  place::Place,
  std::{
    env,
    path::{Path, PathBuf},
    sync::{
      Mutex,
      atomic::{AtomicBool, Ordering},
    },
    thread,
  },
  way::Way,
};

/// Variables of the environment.
const OPS: &str = "MEMFW_RACE_OPS";
const ON: &str = "MEMFW_RACE_ON";
const ONLY: &str = "MEMFW_RACE_ONLY";
/// Set for the run inside a mount namespace: the directory to run in.
const AT: &str = "MEMFW_RACE_AT";

/// So few that `cargo test` hardly notices.
const FEW: usize = 60;
/// The writers of that run.
const SOME: [Way; 4] = [Way::Append, Way::Held, Way::Truncate, Way::Rename];
/// Blocks after which a control that loses no text counts as broken; the best control lost one
/// block in 100.
const PATIENCE: usize = 20_000;
/// The test below, as the test program knows it.
const MATRIX: &str = "race::nothing_is_lost_by_any_writer_on_any_file_system";

#[test]
fn nothing_is_lost_by_any_writer_on_any_file_system() {
  if let Some(at) = env::var_os(AT) {
    return matrix(Path::new(&at));
  }
  for place in Place::of(&env::var(ON).unwrap_or_else(|_| "temp".to_owned())) {
    let done = match place.directory() {
      Some(directory) => directory.map(|directory| matrix(&directory)),
      None => place.run_there(MATRIX),
    };
    if let Err(why) = done {
      eprintln!("SKIPPED: no race on {place:?}: {why}");
    }
  }
}

/// The writers of the matrix on one file system.
fn matrix(below: &Path) {
  let ops = number(OPS);
  let mut ways = if ops.is_some() { Way::ALL.to_vec() } else { SOME.to_vec() };
  if ways.contains(&Way::Mapped) && !helper::can_map() {
    eprintln!("SKIPPED: no race with mmap: there is no python3 with ctypes");
    ways.retain(|way| *way != Way::Mapped);
  }
  let ops = ops.unwrap_or(FEW);
  let rows = race(below, ways, ops);
  if ops > FEW {
    let returned: u64 = rows.iter().map(|row| row.returned).sum();
    let stale = rows.iter().any(|row| row.way.may_be_stale());
    assert!(returned > 0 || !stale, "no stale write brought poison back, so that was not tested");
    // The last reshape of each file happens after all writers have ended.
    let reshaped: usize = rows.iter().map(|row| row.reshaped).sum();
    let reshapes = probe(below).rung == Rung::Lease;
    // Some further reshapes must happen while writers write, but a loaded machine leaves little
    // time for them (51 beside the last 125, with four programs a processor), and so may a single
    // kind of writer.
    let last = rows.len() * ops / PER_FILE;
    let more = if rows.len() > SOME.len() { last / 8 } else { 0 };
    let meant = if reshapes { last + more } else { 0 };
    assert!(
      reshaped >= meant,
      "the daemon rewrote files {reshaped} times only, {meant} were meant"
    );
  }
}

#[test]
fn openclaws_own_writers_lose_nothing_and_meet_no_error() {
  if helper::node().is_none() {
    eprintln!("SKIPPED: no race with node: nothing was prepared with tests/node/prepare.sh");
    return;
  }
  race(Path::new("/tmp"), Way::NODE.to_vec(), number(OPS).unwrap_or(FEW));
}

/// Runs a cell for each writer, as many at a time as there are processors, and prints the table.
fn race(below: &Path, mut ways: Vec<Way>, ops: usize) -> Vec<Row> {
  let only = env::var(ONLY).unwrap_or_default();
  ways.retain(|way| way.name().starts_with(&only));
  ways.reverse();
  let seed = Random::new().seed;
  let (queue, rows) = (Mutex::new(ways), Mutex::new(Vec::new()));
  let n_threads = thread::available_parallelism().map_or(1, usize::from).min(4);
  thread::scope(|scope| {
    for _ in 0..n_threads {
      scope.spawn(|| {
        loop {
          let next = queue.lock().unwrap().pop();
          let Some(way) = next else { break };
          let row = cell::run(below, way, ops, seed ^ way as u64);
          rows.lock().unwrap().push(row);
        }
      });
    }
  });
  let mut rows = rows.into_inner().unwrap();
  rows.sort_by_key(|row| row.way as u8);
  let found = probe(below);
  println!("\non {}, {ops} blocks a writer:\n{}", found.description, Row::head());
  for row in &rows {
    println!("{row}");
  }
  let failed: Vec<&str> =
    rows.iter().filter(|row| !row.is_clean()).map(|row| row.way.name()).collect();
  assert!(failed.is_empty(), "{} on {}", failed.join(", "), found.fs_type);
  rows
}

fn number(name: &str) -> Option<usize> {
  env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Runs a control against one kind of writer until it has lost text.
fn must_lose(control: Control, way: Way) {
  let mut blocks = 0;
  let mut lost = 0;
  while lost == 0 {
    assert!(blocks < PATIENCE, "{control:?} lost nothing of {blocks} blocks ({})", way.name());
    let temp: PathBuf = "/tmp".into();
    let dir = tempfile::Builder::new().prefix("memfw-").tempdir_in(temp).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
      let cleaner = scope.spawn(|| control::clean(control, dir.path(), &stop));
      let written = cell::write(way, dir.path(), PER_FILE * 4, blocks as u64 + 1);
      stop.store(true, Ordering::Release);
      let taken = cleaner.join().unwrap();
      lost = control::lost(&written, way, &taken);
    });
    blocks += PER_FILE * 4;
  }
  println!("{control:?} lost {lost} of {blocks} blocks ({})", way.name());
}

#[test]
fn replacing_by_rename_loses() {
  must_lose(Control::Rename, Way::Append);
  must_lose(Control::Rename, Way::Held);
}

#[test]
fn replacing_by_rename_under_a_lease_loses() {
  must_lose(Control::LeaseAndRename, Way::Append);
  must_lose(Control::LeaseAndRename, Way::Chunks);
}
