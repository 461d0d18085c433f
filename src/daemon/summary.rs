//! Once a day, one log line about the past days: what was written, what was done about it, and what
//! waits.
//!
//! There is no timer for it: the line comes when nothing is due for the first time on a new day. There
//! is no line if nothing happened and nothing waits.
#![forbid(unsafe_code)]

use super::action::{Action, Surroundings};
use crate::{
  engine::{EngineError, EventKind},
  os::clock::timestamp,
  stats::{Counts, DAY, Day, day, summary},
  store::{EventFilter, Ledger},
};

/// Up to when the log has summaries.
#[derive(Debug, Default)]
pub(super) struct SummaryUntil {
  /// A midnight of UTC; `None` before the ledger was asked.
  until: Option<i64>,
}

impl SummaryUntil {
  /// The summary of the past days, if that was not logged and there is something to say.
  pub(super) fn work(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    let today = day(around.engine.clock().now()) * DAY;
    // If the clock was set back, `until` can be in the future, so any other day counts.
    if self.until.is_some_and(|until| until == today) {
      return Ok(vec![]);
    }
    let ledger = around.engine.ledger();
    let from = match self.until {
      Some(until) => until.min(today),
      None => first_unreported_day(ledger, today)?,
    };
    let text = if from < today { about(ledger, from, today)? } else { None };
    self.until = Some(today);
    Ok(text.map(|text| Action::Tell(EventKind::Summary, text)).into_iter().collect())
  }
}

/// The first day without a summary: that of the last summary, or else of the first event, but no earlier than
/// yesterday.
fn first_unreported_day(ledger: &Ledger, today: i64) -> Result<i64, EngineError> {
  let filter =
    EventFilter { event: Some(EventKind::Summary), limit: Some(1), ..EventFilter::default() };
  if let Some(last) = ledger.events(&filter)?.first() {
    return Ok((day(last.at) * DAY).min(today));
  }
  let first = ledger.events_after(i64::MIN, 1)?;
  let first = first.first().map_or(today, |event| day(event.at) * DAY);
  Ok(first.clamp(today.saturating_sub(DAY), today))
}

/// The summary of the days from one midnight to another, if there is something to say.
fn about(ledger: &Ledger, from: i64, to: i64) -> Result<Option<String>, EngineError> {
  let events = ledger.event_counts(from, to)?;
  let n = |kind: EventKind| events.iter().find(|(other, _)| *other == kind).map_or(0, |(_, n)| *n);
  let counts = Counts {
    kept: n(EventKind::Kept) + n(EventKind::Cleared),
    flagged: n(EventKind::Flagged).saturating_sub(n(EventKind::Cleared)),
    quarantined: n(EventKind::Quarantined) + n(EventKind::Held),
    returned: n(EventKind::Returned),
    approved: n(EventKind::Approved),
    rejected: n(EventKind::Rejected),
    // The sentence says nothing of these two.
    baseline: 0,
    false_alarms: 0,
  };
  let waiting = ledger.counts(to)?.for_a_person();
  let told = Day { counts, degraded: n(EventKind::Degraded), waiting };
  let date = |at: i64| timestamp(at).strftime("%Y-%m-%d").to_string();
  let days = match to - DAY {
    last if last <= from => date(from),
    last => format!("{} to {}", date(from), date(last)),
  };
  Ok(summary(&told).map(|text| format!("{days}: {text}")))
}
