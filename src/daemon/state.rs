//! The daemon without its event loop: events mark files as dirty, and due files are processed.
#![forbid(unsafe_code)]

use std::{
  path::Path,
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
  },
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  DaemonError, Discovery, Helpers,
  action::{Action, Surroundings},
  attribution_worker::AttributionWorker,
  directories::Directories,
  discovery::Sources,
  exposure::Exposure,
  gate,
  gate_request::GateRequests,
  health::{Health, Phase, Room},
  housekeeping::Housekeeping,
  interrupt::Interrupts,
  judge::Judge,
  model_worker::ModelWorker,
  moved::{Adoption, adopted_key},
  notifications::Notifications,
  open_files::OpenFiles,
  outage::Outage,
  poll::EVERY,
  queue::{Kind, LAST_RETRY, Queue},
  reload::RULES,
  service::seconds,
  shared,
  summary::SummaryUntil,
  unread::Unread,
  unwritten::Unwritten,
  watched::Watching,
};
use crate::{
  engine::{Engine, EngineError, Event, EventKind, Scored, Target},
  failpoint::{Point, hit},
  files::{RealFs, Watcher},
  os::{Alarm, paths::read_own},
  store::StateKey,
};

/// How long to wait for the ledger's lock. A lease may be held meanwhile, and openers of that file wait
/// as well; other writers of the ledger take milliseconds.
const LEDGER_PATIENCE: Duration = Duration::from_millis(250);
/// A day, in microseconds.
const DAY: i64 = 86_400 * 1_000_000;
/// A shorter difference is no suspend, but the time between two readings of a clock.
const SUSPEND: Duration = Duration::from_secs(1);

/// The daemon: an engine, the work that is due, and parts that each know one thing.
pub struct Daemon {
  pub(super) engine: Engine<RealFs>,
  pub(super) fs: RealFs,
  /// What is guarded, and in which condition it is.
  pub(super) directories: Directories,
  /// The configuration files from which the directories were found.
  pub(super) sources: Sources,
  /// The directories whose content at the start becomes the baseline.
  pub(super) adoption: Adoption,
  pub(super) watching: Watching,
  pub(super) queue: Queue,
  /// Files that another program keeps open.
  pub(super) open_files: OpenFiles,
  /// Files whose idle edit could not be written.
  pub(super) unwritten: Unwritten,
  pub(super) housekeeping: Housekeeping,
  /// What follows a quarantine outside of the file.
  pub(super) notifications: Notifications,
  /// The thread on which the model scores texts.
  pub(super) model_worker: ModelWorker,
  /// The thread that asks the agent's records.
  pub(super) attribution_worker: AttributionWorker,
  /// The judge (layer 3).
  pub(super) judge: Judge,
  /// Files about which the agent's records could not be read.
  pub(super) unread: Unread<Target>,
  pub(super) health: Health,
  pub(super) exposure: Exposure,
  /// The readers that wait at the gate.
  pub(super) gate: GateRequests,
  /// Whether the gate asked a question that was not taken yet.
  pub(super) is_asked: Arc<AtomicBool>,
  /// What interrupts the pass of a large file.
  pub(super) interrupts: Interrupts,
  pub(super) outage: Outage,
  /// Up to which day the log has a summary.
  pub(super) summary: SummaryUntil,
  /// Whether the key existed before the ledger.
  is_key_older: bool,
  lost_since: Option<i64>,
  /// Why nothing can be sealed, and so nothing is redacted.
  pub(super) report_only: Option<String>,
  /// Why the user's rules are not in force, if so.
  pub(super) bad_rules: Option<String>,
  /// How long the machine had been suspended in all, at the last check.
  asleep: Duration,
}

/// What a daemon is started with.
pub struct Options {
  /// The directories to guard, and the agent's records about them.
  pub found: Discovery,
  /// The file system that the engine also uses.
  pub fs: RealFs,
  /// Where alarms go while the ledger cannot be written.
  pub alarm: Option<Alarm>,
  /// Whether the key existed before the ledger, which means that the key's first ledger was lost.
  pub is_key_older: bool,
  /// Since when files may have been changed under a ledger that is not this one, in microseconds UTC: this ledger
  /// is an older copy of it, or new. `None` if this ledger is the last one.
  pub lost_since: Option<i64>,
  /// Why nothing can be sealed, if so. Then nothing is redacted, and poison is only reported.
  pub report_only: Option<String>,
  /// Why the user's rules are not in force, if so. Then the built-in rules guard.
  pub bad_rules: Option<String>,
}

