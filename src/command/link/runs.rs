//! What was refused so far, by run: how much of it is kept, and how much its model is still told.
//!
//! An agent in a loop fills no quarantine, and learns no more about the findings by trying again.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet, VecDeque},
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
  },
  time::Duration,
};

use crate::{
  link::Call,
  memory::{BlockId, ContentHash},
};

/// After so many refusals the reasons of a run name no finding any more: each tells its model something about what
/// memfw finds (a choice: enough to write a fact with its source).
const MAX_TOLD: u32 = 3;
/// The most texts of a run that are kept, and their bytes (choices: more than a person reads about one run).
const OF_RUN: Amount = Amount { texts: 16, bytes: 256 << 10 };
/// The most texts of a day that are kept, and their bytes (choices).
const OF_DAY: Amount = Amount { texts: 200, bytes: 4 << 20 };
/// The most runs that are remembered; the oldest goes first.
const MAX_RUNS: usize = 256;
const DAY: Duration = Duration::from_hours(24);

/// Texts and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
  pub(super) texts: usize,
  pub(super) bytes: usize,
}

impl Amount {
  /// Whether there is room for a text of so many bytes.
  const fn has_room(self, bytes: usize, most: Self) -> bool {
    self.texts < most.texts && self.bytes.saturating_add(bytes) <= most.bytes
  }

  const fn add(&mut self, bytes: usize) {
    self.texts += 1;
    self.bytes = self.bytes.saturating_add(bytes);
  }
}

/// What is done with a refused text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
  /// It is sealed.
  New,
  /// The run has tried it before, under these ids; it is only counted.
  Again(Vec<BlockId>),
  /// Too much was refused, and it is not sealed.
  NotKept,
}

/// A text that is kept.
struct Kept {
  ids: Vec<BlockId>,
  /// Whether it could not be sealed after all.
  is_lost: Arc<AtomicBool>,
}

#[derive(Default)]
struct Run {
  refused: u32,
  kept: HashMap<ContentHash, Kept>,
  /// Texts that were not refused in time.
  passed: HashSet<ContentHash>,
  amount: Amount,
  not_kept: u64,
}

/// The refusals so far.
#[derive(Default)]
pub(super) struct Runs {
  by_name: HashMap<String, Run>,
  /// The names of the runs, the oldest first.
  order: VecDeque<String>,
  day: Amount,
  day_began: Duration,
}

/// The name of the run that a call belongs to. Calls without any name are one run.
pub(super) fn run_of(call: &Call) -> &str {
  let names = [&call.run, &call.session_id, &call.session];
  let mut names = names.into_iter().flatten().map(String::as_str);
  names.find(|name| !name.is_empty()).unwrap_or_default()
}

impl Runs {
  /// Notes what was kept on this day before this process began.
  pub(super) const fn begin(&mut self, amount: Amount, now: Duration) {
    (self.day, self.day_began) = (amount, now);
  }

  fn run(&mut self, name: &str) -> &mut Run {
    if !self.by_name.contains_key(name) {
      if self.order.len() >= MAX_RUNS
        && let Some(oldest) = self.order.pop_front()
      {
        self.by_name.remove(&oldest);
      }
      self.order.push_back(name.to_owned());
    }
    self.by_name.entry(name.to_owned()).or_default()
  }

  /// Whether a reason for this run may still name what was found.
  pub(super) fn is_told(&self, name: &str) -> bool {
    self.by_name.get(name).is_none_or(|run| run.refused < MAX_TOLD)
  }

  /// Notes a refusal.
  pub(super) fn refused(&mut self, name: &str) {
    let run = self.run(name);
    run.refused = run.refused.saturating_add(1);
  }

  /// What would be done with a text that is refused now.
  pub(super) fn keeping(
    &mut self,
    name: &str,
    text: ContentHash,
    bytes: usize,
    now: Duration,
  ) -> Keeping {
    if now.saturating_sub(self.day_began) >= DAY {
      *self = Self { day_began: now, ..Self::default() };
    }
    let run = self.by_name.get(name);
    if let Some(kept) = run.and_then(|run| run.kept.get(&text))
      && !kept.is_lost.load(SeqCst)
    {
      return Keeping::Again(kept.ids.clone());
    }
    let of_run = run.map(|run| run.amount).unwrap_or_default();
    if of_run.has_room(bytes, OF_RUN) && self.day.has_room(bytes, OF_DAY) {
      Keeping::New
    } else {
      Keeping::NotKept
    }
  }

