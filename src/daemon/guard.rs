//! The daemon's work without its loop: events mark files dirty, due files are processed.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  DaemonError,
  health::{ADOPTED, Health, KEY, Phase},
  queue::{Kind, Queue, Waiting},
};
use crate::{
  engine::{
    Consequence, Engine, EngineError, Event, EventKind, Hint, LazyOutcome, Outcome, RACY, Target,
    UNLEASED_AFTER, VERIFIED_AFTER,
  },
  os::{
    RealFs, WatchEvent, Watcher, Workspace,
    paths::read_own,
    pause,
    workspace::{is_memory, is_memory_dir},
  },
  store::{FileRow, FileStatus, Pending},
};

/// First and longest pause between two tries for a lease within one turn (docs/adr/0002:
/// 0.2 to 5 ms; the loop's timers are no finer than a millisecond, so the first tries are made here).
const LEASE_PAUSE: Duration = Duration::from_micros(200);
/// How soon a lease is asked for again while a verifying reader is there (it stays for 0.1 to 0.3 ms;
/// the loop's timers are no finer).
const READER_PAUSE: Duration = Duration::from_millis(1);
/// A file that changes under our hands so often in a row is left for the next turn.
const MAX_CHANGED: u32 = 16;

/// What the daemon holds.
pub struct Guard {
  engine: Engine<RealFs>,
  watcher: Watcher,
  /// Absolute paths without links, as far as they exist.
  workspaces: Vec<PathBuf>,
  queue: Queue,
  /// Whether somebody else opened a file after its last close by a writer.
  opened: HashMap<Target, bool>,
  /// When somebody else opened a file the last time, on the monotonic clock.
  opened_at: HashMap<Target, Duration>,
  /// Opens of our own whose events are still to come.
  own_opens: HashMap<Target, u32>,
  /// Workspaces whose first scan is under way.
  adopting: HashSet<PathBuf>,
  /// Files of that first scan; one that appears meanwhile is no baseline.
  baseline: HashSet<Target>,
  /// Files of the start-up scan that were not looked at yet.
  first: HashSet<Target>,
  health: Health,
}

impl Guard {
  /// A guard of these workspaces.
  pub fn new(engine: Engine<RealFs>, watcher: Watcher, workspaces: Vec<PathBuf>) -> Self {
    let health = Health {
      pid: std::process::id(),
      version: env!("CARGO_PKG_VERSION").to_owned(),
      phase: Phase::Starting,
      boot: boot_id(),
      started_at: engine.clock().now(),
      scanned_at: None,
      workspaces: workspaces.iter().map(|path| super::health::encode(path)).collect(),
    };
    Self {
      engine,
      watcher,
      workspaces,
      queue: Queue::default(),
      opened: HashMap::new(),
      opened_at: HashMap::new(),
      own_opens: HashMap::new(),
      adopting: HashSet::new(),
      baseline: HashSet::new(),
      first: HashSet::new(),
      health,
    }
  }

  /// Replays interrupted operations, starts to watch, and marks every file as dirty.
  pub fn start(&mut self) -> Result<(), DaemonError> {
    self.engine.clear_degradations()?;
    if self.lost_power()? {
      self.engine.ledger_mut().forget_stamps().map_err(EngineError::from)?;
    }
    self.write_health()?;
    self.engine.recover()?;
    let rows = self.engine.ledger().files().map_err(EngineError::from)?;
    let mut known: HashMap<PathBuf, FileRow> =
      rows.into_iter().map(|row| (row.path.clone(), row)).collect();
    for root in self.workspaces.clone() {
      let key = adopted_key(&root);
      if self.engine.ledger().health(&key).map_err(EngineError::from)?.is_none() {
        self.adopting.insert(root.clone());
      }
      // Watching comes before looking, so that nothing falls in between.
      self.look_at(&root, Some(&mut known))?;
    }
    // A file that is gone is not found by looking.
    let now = self.now();
    for row in known.into_values().filter(|row| row.status != FileStatus::Missing) {
      if let (true, Ok(rel)) =
        (self.workspaces.contains(&row.workspace), row.path.strip_prefix(&row.workspace))
      {
        self.queue.dirty(Target::new(&row.workspace, rel), now);
      }
    }
    self.first = self.queue.dirty_targets().cloned().collect();
    Ok(())
  }

