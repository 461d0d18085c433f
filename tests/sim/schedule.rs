//! One schedule: a seed decides what the engine is asked to do, by whom it is disturbed, and when it
//! dies; afterwards everybody finishes, and the oracle judges.
#![forbid(unsafe_code)]

use std::{
  cell::RefCell,
  fs,
  panic::{AssertUnwindSafe, catch_unwind},
  path::{Path, PathBuf},
  rc::Rc,
  sync::Arc,
  time::Duration,
};

use memfw::{
  config::{Config, Markers},
  engine::{Consequence, Engine, EngineError, Hint, LazyOutcome, Outcome, Target},
  os::Rung,
  provenance::{NoAgent, State},
  seal::MasterKey,
  store::{Access, Ledger},
};

use super::{
  clock::{Killed, SimClock},
  fs::{ROOT, SimFs},
  log,
  oracle::{KEY, Oracle},
  world::{Control, World},
};

/// The memory files of a schedule: mostly one, sometimes two.
const FILES: [&str; 2] = ["MEMORY.md", "memory/2026-03-01.md"];

/// What a schedule did, so that a run can say that it tried something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
  pub(crate) schedules: u64,
  pub(crate) calls: u64,
  pub(crate) changes: u64,
  pub(crate) kills: u64,
  pub(crate) power_losses: u64,
  pub(crate) approvals: u64,
  pub(crate) items: u64,
}

impl Tally {
  pub(crate) fn add(&mut self, other: &Self) {
    self.schedules += other.schedules;
    self.calls += other.calls;
    self.changes += other.changes;
    self.kills += other.kills;
    self.power_losses += other.power_losses;
    self.approvals += other.approvals;
    self.items += other.items;
  }
}

/// Runs the schedule of a seed in a directory of its own; the violations, or what was done.
pub(crate) fn run(
  seed: u64,
  control: Control,
  stage: &Stage,
  traced: bool,
) -> Result<Tally, Vec<String>> {
  let mut schedule = Schedule::new(seed, control, stage, traced);
  schedule.play();
  schedule.judge();
  let world = schedule.world.borrow();
  schedule.tally.schedules = 1;
  schedule.tally.calls = world.n_calls;
  schedule.tally.changes = world.n_changes;
  let mut found = world.oracle.violations.clone();
  if found.is_empty() {
    return Ok(schedule.tally);
  }
  found.push(format!(
    "({:?}, markers {:?}{})",
    world.rung,
    schedule.config.markers,
    if world.coarse { ", coarse file times" } else { "" }
  ));
  if let Some(trace) = &world.trace {
    found.extend(trace.iter().cloned());
  }
  Err(found)
}

/// A directory for the ledgers of one thread.
pub(crate) struct Stage {
  dir: tempfile::TempDir,
  template: PathBuf,
}

impl Stage {
  /// In memory where that can be had: a schedule commits some hundred times.
  pub(crate) fn new() -> Self {
    let shm = Path::new("/dev/shm");
    let builder = || tempfile::Builder::new().prefix("memfw-sim-").to_owned();
    let dir = builder().tempdir_in(shm).or_else(|_| builder().tempdir()).unwrap();
    let template = dir.path().join("template.db");
    drop(open(&template));
    Self { dir, template }
  }
}

impl Stage {
  fn ledger(&self) -> PathBuf {
    self.dir.path().join("ledger.db")
  }
}

fn open(path: &Path) -> Ledger {
  Ledger::open(path, Access::ReadWrite, Some(MasterKey::new(KEY))).unwrap()
}

pub(super) struct Schedule<'a> {
  pub(super) world: Rc<RefCell<World>>,
  pub(super) clock: Arc<SimClock>,
  config: Arc<Config>,
  pub(super) targets: Vec<Target>,
  pub(super) engine: Option<Engine<SimFs>>,
  stage: &'a Stage,
  pub(super) tally: Tally,
}

impl<'a> Schedule<'a> {
  fn new(seed: u64, control: Control, stage: &'a Stage, traced: bool) -> Self {
    let clock = Arc::new(SimClock::new());
    let ledger = stage.ledger();
    log::remove(&ledger);
    fs::copy(&stage.template, &ledger).unwrap();
    let mut oracle = Oracle::new(ledger);
    // As long as somebody reads, closing the ledger leaves its log alone, as a kill does.
    drop(oracle.items());
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
    world.coarse = world.rng.one_in(4);
    world.intensity = *world.rng.pick(&[2, 4, 8, 16]);
    world.budget = 2 + world.rng.below(10);
    let markers = *world.rng.pick(&[Markers::Auto, Markers::Wrap, Markers::Id, Markers::None]);
    let config = Arc::new(Config { markers, ..Config::default() });
    let world = Rc::new(RefCell::new(world));
    let mut this =
      Self { world, clock, config, targets, engine: None, stage, tally: Tally::default() };
    this.first_files();
    this
  }

