//! Codes that are allowed for a source: `memfw policy allow`, and its part of `check` and `withdraw`.
#![forbid(unsafe_code)]

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use super::{PolicyWithdrawArgs, Standing};
use crate::{
  app::{context::Context, exit::Status},
  detect::Code,
  engine::{Event, EventKind, review::Approval},
  os::{Clock as _, SystemClock},
  provenance::{Source, trust_of},
  store::{Ledger, SourceException},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::Style,
    table::{Cell, Column, Table},
    time::{self, DAY},
  },
};

/// `memfw policy allow`
#[derive(Clone, Debug, ClapArgs)]
pub struct PolicyAllowArgs {
  /// The source, exactly as `memfw list` names it
  #[arg(value_name = "SOURCE")]
  pub source: String,

  /// The finding codes to excuse in its text
  #[arg(value_name = "CODE", required = true)]
  pub codes: Vec<Code>,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Only for N days
  #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
  pub days: Option<u32>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Excuses codes in all text of a source.
pub(super) fn allow(context: &Context, args: &PolicyAllowArgs) -> Result<Status, Failure> {
  // Without a ledger no text is judged, and `allow` does not create one.
  drop(context.ledger()?);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let (by, source) = (context.user(), Source::new(&args.source));
  let until = args.days.map(|days| SystemClock.now().saturating_add(i64::from(days) * DAY));
  engine.decisions().allow(
    &source,
    &args.codes,
    Approval { by: &by, reason: args.reason.as_deref(), until, at_end: false },
  )?;
  let words: Vec<&str> = args.codes.iter().map(|code| code.as_str()).collect();
  if args.json {
    context.out.json(&json!([{
      "source": source.as_str(),
      "codes": words,
      "expires_at": until.map(time::rfc3339),
      "status": "allowed",
    }]))?;
  } else {
    let end = until.map_or_else(String::new, |until| format!(" until {}", time::date(until)));
    let source = terminal(source.as_str());
    context.out.line(&format!("{source}: allowed {}{end}", words.join(" ")))?;
  }
  Ok(Status::Yes)
}

pub(super) fn standing(one: &SourceException, now: i64) -> Standing {
  Standing::since(one.created_at, one.used_at, one.expires_at, now)
}

/// The name of an allowance for `memfw policy withdraw`.
fn id(one: &SourceException) -> String {
  format!("{}:{}", one.source, one.code)
}

pub(super) fn to_json(one: &SourceException, now: i64) -> Value {
  json!({
    "id": id(one),
    "file": null,
    "source": one.source.as_str(),
    "content_hash": null,
    "codes": [one.code.as_str()],
    "reason": one.reason,
    "created_at": time::rfc3339(one.created_at),
    "expires_at": one.expires_at.map(time::rfc3339),
    "used_at": one.used_at.map(time::rfc3339),
    "uses": one.uses,
    "standing": standing(one, now).as_str(),
  })
}

pub(super) fn table(context: &Context, all: &[SourceException], now: i64) -> Result<(), Failure> {
  let mut table = Table::new([
    Column::new("ALLOWED").cut_end(20),
    Column::new("STANDING"),
    Column::new("SINCE").dispensable(),
    Column::new("UNTIL"),
    Column::new("USED"),
    Column::new("REASON").cut_end(14),
  ]);
  for one in all {
    let used = one.used_at.map_or_else(|| "never".to_owned(), |at| time::short(at, now));
    table.row([
      Cell::styled(id(one), Style::Cyan),
      standing(one, now).cell(),
      Cell::from(time::short(one.created_at, now)),
      Cell::from(one.expires_at.map_or_else(String::new, time::date)),
      Cell::from(used),
      Cell::from(one.reason.as_str()),
    ]);
  }
  table.write(&context.out)
}

/// Withdraws `SOURCE:CODE`; returns whether it existed.
pub(super) fn withdraw(
  context: &Context,
  ledger: &mut Ledger,
  name: &str,
  args: &PolicyWithdrawArgs,
) -> Result<bool, Failure> {
  let Some((source, code)) = name.rsplit_once(':') else { return Ok(false) };
  let (source, Ok(code)) = (Source::new(source), code.parse::<Code>()) else { return Ok(false) };
  let rules = context.config().unwrap_or_default().config.trust_rules;
  let by = context.user();
  let why = args.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
  let event = Event::new(EventKind::Withdrawn)
    .origin(&source, trust_of(&rules, &source, &[]))
    .detail(format!("{code}, by {by}{why}"));
  if !ledger.withdraw_source_exception(&source, code, &[event.row()], SystemClock.now())? {
    return Ok(false);
  }
  if !args.json {
    let text = "withdrawn; new text from this source is judged like any other";
    context.out.line(&format!("{}: {text}", terminal(name)))?;
  }
  Ok(true)
}