  /// Whether the machine went down under the last daemon. Then a stamp can be younger on the disk than
  /// the bytes that it vouches for.
  fn lost_power(&self) -> Result<bool, EngineError> {
    let Some((json, _)) = self.engine.ledger().health(KEY)? else { return Ok(false) };
    let Ok(last) = serde_json::from_str::<Health>(&json) else { return Ok(true) };
    Ok(last.phase != Phase::Stopped && last.boot != self.health.boot)
  }

  /// Says once, when every file that was there at the start was looked at, that everything is guarded;
  /// what is written meanwhile is work like any other.
  pub fn finish_start(&mut self) -> Result<bool, DaemonError> {
    if self.health.phase != Phase::Starting || !self.first.is_empty() {
      return Ok(false);
    }
    let at = self.engine.clock().now();
    for root in std::mem::take(&mut self.adopting) {
      // One that is not there has no baseline yet.
      if !root.is_dir() {
        continue;
      }
      let ledger = self.engine.ledger_mut();
      ledger.set_health(&adopted_key(&root), "{}", at).map_err(EngineError::from)?;
    }
    self.baseline.clear();
    self.health.phase = Phase::Guarding;
    self.health.scanned_at = Some(at);
    self.write_health()?;
    let line = self.status_line();
    self.engine.tell(Event::new(EventKind::Started).detail(line))?;
    Ok(true)
  }

  /// One line about what is guarded.
  pub fn status_line(&self) -> String {
    let at = self.engine.clock().now();
    let n_files = self.engine.ledger().counts(at).map_or(0, |counts| counts.files);
    let files = if n_files == 1 { "file" } else { "files" };
    format!("guarding {n_files} {files} in {}", self.health.workspaces.join(", "))
  }

  /// Takes an event in; nothing is opened here.
  pub fn seen(&mut self, event: &WatchEvent) {
    match event {
      WatchEvent::Dirty(path) => self.mark(path),
      WatchEvent::Closed(path) => {
        if let Some(target) = self.target(path) {
          self.opened.insert(target, false);
        }
        self.mark(path);
      }
      WatchEvent::Opened(path) => self.note_open(path),
      WatchEvent::DirAdded(path) => self.look_again(Some(path)),
      WatchEvent::RootGone(path) => {
        self.watcher.remove(path);
        self.engine.forget_root(path);
        self.look_again(None);
      }
      WatchEvent::Rescan => {
        self.look_again(None);
        let event = Event::new(EventKind::Rescanned).detail("the watcher lost events");
        self.report(|guard| guard.engine.tell(event));
      }
      WatchEvent::Limit(limit) => {
        let text = limit.to_string();
        self.report(|guard| guard.engine.degrade("watch", &text));
      }
      WatchEvent::Error(text) => self.report(|guard| guard.engine.degrade("watch", text)),
    }
  }

  /// Processes one file that is due; `false` when none is.
  pub fn work(&mut self) -> Result<bool, DaemonError> {
    let now = self.now();
    let Some((kind, target, waiting)) = self.queue.take(now) else { return Ok(false) };
    let result = match kind {
      Kind::Urgent => self.urgent(&target, waiting),
      Kind::Lazy => self.lazy(&target, waiting),
    };
    match result {
      Ok(()) => Ok(true),
      Err(error) if error.consequence() == Consequence::Stop => Err(error.into()),
      // The files of a workspace that is gone are looked for when it is back.
      Err(EngineError::Root(_)) => {
        self.engine.forget_root(&target.root);
        self.first.remove(&target);
        self.report(|guard| guard.look_at(&target.root, None));
        Ok(true)
      }
      Err(error) => {
        let key = format!("file:{}", crate::engine::event::shown(&target.path()));
        let text = error.to_string();
        self.report(|guard| guard.engine.degrade(&key, &text));
        self.first.remove(&target);
        let now = self.now();
        self.queue.back_off(kind, target, waiting, now);
        Ok(true)
      }
    }
  }

  /// How long until something is due.
  pub fn next_due(&self) -> Option<Duration> {
    self.queue.next_due(self.now())
  }

  /// Whether nothing is pending.
  pub fn is_idle(&self) -> bool {
    self.queue.is_empty()
  }

  /// Ends in order.
  pub fn stop(&mut self, kind: EventKind) -> Result<(), DaemonError> {
    self.health.phase = Phase::Stopped;
    self.write_health()?;
    self.engine.tell(Event::new(kind))?;
    Ok(())
  }

