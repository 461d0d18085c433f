//! The order in which files are due.
#![forbid(unsafe_code)]

use std::path::Path;

use super::*;

fn target(name: &str) -> Target {
  Target::new(Path::new("/w"), Path::new(name))
}

const fn ms(ms: u64) -> Duration {
  Duration::from_millis(ms)
}

#[test]
fn what_was_written_last_goes_first_and_the_oldest_has_its_turn() {
  let mut queue = Queue::default();
  for n in 0..5000 {
    queue.dirty(target(&format!("n{n:04}")), ms(1 + 3 * n));
  }
  queue.dirty(target("agent"), ms(20_000));
  assert_eq!(queue.take(ms(20_001), &[]).unwrap().1, target("agent"));
  let order: Vec<Target> =
    std::iter::from_fn(|| queue.take(ms(20_002), &[])).map(|(_, target, _)| target).collect();
  let early = order.iter().take(40).filter(|one| **one < target("n0020")).count();
  assert!((8..=12).contains(&early), "{early} of the oldest among the first 40");
  assert_eq!(order.len(), 5000);
  assert!(queue.is_empty());
}

/// A file of this size that was last written this many milliseconds after the first one.
fn file(size: u64, at: u64) -> Written {
  Written { size, at: Duration::from_hours(500_000) + ms(at) }
}

#[test]
fn of_files_heard_of_together_a_small_one_that_was_just_written_goes_first() {
  // As after a burst whose events were lost, or were read at one time: 9,000 files, and one note in their midst.
  for (others, when) in [(file(900, 0), "copied with old times"), (file(30_000, 10_000), "written")]
  {
    let mut queue = Queue::default();
    for n in 0..9000 {
      queue.written(target(&format!("n{n:04}")), ms(1), Some(others));
      if n == 4500 {
        queue.written(target("notes"), ms(1), Some(file(400, 9_000)));
      }
    }
    // A later event that does not say what the file is like changes nothing.
    queue.dirty(target("notes"), ms(1));
    assert_eq!(queue.take(ms(9), &[]).unwrap().1, target("notes"), "{when}");
  }
  // Poisoned notes of one size: the last one first.
  let mut queue = Queue::default();
  for n in 0..1500 {
    queue.written(target(&format!("n{n:04}")), ms(1), Some(file(200, 3 * n)));
  }
  assert_eq!(queue.take(ms(9), &[]).unwrap().1, target("n1499"));
}

#[test]
fn a_big_file_waits_for_small_ones_and_none_waits_for_ever() {
  let mut queue = Queue::default();
  queue.written(target("old"), ms(1), Some(file(900, 0)));
  queue.written(target("big"), ms(2), Some(file(MOST_SMALL + 1, 60_000)));
  let mut order = Vec::new();
  for n in 0..200 {
    let now = ms(10 + 10 * n);
    for half in ["a", "b"] {
      queue.written(target(&format!("n{n:04}{half}")), now, Some(file(200, 10 * n)));
    }
    order.push(queue.take(now, &[]).unwrap().1);
  }
  let turn = |name: &str| order.iter().position(|one| *one == target(name)).unwrap();
  assert!(turn("old") < 2 * OLDEST_EVERY as usize, "{}", turn("old"));
  assert!((turn("old") + 1..4 * OLDEST_EVERY as usize).contains(&turn("big")), "{}", turn("big"));
  // Small ones that were not written meanwhile come, too: each of the last ones first.
  while let Some((_, next, _)) = queue.take(ms(9_000), &[]) {
    order.push(next);
  }
  assert_eq!(order.len(), 402);
}

#[test]
fn a_reader_that_cannot_be_seen_to_close_is_awaited_with_growing_pauses() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(0));
  let (mut now, mut tries) = (ms(0), Vec::new());
  while now < ms(3000) {
    let (_, one, waiting) = queue.take(now, &[]).unwrap();
    tries.push(now);
    queue.await_reader(one, waiting, ms(3000).saturating_sub(now), now);
    now += queue.next_due(now, &[]).unwrap();
  }
  assert_eq!(tries.get(1), Some(&ms(1)), "most are done by then");
  assert!(tries.len() < 16, "{tries:?}");
  assert_eq!(now, ms(3000), "after that none is awaited");
}

