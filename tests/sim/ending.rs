//! The end of a schedule: everybody finishes, everything settles, and then all must be true.
#![forbid(unsafe_code)]

use std::time::Duration;

use memfw::{
  engine::{Engine, Hint, Outcome},
  store::ItemFilter,
};

use super::{fs::SimFs, schedule::Schedule};

/// Enough for the passes over a file that nobody writes.
const QUIET_TURNS: usize = 40;
/// More rounds than any file needs to settle once nobody writes.
const ROUNDS: usize = 40;

impl Schedule<'_> {
  /// The last change is one that nothing but the times of the file can show.
  fn last_overwrite(&mut self) {
    let intensity = std::mem::take(&mut self.world.borrow_mut().intensity);
    for target in self.targets.clone() {
      let hint = Hint { waited: Duration::from_secs(1), ..Hint::default() };
      let outcome = self.ask(|engine| engine.pass(&target, &hint));
      self.say(|| format!("pass before the last overwrite: {outcome:?}"));
    }
    let mut world = self.world.borrow_mut();
    world.intensity = intensity;
    world.overwriter();
  }

  /// Whether a memory file is hard-linked now.
  fn has_second_name(&self) -> bool {
    let world = self.world.borrow();
    let mut inodes = world.paths.iter().filter_map(|path| world.ino_of(path));
    inodes.any(|ino| world.disk.inode(ino).links > 1)
  }

  /// The daemon comes to rest while all writers are stopped in the middle of what they do: a second name of a file
  /// goes later, and no event tells of that.
  fn quiet_turns(&mut self) {
    let intensity = std::mem::take(&mut self.world.borrow_mut().intensity);
    self.say(|| "all writers are stopped".to_owned());
    for _ in 0..QUIET_TURNS {
      self.turn();
    }
    self.world.borrow_mut().intensity = intensity;
  }

  /// Everybody finishes; then all must be true.
  pub(super) fn judge(&mut self) {
    let by_seconds = self.world.borrow().twists.step_ns.is_some();
    if by_seconds && self.one_in(2) {
      self.last_overwrite();
    }
    if self.has_events() && self.has_second_name() {
      self.quiet_turns();
    }
    {
      let mut world = self.world.borrow_mut();
      if !world.oracle.violations.is_empty() {
        return;
      }
      world.say(|| "everybody finishes".to_owned());
      world.finish();
      world.intensity = 0;
      world.trouble = None;
      world.unblock();
    }
    // A start looks at every file, which events have to do without.
    if self.below(2) == 0 && !self.has_events() || self.engine.is_none() {
      self.restart(false);
    }
    if self.engine.is_none() {
      return;
    }
    if self.has_events() {
      self.settle_by_turns();
      self.judge_events();
    }
    self.settle();
    if self.engine().ledger().has_open_ops().unwrap() {
      // A passing error of the file system left it; the next start ends it.
      self.restart(false);
      self.settle();
    }
    let first = self.state();
    if self.engine().ledger().has_open_ops().unwrap() {
      self.world.borrow_mut().oracle.violation("an operation stays open");
    }
    {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      let items = world.oracle.items();
      world.tally.count_n("items", items.len() as u64);
      let n = items.iter().filter(|item| item.occurrences > 1).count();
      world.tally.count_n("poison came back", n as u64);
      world.oracle.judge_items();
      let visible = world.visible();
      let contents = world.paths.iter().filter_map(|path| world.disk.content(path));
      let readable: Vec<&[u8]> =
        contents.filter(|content| content.len() as u64 <= world.max_bytes).collect();
      let n_spared = world.oracle.judge_end(&world.book, &visible, &readable);
      world.tally.count_n("poison that the rules leave in place", n_spared);
      let nul =
        world.paths.iter().any(|path| world.disk.content(path).is_some_and(|c| c.contains(&0)));
      if nul && !world.oracle.nul_by_writer {
        world.oracle.violation("NUL bytes in a file");
      }
    }
    // I4: all files are checked again as if they had changed.
    self.restart(false);
    {
      let mut world = self.world.borrow_mut();
      let world = &mut *world;
      let now = world.now_ns();
      for path in world.paths.clone() {
        if let Some(ino) = world.disk.lookup(&path) {
          world.disk.touch(ino, now + world.step_ns);
        }
      }
    }
    self.settle();
    if self.state() != first {
      let text = format!("I4: {:#?}\nbecame {:#?}", first, self.state());
      self.world.borrow_mut().oracle.violation(text);
    }
  }

  /// What events and polls have not brought before the engine must be nothing that must be taken out.
  fn judge_events(&self) {
    let mut world = self.world.borrow_mut();
    let world = &mut *world;
    let contents = world.paths.iter().filter_map(|path| world.content_of(path));
    let mut readable = contents.filter(|content| content.len() as u64 <= world.max_bytes);
    if readable.any(|content| world.oracle.has_poison(&world.book, content)) {
      world.oracle.violation("by events alone: P2: poison can be read");
    }
  }

  fn engine(&self) -> &Engine<SimFs> {
    self.engine.as_ref().unwrap()
  }

  /// Files and items, as far as they must not change by themselves.
  fn state(&self) -> Vec<String> {
    let world = self.world.borrow();
    let mut state = Vec::new();
    for path in &world.paths {
      let content = world.disk.content(path).unwrap_or_default();
      state.push(content.escape_ascii().to_string());
    }
    let items = self.engine().ledger().items(&ItemFilter::default()).unwrap();
    for item in items.iter().filter(|item| !item.in_file) {
      state.push(format!("{} {} {} x{}", item.id, item.n, item.status, item.occurrences));
    }
    state
  }

  /// Passes and lazy passes until there is nothing to do.
  pub(super) fn settle(&mut self) {
    // A file time from the future never counts as old.
    let ahead = self.world.borrow().disk.latest() / 1000 - self.clock.wall();
    self.clock.advance(ahead.max(0) + 1_000_000);
    let mut last = Vec::new();
    for _ in 0..ROUNDS {
      self.clock.advance(600_000);
      last.clear();
      let mut done = true;
      for target in self.targets.clone() {
        let hint =
          Hint { waited: Duration::from_secs(1), opened_since_close: true, ..Hint::default() };
        let outcome = self.ask(|engine| engine.pass(&target, &hint));
        self.world.borrow_mut().say(|| format!("settle: {outcome:?}"));
        last.push(format!("{outcome:?}"));
        match outcome {
          Some(Ok(
            Outcome::Unchanged { reshape_due: false, recheck: false }
            | Outcome::Gone
            | Outcome::Unscannable,
          )) => {}
          Some(Ok(Outcome::Unchanged { reshape_due: true, .. })) => {
            last.push(format!("{:?}", self.lazy(&target)));
            done = false;
          }
          _ => done = false,
        }
      }
      if done {
        return;
      }
    }
    self.world.borrow_mut().oracle.violation(format!("it never settles: {last:?}"));
  }
}
