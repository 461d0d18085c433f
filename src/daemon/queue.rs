//! When which file is due: due times exist only while something is pending. Pure.
//!
//! Of the dirty files that are due, small ones come first, and of those the ones written last: an agent
//! that works now must not wait for thousands of files that were copied. Of files that were heard of
//! together, as after a burst or a rescan, size and time of the last write decide. Every few turns the oldest file
//! comes first, so that none waits forever. While files become dirty all the time, every few turns go to the
//! other kinds of work.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BTreeMap, BTreeSet, HashSet},
  time::Duration,
};

use crate::engine::Target;

/// First wait after an error or a refusal (a choice).
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait between two tries (a choice); also how often an open file is tried.
pub(super) const LAST_RETRY: Duration = Duration::from_secs(1);

/// The first pause before a lease is tried again while a verifying reader has the file open (for 0.1 to 0.3
/// ms; the loop's timers are no finer).
const READER_PAUSE: Duration = Duration::from_millis(1);

/// After more tries than this, the pause between tries is the longest one.
const STUBBORN: u32 = 8;

/// Writes at most this far apart belong together, and their files keep their order.
const TOGETHER: Duration = Duration::from_millis(2);
/// Files above this size come after smaller ones (a choice: memory that an agent loads has some 20 KiB).
const MOST_SMALL: u64 = 64 * 1024;
/// Files up to this size take about as long as smaller ones (a choice: one page).
const LEAST_SIZE: u64 = 4096;
/// The oldest file comes first in one of this many turns (a choice).
const OLDEST_EVERY: u32 = 4;
/// After this many turns for more urgent kinds, one goes to a less urgent one (a choice: one note that is
/// written all the time otherwise keeps every other file from the model and from its markers).
const OTHERS_EVERY: u32 = 8;

/// One file in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
  /// When it is due, on the monotonic clock.
  pub due: Duration,
  /// Since when it is dirty, on the monotonic clock.
  pub since: Duration,
  /// How often it was tried.
  pub tries: u32,
}

/// What a dirty file was like when it was heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
  /// Its size in bytes.
  pub size: u64,
  /// When it was written last, by its own times, since the epoch.
  pub at: Duration,
}

/// Pauses between two attribution requests about the same text: an agent writes its records soon after
/// its files, but the result of a slow call comes late (a choice: records came within a second of the
/// write).
const ASK_AGAIN: [Duration; 5] = [
  Duration::from_millis(50),
  Duration::from_millis(200),
  Duration::from_secs(1),
  Duration::from_secs(3),
  Duration::from_secs(10),
];

/// The kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
  /// A dirty file: its pass.
  Urgent,
  /// A file about which the agent's records are asked.
  Attribute,
  /// A file whose scores have come from the model and must be recorded.
  Scored,
  /// A file with text that the model must score.
  Model,
  /// A file that may need a request to the judge (layer 3), or has its answer.
  Judge,
  /// A file with markers to write: its lazy pass.
  Lazy,
}

impl Kind {
  /// All kinds, the most urgent first.
  const ALL: [Self; 6] =
    [Self::Urgent, Self::Attribute, Self::Scored, Self::Model, Self::Judge, Self::Lazy];
  /// All kinds but dirty files.
  const OTHERS: [Self; 5] = [Self::Attribute, Self::Scored, Self::Model, Self::Judge, Self::Lazy];
}

/// Files of one kind, by name and by due time. A start can make ten thousand files dirty.
#[derive(Debug, Default)]
struct Lane {
  waiting: BTreeMap<Target, Waiting>,
  order: BTreeSet<(Duration, Target)>,
}

impl Lane {
  /// Sets what waits for a target, given what waited before.
  fn set(&mut self, target: Target, next: impl FnOnce(Option<Waiting>) -> Waiting) {
    let old = self.waiting.get(&target).copied();
    let next = next(old);
    if let Some(old) = old {
      self.order.remove(&(old.due, target.clone()));
    }
    self.order.insert((next.due, target.clone()));
    self.waiting.insert(target, next);
  }

