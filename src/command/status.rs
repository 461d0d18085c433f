//! `memfw status`: what is protected, what is not, and why.
#![forbid(unsafe_code)]

mod head;
mod losses;
mod plugins;
mod short;
mod skills;
pub(super) mod wait;

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
  time::Duration,
};

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use super::shared::{exposure::Reading, liveness};
use crate::{
  app::{
    agent, configuration::distrust, context::Context, daemon_state::DaemonState, embedding,
    engine::file_system, exit::Status, judge_report::JudgeReport, paths::KEY,
  },
  daemon::health::Room,
  engine::event::shown,
  os::{Clock as _, SystemClock, alarm},
  plural::choose,
  provenance::Standing,
  store::{FileRow, FileStatus, Ledger, PartKind, StateKey, VersionTotals},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    time,
  },
};

/// `memfw status`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw status --wait 10")]
pub struct StatusArgs {
  /// Print JSON
  #[arg(long)]
  pub json: bool,

  /// Wait up to SECS seconds for the first scan of the daemon; exit with status 0 when the scan is
  /// done
  #[arg(long, value_name = "SECS")]
  pub wait: Option<u32>,

  /// One short line for a prompt or a bar; waits for nothing
  #[arg(long, conflicts_with_all = ["json", "wait"])]
  pub short: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: StatusArgs) -> Result<Status, Failure> {
  if args.short {
    return short::run(context);
  }
  let waited = args.wait.map(|secs| wait::run(context, Duration::from_secs(u64::from(secs))));
  let waited = waited.transpose()?;
  let ledger = context.ledger_if_there()?;
  let report = report(context, ledger.as_ref())?;
  if args.json {
    context.out.json(&report.to_json())?;
  } else {
    report.print(context)?;
  }
  let is_well = if report.degradations.is_empty() { Status::Yes } else { Status::No };
  Ok(waited.unwrap_or(is_well))
}

/// How protection is reduced, one sentence each.
pub(super) fn degradations(
  context: &Context,
  ledger: Option<&Ledger>,
) -> Result<Vec<String>, Failure> {
  let report = report(context, ledger)?;
  Ok(report.degradations.into_iter().map(|(text, _)| text).collect())
}

pub(super) fn report(context: &Context, ledger: Option<&Ledger>) -> Result<StatusReport, Failure> {
  let daemon = DaemonState::find(context, ledger)?;
  let mut degradations: Vec<(String, i64)> = Vec::new();
  let lost = if ledger.is_none() { context.lost_ledger()? } else { None };
  if let Some(lost) = &lost {
    let text = format!("{lost} ({}); {}", lost.reason(), lost.advice());
    degradations.push((text, 0));
  } else if !daemon.is_guarding() {
    let text = match (daemon.pid, &daemon.health) {
      (Some(_), _) => "the daemon is still starting",
      (None, Some(_)) => "the daemon is not running: nothing is guarded",
      (None, None) => "memfw has not guarded anything yet",
    };
    let progress = daemon.scan_progress().map(|progress| format!(" ({progress})"));
    degradations.push((format!("{text}{}", progress.unwrap_or_default()), 0));
  }
  let mut is_distrust_noted = false;
  if let Some(ledger) = ledger {
    degradations.extend(liveness::stalled(context, &daemon, ledger)?.map(|text| (text, 0)));
    if daemon.pid.is_some() && ledger.needs_key()? {
      degradations
        .extend(liveness::lost_key(&context.home()?.data.join(KEY)).map(|text| (text, 0)));
    }
    for (key, json, at) in ledger.states()? {
      if let StateKey::Degraded(part) = key {
        is_distrust_noted |= part.kind() == PartKind::ConfigurationOwner;
        degradations.push((serde_json::from_str::<String>(&json).unwrap_or(json), at));
      }
    }
    let reading = Reading::find(ledger)?;
    degradations.extend(reading.degradations(SystemClock.now()).into_iter().map(|text| (text, 0)));
  }
  // Endpoints that cannot be asked; a request without an answer is noted where it was made.
  let config = context.config().unwrap_or_default().config;
  if let Err(why) = embedding::embedder(context, &config) {
    let provider = config.embedding_provider;
    degradations.push((format!("{provider} cannot compute similarity: {why}"), 0));
  }
  // Only if the daemon has not already noted it.
  if !is_distrust_noted {
    let distrust = context.config_file().ok().and_then(|file| distrust(&file));
    degradations.extend(distrust.map(|why| (why, 0)));
  }
  // The line that the daemon could not write into the ledger.
  if daemon.pid.is_some() {
    degradations.extend(alarm::raised(&context.home()?.data).map(|text| (text, 0)));
  }
  StatusReport::gather(context, ledger, &daemon, degradations)
}

