//! The world of a schedule: disk, writers, time, and what happens between two calls of the engine.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
  sync::Arc,
};

use memfw::files::{Kind, Rung, Stamp};

use super::{
  absent::Absent,
  agent::SimAgent,
  book::Book,
  clock::SimClock,
  control::Control,
  disk::Disk,
  events::Heard,
  fault::{Fate, Trouble},
  oracle::{Oracle, is_torn},
  rng::Rng,
  tally::Tally,
  twist::{self, Kind as Sort, Twists},
  writer::{Actor, Step, Taste},
};

/// Everything of a schedule that is not the engine.
pub(crate) struct World {
  pub(crate) clock: Arc<SimClock>,
  pub(crate) rng: Rng,
  pub(crate) disk: Disk,
  pub(crate) book: Book,
  pub(crate) oracle: Oracle,
  pub(crate) agent: SimAgent,
  pub(crate) control: Control,
  pub(crate) tally: Tally,
  pub(crate) rung: Rung,
  /// The memory files.
  pub(crate) paths: Vec<PathBuf>,
  /// At most so many steps of writers before each call of the engine.
  pub(crate) intensity: usize,
  /// Writers that may still begin.
  pub(crate) budget: usize,
  pub(crate) trouble: Option<Trouble>,
  pub(crate) absent: Absent,
  /// What the daemon was told and has not taken yet; `None` where the engine is asked about any file.
  pub(crate) heard: Option<Vec<Heard>>,
  /// Writes of the engine until it is killed in one.
  pub(crate) writes_left: Option<usize>,
  /// The file that the engine has written in part, and its content before.
  pub(crate) half_written: Option<(usize, Vec<u8>)>,
  /// Whether a write was torn since a start that ended what was interrupted.
  pub(crate) was_torn: bool,
  /// Larger files are not read.
  pub(crate) max_bytes: u64,
  /// In which steps file times advance, in nanoseconds.
  pub(crate) step_ns: i64,
  /// What this schedule has in addition, and the stream from which that is drawn.
  pub(crate) twists: Twists,
  pub(crate) twist: Rng,
  /// Steps that changed a file.
  pub(crate) n_changes: u64,
  /// Files that a writer opened.
  pub(crate) n_opens: u64,
  /// How often a tool put something on record.
  pub(crate) n_records: u64,
  /// How often the wall clock was set.
  pub(crate) n_jumps: u64,
  /// Calls of the engine.
  pub(crate) n_calls: u64,
  /// Whether somebody else opened a file after its writer had closed it.
  pub(crate) opened: BTreeMap<PathBuf, bool>,
  /// What happened, where somebody wants to read it.
  pub(crate) trace: Option<Vec<String>>,
  /// Calls for which another program will hold the ledger's lock.
  blocked: usize,
  actors: Vec<Actor>,
  serial: usize,
}

impl World {
  pub(crate) fn new(
    (seed, sort): (u64, Sort),
    control: Control,
    clock: Arc<SimClock>,
    oracle: Oracle,
  ) -> Self {
    let mut twist = twist::stream(seed);
    let twists = Twists::draw(sort, &mut twist);
    Self {
      clock,
      rng: Rng::new(seed),
      disk: Disk::default(),
      book: Book::default(),
      oracle,
      agent: SimAgent::default(),
      control,
      tally: Tally::default(),
      rung: Rung::Lease,
      paths: Vec::new(),
      intensity: 0,
      budget: 0,
      trouble: None,
      absent: Absent::default(),
      heard: twists.events.then(Vec::new),
      writes_left: None,
      half_written: None,
      was_torn: false,
      max_bytes: u64::MAX,
      step_ns: 1,
      twists,
      twist,
      n_changes: 0,
      n_opens: 0,
      n_records: 0,
      n_jumps: 0,
      n_calls: 0,
      opened: BTreeMap::new(),
      trace: None,
      blocked: 0,
      actors: Vec::new(),
      serial: 0,
    }
  }

  pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
    if let Some(trace) = &mut self.trace {
      trace.extend(self.oracle.unsaid().iter().map(|text| format!("VIOLATION: {text}")));
      trace.push(what());
    }
  }

  /// Something worth to be counted happens.
  pub(crate) fn note(&mut self, what: &str) {
    self.tally.count(what);
    self.say(|| what.to_owned());
  }

  /// What a file's times would be now.
  pub(crate) fn now_ns(&self) -> i64 {
    let now = self.clock.wall() * 1000;
    now - now.rem_euclid(self.step_ns)
  }

  /// What the engine sees of a file without reading it.
  pub(crate) fn stamp(&self, ino: usize) -> Stamp {
    let mut stamp = self.disk.stamp(ino);
    if self.control == Control::FineTimes {
      stamp.ctime_ns += 3;
    }
    stamp
  }

  /// How often each line is in the memory files.
  pub(crate) fn visible(&self) -> BTreeMap<u32, u32> {
    let mut all = BTreeMap::new();
    for path in &self.paths {
      for (line, _) in self.book.places(self.content_of(path).unwrap_or_default()) {
        *all.entry(line).or_default() += 1;
      }
    }
    all
  }

  /// How often each line is in the memory files for a program that takes a name away: with the file go the lines
  /// that a write of the engine has not written again yet.
  pub(crate) fn visible_at_removal(&self, path: &Path) -> BTreeMap<u32, u32> {
    let mut all = self.visible();
    let Some((ino, base)) = &self.half_written else { return all };
    if self.ino_of(path) == Some(*ino) {
      let count = |content: &[u8]| {
        let mut lines: BTreeMap<u32, u32> = BTreeMap::new();
        for (line, _) in self.book.places(content) {
          *lines.entry(line).or_default() += 1;
        }
        lines
      };
      let now = count(self.content_of(path).unwrap_or_default());
      for (line, n) in count(base) {
        let torn = n.saturating_sub(now.get(&line).copied().unwrap_or_default());
        *all.entry(line).or_default() += torn;
      }
    }
    all
  }

  /// The engine calls: time passes, others run, and the call may be its last.
  pub(crate) fn called(&mut self, name: &str, alone: bool) -> Fate {
    self.n_calls += 1;
    self.may_go();
    self.costs(name);
    let pause = 1 + self.rng.below(200) as i64;
    self.clock.advance(pause);
    if self.clock.take_pause() && !alone {
      self.run(self.intensity);
    }
    if self.intensity > 0 {
      self.disturb(name);
      if !alone {
        let n = self.rng.below(self.intensity);
        self.run(n);
      }
    }
    if self.n_calls.is_multiple_of(16) && self.oracle.stage.log.is_being_written() {
      self.oracle.violation(format!("I5: a transaction of the ledger is open in `{name}`"));
    }
    self.say(|| format!("engine: {name}"));
    if self.clock.burns_down() || self.is_last_write(name) {
      self.note(&format!("killed in {name}"));
      return Fate::Killed;
    }
    self.fails(name)
  }

  /// Time goes by in jumps, and others want the ledger, too.
  fn disturb(&mut self, name: &str) {
    if self.rng.one_in(300) {
      let stall = 100_000 + self.rng.below(600_000) as i64;
      self.clock.advance(stall);
    }
    // Stopped for longer than a lease lives between its last look at the clock and the write: that is
    // a documented remainder, so it happens before other calls only.
    let late = name.starts_with("pwrite") || name == "truncate";
    let wanted = self.control == Control::LateWrite;
    if self.rng.one_in(if late && wanted { 8 } else { 1500 }) && (!late || wanted) {
      self.note("stall of 46 s");
      // The kernel breaks leases by force when somebody waits for so long.
      self.clock.advance(46_000_000);
      if self.disk.n_leases() > 0 {
        self.note("lease broken by force");
      }
      self.disk.break_leases();
    }
    if self.rng.one_in(600) {
      let (what, seconds) = *self.rng.pick(&[
        ("clock jumps back", -86_400),
        ("clock jumps back", -3_600),
        ("clock jumps back", -1),
        ("clock jumps forward", 1),
        ("clock jumps forward", 86_400),
        ("suspend", 28_800),
      ]);
      self.jump(what, seconds);
    }
    if self.blocked > 0 {
      self.blocked -= 1;
      self.oracle.stage.log.block(self.blocked > 0);
    } else if self.rng.one_in(500) && !self.oracle.stage.log.is_being_written() {
      self.note("ledger blocked");
      self.blocked = 1 + self.rng.below(40);
      self.oracle.stage.log.block(true);
    }
  }

  /// Whether a writer waits for the lease of a file.
  pub(crate) fn is_awaited(&self, path: &Path) -> bool {
    self.actors.iter().any(|actor| {
      let next = actor.steps.front();
      actor.waits && matches!(next, Some(Step::Open { path: wanted, .. }) if wanted == path)
    })
  }

  /// Whether nothing keeps the engine from a file: nobody has it open, it may be written, and nothing fails.
  pub(crate) fn is_free(&self, path: &Path) -> bool {
    let ino = self.ino_of(path).filter(|ino| {
      let used = self.actors.iter().any(|actor| {
        actor.map == Some(*ino) || actor.fd.and_then(|fd| self.disk.ino(fd)) == Some(*ino)
      });
      !used && self.disk.inode(*ino).may_be_written()
    });
    ino.is_some()
      && self.trouble.is_none()
      && self.blocked == 0
      && self.absent.is_nothing(&self.disk)
  }

  /// Others let go of the ledger.
  pub(crate) fn unblock(&mut self) {
    self.blocked = 0;
    self.oracle.stage.log.block(false);
  }

  /// Somebody sets the clock, or the machine sleeps.
  pub(crate) fn jump(&mut self, what: &str, seconds: i64) {
    self.note(what);
    self.n_jumps += 1;
    self.clock.jump(seconds * 1_000_000);
  }

  /// Lets writers do some steps.
  pub(crate) fn run(&mut self, n_steps: usize) {
    for _ in 0..n_steps {
      self.step();
    }
  }

  /// Lets all writers finish, and every file belong to this user again.
  pub(crate) fn finish(&mut self) {
    self.ledger_comes_back();
    self.root_comes_back();
    self.budget = 0;
    for _ in 0..100_000 {
      if self.actors.is_empty() {
        break;
      }
      self.step();
    }
    if !self.actors.is_empty() {
      self.oracle.violation("a writer never finished");
    }
    let before = self.visible();
    let now = self.now_ns();
    for path in self.paths.clone() {
      let Some(ino) = self.disk.lookup(&path) else { continue };
      if self.disk.inode(ino).kind != Kind::File || self.disk.inode(ino).links > 1 {
        // Its other name was left behind by a script that a power loss ended.
        self.disk.unlink(&path, now);
        self.hear_of(&path);
      }
      // Nothing else that changed may need a new stamp to be seen.
      if std::mem::take(&mut self.disk.inode_mut(ino).foreign) {
        self.disk.touch(ino, now);
        self.hear_of(&path);
      }
      self.judge_target(&path);
    }
    self.noted(&before);
  }

  fn step(&mut self) {
    self.clock.advance(1);
    if self.rng.one_in(20) {
      self.disk.write_back(&mut self.rng);
    }
    if self.budget > 0 && self.actors.len() < 4 && self.rng.one_in(6) {
      self.budget -= 1;
      self.serial += 1;
      let path = self.rng.pick(&self.paths).clone();
      let taste = Taste {
        tools: self.control == Control::NoRecords,
        links: self.control == Control::NoPoll,
        twisted: self.twists.any,
      };
      let actor = Actor::new(&mut self.rng, &mut self.book, &path, self.serial, taste);
      self.tally.count(&["writer: ", actor.name].concat());
      self.actors.push(actor);
    }
    if self.actors.is_empty() {
      return;
    }
    let index = self.rng.below(self.actors.len());
    let mut actor = self.actors.remove(index);
    if let Some(step) = actor.steps.pop_front()
      && !self.carry_out(&mut actor, &step)
    {
      actor.steps.push_front(step);
    }
    if actor.steps.is_empty() {
      if let Some(fd) = actor.fd {
        self.hear_close(fd, actor.wrote);
        self.disk.close(fd);
      }
    } else {
      self.actors.insert(index, actor);
    }
  }

  /// A program comes that overwrites a line at equal length.
  pub(crate) fn overwriter(&mut self) {
    let path = self.rng.pick(&self.paths).clone();
    let actor = Actor::overwriter(&mut self.rng, &mut self.book, &path);
    self.actors.push(actor);
  }

  /// A writer changes a range of a file.
  pub(crate) fn change(
    &mut self,
    ino: usize,
    what: impl FnOnce(&mut Disk),
    range: std::ops::Range<usize>,
  ) {
    let linked = self.disk.is_linked(ino);
    let before = if linked { self.visible() } else { BTreeMap::new() };
    let had_nul = self.disk.inode(ino).data.contains(&0);
    for (line, place) in self.book.places(&self.disk.inode(ino).data) {
      if place.start < range.end && range.start < place.end {
        let sure = self.disk.inode_mut(ino).sure.entry(line).or_default();
        *sure = sure.saturating_sub(1);
      }
    }
    let stamp = self.disk.stamp(ino);
    what(&mut self.disk);
    if self.twists.step_ns.is_some() && self.disk.stamp(ino) == stamp {
      self.tally.count("file times: unseen change");
    }
    if linked {
      self.noted(&before);
    }
    self.oracle.nul_by_writer |= !had_nul && self.disk.inode(ino).data.contains(&0);
  }

  /// What a writer changed is from now on what has to be there.
  pub(crate) fn noted(&mut self, before: &BTreeMap<u32, u32>) {
    self.n_changes += 1;
    let after = self.visible();
    let lines: BTreeSet<u32> = before.keys().chain(after.keys()).copied().collect();
    for line in lines {
      let n = after.get(&line).copied().unwrap_or(0);
      if before.get(&line).copied().unwrap_or(0) != n {
        self.oracle.expected.insert(line, n);
      }
    }
  }

  /// Notes whether a file is one that may be written.
  pub(crate) fn judge_target(&mut self, path: &Path) {
    if let Some(ino) = self.ino_of(path) {
      let n_calls = self.n_calls;
      let inode = self.disk.inode_mut(ino);
      inode.unsafe_since =
        if inode.may_be_written() { None } else { inode.unsafe_since.or(Some(n_calls)) };
    }
  }

  /// The power goes: all processes end, and only what reached the disk is there afterwards.
  pub(crate) fn power_loss(&mut self) {
    self.note("power loss");
    self.actors.clear();
    let inodes: Vec<Option<usize>> = self.paths.iter().map(|path| self.ino_of(path)).collect();
    let taken = self.disk.power_loss(&mut self.rng);
    for path in self.paths.clone() {
      let content = self.content_of(&path).unwrap_or_default().escape_ascii().to_string();
      self.say(|| format!("left of {}: {content}", path.display()));
    }
    for (happened, what) in [
      (taken.names, "power loss takes names"),
      (taken.pages, "power loss takes pages"),
      (taken.hole, "power loss leaves a hole"),
    ] {
      if happened {
        self.note(what);
      }
    }
    let sealed = self.oracle.sealed(&self.book);
    let ops = self.oracle.ops();
    let images = ops.iter().filter_map(|op| op.images.as_ref());
    // The torn change of an open operation may hold a line twice, until recovery completes it.
    let torn: BTreeSet<u32> =
      images.flat_map(|images| self.book.count(&images.after).into_keys()).collect();
    let mut repairable = BTreeSet::new();
    for path in &self.paths {
      let content = self.content_of(path).unwrap_or_default();
      let anywhere = self.twists.tears;
      if ops.iter().any(|op| op.path == *path && is_torn(op, content, anywhere)) {
        repairable.extend(self.book.count(content).into_keys());
      }
    }
    let mut sure: BTreeMap<u32, u32> = BTreeMap::new();
    for (path, ino) in self.paths.clone().iter().zip(inodes) {
      self.judge_target(path);
      // What a name leads to now that it did not lead to before is as old as it is.
      if let Some(ino) = ino.filter(|ino| self.ino_of(path) == Some(*ino)) {
        for (line, n) in &self.disk.inode(ino).sure {
          *sure.entry(*line).or_default() += n;
        }
        let content = self.disk.inode(ino).data.clone();
        self.oracle.nul_by_writer |= self.oracle.is_hole_of_a_writer(path, &content);
      } else if self.content_of(path).is_some_and(|content| content.contains(&0)) {
        self.oracle.nul_by_writer = true;
      }
    }
    let after = self.visible();
    let lines: BTreeSet<u32> = self.oracle.expected.keys().chain(after.keys()).copied().collect();
    for line in lines {
      let n = after.get(&line).copied().unwrap_or(0);
      let wanted = self.oracle.expected.entry(line).or_default();
      // An older file may be back, with lines that a writer or memfw took out since; and of two copies of
      // a line only one may have been synced.
      let kept =
        if sealed.contains(&line) { u32::MAX } else { sure.get(&line).copied().unwrap_or(0) };
      *wanted = match (*wanted, kept) {
        (1.., 0) if torn.contains(&line) => n.min(*wanted),
        (0, _) | (_, 0) => n,
        _ => kept.max(n).min(*wanted),
      };
      // Pages of two versions that a writer wrote one after the other hold a line twice, and only
      // the writer could know. What an open operation can have left torn is memfw's to repair.
      if n > *wanted && !repairable.contains(&line) {
        let most = self.oracle.doubled.entry(line).or_default();
        *most = n.max(*most);
      }
    }
    self.opened.clear();
  }
}