#[test]
fn a_large_file_goes_on_when_no_small_one_is_due() {
  let mut queue = Queue::default();
  queue.dirty(target("large"), ms(1));
  let (_, large, waiting) = queue.take(ms(1), &[]).unwrap();
  queue.dirty(target("old"), ms(2));
  assert!(queue.has_small(ms(9)));
  queue.give_way(large.clone(), waiting);
  queue.dirty(large.clone(), ms(20));
  let order: Vec<Target> =
    std::iter::from_fn(|| queue.take(ms(30), &[])).map(|(_, target, _)| target).collect();
  assert_eq!(order, [target("old"), large.clone()]);
  queue.give_way(large.clone(), waiting);
  assert!(!queue.has_small(ms(31)) && queue.is_urgent(ms(31)));
  assert_eq!(queue.next_due(ms(31), &[]), Some(ms(0)));
  queue.hurry(large.clone(), ms(31));
  assert!(queue.has_small(ms(31)), "somebody waits for it");
  queue.ended(&large);
  assert_eq!(queue.take(ms(31), &[]).unwrap().2.since, waiting.since);
  assert!(queue.is_empty());
}

#[test]
fn a_large_file_is_ended_before_the_next_one_begins() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(1));
  queue.dirty(target("b"), ms(2));
  queue.dirty(target("c"), ms(3));
  for large in ["a", "b", "c"].map(target) {
    for _ in 0..3 {
      let (_, next, waiting) = queue.take(ms(9), &[]).unwrap();
      // Each was tried once, and then one after the other.
      queue.give_way(next, waiting);
    }
    let (_, next, waiting) = queue.take(ms(9), &[]).unwrap();
    assert_eq!(next, large);
    assert!(queue.is_large(&next) && queue.take_more(ms(9), 8, |_| true).is_empty());
    queue.give_way(next.clone(), waiting);
    assert_eq!(queue.take(ms(9), &[]).unwrap().1, next);
    queue.ended(&next);
  }
  assert!(queue.is_empty());
}

#[test]
fn dirty_files_come_before_markers_and_in_their_order_when_written_together() {
  let mut queue = Queue::default();
  queue.reshape(target("c"), ms(1));
  queue.dirty(target("b"), ms(3));
  queue.dirty(target("a"), ms(4));
  let order: Vec<_> =
    std::iter::from_fn(|| queue.take(ms(9), &[])).map(|(kind, target, _)| (kind, target)).collect();
  let expected =
    [(Kind::Urgent, target("b")), (Kind::Urgent, target("a")), (Kind::Lazy, target("c"))];
  assert_eq!(order, expected);
  assert!(queue.is_empty());
}

#[test]
fn a_file_that_somebody_waits_for_goes_first_and_keeps_its_age() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(1));
  queue.dirty(target("b"), ms(2));
  let (kind, b, waiting) = queue.take(ms(9), &[]).map(|_| queue.take(ms(9), &[]).unwrap()).unwrap();
  queue.dirty(target("a"), ms(3));
  queue.put_off(kind, b.clone(), waiting, ms(50));
  queue.hurry(b.clone(), ms(9));
  let (_, first, waiting) = queue.take(ms(9), &[]).unwrap();
  assert_eq!((first, waiting.since, waiting.tries), (b, ms(2), 1));
  queue.hurry(target("new"), ms(9));
  assert_eq!(queue.take(ms(9), &[]).unwrap().1, target("new"));
}

#[test]
fn what_is_taken_together_is_due_and_alike() {
  let mut queue = Queue::default();
  for (name, due) in [("a", 1), ("b", 2), ("c", 3), ("x", 4), ("d", 5)] {
    queue.dirty(target(name), ms(due));
  }
  let mut take = |now, n| -> Vec<Target> {
    let more = queue.take_more(ms(now), n, |one| *one != target("x"));
    more.into_iter().map(|(target, _)| target).collect()
  };
  assert_eq!(take(1, 9), [target("a")]);
  assert_eq!(take(2, 9), [target("b")]);
  assert_eq!(take(9, 9), [target("c")], "not over another one");
  assert_eq!(take(9, 9), []);
}

#[test]
fn nothing_pending_means_no_timer() {
  let mut queue = Queue::default();
  assert_eq!(queue.next_due(ms(0), &[]), None);
  queue.dirty(target("a"), ms(7));
  assert_eq!(queue.next_due(ms(5), &[]), Some(ms(2)));
  assert_eq!(queue.take(ms(6), &[]), None);
}

#[test]
fn a_file_that_stays_busy_is_tried_ever_more_rarely_and_keeps_its_age() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(0));
  let mut now = ms(0);
  let mut waits = Vec::new();
  for _ in 0..12 {
    now += queue.next_due(now, &[]).unwrap();
    let (kind, target, waiting) = queue.take(now, &[]).unwrap();
    assert_eq!(waiting.since, ms(0));
    queue.back_off(kind, target, waiting, now);
    waits.push(queue.next_due(now, &[]).unwrap());
  }
  assert!(waits.is_sorted());
  assert_eq!(waits.last(), Some(&LAST_RETRY));
  assert_eq!(queue.n_stubborn(), 1);
}