  fn take(&mut self, now: Duration) -> Option<(Target, Waiting)> {
    if self.order.first()?.0 > now {
      return None;
    }
    let (_, target) = self.order.pop_first()?;
    let waiting = self.waiting.remove(&target)?;
    Some((target, waiting))
  }
}

/// The place of a dirty file in the order of those that are due; the smallest place comes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
  /// Whether no reader waits for it.
  is_common: bool,
  /// Whether it was too large for one turn.
  is_large: bool,
  is_big: bool,
  /// The group of files heard of together; the latest group comes first.
  group: Reverse<u64>,
  /// The power of two of the size, above that of [`LEAST_SIZE`].
  size: u32,
  /// When it was written, in units of [`TOGETHER`]; the latest comes first.
  written: Reverse<u128>,
  /// When it was due.
  due: Duration,
  target: Target,
}

/// Dirty files, and the order in which the due ones are processed.
#[derive(Debug, Default)]
struct Urgent {
  lane: Lane,
  /// The files that are due, already removed from the order of the lane.
  ready: BTreeSet<Place>,
  /// The small due files by age, which counts since they became dirty.
  ages: BTreeSet<(Duration, Target)>,
  places: BTreeMap<Target, Place>,
  /// The group in which a file was heard of, with what it was like; numbers go up.
  groups: BTreeMap<Target, (u64, Written)>,
  group: u64,
  last: Option<Duration>,
  /// Files that were too large for one turn.
  large: HashSet<Target>,
  turns: u32,
}

impl Urgent {
  fn set(&mut self, target: Target, next: impl FnOnce(Option<Waiting>) -> Waiting) {
    self.unready(&target);
    self.lane.set(target, next);
  }

  /// Notes the time of a write, and puts the file into a group. A caller that does not know what the file
  /// is like keeps what is known.
  fn written(&mut self, target: &Target, now: Duration, written: Option<Written>) {
    if self.last.is_none_or(|last| now.saturating_sub(last) > TOGETHER) {
      self.group += 1;
    }
    self.last = Some(now);
    let known = || self.groups.get(target).map(|(_, written)| *written).unwrap_or_default();
    let written = written.unwrap_or_else(known);
    self.groups.insert(target.clone(), (self.group, written));
  }

  /// Takes a file's place away; the lane keeps the file.
  fn unready(&mut self, target: &Target) {
    let Some(place) = self.places.remove(target) else { return };
    self.ready.remove(&place);
    if let Some(waiting) = self.lane.waiting.get(target) {
      self.ages.remove(&(waiting.since, target.clone()));
      self.lane.order.insert((waiting.due, target.clone()));
    }
  }

  /// Gives a place to each file that has become due.
  fn fill(&mut self, now: Duration) {
    while self.lane.order.first().is_some_and(|(due, _)| *due <= now) {
      let Some((due, target)) = self.lane.order.pop_first() else { break };
      let Some(waiting) = self.lane.waiting.get(&target) else { continue };
      let (group, written) = self.groups.get(&target).copied().unwrap_or_default();
      let place = Place {
        is_common: due > Duration::ZERO,
        is_large: self.large.contains(&target),
        is_big: written.size > MOST_SMALL,
        group: Reverse(group),
        size: written.size.max(LEAST_SIZE).ilog2(),
        written: Reverse(written.at.as_nanos() / TOGETHER.as_nanos()),
        due,
        target: target.clone(),
      };
      if !place.is_large {
        self.ages.insert((waiting.since, target.clone()));
      }
      self.ready.insert(place.clone());
      self.places.insert(target, place);
    }
  }

  /// Removes a file.
  fn remove(&mut self, target: &Target) -> Option<Waiting> {
    self.unready(target);
    let waiting = self.lane.waiting.remove(target)?;
    self.lane.order.remove(&(waiting.due, target.clone()));
    self.groups.remove(target);
    Some(waiting)
  }

