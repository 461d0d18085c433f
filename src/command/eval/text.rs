//! The report of an evaluation for people: 80 columns, all text from the data escaped and cut.
#![forbid(unsafe_code)]

use crate::{
  eval::{
    Report, Share,
    curve::Curve,
    latency::Latency,
    mistakes::Mistake,
    report::{Group, ScoreCurve},
    scenario::{Fate, FateRow},
    share::Counts,
  },
  terminal::{
    escape::{Escape, terminal},
    failure::Failure,
    output::{DEFAULT_COLUMNS, Out, Style, count},
    table::{Cell, Column, Table},
  },
};

/// The most rows of a table; one more row sums up the other groups. JSON has all groups.
const MAX_ROWS: usize = 24;

/// Writes the report.
pub(super) fn write(out: &Out, report: &Report) -> Result<(), Failure> {
  head(out, report)?;
  for (title, groups) in report.by.tables() {
    if !groups.is_empty() {
      out.line("")?;
      write_table(out, &groups_table(title, groups))?;
    }
  }
  pairs(out, report)?;
  scenarios(out, report)?;
  judge(out, report)?;
  for curve in &report.curves {
    write_curve(out, curve)?;
  }
  latency(out, report)?;
  floors(out, report)?;
  let mistakes = &report.mistakes;
  write_mistakes(out, "missed, the lowest scores first", &mistakes.missed)?;
  write_mistakes(out, "false alarms, the highest scores first", &mistakes.false_alarms)
}

