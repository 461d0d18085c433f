//! Files whose idle edit could not be written, as on a full disk. A failed attempt and its undoing change the file
//! and so cause events; these must not bring the next attempt forward.
#![forbid(unsafe_code)]

use std::{collections::HashMap, path::Path, time::Duration};

use crate::engine::Target;

/// The first and the longest pause before the next attempt (a choice: text that a person approved is back within
/// seconds once there is room, and a full disk is written to rarely meanwhile).
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// How often each file failed in a row, and when it may be tried again.
#[derive(Debug, Default)]
pub(super) struct Unwritten(HashMap<Target, (u32, Duration)>);

impl Unwritten {
  /// Notes that an edit could not be written.
  pub(super) fn failed(&mut self, target: &Target, now: Duration) {
    let (tries, due) = self.0.entry(target.clone()).or_default();
    *due = now + FIRST_RETRY.saturating_mul(1 << (*tries).min(10)).min(LAST_RETRY);
    *tries = tries.saturating_add(1);
  }

  /// Notes that nothing is left to be written, or that it was written.
  pub(super) fn done(&mut self, target: &Target) {
    self.0.remove(target);
  }

  /// How long the next attempt has to wait; `None` if it need not.
  pub(super) fn rest(&self, target: &Target, now: Duration) -> Option<Duration> {
    let (_, due) = self.0.get(target)?;
    Some(due.saturating_sub(now)).filter(|rest| !rest.is_zero())
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) {
    self.0.retain(|target, _| target.root != root);
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn it_is_tried_ever_more_rarely_until_it_is_written() {
    let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
    let mut unwritten = Unwritten::default();
    let mut now = Duration::from_secs(1);
    let mut pauses = Vec::new();
    for _ in 0..9 {
      assert_eq!(unwritten.rest(&target, now), None);
      unwritten.failed(&target, now);
      pauses.push(unwritten.rest(&target, now).unwrap());
      now += *pauses.last().unwrap();
    }
    assert!(
      pauses.is_sorted() && pauses[0] == FIRST_RETRY && pauses[8] == LAST_RETRY,
      "{pauses:?}"
    );
    unwritten.failed(&target, now);
    unwritten.done(&target);
    assert_eq!(unwritten.rest(&target, now), None);
    unwritten.failed(&target, now);
    assert_eq!(unwritten.rest(&target, now), Some(FIRST_RETRY));
    unwritten.forget_root(Path::new("/w"));
    assert_eq!(unwritten.rest(&target, now), None);
  }
}