  /// The next file. If no reader waits, every [`OLDEST_EVERY`]th turn goes to the oldest file.
  fn next(&mut self) -> Option<Target> {
    let first = self.ready.first()?;
    self.turns = self.turns.wrapping_add(1);
    if first.is_common && !first.is_large && self.turns.is_multiple_of(OLDEST_EVERY) {
      return self.ages.first().map(|(_, target)| target.clone());
    }
    Some(first.target.clone())
  }

  fn take(&mut self, now: Duration) -> Option<(Target, Waiting)> {
    self.fill(now);
    let target = self.next()?;
    let waiting = self.remove(&target)?;
    Some((target, waiting))
  }

  #[cfg(test)]
  fn is_due(&self, now: Duration) -> bool {
    !self.ready.is_empty() || self.lane.order.first().is_some_and(|(due, _)| *due <= now)
  }
}

/// All files with pending work, one lane per [`Kind`].
#[derive(Debug, Default)]
pub struct Queue {
  urgent: Urgent,
  attribute: Lane,
  scored: Lane,
  model: Lane,
  judge: Lane,
  lazy: Lane,
  turns: u32,
}

impl Queue {
  /// The lanes in the order of [`Kind::ALL`].
  fn lanes(&self) -> [&Lane; 6] {
    [&self.urgent.lane, &self.attribute, &self.scored, &self.model, &self.judge, &self.lazy]
  }

  /// The lane of a kind; `None` for dirty files, which have an order of their own.
  fn lane(&mut self, kind: Kind) -> Option<&mut Lane> {
    match kind {
      Kind::Urgent => None,
      Kind::Attribute => Some(&mut self.attribute),
      Kind::Scored => Some(&mut self.scored),
      Kind::Model => Some(&mut self.model),
      Kind::Judge => Some(&mut self.judge),
      Kind::Lazy => Some(&mut self.lazy),
    }
  }

  /// Marks a file as dirty now. A file that is already dirty becomes due now and keeps its age.
  pub fn dirty(&mut self, target: Target, now: Duration) {
    self.written(target, now, None);
  }

  /// Marks a file as dirty now, as [`Self::dirty`] does, and notes what it is like, where that is known.
  pub fn written(&mut self, target: Target, now: Duration, written: Option<Written>) {
    self.urgent.written(&target, now, written);
    self.urgent.set(target, |old| match old {
      // The age of a postponed file counts from its first event after that.
      Some(old) => Waiting { due: old.due.min(now), since: old.since.min(now), ..old },
      None => Waiting { due: now, since: now, tries: 0 },
    });
  }

  /// Puts a file first, because a reader at the gate waits for it.
  pub fn hurry(&mut self, target: Target, now: Duration) {
    self.urgent.set(target, |old| Waiting {
      due: Duration::ZERO,
      ..old.unwrap_or(Waiting { due: now, since: now, tries: 0 })
    });
  }

  /// Postpones a file until `due` and keeps its age. If it became dirty meanwhile, its new due time
  /// stays.
  pub fn put_off(&mut self, kind: Kind, target: Target, was: Waiting, due: Duration) {
    let next = |old: Option<Waiting>| Waiting {
      due: old.map_or(due, |old| old.due),
      since: was.since,
      tries: was.tries.saturating_add(1),
    };
    match self.lane(kind) {
      Some(lane) => lane.set(target, next),
      None => self.urgent.set(target, next),
    }
  }

  /// Postpones a large file that used up its turn: it continues when no smaller file is due. It keeps its place
  /// among the large ones, because the engine remembers how far it came with one file only: files that took
  /// turns would all begin again each time.
  pub fn give_way(&mut self, target: Target, was: Waiting) {
    self.urgent.large.insert(target.clone());
    self.urgent.set(target, |_| was);
  }

