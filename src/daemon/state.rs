//! The daemon without its event loop: events mark files as dirty, and due files are processed.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  action::Surroundings,
  adoption::Adoption,
  core::Core,
  directories::Directories,
  discovery::{Discovery, Sources},
  error::DaemonError,
  exposure::Exposure,
  first_scan::FirstScan,
  gate,
  gate_request::GateRequests,
  health::{Health, Phase, Room, encode},
  interrupt::Interrupts,
  listen::listen,
  moved,
  open_files::OpenFiles,
  outage::Outage,
  passes::Passes,
  queue::{LAST_RETRY, Queue},
  rescan::Rescans,
  service::seconds,
  skills::Skills,
  steps::{Steps, consult_all, request_all_attributions},
  summary::SummaryUntil,
  unwritten::Unwritten,
  watching::Watching,
};
use crate::{
  engine::{Engine, EngineError, Event, EventKind},
  files::{RealFs, Watcher},
  os::{Alarm, paths::read_own},
  plural,
  store::{PartKind, StateKey},
};

/// How long to wait for the ledger's lock. A lease may be held meanwhile, and openers of that file wait
/// as well; other writers of the ledger take milliseconds.
const LEDGER_PATIENCE: Duration = Duration::from_millis(250);
/// A day, in microseconds.
const DAY: i64 = 86_400 * 1_000_000;
/// A shorter difference is no suspend, but the time between two readings of a clock.
const SUSPEND: Duration = Duration::from_secs(1);

