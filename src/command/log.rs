//! `memfw log`: events as they happen, from the ledger: independent of where the daemon logs to,
//! and with the events of commands while no daemon ran.
#![forbid(unsafe_code)]

use std::time::Duration;

use clap::Args as ClapArgs;
use tracing::level_filters::LevelFilter;

use super::shared::events::{kind_of, to_json};
use crate::{
  app::{
    context::Context,
    exit::Status,
    logging::{filter, is_alarming, quoted, word},
  },
  config::LogLevel,
  detect::{Code, Layer},
  engine::{
    EventKind,
    event::{rounded, shown},
  },
  memory::BlockId,
  os::pause,
  provenance::{Source, Trust},
  store::{EventFilter, EventRow, Ledger},
  terminal::{failure::Failure, output::Style, time},
};

/// How often to ask the ledger for new events: soon enough for a person who waits, and cheap, because a
/// query reads one row of an index.
const EVERY: Duration = Duration::from_millis(200);
/// The most events of one query.
const BATCH: u32 = 1_000;

/// `memfw log`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw log --log-level debug")]
pub struct LogArgs {
  /// Begin with the last N events
  #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
  pub lines: u32,

  /// Print these events and exit, instead of waiting for more
  #[arg(long)]
  pub no_follow: bool,

  /// Only events of this name, at any level
  #[arg(long, value_name = "EVENT")]
  pub event: Option<String>,

  /// Print JSON, one object per line
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: LogArgs) -> Result<Status, Failure> {
  let event = args.event.as_deref().map(kind_of).transpose()?;
  // Commands that need the configuration report an invalid one; the flag works without it.
  let level = context.config().map_or_else(
    |_| context.log_level.unwrap_or(LogLevel::Info),
    |effective| effective.config.log_level,
  );
  let choice = Choice { event, least: filter(level) };
  let ledger = context.ledger()?;
  let (first, mut last) = choice.latest(&ledger, args.lines)?;
  for row in &first {
    write(context, row, args.json)?;
  }
  context.out.flush()?;
  if args.no_follow {
    return Ok(Status::Yes);
  }
  loop {
    let rows = ledger.events_after(last, BATCH)?;
    for row in rows.iter().filter(|row| choice.lets_in(row)) {
      write(context, row, args.json)?;
    }
    context.out.flush()?;
    match rows.last() {
      Some(row) => last = row.id,
      None if context.out.is_deserted() => return Ok(Status::Yes),
      None => pause(EVERY),
    }
  }
}

/// Which events are shown.
struct Choice {
  event: Option<EventKind>,
  least: LevelFilter,
}

impl Choice {
  fn lets_in(&self, row: &EventRow) -> bool {
    match self.event {
      Some(event) => row.event == event,
      None => row.event.level() <= self.least,
    }
  }

  /// The latest events that pass the filter, oldest first, and the number of the newest event of all.
  fn latest(&self, ledger: &Ledger, n: u32) -> Result<(Vec<EventRow>, i64), Failure> {
    let view = ledger.snapshot()?;
    let newest = EventFilter { limit: Some(1), ..EventFilter::default() };
    let last = view.events(&newest)?.first().map_or(0, |row| row.id);
    let shown = |kind: &EventKind| match self.event {
      Some(event) => *kind == event,
      None => kind.level() <= self.least,
    };
    let kinds: Vec<EventKind> = EventKind::ALL.iter().copied().filter(shown).collect();
    let mut rows = Vec::new();
    view.each_event(&kinds, i64::MIN, n, |row| rows.push(row))?;
    Ok((rows, last))
  }
}

fn write(context: &Context, row: &EventRow, as_json: bool) -> Result<(), Failure> {
  if as_json {
    return context.out.json_line(&to_json(row));
  }
  context.out.line(&line(row, context.out.colour()))
}