  /// Whether a file was too large for one turn.
  pub fn is_large(&self, target: &Target) -> bool {
    self.urgent.large.contains(target)
  }

  /// Notes that a file was processed to its end.
  pub fn ended(&mut self, target: &Target) {
    self.urgent.large.remove(target);
  }

  /// Whether a dirty file is due that is not known to be large.
  pub fn has_small(&mut self, now: Duration) -> bool {
    self.urgent.fill(now);
    self.urgent.ready.first().is_some_and(|first| !(first.is_common && first.is_large))
  }

  /// Postpones a file, for longer after each try.
  pub fn back_off(&mut self, kind: Kind, target: Target, was: Waiting, now: Duration) {
    let wait = FIRST_RETRY.saturating_mul(1 << was.tries.min(10)).min(LAST_RETRY);
    self.put_off(kind, target, was, now + wait);
  }

  /// Postpones a file that another program has opened since its writer closed it, until that program has closed it,
  /// too. Where that cannot be seen, because the file system has no leases, the pauses grow up to `wait`, after which no
  /// reader is waited for.
  pub fn await_reader(&mut self, target: Target, was: Waiting, wait: Duration, now: Duration) {
    let pause = READER_PAUSE.saturating_mul(1 << was.tries.min(10)).min(wait);
    self.put_off(Kind::Urgent, target, was, now + pause);
  }

  /// The agent's records must be asked about a file now. New text in it starts the pauses from the first
  /// one.
  pub fn attribute(&mut self, target: Target, now: Duration) {
    self.attribute.set(target, |old| Waiting {
      due: now,
      since: old.map_or(now, |old| old.since),
      tries: 0,
    });
  }

  /// The records have no answer yet: asks again later, after growing pauses.
  pub fn ask_again(&mut self, target: Target, was: Waiting, now: Duration) {
    let pause = ASK_AGAIN.get(was.tries as usize).or(ASK_AGAIN.last()).copied();
    self.put_off(Kind::Attribute, target, was, now + pause.unwrap_or(LAST_RETRY));
  }

  /// Text of a file must be scored now, after the files that already wait.
  pub fn read(&mut self, target: Target, now: Duration) {
    self.model.set(target, |old| match old {
      Some(old) => Waiting { due: old.due.min(now), ..old },
      None => Waiting { due: now, since: now, tries: 0 },
    });
  }

  /// As [`Self::read`], but before the files that already wait: this text was just written, and the
  /// others are old.
  pub fn read_first(&mut self, target: Target, now: Duration) {
    self.model.set(target, |old| Waiting {
      due: Duration::ZERO,
      ..old.unwrap_or(Waiting { due: now, since: now, tries: 0 })
    });
  }

  /// The judge must be considered for a file now: whether to ask it, or what it answered.
  pub fn consult(&mut self, target: Target, now: Duration) {
    self.judge.set(target, |_| Waiting { due: now, since: now, tries: 0 });
  }

  /// The scores of a file have come.
  pub fn scored(&mut self, target: Target, now: Duration) {
    self.scored.set(target, |_| Waiting { due: now, since: now, tries: 0 });
  }

  /// The markers of a file are due at `due`; a later time wins, because each write restarts the idle
  /// time.
  pub fn reshape(&mut self, target: Target, due: Duration) {
    self.lazy.set(target, |old| match old {
      Some(old) => Waiting { due: old.due.max(due), ..old },
      None => Waiting { due, since: due, tries: 0 },
    });
  }

  /// Whether a file has pending work.
  pub fn is_known(&self, target: &Target) -> bool {
    self.lanes().iter().any(|lane| lane.waiting.contains_key(target))
  }

  /// Whether a file is dirty.
  pub fn is_dirty(&self, target: &Target) -> bool {
    self.urgent.lane.waiting.contains_key(target)
  }

