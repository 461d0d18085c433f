//! Counts the decisions about blocks, by file, source, code, layer and day.
#![forbid(unsafe_code)]

use std::{
  borrow::Borrow,
  collections::{HashMap, HashSet},
  hash::Hash,
  time::Duration,
};

use super::{
  counts::{Counts, What},
  day,
};
use crate::{
  detect::{Code, Layer},
  eval::latency::Latency,
  provenance::Trust,
};

/// Largest number of names per table; further names are counted together. A hostile tree can have
/// any number of files, and a page can use any name.
pub const MAX_NAMES: usize = 4_096;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Happening<'a> {
  /// What happened.
  pub what: What,
  /// When, in microseconds since 1970.
  pub at: i64,
  /// The file, as displayed.
  pub file: Option<&'a str>,
  /// The block, where it is one that was there before memfw; such a block is counted once.
  pub adopted: Option<&'a str>,
  /// The source of the block.
  pub source: Option<&'a str>,
  /// The trust of the source.
  pub trust: Option<Trust>,
  /// The layer that decided.
  pub layer: Option<Layer>,
  /// The finding codes.
  pub codes: &'a [Code],
  /// How long the decision took, in microseconds.
  pub took_us: Option<u64>,
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<K> {
  /// The name of the row; `None` for all names beyond the cap.
  pub name: Option<K>,
  /// The numbers of this group.
  pub counts: Counts,
  /// The lowest trust of these blocks.
  pub trust: Option<Trust>,
  /// How long decisions took; `None` if none was measured.
  pub latency: Option<Latency>,
  /// The number of measured decisions: the new blocks of one version of a file are one decision.
  pub measured: u64,
}

/// All tables. Rows with the most findings come first; days are in order, without days on which
/// nothing happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
  /// The totals; their name is `None`.
  pub all: Line<()>,
  /// By file.
  pub files: Vec<Line<String>>,
  /// By source.
  pub sources: Vec<Line<String>>,
  /// By finding code; a block with two codes counts for both.
  pub codes: Vec<Line<Code>>,
  /// By the layer that decided.
  pub layers: Vec<Line<Layer>>,
  /// By day, counted from 1970.
  pub days: Vec<Line<i64>>,
}

/// Counts one event after the other.
#[derive(Debug, Default)]
pub struct Tally {
  /// How much local time is ahead of UTC, in microseconds.
  ahead: i64,
  all: Row,
  files: Table<String>,
  sources: Table<String>,
  codes: Table<Code>,
  layers: Table<Layer>,
  days: Table<i64>,
  run: Option<Run>,
  /// Files whose blocks were adopted, and the day.
  adopted: HashMap<String, i64>,
  /// Blocks among them that were flagged.
  flagged: HashSet<String>,
}

/// Flagged blocks of one file that were reported at one time.
#[derive(Debug)]
struct Run {
  at: i64,
  file: Option<String>,
  n: u64,
}

impl Tally {
  /// Counts days of local time, which is so many microseconds ahead of UTC.
  pub fn of_days_ahead(ahead: i64) -> Self {
    Self { ahead, ..Self::default() }
  }