  /// What was there before memfw.
  fn first_files(&mut self) {
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    for path in world.paths.clone() {
      if world.rng.one_in(4) {
        continue;
      }
      let n_blocks = if world.rng.one_in(6) { 80 } else { 1 + world.rng.below(8) };
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
      self.world.borrow_mut().intensity = 0;
      self.restart(true);
      let intensity = 2 + self.below(16);
      self.world.borrow_mut().intensity = intensity;
    } else {
      self.restart(false);
    }
    let n_actions = 5 + self.below(30);
    for _ in 0..n_actions {
      self.act();
      if !self.world.borrow().oracle.violations.is_empty() {
        return;
      }
    }
  }

  pub(super) fn below(&self, n: usize) -> usize {
    self.world.borrow_mut().rng.below(n)
  }

  fn any_target(&self) -> Target {
    self.targets[self.below(self.targets.len())].clone()
  }

  fn act(&mut self) {
    let target = self.any_target();
    match self.below(40) {
      0..=15 => drop(self.pass(&target)),
      16..=22 => drop(self.lazy(&target)),
      23..=26 => {
        let n = self.below(20);
        self.world.borrow_mut().run(n);
      }
      27..=29 => self.approve(),
      30 | 31 => self.reject(),
      32 => {
        let jump = *self.world.borrow_mut().rng.pick(&[-86_400, -3_600, -1, 1, 3_600, 86_400]);
        self.world.borrow_mut().say(|| format!("the clock jumps by {jump} s"));
        self.clock.jump(jump * 1_000_000);
      }
      33 => {
        let calls = 1 + self.below(40);
        self.world.borrow_mut().fault = calls;
      }
      n => self.kill(n >= 37),
    }
  }

  /// Arms the fuse, does something until it has burnt down, and starts again.
  fn kill(&mut self, power: bool) {
    let calls = 1 + self.below(60) as i64;
    self.clock.arm(calls);
    for _ in 0..10 {
      if self.engine.is_none() {
        break;
      }
      let target = self.any_target();
      match self.below(8) {
        0..=3 => drop(self.pass(&target)),
        4 | 5 => drop(self.lazy(&target)),
        6 => self.approve(),
        _ => self.reject(),
      }
    }
    self.clock.arm(0);
    self.engine = None;
    self.tally.kills += 1;
    if power {
      self.power_loss();
    }
    let n = self.below(10);
    self.world.borrow_mut().run(n);
    self.restart(false);
  }

  fn power_loss(&mut self) {
    self.tally.power_losses += 1;
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    let ledger = self.stage.ledger();
    world.oracle.forget();
    if world.control == Control::ForgetfulLedger {
      log::remove(&ledger);
      fs::copy(&self.stage.template, &ledger).unwrap();
    } else {
      log::lose(&ledger, world.oracle.sure_log, &mut world.rng);
    }
    world.power_loss();
  }

  /// Starts the engine as the daemon does: what was interrupted is ended, then every file is looked
  /// at. It may be killed in that, too.
  pub(super) fn restart(&mut self, adopting: bool) {
    for attempt in 0.. {
      self.engine = None;
      self.world.borrow_mut().say(|| "start".to_owned());
      if attempt < 3 && self.below(4) == 0 {
        let calls = 1 + self.below(40) as i64;
        self.clock.arm(calls);
      }
      let dir = self.stage.dir.path();
      let fs = SimFs { world: Rc::clone(&self.world), clock: Arc::clone(&self.clock) };
      self.engine = Some(Engine::new(
        fs,
        open(&self.stage.ledger()),
        Box::new(NoAgent),
        Arc::clone(&self.clock) as Arc<_>,
        Arc::clone(&self.config),
        dir.to_owned(),
      ));
      self.world.borrow_mut().oracle.recovering = true;
      let recovered = self.ask(Engine::recover);
      self.world.borrow_mut().oracle.recovering = false;
      if matches!(recovered, Some(Ok(_))) {
        if adopting && self.below(2) == 0 {
          let targets = self.targets.clone();
          let adopted = self.ask(|engine| engine.adopt(&targets));
          self.world.borrow_mut().say(|| format!("adopt: {adopted:?}"));
        }
        for target in self.targets.clone() {
          let hint = Hint { waited: Duration::from_secs(1), adopting, ..Hint::default() };
          drop(self.ask(|engine| engine.pass(&target, &hint)));
        }
      }
      self.clock.arm(0);
      if self.engine.is_some() && matches!(recovered, Some(Ok(_))) {
        return;
      }
      if attempt > 20 {
        let text = format!("it never starts: {recovered:?}");
        return self.world.borrow_mut().oracle.violation(text);
      }
    }
  }