  fn urgent(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let mut pause_for = LEASE_PAUSE;
    let mut n_changed = 0;
    loop {
      let now = self.now();
      let hint = Hint {
        waited: now.saturating_sub(waiting.since),
        opened_since_close: self.opened.get(target).copied().unwrap_or(false),
        adopting: self.baseline.contains(target),
      };
      let outcome = self.engine.pass(target, &hint);
      self.count_opens();
      let outcome = outcome?;
      let now = self.now();
      match outcome {
        Outcome::Busy if now.saturating_sub(waiting.since) < UNLEASED_AFTER => {
          pause(pause_for);
          pause_for = pause_for.saturating_mul(2);
        }
        Outcome::Changed if n_changed < MAX_CHANGED => n_changed += 1,
        Outcome::Busy | Outcome::Changed | Outcome::HeldOpen => {
          if outcome == Outcome::HeldOpen {
            self.first.remove(target);
          }
          self.queue.back_off(Kind::Urgent, target.clone(), waiting, now);
          return Ok(());
        }
        Outcome::HoldOff(wait) => {
          // Once the reader has come, it will be gone in a moment.
          let due = now + if hint.opened_since_close { READER_PAUSE } else { wait };
          self.queue.put_off(Kind::Urgent, target.clone(), waiting, due);
          return Ok(());
        }
        Outcome::Done { reshape_due, recheck } | Outcome::Unchanged { reshape_due, recheck } => {
          if recheck {
            self.queue.dirty(target.clone(), now + RACY);
          }
          self.calm(target)?;
          if reshape_due {
            self.queue.reshape(target.clone(), now + self.engine.config().reshape_idle);
          }
          return Ok(());
        }
        Outcome::Gone | Outcome::Unscannable => {
          self.calm(target)?;
          return Ok(());
        }
      }
    }
  }

  fn lazy(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    if self.queue.is_dirty(target) {
      let idle = self.engine.config().reshape_idle;
      let due = self.now() + idle.max(RACY);
      self.queue.reshape(target.clone(), due);
      return Ok(());
    }
    // A tool that has read the file writes next, and its agent's record must then be about what it read.
    if let Some(at) = self.opened_at.get(target).copied() {
      let rest = (at + VERIFIED_AFTER).saturating_sub(self.now());
      if !rest.is_zero() && self.engine.is_recorded(target)? {
        let due = self.now() + rest;
        self.queue.reshape(target.clone(), due);
        return Ok(());
      }
    }
    self.opened_at.remove(target);
    let idle = self.engine.config().reshape_idle;
    let outcome = self.engine.lazy(target, idle);
    self.count_opens();
    let outcome = outcome?;
    let now = self.now();
    match outcome {
      LazyOutcome::Done => {}
      LazyOutcome::NotIdle(rest) => self.queue.reshape(target.clone(), now + rest),
      LazyOutcome::Busy => self.queue.back_off(Kind::Lazy, target.clone(), waiting, now),
      LazyOutcome::Dirty => self.queue.dirty(target.clone(), now),
    }
    Ok(())
  }

  /// Opens of our own are events, too; they are no reader that an agent's tool was waiting for.
  fn count_opens(&mut self) {
    for opened in self.engine.take_opens() {
      *self.own_opens.entry(opened).or_default() += 1;
    }
  }

  /// A file was processed: what was wrong about it is over.
  fn calm(&mut self, target: &Target) -> Result<(), EngineError> {
    self.opened.remove(target);
    self.own_opens.remove(target);
    self.baseline.remove(target);
    self.first.remove(target);
    let key = format!("file:{}", crate::engine::event::shown(&target.path()));
    self.engine.recovered(&key)
  }

  fn mark(&mut self, path: &Path) {
    let now = self.now();
    if let Some(target) = self.target(path) {
      self.queue.dirty(target, now);
    }
  }

  /// Somebody opened a file. Our own opens are told apart by counting; where two opens were merged
  /// into one event the hold-off simply lasts its full time.
  fn note_open(&mut self, path: &Path) {
    let Some(target) = self.target(path) else { return };
    if let Some(n) = self.own_opens.get_mut(&target).filter(|n| **n > 0) {
      *n -= 1;
      return;
    }
    let now = self.now();
    self.opened_at.insert(target.clone(), now);
    if self.opened.get(&target) == Some(&false) {
      self.opened.insert(target.clone(), true);
    }
    if self.queue.is_dirty(&target) {
      let now = self.now();
      self.queue.dirty(target, now);
    }
  }

