//! Outages: the ledger cannot be written, because the disk is full or another program keeps it locked.
//!
//! Without a durable row nothing is redacted, so an outage is reported at once, in the log and in the
//! alarm file, which needs no ledger ([`crate::os::alarm`]). Pending work is tried again after growing
//! pauses. When the ledger can be written again, that is reported, both events are recorded, and
//! everything is rescanned.
//!
//! A ledger that was removed or replaced under the daemon is an outage, too. If it is brought back, the
//! daemon goes on; if another one takes its place, the daemon starts again with that one.
#![forbid(unsafe_code)]

use std::{collections::HashSet, path::Path, time::Duration};

use super::error::DaemonError;
use crate::{
  engine::{Engine, Event, EventKind, Target},
  files::RealFs,
  os::Alarm,
  store::{Ledger, StoreError},
};

/// First pause before the next try (a choice).
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest pause (a choice): after the disk has space again, poison stays readable for no longer than
/// this.
const LAST_RETRY: Duration = Duration::from_secs(5);
/// After an outage that ended more recently than this, the pauses go on growing (a choice).
const CALM: Duration = Duration::from_mins(1);

/// The state of the outage.
#[derive(Debug, Default)]
pub(super) struct Outage {
  /// What is wrong; `None` without an outage.
  text: Option<String>,
  tries: u32,
  /// When the next try is due; without an outage, when the last one ended.
  at: Duration,
  /// Whether the ledger was removed or replaced.
  is_moved: bool,
  /// Files whose work failed in the outage: a smaller write may succeed before theirs does.
  blocked: HashSet<Target>,
  /// Where it is told while the ledger cannot be written.
  alarm: Option<Alarm>,
}

impl Outage {
  /// No outage so far; it is told by this alarm.
  pub(super) fn new(alarm: Option<Alarm>) -> Self {
    Self { alarm, ..Self::default() }
  }

  /// Whether the next try is not due yet.
  pub(super) fn is_waiting(&self, now: Duration) -> bool {
    self.text.is_some() && now < self.at
  }

  /// What is wrong.
  pub(super) fn text(&self) -> Option<&str> {
    self.text.as_deref()
  }

  /// How long until the next try; `None` if it is due.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    self.is_waiting(now).then(|| self.at.saturating_sub(now))
  }

  /// Notes that the work on a file failed in the outage.
  pub(super) fn block(&mut self, target: &Target) {
    self.blocked.insert(target.clone());
  }

  /// Notes that the work on a file succeeded, or that nothing needs it any more.
  pub(super) fn unblock(&mut self, target: &Target) {
    self.blocked.remove(target);
  }

  /// Whether the ledger was removed or replaced.
  pub(super) fn is_moved(&self) -> bool {
    self.is_moved
  }

  /// Begins an outage, or goes on with it, and tells what is wrong unless that is known.
  pub(super) fn begin(&mut self, error: &StoreError, now: Duration) {
    self.is_moved = matches!(error, StoreError::Moved { .. });
    let until = if self.is_moved { "exists again" } else { "can be written again" };
    let text = format!("{error}; nothing is redacted until the ledger {until}");
    if !self.note(text.clone(), now) {
      return;
    }
    if let Some(Err(error)) = self.alarm.as_ref().map(|alarm| alarm.raise(&text)) {
      tracing::error!(target: "memfw", %error, "the alarm file could not be written");
    }
    Event::new(EventKind::Degraded).detail(text).log(None);
  }

  /// Fails if the ledger was removed or replaced and another one is in its place now: then the daemon
  /// must start again with the new one.
  pub(super) fn follow(&self, ledger: &Ledger, now: Duration) -> Result<(), DaemonError> {
    let is_due = self.is_moved && !self.is_waiting(now);
    let is_there = |path: &Path| path.metadata().is_ok_and(|it| it.is_file() && it.len() > 0);
    if is_due && is_there(ledger.path()) && ledger.check_place().is_err() {
      return Err(DaemonError::Replaced);
    }
    Ok(())
  }

  /// Ends the outage once no file is blocked. Whether the ledger can be written is found out by writing
  /// to it. Returns whether this call ended the outage.
  pub(super) fn end(&mut self, engine: &mut Engine<RealFs>) -> Result<bool, StoreError> {
    let Some(text) = self.text().filter(|_| self.blocked.is_empty()) else {
      return Ok(false);
    };
    let events = [
      Event::new(EventKind::Degraded).detail(text),
      Event::new(EventKind::Restored).detail("the ledger can be written again"),
    ];
    let at = engine.clock().now();
    let rows = events.each_ref().map(Event::row);
    engine.ledger_mut().append_events(&rows, at)?;
    self.reset(engine.clock().monotonic());
    if let Some(Err(error)) = self.alarm.as_ref().map(Alarm::silence) {
      tracing::error!(target: "memfw", %error, "the alarm file could not be written");
    }
    let [_, restored] = events;
    restored.log(None);
    Ok(true)
  }

  /// Notes a failure. Returns whether its reason is new.
  fn note(&mut self, text: String, now: Duration) -> bool {
    if self.text.is_none() && now.saturating_sub(self.at) > CALM {
      self.tries = 0;
    }
    let wait = FIRST_RETRY.saturating_mul(1 << self.tries.min(10)).min(LAST_RETRY);
    self.tries = self.tries.saturating_add(1);
    self.at = now + wait;
    let is_new = self.text.as_deref() != Some(text.as_str());
    self.text = Some(text);
    is_new
  }

  fn reset(&mut self, now: Duration) {
    self.text = None;
    self.is_moved = false;
    self.blocked.clear();
    self.at = now;
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
  }

  #[test]
  fn it_is_tried_ever_more_rarely_and_said_once() {
    let mut outage = Outage::default();
    let mut now = s(100);
    let mut waits = Vec::new();
    for round in 0..10 {
      assert_eq!(outage.note("full".into(), now), round == 0);
      assert!(outage.is_waiting(now));
      waits.push(outage.next_due(now).unwrap());
      now += *waits.last().unwrap();
      assert!(!outage.is_waiting(now));
    }
    assert!(waits.is_sorted() && waits[0] == FIRST_RETRY && waits[9] == LAST_RETRY, "{waits:?}");
    assert!(outage.note("locked".into(), now), "another reason is news");
    // The pauses start again only after a long time without an outage.
    outage.reset(now);
    assert_eq!(outage.next_due(now), None);
    assert!(outage.note("full".into(), now + s(1)));
    assert_eq!(outage.next_due(now + s(1)), Some(LAST_RETRY));
    outage.reset(now);
    outage.note("full".into(), now + s(120));
    assert_eq!(outage.next_due(now + s(120)), Some(FIRST_RETRY));
  }
}
