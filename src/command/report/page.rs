//! The page itself: facts in, HTML out. Pure.
//!
//! Invariants: no script, no link, no external resource, and a content security policy that forbids
//! them; everything that others have chosen goes through [`Html::text`].
#![forbid(unsafe_code)]

use tracing::Level;

use super::{
  chart::{self, Column},
  html::{Html, policy_hash},
};
use crate::{
  command::{
    shared::{duration::duration, figures::Span},
    stats::{date, decided},
  },
  detect::{Code, Layer},
  engine::{EventKind, event::shown},
  memory::BlockId,
  plural::count,
  provenance::{Source, Trust},
  stats::{Counts, Line},
  store::{EventRow, Item},
  terminal::time,
};

/// The beginning of every page, by which the next report knows that it may overwrite the file.
pub(super) const MARK: &str =
  "<!doctype html>\n<!-- memfw report: the next report overwrites this file -->\n";
/// The most rows of a table; `memfw stats --json` has all rows.
const MAX_ROWS: usize = 50;

/// The name of the last column of a table; a cell is empty if nothing was timed.
const P99: &str = "p99";
/// The columns of a table after the first ones.
const FIGURES: [&str; 6] = ["seen", "kept", "flagged", "quarantined", "false alarms", P99];

const STYLE: &str = include_str!("style.css");

/// All facts of the page.
pub(super) struct Facts {
  /// The figures.
  pub(super) span: Span,
  /// Waiting items, oldest first, each with its text if texts were requested.
  pub(super) waiting: Vec<(Item, Option<Vec<u8>>)>,
  /// How many more items wait.
  pub(super) more_waiting: usize,
  /// How protection is reduced.
  pub(super) degradations: Vec<String>,
  /// How long poison was readable.
  pub(super) exposure: String,
  /// Events, newest first.
  pub(super) events: Vec<EventRow>,
  /// Whether there are more events.
  pub(super) more_events: bool,
}

impl Facts {
  fn time(&self, at: i64) -> String {
    time::local(at, self.span.ahead)
  }
}

/// The whole page as HTML, beginning with [`MARK`].
pub(super) fn page(facts: &Facts) -> String {
  let mut html = Html::default();
  head(&mut html);
  title(&mut html, facts);
  tiles(&mut html, facts);
  protection(&mut html, facts);
  waiting(&mut html, facts);
  days(&mut html, &facts.span);
  trust(&mut html, &facts.span);
  let figures = &facts.span.figures;
  table(&mut html, "Sources", "source", true, &figures.sources, String::as_str);
  table(&mut html, "What was found", "code", false, &figures.codes, |code| Code::as_str(*code));
  table(&mut html, "Who decided", "layer", false, &figures.layers, |layer| Layer::as_str(*layer));
  files(&mut html, &figures.files);
  timeline(&mut html, facts);
  html.markup("</body>\n</html>\n");
  html.finish()
}

