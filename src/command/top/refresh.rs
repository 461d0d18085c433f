//! Reads the content of the screen from the ledger and the state of the daemon.
//!
//! Invariant: this module writes nothing; the ledger is opened read-only.
#![forbid(unsafe_code)]

use std::{collections::HashMap, path::Path};

use super::view::{Day, EventLine, SourceLine, View, WaitingItem};
use crate::{
  app::context::Context,
  command::{
    quarantine::{FilterArgs, FlaggedTexts, Unless, code_words, extent, strongest, words},
    shared::figures::outcomes,
    status,
  },
  detect::Code,
  engine::{EventKind, event::shown},
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::Source,
  store::{EventFilter, EventRow, Item, Ledger, Loss},
  terminal::{failure::Failure, time::DAY},
};

/// The most items of a screen: more than a person scrolls through, and few enough to be unsealed at once.
const ITEMS: usize = 100;
/// The latest events among which those for the screen are found; routine ones are left out.
const EVENTS: u32 = 400;
/// The most events of a day that are counted: a tenth of a second.
const DAY_EVENTS: u32 = 50_000;
/// How old the counts of a day may be, in microseconds, while other parts of the screen change.
const DAY_AGE: i64 = 5_000_000;
/// After so many refreshes without a change the state of the daemon and of the files is read nevertheless.
const UNCHANGED: u32 = 5;
/// The name of the row for all sources that have no row of their own.
const OTHERS: &str = "(others)";

/// Reads the content, and knows when it has changed.
pub(super) struct Refresh<'c> {
  context: &'c Context,
  ledger: Option<Ledger>,
  /// The change counter of the ledger before it was read.
  counter: Option<i64>,
  n_unchanged: u32,
  /// The beginnings of the texts of items that wait, so that each is unsealed once.
  words: HashMap<BlockId, String>,
  day: Option<(i64, Day)>,
}

impl<'c> Refresh<'c> {
  /// Nothing is read yet.
  pub(super) fn new(context: &'c Context) -> Self {
    let words = HashMap::new();
    Self { context, ledger: None, counter: None, n_unchanged: 0, words, day: None }
  }

  /// The content, if it may have changed since it was read last.
  pub(super) fn renewed(&mut self) -> Result<Option<View>, Failure> {
    let counter = self.ledger.as_ref().and_then(|ledger| ledger.change_counter().ok());
    if counter.is_some() && counter == self.counter && self.n_unchanged < UNCHANGED {
      self.n_unchanged += 1;
      return Ok(None);
    }
    self.view().map(Some)
  }

  /// The current content.
  pub(super) fn view(&mut self) -> Result<View, Failure> {
    let context = self.context;
    let now = SystemClock.now();
    // Opened again each time, because another database may have replaced this one.
    let ledger = context.ledger_if_there()?;
    // Without the key everything is shown but the words.
    let ledger = ledger.map(|ledger| context.ledger_with_key().unwrap_or(ledger));
    // Read before the content, so that a change in between is noticed next time.
    self.counter = ledger.as_ref().map(Ledger::change_counter).transpose()?;
    self.n_unchanged = 0;
    let report = status::report(context, ledger.as_ref())?;
    let mut view = View {
      now,
      title: report.title_pieces(),
      extent: report.extent_words(),
      waiting: report.waiting_words(),
      problems: report.degradations.iter().map(|(text, _)| text.clone()).collect(),
      exposure: report.exposure(now),
      day: Day::default(),
      items: Vec::new(),
      n_items: 0,
      events: Vec::new(),
    };
    if let Some(ledger) = &ledger {
      let places = Places(report.workspaces());
      (view.items, view.n_items) = self.items(ledger, &places)?;
      view.events = events(ledger, &places)?;
      view.day = self.day(ledger, now)?;
    }
    self.ledger = ledger;
    Ok(view)
  }

  /// The newest items and losses that wait, and how many wait.
  fn items(
    &mut self,
    ledger: &Ledger,
    places: &Places<'_>,
  ) -> Result<(Vec<WaitingItem>, usize), Failure> {
    enum Waits {
      Item(Box<Item>),
      Loss(Box<Loss>),
    }
    let items = FilterArgs::default().items(ledger, Unless::Open)?;
    // Text that is approved and not back yet is decided.
    let items = items.into_iter().filter(|item| !item.awaited);
    let losses = ledger.waiting_losses()?.into_iter();
    let mut all: Vec<(i64, Waits)> = items
      .map(|item| (item.quarantined_at, Waits::Item(Box::new(item))))
      .chain(losses.map(|loss| (loss.found_at, Waits::Loss(Box::new(loss)))))
      .collect();
    // Of two items from one moment, the later one in the file comes first as well.
    all.reverse();
    all.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let n_items = all.len();
    all.truncate(ITEMS);
    // Commands that need the configuration report an invalid one.
    let max_file_bytes = self.context.config().unwrap_or_default().config.max_file_bytes;
    let mut texts = FlaggedTexts::new(ledger, max_file_bytes);
    let mut known = std::mem::take(&mut self.words);
    let mut lines = Vec::new();
    for (at, waits) in all {
      lines.push(match waits {
        Waits::Item(item) => {
          let words = known.remove(&item.id).unwrap_or_else(|| words(ledger, &item, &mut texts));
          // A key that is missing now may be restored.
          if ledger.has_key() {
            self.words.insert(item.id.clone(), words.clone());
          }
          of_item(&item, at, words, places)
        }
        Waits::Loss(loss) => WaitingItem {
          is_loss: true,
          why: "loss".to_owned(),
          place: places.shown(&loss.path),
          source: String::new(),
          status: loss.found.state.shown(),
          at,
          words: extent(&loss),
          id: loss.id,
        },
      });
    }
    Ok((lines, n_items))
  }

