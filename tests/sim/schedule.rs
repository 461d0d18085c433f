//! One schedule: a seed decides what the engine is asked to do, by whom it is disturbed, and when it
//! dies; afterwards everybody finishes, and the oracle judges.
#![forbid(unsafe_code)]

use std::{
  cell::RefCell,
  panic::{AssertUnwindSafe, catch_unwind},
  path::Path,
  rc::Rc,
  sync::Arc,
  time::Duration,
};

use memfw::{
  config::{Config, Markers},
  engine::{Consequence, Engine, EngineError, Hint, Target},
  files::Rung,
  provenance::{AgentRecords, NoAgent},
  store::StoreError,
};

use crate::support::Harness;

use super::{
  clock::{Killed, SimClock},
  control::Control,
  cost::Commits,
  daemon::SimDaemon,
  fs::{ROOT, SimFs},
  oracle::Oracle,
  stage::{Stage, Unsynced, Who},
  tally::Tally,
  twist::Kind,
  world::World,
};

/// The memory files of a schedule: mostly one, sometimes two.
const FILES: [&str; 2] = ["MEMORY.md", "memory/2026-03-01.md"];
/// Starts that may fail before something must be wrong.
const ATTEMPTS: usize = 20;

/// Runs the schedule of a seed; the violations, or what was done.
pub(crate) fn run(
  seed: (u64, Kind),
  control: Control,
  stage: &Rc<Stage>,
  traced: bool,
) -> Result<Tally, Vec<String>> {
  let mut schedule = Schedule::new(seed, control, stage, traced);
  schedule.play();
  schedule.judge();
  schedule.end();
  let mut world = schedule.world.borrow_mut();
  let world = &mut *world;
  world.tally.count("schedules");
  world.tally.count_n("calls of the engine", world.n_calls);
  world.tally.count_n("changes by writers", world.n_changes);
  let mut found = world.oracle.violations.clone();
  if found.is_empty() {
    return Ok(std::mem::take(&mut world.tally));
  }
  found.push(format!(
    "({:?}, markers {:?}, file times in steps of {} ns, {:?})",
    world.rung, schedule.config.markers, world.step_ns, world.twists
  ));
  if let Some(trace) = &world.trace {
    found.extend(trace.iter().cloned());
  }
  Err(found)
}

pub(super) struct Schedule<'a> {
  pub(super) world: Rc<RefCell<World>>,
  pub(super) clock: Arc<SimClock>,
  config: Arc<Config>,
  pub(super) targets: Vec<Target>,
  pub(super) engine: Option<Engine<SimFs>>,
  pub(super) stage: &'a Rc<Stage>,
  /// What the daemon has to do, in a schedule with events.
  pub(super) daemon: SimDaemon,
  /// Whether the machine went down since stamps were forgotten.
  lost_power: bool,
}

