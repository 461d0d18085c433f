//! The daemon without its event loop: events mark files as dirty, and due files are processed.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
  path::{Path, PathBuf},
  sync::{Arc, atomic::AtomicBool},
  time::Duration,
};

use super::{
  DaemonError,
  attribution_worker::AttributionWorker,
  discovery::Sources,
  exposure::Exposure,
  health::{Health, Phase, Room},
  interrupt::Interrupts,
  judge::Judge,
  model_worker::ModelWorker,
  moved::adopted_key,
  notifications::{Errands, Helpers},
  open_files::OpenFiles,
  outage::Outage,
  poll::{EVERY, Polls, Retries},
  queue::{Kind, LAST_RETRY, Queue},
  readers::Readers,
  reload::RULES,
  service::seconds,
  shared::{self, Locks},
  summary::SummaryUntil,
  unread::Unread,
};
use crate::{
  engine::{Engine, EngineError, Event, EventKind, Target},
  failpoint::{Point, hit},
  files::{RealFs, Shapes, WatchEvent, Watcher},
  os::{Alarm, paths::read_own},
  store::StateKey,
};

/// How long to wait for the ledger's lock. A lease may be held meanwhile, and openers of that file wait
/// as well; other writers of the ledger take milliseconds.
const LEDGER_PATIENCE: Duration = Duration::from_millis(250);
/// A shorter difference is no suspend, but the time between two readings of a clock.
const SUSPEND: Duration = Duration::from_secs(1);

/// The state of the daemon.
pub struct Guard {
  pub(super) engine: Engine<RealFs>,
  pub(super) fs: RealFs,
  pub(super) watcher: Watcher,
  /// The guarded directories: absolute paths without symbolic links, as far as they exist.
  pub(super) workspaces: Vec<PathBuf>,
  /// Which directories are not workspaces.
  pub(super) shapes: Shapes,
  /// Whether a person named the directories, so that each of them must exist.
  pub(super) is_named: bool,
  pub(super) queue: Queue,
  /// Directories that are polled because events are not reliable there.
  pub(super) polls: Polls,
  /// Directories of which a part could not be read.
  pub(super) retries: Retries,
  /// The paths in them that could not be read.
  pub(super) unreadable: HashSet<PathBuf>,
  /// Memory files that are hidden by a mount.
  pub(super) mounted: BTreeSet<PathBuf>,
  /// Whether the last attempt to read events failed.
  pub(super) is_deaf: bool,
  /// The locks that decide into which directories this installation may write.
  pub(super) locks: Locks,
  /// Files that another program keeps open.
  pub(super) held: OpenFiles,
  /// What `status` reports about each directory.
  pub(super) rooms: BTreeMap<PathBuf, Room>,
  /// Directories of which a part is not guarded.
  pub(super) troubled: HashSet<PathBuf>,
  /// Events that were taken from the watcher during a pass and are not handled yet.
  pub(super) heard: VecDeque<WatchEvent>,
  /// Which files were opened by a reader after their last close by a writer.
  pub(super) readers: Readers,
  /// Directories whose first scan is in progress.
  pub(super) adopting: HashSet<PathBuf>,
  /// Files of that first scan; a file that appears during the scan is no baseline.
  pub(super) baseline: HashSet<Target>,
  /// Files of the start-up scan that were not processed yet.
  pub(super) first: HashSet<Target>,
  /// Files whose content is stored as a version when nothing else is due.
  pub(super) unkept: Vec<Target>,
  /// When old records were last pruned.
  pub(super) retained_at: Option<Duration>,
  /// Directories that need a rescan, and the earliest time of the next one.
  pub(super) looks: BTreeSet<PathBuf>,
  pub(super) next_look: Duration,
  /// Symbolic links that no rescan followed.
  pub(super) links: HashSet<PathBuf>,
  /// The configuration files from which the directories were found.
  pub(super) sources: Sources,
  /// The notifications after a quarantine.
  pub(super) errands: Errands,
  /// The thread on which the model scores texts.
  pub(super) scorer: ModelWorker,
  /// The thread that asks the agent's records.
  pub(super) asker: AttributionWorker,
  /// The judge (layer 3).
  pub(super) judge: Judge,
  pub(super) unread: Unread<Target>,
  /// The configuration files and notes of discovery, kept for the start.
  first_sources: (Vec<PathBuf>, Vec<String>),
  pub(super) health: Health,
  pub(super) exposure: Exposure,
  /// Whether the gate asked a question that was not taken yet.
  pub(super) is_asked: Arc<AtomicBool>,
  /// What interrupts the pass of a large file.
  pub(super) interrupts: Interrupts,
  /// Whether directories were added since [`Guard::new_directories`] was called.
  pub(super) has_new_directories: bool,
  pub(super) trouble: Outage,
  /// Up to which day the log has a summary.
  pub(super) told: SummaryUntil,
  pub(super) alarm: Option<Alarm>,
  /// Whether the key existed before the ledger.
  is_key_older: bool,
  /// Why nothing can be sealed, and so nothing is redacted.
  pub(super) report_only: Option<String>,
  /// Why the user's rules are not in force, if so.
  pub(super) bad_rules: Option<String>,
  /// How long the machine had been suspended in all, at the last check.
  asleep: Duration,
}

