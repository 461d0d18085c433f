//! The world of a schedule: disk, writers, time, and what happens between two calls of the engine.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
  sync::Arc,
};

use super::{
  book::Book,
  clock::SimClock,
  disk::Disk,
  oracle::Oracle,
  rng::Rng,
  writer::{Actor, Step},
};
use memfw::os::Rung;

/// What is broken on purpose, so that the oracle has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
  /// Nothing.
  None,
  /// Leases are granted to everybody and keep nobody out, and every comparison with what was read
  /// finds it unchanged.
  BlindComparison,
  /// A power loss takes the rows that were written since the start, as `synchronous=OFF` would.
  ForgetfulLedger,
  /// The window between comparison and write of a redaction without a lease, which is atomic
  /// otherwise, is open to writers. It is the documented remainder of the protocol.
  OpenGap,
}

/// How an engine's call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
  Fine,
  /// The system call fails.
  Fails,
  /// The engine is killed in this call.
  Killed,
}

/// Everything of a schedule that is not the engine.
pub(crate) struct World {
  pub(crate) clock: Arc<SimClock>,
  pub(crate) rng: Rng,
  pub(crate) disk: Disk,
  pub(crate) book: Book,
  pub(crate) oracle: Oracle,
  pub(crate) control: Control,
  pub(crate) rung: Rung,
  /// The memory files.
  pub(crate) paths: Vec<PathBuf>,
  /// At most so many steps of writers before each call of the engine.
  pub(crate) intensity: usize,
  /// Writers that may still begin.
  pub(crate) budget: usize,
  /// Calls until one fails; 0: none does.
  pub(crate) fault: usize,
  /// File times advance only every 4 ms.
  pub(crate) coarse: bool,
  /// Steps that changed a file.
  pub(crate) n_changes: u64,
  /// Calls of the engine.
  pub(crate) n_calls: u64,
  /// What happened, where somebody wants to read it.
  pub(crate) trace: Option<Vec<String>>,
  actors: Vec<Actor>,
  serial: usize,
}

impl World {
  pub(crate) fn new(seed: u64, control: Control, clock: Arc<SimClock>, oracle: Oracle) -> Self {
    Self {
      clock,
      rng: Rng::new(seed),
      disk: Disk::default(),
      book: Book::default(),
      oracle,
      control,
      rung: Rung::Lease,
      paths: Vec::new(),
      intensity: 0,
      budget: 0,
      fault: 0,
      coarse: false,
      n_changes: 0,
      n_calls: 0,
      trace: None,
      actors: Vec::new(),
      serial: 0,
    }
  }

  pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
    if let Some(trace) = &mut self.trace {
      trace.push(what());
    }
  }

  /// What a file's times would be now.
  pub(crate) fn now_ns(&self) -> i64 {
    let now = self.clock.wall() * 1000;
    if self.coarse { now - now.rem_euclid(4_000_000) } else { now }
  }

  /// How often each line stands in the memory files.
  pub(crate) fn visible(&self) -> BTreeMap<u32, u32> {
    let mut all = BTreeMap::new();
    for path in &self.paths {
      for (line, n) in self.book.count(self.disk.content(path).unwrap_or_default()) {
        *all.entry(line).or_default() += n;
      }
    }
    all
  }

  /// The engine calls: time passes, others run, and the call may be its last.
  pub(crate) fn called(&mut self, name: &str, alone: bool) -> Fate {
    self.n_calls += 1;
    let pause = 1 + self.rng.below(200) as i64;
    self.clock.advance(pause);
    if self.intensity > 0 {
      if self.rng.one_in(300) {
        let stall = 100_000 + self.rng.below(600_000) as i64;
        self.clock.advance(stall);
      }
      // Stopped for longer than a lease lives between its last look at the clock and the write: that
      // is a documented remainder, so it happens before other calls only.
      if self.rng.one_in(5000) && !matches!(name, "pwrite" | "truncate") {
        self.say(|| "stall of 46 s".to_owned());
        // The kernel breaks leases by force when somebody waits for so long.
        self.clock.advance(46_000_000);
        self.disk.break_leases();
      }
      if !alone {
        let n = self.rng.below(self.intensity);
        self.run(n);
      }
    }
    self.say(|| format!("engine: {name}"));
    if self.clock.burns_down() {
      self.say(|| "killed".to_owned());
      return Fate::Killed;
    }
    if self.fault > 0 {
      self.fault -= 1;
      if self.fault == 0 {
        self.say(|| "fails".to_owned());
        return Fate::Fails;
      }
    }
    Fate::Fine
  }

  /// Lets writers do some steps.
  pub(crate) fn run(&mut self, n_steps: usize) {
    for _ in 0..n_steps {
      self.step();
    }
  }

  /// Lets all writers finish.
  pub(crate) fn finish(&mut self) {
    self.budget = 0;
    for _ in 0..100_000 {
      if self.actors.is_empty() {
        return;
      }
      self.step();
    }
    self.oracle.violation("a writer never finished");
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
      let actor = Actor::new(&mut self.rng, &mut self.book, &path, self.serial);
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
        self.disk.close(fd);
      }
    } else {
      self.actors.insert(index, actor);
    }
  }

  /// One system call of a writer; `false` when it waits for a lease.
  fn carry_out(&mut self, actor: &mut Actor, step: &Step) -> bool {
    if let Step::Open { path, .. } = step
      && self.disk.is_leased(path)
    {
      return false;
    }
    if !matches!(step, Step::Nothing) {
      let name = actor.name;
      self.say(|| format!("  {name}: {}", shown(step)));
    }
    let now = self.now_ns();
    let ino = actor.fd.and_then(|fd| self.disk.ino(fd));
    match step {
      Step::Open { path, create, truncate, append } => {
        actor.fd = self.disk.open(path, *create, *append, now);
        actor.at = 0;
        let ino = actor.fd.and_then(|fd| self.disk.ino(fd));
        if let (true, Some(ino)) = (truncate, ino) {
          self.change(ino, |disk| disk.truncate(ino, 0, now), 0..usize::MAX);
        }
      }
      Step::Read => {
        actor.buffer = ino.map(|ino| self.disk.inode(ino).data.clone()).unwrap_or_default();
      }
      Step::Prepend(text) => {
        actor.buffer.splice(0..0, text.iter().copied());
      }
      Step::Extend(text) => actor.buffer.extend_from_slice(text),
      Step::Replace(line, text) => replace(&mut actor.buffer, *line, text),
      Step::Write(from, to) => {
        let part = actor.buffer.len() * from / 100..actor.buffer.len() * to / 100;
        let (at, bytes) = (part.start, actor.buffer[part].to_vec());
        if let Some(ino) = ino {
          self.write(ino, at, &bytes);
        }
      }
      Step::Put(text) => {
        let append = actor.fd.is_some_and(|fd| self.disk.is_append(fd));
        if let Some(ino) = ino {
          let at = if append { self.disk.inode(ino).data.len() } else { actor.at };
          self.write(ino, at, text);
          actor.at = at + text.len();
        }
      }
      Step::Cut => {
        if let Some(ino) = ino {
          let len = actor.buffer.len();
          self.change(ino, |disk| disk.truncate(ino, len, now), len..usize::MAX);
        }
      }
      Step::Sync => {
        if let Some(ino) = ino {
          self.disk.sync(ino, &self.book);
        }
      }
      Step::Close => {
        if let Some(fd) = actor.fd.take() {
          self.disk.close(fd);
        }
      }
      Step::Map => {
        actor.map = ino;
        if let Some(ino) = ino {
          self.disk.inode_mut(ino).maps += 1;
        }
      }
      Step::Store(text) => {
        if let Some(ino) = actor.map {
          let at = self.disk.inode(ino).data.len();
          self.write(ino, at, text);
        }
      }
      Step::Unmap => {
        if let Some(ino) = actor.map.take() {
          self.disk.inode_mut(ino).maps -= 1;
        }
      }
      Step::Rename(from, to) => self.rename(from, to, now),
      Step::Unlink(path) => {
        let before = self.visible();
        self.disk.unlink(path);
        self.noted(&before);
      }
      Step::Nothing => {}
    }
    true
  }

  fn rename(&mut self, from: &Path, to: &Path, now: i64) {
    let before = self.visible();
    self.disk.rename(from, to, now);
    self.noted(&before);
  }

  fn write(&mut self, ino: usize, at: usize, bytes: &[u8]) {
    let now = self.now_ns();
    self.change(ino, |disk| disk.write(ino, at, bytes, now), at..at + bytes.len());
  }

  /// A writer changes a range of a file.
  fn change(&mut self, ino: usize, what: impl FnOnce(&mut Disk), range: std::ops::Range<usize>) {
    let linked = self.disk.is_linked(ino);
    let before = if linked { self.visible() } else { BTreeMap::new() };
    let had_nul = self.disk.inode(ino).data.contains(&0);
    for (line, place) in self.book.places(&self.disk.inode(ino).data) {
      if place.start < range.end && range.start < place.end {
        self.disk.inode_mut(ino).sure.remove(&line);
      }
    }
    what(&mut self.disk);
    if linked {
      self.noted(&before);
    }
    self.oracle.nul_by_writer |= !had_nul && self.disk.inode(ino).data.contains(&0);
  }

  /// What a writer changed is from now on what has to be there.
  fn noted(&mut self, before: &BTreeMap<u32, u32>) {
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

  /// The power goes: all processes end, and only what reached the disk is there afterwards.
  pub(crate) fn power_loss(&mut self) {
    self.say(|| "power loss".to_owned());
    self.actors.clear();
    let mut sure = BTreeSet::new();
    for path in &self.paths {
      if let Some(ino) = self.disk.lookup(path) {
        sure.extend(self.disk.inode(ino).sure.iter().copied());
      }
    }
    self.disk.power_loss(&mut self.rng);
    sure.extend(self.oracle.sealed(&self.book));
    let after = self.visible();
    let lines: BTreeSet<u32> = self.oracle.expected.keys().chain(after.keys()).copied().collect();
    for line in lines.difference(&sure) {
      self.oracle.expected.insert(*line, after.get(line).copied().unwrap_or(0));
    }
  }
}

/// Takes the n-th line out of a text and puts another in its place.
fn replace(buffer: &mut Vec<u8>, line: usize, text: &[u8]) {
  let lines: Vec<&[u8]> = buffer.split_inclusive(|&byte| byte == b'\n').collect();
  if lines.is_empty() {
    buffer.extend_from_slice(text);
    return;
  }
  let out = line % lines.len();
  *buffer = [&lines[..out], &[text], &lines[out + 1..]].concat().concat();
}

fn shown(step: &Step) -> String {
  let mut text = format!("{step:?}");
  if let Step::Put(bytes)
  | Step::Extend(bytes)
  | Step::Prepend(bytes)
  | Step::Store(bytes)
  | Step::Replace(_, bytes) = step
  {
    let name = text.split_once('(').map_or("", |(name, _)| name).to_owned();
    text = format!("{name} {:?}", bytes.escape_ascii().to_string());
  }
  text
}
