//! What happens in a schedule, other than what writers do: passes, decisions, kills, trouble.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, io, path::Path, rc::Rc, time::Duration};

use memfw::{
  engine::{Attributing, EngineError, Hint, LazyOutcome, Outcome, Target},
  provenance::State,
  store::Item,
};

use super::{control::Control, fault::Trouble, fs::ROOT, schedule::Schedule};

impl Schedule<'_> {
  pub(super) fn act(&mut self) {
    let target = self.any_target();
    if self.twist(&target) {
      return;
    }
    match self.below(40) {
      0..=21 if self.has_events() => {
        for _ in 0..=self.below(4) {
          self.turn();
        }
      }
      0..=15 => drop(self.pass(&target)),
      16..=21 => drop(self.lazy(&target)),
      22..=24 => {
        let n = self.below(20);
        self.world.borrow_mut().run(n);
      }
      25..=27 => drop(self.approve()),
      28 | 29 => drop(self.reject()),
      30 if self.one_in(2) => drop(self.quarantine_by_hand(&target)),
      30 => drop(self.restore(&target)),
      31 => {
        let mut world = self.world.borrow_mut();
        let (what, seconds) = *world.rng.pick(&[
          ("clock jumps back", -86_400),
          ("clock jumps back", -1),
          ("clock jumps forward", 1),
          ("suspend", 3_600),
        ]);
        world.jump(what, seconds);
      }
      32 | 33 => self.trouble(),
      34 => self.full_ledger(&target),
      n => self.kill(n >= 38),
    }
  }

  /// What only twisted schedules have; whether that was an action of its own.
  fn twist(&mut self, target: &Target) -> bool {
    let power = {
      let mut world = self.world.borrow_mut();
      world.twists.power && world.twist.one_in(3)
    };
    if power {
      if self.one_in(4) {
        self.kill(true);
      } else {
        self.die(true);
      }
      return true;
    }
    let (ledger, root) = {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      if world.twists.faults && world.trouble.is_none() && world.twist.one_in(3) {
        world.strike();
      }
      let twists = world.twists;
      (twists.ledger && world.twist.one_in(6), twists.roots && world.twist.one_in(6))
    };
    if ledger {
      self.without_ledger(target);
    } else if root {
      self.without_root(target);
    }
    ledger || root
  }

  /// Some calls from now on will fail.
  fn trouble(&mut self) {
    let mut world = self.world.borrow_mut();
    if world.twists.faults {
      return world.strike();
    }
    let kind = *world.rng.pick(&[
      io::ErrorKind::Other,
      io::ErrorKind::Interrupted,
      io::ErrorKind::StorageFull,
      io::ErrorKind::StorageFull,
    ]);
    let calls = match kind {
      io::ErrorKind::StorageFull => 1 + world.rng.below(60),
      _ if world.rng.one_in(2) => 1,
      _ => 1 + world.rng.below(4),
    };
    let wait = world.rng.below(40);
    world.trouble = Some(Trouble { wait, calls, kind, only: None });
  }

  /// The disk on which the ledger is has hardly any space left for a while.
  fn full_ledger(&mut self, target: &Target) {
    let pages = self.below(3) as u32;
    let Some(engine) = &mut self.engine else { return };
    engine.ledger().limit_growth(Some(pages)).unwrap();
    self.world.borrow_mut().note("ledger full");
    for _ in 0..=self.below(3) {
      self.look(target, false);
      self.look(target, true);
    }
    if let Some(engine) = &mut self.engine {
      engine.ledger().limit_growth(None).unwrap();
    }
  }

  /// Arms the fuse, does something until it has burnt down, and starts again.
  pub(super) fn kill(&mut self, power: bool) {
    let calls = 1 + self.below(60) as i64;
    if self.world.borrow().twists.tears && self.one_in(2) {
      let mut world = self.world.borrow_mut();
      let n = world.twist.below(3);
      world.writes_left = Some(n);
    } else {
      self.clock.arm(calls);
    }
    for _ in 0..10 {
      let target = self.any_target();
      let killed = match self.below(9) {
        0..=3 => self.look(&target, false),
        4 | 5 => self.look(&target, true),
        6 => self.approve(),
        7 if self.one_in(2) => self.restore(&target),
        7 => self.reject(),
        _ => self.quarantine_by_hand(&target),
      };
      if killed {
        break;
      }
    }
    self.clock.arm(0);
    self.world.borrow_mut().writes_left = None;
    // It may have been a command; then the daemon goes on, or ends, too.
    if self.engine.is_some() && !power && self.one_in(2) {
      return;
    }
    self.die(power);
  }

  /// The daemon ends, perhaps because the power goes, and is started again.
  fn die(&mut self, power: bool) {
    self.drop_engine();
    self.world.borrow_mut().note("kill");
    if power {
      self.power_loss();
    }
    let n = self.below(10);
    self.world.borrow_mut().run(n);
    let unmounted = {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      world.twists.power && world.twists.roots && world.twist.one_in(2)
    };
    if unmounted {
      self.world.borrow_mut().root_goes();
    }
    self.restart(false);
    if unmounted {
      self.world.borrow_mut().root_comes_back();
      self.forget_root();
    }
  }

  /// The daemon looks at a file, or, with events, at what it was told of; whether it was killed.
  pub(super) fn look(&mut self, target: &Target, lazily: bool) -> bool {
    if self.has_events() {
      self.turn();
    } else if lazily {
      drop(self.lazy(target));
    } else {
      drop(self.pass(target));
    }
    self.engine.is_none()
  }

  pub(super) fn pass(&mut self, target: &Target) -> Option<Result<Outcome, EngineError>> {
    let waited = Duration::from_millis(if self.one_in(2) { 0 } else { 10 });
    let opened_since_close =
      self.world.borrow().opened.get(&target.path()).copied().unwrap_or(false);
    self.pass_with(target, &Hint { waited, opened_since_close, ..Hint::default() })
  }

  pub(super) fn pass_with(
    &mut self,
    target: &Target,
    hint: &Hint,
  ) -> Option<Result<Outcome, EngineError>> {
    let is_idle = self.world.borrow().control == Control::IdlePasses;
    let world = Rc::clone(&self.world);
    let outcome = self.ask(|engine| {
      if is_idle {
        return Ok(Outcome::HeldOpen);
      }
      // Under a lease the daemon takes the events so far.
      let path = target.path();
      let mut was_read = |_: u32| world.borrow().opened.get(&path).copied().unwrap_or(false);
      engine.pass_seen_by(target, hint, &mut was_read)
    });
    if let Some(Ok(outcome)) = &outcome {
      self.world.borrow_mut().tally.count(match outcome {
        Outcome::Unchanged { .. } => "pass: Unchanged",
        Outcome::Done { .. } => "pass: Done",
        Outcome::Gone => "pass: Gone",
        Outcome::Unscannable => "pass: Unscannable",
        Outcome::Busy => "pass: Busy",
        Outcome::HeldOpen => "pass: HeldOpen",
        Outcome::StillOpen { .. } => "pass: StillOpen",
        Outcome::Unsealed => "pass: Unsealed",
        Outcome::HoldOff(_) => "pass: HoldOff",
        Outcome::Changed => "pass: Changed",
      });
    }
    self.say(|| format!("pass: {outcome:?}"));
    if matches!(outcome, Some(Err(EngineError::Root(_)))) {
      self.forget_root();
    }
    outcome
  }

  pub(super) fn lazy(&mut self, target: &Target) -> Option<Result<LazyOutcome, EngineError>> {
    // Markers wait until the agent's records were asked.
    let asked = self.ask(|engine| engine.attribute(target, Duration::ZERO))?;
    self.say(|| format!("attribute: {asked:?}"));
    if let Ok(outcome) = asked {
      self.world.borrow_mut().tally.count(match outcome {
        Attributing::Done { .. } => "attribute: Done",
        Attributing::Later => "attribute: Later",
        Attributing::NotNow => "attribute: NotNow",
        Attributing::Unreadable => "attribute: Unreadable",
      });
    }
    let idle = Duration::from_millis(if self.one_in(4) { 5000 } else { 0 });
    let outcome = self.ask(|engine| engine.write_due(target, idle));
    if let Some(Ok(outcome)) = &outcome {
      self.world.borrow_mut().tally.count(match outcome {
        LazyOutcome::Done => "lazy: Done",
        LazyOutcome::NotIdle(_) => "lazy: NotIdle",
        LazyOutcome::Busy => "lazy: Busy",
        LazyOutcome::Dirty => "lazy: Dirty",
        LazyOutcome::NotBack => "lazy: NotBack",
      });
    }
    self.say(|| format!("lazy: {outcome:?}"));
    outcome
  }

  fn any_item(&self, wanted: impl Fn(&Item) -> bool) -> Option<Item> {
    let items = self.world.borrow_mut().oracle.items();
    let items: Vec<&Item> = items.iter().filter(|item| wanted(item)).collect();
    if items.is_empty() { None } else { Some(items[self.below(items.len())].clone()) }
  }

  /// A person asks for something: mostly by a command, beside the daemon.
  fn for_person<T>(
    &mut self,
    what: impl FnOnce(&mut memfw::engine::Engine<super::fs::SimFs>) -> Result<T, EngineError>,
  ) -> Option<Result<T, EngineError>> {
    self.world.borrow_mut().oracle.for_person = true;
    let answer =
      if self.one_in(4) && self.engine.is_some() { self.ask(what) } else { self.command(what) };
    self.world.borrow_mut().oracle.for_person = false;
    answer
  }

  /// Whether somebody was killed.
  fn approve(&mut self) -> bool {
    let wanted = |item: &Item| item.status.is_waiting() || item.status == State::Rejected;
    let Some(item) = self.any_item(wanted) else { return false };
    let plain = {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      let plain = world.oracle.plain(&item);
      let id = item.id.as_str();
      world.oracle.approved_plains.insert(id.to_owned(), plain.clone());
      for line in world.book.count(&plain).into_keys() {
        *world.oracle.approved.entry((line, id.to_owned())).or_default() += 1;
      }
      world.say(|| format!("approve {:?}", plain.escape_ascii().to_string()));
      plain
    };
    let answer = self.for_person(|engine| engine.approve(item.id.as_str(), "ann", None));
    self.say(|| format!("approve: {answer:?}"));
    match answer {
      None => return true,
      Some(Err(_)) => {
        self.world.borrow_mut().note("approve: refused");
        return false;
      }
      Some(Ok(_)) => self.world.borrow_mut().note("approve"),
    }
    if !self.holds(&item.path, &plain, "after its approval") {
      return false;
    }
    if self.has_events() {
      return false;
    }
    // Nobody writes meanwhile, so the next pass finds nothing to do about it.
    let target = Target::new(Path::new(ROOT), item.path.strip_prefix(ROOT).unwrap());
    let intensity = std::mem::take(&mut self.world.borrow_mut().intensity);
    let killed = self.pass(&target).is_none() || self.lazy(&target).is_none();
    self.world.borrow_mut().intensity = intensity;
    if !killed {
      let _ = self.holds(&item.path, &plain, "after the pass that follows its approval");
    }
    killed
  }

  /// The exact bytes of an item are in its file, unless a writer was there since the engine wrote;
  /// whether that can be said.
  fn holds(&self, path: &Path, plain: &[u8], when: &str) -> bool {
    let mut world = self.world.borrow_mut();
    // Its workspace may have gone meanwhile, with the file in it.
    let content = world.content_of(path).unwrap_or_default();
    let bare = plain.trim_ascii_end();
    // An id comment may be at the end of a line, and be renewed.
    let lines = bare.split(|byte| matches!(byte, b'\r' | b'\n'));
    let lines = lines.map(without_id).filter(|line| !line.is_empty());
    let stands = lines.clone().all(|line| content.windows(line.len()).any(|part| part == line));
    let undisturbed = world.n_changes == world.oracle.changes_at_write;
    if !stands && undisturbed {
      let text =
        format!("P1: {when}, {:?} does not stand in its file", bare.escape_ascii().to_string());
      world.oracle.violation(text);
    }
    undisturbed
  }

  fn reject(&mut self) -> bool {
    let Some(item) = self.any_item(|item| item.status.is_waiting()) else { return false };
    let answer = self.for_person(|engine| engine.reject(item.id.as_str(), "ann", None));
    self.say(|| format!("reject: {answer:?}"));
    if matches!(answer, Some(Ok(_))) {
      self.world.borrow_mut().note("reject");
    }
    answer.is_none()
  }

  /// A person wants an earlier version of a file; the current content is kept as one.
  fn restore(&mut self, target: &Target) -> bool {
    let versions = self.stage.witness.versions(&target.path()).unwrap();
    if versions.is_empty() {
      return false;
    }
    let version = versions[self.below(versions.len())].hash;
    let text = self.stage.witness.version_bytes(version).unwrap();
    let lines = {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      let lines = world.book.count(&text);
      world.oracle.restored_files.insert(target.path());
      keep_most(&mut world.oracle.restored, &lines);
      world.say(|| format!("restore {:?}", text.escape_ascii().to_string()));
      lines
    };
    let answer = self.for_person(|engine| engine.restore(target, version, "ann"));
    self.say(|| format!("restore: {answer:?}"));
    match answer {
      Some(Ok(_)) => self.world.borrow_mut().note("restore of a version"),
      Some(Err(_)) => {}
      None => keep_most(&mut self.world.borrow_mut().oracle.interrupted, &lines),
    }
    answer.is_none()
  }

  fn quarantine_by_hand(&mut self, target: &Target) -> bool {
    let line = 1 + self.below(12);
    let answer = self.for_person(|engine| engine.quarantine_line(target, line, "ann", None));
    self.say(|| format!("quarantine by hand, line {line}: {answer:?}"));
    if matches!(answer, Some(Ok(_))) {
      self.world.borrow_mut().note("quarantine by hand");
    }
    answer.is_none()
  }
}

/// Keeps the higher number of each line.
fn keep_most(most: &mut BTreeMap<u32, u32>, lines: &BTreeMap<u32, u32>) {
  for (&line, &n) in lines {
    let known = most.entry(line).or_default();
    *known = n.max(*known);
  }
}

/// A line without the id comment at its end.
fn without_id(line: &[u8]) -> &[u8] {
  let id = b" <!-- memfw:";
  let at = line.windows(id.len()).rposition(|part| part == id);
  at.filter(|_| line.ends_with(b"-->")).map_or(line, |at| &line[..at])
}
