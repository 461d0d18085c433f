//! `memfw stats`: how many blocks were new, what was decided and how fast, and how trusted memory is.
#![forbid(unsafe_code)]

mod prometheus;

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};
use serde_json::{Value, json};

use super::shared::{
  duration::{FOR_P90, FOR_P99, duration},
  exposure::Reading,
  figures::{DEFAULT_DAYS, Span},
};
use crate::{
  app::{context::Context, exit::Status},
  detect::{Code, Layer},
  eval::latency::Latency,
  os::{Clock as _, SystemClock},
  provenance::Trust,
  stats::{Counts, Line, MAX_DAYS},
  terminal::{
    failure::Failure,
    output::{Out, Style, count},
    table::{Cell, Column, Table},
    time::{self, DAY},
  },
};

/// The most rows of a table by default; JSON has all rows.
const DEFAULT_ROWS: u32 = 8;
/// The most days that are shown to people, the latest ones.
const SHOWN_DAYS: usize = 14;
/// The width of a bar, in columns.
const BAR: usize = 20;
/// The name of the row for all values that have no row of their own.
const OTHERS: &str = "(others)";

/// `memfw stats`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw stats --days 7")]
pub struct StatsArgs {
  /// Count only the last N days, including today
  #[arg(long, value_name = "N", default_value_t = DEFAULT_DAYS,
    value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
  pub days: u32,

  /// Show at most N rows of each table
  #[arg(long, value_name = "N", default_value_t = DEFAULT_ROWS)]
  pub rows: u32,

  /// Print JSON
  #[arg(long)]
  pub json: bool,

  /// Print metrics for Prometheus; they are about now
  #[arg(long, conflicts_with_all = ["json", "days", "rows"])]
  pub prometheus: bool,