/// The parts of a guard.
pub struct Parts {
  /// The engine.
  pub engine: Engine<RealFs>,
  /// The file system that the engine also uses.
  pub fs: RealFs,
  /// The watcher of directories.
  pub watcher: Watcher,
  /// The directories to guard, workspaces first.
  pub workspaces: Vec<PathBuf>,
  /// Which directories are not workspaces.
  pub shapes: Shapes,
  /// Whether a person named the directories, so that each of them must exist.
  pub is_named: bool,
  /// The configuration files from which the directories were found.
  pub sources: Vec<PathBuf>,
  /// What could not be found out about the directories.
  pub notes: Vec<String>,
  /// The programs that can run after a quarantine.
  pub helpers: Helpers,
  /// Where alarms go while the ledger cannot be written.
  pub alarm: Option<Alarm>,
  /// Whether the key existed before the ledger.
  pub is_key_older: bool,
  /// Why nothing can be sealed, if so.
  pub report_only: Option<String>,
  /// Why the user's rules are not in force, if so.
  pub bad_rules: Option<String>,
}

impl Guard {
  /// A guard of these directories.
  pub fn new(parts: Parts) -> Self {
    let Parts { mut engine, fs, watcher, workspaces, shapes, is_named, .. } = parts;
    let Parts { sources, notes, helpers, alarm, is_key_older, report_only, bad_rules, .. } = parts;
    engine.set_shapes(shapes.clone());
    engine.ledger_mut().set_patience(LEDGER_PATIENCE);
    let health = Health {
      pid: std::process::id(),
      version: env!("CARGO_PKG_VERSION").to_owned(),
      phase: Phase::Starting,
      boot: boot_id(),
      started_at: engine.clock().now(),
      scanned_at: None,
      workspaces: workspaces.iter().map(|path| super::health::encode(path)).collect(),
      is_named,
      rooms: Vec::new(),
      wakeups: Vec::new(),
    };
    let is_asked: Arc<AtomicBool> = Arc::default();
    let interrupts = Interrupts::new(Arc::clone(&is_asked));
    engine.set_interrupt(interrupts.asked());
    let (asleep, now) = (engine.clock().asleep(), engine.clock().monotonic());
    Self {
      engine,
      fs,
      watcher,
      workspaces,
      shapes,
      is_named,
      queue: Queue::default(),
      polls: Polls::default(),
      retries: Retries::default(),
      unreadable: HashSet::new(),
      mounted: BTreeSet::new(),
      is_deaf: false,
      locks: Locks::default(),
      held: OpenFiles::default(),
      rooms: BTreeMap::new(),
      troubled: HashSet::new(),
      heard: VecDeque::new(),
      readers: Readers::default(),
      adopting: HashSet::new(),
      baseline: HashSet::new(),
      first: HashSet::new(),
      looks: BTreeSet::new(),
      next_look: Duration::ZERO,
      links: HashSet::new(),
      sources: Sources::default(),
      first_sources: (sources, notes),
      errands: Errands::new(helpers),
      scorer: ModelWorker::default(),
      asker: AttributionWorker::default(),
      judge: Judge::default(),
      unread: Unread::default(),
      unkept: Vec::new(),
      retained_at: None,
      health,
      trouble: Outage::default(),
      told: SummaryUntil::default(),
      alarm,
      is_key_older,
      report_only,
      bad_rules,
      asleep,
      exposure: Exposure::since(now),
      is_asked,
      interrupts,
      has_new_directories: true,
    }
  }

