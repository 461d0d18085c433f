//! The daemon of a schedule with events: the real queue, and what the daemon does with each outcome
//! (`src/daemon/dispatch.rs`). It looks at a file because an event named it, because it is due again, or once a
//! minute where another program has it open or it is not fully guarded, and for no other reason.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, path::Path, time::Duration};

use memfw::{
  daemon::{
    Queue,
    queue::{Kind, Waiting},
  },
  engine::{EngineError, Hint, LazyOutcome, Outcome, RACY, Target, UNLEASED_AFTER},
  store::FileStatus,
};

use super::{control::Control, events::Heard, fs::ROOT, schedule::Schedule};

/// How often a file is looked at that another program has open, or that is not fully guarded (`open_files.rs`).
const EVERY: Duration = Duration::from_mins(1);
/// How long everything takes at most until it is seen, once nobody writes.
const SEEN_WITHIN: Duration = Duration::from_secs(150);
const MAX_TURNS: usize = 600;
const MAX_CHANGED: usize = 16;
const MAX_BUSY: u32 = 8;
/// The longest step of the clock while nothing is due.
const STEP: Duration = Duration::from_secs(5);
/// After so many passes over a file, and so long, with nothing in the way, its poison is gone: a tool's verifying
/// read is waited for, for 3 s, and an incomplete line for half a second.
const PASSES: u32 = 8;
const GONE_WITHIN: Duration = Duration::from_secs(4);
/// The same where the wall clock was set back: the wait begins again when the clock has come to the file's times again,
/// for 6 s at most (`MAX_VERIFY_WAIT`).
const GONE_WITHIN_JUMPS: Duration = Duration::from_secs(7);

/// What the daemon remembers; a restart forgets it.
#[derive(Debug, Default)]
pub(super) struct SimDaemon {
  queue: Queue,
  open: BTreeMap<Target, (Duration, Kind)>,
  noted: BTreeMap<Target, Duration>,
  is_outage: bool,
  /// Since when poison is in a file although nothing is in the way, and how many passes it has outlasted.
  stays: BTreeMap<Target, (Duration, u32)>,
}

impl SimDaemon {
  fn next_due(&self, now: Duration) -> Option<Duration> {
    let polls = self.open.values().map(|(due, _)| due).chain(self.noted.values()).min();
    let polls = polls.map(|due| due.saturating_sub(now));
    [self.queue.next_due(now, &[]), polls].into_iter().flatten().min()
  }

  fn is_idle(&self) -> bool {
    self.queue.is_empty() && self.open.is_empty() && self.noted.is_empty()
  }
}