/// The daemon: a core, and parts that each know one thing and use the core. The daemon brings together what
/// concerns several parts.
pub struct Daemon {
  pub(super) core: Core,
  /// What the scans of the guarded directories have found.
  pub(super) rescans: Rescans,
  pub(super) passes: Passes,
  /// What follows a pass.
  pub(super) steps: Steps,
  /// What is reported about the scan at a start.
  pub(super) first_scan: FirstScan,
  /// The readers that wait at the gate.
  pub(super) gate: GateRequests,
  pub(super) skills: Skills,
  /// Up to which day the log has a summary.
  pub(super) summary: SummaryUntil,
  /// Whether the key existed before the ledger.
  is_key_older: bool,
  /// Since when files may have been changed under another ledger ([`Options::lost_since`]).
  lost_since: Option<i64>,
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
    let Discovery { workspaces, shapes, is_named, agent, files, notes, distrust, helpers, .. } =
      found;
    let skills = Skills::of(found.skills);
    engine.set_agent(agent);
    engine.files().set_shapes(shapes.clone());
    engine.ledger_mut().set_patience(LEDGER_PATIENCE);
    let health = Health {
      pid: std::process::id(),
      version: env!("CARGO_PKG_VERSION").to_owned(),
      phase: Phase::Starting,
      boot: boot_id(),
      started_at: engine.clock().now(),
      configuration: None,
      scan: None,
      scanned_at: None,
      workspaces: workspaces.iter().map(|path| encode(path)).collect(),
      is_named,
      rooms: Vec::new(),
      wakeups: Vec::new(),
    };
    let interrupts = Interrupts::default();
    engine.judge().set_interrupt(interrupts.asked());
    let (asleep, now) = (engine.clock().asleep(), engine.clock().monotonic());
    let core = Core {
      engine,
      fs,
      directories: Directories::new(workspaces, shapes, is_named),
      watching: Watching::by(watcher),
      queue: Queue::default(),
      adoption: Adoption::default(),
      outage: Outage::new(alarm),
      health,
      configuration: String::new(),
      report_only,
    };
    let passes = Passes {
      open_files: OpenFiles::default(),
      unwritten: Unwritten::default(),
      exposure: Exposure::since(now),
      interrupts,
    };
    Self {
      core,
      rescans: Rescans::of(Sources::new(files, notes, distrust)),
      passes,
      steps: Steps::with(helpers),
      first_scan: FirstScan::new(now),
      gate: GateRequests::default(),
      skills,
      summary: SummaryUntil::default(),
      is_key_older,
      lost_since,
      bad_rules,
      asleep,
    }
  }

  /// Completes interrupted operations, starts watching, and marks every file as dirty. Can be called
  /// again after the ledger could not be written.
  pub fn start(&mut self) -> Result<(), DaemonError> {
    let core = &mut self.core;
    core.engine.clear_degradations()?;
    core.engine.start_model()?;
    if lost_power(core)? {
      core.engine.ledger_mut().forget_stamps().map_err(EngineError::from)?;
    }
    if self.is_key_older || self.lost_since.is_some() {
      moved::note_lost_ledger(core)?;
    }
    if let Some(since) = self.lost_since {
      // As where another installation has guarded: what changed is judged as new, and comments of memfw stay.
      core.directories.locks.guarded_by_others(&core.directories.workspaces, since);
      core.engine.ledger().accept_as_newest().map_err(EngineError::from)?;
    }
    moved::compare_with_last(core)?;
    core.write_health()?;
    self.rescans.sources.start(core)?;
    let helpers = self.steps.notifications.helpers.clone();
    self.steps.set_helpers(core, helpers)?;
    if let Some(why) = &self.bad_rules {
      core.engine.degrade(PartKind::Rules, why)?;
    }
    if let Some(why) = &core.report_only {
      core.engine.degrade(PartKind::Key, &reports_only(why))?;
    }
    let (at, now) = (core.engine.clock().now(), core.now());
    // What happened since a clock was set has the time of that clock, so what is older counts as well.
    for before in [i64::MAX, at.saturating_sub(DAY)] {
      let last_event = core.engine.ledger().last_event_before(before).map_err(EngineError::from)?;
      self.steps.housekeeping.doubt_clock(last_event, at, now);
    }
    let roots = core.directories.workspaces.clone();
    // Where another installation writes, operations of this one wait until that installation has ended.
    core.directories.locks.owned(&mut core.engine, &roots)?;
    if core.report_only.is_none() {
      core.recover()?;
    }
    self.rescans.first_scan(core, &roots)?;
    self.first_scan.begin(core.adoption.first.len(), core.now());
    self.rescans.find_mounts(core);
    moved::find_lost_items(core)?;
    Ok(())
  }

  /// Reports that everything is guarded, once every file that existed at the start was processed; files
  /// written meanwhile are ordinary work. Returns whether this call reported it.
  pub fn finish_start(&mut self) -> Result<bool, DaemonError> {
    if !self.core.adoption.first.is_empty() || self.core.outage.text().is_some() {
      return Ok(false);
    }
    let at = self.core.engine.clock().now();
    let core = &mut self.core;
    core.adoption.record(&mut core.engine)?;
    let is_start = core.is_starting();
    if is_start || !core.adoption.roots.is_empty() {
      self.steps.request_all_scores(core)?;
      consult_all(core)?;
    }
    self.first_scan.end(core);
    core.adoption.end(&mut core.engine)?;
    if !is_start {
      return Ok(false);
    }
    let line = core.status_line();
    core.engine.tell(Event::new(EventKind::Started).detail(line))?;
    let now = core.now();
    self.steps.housekeeping.set_due_versions(core.engine.versions_due()?, now);
    request_all_attributions(core)?;
    core.health.phase = Phase::Guarding;
    core.health.scanned_at = Some(at);
    core.write_health()?;
    Ok(true)
  }

  /// Reports how far the start-up scan is, if a report is due. Returns the line.
  pub(super) fn tell_progress(&mut self) -> Option<String> {
    let is_scanning = !self.core.adoption.first.is_empty();
    is_scanning.then(|| self.first_scan.tell(&mut self.core)).flatten()
  }

  /// Logs the baselines that are complete, once the encoder has read them.
  pub(super) fn conclude_first_scan(&mut self) {
    if self.first_scan.is_unreported()
      && !self.core.is_starting()
      && self.steps.model_worker.is_idle()
    {
      let first_scan = &mut self.first_scan;
      self.core.report(|core| first_scan.conclude(core));
    }
  }

  /// Whether the start-up scan is in progress.
  pub fn is_starting(&self) -> bool {
    self.core.is_starting()
  }

  /// Handles all events so far. Returns `false` if more may be waiting.
  pub fn listen(&mut self) -> bool {
    listen(&mut self.core, &mut self.rescans, &mut self.skills, &self.passes.open_files)
  }

  /// Makes the attribution worker send to `wake` for each answer; without it the loop waits for each
  /// answer.
  pub fn ask_elsewhere(&mut self, wake: UnboundedSender<()>) {
    self.skills.wake_by(wake.clone());
    self.steps.attribution_worker.wake_by(wake);
  }

  /// Updates what `status` reads, if it has changed; `further` are wakeups of the event loop.
  pub fn refresh(&mut self, further: Option<String>) {
    let mut wakeups: Vec<String> = further.into_iter().collect();
    wakeups.extend(self.rescans.wakeups(&self.core));
    wakeups.extend(self.passes.open_files.wakeups());
    self.core.watching.watcher.attend(self.passes.open_files.noted());
    wakeups.extend(self.steps.judge.wakeup());
    wakeups.extend(self.skills.wakeup());
    // A program may have closed its file before the watch began, so the files in newly watched
    // directories are tried now.
    let fresh = self.core.watching.watcher.hear_readers(self.passes.open_files.directories());
    for (kind, target) in self.passes.open_files.within(&fresh) {
      self.core.enqueue(kind, target);
    }
    if let n @ 1.. = self.core.queue.n_stubborn() {
      let files = plural::some(n as u64, "file");
      let every = seconds(LAST_RETRY);
      wakeups.push(format!("tries {files} that cannot be processed every {every}"));
    }
    let rooms: Vec<Room> = self.rescans.rooms.values().cloned().collect();
    if (&self.core.health.rooms, &self.core.health.wakeups) != (&rooms, &wakeups) {
      (self.core.health.rooms, self.core.health.wakeups) = (rooms, wakeups);
      self.core.report(Core::write_health);
    }
  }

  /// The process woke up: rescans after a suspend, in which events may be lost.
  pub fn woke(&mut self) {
    let asleep = self.core.engine.clock().asleep();
    let slept = asleep.saturating_sub(std::mem::replace(&mut self.asleep, asleep));
    if slept >= SUSPEND {
      self
        .rescans
        .rescan(&mut self.core, &format!("the machine was suspended for {} s", slept.as_secs()));
    }
  }

  /// How long until the next work is due.
  pub fn next_due(&self) -> Option<Duration> {
    let now = self.core.now();
    // While the ledger cannot be written, only the next attempt to write it is due.
    self.core.outage.next_due(now).or_else(|| {
      let due = [
        self.steps.notifications.next_due(&self.surroundings()),
        self.core.queue.next_due(now, &self.steps.busy()),
        self.steps.next_due(now),
        self.rescans.next_due(now),
        self.core.directories.locks.next_due(now),
        self.passes.open_files.next_due(now),
        self.gate.next_due(now),
        self.skills.next_due(now),
      ];
      due.into_iter().flatten().min()
    })
  }

  /// Whether nothing is pending.
  pub fn is_idle(&self) -> bool {
    let is_checked = self.skills.is_idle() && !self.skills.is_due(self.core.now());
    self.core.queue.is_empty() && !self.rescans.is_due() && self.steps.is_idle() && is_checked
  }

  /// Records that the daemon stopped.
  pub fn stop(&mut self, kind: EventKind) {
    self.core.health.phase = Phase::Stopped;
    // If the ledger cannot be written now, the next start only rescans more thoroughly.
    self.core.report(Core::write_health);
    self.core.report(|core| core.engine.tell(Event::new(kind)));
  }

  /// What the parts read.
  pub(super) fn surroundings(&self) -> Surroundings<'_> {
    Surroundings {
      engine: &self.core.engine,
      directories: &self.core.directories,
      watching: &self.core.watching,
      now: self.core.now(),
      records_are_busy: self.steps.attribution_worker.is_busy(),
      started_at: self.core.health.started_at,
    }
  }

  /// Listens for the gate if the configuration enables it.
  pub(super) fn listen_for_gate(
    &mut self,
    sender: UnboundedSender<gate::FromGate>,
  ) -> Result<(), DaemonError> {
    let (now, data) = (self.core.now(), self.core.engine.data());
    self.gate = GateRequests::listen(
      self.core.engine.config(),
      data,
      self.passes.interrupts.gate_flag(),
      sender,
      now,
    )
    .map_err(DaemonError::Gate)?;
    Ok(())
  }
}

/// The text of the degradation while nothing can be sealed.
pub(super) fn reports_only(why: &str) -> String {
  format!("poison is reported and stays in its file, because nothing can be sealed: {why}")
}

/// Whether the machine went down while the last daemon ran. Then the stamp on the disk can be newer
/// than the bytes that were judged under it.
fn lost_power(core: &Core) -> Result<bool, EngineError> {
  let Some((json, _)) = core.engine.ledger().state(&StateKey::Daemon)? else { return Ok(false) };
  let Ok(last) = serde_json::from_str::<Health>(&json) else { return Ok(true) };
  Ok(last.phase != Phase::Stopped && last.boot != core.health.boot)
}

fn boot_id() -> Option<String> {
  let text = read_own(Path::new("/proc/sys/kernel/random/boot_id"), 64).ok()??;
  String::from_utf8(text).ok().map(|id| id.trim().to_owned())
}
