//! When which file is looked at again: due times that exist only while something is pending. Pure.
//!
//! Of the dirty files that are due, small ones come first, and of those the ones written last: an agent that works
//! now must not wait for thousands of files that somebody has copied. Now and then the oldest one has its turn, so
//! that none waits without end.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BTreeMap, BTreeSet, HashSet},
  time::Duration,
};

use crate::engine::Target;

/// First wait after an error or a refusal.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Longest wait between two tries; a file that somebody keeps open is looked at this often.
pub(super) const LAST_RETRY: Duration = Duration::from_secs(1);

/// From so many tries on the pause between them is the longest one.
const STUBBORN: u32 = 8;

/// Writes that are no farther apart than this belong together, and their files keep their order.
const TOGETHER: Duration = Duration::from_millis(2);
/// How often the oldest file has its turn: one time of so many (a choice).
const OLDEST_EVERY: u32 = 4;

/// One file that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
  /// When it is due, on the monotonic clock.
  pub due: Duration,
  /// Since when it is dirty.
  pub since: Duration,
  /// How often it was tried.
  pub tries: u32,
}

/// Pauses between two questions about the same text: an agent writes its records soon after its files, but
/// the result of a slow call comes late (a choice: records came within a second of the write).
const ASK_AGAIN: [Duration; 5] = [
  Duration::from_millis(50),
  Duration::from_millis(200),
  Duration::from_secs(1),
  Duration::from_secs(3),
  Duration::from_secs(10),
];

/// Which kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
  /// A dirty file.
  Urgent,
  /// Text of which the agent's records may tell who wrote it.
  Attribute,
  /// What the model said of a text is to be taken down.
  Scored,
  /// Text that the model is to read closely.
  Model,
  /// Text about which a model that reads is perhaps asked, or has answered.
  Judge,
  /// Markers to renew.
  Lazy,
}

impl Kind {
  /// All, the most urgent first.
  const ALL: [Self; 6] =
    [Self::Urgent, Self::Attribute, Self::Scored, Self::Model, Self::Judge, Self::Lazy];
}

/// Files of one kind, found by name and by due time: ten thousand are dirty at a start.
#[derive(Debug, Default)]
struct Lane {
  waiting: BTreeMap<Target, Waiting>,
  order: BTreeSet<(Duration, Target)>,
}

impl Lane {
  /// Sets what waits for a target, from what waited before.
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

/// The place of a dirty file that is due, the first one first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
  /// Nobody waits for it.
  is_common: bool,
  is_large: bool,
  /// With which others it was written.
  group: Reverse<u64>,
  /// How long it is due.
  due: Duration,
  target: Target,
}

/// Dirty files, and the order in which those that are due are worked on.
#[derive(Debug, Default)]
struct Urgent {
  lane: Lane,
  /// Those that are due, taken from the order of the lane.
  ready: BTreeSet<Place>,
  /// The small ones by age: since when they are dirty.
  ages: BTreeSet<(Duration, Target)>,
  places: BTreeMap<Target, Place>,
  /// With which others a file was written, counted up.
  groups: BTreeMap<Target, u64>,
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

  /// A file was written at this time.
  fn written(&mut self, target: &Target, now: Duration) {
    if self.last.is_none_or(|last| now.saturating_sub(last) > TOGETHER) {
      self.group += 1;
    }
    self.last = Some(now);
    self.groups.insert(target.clone(), self.group);
  }

  /// Takes the place of a file away; the lane still knows it.
  fn unready(&mut self, target: &Target) {
    let Some(place) = self.places.remove(target) else { return };
    self.ready.remove(&place);
    if let Some(waiting) = self.lane.waiting.get(target) {
      self.ages.remove(&(waiting.since, target.clone()));
      self.lane.order.insert((waiting.due, target.clone()));
    }
  }

