//! Events, in order. Rows are only ever added.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use rusqlite::{Connection, Row, params};

use super::{
  Durability, EventKind, Ledger, Micros, StoreError, column,
  column::{optional_word, path_bytes},
  error::Fault,
};
use crate::{
  detect::{Action, Code, Layer},
  memory::BlockId,
  provenance::{Attestation, Source, Trust},
};

/// An event. Contains no text of a memory file.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
  /// Its kind.
  pub event: EventKind,
  /// The file.
  pub path: Option<PathBuf>,
  /// The block or item.
  pub block: Option<BlockId>,
  /// The source of the text.
  pub source: Option<Source>,
  /// The trust of the source.
  pub trust: Option<Trust>,
  /// How the source is known.
  pub attestation: Option<Attestation>,
  /// The agent's session.
  pub session: Option<String>,
  /// The layer that made the finding.
  pub layer: Option<Layer>,
  /// The finding codes.
  pub codes: Vec<Code>,
  /// The score, 0..1.
  pub score: Option<f32>,
  /// What was done with the text.
  pub action: Option<EventAction>,
  /// A detail, in memfw's own words.
  pub detail: String,
  /// How many blocks it is about, if it is about several.
  pub count: Option<u64>,
  /// How long the decision took, in microseconds.
  pub took_us: Option<u64>,
}

/// What was done with a text, as an event records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAction {
  /// The action of policy.
  Policy(Action),
  /// A comment that imitates one of memfw's was changed.
  Neutralise,
}

impl EventAction {
  /// The word used in the ledger, in JSON and in logs.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Policy(action) => action.as_str(),
      Self::Neutralise => "neutralise",
    }
  }
}

impl From<Action> for EventAction {
  fn from(action: Action) -> Self {
    Self::Policy(action)
  }
}

/// A stored event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
  /// Its number: later events have larger ones.
  pub id: i64,
  /// Its time.
  pub at: Micros,
  /// Its kind.
  pub event: EventKind,
  /// The file.
  pub path: Option<PathBuf>,
  /// The block or item.
  pub block: Option<BlockId>,
  /// The source of the text.
  pub source: Option<Source>,
  /// The trust of the source.
  pub trust: Option<Trust>,
  /// How the source is known.
  pub attestation: Option<Attestation>,
  /// The agent's session.
  pub session: Option<String>,
  /// The layer that made the finding.
  pub layer: Option<Layer>,
  /// The finding codes.
  pub codes: Vec<Code>,
  /// The score, 0..1.
  pub score: Option<f32>,
  /// The action of policy, as its word in JSON.
  pub action: Option<String>,
  /// A detail, in memfw's own words.
  pub detail: String,
  /// How many blocks it is about, if it is about several.
  pub count: Option<u64>,
  /// How long the decision took, in microseconds.
  pub took_us: Option<u64>,
}

/// A filter for events; the default selects all of them, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
  /// Only events from this time on.
  pub since: Option<Micros>,
  /// Only this source; a kind without detail matches all its details.
  pub source: Option<String>,
  /// Only this kind of event.
  pub event: Option<EventKind>,
  /// At most this many: always the newest ones.
  pub limit: Option<u32>,
  /// Oldest first.
  pub ascending: bool,
}

impl NewEvent {
  /// An event with only its kind.
  pub const fn new(event: EventKind) -> Self {
    Self {
      event,
      path: None,
      block: None,
      source: None,
      trust: None,
      attestation: None,
      session: None,
      layer: None,
      codes: Vec::new(),
      score: None,
      action: None,
      detail: String::new(),
      count: None,
      took_us: None,
    }
  }
}

impl Ledger {
  /// Adds events that belong to no other change of the ledger.
  pub fn append_events(&mut self, events: &[NewEvent], at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| append(tx, events, at))
  }

  /// The events that a filter selects.
  pub fn events(&self, filter: &EventFilter) -> Result<Vec<EventRow>, StoreError> {
    let mut events = self.read(|conn| {
      // Text is taken out before its author is known: the attributed source counts.
      let mut statement = conn.prepare_cached(
        "SELECT e.id, e.at, e.event, e.path, e.block, coalesce(q.source, e.source) AS origin,
           coalesce(q.trust, e.trust), e.layer, e.codes, e.score, e.action, e.detail,
           coalesce(q.attestation, e.attestation), coalesce(q.session, e.session), e.took_us, e.count
         FROM event e
           LEFT JOIN quarantine q ON e.event IN ('quarantined', 'held') AND q.id = e.block
         WHERE e.at >= ?1
           AND (?2 IS NULL OR e.event = ?2)
           AND (?3 IS NULL OR origin = ?3 OR substr(origin, 1, length(?3) + 1) = ?3 || ':')
         ORDER BY e.id DESC LIMIT ?4",
      )?;
      // For SQLite a negative limit means no limit.
      let limit = filter.limit.map_or(-1, i64::from);
      let since = filter.since.unwrap_or(Micros::MIN);
      let rows =
        statement.query_map(params![since, filter.event.map(EventKind::as_str), filter.source, limit], event_row)?;
      Ok(rows.collect::<Result<Vec<_>, _>>()?)
    })?;
    if filter.ascending {
      events.reverse();
    }
    Ok(events)
  }
}

