//! Large files and many files: small ones do not wait for them, the daemon ends when it is told to, and its memory is
//! bounded. Before, 600 kB of blocks of one letter delayed all else by 30 s, 3 MB took 1.8 GB, and a SIGTERM was
//! ignored for minutes; the limits here leave room for a loaded machine.
#![cfg(all(debug_assertions, linux))]

use {
  crate::support::{Guarded, NEVER, Writer, pace, poison},
  rustix::process::Signal,
  std::{
    fs,
    time::{Duration, Instant},
  },
};

/// How long a small file, or the end of the daemon, may take beside the others.
const SOON: Duration = Duration::from_secs(15);
/// The most memory of the test build, in kB: an optimised one takes a good half of it.
const MOST_KB: u64 = 500_000;

fn guarded() -> Guarded {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n");
  guarded = guarded.memory("memory/2026-11-19.md", "# Day\n");
  guarded.start();
  guarded
}

/// The most memory that the daemon has had, in kB.
fn peak_kb(guarded: &Guarded) -> u64 {
  let status = fs::read_to_string(format!("/proc/{}/status", guarded.pid())).unwrap();
  let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
  line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Adds poison to a small file and waits until it is out.
fn assert_leaves_soon(guarded: &Guarded) {
  let file = guarded.path("MEMORY.md");
  let started = Instant::now();
  Writer::Shell.add(&file, format!("\n{}\n", poison(1)).as_bytes());
  while fs::read_to_string(&file).unwrap().contains(&poison(1)) {
    assert!(started.elapsed() < SOON, "the poison is in its file after {:?}", started.elapsed());
    pace(Duration::from_millis(2));
  }
}

/// Ends the daemon in the middle of its work.
fn assert_ends_soon(guarded: &mut Guarded) {
  guarded.signal(Signal::TERM);
  assert!(guarded.ends_within(SOON), "it goes on after SIGTERM");
  guarded.stop();
}

#[test]
fn a_small_file_does_not_wait_for_a_large_one_of_tiny_blocks() {
  let mut guarded = guarded();
  // One that has more blocks than the ledger takes of a file, and one that has as many as it takes.
  for (file, n) in [("memory/2026-11-20.md", 1_000_000), ("memory/2026-11-21.md", 50_000)] {
    Writer::Shell.add(&guarded.path(file), "a\n\n".repeat(n).as_bytes());
  }
  assert_leaves_soon(&guarded);
  assert_ends_soon(&mut guarded);
}

#[test]
fn large_files_do_not_fill_the_memory_of_the_daemon() {
  let mut guarded = guarded();
  for (file, text) in [
    ("memory/2026-11-20.md", "a\n\n".repeat(1_000_000)),
    ("memory/2026-11-21.md", "- a note of some words about nothing\n".repeat(80_000)),
    ("memory/2026-11-22.md", "a word and ".repeat(270_000)),
  ] {
    Writer::Shell.add(&guarded.path(file), text.as_bytes());
  }
  guarded.settle();
  let kb = peak_kb(&guarded);
  assert!(kb < MOST_KB, "{kb} kB");
  guarded.stop();
}

#[test]
fn a_file_does_not_wait_for_thousands_of_new_ones() {
  let mut guarded = guarded();
  let dir = guarded.path("memory");
  for n in 0..3_000 {
    let text = format!("# Note {n}\n\n- a note of some words about {n}\n");
    fs::write(dir.join(format!("note-{n}.md")), text).unwrap();
  }
  assert_leaves_soon(&guarded);
  assert_ends_soon(&mut guarded);
}
