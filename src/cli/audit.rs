//! `memfw audit`: what happened, in order.
#![forbid(unsafe_code)]

use std::str::FromStr as _;

use serde_json::json;

use super::{
  Status,
  args::AuditArgs,
  context::Context,
  failure::Failure,
  table::{Cell, Column, Table},
  time,
};
use crate::{
  detect::{Code, Layer},
  engine::{
    EventKind,
    event::{rounded, shown},
  },
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::{Attestation, Source, Trust},
  store::{EventFilter, EventRow},
};

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// Events that are listed where nobody says how many.
const DEFAULT_LIMIT: u32 = 1_000;

/// Carries the command out.
pub fn run(context: &Context, args: AuditArgs) -> Result<Status, Failure> {
  if let Some(event) = &args.event {
    check_event(event)?;
  }
  let now = SystemClock.now();
  let ledger = context.ledger()?;
  let filter = EventFilter {
    since: args.days.map(|days| now.saturating_sub(i64::from(days).saturating_mul(DAY))),
    source: args.source.clone(),
    event: args.event.clone(),
    limit: Some(args.limit.unwrap_or(DEFAULT_LIMIT)),
    ascending: true,
  };
  let events = ledger.events(&filter)?;
  if args.json {
    let list: Vec<_> = events.iter().map(to_json).collect();
    context.out.json(&list)?;
    return Ok(Status::Yes);
  }
  if events.is_empty() {
    context.out.line("nothing happened")?;
    return Ok(Status::Yes);
  }
  context.out.page();
  let mut table = Table::new([
    Column::new("TIME"),
    Column::new("EVENT"),
    Column::new("BLOCK"),
    Column::new("SOURCE").cut_end(10),
    Column::new("FILE").cut_start(12),
    Column::new("WHAT").cut_end(12),
  ]);
  for row in &events {
    let codes = row.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(" ");
    let what = if row.detail.is_empty() { codes } else { row.detail.clone() };
    table.row([
      Cell::from(time::short(row.at, now)),
      Cell::from(row.event.as_str()),
      Cell::from(row.block.as_ref().map_or("", BlockId::as_str)),
      Cell::from(row.source.as_ref().map_or("", Source::as_str)),
      Cell::from(row.path.as_deref().map(shown).unwrap_or_default()),
      Cell::from(what),
    ]);
  }
  table.write(&context.out)?;
  Ok(Status::Yes)
}

/// Refuses the name of an event that there is not.
pub(super) fn check_event(event: &str) -> Result<(), Failure> {
  if EventKind::from_str(event).is_ok() {
    return Ok(());
  }
  let names = EventKind::ALL.iter().map(|kind| kind.as_str());
  let nearest = crate::config::nearest(event, names);
  Err(
    Failure::usage(format!("unknown event `{event}`"))
      .maybe_hint(nearest.map(|name| format!("did you mean `{name}`?"))),
  )
}

/// One event for programs.
pub(super) fn to_json(row: &EventRow) -> serde_json::Value {
  json!({
    "at": time::rfc3339(row.at),
    "event": row.event,
    "file": row.path.as_deref().map(shown),
    "block": row.block.as_ref().map(BlockId::as_str),
    "source": row.source.as_ref().map(Source::as_str),
    "trust": row.trust.map(Trust::as_str),
    "attestation": row.attestation.map(Attestation::as_str),
    "session_id": row.session,
    "layer": row.layer.map(Layer::as_str),
    "codes": row.codes.iter().copied().map(Code::as_str).collect::<Vec<_>>(),
    "score": row.score.map(rounded),
    "action": row.action,
    "detail": row.detail,
    "took_ms": row.took_us.map(|us| us as f64 / 1e3),
  })
}