pub(super) fn append(conn: &Connection, events: &[NewEvent], at: Micros) -> Result<(), Fault> {
  for event in events {
    conn
      .prepare_cached(
        "INSERT INTO event (at, event, path, block, source, trust, layer, codes, score, action,
           detail, attestation, session, took_us, count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
      )?
      .execute(params![
        at,
        event.event.as_str(),
        event.path.as_deref().map(path_bytes),
        event.block.as_ref().map(BlockId::as_str),
        event.source.as_ref().map(Source::as_str),
        event.trust.map(Trust::as_str),
        event.layer.map(Layer::as_str),
        column::join_codes(&event.codes),
        event.score.map(column::score),
        event.action.map(EventAction::as_str),
        event.detail,
        event.attestation.map(Attestation::as_str),
        event.session,
        event.took_us.map(saturated),
        event.count.map(saturated),
      ])?;
  }
  Ok(())
}

fn saturated(number: u64) -> i64 {
  i64::try_from(number).unwrap_or(i64::MAX)
}

/// A row with the columns in the order of [`Ledger::events`].
pub(super) fn event_row(row: &Row<'_>) -> rusqlite::Result<EventRow> {
  let present = |index| row.get_ref(index).map(|value| value != rusqlite::types::ValueRef::Null);
  let number = |index| -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(index)?.map(|n| n.max(0) as u64))
  };
  Ok(EventRow {
    id: row.get(0)?,
    at: row.get(1)?,
    event: column::word(row, 2)?,
    path: if present(3)? { Some(column::path(row, 3)?) } else { None },
    block: optional_word(row, 4)?,
    source: if present(5)? { Some(column::source(row, 5)?) } else { None },
    trust: optional_word(row, 6)?,
    layer: if present(7)? { Some(column::layer(row, 7)?) } else { None },
    codes: column::codes(row, 8)?,
    score: row.get::<_, Option<f64>>(9)?.map(|score| score as f32),
    action: row.get(10)?,
    detail: row.get(11)?,
    attestation: optional_word(row, 12)?,
    session: row.get(13)?,
    took_us: number(14)?,
    count: number(15)?,
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::{Home, id};

  fn event(event: EventKind, source: &str) -> NewEvent {
    NewEvent { source: Some(Source::new(source)), ..NewEvent::new(event) }
  }

  fn kinds(ledger: &Ledger, filter: &EventFilter) -> Vec<(EventKind, Micros)> {
    let events = ledger.events(filter).unwrap();
    events.into_iter().map(|event| (event.event, event.at)).collect()
  }

  #[test]
  fn an_event_comes_back_as_it_was_added() {
    let mut ledger = Home::new().ledger();
    let new = NewEvent {
      event: EventKind::Quarantined,
      path: Some("/w/a.md".into()),
      block: Some(id("a1b2c3")),
      source: Some(Source::new("exec")),
      trust: Some(Trust::Untrusted),
      layer: Some(Layer::Rules),
      codes: vec![Code::ForgedMarker],
      score: Some(0.5),
      action: Some(Action::Quarantine.into()),
      detail: "one line".into(),
      attestation: Some(Attestation::ToolObserved),
      session: Some("s".into()),
      took_us: Some(1_234),
      count: Some(7),
    };
    ledger.append_events(&[new.clone(), NewEvent::new(EventKind::Kept)], 4).unwrap();
    let rows = ledger.events(&EventFilter::default()).unwrap();
    assert_eq!(rows.len(), 2);
    let row = rows[1].clone();
    assert_eq!((row.at, row.event, row.path, row.block), (4, new.event, new.path, new.block));
    assert_eq!((row.source, row.trust, row.layer), (new.source, new.trust, new.layer));
    assert_eq!(
      (row.codes, row.score, row.action.as_deref()),
      (new.codes, new.score, Some("quarantine"))
    );
    assert_eq!((row.attestation, row.session), (new.attestation, new.session));
    assert_eq!((row.took_us, row.count, rows[0].took_us), (Some(1_234), Some(7), None));
    assert_eq!((rows[0].path.as_ref(), rows[0].score), (None, None));
  }

  #[test]
  fn filters_choose_and_the_limit_keeps_the_newest() {
    let mut ledger = Home::new().ledger();
    for (n, source) in ["web_fetch:a.com", "web_fetch_x", "web_fetch:b.com"].iter().enumerate() {
      ledger.append_events(&[event(EventKind::Kept, source)], n as i64).unwrap();
    }
    ledger.append_events(&[event(EventKind::Quarantined, "exec")], 3).unwrap();
    let filter = |change: fn(&mut EventFilter)| {
      let mut filter = EventFilter { ascending: true, ..EventFilter::default() };
      change(&mut filter);
      filter
    };
    let at = |filter| kinds(&ledger, &filter).into_iter().map(|(_, at)| at).collect::<Vec<_>>();
    assert_eq!(at(filter(|_| ())), [0, 1, 2, 3]);
    assert_eq!(at(filter(|f| f.ascending = false)), [3, 2, 1, 0]);
    assert_eq!(at(filter(|f| f.source = Some("web_fetch".into()))), [0, 2]);
    assert_eq!(at(filter(|f| f.source = Some("web_fetch:b.com".into()))), [2]);
    assert_eq!(at(filter(|f| f.event = Some(EventKind::Quarantined))), [3]);
    assert_eq!(at(filter(|f| f.since = Some(2))), [2, 3]);
    assert_eq!(at(filter(|f| f.limit = Some(2))), [2, 3]);
  }
}
