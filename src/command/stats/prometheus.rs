//! `memfw stats --prometheus`: the figures in the text exposition format, for the textfile collector of
//! node_exporter.
//!
//! Invariant: no memory text, no file name and no source is in the output, because monitoring is read by others.
#![forbid(unsafe_code)]

use std::{
  fmt::Write as _,
  path::{Path, PathBuf},
};

use super::super::{
  shared::{exposure::Reading, page_failure::unwritten},
  status,
};
use crate::{
  app::{context::Context, exit::Status},
  engine::event::shown,
  os::{Clock as _, SystemClock, report_file::write_metrics},
  store::{EventKind, Ledger},
  terminal::{escape::terminal, failure::Failure, time::DAY},
};

/// The beginning of each such file, by which memfw knows its own.
const MARK: &str = "# HELP memfw_";
/// The ending that the textfile collector asks for; it reads no other file.
const ENDING: &str = "prom";

/// Prints the figures, or writes them to a file.
pub(super) fn run(context: &Context, output: Option<&Path>) -> Result<Status, Failure> {
  let path = output.map(place).transpose()?;
  let ledger = context.ledger()?;
  let text = gather(context, &ledger)?.text;
  let Some(path) = path else {
    context.out.text(&text)?;
    return Ok(Status::Yes);
  };
  write_metrics(&path, MARK, &text)
    .map_err(|error| unwritten(&error, &path, "name a file that does not exist yet"))?;
  context.out.note(&format!("written to {}", terminal(shown(&path))))?;
  Ok(Status::Yes)
}

fn place(path: &Path) -> Result<PathBuf, Failure> {
  if path.extension().is_some_and(|ending| ending == ENDING) {
    return Ok(path.to_owned());
  }
  Err(
    Failure::usage(format!("`{}` does not end in `.{ENDING}`", shown(path)))
      .hint("the textfile collector reads no other file"),
  )
}

/// A text in the format, metric by metric.
#[derive(Default)]
struct Metrics {
  text: String,
}

impl Metrics {
  /// Adds a metric: its name, what it is, and its samples, each with at most one label. All of them are gauges: the
  /// ledger forgets old events, and a counter may not go down.
  fn gauge<'l>(
    &mut self,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Option<(&'l str, &'l str)>, f64)>,
  ) {
    // Writing to a String cannot fail.
    write!(self.text, "# HELP memfw_{name} {help}\n# TYPE memfw_{name} gauge\n").ok();
    for (label, value) in samples {
      let label = label.map(|(key, value)| format!("{{{key}=\"{}\"}}", escaped(value)));
      writeln!(self.text, "memfw_{name}{} {value}", label.unwrap_or_default()).ok();
    }
  }

  /// Adds a metric with one sample.
  fn one(&mut self, name: &str, help: &str, value: f64) {
    self.gauge(name, help, [(None, value)]);
  }
}

/// The value of a label.
fn escaped(value: &str) -> String {
  value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn gather(context: &Context, ledger: &Ledger) -> Result<Metrics, Failure> {
  let now = SystemClock.now();
  let report = status::report(context, Some(ledger))?;
  let counts = ledger.counts(now)?;
  let events = ledger.event_counts(now.saturating_sub(DAY), now.saturating_add(1))?;
  let mut metrics = Metrics::default();
  let version = [(Some(("version", env!("CARGO_PKG_VERSION"))), 1.0)];
  metrics.gauge("info", "The version of memfw.", version);
  let is_guarding = report.daemon == "guarding";
  metrics.one(
    "guarding",
    "1 if the daemon guards memory, else 0.",
    f64::from(u8::from(is_guarding)),
  );
  let n_degradations = report.degradations.len() as f64;
  metrics.one("degradations", "In how many ways protection is reduced.", n_degradations);
  if let Some(at) = report.scanned_at {
    let help = "When the last first scan ended, in seconds since the epoch.";
    metrics.one("scanned_timestamp_seconds", help, (at / 1_000_000) as f64);
  }
  metrics.one("files", "Memory files that are known.", counts.files as f64);
  let n_unguarded = report.n_unguarded() as f64;
  metrics.one("files_unguarded", "Memory files that are not fully guarded.", n_unguarded);
  let blocks = counts.blocks_by_state.iter();
  let blocks = blocks.map(|(state, n)| (Some(("state", state.as_str())), *n as f64));
  metrics.gauge("blocks", "Blocks in these files, by state.", blocks);
  let waiting =
    [("out", counts.waiting), ("in_file", counts.flagged)].map(|(place, n)| (place, n as f64));
  let waiting = waiting.map(|(place, n)| (Some(("place", place)), n));
  let help = "Items that wait for a person: out of their file, or flagged in it.";
  metrics.gauge("items_waiting", help, waiting);
  let of = |kind: &EventKind| events.iter().find(|(known, _)| known == kind).map_or(0, |(_, n)| *n);
  let events = EventKind::ALL.iter().map(|kind| (Some(("event", kind.as_str())), of(kind) as f64));
  metrics.gauge("events_last_day", "Events of the last 24 hours, by kind.", events);
  exposure(&mut metrics, &Reading::find(ledger)?);
  metrics.one("written_timestamp_seconds", "When this was written.", (now / 1_000_000) as f64);
  Ok(metrics)
}

/// How long poison could be read before it was taken out.
fn exposure(metrics: &mut Metrics, reading: &Reading) {
  let (half, most, n) = reading.figures();
  metrics.one("exposure_redactions", "The redactions that exposure is measured over.", n as f64);
  for (name, help, time) in [
    ("exposure_p50_seconds", "The time from a write to its redaction, median.", half),
    ("exposure_p99_seconds", "The time from a write to its redaction, 99th percentile.", most),
  ] {
    if let Some(time) = time {
      metrics.one(name, help, time.as_secs_f64());
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn labels_are_escaped() {
    let mut metrics = Metrics::default();
    metrics.gauge("x", "Help.", [(Some(("l", "a\"b\\c\nd")), 0.5)]);
    let expected =
      "# HELP memfw_x Help.\n# TYPE memfw_x gauge\nmemfw_x{l=\"a\\\"b\\\\c\\nd\"} 0.5\n";
    assert_eq!(metrics.text, expected);
  }
}