  /// Gives those that have become due their places.
  fn fill(&mut self, now: Duration) {
    while self.lane.order.first().is_some_and(|(due, _)| *due <= now) {
      let Some((due, target)) = self.lane.order.pop_first() else { break };
      let Some(waiting) = self.lane.waiting.get(&target) else { continue };
      let place = Place {
        is_common: due > Duration::ZERO,
        is_large: self.large.contains(&target),
        group: Reverse(self.groups.get(&target).copied().unwrap_or(0)),
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

  /// Forgets that a file waits.
  fn remove(&mut self, target: &Target) -> Option<Waiting> {
    self.unready(target);
    let waiting = self.lane.waiting.remove(target)?;
    self.lane.order.remove(&(waiting.due, target.clone()));
    self.groups.remove(target);
    Some(waiting)
  }

  /// Where nobody waits for a file, the oldest one has a turn now and then.
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

  fn is_due(&self, now: Duration) -> bool {
    !self.ready.is_empty() || self.lane.order.first().is_some_and(|(due, _)| *due <= now)
  }
}

/// Files that are dirty, files about which the records are asked, files that were read and that are to be
/// read closely, and files whose markers are to be renewed.
#[derive(Debug, Default)]
pub struct Queue {
  urgent: Urgent,
  attribute: Lane,
  scored: Lane,
  model: Lane,
  judge: Lane,
  lazy: Lane,
}

impl Queue {
  /// In the order of [`Kind::ALL`].
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

  /// Marks a file as dirty now. One that waits already becomes due now and keeps its age.
  pub fn dirty(&mut self, target: Target, now: Duration) {
    self.urgent.written(&target, now);
    self.urgent.set(target, |old| match old {
      // What was put off is as old as its first event from now on.
      Some(old) => Waiting { due: old.due.min(now), since: old.since.min(now), ..old },
      None => Waiting { due: now, since: now, tries: 0 },
    });
  }

  /// Marks a file as the next one: somebody waits for it.
  pub fn hurry(&mut self, target: Target, now: Duration) {
    self.urgent.set(target, |old| Waiting {
      due: Duration::ZERO,
      ..old.unwrap_or(Waiting { due: now, since: now, tries: 0 })
    });
  }

  /// Puts a file off until `due`, keeping its age; one that became dirty meanwhile stays due as it is.
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

  /// Puts a large file off that was worked on for a while: it goes on when no smaller one is due.
  pub fn give_way(&mut self, target: Target, was: Waiting, now: Duration) {
    self.urgent.large.insert(target.clone());
    self.urgent.set(target, |_| Waiting { due: now, ..was });
  }

  /// A file was processed to its end.
  pub fn ended(&mut self, target: &Target) {
    self.urgent.large.remove(target);
  }

  /// Whether a dirty file is due that is not known to be a large one.
  pub fn has_small(&mut self, now: Duration) -> bool {
    self.urgent.fill(now);
    self.urgent.ready.first().is_some_and(|first| !(first.is_common && first.is_large))
  }

  /// Puts a file off for longer each time.
  pub fn back_off(&mut self, kind: Kind, target: Target, was: Waiting, now: Duration) {
    let wait = FIRST_RETRY.saturating_mul(1 << was.tries.min(10)).min(LAST_RETRY);
    self.put_off(kind, target, was, now + wait);
  }

  /// The records are to be asked about a file now; what is new in it begins anew.
  pub fn attribute(&mut self, target: Target, now: Duration) {
    self.attribute.set(target, |old| Waiting {
      due: now,
      since: old.map_or(now, |old| old.since),
      tries: 0,
    });
  }

  /// The records did not tell yet: they are asked again later, ever more rarely.
  pub fn ask_again(&mut self, target: Target, was: Waiting, now: Duration) {
    let pause = ASK_AGAIN.get(was.tries as usize).or(ASK_AGAIN.last()).copied();
    self.put_off(Kind::Attribute, target, was, now + pause.unwrap_or(LAST_RETRY));
  }

  /// Text of a file is to be read closely now, after what waits already.
  pub fn read(&mut self, target: Target, now: Duration) {
    self.model.set(target, |old| match old {
      Some(old) => Waiting { due: old.due.min(now), ..old },
      None => Waiting { due: now, since: now, tries: 0 },
    });
  }

  /// The same before what waits already: it was just written, and the others have stood for long.
  pub fn read_first(&mut self, target: Target, now: Duration) {
    self.model.set(target, |old| Waiting {
      due: Duration::ZERO,
      ..old.unwrap_or(Waiting { due: now, since: now, tries: 0 })
    });
  }

  /// It is to be seen now whether somebody is asked about text of a file, or what was answered.
  pub fn consult(&mut self, target: Target, now: Duration) {
    self.judge.set(target, |_| Waiting { due: now, since: now, tries: 0 });
  }

  /// Text of a file was read.
  pub fn scored(&mut self, target: Target, now: Duration) {
    self.scored.set(target, |_| Waiting { due: now, since: now, tries: 0 });
  }

  /// The markers of a file are due at `due`; a later time wins, for each write starts the idle time
  /// anew.
  pub fn reshape(&mut self, target: Target, due: Duration) {
    self.lazy.set(target, |old| match old {
      Some(old) => Waiting { due: old.due.max(due), ..old },
      None => Waiting { due, since: due, tries: 0 },
    });
  }

  /// Whether this file waits for anything.
  pub fn is_known(&self, target: &Target) -> bool {
    self.lanes().iter().any(|lane| lane.waiting.contains_key(target))
  }

  /// Whether this file waits as dirty.
  pub fn is_dirty(&self, target: &Target) -> bool {
    self.urgent.lane.waiting.contains_key(target)
  }

  /// Takes one file that is due: dirty ones first, the longest due before the others. Nothing is taken for
  /// those who are `busy`.
  pub fn take(&mut self, now: Duration, busy: &[Kind]) -> Option<(Kind, Target, Waiting)> {
    for kind in Kind::ALL {
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

  /// Whether a dirty file is due.
  pub fn is_urgent(&self, now: Duration) -> bool {
    self.urgent.is_due(now)
  }

  /// Takes further dirty files that are due, at most `n`, as long as they are `like` what was wanted.
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
      let Some(first) = urgent.ready.first().map(|place| place.target.clone()) else { break };
      let Some(waiting) = like(&first).then(|| urgent.remove(&first)).flatten() else { break };
      taken.push((first, waiting));
    }
    taken
  }

  /// How long until [`Self::take`] has the next file; `None` when nothing is pending.
  pub fn next_due(&self, now: Duration, busy: &[Kind]) -> Option<Duration> {
    let lanes = Kind::ALL.into_iter().zip(self.lanes()).filter(|(kind, _)| !busy.contains(kind));
    let due = lanes.filter_map(|(_, lane)| lane.order.first()).map(|(due, _)| *due);
    let ready = (!self.urgent.ready.is_empty()).then_some(Duration::ZERO);
    Some(due.chain(ready).min()?.saturating_sub(now))
  }

  /// Forgets the files that are not to be kept.
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

  /// How many files are asked for again and again, because somebody keeps them open.
  pub fn n_stubborn(&self) -> usize {
    let tries =
      self.lanes().into_iter().flat_map(|lane| lane.waiting.values()).map(|one| one.tries);
    tries.filter(|tries| *tries > STUBBORN).count()
  }

  /// The files that are dirty.
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