  /// Completes interrupted operations, starts watching, and marks every file as dirty. Can be called
  /// again after the ledger could not be written.
  pub fn start(&mut self) -> Result<(), DaemonError> {
    self.engine.clear_degradations()?;
    self.engine.start_model()?;
    if self.lost_power()? {
      self.engine.ledger_mut().forget_stamps().map_err(EngineError::from)?;
    }
    if self.is_key_older {
      self.note_lost_ledger()?;
    }
    self.compare_with_last()?;
    self.write_health()?;
    let (sources, notes) = self.first_sources.clone();
    self.set_sources(sources, notes)?;
    let helpers = self.errands.helpers.clone();
    self.set_helpers(helpers)?;
    if let Some(why) = &self.bad_rules {
      self.engine.degrade(RULES, why)?;
    }
    if let Some(why) = &self.report_only {
      self.engine.degrade("key", &reports_only(why))?;
    }
    let roots = self.workspaces.clone();
    // Where another installation writes, operations of this one wait until that installation has ended.
    let is_alone = self.owned(&roots)?.len() == roots.len();
    if is_alone && self.report_only.is_none() {
      self.engine.recover()?;
    }
    self.look_first(&roots)?;
    self.mounted = self.mounted_files();
    self.look_for_lost_items()?;
    Ok(())
  }

  /// Whether the machine went down while the last daemon ran. Then the stamp on the disk can be newer
  /// than the bytes that were judged under it.
  fn lost_power(&self) -> Result<bool, EngineError> {
    let Some((json, _)) = self.engine.ledger().state(&StateKey::Daemon)? else { return Ok(false) };
    let Ok(last) = serde_json::from_str::<Health>(&json) else { return Ok(true) };
    Ok(last.phase != Phase::Stopped && last.boot != self.health.boot)
  }

  /// Reports that everything is guarded, once every file that existed at the start was processed; files
  /// written meanwhile are ordinary work. Returns whether this call reported it.
  pub fn finish_start(&mut self) -> Result<bool, DaemonError> {
    if !self.first.is_empty() || self.trouble.text().is_some() {
      return Ok(false);
    }
    let at = self.engine.clock().now();
    for root in &self.adopting {
      // A directory that does not exist has no baseline yet.
      if root.is_dir() {
        hit(Point::AdoptBeforeMark);
        let ledger = self.engine.ledger_mut();
        ledger.set_state(&adopted_key(root), "{}", at).map_err(EngineError::from)?;
        // Without the checkpoint, a power loss could undo the mark, and the next start would adopt later
        // files as baseline.
        ledger.checkpoint().map_err(EngineError::from)?;
        hit(Point::AdoptAfterMark);
      }
    }
    let is_start = self.health.phase == Phase::Starting;
    if is_start || !self.adopting.is_empty() {
      self.read_all()?;
      self.consult_all()?;
    }
    self.end_adoption()?;
    self.baseline.clear();
    if !is_start {
      return Ok(false);
    }
    let line = self.status_line();
    self.engine.tell(Event::new(EventKind::Started).detail(line))?;
    self.unkept = self.engine.versions_due()?;
    self.ask_about_all()?;
    self.health.phase = Phase::Guarding;
    self.health.scanned_at = Some(at);
    self.write_health()?;
    Ok(true)
  }

  /// Whether the start-up scan is in progress.
  pub fn is_starting(&self) -> bool {
    self.health.phase == Phase::Starting
  }

  /// Updates what `status` reads, if it has changed; `further` are wakeups of the event loop.
  pub fn refresh(&mut self, further: Option<String>) {
    let mut wakeups: Vec<String> = further.into_iter().collect();
    for (root, room) in &self.rooms {
      if let Some(why) = &room.polled {
        let root = crate::engine::event::shown(root);
        wakeups.push(format!("polls `{root}` every {}: {why}", seconds(EVERY)));
      }
    }
    wakeups.extend(self.locks.foreign().map(|root| {
      let (root, every) = (crate::engine::event::shown(root), seconds(shared::EVERY));
      format!("asks every {every} whether another memfw still guards `{root}`")
    }));
    wakeups.extend(self.retries.wakeups());
    wakeups.extend(self.held.wakeups());
    self.watcher.attend(self.held.noted());
    wakeups.extend(self.judge.wakeup());
    // A program may have closed its file before the watch began, so the files in newly watched
    // directories are tried now.
    let fresh = self.watcher.hear_readers(self.held.directories());
    for (kind, target) in self.held.within(&fresh) {
      self.try_held(kind, target);
    }
    if let n @ 1.. = self.queue.n_stubborn() {
      let files = if n == 1 { "a file".to_owned() } else { format!("{n} files") };
      let every = seconds(LAST_RETRY);
      wakeups.push(format!("asks for {files} that cannot be worked on every {every}"));
    }
    let rooms: Vec<Room> = self.rooms.values().cloned().collect();
    if (&self.health.rooms, &self.health.wakeups) != (&rooms, &wakeups) {
      (self.health.rooms, self.health.wakeups) = (rooms, wakeups);
      self.report(Self::write_health);
    }
  }

