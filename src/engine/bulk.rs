//! Processes many items on all cores, in batches of about equal length.
//!
//! A model that takes a batch at once spends on each of its texts the time of the longest, so the
//! lengths of a batch should be equal. The longest come first, so that no core is left with a long
//! batch at the end.
//!
//! Invariants: one result for each item, in the order of the items, whatever the threads do; no thread
//! outlives the call.
#![forbid(unsafe_code)]

use std::{
  num::NonZero,
  sync::atomic::{AtomicUsize, Ordering},
  thread,
};

/// The most items of one batch (a choice: an encoder gains nothing from more).
const MAX_BATCH: usize = 32;
/// The most bytes of one batch, so that a few long texts do not go to one core (a choice).
const MAX_BATCH_BYTES: usize = 64 * 1024;
/// How many batches of a chunk each core should get, so that all cores end at about the same time (a
/// choice).
const BATCHES_PER_CORE: usize = 4;

/// The number of available cores.
pub fn cores() -> usize {
  thread::available_parallelism().map_or(1, NonZero::get)
}

/// The result of `work` for each of `items`, in their order. `work` gets batches of items of similar
/// `length`, and returns one result for each.
///
/// # Panics
///
/// If `work` panics, or returns another number of results.
pub fn in_order<'i, T: Sync, R: Send>(
  items: &'i [T],
  length: impl Fn(&T) -> usize,
  n_threads: usize,
  work: impl Fn(&[&'i T]) -> Vec<R> + Sync,
) -> Vec<R> {
  let lengths: Vec<usize> = items.iter().map(length).collect();
  let batches = batches(&lengths, n_threads);
  let next = AtomicUsize::new(0);
  let worker = || {
    let mut done: Vec<(usize, R)> = Vec::new();
    while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
      let given: Vec<&'i T> = batch.iter().filter_map(|&index| items.get(index)).collect();
      let results = work(&given);
      // A missing result would shift all others.
      assert_eq!(results.len(), batch.len(), "one result for each item of a batch");
      done.extend(batch.iter().copied().zip(results));
    }
    done
  };
  let mut done = if n_threads < 2 || batches.len() < 2 {
    worker()
  } else {
    thread::scope(|scope| {
      let others: Vec<_> = (1..n_threads.min(batches.len())).map(|_| scope.spawn(worker)).collect();
      let mut done = worker();
      for other in others {
        match other.join() {
          Ok(theirs) => done.extend(theirs),
          Err(panic) => std::panic::resume_unwind(panic),
        }
      }
      done
    })
  };
  done.sort_unstable_by_key(|(index, _)| *index);
  done.into_iter().map(|(_, result)| result).collect()
}

/// Indices of the lengths in batches of similar lengths, the longest first.
fn batches(lengths: &[usize], n_threads: usize) -> Vec<Vec<usize>> {
  let share = lengths.len().div_ceil(n_threads.max(1) * BATCHES_PER_CORE);
  let most = share.clamp(1, MAX_BATCH);
  let mut order: Vec<(usize, usize)> = lengths.iter().copied().zip(0..).collect();
  order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
  let mut batches: Vec<Vec<usize>> = Vec::new();
  let mut n_bytes = 0;
  for (length, index) in order {
    match batches.last_mut() {
      Some(batch) if batch.len() < most && n_bytes + length <= MAX_BATCH_BYTES => {
        n_bytes += length;
        batch.push(index);
      }
      _ => {
        n_bytes = length;
        batches.push(vec![index]);
      }
    }
  }
  batches
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*, std::sync::Mutex};

  #[test]
  fn batches_are_of_like_lengths_and_the_longest_come_first() {
    let lengths = [5, 70_000, 1, 6, 2, 60_000, 3_000];
    assert_eq!(batches(&lengths, 1), [vec![1], vec![5, 6], vec![3, 0], vec![4, 2]]);
    assert_eq!(batches(&[1; 100], 1).iter().map(Vec::len).max(), Some(25));
    assert_eq!(batches(&[1; 1_000], 1).iter().map(Vec::len).max(), Some(MAX_BATCH));
    assert_eq!(batches(&[1; 3], 8), [[0], [1], [2]]);
    assert!(batches(&[], 8).is_empty());
  }

  #[test]
  fn every_core_takes_part() {
    let at_work = std::sync::Barrier::new(4);
    let seen = Mutex::new(Vec::new());
    // Four batches that wait for each other: with fewer threads this would never end.
    let results = in_order(
      &[1, 2, 3, 4],
      |_| MAX_BATCH_BYTES,
      4,
      |batch| {
        at_work.wait();
        seen.lock().unwrap().push(thread::current().id());
        batch.iter().map(|&&item| item * 10).collect()
      },
    );
    assert_eq!(results, [10, 20, 30, 40]);
    let mut threads = seen.into_inner().unwrap();
    threads.sort_by_key(|id| format!("{id:?}"));
    threads.dedup();
    assert_eq!(threads.len(), 4);
  }

  proptest! {
    #[test]
    fn order_is_kept(items in proptest::collection::vec(0_usize..100_000, 0..200), threads in 1_usize..5) {
      let results = in_order(&items, |item| *item, threads, |batch| {
        batch.iter().map(|item| **item + 1).collect()
      });
      let expected: Vec<usize> = items.iter().map(|item| item + 1).collect();
      prop_assert_eq!(results, expected);
    }
  }
}
