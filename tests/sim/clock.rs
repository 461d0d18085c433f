//! The clocks of a schedule, which advance with each call, and the fuse that ends the engine.
#![forbid(unsafe_code)]

use std::{
  panic::resume_unwind,
  sync::atomic::{AtomicBool, AtomicI64, Ordering},
  time::Duration,
};

use memfw::os::Clock;

/// What unwinds through the engine when it is killed. Nothing but destructors runs then, and those
/// do what the kernel does for a dead process: descriptors, leases and locks go, transactions that
/// were not committed are rolled back.
pub(crate) struct Killed;

/// 2026-03-01, in microseconds.
const START: i64 = 1_772_323_200_000_000;

/// Both clocks of a schedule. Each reading is a call of the engine at which it may be killed.
pub(crate) struct SimClock {
  wall: AtomicI64,
  monotonic: AtomicI64,
  /// Calls until the engine is killed; 0: never.
  fuse: AtomicI64,
  /// Whether the engine waited since the last call: others had all the time they wanted.
  paused: AtomicBool,
  /// Whether the fuse burnt down in a reading of the clock.
  killed: AtomicBool,
  /// What the engine has cost since this was taken last, in microseconds: its calls, what it read and judged, and
  /// what it waited for.
  work: AtomicI64,
  /// How many times as long the engine waits as it meant to.
  slowness: AtomicI64,
}

impl SimClock {
  pub(crate) fn new() -> Self {
    Self {
      wall: AtomicI64::new(START),
      monotonic: AtomicI64::new(1_000_000),
      fuse: AtomicI64::new(0),
      paused: AtomicBool::new(false),
      killed: AtomicBool::new(false),
      work: AtomicI64::new(0),
      slowness: AtomicI64::new(1),
    }
  }

  /// Lets time pass, in microseconds.
  pub(crate) fn advance(&self, micros: i64) {
    self.wall.fetch_add(micros, Ordering::Relaxed);
    self.monotonic.fetch_add(micros, Ordering::Relaxed);
  }

  /// Sets the wall clock forwards or backwards. A machine that sleeps does the same: its monotonic
  /// clock is stopped.
  pub(crate) fn jump(&self, micros: i64) {
    self.wall.fetch_add(micros, Ordering::Relaxed);
  }

  /// The wall clock without its side effects, in microseconds.
  pub(crate) fn wall(&self) -> i64 {
    self.wall.load(Ordering::Relaxed)
  }

  /// The monotonic clock without its side effects.
  pub(crate) fn elapsed(&self) -> Duration {
    Duration::from_micros(self.monotonic.load(Ordering::Relaxed).unsigned_abs())
  }

  /// Kills the engine in its `calls`th call from now on; 0 takes that back.
  pub(crate) fn arm(&self, calls: i64) {
    self.fuse.store(calls, Ordering::Relaxed);
  }

  /// Burns the fuse; whether this is the last call of the engine.
  pub(crate) fn burns_down(&self) -> bool {
    let left = self.fuse.load(Ordering::Relaxed);
    if left > 0 {
      self.fuse.store(left - 1, Ordering::Relaxed);
    }
    left == 1
  }

  /// Whether the engine waited since this was asked last.
  pub(crate) fn take_pause(&self) -> bool {
    self.paused.swap(false, Ordering::Relaxed)
  }

  /// Whether the engine was killed in a reading of the clock since this was asked last.
  pub(crate) fn take_killed(&self) -> bool {
    self.killed.swap(false, Ordering::Relaxed)
  }

  /// The engine works for so long, in microseconds.
  pub(crate) fn works(&self, micros: i64) {
    self.work.fetch_add(micros, Ordering::Relaxed);
  }

  /// What it has worked since this was asked last, in microseconds.
  pub(crate) fn take_work(&self) -> i64 {
    self.work.swap(0, Ordering::Relaxed)
  }

  /// Each pause of the engine takes many times as long.
  pub(crate) fn slow_down(&self) {
    self.slowness.store(1_000, Ordering::Relaxed);
  }

  fn called(&self) {
    self.advance(1);
    if self.burns_down() {
      self.killed.store(true, Ordering::Relaxed);
      resume_unwind(Box::new(Killed));
    }
  }
}

impl Clock for SimClock {
  fn now(&self) -> i64 {
    self.called();
    self.wall()
  }

  fn monotonic(&self) -> Duration {
    self.called();
    self.elapsed()
  }

  fn pause(&self, wait: Duration) {
    self.called();
    let micros = wait.as_micros() as i64 * self.slowness.load(Ordering::Relaxed);
    self.works(micros);
    self.advance(micros);
    self.paused.store(true, Ordering::Relaxed);
  }
}
