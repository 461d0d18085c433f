//! The daemon is killed at any moment while others write: no text is lost or doubled, and no poison
//! is left.

#[cfg(all(debug_assertions, linux))]
mod live;
#[cfg(all(debug_assertions, linux))]
mod points;
#[cfg(all(debug_assertions, linux))]
mod restores;

#[cfg(all(debug_assertions, linux))]
pub(crate) use live::{Kind, Pen};

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
/// Between two writes of one writer, at most; less where a start of the daemon takes less.
const LONGEST_PACE: Duration = Duration::from_millis(80);
/// Longest life of a daemon in microseconds: for one half of them from the moment it guards, for
/// the other from its start.
const LIFE: u64 = 250_000;
/// Starts of a daemon that is killed within [`AFTERMATH`] microseconds after a write.
const ROUNDS: usize = 30;
const AFTERMATH: u64 = 12_000;
const MODULUS: usize = 5;

fn is_poison(n: usize) -> bool {
  n % MODULUS == MODULUS - 1
}

/// The text of one write: a list item of its own.
fn text(n: usize) -> String {
  if is_poison(n) { poison(n) } else { clean(n) }
}

/// Writes every second number to a file, one each `time`; counts what was confirmed.
fn write(file: &Path, writer: Writer, first: usize, time: Duration, confirmed: &AtomicUsize) {
  for n in (first..WRITES).step_by(2) {
    let started = Instant::now();
    writer.add(file, format!("{}\n", text(n)).as_bytes());
    confirmed.fetch_add(1, Ordering::SeqCst);
    pace(time.saturating_sub(started.elapsed()));
  }
}

/// Kills and restarts the daemon while two writers write, each to its own file.
fn assert_survives(config: &str, writers: [Writer; 2]) {
  let files = ["MEMORY.md", "memory/2026-11-22.md"];
  let mut guarded = Guarded::new(config);
  for file in files {
    guarded = guarded.memory(file, "# Notes\n\n- old\n");
  }
  // The baseline is adopted before anyone writes: text from before that is no memory of an agent.
  let before = Instant::now();
  guarded.start();
  let start_up = before.elapsed();
  let time = start_up.min(LONGEST_PACE);
  let mut random = Random::new();
  let confirmed = AtomicUsize::new(0);
  let mut kills = 0;
  std::thread::scope(|scope| {
    for (at, writer) in writers.into_iter().enumerate() {
      let path = guarded.path(files[at]);
      let confirmed = &confirmed;
      scope.spawn(move || write(&path, writer, at, time, confirmed));
    }
    while confirmed.load(Ordering::SeqCst) < WRITES {
      if random.below(2) == 0 {
        guarded.wait_until_started();
      }
      pace(Duration::from_micros(random.below(LIFE)));
      guarded.kill();
      kills += 1;
      guarded.spawn();
    }
  });
  guarded.kill();
  guarded.start();
  guarded.settle();
  let seed = random.seed;
  let count =
    |kind: &str| guarded.json(&["audit", "--event", kind, "--json"]).as_array().unwrap().len();
  let (starts, recovered) = (count("started"), count("recovered"));
  println!(
    "{kills} kills, {starts} complete starts, {recovered} operations recovered, seed {seed}"
  );
  assert!(kills > 5 && starts > 3, "{kills} kills, {starts} starts, seed {seed}");
  check(&mut guarded, &files, WRITES, seed);
}

/// Checks that every text is in its place, and after an approval in its file again.
fn check(guarded: &mut Guarded, files: &[&str], writes: usize, seed: u64) {
  let all: Vec<u8> = guarded.files().into_values().flatten().collect();
  assert!(!all.contains(&0), "NUL bytes, seed {seed}");
  for file in files {
    marks::assert_well_formed(&guarded.read(file));
  }
  let sealed = guarded.sealed();
  for n in 0..writes {
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
  assert_eq!(sealed.len(), writes / MODULUS, "seed {seed}");
  guarded.approve_all();
  guarded.settle();
  guarded.stop();
  let all: Vec<u8> = guarded.files().into_values().flatten().collect();
  for n in 0..writes {
    let found = marks::count(&all, text(n).as_bytes());
    assert_eq!(found, 1, "after approval `{}` is there {found} times, seed {seed}", text(n));
  }
}

#[test]
#[cfg(not(debug_assertions))]
fn the_product_has_no_failpoints() {
  let program = std::fs::read(env!("CARGO_BIN_EXE_memfw")).unwrap();
  for name in ["MEMFW_FAILPOINT", "MEMFW_UNSAFE_LEDGER", "redact-after-journal"] {
    assert!(marks::find(&program, name.as_bytes()).is_none(), "`{name}` is in the program");
  }
  // The files that must be there, so that this test can fail.
  assert!(marks::find(&program, b"MEMFW_HOME").is_some());
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
fn killed_in_the_middle_of_what_a_write_sets_off() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n\n- old\n");
  let mut random = Random::new();
  for round in 0..ROUNDS {
    guarded.start();
    let texts: Vec<String> =
      (0..MODULUS).map(|n| format!("{}\n", text(round * MODULUS + n))).collect();
    // All except the writer that closes the file half-way, whose poison may arrive in parts.
    let writer = Writer::ALL[round % (Writer::ALL.len() - 1)];
    if round % 2 == 0 {
      writer.add(&guarded.path("MEMORY.md"), texts.concat().as_bytes());
    } else {
      // Poison first, so that memfw takes it out while more is written.
      for text in texts.iter().rev() {
        writer.add(&guarded.path("MEMORY.md"), text.as_bytes());
      }
    }
    pace(Duration::from_micros(random.below(AFTERMATH)));
    guarded.kill();
  }
  guarded.start();
  guarded.settle();
  check(&mut guarded, &["MEMORY.md"], ROUNDS * MODULUS, random.seed);
}

#[test]
fn a_kill_between_two_writes_leaves_nothing_open() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n");
  guarded.start();
  guarded.kill();
  // Written while no daemon guards; a reader sees it until the next start, and not longer.
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