  /// Asks the engine for something. `None`: it was killed.
  pub(super) fn ask<T>(
    &mut self,
    what: impl FnOnce(&mut Engine<SimFs>) -> Result<T, EngineError>,
  ) -> Option<Result<T, EngineError>> {
    let mut engine = self.engine.take()?;
    match catch_unwind(AssertUnwindSafe(|| what(&mut engine))) {
      Ok(answer) => {
        self.engine = Some(engine);
        if let Err(error) = &answer
          && error.consequence() == Consequence::Stop
        {
          let text = format!("the daemon would stop: {error}");
          self.world.borrow_mut().oracle.violation(text);
        }
        Some(answer)
      }
      Err(payload) => {
        drop(engine);
        if !payload.is::<Killed>() {
          let text = payload.downcast_ref::<String>().cloned();
          let text = text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()));
          self.world.borrow_mut().oracle.violation(format!("panic: {text:?}"));
        }
        None
      }
    }
  }

  fn pass(&mut self, target: &Target) -> Option<Result<Outcome, EngineError>> {
    let waited = Duration::from_millis(if self.below(2) == 0 { 0 } else { 10 });
    let opened_since_close = self.below(2) == 0;
    let hint = Hint { waited, opened_since_close, adopting: false };
    let outcome = self.ask(|engine| engine.pass(target, &hint));
    self.world.borrow_mut().say(|| format!("pass: {outcome:?}"));
    outcome
  }

  pub(super) fn lazy(&mut self, target: &Target) -> Option<Result<LazyOutcome, EngineError>> {
    let outcome = self.ask(|engine| engine.lazy(target, Duration::ZERO));
    self.world.borrow_mut().say(|| format!("lazy: {outcome:?}"));
    outcome
  }

  fn approve(&mut self) {
    let mut items = self.world.borrow_mut().oracle.items();
    items.retain(|item| item.status.is_waiting() || item.status == State::Rejected);
    if items.is_empty() {
      return;
    }
    let item = items[self.below(items.len())].clone();
    let plain = {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      let plain = world.oracle.plain(&item);
      let id = item.id.as_str();
      world.oracle.approved_plains.insert(id.to_owned(), plain.clone());
      let lines = world.book.count(&plain).into_keys();
      world.oracle.approved.extend(lines.map(|line| (line, id.to_owned())));
      world.say(|| format!("approve {:?}", plain.escape_ascii().to_string()));
      plain
    };
    let answer = self.ask(|engine| engine.approve(item.id.as_str(), "ann", None));
    self.world.borrow_mut().say(|| format!("approve: {answer:?}"));
    if !matches!(answer, Some(Ok(_))) {
      return;
    }
    self.tally.approvals += 1;
    self.world.borrow_mut().oracle.all_is_durable();
    if !self.holds(&item.path, &plain, "after its approval") {
      return;
    }
    // Nobody writes meanwhile, so the next pass finds nothing to do about it.
    let target = Target::new(Path::new(ROOT), item.path.strip_prefix(ROOT).unwrap());
    let intensity = std::mem::take(&mut self.world.borrow_mut().intensity);
    drop(self.pass(&target));
    drop(self.lazy(&target));
    self.world.borrow_mut().intensity = intensity;
    let _ = self.holds(&item.path, &plain, "after the pass that follows its approval");
  }

  /// The exact bytes of an item are in its file, unless a writer was there since the engine wrote;
  /// whether that can be said.
  fn holds(&self, path: &Path, plain: &[u8], when: &str) -> bool {
    let mut world = self.world.borrow_mut();
    let content = world.disk.content(path).unwrap_or_default();
    let bare = plain.trim_ascii_end();
    // An id comment may stand at the end of a line.
    let lines = bare.split(|byte| matches!(byte, b'\r' | b'\n')).filter(|line| !line.is_empty());
    let stands = lines.clone().all(|line| content.windows(line.len()).any(|part| part == line));
    let undisturbed = world.n_changes == world.oracle.changes_at_write;
    if !stands && undisturbed {
      let text =
        format!("{when}, {:?} does not stand in its file", bare.escape_ascii().to_string());
      world.oracle.violation(text);
    }
    undisturbed
  }

  fn reject(&mut self) {
    let mut items = self.world.borrow_mut().oracle.items();
    items.retain(|item| item.status.is_waiting());
    if items.is_empty() {
      return;
    }
    let id = items[self.below(items.len())].id.clone();
    let answer = self.ask(|engine| engine.reject(id.as_str(), "ann", None));
    self.world.borrow_mut().say(|| format!("reject: {answer:?}"));
  }
}
