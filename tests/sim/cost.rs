//! What a call of the engine costs, so that one that would make a daemon wait is found without a real clock.
//!
//! The costs are those of the machine of docs/adr/0002, rounded up; what counts is that they are the same each time.
#![forbid(unsafe_code)]

use super::{stage::Log, world::World};

/// The longest that one call of the daemon's engine may take, in microseconds.
pub(crate) const LIMIT: i64 = 50_000;
/// A commit that waits for the disk, and one that does not.
const SYNCED: i64 = 600;
const SEEN: i64 = 15;

/// What a system call costs, in microseconds, without the bytes that it moves.
fn of_call(name: &str) -> i64 {
  match name {
    "fsync" | "create" => 500,
    "open" | "find" | "truncate" => 5,
    _ => 2,
  }
}

/// What it costs to read, to parse and to judge so many bytes: a first scan of 40 MB takes 3.2 s.
pub(crate) fn of_bytes(n: usize) -> i64 {
  n as i64 * 80 / 1000
}

/// Commits so far: all, and those that waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits(u64, u64);

impl Commits {
  pub(crate) fn of(log: &Log) -> Self {
    Self(log.commits(), log.synced())
  }

  /// What those since then cost.
  pub(crate) fn since(self, log: &Log) -> i64 {
    let now = Self::of(log);
    let (all, synced) = (now.0.saturating_sub(self.0) as i64, now.1.saturating_sub(self.1) as i64);
    synced * SYNCED + (all - synced).max(0) * SEEN
  }
}

impl World {
  /// The engine makes a system call.
  pub(crate) fn costs(&mut self, name: &str) {
    if self.twists.any {
      let micros = of_call(name);
      self.clock.works(micros);
      self.clock.advance(micros);
    }
  }

  /// The engine reads and judges so many bytes.
  pub(crate) fn costs_bytes(&mut self, n: usize) {
    if self.twists.any {
      self.clock.works(of_bytes(n));
      self.clock.advance(of_bytes(n));
    }
  }

  /// One call of the daemon's engine is over.
  pub(crate) fn judge_work(&mut self, commits: Commits) {
    let work = self.clock.take_work() + commits.since(&self.oracle.stage.log);
    if !self.twists.any || self.oracle.for_person {
      return;
    }
    if work > LIMIT {
      self.oracle.violation(format!("L3: one call of the engine took {work} µs"));
    }
    let size = match work {
      0..1_000 => "a call below 1 ms",
      1_000..5_000 => "a call below 5 ms",
      5_000..20_000 => "a call below 20 ms",
      _ => "a call of 20 ms and more",
    };
    self.tally.count(size);
  }
}