/// An event as a line in the format of the daemon's log.
fn line(row: &EventRow, colour: bool) -> String {
  let (level, style) = word(row.event.level());
  let style = if is_alarming(row.event.as_str()) { Style::Yellow } else { style };
  let at = Style::Dim.paint(&time::rfc3339(row.at), colour);
  let mut line = format!(
    "{at} {} {}",
    style.paint(level, colour),
    Style::Bold.paint(row.event.message(), colour)
  );
  let codes = row.codes.iter().copied().map(Code::as_str).collect::<Vec<_>>().join(",");
  let fields = [
    ("file", row.path.as_deref().map(shown)),
    ("block", row.block.as_ref().map(|id| BlockId::as_str(id).to_owned())),
    ("source", row.source.as_ref().map(|source| Source::as_str(source).to_owned())),
    ("trust", row.trust.map(|trust| Trust::as_str(trust).to_owned())),
    ("layer", row.layer.map(|layer| Layer::as_str(layer).to_owned())),
    ("code", (!codes.is_empty()).then_some(codes)),
    ("score", row.score.map(|score| rounded(score).to_string())),
    ("action", row.action.clone()),
    ("took_ms", row.took_us.map(|us| (us as f64 / 1e3).to_string())),
    ("detail", (!row.detail.is_empty()).then(|| row.detail.clone())),
  ];
  for (name, value) in fields {
    if let Some(value) = value {
      line.push(' ');
      line.push_str(&Style::Dim.paint(&format!("{name}="), colour));
      line.push_str(&quoted(&value));
    }
  }
  line
}

#[cfg(test)]
mod tests {
  use super::*;

  fn row() -> EventRow {
    EventRow {
      id: 1,
      at: 1_795_262_400_000_000,
      event: EventKind::Quarantined,
      path: Some("/w/a\n error forged.md".into()),
      block: "a1b2c3".parse().ok(),
      source: Some(Source::new("web_fetch:\u{202e}x")),
      trust: Some(Trust::Hostile),
      attestation: None,
      session: None,
      layer: Some(Layer::Rules),
      codes: vec![Code::ForgedMarker, Code::ZeroWidth],
      score: Some(0.92),
      action: Some("quarantine".into()),
      detail: "two words".into(),
      took_us: Some(1_250),
      count: None,
    }
  }

  #[test]
  fn a_line_is_that_of_the_log_and_hostile_names_forge_none() {
    assert_eq!(
      line(&row(), false),
      "2026-11-21T12:00:00Z  info block quarantined file=\"/w/a\\n error forged.md\" block=a1b2c3 \
       source=web_fetch:\\u{202e}x trust=hostile layer=rules code=forged-marker,zero-width score=0.92 \
       action=quarantine took_ms=1.25 detail=\"two words\""
    );
  }

  #[test]
  fn colours_change_nothing_but_colours() {
    let coloured = line(&row(), true);
    assert!(
      coloured.contains("\x1b[33m info\x1b[0m \x1b[1mblock quarantined\x1b[0m"),
      "{coloured:?}"
    );
    let codes = regex::Regex::new("\x1b\\[[0-9]+m").unwrap();
    assert_eq!(codes.replace_all(&coloured, ""), line(&row(), false));
  }

  #[test]
  fn the_level_and_the_name_choose() {
    let kept = EventRow { event: EventKind::Kept, ..row() };
    let choice = |event, least| Choice { event, least };
    assert!(choice(None, LevelFilter::INFO).lets_in(&row()));
    assert!(!choice(None, LevelFilter::INFO).lets_in(&kept));
    assert!(choice(None, LevelFilter::DEBUG).lets_in(&kept));
    assert!(!choice(None, LevelFilter::WARN).lets_in(&row()));
    assert!(choice(Some(EventKind::Kept), LevelFilter::ERROR).lets_in(&kept));
    assert!(!choice(Some(EventKind::Kept), LevelFilter::TRACE).lets_in(&row()));
  }
}