impl<'a> Schedule<'a> {
  fn new(seed: (u64, Kind), control: Control, stage: &'a Rc<Stage>, traced: bool) -> Self {
    let clock = Arc::new(SimClock::new());
    stage.log.reset();
    match control {
      Control::HastyLedger => stage.log.forget_to_wait(Unsynced::Said),
      Control::ForgetfulLedger => stage.log.forget_to_wait(Unsynced::Hidden),
      Control::LongPauses => clock.slow_down(),
      _ => {}
    }
    let oracle = Oracle::new(Rc::clone(stage));
    let mut world = World::new(seed, control, Arc::clone(&clock), oracle);
    world.trace = traced.then(Vec::new);
    let n_files = if world.rng.one_in(5) { 2 } else { 1 };
    let targets: Vec<Target> =
      FILES[..n_files].iter().map(|name| Target::new(Path::new(ROOT), Path::new(name))).collect();
    world.paths = targets.iter().map(Target::path).collect();
    world.rung = match world.rng.below(10) {
      0 => Rung::NoLease,
      1 => Rung::EqualLengthOnly,
      _ => Rung::Lease,
    };
    let rung = ["rung: ", world.rung.as_str()].concat();
    world.note(&rung);
    let coarse = if world.rng.one_in(4) { 4_000_000 } else { 1 };
    world.step_ns = world.twists.step_ns.unwrap_or(coarse);
    match world.step_ns {
      1_000_000_000 => world.note("file times: seconds"),
      2_000_000_000 => world.note("file times: every second one"),
      _ => {}
    }
    world.disk.holes = world.rng.one_in(4);
    world.book.long = world.twists.tears || world.twists.power;
    world.intensity = *world.rng.pick(&[2, 4, 8, 16]);
    world.budget = 2 + world.rng.below(10);
    world.agent.limit = if world.rng.one_in(8) { Some(400) } else { None };
    let markers = *world.rng.pick(&[Markers::Auto, Markers::Wrap, Markers::Id, Markers::None]);
    let mut config = Config { markers, ..Config::default() };
    if world.rng.one_in(12) {
      config.max_file_bytes = 4096;
    }
    world.max_bytes = config.max_file_bytes;
    let mut this = Self {
      world: Rc::new(RefCell::new(world)),
      clock,
      config: Arc::new(config),
      targets,
      engine: None,
      stage,
      daemon: SimDaemon::default(),
      lost_power: false,
    };
    this.first_files();
    this
  }

  /// One file with this text on a good file system, and nobody else who writes.
  pub(super) fn alone(seed: u64, stage: &'a Rc<Stage>, text: &[u8]) -> Self {
    let mut this = Self::new((seed, Kind::Plain), Control::None, stage, false);
    this.targets.truncate(1);
    this.config = Arc::new(Config { markers: Markers::None, ..Config::default() });
    {
      let mut world = this.world.borrow_mut();
      world.paths.truncate(1);
      (world.rung, world.step_ns, world.intensity, world.budget) = (Rung::Lease, 1, 0, 0);
      (world.max_bytes, world.agent.limit) = (u64::MAX, None);
    }
    this.put(text);
    this
  }

  /// Somebody writes the first file again, durably.
  pub(super) fn put(&mut self, text: &[u8]) {
    self.clock.advance(1_000_000);
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    let (path, now) = (world.paths[0].clone(), world.now_ns());
    let fd = world.disk.open(&path, true, false, now).unwrap();
    let ino = world.disk.ino(fd).unwrap();
    world.disk.truncate(ino, 0, now);
    world.disk.write(ino, 0, text, now);
    world.disk.sync(ino, &world.book);
    world.disk.close(fd);
  }

  /// The content of the first file.
  pub(super) fn text(&self) -> String {
    let world = self.world.borrow();
    let content = world.disk.content(&world.paths[0]).unwrap_or_default();
    String::from_utf8(content.to_vec()).unwrap()
  }

  /// What was there before memfw.
  fn first_files(&mut self) {
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    for path in world.paths.clone() {
      if world.rng.one_in(4) {
        continue;
      }
      let mut n_blocks = if world.rng.one_in(16) { 60 } else { 1 + world.rng.below(6) };
      if world.twists.power {
        n_blocks = 12 + world.twist.below(12);
      }
      let mut text = Vec::new();
      for _ in 0..n_blocks {
        text.extend(world.book.block(&mut world.rng, false));
      }
      let now = world.now_ns();
      let fd = world.disk.open(&path, true, false, now).unwrap();
      let ino = world.disk.ino(fd).unwrap();
      world.disk.write(ino, 0, &text, now);
      world.disk.sync(ino, &world.book);
      world.disk.close(fd);
    }
    world.oracle.expected = world.visible();
  }

