//! What memfw tells the owner in a chat without having asked: that something was taken out of memory, or that another
//! program removed much of a file, with its id.
//!
//! It comes from the ledger's events, at most once an interval and source. The ledger keeps up to where the owner was
//! told, so that a restart repeats nothing and loses nothing. Like an answer in a chat, a notice has no word of memory
//! and no name that somebody else chose.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::chat::file_name;
use crate::{
  app::context::Context,
  config::NotifyVia,
  engine::EventKind,
  judging::label::Labels,
  link::News,
  os::{Clock as _, SystemClock},
  plural::choose,
  recall::origin::origin,
  store::{EventFilter, EventRow, Ledger, Micros, StateKey},
  terminal::failure::Failure,
};

/// Most events that are read at a time.
const MAX_EVENTS: u32 = 1000;
/// Most sources that are remembered by name; further ones share one (a choice).
const MAX_SOURCES: usize = 64;
const OTHERS: &str = "other sources";
/// Losses are told together, like a source: no event says which program removed the text.
const LOSSES: &str = "removed by another program";
/// Most ids and files that a notice names of a source (a choice: it is short).
const MAX_NAMED: usize = 3;

/// Up to where the owner was told, as the ledger keeps it.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
struct Told {
  /// The last event that was looked at.
  last: i64,
  /// When the owner was last told of a source, by its label.
  at: BTreeMap<String, Micros>,
  /// What is not told yet.
  due: BTreeMap<String, Taken>,
}

/// What was taken out of a source.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
struct Taken {
  n: u64,
  /// The first items; one more than are named shows that there are more.
  ids: BTreeSet<String>,
  files: BTreeSet<String>,
}