fn head(html: &mut Html) {
  html
    .markup(MARK)
    .markup("<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
    .markup(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '",
    )
    .text(policy_hash(STYLE))
    .markup("'; base-uri 'none'; form-action 'none'\">\n")
    .markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
    .markup("<meta name=\"color-scheme\" content=\"light dark\">\n")
    .markup(
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>memfw report</title>\n<style>",
    )
    .markup(STYLE)
    .markup("</style>\n</head>\n<body>\n");
}

fn title(html: &mut Html, facts: &Facts) {
  html
    .markup("<header><h1>memfw report</h1><p class=\"soft\">")
    .text(facts.span.title())
    .markup("; made at ")
    .text(facts.time(facts.span.until))
    .markup(" by memfw ")
    .text(env!("CARGO_PKG_VERSION"))
    .markup("</p>");
  if facts.span.truncated {
    html.markup("<p class=\"soft\">There was more; only the newest events are counted.</p>");
  }
  html.markup("</header>\n");
}

fn tiles(html: &mut Html, facts: &Facts) {
  let counts = &facts.span.figures.all.counts;
  let n_waiting = (facts.waiting.len() + facts.more_waiting) as u64;
  html.markup("<div class=\"tiles\">");
  for (what, n) in [
    ("blocks in memory", facts.span.now().all()),
    ("seen", counts.seen()),
    ("flagged", counts.flagged),
    ("quarantined", counts.quarantined),
    ("wait for you", n_waiting),
    ("false alarms", counts.false_alarms),
  ] {
    html.markup("<div><b>").number(n).markup("</b>").markup(what).markup("</div>");
  }
  html.markup("</div>\n");
}

fn protection(html: &mut Html, facts: &Facts) {
  html.markup("<section><h2>Protection</h2>");
  if facts.degradations.is_empty() {
    html.markup("<p class=\"good\">Everything is protected.</p>");
  } else {
    html.markup("<ul>");
    for text in &facts.degradations {
      html.markup("<li><b class=\"bad\">degraded</b> ").text(text).markup("</li>");
    }
    html.markup("</ul>");
  }
  html.markup("<p class=\"soft\">How long poison was readable: ").text(&facts.exposure);
  if let Some(times) = &facts.span.figures.all.latency {
    html.markup(". Decisions took ").text(decided(times, facts.span.figures.all.measured));
  }
  html.markup(".</p></section>\n");
}

fn waiting(html: &mut Html, facts: &Facts) {
  html.markup("<section><h2>Waits for you</h2>");
  if facts.waiting.is_empty() {
    html.markup("<p>Nothing waits for you.</p></section>\n");
    return;
  }
  html.markup("<ul>");
  for (item, text) in &facts.waiting {
    html.markup("<li><code>").text(item.id.as_str()).markup("</code> <b class=\"warn\">");
    html.markup(item.status.as_str()).markup("</b> from ").text(item.source.as_str());
    html.markup(", ").markup(item.trust.as_str()).markup("<br>");
    html.text(shown(&item.path)).markup(", line ").number(u64::from(item.line));
    html.markup("<br><span class=\"soft\">").text(facts.time(item.quarantined_at));
    for code in &item.codes {
      html.markup("; ").markup(code.as_str()).markup(": ").markup(code.title());
    }
    html.markup("</span>");
    if let Some(text) = text {
      html.tag("pre", text);
    }
    html.markup("</li>");
  }
  html.markup("</ul>");
  if facts.more_waiting > 0 {
    html.markup("<p class=\"soft\">And ").number(facts.more_waiting as u64);
    html.markup(" more: <code>memfw list</code></p>");
  }
  html.markup("</section>\n");
}

fn days(html: &mut Html, span: &Span) {
  let known = &span.figures.days;
  // One day of the first scan would make all others invisible.
  let without_baseline = |mut counts: Counts| {
    counts.kept = counts.kept.saturating_sub(counts.baseline);
    counts
  };
  let of = |day: i64| {
    let line = known.iter().find(|line| line.name == Some(day));
    without_baseline(line.map(|line| line.counts).unwrap_or_default())
  };
  let columns: Vec<Column> = span
    .all_days()
    .map(|day| {
      let Counts { kept, flagged, quarantined, .. } = of(day);
      Column {
        title: format!("{}: {kept} kept, {flagged} flagged, {quarantined} quarantined", date(day)),
        parts: vec![("quarantined", quarantined), ("flagged", flagged), ("kept", kept)],
      }
    })
    .collect();
  let all = without_baseline(span.figures.all.counts);
  html.markup("<section><h2>New blocks by day</h2>");
  chart::draw(html, "blocks by day and what became of them", &columns);
  axis(html, span, span.all_days().map(|day| of(day).seen()).max());
  legend(html, &[("kept", all.kept), ("flagged", all.flagged), ("quarantined", all.quarantined)]);
  if let baseline @ 1.. = span.figures.all.counts.baseline {
    html.markup("<p class=\"soft\">Without ").text(count(baseline, "block"));
    html.markup(" that memfw found in memory and kept.</p>");
  }
  html.markup("</section>\n");
}

fn trust(html: &mut Html, span: &Span) {
  let columns: Vec<Column> = span
    .levels
    .iter()
    .map(|level| {
      let parts: Vec<(&'static str, u64)> =
        Trust::ALL.iter().map(|trust| (trust.as_str(), level.of(*trust))).collect();
      let told: Vec<String> = parts.iter().rev().map(|(trust, n)| format!("{n} {trust}")).collect();
      Column { title: format!("{}: {}", date(level.day), told.join(", ")), parts }
    })
    .collect();
  html.markup("<section><h2>Trust of memory</h2>");
  chart::draw(html, "blocks in memory by day and trust", &columns);
  axis(html, span, span.levels.iter().map(crate::stats::Level::all).max());
  let now = span.now();
  let parts: Vec<(&'static str, u64)> =
    Trust::ALL.iter().rev().map(|trust| (trust.as_str(), now.of(*trust))).collect();
  legend(html, &parts);
  html.markup("</section>\n");
}

/// The first and the last day of a drawing, and the height of its highest column.
fn axis(html: &mut Html, span: &Span, most: Option<u64>) {
  let days: Vec<i64> = span.all_days().collect();
  html.markup("<div class=\"axis soft\"><span>");
  html.text(days.first().map(|day| date(*day)).unwrap_or_default());
  html.markup("</span><span>at most ").number(most.unwrap_or(0)).markup(" on a day</span><span>");
  html.text(days.last().map(|day| date(*day)).unwrap_or_default()).markup("</span></div>");
}

fn legend(html: &mut Html, parts: &[(&'static str, u64)]) {
  html.markup("<div class=\"legend soft\">");
  for (name, n) in parts {
    html.markup("<span><i class=\"").markup(name).markup("\"></i>").markup(name).markup(" ");
    html.number(*n).markup("</span>");
  }
  html.markup("</div>");
}

fn table<K>(
  html: &mut Html,
  title: &'static str,
  what: &'static str,
  with_trust: bool,
  lines: &[Line<K>],
  name: impl Fn(&K) -> &str,
) {
  html.markup("<section><h2>").markup(title).markup("</h2>");
  if lines.is_empty() {
    html.markup("<p>Nothing.</p></section>\n");
    return;
  }
  html.markup("<div class=\"scroll\"><table><thead><tr><th>").markup(what).markup("</th>");
  if with_trust {
    html.markup("<th>trust</th>");
  }
  for head in FIGURES {
    html.markup("<th class=\"n\">").markup(head).markup("</th>");
  }
  html.markup("</tr></thead><tbody>");
  for line in lines.iter().take(MAX_ROWS) {
    html.markup("<tr><td class=\"name\">").text(line.name.as_ref().map_or("(others)", &name));
    html.markup("</td>");
    if with_trust {
      html
        .markup("<td class=\"trust\">")
        .markup(line.trust.map_or("", Trust::as_str))
        .markup("</td>");
    }
    let Counts { kept, flagged, quarantined, false_alarms, .. } = line.counts;
    // On a phone the table has no header, so each figure has the name of its column.
    let mut cell = |what: &'static str, text: &str| {
      html
        .markup("<td class=\"n\" data-what=\"")
        .markup(what)
        .markup("\">")
        .text(text)
        .markup("</td>");
    };
    let counts = [line.counts.seen(), kept, flagged, quarantined, false_alarms];
    for (what, n) in FIGURES.into_iter().zip(counts) {
      cell(what, &n.to_string());
    }
    let p99 = line.latency.as_ref().map(|times| duration(times.p99_us));
    cell(P99, &p99.unwrap_or_default());
    html.markup("</tr>");
  }
  html.markup("</tbody></table></div>");
  if let more @ 1.. = lines.len().saturating_sub(MAX_ROWS) {
    html.markup("<p class=\"soft\">And ").number(more as u64);
    html.markup(" more: <code>memfw stats --json</code></p>");
  }
  html.markup("</section>\n");
}

/// The files in which something was found. Most have nothing, and a first scan names all of them.
fn files(html: &mut Html, lines: &[Line<String>]) {
  let has_findings = |counts: &Counts| {
    counts.flagged + counts.quarantined + counts.returned + counts.approved + counts.rejected > 0
  };
  let (found, clean): (Vec<Line<String>>, Vec<Line<String>>) =
    lines.iter().cloned().partition(|line| has_findings(&line.counts));
  table(html, "Files with findings", "file", false, &found, String::as_str);
  if let n @ 1.. = clean.len() as u64 {
    html.markup("<p class=\"soft\">").text(count(n, "file"));
    html.markup(" without findings: <code>memfw stats</code></p>");
  }
}

fn timeline(html: &mut Html, facts: &Facts) {
  html.markup("<section><h2>Timeline</h2>");
  if facts.events.is_empty() {
    html.markup("<p>Nothing happened.</p></section>\n");
    return;
  }
  html.markup("<ul>");
  for row in &facts.events {
    let class = match row.event.level() {
      Level::ERROR => "bad",
      Level::WARN => "warn",
      _ if matches!(row.event, EventKind::Quarantined | EventKind::Held) => "warn",
      _ => "",
    };
    html.markup("<li><span class=\"soft\">").text(facts.time(row.at));
    html.markup("</span> <b class=\"").markup(class).markup("\">");
    html.text(row.event.message()).markup("</b>");
    if let Some(id) = &row.block {
      html.markup(" <code>").text(BlockId::as_str(id)).markup("</code>");
    }
    if let Some(source) = &row.source {
      html.markup(" from ").text(Source::as_str(source));
    }
    for code in &row.codes {
      html.markup(" <code>").markup(code.as_str()).markup("</code>");
    }
    if let Some(path) = &row.path {
      html.markup("<br><span class=\"soft\">").text(shown(path)).markup("</span>");
    }
    if !row.detail.is_empty() {
      html.markup("<br>").text(&row.detail);
    }
    html.markup("</li>");
  }
  html.markup("</ul>");
  if facts.more_events {
    html.markup("<p class=\"soft\">More happened before: <code>memfw audit</code></p>");
  }
  html.markup("</section>\n");
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