  /// Adds the next event.
  pub fn add(&mut self, one: &Happening<'_>) {
    if let (What::Flagged, Some(block)) = (one.what, one.adopted) {
      // Judged again, by another layer or another version of memfw.
      if !self.flagged.insert(block.to_owned()) {
        return;
      }
      self.no_longer_kept(one);
    }
    if let (What::Cleared, Some(block)) = (one.what, one.adopted) {
      self.flagged.remove(block);
    }
    let n = match one.what {
      // Blocks with findings were counted as flagged.
      What::Adopted(n) => n.saturating_sub(self.end_run(one)),
      What::Flagged => {
        self.go_on(one);
        1
      }
      _ => 1,
    };
    let took = if matches!(one.what, What::Adopted(_)) { None } else { one.took_us };
    let count = |row: &mut Row| {
      row.counts.add(one.what, n, one.adopted.is_some());
      row.trust = match (row.trust, one.trust) {
        (Some(known), Some(new)) => Some(known.min(new)),
        (known, new) => known.or(new),
      };
      // The new blocks of one version of a file are one decision, which has one time.
      let decision = took.map(|us| (one.at, us));
      if decision.is_some() && row.last != decision {
        row.took_us.extend(took.map(|us| u32::try_from(us).unwrap_or(u32::MAX)));
        row.last = decision;
      }
    };
    if let (What::Adopted(_), Some(file)) = (one.what, one.file)
      && self.adopted.len() < MAX_NAMES
    {
      self.adopted.insert(file.to_owned(), self.day(one.at));
    }
    count(&mut self.all);
    if let Some(file) = one.file {
      count(self.files.row(file));
    }
    if let Some(source) = one.source {
      count(self.sources.row(source));
    }
    for code in one.codes {
      count(self.codes.row(code));
    }
    if let Some(layer) = &one.layer {
      count(self.layers.row(layer));
    }
    let day = self.day(one.at);
    count(self.days.row(&day));
  }

  fn day(&self, at: i64) -> i64 {
    day(at.saturating_add(self.ahead))
  }

  /// All tables.
  pub fn finish(self) -> Figures {
    let mut days = self.days.lines();
    days.sort_by_key(|line| line.name);
    Figures {
      all: self.all.line(None),
      files: self.files.lines(),
      sources: self.sources.lines(),
      codes: self.codes.lines(),
      layers: self.layers.lines(),
      days,
    }
  }

  /// A block that was adopted as one without findings has one by now.
  fn no_longer_kept(&mut self, one: &Happening<'_>) {
    let Some((file, day)) = one.file.and_then(|file| Some((file, *self.adopted.get(file)?))) else {
      return;
    };
    let less = |row: &mut Row| {
      row.counts.kept = row.counts.kept.saturating_sub(1);
      row.counts.baseline = row.counts.baseline.saturating_sub(1);
    };
    less(&mut self.all);
    less(self.files.row(file));
    less(self.days.row(&day));
    if let Some(source) = one.source {
      less(self.sources.row(source));
    }
  }

  fn go_on(&mut self, one: &Happening<'_>) {
    match &mut self.run {
      Some(run) if run.at == one.at && run.file.as_deref() == one.file => run.n += 1,
      run => *run = Some(Run { at: one.at, file: one.file.map(str::to_owned), n: 1 }),
    }
  }

  fn end_run(&mut self, one: &Happening<'_>) -> u64 {
    let run = self.run.take().filter(|run| run.at == one.at && run.file.as_deref() == one.file);
    run.map_or(0, |run| run.n)
  }
}

#[derive(Debug, Default)]
struct Row {
  counts: Counts,
  trust: Option<Trust>,
  took_us: Vec<u32>,
  /// When the last decision was made, and how long it took.
  last: Option<(i64, u64)>,
}

impl Row {
  fn line<K>(self, name: Option<K>) -> Line<K> {
    let times: Vec<Duration> =
      self.took_us.iter().map(|us| Duration::from_micros(u64::from(*us))).collect();
    let (latency, measured) = (Latency::of(&times), times.len() as u64);
    Line { name, counts: self.counts, trust: self.trust, latency, measured }
  }
}

#[derive(Debug)]
struct Table<K> {
  rows: HashMap<K, Row>,
  others: Row,
}

impl<K> Default for Table<K> {
  fn default() -> Self {
    Self { rows: HashMap::new(), others: Row::default() }
  }
}

impl<K: Hash + Eq + Ord> Table<K> {
  /// The row of a name, or the row of all names beyond the cap.
  fn row<Q>(&mut self, name: &Q) -> &mut Row
  where
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    K: Borrow<Q>,
  {
    if self.rows.len() >= MAX_NAMES && !self.rows.contains_key(name) {
      return &mut self.others;
    }
    self.rows.entry(name.to_owned()).or_default()
  }