  /// Looks at the workspace of a path (at all of them without one) again.
  fn look_again(&mut self, path: Option<&Path>) {
    for root in self.workspaces.clone() {
      let concerned = path.is_none_or(|path| path.starts_with(&root) || root.starts_with(path));
      let of_interest = path
        .and_then(|path| path.strip_prefix(&root).ok())
        .is_none_or(|rel| rel.as_os_str().is_empty() || is_memory_dir(rel));
      if concerned && of_interest {
        self.report(|guard| guard.look_at(&root, None));
      }
    }
  }

  /// Watches the directories of a workspace and marks its files as dirty. At a start the files that the
  /// ledger knows with the stamp that they have are left alone; all that are there are taken out of
  /// `known`.
  fn look_at(
    &mut self,
    root: &Path,
    mut known: Option<&mut HashMap<PathBuf, FileRow>>,
  ) -> Result<(), EngineError> {
    let key = format!("workspace:{}", crate::engine::event::shown(root));
    let fs = RealFs::default();
    let workspace = match Workspace::open(&fs, root) {
      Ok(workspace) => workspace,
      Err(error) => {
        self.await_directory(root);
        return self.engine.degrade(&key, &error.to_string());
      }
    };
    let mut problems: Vec<String> = Vec::new();
    let mut walk = workspace.walk(&fs);
    loop {
      let watched = self.watcher.watched();
      let mut watched_more = false;
      for dir in walk.dirs.iter().map(|dir| workspace.absolute(dir)) {
        if watched.binary_search(&dir).is_ok() {
          continue;
        }
        match self.watcher.add(&dir) {
          Ok(()) => watched_more = true,
          Err(error) => problems.push(error.to_string()),
        }
      }
      // What was written into a directory before it was watched is found by looking once more.
      if !watched_more {
        break;
      }
      walk = workspace.walk(&fs);
    }
    problems.extend(walk.problems.iter().map(ToString::to_string));
    let now = self.now();
    for file in &walk.files {
      let target = Target::new(root, file);
      if known.is_some() && self.adopting.contains(root) {
        self.baseline.insert(target.clone());
      }
      let row = known.as_mut().and_then(|known| known.remove(&target.path()));
      match row {
        Some(row) if self.engine.is_current(&target, &row)? => {
          if row.pending.contains(Pending::RESHAPE) {
            self.queue.reshape(target, now);
          }
        }
        _ => self.queue.dirty(target, now),
      }
    }
    problems.sort();
    problems.dedup();
    if problems.is_empty() {
      self.engine.recovered(&key)
    } else {
      self.engine.degrade(&key, &problems.join("; "))
    }
  }

  /// A workspace that is not there yet is seen when it appears in the nearest directory that is.
  fn await_directory(&mut self, root: &Path) {
    let nearest = root.ancestors().skip(1).find(|dir| dir.is_dir());
    if let Some(Err(error)) = nearest.map(|dir| self.watcher.add(dir)) {
      tracing::warn!(target: "memfw", %error, "a missing workspace is not waited for");
    }
  }

  /// The memory file behind a path of an event.
  fn target(&self, path: &Path) -> Option<Target> {
    self.workspaces.iter().find_map(|root| {
      let rel = path.strip_prefix(root).ok()?;
      is_memory(rel).then(|| Target::new(root, rel))
    })
  }

  /// An error while an event is taken in has no caller to go to: it is said, and the next pass over
  /// the same file meets it again.
  fn report(&mut self, what: impl FnOnce(&mut Self) -> Result<(), EngineError>) {
    if let Err(error) = what(self) {
      tracing::error!(target: "memfw", %error, "the ledger could not be written");
    }
  }

  fn write_health(&mut self) -> Result<(), EngineError> {
    let json = serde_json::to_string(&self.health).unwrap_or_default();
    let at = self.engine.clock().now();
    self.engine.ledger_mut().set_health(KEY, &json, at)?;
    Ok(())
  }

  fn now(&self) -> Duration {
    self.engine.clock().monotonic()
  }
}

fn boot_id() -> Option<String> {
  let text = read_own(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()??;
  String::from_utf8(text).ok().map(|id| id.trim().to_owned())
}

fn adopted_key(root: &Path) -> String {
  format!("{ADOPTED}{}", crate::engine::event::shown(root))
}