  fn play(&mut self) {
    if self.below(2) == 0 {
      let intensity = std::mem::take(&mut self.world.borrow_mut().intensity);
      self.restart(true);
      self.world.borrow_mut().intensity = intensity;
    } else {
      self.restart(false);
    }
    // Mostly short ones: what is wrong shows in few steps, and more of them can be tried.
    let n_actions = if self.below(5) == 0 { 8 + self.below(24) } else { 2 + self.below(8) };
    for _ in 0..n_actions {
      self.act();
      if !self.world.borrow().oracle.violations.is_empty() {
        return;
      }
    }
  }

  /// Leaves nothing that belongs to this schedule in the stage.
  fn end(&mut self) {
    self.world.borrow_mut().unblock();
    self.world.borrow_mut().ledger_comes_back();
    for (what, n) in self.stage.log.recoveries() {
      self.world.borrow_mut().tally.count_n(&format!("recovery: {what}"), n);
    }
    self.drop_engine();
  }

  pub(super) fn below(&self, n: usize) -> usize {
    self.world.borrow_mut().rng.below(n)
  }

  /// Whether something that happens once in `n` times happens.
  pub(super) fn one_in(&self, n: usize) -> bool {
    self.below(n) == 0
  }

  pub(super) fn say(&self, what: impl FnOnce() -> String) {
    self.world.borrow_mut().say(what);
  }

  pub(super) fn any_target(&self) -> Target {
    self.targets[self.below(self.targets.len())].clone()
  }

  /// The process ends, its ledger with it.
  pub(super) fn drop_engine(&mut self) {
    if let Some(engine) = self.engine.take() {
      self.stage.give_back(Who::Daemon, engine.into_ledger());
    }
  }

  pub(super) fn new_engine(&mut self, who: Who) -> Engine<SimFs> {
    // A process that starts finds the ledger in its place.
    self.world.borrow_mut().ledger_comes_back();
    let anew = self.below(60) == 0;
    let (control, agent) = {
      let world = self.world.borrow();
      (world.control, world.agent.clone())
    };
    let agent: Box<dyn AgentRecords> =
      if control == Control::NoRecords { Box::new(NoAgent) } else { Box::new(agent) };
    if control == Control::Renumbered {
      self.stage.log.renumber();
    }
    let fs = SimFs { world: Rc::clone(&self.world), clock: Arc::clone(&self.clock) };
    Harness::with_ledger(fs, self.stage.data(), self.stage.take(who, anew))
      .clock(Arc::clone(&self.clock) as Arc<_>)
      .config(Arc::clone(&self.config))
      .agent(agent)
      .engine()
  }

  pub(super) fn power_loss(&mut self) {
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    world.unblock();
    let n = self.stage.log.lose(&mut world.rng);
    if n > 0 {
      world.note("power loss takes commits");
    }
    world.power_loss();
    self.lost_power = true;
  }

  /// Starts the engine as the daemon does: what was interrupted is ended, then every file is looked
  /// at. It may be killed in that, too.
  pub(super) fn restart(&mut self, adopting: bool) {
    for attempt in 0.. {
      self.drop_engine();
      self.forget_daemon();
      self.say(|| "start".to_owned());
      if attempt < 3 && self.one_in(4) {
        let calls = 1 + self.below(40) as i64;
        self.clock.arm(calls);
      }
      if attempt >= 3 {
        let mut world = self.world.borrow_mut();
        world.unblock();
        world.trouble = None;
      }
      self.engine = Some(self.new_engine(Who::Daemon));
      if self.start(adopting) {
        return;
      }
      if attempt > ATTEMPTS {
        return self.world.borrow_mut().oracle.violation("it never starts");
      }
    }
  }