  /// Takes one file that is due: dirty files first, then the other kinds, the longest due first. Every
  /// `OTHERS_EVERY`th turn starts with one of the other kinds, each in its turn. Takes nothing of the kinds
  /// in `busy`.
  pub fn take(&mut self, now: Duration, busy: &[Kind]) -> Option<(Kind, Target, Waiting)> {
    self.turns = self.turns.wrapping_add(1);
    let first = self.turns / OTHERS_EVERY % Kind::OTHERS.len() as u32;
    let others = self.turns.is_multiple_of(OTHERS_EVERY) && !self.is_asked_for(now);
    let preferred = others.then(|| Kind::OTHERS.into_iter().cycle().skip(first as usize));
    let preferred = preferred.into_iter().flatten().take(Kind::OTHERS.len());
    for kind in preferred.chain(Kind::ALL) {
      if busy.contains(&kind) {
        continue;
      }
      let taken = match self.lane(kind) {
        Some(lane) => lane.take(now),
        None => self.urgent.take(now),
      };
      if let Some((target, waiting)) = taken {
        return Some((kind, target, waiting));
      }
    }
    None
  }

  /// Whether a reader waits for a dirty file.
  fn is_asked_for(&mut self, now: Duration) -> bool {
    self.urgent.fill(now);
    self.urgent.ready.first().is_some_and(|first| !first.is_common)
  }

  /// Whether a dirty file is due.
  #[cfg(test)]
  pub(super) fn is_urgent(&self, now: Duration) -> bool {
    self.urgent.is_due(now)
  }

  /// Takes further due dirty files, at most `n`, as long as `like` accepts the next one.
  pub fn take_more(
    &mut self,
    now: Duration,
    n: usize,
    like: impl Fn(&Target) -> bool,
  ) -> Vec<(Target, Waiting)> {
    let urgent = &mut self.urgent;
    urgent.fill(now);
    let mut taken = Vec::new();
    while taken.len() < n {
      let first = urgent.ready.first().filter(|place| !place.is_large);
      let Some(first) = first.map(|place| place.target.clone()) else { break };
      let Some(waiting) = like(&first).then(|| urgent.remove(&first)).flatten() else { break };
      taken.push((first, waiting));
    }
    taken
  }

  /// How long until [`Self::take`] has a file; `None` when nothing is pending.
  pub fn next_due(&self, now: Duration, busy: &[Kind]) -> Option<Duration> {
    let lanes = Kind::ALL.into_iter().zip(self.lanes()).filter(|(kind, _)| !busy.contains(kind));
    let due = lanes.filter_map(|(_, lane)| lane.order.first()).map(|(due, _)| *due);
    let ready = (!self.urgent.ready.is_empty()).then_some(Duration::ZERO);
    Some(due.chain(ready).min()?.saturating_sub(now))
  }

  /// Forgets the files that `keep` rejects.
  pub fn retain(&mut self, keep: impl Fn(&Target) -> bool) {
    let gone: Vec<Target> =
      self.urgent.lane.waiting.keys().filter(|target| !keep(target)).cloned().collect();
    for target in gone {
      self.urgent.remove(&target);
      self.urgent.large.remove(&target);
    }
    for lane in Kind::ALL {
      let Some(lane) = self.lane(lane) else { continue };
      lane.waiting.retain(|target, _| keep(target));
      lane.order.retain(|(_, target)| keep(target));
    }
  }

  /// How many files are tried at the longest pause, mostly because a program keeps them open.
  pub fn n_stubborn(&self) -> usize {
    let tries =
      self.lanes().into_iter().flat_map(|lane| lane.waiting.values()).map(|one| one.tries);
    tries.filter(|tries| *tries > STUBBORN).count()
  }

  /// The dirty files.
  pub fn dirty_targets(&self) -> impl Iterator<Item = &Target> {
    self.urgent.lane.waiting.keys()
  }

  /// Whether nothing is pending.
  pub fn is_empty(&self) -> bool {
    self.lanes().iter().all(|lane| lane.waiting.is_empty())
  }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