/// What is to be told now; nothing most of the time.
pub(super) fn news(context: &Context) -> Result<News, Failure> {
  let config = context.config()?.config;
  // These two reach the owner through the agent's framework already.
  if matches!(config.notify_via, NotifyVia::Message | NotifyVia::Event) {
    return Ok(News::default());
  }
  let Some(plain) = context.ledger_to_read()? else { return Ok(News::default()) };
  let ledger = context.ledger_with_key().unwrap_or(plain);
  let known = ledger.state(&StateKey::ToldInChat)?;
  let known = known.and_then(|(json, _)| serde_json::from_str::<Told>(&json).ok());
  // What happened before the first question is no news.
  let before = known.as_ref().and_then(|told| serde_json::to_string(told).ok());
  let mut told = match known {
    Some(told) => told,
    None => Told { last: newest(&ledger)?, ..Told::default() },
  };
  let events = ledger.events_after(told.last, MAX_EVENTS)?;
  for event in &events {
    told.last = told.last.max(event.id);
    if matches!(
      event.event,
      EventKind::Quarantined | EventKind::Held | EventKind::Returned | EventKind::Lost
    ) {
      told.take(&ledger, event)?;
    }
  }
  let interval =
    i64::try_from(config.notify_interval_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
  let news = told.tell(SystemClock.now(), interval);
  let after = serde_json::to_string(&told).unwrap_or_default();
  if before.as_ref() != Some(&after) {
    context.ledger_to_write()?.set_state(&StateKey::ToldInChat, &after, SystemClock.now())?;
  }
  Ok(news)
}

fn newest(ledger: &Ledger) -> Result<i64, Failure> {
  let newest = EventFilter { limit: Some(1), ..EventFilter::default() };
  Ok(ledger.events(&newest)?.first().map_or(0, |event| event.id))
}

impl Told {
  fn take(&mut self, ledger: &Ledger, event: &EventRow) -> Result<(), Failure> {
    let label = match &event.source {
      _ if event.event == EventKind::Lost => LOSSES.to_owned(),
      // A chat makes no link of it.
      Some(source) => {
        let labels = ledger.name_key().map(Labels::new).unwrap_or_default();
        origin(&labels.source(source)).replace('.', "[.]")
      }
      None => "from an unknown source".to_owned(),
    };
    let file = match &event.path {
      Some(path) => file_name(ledger, path)?,
      None => return Ok(()),
    };
    let is_known = self.due.contains_key(&label) || self.due.len() < MAX_SOURCES;
    let taken = self.due.entry(if is_known { label } else { OTHERS.to_owned() }).or_default();
    taken.n += 1;
    if let Some(id) = &event.block
      && taken.ids.len() <= MAX_NAMED
    {
      taken.ids.insert(id.to_string());
    }
    if taken.files.len() < MAX_NAMED {
      taken.files.insert(file);
    }
    Ok(())
  }

  /// Takes what is due at this time, as one notice.
  fn tell(&mut self, now: Micros, interval: Micros) -> News {
    // A clock that was set back must not delay a notice for longer than the interval.
    let is_due = |told: &Self, label: &String| {
      told.at.get(label).is_none_or(|at| !(0..interval).contains(&now.saturating_sub(*at)))
    };
    let due: Vec<String> = self.due.keys().filter(|label| is_due(self, label)).cloned().collect();
    let mut lines = Vec::new();
    let mut offers = Vec::new();
    for label in due {
      let taken = self.due.remove(&label).unwrap_or_default();
      let named: Vec<&str> = taken.ids.iter().take(MAX_NAMED).map(String::as_str).collect();
      let more = if taken.ids.len() > MAX_NAMED { " and others" } else { "" };
      let files = taken.files.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
      let (n, named_ids) = (taken.n, named.join(", "));
      lines.push(if label == LOSSES {
        format!("memfw: much of {files} was {label}: {named_ids}{more}")
      } else {
        let entries = choose(n, "entry", "entries");
        format!("memfw: {n} {entries} out of {files}, {label}: {named_ids}{more}")
      });
      offers.extend(named.iter().map(|id| format!("show {id}")));
      self.at.insert(label, now);
    }
    while self.at.len() > MAX_SOURCES {
      let oldest = self.at.iter().min_by_key(|(_, at)| **at).map(|(label, _)| label.clone());
      oldest.map(|label| self.at.remove(&label));
    }
    if lines.is_empty() {
      return News::default();
    }
    lines.push("kept for you: /memfw list".to_owned());
    offers.truncate(MAX_NAMED);
    News { text: Some(lines.join("\n")), offers }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const MINUTE: Micros = 60_000_000;

  fn taken(ids: &[&str]) -> Taken {
    let ids: BTreeSet<String> = ids.iter().map(|&id| id.to_owned()).collect();
    Taken { n: ids.len() as u64, ids, files: BTreeSet::from(["MEMORY.md".to_owned()]) }
  }

  #[test]
  fn a_source_is_told_once_an_interval_with_its_ids() {
    let mut told = Told::default();
    let page = || "from a web page (a[.]example)".to_owned();
    told.due.insert(page(), taken(&["a1b2c3"]));
    let news = told.tell(10 * MINUTE, 15 * MINUTE);
    let text = "memfw: 1 entry out of MEMORY.md, from a web page (a[.]example): a1b2c3\n\
                kept for you: /memfw list";
    assert_eq!(news.text.as_deref(), Some(text));
    assert_eq!(news.offers, ["show a1b2c3"]);

    // The same source waits, another does not.
    told.due.insert(page(), taken(&["b1b2c3", "c1b2c3", "d1b2c3", "e1b2c3"]));
    told.due.insert("from a mail".to_owned(), taken(&["f1b2c3"]));
    let news = told.tell(11 * MINUTE, 15 * MINUTE).text.unwrap();
    assert!(news.contains("f1b2c3") && !news.contains("b1b2c3"), "{news}");
    assert_eq!(told.tell(24 * MINUTE, 15 * MINUTE), News::default());
    let news = told.tell(25 * MINUTE, 15 * MINUTE).text.unwrap();
    assert!(news.contains("4 entries") && news.contains("d1b2c3 and others"), "{news}");
    assert_eq!(told.tell(99 * MINUTE, 15 * MINUTE), News::default());
  }

  #[test]
  fn losses_are_told_together() {
    let mut told = Told::default();
    told.due.insert(LOSSES.to_owned(), taken(&["a1b2c3", "b1b2c3"]));
    let news = told.tell(10 * MINUTE, 15 * MINUTE);
    let text = "memfw: much of MEMORY.md was removed by another program: a1b2c3, b1b2c3\n\
                kept for you: /memfw list";
    assert_eq!(news.text.as_deref(), Some(text));
    assert_eq!(news.offers, ["show a1b2c3", "show b1b2c3"]);
  }

  #[test]
  fn a_clock_that_was_set_back_delays_no_notice() {
    let mut told = Told::default();
    told.at.insert("from a mail".to_owned(), 100 * MINUTE);
    told.due.insert("from a mail".to_owned(), taken(&["a1b2c3"]));
    assert!(told.tell(MINUTE, 15 * MINUTE).text.is_some());
  }

  #[test]
  fn what_is_remembered_has_a_bound() {
    let mut told = Told::default();
    for n in 0..200 {
      told.due.insert(format!("source {n}"), taken(&["a1b2c3"]));
      told.tell(n * MINUTE, MINUTE);
    }
    assert_eq!((told.at.len(), told.due.len()), (MAX_SOURCES, 0));
  }
}