impl Daemon {
  /// A daemon that guards what was found.
  pub fn new(mut engine: Engine<RealFs>, watcher: Watcher, options: Options) -> Self {
    let Options { found, fs, alarm, is_key_older, lost_since, report_only, bad_rules } = options;
    let Discovery { workspaces, shapes, is_named, agent, files, notes, helpers, .. } = found;
    engine.set_agent(agent);
    engine.files().set_shapes(shapes.clone());
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
    engine.judge().set_interrupt(interrupts.asked());
    let (asleep, now) = (engine.clock().asleep(), engine.clock().monotonic());
    Self {
      engine,
      fs,
      directories: Directories::new(workspaces, shapes, is_named),
      sources: Sources::new(files, notes),
      adoption: Adoption::default(),
      watching: Watching::by(watcher),
      queue: Queue::default(),
      open_files: OpenFiles::default(),
      unwritten: Unwritten::default(),
      housekeeping: Housekeeping::default(),
      notifications: Notifications::new(helpers),
      model_worker: ModelWorker::default(),
      attribution_worker: AttributionWorker::default(),
      judge: Judge::default(),
      unread: Unread::default(),
      health,
      exposure: Exposure::since(now),
      gate: GateRequests::default(),
      is_asked,
      interrupts,
      outage: Outage::new(alarm),
      summary: SummaryUntil::default(),
      is_key_older,
      lost_since,
      report_only,
      bad_rules,
      asleep,
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
    if self.is_key_older || self.lost_since.is_some() {
      self.note_lost_ledger()?;
    }
    if let Some(since) = self.lost_since {
      // As where another installation has guarded: what changed is judged as new, and comments of memfw stay.
      self.directories.locks.guarded_by_others(&self.directories.workspaces, since);
      self.engine.ledger().accept_as_newest().map_err(EngineError::from)?;
    }
    self.compare_with_last()?;
    self.write_health()?;
    let (sources, notes) = self.sources.first();
    self.set_sources(sources, notes)?;
    let helpers = self.notifications.helpers.clone();
    self.set_helpers(helpers)?;
    if let Some(why) = &self.bad_rules {
      self.engine.degrade(RULES, why)?;
    }
    if let Some(why) = &self.report_only {
      self.engine.degrade("key", &reports_only(why))?;
    }
    let (at, now) = (self.engine.clock().now(), self.now());
    // What happened since a clock was set has the time of that clock, so what is older counts as well.
    for before in [i64::MAX, at.saturating_sub(DAY)] {
      let last_event = self.engine.ledger().last_event_before(before).map_err(EngineError::from)?;
      self.housekeeping.doubt_clock(last_event, at, now);
    }
    let roots = self.directories.workspaces.clone();
    // Where another installation writes, operations of this one wait until that installation has ended.
    self.owned(&roots)?;
    if self.report_only.is_none() {
      self.recover()?;
    }
    self.first_scan(&roots)?;
    self.directories.mounted = self.mounted_files();
    self.find_lost_items()?;
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
    if !self.adoption.first.is_empty() || self.outage.text().is_some() {
      return Ok(false);
    }
    let at = self.engine.clock().now();
    for root in &self.adoption.roots {
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
    if is_start || !self.adoption.roots.is_empty() {
      self.request_all_scores()?;
      self.consult_all()?;
    }
    self.end_adoption()?;
    self.adoption.baseline.clear();
    if !is_start {
      return Ok(false);
    }
    let line = self.status_line();
    self.engine.tell(Event::new(EventKind::Started).detail(line))?;
    self.housekeeping.set_due_versions(self.engine.versions_due()?);
    self.request_all_attributions()?;
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
    for (root, room) in &self.directories.rooms {
      if let Some(why) = &room.polled {
        let root = crate::engine::event::shown(root);
        wakeups.push(format!("polls `{root}` every {}: {why}", seconds(EVERY)));
      }
    }
    wakeups.extend(self.directories.locks.foreign().map(|root| {
      let (root, every) = (crate::engine::event::shown(root), seconds(shared::EVERY));
      format!("checks every {every} whether another memfw still guards `{root}`")
    }));
    wakeups.extend(self.directories.retries.wakeups());
    wakeups.extend(self.open_files.wakeups());
    self.watching.watcher.attend(self.open_files.noted());
    wakeups.extend(self.judge.wakeup());
    // A program may have closed its file before the watch began, so the files in newly watched
    // directories are tried now.
    let fresh = self.watching.watcher.hear_readers(self.open_files.directories());
    for (kind, target) in self.open_files.within(&fresh) {
      self.enqueue(kind, target);
    }
    if let n @ 1.. = self.queue.n_stubborn() {
      let files = if n == 1 { "a file".to_owned() } else { format!("{n} files") };
      let every = seconds(LAST_RETRY);
      wakeups.push(format!("tries {files} that cannot be processed every {every}"));
    }
    let rooms: Vec<Room> = self.directories.rooms.values().cloned().collect();
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
    self.outage.next_due(now).or_else(|| {
      let versions = self.housekeeping.is_version_due().then_some(Duration::ZERO);
      let rescan = (!self.directories.rescans.is_empty())
        .then(|| self.directories.next_rescan.saturating_sub(now));
      let sources = self.sources.next_due(now);
      let notifications = self.notifications.next_due(&self.surroundings());
      let due = [notifications, sources, rescan, versions, self.queue.next_due(now, &self.busy())];
      let more = [
        self.attribution_worker.next_due(now),
        self.unread.next_due(now),
        self.directories.polls.next_due(now),
        self.directories.retries.next_due(now),
        self.directories.locks.next_due(now),
        self.open_files.next_due(now),
        self.judge.next_due(now),
        self.gate.next_due(now),
      ];
      due.into_iter().chain(more).flatten().min()
    })
  }

  /// The kinds of work for which the queue must hand out nothing, because their thread is busy.
  pub(super) fn busy(&self) -> Vec<Kind> {
    let asker = self.attribution_worker.is_busy().then_some(Kind::Attribute);
    let scorer = self.model_worker.is_busy().then_some(Kind::Model);
    asker.into_iter().chain(scorer).collect()
  }

  /// Whether nothing is pending.
  pub fn is_idle(&self) -> bool {
    self.queue.is_empty()
      && self.directories.rescans.is_empty()
      && !self.housekeeping.is_version_due()
      && self.model_worker.is_idle()
      && !self.attribution_worker.is_busy()
  }

  /// Records that the daemon stopped.
  pub fn stop(&mut self, kind: EventKind) {
    self.health.phase = Phase::Stopped;
    // If the ledger cannot be written now, the next start only rescans more thoroughly.
    self.report(Self::write_health);
    self.report(|daemon| daemon.engine.tell(Event::new(kind)));
  }

  /// Queues a step of a file, if the file is still guarded.
  pub(super) fn enqueue_guarded(&mut self, kind: Kind, target: Target) {
    if self.directories.workspaces.contains(&target.root) {
      self.enqueue(kind, target);
    }
  }

  /// Logs the summary of the past days, if that was not done. Returns whether there was something to log.
  pub(super) fn summarise(&mut self) -> Result<bool, DaemonError> {
    Ok(!self.is_starting() && self.run_part(|daemon| &mut daemon.summary, SummaryUntil::work)?)
  }

  /// Goes on with other programs: those that tell people, renew an index, or ask the judge.
  pub(super) fn set_helpers(&mut self, helpers: Helpers) -> Result<(), EngineError> {
    self.engine.judge_queue().start()?;
    let (via, now) = (helpers.judge.clone(), self.now());
    let mut actions = self.judge.configure(via, now);
    actions.push(self.notifications.configure(helpers));
    for action in actions {
      match action {
        Action::Degrade(key, why) => self.engine.degrade(&key, &why)?,
        Action::Recover(key) => self.engine.recovered(&key)?,
        _ => {}
      }
    }
    Ok(())
  }

  /// Listens for the gate if the configuration enables it.
  pub(super) fn listen_for_gate(
    &mut self,
    sender: UnboundedSender<gate::Said>,
  ) -> Result<(), DaemonError> {
    let (now, data) = (self.now(), self.engine.data());
    self.gate = GateRequests::listen(self.engine.config(), data, &self.is_asked, sender, now)?;
    Ok(())
  }

  /// Records whether the gate is expected.
  pub(super) fn start_gate(&mut self) -> Result<(), DaemonError> {
    let actions = self.gate.start(self.engine.clock().now());
    self.carry_out(actions)
  }

  /// Closes the gate's listener.
  pub(super) fn stop_gate(&mut self) -> Result<(), DaemonError> {
    let actions = self.gate.stop();
    self.carry_out(actions)
  }

  /// Handles a connection or a message of the gate.
  pub(super) fn hear_gate(&mut self, said: gate::Said) -> Result<(), DaemonError> {
    self.is_asked.store(false, SeqCst);
    let hear = |gate: &mut GateRequests, around: &Surroundings<'_>| Ok(gate.hear(said, around));
    self.run_part(|daemon| &mut daemon.gate, hear).map(drop)
  }

  /// Takes the scores of a file.
  pub(super) fn hear_scores(&mut self, scored: Scored) -> Result<(), DaemonError> {
    let hear =
      |worker: &mut ModelWorker, around: &Surroundings<'_>| Ok(worker.hear(scored, around));
    self.run_part(|daemon| &mut daemon.model_worker, hear).map(drop)
  }

  /// Does one piece of work that is due, for readers at the gate first. Returns `false` when none is due.
  pub(super) fn turn(&mut self) -> Result<bool, DaemonError> {
    let gate = |gate: &mut GateRequests, around: &Surroundings<'_>| Ok(gate.work(around));
    Ok(self.run_part(|daemon| &mut daemon.gate, gate)? || self.work()?)
  }

  /// Queues a step of a file.
  pub(super) fn enqueue(&mut self, kind: Kind, target: Target) {
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
      Err(EngineError::Store(error)) if error.is_outage() => self.begin_outage(&error),
      Err(error) => tracing::error!(target: "memfw", %error, "an event could not be stored"),
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
  format!("poison is reported and stays in its file, because nothing can be sealed: {why}")
}

fn boot_id() -> Option<String> {
  let text = read_own(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()??;
  String::from_utf8(text).ok().map(|id| id.trim().to_owned())
}
