//! The ledger's figures of some days, for `memfw stats` and `memfw report`.
#![forbid(unsafe_code)]

use crate::{
  detect::Code,
  engine::{EventKind, event::shown},
  memory::BlockId,
  provenance::Source,
  stats::{Figures, Happening, Level, Move, Tally, What, day, levels},
  store::{EventRow, Ledger},
  terminal::{
    failure::Failure,
    time::{self, DAY},
  },
};

/// The days that are counted by default.
pub const DEFAULT_DAYS: u32 = 30;
/// The most events that are counted, the newest ones: a year of a busy agent, read in about a second.
const MAX_EVENTS: u32 = 500_000;
/// The events that are counted.
const COUNTED: [EventKind; 9] = [
  EventKind::Adopted,
  EventKind::Kept,
  EventKind::Flagged,
  EventKind::Cleared,
  EventKind::Quarantined,
  EventKind::Held,
  EventKind::Returned,
  EventKind::Approved,
  EventKind::Rejected,
];

/// The figures of some days up to now.
pub struct Span {
  /// The start, microseconds since 1970: a midnight.
  pub since: i64,
  /// The end.
  pub until: i64,
  /// How much the days are ahead of those of UTC, in microseconds.
  pub ahead: i64,
  /// Whether there were more events than are counted.
  pub truncated: bool,
  /// The outcomes of blocks.
  pub figures: Figures,
  /// The content of memory at the end of each day, the last one now; never empty.
  pub levels: Vec<Level>,
}

impl Span {
  /// Counts the last `days` days, including today. Local time is `ahead` of UTC by so many microseconds.
  pub fn gather(ledger: &Ledger, days: u32, now: i64, ahead: i64) -> Result<Self, Failure> {
    let today = day(now.saturating_add(ahead));
    let first = today.saturating_sub(i64::from(days.max(1)) - 1);
    let since = first.saturating_mul(DAY).saturating_sub(ahead);
    let (figures, truncated) = count_since(ledger, since, MAX_EVENTS, Tally::of_days_ahead(ahead))?;
    let moves: Vec<Move> = ledger
      .trust_days(ahead)?
      .into_iter()
      // If the clock was set back, the ledger has blocks from days in the future.
      .map(|one| Move { day: one.day.min(today), trust: one.trust, came: one.came, went: one.went })
      .collect();
    let levels = levels(&moves, first, today);
    Ok(Self { since, until: now, ahead, truncated, figures, levels })
  }

  /// The first and the last day, and whose days they are: `2026-11-19 to 2026-11-21, days of UTC`.
  pub fn title(&self) -> String {
    let date = |at: i64| time::date(at.saturating_add(self.ahead));
    let zone = time::zone(self.ahead);
    format!("{} to {}, days of {zone}", date(self.since), date(self.until))
  }

  /// The content of memory now.
  pub fn now(&self) -> Level {
    self.levels.last().copied().unwrap_or_default()
  }

  /// All days, including those without events.
  pub fn all_days(&self) -> impl Iterator<Item = i64> {
    self.levels.iter().map(|level| level.day)
  }
}

/// The outcomes of blocks since a time, from at most so many events, the newest ones; and whether there were more.
pub fn outcomes(ledger: &Ledger, since: i64, most: u32) -> Result<(Figures, bool), Failure> {
  count_since(ledger, since, most, Tally::default())
}

fn count_since(
  ledger: &Ledger,
  since: i64,
  most: u32,
  mut tally: Tally,
) -> Result<(Figures, bool), Failure> {
  let truncated = ledger.each_event(&COUNTED, since, most, |row| count(&mut tally, &row))?;
  Ok((tally.finish(), truncated))
}

fn count(tally: &mut Tally, row: &EventRow) {
  let what = match row.event {
    EventKind::Adopted => What::Adopted(row.count.unwrap_or(0)),
    EventKind::Kept => What::Kept,
    EventKind::Flagged => What::Flagged,
    EventKind::Cleared => What::Cleared,
    EventKind::Quarantined | EventKind::Held => What::Quarantined,
    EventKind::Returned => What::Returned,
    // What a person took out was no alarm.
    EventKind::Approved => What::Approved {
      is_false_alarm: row.codes.iter().any(|code| *code != Code::ManualQuarantine),
    },
    EventKind::Rejected => What::Rejected,
    _ => return,
  };
  let baseline = Source::baseline();
  let source = match what {
    What::Adopted(_) => Some(&baseline),
    _ => row.source.as_ref(),
  };
  let file = row.path.as_deref().map(shown);
  let is_baseline = source.is_some_and(Source::is_baseline);
  tally.add(&Happening {
    what,
    at: row.at,
    file: file.as_deref(),
    adopted: row.block.as_ref().filter(|_| is_baseline).map(BlockId::as_str),
    source: source.map(Source::as_str),
    trust: row.trust,
    layer: row.layer,
    codes: &row.codes,
    took_us: row.took_us,
  });
}
