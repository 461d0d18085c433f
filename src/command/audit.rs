//! `memfw audit`: what happened, in order.
#![forbid(unsafe_code)]

use clap::Args as ClapArgs;

use super::shared::events::{kind_of, to_json};
use crate::{
  app::{context::Context, exit::Status},
  engine::event::shown,
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::Source,
  store::EventFilter,
  terminal::{
    failure::{Failure, complain},
    table::{Cell, Column, Table},
    time,
  },
};

/// `memfw audit`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw audit --days 7 --event quarantined")]
pub struct AuditArgs {
  /// Only events of the last N days
  #[arg(long, value_name = "N")]
  pub days: Option<u32>,

  /// Only events about this source; `web_fetch` means all of its kind
  #[arg(long, value_name = "SOURCE")]
  pub source: Option<String>,

  /// Only events of this name
  #[arg(long, value_name = "EVENT")]
  pub event: Option<String>,

  /// At most N events, the latest ones
  #[arg(long, value_name = "N")]
  pub limit: Option<u32>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// The most events that are listed without `--limit`.
const DEFAULT_LIMIT: u32 = 1_000;

/// Carries the command out.
pub fn run(context: &Context, args: AuditArgs) -> Result<Status, Failure> {
  let event = args.event.as_deref().map(kind_of).transpose()?;
  let now = SystemClock.now();
  let ledger = context.ledger()?;
  let filter = EventFilter {
    since: args.days.map(|days| now.saturating_sub(i64::from(days).saturating_mul(DAY))),
    source: args.source.clone(),
    event,
    limit: Some(args.limit.unwrap_or(DEFAULT_LIMIT)),
    ascending: true,
  };
  let events = ledger.events(&filter)?;
  if args.limit.is_none() && events.len() == DEFAULT_LIMIT as usize {
    complain(&format!(
      "hint: only the latest {DEFAULT_LIMIT} events are listed; `--limit N` lists more\n"
    ));
  }
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
    Column::new("TIME (UTC)"),
    Column::new("EVENT"),
    Column::new("BLOCK"),
    Column::new("SOURCE").cut_end(9),
    Column::new("FILE").cut_start(11),
    Column::new("WHAT").cut_end(11),
  ]);
  for row in &events {
    let codes = row.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(" ");
    let what = if row.detail.is_empty() { codes } else { row.detail.clone() };
    table.row([
      Cell::from(time::exact(row.at, now)),
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