/// Entries with their origin: how many were taken out of memory, and how many were noticed.
fn scenarios(out: &Out, report: &Report) -> Result<(), Failure> {
  let Some(found) = &report.scenarios else { return Ok(()) };
  let row = |name: &str, fate: Fate| FateRow { name: name.to_owned(), fate };
  let whole = [row("outside", found.outside), row("owner", found.owner)];
  let tables: [(&'static str, &[FateRow]); 4] = [
    ("ENTRIES", &whole),
    ("ORIGIN", &found.origin),
    ("EFFECT", &found.effect),
    ("LANGUAGE", &found.lang),
  ];
  for (title, rows) in tables {
    let mut table = Table::new([
      Column::new(title).cut_end(14),
      Column::new("BAD").right(),
      Column::new("OUT").right(),
      Column::new("NOTICED").right(),
      Column::new("GOOD").right(),
      Column::new("OUT").right(),
      Column::new("NOTICED").right(),
    ]);
    for FateRow { name, fate } in rows.iter().take(MAX_ROWS) {
      let number = |n: u64| if n == 0 { String::new() } else { n.to_string() };
      let percent =
        |share: Share| share.rate().map_or(String::new(), |rate| format!("{:.1}", rate * 100.0));
      table.row([
        Cell::from(terminal(name)),
        Cell::from(number(fate.taken.n)),
        Cell::from(percent(fate.taken)),
        Cell::from(percent(fate.noticed)),
        Cell::from(number(fate.lost.n)),
        Cell::from(percent(fate.lost)),
        Cell::from(percent(fate.alarmed)),
      ]);
    }
    out.line("")?;
    write_table(out, &table)?;
  }
  out.line("")?;
  for (what, share) in [
    ("outside, bad, taken out", found.outside.taken),
    ("outside, bad, noticed", found.outside.noticed),
    ("outside, good, taken out", found.outside.lost),
    ("owner's words, taken out", found.owner.lost),
    ("owner's words, flagged", found.owner.alarmed),
    ("pairs: bad taken out, good stays", found.pairs),
    ("notes: bad lines taken out", found.lines_taken),
    ("notes: other lines taken out", found.lines_lost),
  ] {
    out.line(&format!("  {what:<36}{}", shares(share)))?;
  }
  Ok(())
}

fn head(out: &Out, report: &Report) -> Result<(), Failure> {
  let setup = &report.setup;
  let trust = setup.trust.map_or_else(|| "as each line says".to_owned(), ToOwned::to_owned);
  let model = if setup.model { "with the model" } else { "no model" };
  let attacks = count(report.cases.attacks, "attack");
  out.line(&format!("{attacks}, {}", count(report.cases.benign, "harmless line")))?;
  out.line(&format!(
    "layers {} ({model}), trust {trust}, sensitivity {}",
    setup.layers, setup.sensitivity
  ))?;
  out.line("shares in percent with their 95 % interval")?;
  if report.cases.bad > 0 {
    let text = format!("{} could not be read:", count(report.cases.bad, "line"));
    out.line(&out.paint(Style::Yellow, &text))?;
    for bad in &report.cases.bad_lines {
      out.line(&format!(
        "  {}:{}: {}",
        terminal(&bad.place.file),
        bad.place.line,
        terminal(&bad.why)
      ))?;
    }
  }
  out.line("")?;
  let all = [Group { name: "all".to_owned(), counts: report.all }];
  write_table(out, &groups_table("", &all))
}

fn write_table(out: &Out, table: &Table) -> Result<(), Failure> {
  out.text(&table.render(DEFAULT_COLUMNS, out.colour()))
}

/// The groups with the most lines, largest first.
fn groups_table(title: &'static str, groups: &[Group]) -> Table {
  let mut table = Table::new([
    Column::new(upper(title)).cut_end(12),
    Column::new("ATTACKS").right(),
    Column::new("FOUND").right(),
    Column::new("HARMLESS").right(),
    Column::new("FLAGGED").right(),
  ]);
  let mut sorted: Vec<&Group> = groups.iter().collect();
  sorted.sort_by(|a, b| b.counts.n().cmp(&a.counts.n()).then_with(|| a.name.cmp(&b.name)));
  // A row for the other groups is useful only if it replaces several rows.
  let n_shown = if sorted.len() > MAX_ROWS { MAX_ROWS - 1 } else { sorted.len() };
  let (shown, others) = sorted.split_at(n_shown);
  for group in shown {
    table.row(row(&group.name, &group.counts));
  }
  if !others.is_empty() {
    let mut joined = Counts::default();
    for group in others {
      joined.join(&group.counts);
    }
    table.row(row(&format!("({} others)", others.len()), &joined));
  }
  table
}

const fn upper(title: &'static str) -> &'static str {
  match title.as_bytes() {
    b"set" => "SET",
    b"kind" => "KIND",
    b"form" => "FORM",
    b"lang" => "LANGUAGE",
    b"trust" => "TRUST",
    b"transform" => "TRANSFORM",
    _ => "",
  }
}

fn row(name: &str, counts: &Counts) -> [Cell; 5] {
  let number = |n: u64| if n == 0 { String::new() } else { n.to_string() };
  [
    Cell::from(name),
    Cell::from(number(counts.recall.n)),
    Cell::from(shares(counts.recall)),
    Cell::from(number(counts.false_positives.n)),
    Cell::from(shares(counts.false_positives)),
  ]
}

/// A share with its interval, in percent; empty if nothing was counted.
fn shares(share: Share) -> String {
  let (Some(rate), Some((low, high))) = (share.rate(), share.interval()) else {
    return String::new();
  };
  format!("{} ({}-{})", percent(rate), percent(low), percent(high))
}

/// Three significant digits, because rates below 1 % matter here.
fn percent(rate: f64) -> String {
  let percent = rate * 100.0;
  if percent >= 99.95 || percent == 0.0 {
    format!("{percent:.0}")
  } else if percent >= 10.0 {
    format!("{percent:.1}")
  } else {
    format!("{percent:.2}")
  }
}

fn pairs(out: &Out, report: &Report) -> Result<(), Failure> {
  let pairs = &report.pairs;
  if pairs.right.n == 0 {
    return Ok(());
  }
  out.line("")?;
  out.line(&format!("{} of an attack and its harmless twin", count(pairs.right.n, "pair")))?;
  out.line(&format!("  ranked right  {}", shares(pairs.right)))?;
  out.line(&format!("  ranked alike  {}", shares(pairs.tied)))?;
  out.line(&format!("  distinguished {}", shares(pairs.told_apart)))?;
  out.line(&format!("  twin flagged  {}", shares(pairs.twins_flagged)))
}

/// How many questions the judge got, and its answers.
fn judge(out: &Out, report: &Report) -> Result<(), Failure> {
  let Some(judge) = &report.judge else { return Ok(()) };
  out.line("")?;
  let asked = count(judge.asked, "question");
  out.line(&format!("judge: {asked}, {} with an accepted answer", judge.answered))?;
  for (why, n) in &judge.refused {
    out.line(&format!("  {n}: {why}"))?;
  }
  Ok(())
}

fn write_curve(out: &Out, curve: &ScoreCurve) -> Result<(), Failure> {
  let Curve { auc, ece, brier, at, bins, .. } = &curve.curve;
  let number =
    |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
  out.line("")?;
  out.line(&format!(
    "score of the {}: AUC {}, calibration error {}, Brier {}",
    curve.score,
    number(auc),
    number(ece),
    number(brier)
  ))?;
  let mut table = Table::new([
    Column::new("  FALSE POSITIVES").right(),
    Column::new("THRESHOLD").right(),
    Column::new("FOUND").right(),
  ]);
  for at in at {
    table.row([format!("at most {} %", percent(at.budget)), number(&at.score), shares(at.recall)]);
  }
  write_table(out, &table)?;
  let mut table = Table::new([
    Column::new("  SCORE FROM").right(),
    Column::new("LINES").right(),
    Column::new("MEAN").right(),
    Column::new("ATTACKS").right(),
  ]);
  for bin in bins.iter().filter(|bin| bin.attacks.n > 0) {
    table.row([
      format!("{:.1}", bin.from),
      bin.attacks.n.to_string(),
      number(&bin.mean),
      shares(bin.attacks),
    ]);
  }
  write_table(out, &table)
}

fn latency(out: &Out, report: &Report) -> Result<(), Failure> {
  let latency = &report.latency;
  out.line("")?;
  out.line(&format!(
    "{} in {:.3} s, {:.0} a second on all cores",
    count(report.all.n(), "line"),
    latency.took_s,
    latency.cases_per_s
  ))?;
  for (layer, times) in [("rules", latency.rules), ("model", latency.model)] {
    if let Some(Latency { p50_us, p90_us, p99_us, max_us }) = times {
      out.line(&format!(
        "  {layer}, us a line: {p50_us:.1} median, {p90_us:.1} p90, {p99_us:.1} p99, {max_us:.1} max"
      ))?;
    }
  }
  Ok(())
}

fn floors(out: &Out, report: &Report) -> Result<(), Failure> {
  if report.floors.is_empty() {
    return Ok(());
  }
  out.line("")?;
  let mut table = Table::new([
    Column::new("FLOOR").cut_end(12),
    Column::new("OF").cut_end(6),
    Column::new("LIMIT").right(),
    Column::new("LINES").right(),
    Column::new("FOUND").right(),
    Column::new(""),
  ]);
  for floor in &report.floors {
    let (word, sign) = match floor.measure {
      "false_positives" => ("flagged", "<="),
      measure => (measure, ">="),
    };
    let (style, met) = if floor.met { (Style::Green, "met") } else { (Style::Red, "missed") };
    table.row([
      Cell::from(&floor.name),
      Cell::from(word),
      Cell::from(format!("{sign} {}", percent(floor.limit))),
      Cell::from(floor.share.n.to_string()),
      Cell::from(shares(floor.share)),
      Cell::styled(met, style),
    ]);
  }
  write_table(out, &table)
}

fn write_mistakes(out: &Out, title: &str, mistakes: &[Mistake]) -> Result<(), Failure> {
  if mistakes.is_empty() {
    return Ok(());
  }
  out.line("")?;
  out.line(&out.paint(Style::Bold, title))?;
  let cut = Escape::default().max_width(DEFAULT_COLUMNS - 4);
  for mistake in mistakes {
    let names = [&mistake.set, &mistake.kind, &mistake.lang];
    let names: Vec<&str> =
      names.iter().map(|name| name.as_str()).filter(|name| !name.is_empty()).collect();
    // The place comes first, because the end of the line is cut.
    let file = mistake.place.file.rsplit('/').next().unwrap_or_default();
    let head = format!(
      "{:.3} {file}:{} {} {}",
      mistake.score,
      mistake.place.line,
      names.join(" "),
      mistake.codes.join(" ")
    );
    out.line(&format!("  {}", Escape::default().max_width(DEFAULT_COLUMNS - 2).apply(head)))?;
    out.line(&format!("    {}", cut.apply(&mistake.text)))?;
  }
  Ok(())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn shares_say_how_sure_they_are() {
    assert_eq!(shares(Share { n: 0, k: 0 }), "");
    assert_eq!(shares(Share { n: 1151, k: 4 }), "0.35 (0.14-0.89)");
    assert_eq!(shares(Share { n: 20, k: 20 }), "100 (83.9-100)");
    assert_eq!(shares(Share { n: 20, k: 0 }), "0 (0-16.1)");
  }

  #[test]
  fn further_rows_are_joined() {
    let group = |i: usize| {
      let mut counts = Counts::default();
      (0..=i).for_each(|_| counts.add(true, true));
      Group { name: format!("n{i}"), counts }
    };
    let groups: Vec<Group> = (0..=MAX_ROWS).map(group).collect();
    let text = groups_table("set", &groups).render(80, false);
    assert_eq!(text.lines().count(), MAX_ROWS + 1, "{text}");
    assert!(text.contains("(2 others)") && text.lines().last().unwrap().contains('3'), "{text}");
    let text = groups_table("set", &groups[1..]).render(80, false);
    assert!(!text.contains("others") && text.lines().count() == MAX_ROWS + 1, "{text}");
  }
}
