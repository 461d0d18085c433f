//! The daemon's work without its loop: events mark files dirty, due files are processed.
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

/// How long the ledger is waited for. A lease may be held meanwhile, and openers of that file wait with
/// us; those who write to the ledger take milliseconds.
const LEDGER_PATIENCE: Duration = Duration::from_millis(250);
/// A sleep shorter than this is no suspend but the time between two readings of a clock.
const SUSPEND: Duration = Duration::from_secs(1);

/// What the daemon holds.
pub struct Guard {
  pub(super) engine: Engine<RealFs>,
  pub(super) fs: RealFs,
  pub(super) watcher: Watcher,
  /// Absolute paths without links, as far as they exist.
  pub(super) workspaces: Vec<PathBuf>,
  /// Which of them are no workspaces.
  pub(super) shapes: Shapes,
  /// Whether a person has named them, so that each has to be there.
  pub(super) is_named: bool,
  pub(super) queue: Queue,
  /// Workspaces where events are not enough.
  pub(super) polls: Polls,
  /// Workspaces of which a part could not be looked at.
  pub(super) retries: Retries,
  /// Paths in workspaces of which that is so.
  pub(super) unreadable: HashSet<PathBuf>,
  /// Memory files over which something is mounted.
  pub(super) mounted: BTreeSet<PathBuf>,
  /// Whether events could not be read the last time.
  pub(super) is_deaf: bool,
  /// Which of the workspaces this installation may write into.
  pub(super) locks: Locks,
  /// Files that somebody keeps open.
  pub(super) held: OpenFiles,
  /// What `status` says about each workspace.
  pub(super) rooms: BTreeMap<PathBuf, Room>,
  /// Workspaces a part of which is not guarded.
  pub(super) troubled: HashSet<PathBuf>,
  /// Events that were taken from the watcher while a file was worked on, and not taken in yet.
  pub(super) heard: VecDeque<WatchEvent>,
  /// Who opened what after its last close by a writer.
  pub(super) readers: Readers,
  /// Workspaces whose first scan is under way.
  pub(super) adopting: HashSet<PathBuf>,
  /// Files of that first scan; one that appears meanwhile is no baseline.
  pub(super) baseline: HashSet<Target>,
  /// Files of the start-up scan that were not looked at yet.
  pub(super) first: HashSet<Target>,
  /// Files whose content is to be kept as a version when nothing else is due.
  pub(super) unkept: Vec<Target>,
  /// When old records were looked for last.
  pub(super) retained_at: Option<Duration>,
  /// Workspaces that have to be looked at again, and when that may be next.
  pub(super) looks: BTreeSet<PathBuf>,
  pub(super) next_look: Duration,
  /// Links that no look went through.
  pub(super) links: HashSet<PathBuf>,
  /// What the workspaces follow from.
  pub(super) sources: Sources,
  /// What follows a quarantine.
  pub(super) errands: Errands,
  /// The thread on which texts are read closely.
  pub(super) scorer: ModelWorker,
  /// Who asks the agent's records.
  pub(super) asker: AttributionWorker,
  /// Who asks a model that reads.
  pub(super) judge: Judge,
  pub(super) unread: Unread<Target>,
  /// Until the start: those files, and what could not be found.
  first_sources: (Vec<PathBuf>, Vec<String>),
  pub(super) health: Health,
  pub(super) exposure: Exposure,
  /// Whether somebody at the gate has a question that was not heard yet.
  pub(super) is_asked: Arc<AtomicBool>,
  /// What a large file has to wait for.
  pub(super) interrupts: Interrupts,
  /// Whether directories came since [`Guard::new_directories`].
  pub(super) has_new_directories: bool,
  pub(super) trouble: Outage,
  /// Of which days the log has told.
  pub(super) told: SummaryUntil,
  pub(super) alarm: Option<Alarm>,
  /// Whether the key was there before the ledger.
  is_key_older: bool,
  /// Why nothing can be sealed, and so nothing is redacted.
  pub(super) report_only: Option<String>,
  /// Why a user's rules are not in force, if so.
  pub(super) bad_rules: Option<String>,
  /// How long the machine had been suspended when we last looked.
  asleep: Duration,
}