/// One guarded directory.
struct Place {
  path: String,
  room: Room,
}

impl Place {
  fn to_json(&self) -> Value {
    let Room { file_system, protocol, coarse_times, polled, .. } = &self.room;
    json!({
      "path": self.path,
      "file_system": file_system,
      "protocol": protocol,
      "coarse_times": coarse_times,
      "polled": polled,
    })
  }
}

/// The content of `status`.
pub(super) struct StatusReport {
  pub(super) daemon: &'static str,
  pid: Option<u32>,
  started_at: Option<i64>,
  pub(super) scanned_at: Option<i64>,
  places: Vec<Place>,
  /// The timers that wake the daemon without an event.
  wakeups: Vec<String>,
  n_files: u64,
  n_blocks: u64,
  n_waiting: u64,
  /// Approved, but not yet back in their files.
  n_awaited: u64,
  n_flagged: u64,
  losses: losses::LossCounts,
  /// The stored versions; `None` if no versions are stored.
  versions: Option<VersionTotals>,
  unguarded: Vec<(String, String)>,
  /// Files with fewer markers than the configuration asks for: path, mode, and reason.
  unmarked: Vec<(String, String, String)>,
  /// Files that the agent framework no longer trusts.
  dropped: Vec<Dropped>,
  pub(super) degradations: Vec<(String, i64)>,
  reading: Reading,
  judge: JudgeReport,
  skills: skills::SkillCounts,
  plugins: plugins::Plugins,
}

impl StatusReport {
  fn gather(
    context: &Context,
    ledger: Option<&Ledger>,
    daemon: &DaemonState,
    degradations: Vec<(String, i64)>,
  ) -> Result<Self, Failure> {
    let state = match (daemon.is_guarding(), daemon.pid) {
      (true, _) => "guarding",
      (false, Some(_)) => "starting",
      (false, None) => "stopped",
    };
    let mut report = Self {
      daemon: state,
      pid: daemon.pid,
      started_at: daemon.health.as_ref().map(|health| health.started_at),
      scanned_at: daemon.health.as_ref().and_then(|health| health.scanned_at),
      places: Vec::new(),
      wakeups: Vec::new(),
      n_files: 0,
      n_blocks: 0,
      n_waiting: 0,
      n_awaited: 0,
      n_flagged: 0,
      losses: losses::LossCounts::of(&context.config().unwrap_or_default().config, 0),
      versions: None,
      unguarded: Vec::new(),
      unmarked: Vec::new(),
      dropped: Vec::new(),
      degradations,
      reading: ledger.map(Reading::find).transpose()?.unwrap_or_default(),
      judge: JudgeReport::find(&context.config().unwrap_or_default().config, ledger)?,
      skills: ledger.map(skills::SkillCounts::find).transpose()?.unwrap_or_default(),
      plugins: plugins::Plugins::find(context),
    };
    if let Some(health) = daemon.health.as_ref().filter(|_| daemon.pid.is_some()) {
      report.wakeups.clone_from(&health.wakeups);
    }
    let roots = daemon.workspaces(context)?;
    for path in &roots {
      // The daemon's probe counts; before there is one, this command probes the directory.
      let found = daemon.health.as_ref().and_then(|health| health.room(path)).cloned();
      let room = found.unwrap_or_else(|| {
        let config = context.config().unwrap_or_default().config;
        Room::of(path, &file_system(&config).probe_dir(path), None)
      });
      report.places.push(Place { path: shown(path), room });
    }
    let Some(ledger) = ledger else { return Ok(report) };
    let counts = ledger.counts(SystemClock.now())?;
    report.n_files = counts.files;
    report.n_blocks = counts.blocks_by_state.iter().map(|(_, n)| n).sum();
    report.n_waiting = counts.waiting;
    report.n_awaited = ledger.awaited_items()?;
    report.n_flagged = counts.flagged;
    report.losses.n_waiting = counts.losses;
    // An invalid configuration is reported elsewhere, and versions are stored anyway.
    if !context.config().is_ok_and(|found| found.config.version_mb == 0) {
      report.versions = Some(ledger.version_totals()?);
    }
    let files = ledger.files()?;
    report.unguarded = unjudged(context, &roots, &files);
    for row in files {
      if let Some(why) = row.unmarked.filter(|_| row.status == FileStatus::Watched) {
        report.unmarked.push((shown(&row.path), row.marker_mode, why));
      }
      if let Some(note) = row.note.filter(|_| row.status != FileStatus::Missing) {
        report.unguarded.push((shown(&row.path), note));
      }
    }
    report.dropped = dropped(context, ledger)?;
    // An unreadable file is not guarded, and poison cannot be removed from a read-only file.
    if let n @ 1.. = report.unguarded.len() as u64 {
      let (files, are) = (count(n, "file"), choose(n, "is", "are"));
      report.degradations.push((format!("{files} {are} not fully guarded"), 0));
    }
    Ok(report)
  }