  fn lines(self) -> Vec<Line<K>> {
    let mut lines: Vec<Line<K>> =
      self.rows.into_iter().map(|(name, row)| row.line(Some(name))).collect();
    lines.sort_by(|a, b| b.counts.rank().cmp(&a.counts.rank()).then_with(|| a.name.cmp(&b.name)));
    if !self.others.counts.is_empty() {
      lines.push(self.others.line(None));
    }
    lines
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::stats::DAY;

  const PLAIN: Happening<'static> = Happening {
    what: What::Kept,
    at: 0,
    file: Some("/w/a.md"),
    adopted: None,
    source: Some("exec"),
    trust: Some(Trust::Untrusted),
    layer: Some(Layer::Rules),
    codes: &[],
    took_us: None,
  };

  fn figures(all: &[Happening<'_>]) -> Figures {
    let mut tally = Tally::default();
    for one in all {
      tally.add(one);
    }
    tally.finish()
  }

  #[test]
  fn each_table_counts_the_same_things_by_another_name() {
    let codes = [Code::ForgedMarker, Code::ZeroWidth];
    let out = Happening { what: What::Quarantined, codes: &codes, took_us: Some(30), ..PLAIN };
    let found = figures(&[
      Happening { took_us: Some(10), ..PLAIN },
      out,
      Happening { what: What::Returned, at: DAY, ..out },
      Happening {
        what: What::Approved { is_false_alarm: true },
        at: DAY,
        took_us: None,
        layer: None,
        ..out
      },
      Happening { what: What::Rejected, file: Some("/w/b.md"), source: None, ..PLAIN },
    ]);
    let all = Counts {
      kept: 1,
      quarantined: 1,
      returned: 1,
      approved: 1,
      false_alarms: 1,
      rejected: 1,
      ..Counts::default()
    };
    assert_eq!((found.all.counts, found.all.counts.seen()), (all, 2));
    assert_eq!(found.all.latency.map(|times| (times.p50_us, times.max_us)), Some((30.0, 30.0)));
    let names = |lines: &[Line<String>]| -> Vec<String> {
      lines.iter().filter_map(|line| line.name.clone()).collect()
    };
    assert_eq!(names(&found.files), ["/w/a.md", "/w/b.md"]);
    assert_eq!(found.files[0].counts, Counts { rejected: 0, ..all });
    assert_eq!(names(&found.sources), ["exec"]);
    assert_eq!(found.sources[0].trust, Some(Trust::Untrusted));
    for line in &found.codes {
      assert_eq!((line.counts.seen(), line.counts.approved), (1, 1), "{:?}", line.name);
    }
    assert_eq!(found.codes.len(), 2);
    assert_eq!(found.layers[0].counts, Counts { approved: 0, false_alarms: 0, ..all });
    let days: Vec<_> = found.days.iter().map(|line| (line.name, line.counts.seen())).collect();
    assert_eq!(days, [(Some(0), 2), (Some(1), 0)]);
  }

  #[test]
  fn what_was_there_before_is_seen_once_with_its_findings() {
    let flagged = Happening { what: What::Flagged, at: 7, ..PLAIN };
    let found = figures(&[
      // Another file of the batch, and an earlier flag of this file.
      Happening { at: 6, ..flagged },
      Happening { file: Some("/w/b.md"), ..flagged },
      Happening { what: What::Adopted(3), file: Some("/w/b.md"), ..flagged },
      flagged,
      flagged,
      Happening { what: What::Adopted(10), took_us: Some(5), ..flagged },
    ]);
    let by_name = |name: &str| {
      let line = found.files.iter().find(|line| line.name.as_deref() == Some(name)).unwrap();
      (line.counts.kept, line.counts.flagged)
    };
    assert_eq!((by_name("/w/a.md"), by_name("/w/b.md")), ((8, 3), (2, 1)));
    assert_eq!(found.all.latency, None, "many files were adopted at once: that is no decision");
    // Numbers that do not fit are no reason to fail.
    assert_eq!(
      figures(&[flagged, Happening { what: What::Adopted(0), ..flagged }]).all.counts.kept,
      0
    );
  }

  #[test]
  fn a_block_that_was_there_before_is_counted_once_however_often_it_is_flagged() {
    let flagged = |block, at| Happening { what: What::Flagged, adopted: Some(block), at, ..PLAIN };
    let found = figures(&[
      flagged("a", 7),
      Happening { what: What::Adopted(3), at: 7, ..PLAIN },
      flagged("a", 8),
      // One that nobody had found anything in.
      flagged("b", 9),
      flagged("b", 10),
    ]);
    let (kept, flagged) = (found.all.counts.kept, found.all.counts.flagged);
    assert_eq!((kept, flagged), (1, 2), "{found:?}");
    for counts in [found.files[0].counts, found.sources[0].counts, found.days[0].counts] {
      assert_eq!((counts.kept, counts.flagged), (1, 2), "{found:?}");
    }
  }

  #[test]
  fn a_withdrawn_flag_counts_as_kept() {
    let codes = &[Code::TriggerCombination];
    let flagged = Happening { what: What::Flagged, codes, ..PLAIN };
    let cleared = Happening { what: What::Cleared, at: 9, codes, ..PLAIN };
    let found = figures(&[PLAIN, flagged, flagged, cleared]);
    let counts = |counts: Counts| (counts.kept, counts.flagged, counts.seen());
    assert_eq!(counts(found.all.counts), (2, 1, 3));
    assert_eq!(counts(found.codes[0].counts), (1, 1, 2));
    assert_eq!(counts(figures(&[cleared]).all.counts), (1, 0, 1), "its flag is of an earlier day");
  }

  #[test]
  fn the_blocks_of_one_version_are_one_decision() {
    let kept = Happening { took_us: Some(90_000), at: 5, ..PLAIN };
    let mut all = vec![kept; 50];
    all.extend([7, 8, 9].map(|at| Happening { took_us: Some(1_000), at, ..PLAIN }));
    let found = figures(&all);
    for line in [&found.files[0].latency, &found.sources[0].latency, &found.layers[0].latency] {
      assert_eq!(line.map(|times| (times.p50_us, times.max_us)), Some((1_000.0, 90_000.0)));
    }
    assert_eq!((found.all.counts.kept, found.all.measured), (53, 4));
  }

  #[test]
  fn names_without_end_are_counted_together() {
    let mut tally = Tally::default();
    let sources: Vec<String> = (0..MAX_NAMES + 5).map(|n| format!("webhook:{n:05}")).collect();
    for source in sources.iter().chain(sources.first()) {
      tally.add(&Happening { source: Some(source), ..PLAIN });
    }
    let found = tally.finish();
    assert_eq!(found.sources.len(), MAX_NAMES + 1);
    assert_eq!(
      (found.sources[0].name.as_deref(), found.sources[0].counts.kept),
      (Some("webhook:00000"), 2)
    );
    let last = found.sources.last().unwrap();
    assert_eq!((&last.name, last.counts.kept), (&None, 5));
    assert_eq!(found.all.counts.kept as usize, MAX_NAMES + 6);
  }

  #[test]
  fn the_worst_come_first_and_the_least_trust_counts() {
    let found = figures(&[
      Happening { file: Some("quiet"), trust: Some(Trust::Verified), ..PLAIN },
      Happening { file: Some("quiet"), ..PLAIN },
      Happening { file: Some("bad"), what: What::Quarantined, ..PLAIN },
      Happening { file: Some("quiet"), trust: None, ..PLAIN },
    ]);
    assert_eq!(found.files[0].name.as_deref(), Some("bad"));
    assert_eq!(found.files[1].trust, Some(Trust::Untrusted));
  }
}