/// What a guard is made of.
pub struct Parts {
  /// The engine.
  pub engine: Engine<RealFs>,
  /// The file system that the engine has, too.
  pub fs: RealFs,
  /// The watcher of directories.
  pub watcher: Watcher,
  /// The directories to guard, workspaces first.
  pub workspaces: Vec<PathBuf>,
  /// Which of them are no workspaces.
  pub shapes: Shapes,
  /// Whether a person has named them, so that each has to be there.
  pub is_named: bool,
  /// The files that these follow from.
  pub sources: Vec<PathBuf>,
  /// What could not be found out about them.
  pub notes: Vec<String>,
  /// What can be run after a quarantine.
  pub helpers: Helpers,
  /// What is written when the ledger cannot be.
  pub alarm: Option<Alarm>,
  /// Whether the key was there before the ledger.
  pub is_key_older: bool,
  /// Why nothing can be sealed, if so.
  pub report_only: Option<String>,
  /// Why a user's rules are not in force, if so.
  pub bad_rules: Option<String>,
}

impl Guard {
  /// A guard of these workspaces.
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

  /// Replays interrupted operations, starts to watch, and marks every file as dirty. Where the ledger
  /// could not be written it can be called again.
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
    // Where another installation writes, an operation of ours waits until that one ends.
    let is_alone = self.owned(&roots)?.len() == roots.len();
    if is_alone && self.report_only.is_none() {
      self.engine.recover()?;
    }
    self.look_first(&roots)?;
    self.mounted = self.mounted_files();
    self.look_for_lost_items()?;
    Ok(())
  }

  /// Whether the machine went down under the last daemon. Then a stamp can be younger on the disk than
  /// the bytes that it vouches for.
  fn lost_power(&self) -> Result<bool, EngineError> {
    let Some((json, _)) = self.engine.ledger().state(&StateKey::Daemon)? else { return Ok(false) };
    let Ok(last) = serde_json::from_str::<Health>(&json) else { return Ok(true) };
    Ok(last.phase != Phase::Stopped && last.boot != self.health.boot)
  }

  /// Says, when every file that was there at the start was looked at, that everything is guarded; what
  /// is written meanwhile is work like any other. Whether it was said just now.
  pub fn finish_start(&mut self) -> Result<bool, DaemonError> {
    if !self.first.is_empty() || self.trouble.text().is_some() {
      return Ok(false);
    }
    let at = self.engine.clock().now();
    for root in &self.adopting {
      // One that is not there has no baseline yet.
      if root.is_dir() {
        hit(Point::AdoptBeforeMark);
        let ledger = self.engine.ledger_mut();
        ledger.set_state(&adopted_key(root), "{}", at).map_err(EngineError::from)?;
        // On the disk, or after a power cut what comes next were adopted, too.
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

  /// Whether the start-up scan is under way.
  pub fn is_starting(&self) -> bool {
    self.health.phase == Phase::Starting
  }

  /// Brings what `status` reads up to date, if it is not; `further` are wakeups that the loop knows of.
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
    // Whoever has closed a file before that was told is found out by trying.
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

  /// The process woke up, whatever for.
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

  /// How long until something is due.
  pub fn next_due(&self) -> Option<Duration> {
    let now = self.now();
    // While the ledger cannot be written, nothing else is due before it is tried again.
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

  /// For whom nothing is taken from the queue now.
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

  /// Ends in order.
  pub fn stop(&mut self, kind: EventKind) {
    self.health.phase = Phase::Stopped;
    // Where the ledger cannot be written now, the next start looks more closely, and that is all.
    self.report(Self::write_health);
    self.report(|guard| guard.engine.tell(Event::new(kind)));
  }

  /// Somebody who had a file open may have closed it.
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

  /// An error while an event is taken in has no caller to go to: it is said, and what could not be noted
  /// is looked for again once the ledger can be written.
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

/// What is said while nothing can be sealed.
pub(super) fn reports_only(why: &str) -> String {
  format!("poison is reported and stays where it is, for nothing can be sealed: {why}")
}

fn boot_id() -> Option<String> {
  let text = read_own(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()??;
  String::from_utf8(text).ok().map(|id| id.trim().to_owned())
}