  fn to_json(&self) -> Value {
    let (exposure, gate) = self.reading.to_json();
    json!({
      "daemon": self.daemon,
      "pid": self.pid,
      "version": env!("CARGO_PKG_VERSION"),
      "started_at": self.started_at.map(time::rfc3339),
      "scanned_at": self.scanned_at.map(time::rfc3339),
      "workspaces": self.places.iter().map(Place::to_json).collect::<Vec<_>>(),
      "wakeups": self.wakeups,
      "files": self.n_files,
      "blocks": self.n_blocks,
      "waiting": self.n_waiting,
      "flagged": self.n_flagged,
      "losses": self.losses.to_json(),
      "versions": self.versions.map(|totals| json!({
        "count": totals.versions,
        "bytes": totals.bytes,
        "oldest": totals.oldest.map(time::rfc3339),
        "due": totals.due,
      })),
      "exposure": exposure,
      "gate": gate,
      "judge": self.judge.to_json(),
      "skills": self.skills.to_json(),
      "plugins": self.plugins.to_json(),
      "unguarded": self.unguarded.iter().map(|(file, why)| json!({ "file": file, "why": why })).collect::<Vec<_>>(),
      "unmarked": self.unmarked.iter().map(|(file, mode, why)| json!({ "file": file, "mode": mode, "why": why })).collect::<Vec<_>>(),
      "dropped": self.dropped.iter().map(Dropped::to_json).collect::<Vec<_>>(),
      "degradations": self.degradations.iter().map(|(text, _)| text).collect::<Vec<_>>(),
    })
  }

  /// How many items wait for a person.
  pub(super) const fn n_open(&self) -> u64 {
    self.n_waiting + self.n_flagged + self.losses.n_waiting
  }

  /// How many files are not fully guarded.
  pub(super) const fn n_unguarded(&self) -> usize {
    self.unguarded.len()
  }

  /// Whether the daemon runs or has run.
  pub(super) const fn has_run(&self) -> bool {
    self.started_at.is_some() || self.pid.is_some()
  }

  fn print(&self, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    out.line(&self.title(context))?;
    for Place { path, room } in &self.places {
      out.line(&format!("  workspace   {}", terminal(path)))?;
      out.line(&format!("              {}", terminal(&room.file_system)))?;
    }
    out.line(&self.extent())?;
    // A review has no losses.
    let is_only = self.losses.n_waiting == self.n_open();
    out.line(&self.waiting(context, if is_only { ": memfw list" } else { ": memfw review" }))?;
    if self.n_awaited > 0 {
      let n = self.n_awaited;
      out.line(&format!("  approved    {n} not restored yet: memfw list"))?;
    }
    if let Some(at) = self.scanned_at {
      let now = SystemClock.now();
      out.line(&format!("  last scan   {}", time::short(at, now)))?;
    }
    for wakeup in &self.wakeups {
      out.line(&format!("  wakes up    {}", terminal(wakeup)))?;
    }
    if let Some(totals) = &self.versions {
      out.line(&format!("  versions    {}", kept(totals)))?;
    }
    if let Some(line) = self.losses.line() {
      out.line(&format!("  losses      {}", out.paint(Style::Yellow, &line)))?;
    }
    out.line(&format!("  exposure    {}", self.reading.line(SystemClock.now())))?;
    out.line(&format!("  judge       {}", self.judge.line()))?;
    if let Some(line) = self.skills.line() {
      out.line(&format!("  skills      {}", out.paint(Style::Yellow, &line)))?;
    }
    for line in self.plugins.lines() {
      out.line(&format!("  plugin      {}", out.paint(Style::Yellow, &terminal(line))))?;
    }
    for (file, why) in &self.unguarded {
      out.line(&format!(
        "  {}   {}: {}",
        out.paint(Style::Yellow, "unguarded"),
        terminal(file),
        terminal(why)
      ))?;
    }
    for (what, why) in by_reason(&self.unmarked) {
      out.line(&format!("  unmarked    {}: {}", terminal(what), terminal(why)))?;
    }
    if self.dropped.len() > MAX_OF_ONE_REASON {
      let what = count(self.dropped.len() as u64, "file");
      let next = "the agent does not trust them; `memfw status --json` lists them";
      out.line(&format!("  dropped     {what}: {next}"))?;
    } else {
      for Dropped { file, command, is_loaded, .. } in &self.dropped {
        // To a file that is only searched, trust makes no difference that a person must act on.
        let next = if *is_loaded {
          format!("the agent no longer loads it; `{command}` restores it")
        } else {
          "the agent only searches it, and does not trust it".to_owned()
        };
        out.line(&format!("  dropped     {}: {}", terminal(file), terminal(next)))?;
      }
    }
    for (text, _) in &self.degradations {
      out.line(&format!("  {}    {}", out.paint(Style::Red, "degraded"), terminal(text)))?;
    }
    Ok(())
  }
}