#[test]
fn a_new_write_makes_a_waiting_file_due_at_once() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(0));
  let (kind, a, waiting) = queue.take(ms(0), &[]).unwrap();
  queue.put_off(kind, a, waiting, ms(500));
  queue.dirty(target("a"), ms(10));
  assert_eq!(queue.next_due(ms(10), &[]), Some(ms(0)));
}

#[test]
fn while_a_question_is_out_everything_else_goes_on() {
  let mut queue = Queue::default();
  queue.attribute(target("a"), ms(1));
  queue.reshape(target("b"), ms(2));
  assert!(!queue.is_urgent(ms(9)));
  queue.dirty(target("c"), ms(3));
  assert!(queue.is_urgent(ms(9)) && !queue.is_urgent(ms(2)));
  let kinds: Vec<_> =
    std::iter::from_fn(|| queue.take(ms(9), &[Kind::Attribute])).map(|(kind, ..)| kind).collect();
  assert_eq!(kinds, [Kind::Urgent, Kind::Lazy]);
  assert_eq!(
    (queue.next_due(ms(9), &[Kind::Attribute]), queue.next_due(ms(9), &[])),
    (None, Some(ms(0)))
  );
  assert!(!queue.is_empty());
}

#[test]
fn what_is_forgotten_is_not_due() {
  let mut queue = Queue::default();
  queue.dirty(target("a"), ms(1));
  queue.reshape(target("a"), ms(1));
  queue.dirty(target("b"), ms(2));
  queue.retain(|target| target.rel != Path::new("a"));
  assert_eq!(queue.next_due(ms(0), &[]), Some(ms(2)));
  assert_eq!(queue.take(ms(9), &[]).map(|(_, found, _)| found), Some(target("b")));
  assert!(queue.is_empty());
}

#[test]
fn a_close_look_comes_behind_what_is_urgent_and_before_markers() {
  let mut queue = Queue::default();
  for due in [1, 2] {
    queue.reshape(target("a"), ms(1));
    queue.read(target("a"), ms(due));
    queue.attribute(target("a"), ms(3));
    queue.dirty(target("b"), ms(4));
  }
  assert!(queue.is_known(&target("a")));
  let kinds: Vec<Kind> =
    std::iter::from_fn(|| queue.take(ms(9), &[])).map(|(kind, ..)| kind).collect();
  assert_eq!(kinds, [Kind::Urgent, Kind::Attribute, Kind::Model, Kind::Lazy]);
  assert!(queue.is_empty());
}

#[test]
fn what_was_just_written_is_read_before_what_was_there_for_long() {
  let mut queue = Queue::default();
  for name in ["a", "b"] {
    queue.read(target(name), ms(1));
  }
  queue.read_first(target("new"), ms(5));
  queue.read_first(target("b"), ms(6));
  queue.read(target("b"), ms(7));
  queue.scored(target("z"), ms(8));
  let busy = [Kind::Model];
  assert_eq!(queue.next_due(ms(2), &busy), Some(ms(6)), "the answer is still recorded");
  assert_eq!(queue.take(ms(9), &busy).unwrap().1, target("z"));
  assert_eq!((queue.take(ms(9), &busy), queue.next_due(ms(9), &busy)), (None, None));
  let order: Vec<_> =
    std::iter::from_fn(|| queue.take(ms(9), &[])).map(|(_, target, _)| target).collect();
  assert_eq!(order, ["b", "new", "a"].map(target));
}

#[test]
fn each_write_starts_the_idle_time_again() {
  let mut queue = Queue::default();
  queue.reshape(target("a"), ms(5));
  queue.reshape(target("a"), ms(9));
  assert_eq!(queue.take(ms(6), &[]), None);
  assert!(queue.take(ms(9), &[]).is_some());
}

#[test]
fn a_file_that_is_dirty_all_the_time_leaves_turns_to_all_kinds() {
  let mut queue = Queue::default();
  queue.attribute(target("asked"), ms(1));
  queue.scored(target("scored"), ms(1));
  queue.read(target("read"), ms(1));
  queue.consult(target("judged"), ms(1));
  queue.reshape(target("marked"), ms(1));
  let mut taken = Vec::new();
  for n in 0..u64::from(6 * OTHERS_EVERY) {
    queue.dirty(target("hot"), ms(2 + n));
    let (kind, ..) = queue.take(ms(2 + n), &[]).unwrap();
    taken.extend((kind != Kind::Urgent).then_some(kind));
  }
  taken.sort_by_key(|kind| Kind::ALL.iter().position(|one| one == kind));
  assert_eq!(taken, Kind::OTHERS);
  // A reader that waits goes before all of them.
  queue.reshape(target("marked"), ms(1));
  for n in 0..u64::from(2 * OTHERS_EVERY) {
    queue.hurry(target("hot"), ms(100 + n));
    assert_eq!(queue.take(ms(100 + n), &[]).unwrap().0, Kind::Urgent);
  }
}
