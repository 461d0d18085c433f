//! The daemon dies at any moment while others write: nothing is lost, nothing doubled, no poison left.

use {
  crate::support::{
    AT_ONCE, Guarded, Random, Writer, clean, eventually, marks, needle, pace, poison,
  },
  std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
  },
};

/// Writes in all; each fifth is poison.
const WRITES: usize = 200;
/// Time between two writes of one writer. Both together last some seconds and meet dozens of kills.
const PACE: Duration = Duration::from_millis(40);
/// Longest life of a daemon; shorter than its start-up on a slow machine, longer on a fast one.
const LIFE_MS: u64 = 160;
const MODULUS: usize = 5;

fn is_poison(n: usize) -> bool {
  n % MODULUS == MODULUS - 1
}

/// What one writer adds: a list item of its own.
fn text(n: usize) -> String {
  if is_poison(n) { poison(n) } else { clean(n) }
}

/// Writes every second number to a file; counts what was confirmed.
fn write(file: &Path, writer: Writer, first: usize, confirmed: &AtomicUsize) {
  for n in (first..WRITES).step_by(2) {
    let started = Instant::now();
    writer.add(file, format!("{}\n", text(n)).as_bytes());
    confirmed.fetch_add(1, Ordering::SeqCst);
    pace(PACE.saturating_sub(started.elapsed()));
  }
}

/// Kills and restarts the daemon while two writers write, each to its own file.
fn assert_survives(config: &str, writers: [Writer; 2]) {
  let files = ["MEMORY.md", "memory/2026-11-22.md"];
  let mut guarded = Guarded::new(config);
  for file in files {
    guarded = guarded.memory(file, "# Notes\n\n- old\n");
  }
  // The baseline is adopted in peace: what is written before that is no memory of an agent.
  guarded.start();
  let mut random = Random::new();
  let confirmed = AtomicUsize::new(0);
  let mut kills = 0;
  std::thread::scope(|scope| {
    for (at, writer) in writers.into_iter().enumerate() {
      let path = guarded.path(files[at]);
      let confirmed = &confirmed;
      scope.spawn(move || write(&path, writer, at, confirmed));
    }
    while confirmed.load(Ordering::SeqCst) < WRITES {
      pace(Duration::from_micros(random.below(LIFE_MS * 1000)));
      guarded.kill();
      kills += 1;
      guarded.spawn();
    }
  });
  guarded.kill();
  guarded.start();
  guarded.settle();
  let seed = random.seed;
  println!("{kills} kills, seed {seed}");
  assert!(kills > 10, "only {kills} kills, seed {seed}");
  check(&guarded, &files, seed);
  guarded.approve_all();
  guarded.settle();
  guarded.stop();
  let all: Vec<u8> = guarded.files().into_values().flatten().collect();
  for n in 0..WRITES {
    let found = marks::count(&all, text(n).as_bytes());
    assert_eq!(found, 1, "after approval `{}` is there {found} times, seed {seed}", text(n));
  }
}

fn check(guarded: &Guarded, files: &[&str], seed: u64) {
  let all: Vec<u8> = guarded.files().into_values().flatten().collect();
  assert!(!all.contains(&0), "NUL bytes, seed {seed}");
  for file in files {
    marks::assert_well_formed(&guarded.read(file));
  }
  let sealed = guarded.sealed();
  for n in 0..WRITES {
    if is_poison(n) {
      let left = marks::count(&all, needle(n).as_bytes());
      assert_eq!(left, 0, "poison {n} is left, seed {seed}");
      let held: BTreeMap<_, _> =
        sealed.iter().filter(|(_, text)| text.contains(&needle(n))).collect();
      assert_eq!(held.len(), 1, "poison {n} in quarantine: {held:#?}, seed {seed}");
    } else {
      let found = marks::count(&all, clean(n).as_bytes());
      assert_eq!(found, 1, "`{}` is there {found} times, seed {seed}", clean(n));
    }
  }
  assert_eq!(sealed.len(), WRITES / MODULUS, "seed {seed}");
}

#[test]
fn killed_while_others_append_and_rewrite() {
  assert_survives(AT_ONCE, [Writer::Shell, Writer::Truncate]);
}

#[test]
fn killed_while_others_write_in_place_and_rename() {
  assert_survives(AT_ONCE, [Writer::InPlace, Writer::Rename]);
}

#[test]
fn a_kill_between_two_writes_leaves_nothing_open() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n");
  guarded.start();
  guarded.kill();
  // Written while nobody guards; a reader sees it until the next start, and not longer.
  let path = guarded.path("MEMORY.md");
  Writer::Shell.add(&path, format!("\n{}\n{}\n", poison(1), clean(1)).as_bytes());
  guarded.start();
  guarded.settle();
  assert!(guarded.holding("workspace", &needle(1)).is_empty());
  assert_eq!(guarded.waiting().len(), 1);
  let before = guarded.read("MEMORY.md");
  for _ in 0..3 {
    guarded.kill();
    guarded.start();
    guarded.settle();
    marks::assert_same(&guarded.read("MEMORY.md"), &before, "MEMORY.md");
  }
  eventually("one item", || guarded.waiting().len() == 1);
  guarded.stop();
}