  fn start(&mut self, adopting: bool) -> bool {
    let was_torn = std::mem::take(&mut self.world.borrow_mut().was_torn);
    match self.world.borrow().control {
      Control::NoRecovery => self.stage.log.strike_out(),
      Control::NoTearRecovery if was_torn => self.stage.log.strike_out(),
      Control::DropsJournal if self.world.borrow().disk.is_away.is_some() => {
        self.stage.log.strike_out();
      }
      _ => {}
    }
    if self.lost_power {
      let forgotten = self.ask(|engine| Ok(engine.ledger_mut().forget_stamps()?));
      self.lost_power = !matches!(forgotten, Some(Ok(())));
    }
    let mut fine = !self.lost_power;
    if fine {
      fine = matches!(self.ask(Engine::recover), Some(Ok(_)));
    }
    if fine {
      if adopting && self.one_in(2) {
        let targets = self.targets.clone();
        let adopted = self.ask(|engine| engine.adopt(&targets));
        self.say(|| format!("adopt: {adopted:?}"));
      }
      if self.has_events() && !adopting {
        // The scan of a start marks what has changed; a pass over the rest finds nothing to do.
        self.all_dirty();
        self.clock.arm(0);
        return self.engine.is_some();
      }
      for target in self.targets.clone() {
        let hint = Hint { waited: Duration::from_secs(1), adopting, ..Hint::default() };
        let outcome = self.ask(|engine| engine.pass(&target, &hint));
        self.say(|| format!("pass at the start: {outcome:?}"));
      }
      if self.has_events() {
        self.all_dirty();
      }
    }
    self.clock.arm(0);
    fine && self.engine.is_some()
  }

  /// Asks the daemon's engine for something. `None`: it was killed.
  pub(super) fn ask<T>(
    &mut self,
    what: impl FnOnce(&mut Engine<SimFs>) -> Result<T, EngineError>,
  ) -> Option<Result<T, EngineError>> {
    let mut engine = self.engine.take()?;
    let commits = Commits::of(&self.stage.log);
    self.clock.take_work();
    let answer = self.carried_out(&mut engine, what);
    self.world.borrow_mut().judge_work(commits);
    if answer.is_some() {
      self.engine = Some(engine);
    } else {
      self.stage.give_back(Who::Daemon, engine.into_ledger());
    }
    answer
  }

  /// Asks another process for something, while the daemon lives. `None`: it was killed.
  pub(super) fn command<T>(
    &mut self,
    what: impl FnOnce(&mut Engine<SimFs>) -> Result<T, EngineError>,
  ) -> Option<Result<T, EngineError>> {
    let mut engine = self.new_engine(Who::Command);
    let answer = self.carried_out(&mut engine, what);
    self.stage.give_back(Who::Command, engine.into_ledger());
    answer
  }

  fn carried_out<T>(
    &mut self,
    engine: &mut Engine<SimFs>,
    what: impl FnOnce(&mut Engine<SimFs>) -> Result<T, EngineError>,
  ) -> Option<Result<T, EngineError>> {
    {
      let mut world = self.world.borrow_mut();
      world.oracle.asked_at = world.n_calls;
      world.oracle.op_at_asking = self.stage.log.last_op();
    }
    let answer = catch_unwind(AssertUnwindSafe(|| what(engine)));
    let mut world = self.world.borrow_mut();
    if self.clock.take_killed() {
      world.note("killed in clock");
    }
    match answer {
      Ok(answer) => {
        if let Err(error) = &answer {
          world.tally.count(match error {
            EngineError::Store(StoreError::Full { .. }) => "error: ledger full",
            EngineError::Store(StoreError::Locked { .. }) => "error: ledger locked",
            EngineError::Store(StoreError::Moved { .. }) => "error: ledger moved",
            EngineError::Root(_) => "error: workspace absent",
            EngineError::Store(_) => "error: ledger",
            EngineError::Fs(_) | EngineError::Open(_) => "error: file system",
            EngineError::Refused { .. } => "error: refused",
            _ => "error: other",
          });
          if error.consequence() == Consequence::Stop {
            world.oracle.violation(format!("the daemon would stop: {error}"));
          }
        }
        Some(answer)
      }
      Err(payload) => {
        if !payload.is::<Killed>() {
          let text = payload.downcast_ref::<String>().cloned();
          let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
          world.oracle.violation(format!("panic: {text:?}"));
        }
        None
      }
    }
  }
}
