//! Files that somebody keeps open: a change through a mapping makes no event and, for a while, no new
//! stamp, so such a file is read again once a minute. The timer exists only while there is such a file.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, time::Duration};

use super::service::seconds;
use crate::engine::Target;

/// How often a held-open file is read again (docs/adr/0002: a choice).
const EVERY: Duration = Duration::from_mins(1);

/// The files, and when each is due.
#[derive(Debug, Default)]
pub(super) struct Held {
  due: BTreeMap<Target, Duration>,
}

impl Held {
  /// It was read just now, and somebody has it open.
  pub(super) fn keep(&mut self, target: Target, now: Duration) {
    self.due.insert(target, now + EVERY);
  }

  /// Nobody has it open any more, or it is gone.
  pub(super) fn release(&mut self, target: &Target) {
    self.due.remove(target);
  }

  /// Whether somebody has it open.
  pub(super) fn is_kept(&self, target: &Target) -> bool {
    self.due.contains_key(target)
  }

  /// The files to read now.
  pub(super) fn take(&mut self, now: Duration) -> Vec<Target> {
    self.due.extract_if(.., |_, due| *due <= now).map(|(target, _)| target).collect()
  }

  /// How long until the next is due; `None` when there is none.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    self.due.values().min().map(|due| due.saturating_sub(now))
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeup(&self) -> Option<String> {
    let files = match self.due.len() {
      0 => return None,
      1 => "a file".to_owned(),
      n => format!("{n} files"),
    };
    Some(format!("reads {files} that somebody keeps open every {}", seconds(EVERY)))
  }
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;

  #[test]
  fn a_file_is_due_once_a_minute_until_it_is_let_go() {
    let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
    let mut held = Held::default();
    assert_eq!((held.next_due(EVERY), held.wakeup()), (None, None));
    held.keep(target.clone(), EVERY);
    assert_eq!(held.next_due(EVERY), Some(EVERY));
    assert_eq!(held.wakeup().as_deref(), Some("reads a file that somebody keeps open every 60 s"));
    assert!(held.take(EVERY + EVERY / 2).is_empty());
    assert_eq!(held.take(EVERY * 2), std::slice::from_ref(&target));
    assert_eq!(held.next_due(EVERY * 2), None);
    held.keep(target.clone(), EVERY);
    held.release(&target);
    assert_eq!(held.next_due(EVERY), None);
  }
}