/// Files with one reason that are listed individually; if there are more, only their number is printed.
const MAX_OF_ONE_REASON: usize = 3;

/// Files without markers, each with its reason; many with one reason are one line with their number.
fn by_reason(unmarked: &[(String, String, String)]) -> Vec<(String, String)> {
  let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
  for (file, _, why) in unmarked {
    match found.iter_mut().find(|(known, _)| known == why) {
      Some((_, files)) => files.push(file),
      None => found.push((why, vec![file])),
    }
  }
  let lines = |(why, files): (&str, Vec<&str>)| -> Vec<(String, String)> {
    let named = files.iter().map(|file| (*file).to_owned());
    let named: Vec<String> = match files.len() {
      n if n > MAX_OF_ONE_REASON => vec![count(n as u64, "file")],
      _ => named.collect(),
    };
    named.into_iter().map(|what| (what, why.to_owned())).collect()
  };
  found.into_iter().flat_map(lines).collect()
}

/// A file that the agent framework has dropped.
struct Dropped {
  file: String,
  class: String,
  /// The command that brings it back.
  command: String,
  /// Whether the agent framework loads it, and does not only search it.
  is_loaded: bool,
}

impl Dropped {
  fn to_json(&self) -> Value {
    let Self { file, class, command, .. } = self;
    json!({ "file": file, "class": class, "command": command })
  }
}

/// The files that were dropped when memfw last looked, and still are.
fn dropped(context: &Context, ledger: &Ledger) -> Result<Vec<Dropped>, Failure> {
  let noted = ledger.agent_records()?;
  let config = context.config().unwrap_or_default().config;
  let records = agent::records(&context.surroundings.env, &config);
  let Some(classes) = records.classes() else { return Ok(Vec::new()) };
  let mut found = Vec::new();
  for (row, noted) in noted {
    let Some(class) = noted.class.filter(|class| class == classes.dropped) else { continue };
    let Ok(rel) = row.path.strip_prefix(&row.workspace) else { continue };
    // A person may have brought the file back since then.
    let now = records.standing(&row.workspace, rel);
    if row.status == FileStatus::Watched
      && matches!(&now, Standing::Recorded { class: Some(now), .. } if *now == class)
    {
      let file = shown(&row.path);
      let command = agent::retrust(&file);
      let is_loaded = records.injection_limit(&row.workspace, rel).is_some();
      found.push(Dropped { file, class, command, is_loaded });
    }
  }
  Ok(found)
}

/// The files that the agent framework reads as memory and memfw does not judge.
fn unjudged(context: &Context, roots: &[PathBuf], files: &[FileRow]) -> Vec<(String, String)> {
  let config = context.config().unwrap_or_default().config;
  let judged: HashSet<&Path> = files
    .iter()
    .filter(|row| row.status != FileStatus::Missing)
    .map(|row| row.path.as_path())
    .collect();
  let mut found = Vec::new();
  for root in roots {
    for file in agent::indexed(&context.surroundings.env, &config, root) {
      if !judged.contains(file.as_path()) {
        let why = "it is in the agent's index, and memfw does not judge it".to_owned();
        found.push((shown(&file), why));
      }
    }
  }
  found
}

/// The stored versions, in words.
fn kept(totals: &VersionTotals) -> String {
  let oldest = totals.oldest.map_or(String::new(), |oldest| {
    format!(", the oldest seen {}", time::short(oldest, SystemClock.now()))
  });
  let due = match totals.due {
    0 => String::new(),
    due => format!("; {} not kept yet", count(due, "file")),
  };
  format!("{} in {}{oldest}{due}", count(totals.versions, "version"), megabytes(totals.bytes))
}

/// Bytes as megabytes (a million bytes), with one decimal.
fn megabytes(bytes: u64) -> String {
  format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn many_files_of_one_reason_are_one_line() {
    let one = |n: usize, why: &str| (format!("/w/{n}.md"), "none".to_owned(), why.to_owned());
    let few: Vec<_> = (0..3).map(|n| one(n, "too long")).collect();
    assert_eq!(by_reason(&few).len(), 3);
    let mut many: Vec<_> = (0..96).map(|n| one(n, "taken out")).collect();
    many.insert(5, one(99, "too long"));
    let pair = |what: &str, why: &str| (what.to_owned(), why.to_owned());
    assert_eq!(by_reason(&many), [pair("96 files", "taken out"), pair("/w/99.md", "too long")]);
  }
}