  /// The last 24 hours, counted again if that is some seconds ago.
  fn day(&mut self, ledger: &Ledger, now: i64) -> Result<Day, Failure> {
    if let Some((at, day)) = &self.day
      && (0..DAY_AGE).contains(&now.saturating_sub(*at))
    {
      return Ok(day.clone());
    }
    let (figures, is_cut) = outcomes(ledger, now.saturating_sub(DAY), DAY_EVENTS)?;
    let sources = figures.sources.into_iter().map(|line| SourceLine {
      name: line.name.unwrap_or_else(|| OTHERS.to_owned()),
      trust: line.trust,
      counts: line.counts,
    });
    let day = Day { counts: figures.all.counts, is_cut, sources: sources.collect() };
    self.day = Some((now, day.clone()));
    Ok(day)
  }
}

fn of_item(item: &Item, at: i64, words: String, places: &Places<'_>) -> WaitingItem {
  WaitingItem {
    id: item.id.clone(),
    is_loss: false,
    why: code_words(item, strongest(item)),
    place: format!("{}:{}", places.shown(&item.path), item.line),
    source: item.source.as_str().to_owned(),
    status: item.status.as_str(),
    at,
    words,
  }
}

/// The guarded directories, to shorten paths.
struct Places<'r>(Vec<&'r str>);

impl Places<'_> {
  /// A path from its workspace on; if there are several, with the name of the workspace.
  fn shown(&self, path: &Path) -> String {
    let path = shown(path);
    let below = self.0.iter().find_map(|place| {
      let rest = path.strip_prefix(place)?.strip_prefix('/')?;
      Some((*place, rest.to_owned()))
    });
    match (below, self.0.as_slice()) {
      (None, _) => path,
      (Some((_, rest)), [_]) => rest,
      (Some((place, rest)), _) => {
        format!("{}/{rest}", place.rsplit('/').next().unwrap_or_default())
      }
    }
  }
}

/// Whether an event is shown: a person sees what is written and decided, not the routine work of memfw.
fn is_shown(event: EventKind) -> bool {
  matches!(event, EventKind::Kept | EventKind::Vanished) || !EventKind::ROUTINE.contains(&event)
}

/// The latest events; alike ones without another event between them are one line.
fn events(ledger: &Ledger, places: &Places<'_>) -> Result<Vec<EventLine>, Failure> {
  let rows = ledger.events(&EventFilter { limit: Some(EVENTS), ..EventFilter::default() })?;
  let rows: Vec<EventRow> = rows.into_iter().filter(|row| is_shown(row.event)).collect();
  let is_alike = |one: &EventRow, other: &EventRow| {
    one.event == other.event && one.path == other.path && one.source == other.source
  };
  let lines = rows.chunk_by(is_alike).filter_map(|alike| {
    let row = alike.first()?;
    let codes = row.codes.iter().copied().map(Code::as_str).collect::<Vec<_>>().join(" ");
    let is_one = alike.len() == 1;
    let what = if row.detail.is_empty() { codes } else { row.detail.clone() };
    let block = row.block.as_ref().filter(|_| is_one);
    Some(EventLine {
      at: row.at,
      event: row.event,
      n: alike.len(),
      source: row.source.as_ref().map_or("", Source::as_str).to_owned(),
      file: row.path.as_deref().map(|path| places.shown(path)).unwrap_or_default(),
      block: block.map_or("", BlockId::as_str).to_owned(),
      what: if is_one { what } else { String::new() },
    })
  });
  Ok(lines.collect())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_path_begins_at_its_workspace() {
    let one = Places(vec!["/home/ann/workspace"]);
    let two = Places(vec!["/home/ann/work", "/home/ann/notes"]);
    for (places, path, expected) in [
      (&one, "/home/ann/workspace/memory/a.md", "memory/a.md"),
      (&one, "/home/ann/workspace2/a.md", "/home/ann/workspace2/a.md"),
      (&two, "/home/ann/notes/a.md", "notes/a.md"),
      (&two, "/srv/a\n.md", "/srv/a\\n.md"),
    ] {
      assert_eq!(places.shown(Path::new(path)), expected);
    }
  }

  #[test]
  fn what_is_written_and_decided_is_shown() {
    assert!(
      [EventKind::Kept, EventKind::Quarantined, EventKind::Approved].map(is_shown) == [true; 3]
    );
    assert!([EventKind::Attributed, EventKind::Reshaped].map(is_shown) == [false; 2]);
  }
}
