//! When the agent's records are asked again that could not be read: nothing may change in the file, and they
//! can be read again a moment later.
#![forbid(unsafe_code)]

use std::time::Duration;

/// Pauses between two tries, the last one again and again. Choices: a registry that is just written is whole
/// again within seconds, and a damaged one is looked at rarely.
const PAUSES: [Duration; 5] = [
  Duration::from_secs(2),
  Duration::from_secs(5),
  Duration::from_secs(15),
  Duration::from_mins(1),
  Duration::from_mins(10),
];

/// Whether there is something to ask again, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
  due: Option<Duration>,
  tries: usize,
}

impl Unread {
  /// Records could not be read.
  pub(super) fn failed(&mut self, now: Duration) {
    if self.due.is_none() {
      let pause = PAUSES.get(self.tries).or(PAUSES.last()).copied().unwrap_or_default();
      self.due = Some(now + pause);
      self.tries = self.tries.saturating_add(1);
    }
  }

  /// Records could be read.
  pub(super) fn succeeded(&mut self) {
    self.tries = 0;
  }

  /// Whether they are to be asked again now; then they are.
  pub(super) fn take(&mut self, now: Duration) -> bool {
    let is_due = self.due.is_some_and(|due| due <= now);
    if is_due {
      self.due = None;
    }
    is_due
  }

  /// How long until then.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    self.due.map(|due| due.saturating_sub(now))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn pauses_grow_until_records_can_be_read() {
    let mut unread = Unread::default();
    let at = Duration::from_secs;
    assert_eq!(unread.next_due(at(0)), None);
    unread.failed(at(0));
    unread.failed(at(1));
    assert_eq!(unread.next_due(at(1)), Some(at(1)), "one pause for all files");
    assert!(!unread.take(at(1)) && unread.take(at(2)) && !unread.take(at(3)));
    unread.failed(at(3));
    assert_eq!(unread.next_due(at(3)), Some(at(5)));
    unread.succeeded();
    assert!(unread.take(at(9)));
    unread.failed(at(9));
    assert_eq!(unread.next_due(at(9)), Some(at(2)));
  }
}
