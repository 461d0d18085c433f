//! The file protocol under a deterministic simulation: the real engine and a real ledger on a
//! simulated disk, among writers that know of no protocol, with kills and power losses at any call.
//!
//! Variables of the environment: `MEMFW_SIM_SCHEDULES` (how many), `MEMFW_SIM_SEED` (one seed, or the
//! first of them when the number is given as well), `MEMFW_SIM_TRACE=1` (print what happened),
//! `MEMFW_SIM_THREADS`, `MEMFW_SIM_SECONDS` (begin no schedule after that time; how many there were
//! is printed). A failure prints the seed that repeats it.
#![forbid(unsafe_code)]

mod book;
mod clock;
mod disk;
mod ending;
mod fs;
mod log;
mod oracle;
mod rng;
mod schedule;
mod world;
mod writer;

use std::{env, thread, time::Instant};

use schedule::{Stage, Tally, run};
use world::Control;

/// So many that `cargo test` hardly notices.
const FEW: u64 = 150;
/// Enough for each control to fail several times.
const CONTROLS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
  env::var(name).ok().map(|text| text.parse().expect(name))
}

fn traced() -> bool {
  env::var_os("MEMFW_SIM_TRACE").is_some()
}

/// Runs schedules on some threads; what was done, and the first failures with their seeds.
fn schedules(first: u64, n: u64, control: Control) -> (Tally, Vec<(u64, Vec<String>)>) {
  let n_threads = number("MEMFW_SIM_THREADS")
    .unwrap_or_else(|| thread::available_parallelism().map_or(1, |n| n.get() as u64))
    .min(n);
  let traced = traced();
  let (start, limit) = (Instant::now(), number("MEMFW_SIM_SECONDS"));
  let results: Vec<_> = thread::scope(|scope| {
    let threads: Vec<_> = (0..n_threads)
      .map(|thread| {
        scope.spawn(move || {
          let stage = Stage::new();
          let (mut tally, mut failures) = (Tally::default(), Vec::new());
          for seed in (first + thread..first + n).step_by(n_threads as usize) {
            match run(seed, control, &stage, traced) {
              Ok(done) => tally.add(&done),
              Err(found) => failures.push((seed, found)),
            }
            if failures.len() > 20 || limit.is_some_and(|limit| start.elapsed().as_secs() >= limit)
            {
              break;
            }
          }
          (tally, failures)
        })
      })
      .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
  });
  let mut all = (Tally::default(), Vec::new());
  for (tally, failures) in results {
    all.0.add(&tally);
    all.1.extend(failures);
  }
  all.1.sort();
  all
}

#[test]
fn nothing_is_lost_in_any_schedule() {
  let seed = number("MEMFW_SIM_SEED");
  let n = number("MEMFW_SIM_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { FEW });
  let start = Instant::now();
  let (tally, failures) = schedules(seed.unwrap_or(0), n, Control::None);
  let seconds = start.elapsed().as_secs_f64();
  println!("{tally:?}");
  println!("{:.0} schedules a second", tally.schedules as f64 / seconds);
  for (seed, found) in &failures {
    println!("MEMFW_SIM_SEED={seed} fails:");
    for line in found.iter().take(if traced() { usize::MAX } else { 5 }) {
      println!("  {line}");
    }
  }
  assert!(failures.is_empty(), "{} schedules of {n} fail", failures.len());
}

/// A simulation that finds nothing proves nothing: here something is broken on purpose, and the
/// schedules go on until it is found out.
fn must_fail(control: Control, with: &str) {
  let stage = Stage::new();
  let found = (0..CONTROLS).any(|seed| {
    let found = run(seed, control, &stage, false).err().unwrap_or_default();
    found.iter().any(|line| line.contains(with))
  });
  assert!(found, "{control:?}: nothing like {with:?} in {CONTROLS} schedules");
}

#[test]
fn a_comparison_that_sees_nothing_is_found_out() {
  must_fail(Control::BlindComparison, "is overwritten and nowhere else");
}

#[test]
fn a_ledger_that_forgets_is_found_out() {
  must_fail(Control::ForgetfulLedger, "is lost");
}

#[test]
fn a_writer_between_comparison_and_write_is_found_out() {
  must_fail(Control::OpenGap, "I2");
}