impl Schedule<'_> {
  pub(super) fn has_events(&self) -> bool {
    self.world.borrow().heard.is_some()
  }

  /// Every file is dirty, as after a start.
  pub(super) fn all_dirty(&mut self) {
    let now = self.clock.elapsed();
    for target in &self.targets {
      self.daemon.queue.dirty(target.clone(), now);
    }
  }

  /// The daemon forgets what it had to do.
  pub(super) fn forget_daemon(&mut self) {
    self.daemon = SimDaemon::default();
    if let Some(heard) = &mut self.world.borrow_mut().heard {
      heard.clear();
    }
  }

  fn listen(&mut self) {
    let now = self.clock.elapsed();
    let heard = self.world.borrow_mut().heard.as_mut().map(std::mem::take).unwrap_or_default();
    let targets = self.targets.clone();
    let known = |path: &Path| targets.iter().find(|target| target.path() == path).cloned();
    for event in heard {
      match event {
        Heard::Dirty(path) => {
          if let Some(target) = known(&path) {
            self.daemon.queue.dirty(target, now);
          }
        }
        Heard::Released(path) => {
          if let Some(target) = known(&path)
            && let Some((_, kind)) = self.daemon.open.get(&target).copied()
          {
            self.retry(kind, target);
          }
        }
        Heard::Rescan => {
          for target in &targets {
            self.daemon.queue.dirty(target.clone(), now);
          }
        }
      }
    }
    let open: Vec<_> = self
      .daemon
      .open
      .iter()
      .filter(|(_, (due, _))| *due <= now)
      .map(|(t, (_, kind))| (*kind, t.clone()))
      .collect();
    for (kind, target) in open {
      self.daemon.open.remove(&target);
      self.retry(kind, target);
    }
    let ignores = self.world.borrow().control == Control::NoPoll;
    let due: Vec<Target> =
      self.daemon.noted.iter().filter(|(_, due)| **due <= now).map(|(t, _)| t.clone()).collect();
    for target in due {
      self.daemon.noted.insert(target.clone(), now + EVERY);
      if !ignores {
        self.world.borrow_mut().note("looked at because it is not fully guarded");
        self.daemon.queue.dirty(target, now);
      }
    }
  }

  fn retry(&mut self, kind: Kind, target: Target) {
    let now = self.clock.elapsed();
    match kind {
      Kind::Lazy => self.daemon.queue.reshape(target, now),
      _ => self.daemon.queue.dirty(target, now),
    }
  }

  /// One turn of the daemon's loop; where nothing is due, time goes by.
  pub(super) fn turn(&mut self) {
    self.listen();
    let now = self.clock.elapsed();
    match self.daemon.queue.take(now, &[]) {
      Some((Kind::Urgent, target, waiting)) => self.urgent(target, waiting),
      Some((Kind::Lazy, target, waiting)) => self.lazy_turn(target, waiting),
      Some(_) => {}
      None => {
        let n = self.world.borrow().intensity;
        self.world.borrow_mut().run(n);
        let wait = self.daemon.next_due(now).unwrap_or(Duration::from_millis(10)).min(STEP);
        self.clock.advance(wait.as_micros() as i64 + 1);
      }
    }
  }

  fn urgent(&mut self, target: Target, waiting: Waiting) {
    let (mut pause, mut n_changed) = (Duration::from_micros(50), 0);
    loop {
      let began = self.clock.elapsed();
      let opened_since_close =
        self.world.borrow().opened.get(&target.path()).copied().unwrap_or(false);
      let waited = began.saturating_sub(waiting.since);
      let hint = Hint { waited, opened_since_close, ..Hint::default() };
      let Some(outcome) = self.pass_with(&target, &hint) else { return };
      let now = self.clock.elapsed();
      match outcome {
        Ok(Outcome::Busy) if now.saturating_sub(waiting.since) < UNLEASED_AFTER => {
          self.clock.advance(pause.as_micros() as i64);
          let n = self.world.borrow().intensity;
          self.world.borrow_mut().run(n);
          pause = pause.saturating_mul(2);
        }
        Ok(Outcome::Changed) if n_changed < MAX_CHANGED => n_changed += 1,
        outcome => return self.passed(target, waiting, outcome, opened_since_close),
      }
    }
  }

  fn passed(
    &mut self,
    target: Target,
    waiting: Waiting,
    outcome: Result<Outcome, EngineError>,
    was_opened: bool,
  ) {
    self.judge_stay(&target);
    let now = self.clock.elapsed();
    if let Ok(outcome) = &outcome {
      self.succeeded(*outcome != Outcome::Unsealed);
    }
    match outcome {
      Err(EngineError::Root(_)) => self.forget_root(),
      Err(error) => {
        self.daemon.is_outage |= matches!(&error, EngineError::Store(error) if error.is_outage());
        self.daemon.queue.back_off(Kind::Urgent, target, waiting, now);
      }
      Ok(Outcome::Busy | Outcome::Changed | Outcome::HeldOpen) => {
        self.daemon.queue.back_off(Kind::Urgent, target, waiting, now);
      }
      Ok(Outcome::HoldOff(wait)) => {
        if was_opened {
          self.daemon.queue.await_reader(target, waiting, wait, now);
        } else {
          self.daemon.queue.put_off(Kind::Urgent, target, waiting, now + wait);
        }
      }
      Ok(Outcome::Done { reshape_due, recheck } | Outcome::Unchanged { reshape_due, recheck }) => {
        if recheck {
          let wait = self.ask(|engine| engine.settles_in(&target)).and_then(Result::ok);
          self.daemon.queue.dirty(target.clone(), now + wait.unwrap_or(RACY));
        }
        self.clear(&target);
        self.reshape_later(target, reshape_due);
      }
      Ok(Outcome::StillOpen { reshape_due }) => {
        self.clear(&target);
        self.daemon.open.insert(target.clone(), (now + EVERY, Kind::Urgent));
        self.reshape_later(target, reshape_due);
      }
      Ok(Outcome::Gone) => {
        if let Some(engine) = &mut self.engine {
          engine.files().close_root(Path::new(ROOT));
        }
        self.clear(&target);
      }
      Ok(Outcome::Unscannable) => self.clear(&target),
      Ok(Outcome::Unsealed) => {}
    }
  }

  /// The ledger can be written again: what was missed meanwhile is looked for.
  fn succeeded(&mut self, is_written: bool) {
    if is_written && std::mem::take(&mut self.daemon.is_outage) {
      self.all_dirty();
    }
  }

  fn reshape_later(&mut self, target: Target, is_due: bool) {
    if is_due && let Some(engine) = &self.engine {
      let due = self.clock.elapsed() + engine.config().reshape_idle;
      self.daemon.queue.reshape(target, due);
    }
  }

  /// A file was looked at; one that is not fully guarded is checked again.
  fn clear(&mut self, target: &Target) {
    self.daemon.open.remove(target);
    self.daemon.queue.ended(target);
    let row =
      self.engine.as_ref().and_then(|engine| engine.ledger().file(&target.path()).ok().flatten());
    if row.is_some_and(|row| row.note.is_some() && row.status != FileStatus::Missing) {
      let due = self.clock.elapsed() + EVERY;
      self.daemon.noted.insert(target.clone(), due);
    } else {
      self.daemon.noted.remove(target);
    }
  }

  fn lazy_turn(&mut self, target: Target, waiting: Waiting) {
    let Some(idle) = self.engine.as_ref().map(|engine| engine.config().reshape_idle) else {
      return;
    };
    let now = self.clock.elapsed();
    if self.daemon.queue.is_dirty(&target) {
      return self.daemon.queue.reshape(target, now + idle.max(RACY));
    }
    let Some(outcome) = self.lazy(&target) else { return };
    let now = self.clock.elapsed();
    match outcome {
      Ok(LazyOutcome::Done) => {
        if matches!(self.daemon.open.get(&target), Some((_, Kind::Lazy))) {
          self.daemon.open.remove(&target);
        }
      }
      Ok(LazyOutcome::NotIdle(rest)) => self.daemon.queue.reshape(target, now + rest),
      Ok(LazyOutcome::Busy) if waiting.tries >= MAX_BUSY => {
        if !matches!(self.daemon.open.get(&target), Some((_, Kind::Urgent))) {
          self.daemon.open.insert(target, (now + EVERY, Kind::Lazy));
        }
      }
      Ok(LazyOutcome::Dirty) => self.daemon.queue.dirty(target, now),
      Err(EngineError::Root(_)) => self.forget_root(),
      Ok(LazyOutcome::Busy | LazyOutcome::NotBack) | Err(_) => {
        self.daemon.queue.back_off(Kind::Lazy, target, waiting, now);
      }
    }
  }

  /// Poison whose writer is gone must be gone itself after some passes, if nothing is in the way.
  fn judge_stay(&mut self, target: &Target) {
    let now = self.clock.elapsed();
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    let content = world.content_of(&target.path()).unwrap_or_default().to_vec();
    let is_free = content.len() as u64 <= world.max_bytes && world.is_free(&target.path());
    if !is_free || !world.oracle.has_poison(&world.book, &content) {
      self.daemon.stays.remove(target);
      return;
    }
    let (since, n) = self.daemon.stays.entry(target.clone()).or_insert((now, 0));
    *n += 1;
    let within = if world.n_jumps > 0 { GONE_WITHIN_JUMPS } else { GONE_WITHIN };
    if *n > PASSES && now.saturating_sub(*since) > within {
      let text = format!("L2: poison stands for {n} passes with nothing in the way");
      world.oracle.violation(text);
    }
  }

  /// Goes on as the daemon does until it has nothing to do.
  pub(super) fn settle_by_turns(&mut self) {
    let end = self.clock.elapsed() + SEEN_WITHIN;
    for _ in 0..MAX_TURNS {
      let is_quiet = self.world.borrow().heard.as_ref().is_none_or(Vec::is_empty);
      if is_quiet && self.daemon.is_idle() || self.clock.elapsed() > end || self.engine.is_none() {
        return;
      }
      self.turn();
    }
    self.world.borrow_mut().oracle.violation("L4: the daemon never comes to rest");
  }
}