  /// Notes that a text is sealed now; who seals it sets the flag if that fails.
  pub(super) fn kept(
    &mut self,
    name: &str,
    text: ContentHash,
    ids: Vec<BlockId>,
    bytes: usize,
  ) -> Arc<AtomicBool> {
    self.day.add(bytes);
    let run = self.run(name);
    run.amount.add(bytes);
    let is_lost = Arc::<AtomicBool>::default();
    run.kept.insert(text, Kept { ids, is_lost: Arc::clone(&is_lost) });
    is_lost
  }

  /// Notes that a text is not kept. Returns how many of the run were not, if that is to be recorded: at 1, 10,
  /// 100 and so on.
  pub(super) fn not_kept(&mut self, name: &str) -> Option<u64> {
    let run = self.run(name);
    run.not_kept = run.not_kept.saturating_add(1);
    let n = run.not_kept;
    (10_u64.checked_pow(n.ilog10()) == Some(n)).then_some(n)
  }

  /// Notes that a text was not refused in time; whether that is to be recorded.
  pub(super) fn passed(&mut self, name: &str, text: ContentHash) -> bool {
    let passed = &mut self.run(name).passed;
    passed.len() < OF_RUN.texts && passed.insert(text)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn text(n: usize) -> ContentHash {
    ContentHash::of(&n.to_le_bytes())
  }

  /// Keeps a text, if there is room for it.
  fn keep(runs: &mut Runs, name: &str, n: usize, bytes: usize, now: Duration) -> bool {
    let is_new = runs.keeping(name, text(n), bytes, now) == Keeping::New;
    if is_new {
      runs.kept(name, text(n), vec![], bytes);
    }
    is_new
  }

  #[test]
  fn a_run_keeps_a_bounded_number_of_texts_and_bytes() {
    let mut runs = Runs::default();
    let now = Duration::ZERO;
    assert!(keep(&mut runs, "a", 0, OF_RUN.bytes, now));
    assert!(!keep(&mut runs, "a", 1, 1, now));
    assert_eq!(runs.keeping("a", text(0), OF_RUN.bytes, now), Keeping::Again(vec![]));
    let n = (0..100).filter(|n| keep(&mut runs, "b", *n, 1, now)).count();
    assert_eq!(n, OF_RUN.texts);
    let told: Vec<u64> = (0..150).filter_map(|_| runs.not_kept("b")).collect();
    assert_eq!(told, [1, 10, 100]);
  }

  #[test]
  fn a_day_keeps_a_bounded_number_of_texts_and_the_next_one_begins_again() {
    let mut runs = Runs::default();
    runs.begin(Amount { texts: 50, bytes: 0 }, DAY);
    let n = (0..1000).filter(|n| keep(&mut runs, &n.to_string(), *n, 1, DAY)).count();
    assert_eq!(n, OF_DAY.texts - 50);
    assert!(!keep(&mut runs, "", 0, 1, DAY));
    assert!(keep(&mut runs, "", 0, 1, DAY * 2));
  }

  #[test]
  fn a_text_that_could_not_be_sealed_is_sealed_at_the_next_attempt() {
    let mut runs = Runs::default();
    let is_lost = runs.kept("a", text(0), vec![], 1);
    assert_eq!(runs.keeping("a", text(0), 1, Duration::ZERO), Keeping::Again(vec![]));
    is_lost.store(true, SeqCst);
    assert_eq!(runs.keeping("a", text(0), 1, Duration::ZERO), Keeping::New);
  }

  #[test]
  fn a_run_is_told_what_was_found_a_few_times() {
    let mut runs = Runs::default();
    for _ in 0..MAX_TOLD {
      assert!(runs.is_told("a"));
      runs.refused("a");
    }
    assert!(!runs.is_told("a"));
    assert!(runs.is_told("b"));
    // The oldest run goes first.
    for n in 0..MAX_RUNS {
      runs.refused(&n.to_string());
    }
    assert!(runs.is_told("a"));
    assert!(runs.by_name.len() <= MAX_RUNS);
  }

  #[test]
  fn a_write_that_went_through_is_recorded_once() {
    let mut runs = Runs::default();
    assert!(runs.passed("a", text(0)));
    assert!(!runs.passed("a", text(0)));
    let n = (0..100).filter(|n| runs.passed("a", text(*n))).count();
    assert_eq!(n, OF_RUN.texts - 1);
  }
}
