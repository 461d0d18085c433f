//! One sentence about a day, for the log.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use super::Counts;
use crate::plural::{choose, count, times};

/// The figures of one day, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Day {
  /// The decisions about blocks.
  pub counts: Counts,
  /// How often protection was reduced.
  pub degraded: u64,
  /// Items that wait for a person now, in a file or out of it.
  pub waiting: u64,
}

/// The sentence; `None` if nothing happened and nothing waits: a quiet day needs no line.
pub fn summary(day: &Day) -> Option<String> {
  if *day == Day::default() {
    return None;
  }
  let counts = &day.counts;
  let mut text = format!(
    "{} seen, {} kept, {} flagged, {} quarantined",
    count(counts.seen(), "block"),
    counts.kept,
    counts.flagged,
    counts.quarantined
  );
  for (n, what) in [
    (counts.returned, "returned and removed again"),
    (counts.approved, "approved"),
    (counts.rejected, "rejected"),
  ] {
    if n > 0 {
      // Writing to a string cannot fail.
      write!(text, ", {n} {what}").ok();
    }
  }
  if day.degraded > 0 {
    write!(text, "; protection was reduced {}", times(day.degraded)).ok();
  }
  match day.waiting {
    0 => text.push_str("; nothing waits for review"),
    n => {
      write!(text, "; {n} {} for review", choose(n, "waits", "wait")).ok();
    }
  }
  Some(text)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_day_is_one_sentence_and_a_quiet_one_is_none() {
    assert_eq!(summary(&Day::default()), None);
    let counts = Counts { kept: 39, flagged: 1, quarantined: 1, approved: 2, ..Counts::default() };
    assert_eq!(
      summary(&Day { counts, degraded: 1, waiting: 2 }).unwrap(),
      "41 blocks seen, 39 kept, 1 flagged, 1 quarantined, 2 approved; protection was reduced once; \
       2 wait for review"
    );
    let counts = Counts { kept: 1, returned: 3, rejected: 1, ..Counts::default() };
    assert_eq!(
      summary(&Day { counts, degraded: 3, waiting: 0 }).unwrap(),
      "1 block seen, 1 kept, 0 flagged, 0 quarantined, 3 returned and removed again, 1 rejected; \
       protection was reduced 3 times; nothing waits for review"
    );
    assert_eq!(
      summary(&Day { waiting: 1, ..Day::default() }).unwrap(),
      "0 blocks seen, 0 kept, 0 flagged, 0 quarantined; 1 waits for review"
    );
  }
}