  /// Write the metrics to FILE, whole or not at all; it ends in `.prom`
  #[arg(long, value_name = "FILE", requires = "prometheus", value_hint = ValueHint::FilePath)]
  pub output: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(context: &Context, args: StatsArgs) -> Result<Status, Failure> {
  if args.prometheus {
    return prometheus::run(context, args.output.as_deref());
  }
  let ledger = context.ledger()?;
  let now = SystemClock.now();
  // Programs get UTC.
  let ahead = if args.json { 0 } else { time::local_ahead(now) };
  let span = Span::gather(&ledger, args.days, now, ahead)?;
  let reading = Reading::find(&ledger)?;
  if args.json {
    context.out.json(&to_json(&span, &reading))?;
  } else {
    context.out.page();
    print(&context.out, &span, &reading, args.rows as usize)?;
  }
  Ok(Status::Yes)
}

fn to_json(span: &Span, reading: &Reading) -> Value {
  let figures = &span.figures;
  let now = span.now();
  let by_trust: Vec<Value> = Trust::ALL
    .iter()
    .rev()
    .map(|trust| {
      json!({ "trust": trust.as_str(), "blocks": now.of(*trust), "share": share(now.of(*trust), now.all()) })
    })
    .collect();
  let by_day: Vec<Value> =
    figures.days.iter().map(|line| line_json(line.name.map(date), line)).collect();
  let layer = |line: &Line<Layer>| line.name.map(Layer::as_str);
  let code = |line: &Line<Code>| line.name.map(Code::as_str);
  json!({
    "since": time::rfc3339(span.since),
    "until": time::rfc3339(span.until),
    "truncated": span.truncated,
    "all": line_json(None::<&str>, &figures.all),
    "by": {
      "file": figures.files.iter().map(|line| line_json(line.name.as_deref(), line)).collect::<Vec<_>>(),
      "source": figures.sources.iter().map(|line| line_json(line.name.as_deref(), line)).collect::<Vec<_>>(),
      "code": figures.codes.iter().map(|line| line_json(code(line), line)).collect::<Vec<_>>(),
      "layer": figures.layers.iter().map(|line| line_json(layer(line), line)).collect::<Vec<_>>(),
      "day": by_day,
    },
    "memory": { "blocks": now.all(), "by_trust": by_trust },
    "exposure": reading.to_json().0,
  })
}

fn line_json<K>(name: Option<impl serde::Serialize>, line: &Line<K>) -> Value {
  let Counts { kept, baseline, flagged, quarantined, returned, approved, false_alarms, rejected } =
    line.counts;
  json!({
    "name": name,
    "seen": line.counts.seen(),
    "kept": kept,
    "baseline": baseline,
    "flagged": flagged,
    "quarantined": quarantined,
    "returned": returned,
    "approved": approved,
    "false_alarms": false_alarms,
    "rejected": rejected,
    "trust": line.trust.map(Trust::as_str),
    "latency": line.latency,
    "measured": line.measured,
  })
}

/// A part of a whole, 0 to 1, with three digits; `None` if the whole is 0.
fn share(part: u64, whole: u64) -> Option<f64> {
  (whole > 0).then(|| (part as f64 / whole as f64 * 1e3).round() / 1e3)
}

fn print(out: &Out, span: &Span, reading: &Reading, rows: usize) -> Result<(), Failure> {
  let figures = &span.figures;
  let Counts { kept, flagged, quarantined, returned, approved, false_alarms, rejected, .. } =
    figures.all.counts;
  out.line(&out.paint(Style::Bold, &span.title()))?;
  out.line(&format!(
    "  seen       {}: {kept} kept, {flagged} flagged, {quarantined} quarantined",
    count(figures.all.counts.seen(), "block")
  ))?;
  if returned > 0 {
    out.line(&format!("  came back  {} and went out again", count(returned, "time")))?;
  }
  let alarms = count(false_alarms, "false alarm");
  out.line(&format!("  reviewed   {approved} approved ({alarms}), {rejected} rejected"))?;
  let times = figures.all.latency.as_ref().map_or_else(
    || "nothing was measured yet".to_owned(),
    |times| decided(times, figures.all.measured),
  );
  out.line(&format!("  decided    {times}"))?;
  out.line(&format!("  exposure   {}", reading.line(span.until)))?;
  if span.truncated {
    out.line("  There was more; only the newest events are counted.")?;
  }
  trust_table(out, span)?;
  day_table(out, span)?;
  table(out, "FILE", Column::new("FILE").cut_start(12), rows, &figures.files, String::clone)?;
  table(out, "SOURCE", Column::new("SOURCE").cut_end(12), rows, &figures.sources, String::clone)?;
  table(out, "CODE", Column::new("CODE"), rows, &figures.codes, |code| code.as_str().to_owned())?;
  table(out, "LAYER", Column::new("LAYER"), rows, &figures.layers, |layer| {
    layer.as_str().to_owned()
  })
}

fn trust_table(out: &Out, span: &Span) -> Result<(), Failure> {
  let now = span.now();
  let mut table = Table::new([
    Column::new("TRUST"),
    Column::new("BLOCKS").right(),
    Column::new("SHARE").right(),
    Column::new(""),
  ]);
  for trust in Trust::ALL.iter().rev() {
    let n = now.of(*trust);
    let percent = share(n, now.all()).map(|share| format!("{:.0} %", share * 100.0));
    table.row([
      Cell::from(trust.as_str()),
      Cell::from(n.to_string()),
      Cell::from(percent.unwrap_or_default()),
      Cell::styled(bar(n, now.all()), colour(*trust)),
    ]);
  }
  out.line("")?;
  table.write(out)
}

/// The colour of a trust level, as in all output.
const fn colour(trust: Trust) -> Style {
  match trust {
    Trust::Trusted => Style::Green,
    Trust::Verified => Style::Cyan,
    Trust::Untrusted => Style::Yellow,
    Trust::Hostile => Style::Red,
  }
}

fn day_table(out: &Out, span: &Span) -> Result<(), Failure> {
  let known = &span.figures.days;
  let of = |day: i64| {
    known.iter().find(|line| line.name == Some(day)).map(|line| line.counts).unwrap_or_default()
  };
  // Days before the first event say nothing.
  let quiet = |day: &i64| of(*day) == Counts::default();
  let mut days: Vec<i64> = span.all_days().skip_while(quiet).collect();
  let n_left_out = days.len().saturating_sub(SHOWN_DAYS);
  days.drain(..n_left_out);
  let most = days.iter().map(|day| of(*day).seen()).max().unwrap_or(0);
  let mut table = Table::new([
    Column::new("DAY"),
    Column::new("SEEN").right(),
    Column::new("KEPT").right(),
    Column::new("FLAGGED").right(),
    Column::new("QUARANTINED").right(),
    Column::new("APPROVED").right(),
    Column::new(""),
  ]);
  for day in days {
    let counts = of(day);
    let style = match counts {
      Counts { quarantined: 1.., .. } | Counts { returned: 1.., .. } => Style::Red,
      Counts { flagged: 1.., .. } => Style::Yellow,
      _ => Style::Green,
    };
    table.row([
      Cell::from(date(day)),
      Cell::from(counts.seen().to_string()),
      Cell::from(counts.kept.to_string()),
      Cell::from(counts.flagged.to_string()),
      Cell::from(counts.quarantined.to_string()),
      Cell::from(counts.approved.to_string()),
      Cell::styled(bar(counts.seen(), most), style),
    ]);
  }
  out.line("")?;
  table.write(out)?;
  match n_left_out as u64 {
    0 => Ok(()),
    n => out.line(&format!("{} not shown: memfw stats --json", count(n, "earlier day"))),
  }
}

fn table<K>(
  out: &Out,
  what: &str,
  first: Column,
  rows: usize,
  lines: &[Line<K>],
  name: impl Fn(&K) -> String,
) -> Result<(), Failure> {
  if lines.is_empty() {
    return Ok(());
  }
  let mut table = Table::new([
    first,
    Column::new("SEEN").right(),
    Column::new("KEPT").right(),
    Column::new("FLAGGED").right(),
    Column::new("QUARANTINED").right(),
    Column::new("APPROVED").right(),
    Column::new("P99").right(),
  ]);
  for line in lines.iter().take(rows) {
    let counts = line.counts;
    table.row([
      Cell::from(line.name.as_ref().map_or_else(|| OTHERS.to_owned(), &name)),
      Cell::from(counts.seen().to_string()),
      Cell::from(counts.kept.to_string()),
      Cell::from(counts.flagged.to_string()),
      Cell::from(counts.quarantined.to_string()),
      Cell::from(counts.approved.to_string()),
      Cell::from(line.latency.as_ref().map(p99).unwrap_or_default()),
    ]);
  }
  out.line("")?;
  table.write(out)?;
  match lines.len().saturating_sub(rows) {
    0 => Ok(()),
    more => out.line(&format!("{more} more of {what}: memfw stats --rows {}", lines.len())),
  }
}

fn p99(times: &Latency) -> String {
  duration(times.p99_us)
}

/// How long `n` decisions took. A percentile of too few decisions would be the slowest one under another
/// name.
pub(super) fn decided(times: &Latency, n: u64) -> String {
  let mut parts = vec![format!("p50 {}", duration(times.p50_us))];
  if n >= FOR_P90 {
    parts.push(format!("p90 {}", duration(times.p90_us)));
  }
  if n >= FOR_P99 {
    parts.push(format!("p99 {}", duration(times.p99_us)));
  } else {
    parts.push(format!("slowest {}", duration(times.max_us)));
  }
  format!("{} over {}", parts.join(", "), count(n, "decision"))
}

/// The date of a day, which is counted from 1970.
pub(super) fn date(day: i64) -> String {
  time::date(day.saturating_mul(DAY))
}

/// A bar for a part of a whole; anything more than 0 is visible.
fn bar(n: u64, all: u64) -> String {
  const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
  if n == 0 || all == 0 {
    return String::new();
  }
  let eighths = (n as f64 / all as f64 * (BAR * PARTS.len()) as f64).round().max(1.0) as usize;
  let part = PARTS.get(eighths % PARTS.len()).copied().unwrap_or_default();
  format!("{}{part}", "█".repeat((eighths / PARTS.len()).min(BAR)))
}

#[cfg(test)]
mod tests;