  /// The process woke up: rescans after a suspend, in which events may be lost.
  pub fn woke(&mut self) {
    let asleep = self.engine.clock().asleep();
    let slept = asleep.saturating_sub(std::mem::replace(&mut self.asleep, asleep));
    if slept >= SUSPEND {
      self.rescan(&format!("the machine was suspended for {} s", slept.as_secs()));
    }
  }

  /// One line about what is guarded.
  pub fn status_line(&self) -> String {
    let at = self.engine.clock().now();
    let n_files = self.engine.ledger().counts(at).map_or(0, |counts| counts.files);
    let files = if n_files == 1 { "file" } else { "files" };
    format!("guarding {n_files} {files} in {}", self.health.workspaces.join(", "))
  }

  /// How long until the next work is due.
  pub fn next_due(&self) -> Option<Duration> {
    let now = self.now();
    // While the ledger cannot be written, only the next attempt to write it is due.
    self.trouble.next_due(now).or_else(|| {
      let keep = (!self.unkept.is_empty()).then_some(Duration::ZERO);
      let look = (!self.looks.is_empty()).then(|| self.next_look.saturating_sub(now));
      let sources = self.sources.next_due(now);
      let errand = self.next_errand(now);
      let due = [errand, sources, look, keep, self.queue.next_due(now, &self.busy())];
      let more = [
        self.asker.next_due(now),
        self.unread.next_due(now),
        self.polls.next_due(now),
        self.retries.next_due(now),
        self.locks.next_due(now),
        self.held.next_due(now),
        self.judge.next_due(now),
      ];
      due.into_iter().chain(more).flatten().min()
    })
  }

  /// The kinds of work for which the queue must hand out nothing, because their thread is busy.
  pub(super) fn busy(&self) -> Vec<Kind> {
    let asker = self.asker.is_busy().then_some(Kind::Attribute);
    let scorer = self.scorer.is_busy().then_some(Kind::Model);
    asker.into_iter().chain(scorer).collect()
  }

  /// Whether nothing is pending.
  pub fn is_idle(&self) -> bool {
    self.queue.is_empty()
      && self.looks.is_empty()
      && self.unkept.is_empty()
      && self.scorer.is_idle()
      && !self.asker.is_busy()
  }

  /// Records that the daemon stopped.
  pub fn stop(&mut self, kind: EventKind) {
    self.health.phase = Phase::Stopped;
    // If the ledger cannot be written now, the next start only rescans more thoroughly.
    self.report(Self::write_health);
    self.report(|guard| guard.engine.tell(Event::new(kind)));
  }

  /// Tries a file again that a program may have closed.
  pub(super) fn try_held(&mut self, kind: Kind, target: Target) {
    let now = self.now();
    match kind {
      Kind::Urgent => self.queue.dirty(target, now),
      Kind::Lazy => self.queue.reshape(target, now),
      Kind::Attribute => self.queue.attribute(target, now),
      Kind::Scored => self.queue.scored(target, now),
      Kind::Model => self.queue.read(target, now),
      Kind::Judge => self.queue.consult(target, now),
    }
  }

  /// Runs something on an event, which has no caller to return an error to: the error is logged, and
  /// after an outage a rescan finds what was not noted.
  pub(super) fn report(&mut self, what: impl FnOnce(&mut Self) -> Result<(), EngineError>) {
    match what(self) {
      Ok(()) => {}
      Err(EngineError::Store(error)) if error.is_outage() => self.trouble_with(&error),
      Err(error) => tracing::error!(target: "memfw", %error, "an event could not be noted"),
    }
  }

  pub(super) fn write_health(&mut self) -> Result<(), EngineError> {
    let json = serde_json::to_string(&self.health).unwrap_or_default();
    let at = self.engine.clock().now();
    self.engine.ledger_mut().set_state(&StateKey::Daemon, &json, at)?;
    Ok(())
  }

  pub(super) fn now(&self) -> Duration {
    self.engine.clock().monotonic()
  }
}

/// The text of the degradation while nothing can be sealed.
pub(super) fn reports_only(why: &str) -> String {
  format!("poison is reported and stays where it is, for nothing can be sealed: {why}")
}

fn boot_id() -> Option<String> {
  let text = read_own(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()??;
  String::from_utf8(text).ok().map(|id| id.trim().to_owned())
}
