//! Which process wrote a file recently, so that its own verifying read need not wait. Pure.
//!
//! A process is let through to a file of which it is the only writer since the file was last
//! passed: it knows the bytes already. Writers are forgotten after the longest wait of a reader,
//! because by then the gate would let every reader through anyway.
#![forbid(unsafe_code)]

use std::{collections::HashMap, time::Duration};

use super::waiting::FileId;

/// Largest number of files; above it, every reader waits for a while.
const MAX_FILES: usize = 4096;
/// Largest number of writers per file; the second one already makes all readers wait.
const MAX_WRITERS: usize = 4;

/// The writers of each file.
#[derive(Debug, Default)]
pub struct Writers {
  files: HashMap<FileId, Vec<(i32, Duration)>>,
  /// A record was dropped early: until this time no process counts as the only writer.
  unsure_until: Duration,
}

impl Writers {
  /// Records a write of a process. `memory` is how long the record counts.
  pub fn note(&mut self, file: FileId, pid: i32, now: Duration, memory: Duration) {
    if self.files.len() >= MAX_FILES && !self.files.contains_key(&file) {
      self.files.retain(|_, writers| writers.iter().any(|(_, at)| now < *at + memory));
      if self.files.len() >= MAX_FILES {
        self.lost(now, memory);
      }
    }
    let writers = self.files.entry(file).or_default();
    writers.retain(|(other, at)| *other != pid && now < *at + memory);
    if writers.len() < MAX_WRITERS {
      writers.push((pid, now));
    }
  }

  /// Records that some writers are not known.
  pub fn lost(&mut self, now: Duration, memory: Duration) {
    self.files.clear();
    self.unsure_until = now + memory;
  }

  /// Records that everything in the file was passed.
  pub fn passed(&mut self, file: FileId) {
    self.files.remove(&file);
  }

  /// Whether this process alone has written the file.
  pub fn is_only(&self, file: FileId, pid: i32, now: Duration, memory: Duration) -> bool {
    // A process without a number in this namespace could be any process.
    let Some(writers) = self.files.get(&file).filter(|_| pid != 0 && now >= self.unsure_until)
    else {
      return false;
    };
    let mut lately = writers.iter().filter(|(_, at)| now < *at + memory).peekable();
    lately.peek().is_some() && lately.all(|(writer, _)| *writer == pid)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const FILE: FileId = (1, 2);
  const MEMORY: Duration = ms(2000);

  const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
  }

  fn is_only(writers: &Writers, pid: i32, now: u64) -> bool {
    writers.is_only(FILE, pid, ms(now), MEMORY)
  }

  #[test]
  fn only_a_lone_writer_is_let_through() {
    let mut writers = Writers::default();
    assert!(!is_only(&writers, 7, 1));
    writers.note(FILE, 7, ms(1), MEMORY);
    writers.note(FILE, 7, ms(2), MEMORY);
    assert!(is_only(&writers, 7, 3) && !is_only(&writers, 8, 3));
    writers.note(FILE, 8, ms(4), MEMORY);
    assert!(!is_only(&writers, 7, 5) && !is_only(&writers, 8, 5));
    // A pass clears the writers.
    writers.passed(FILE);
    assert!(!is_only(&writers, 8, 6));
    writers.note(FILE, 8, ms(7), MEMORY);
    assert!(is_only(&writers, 8, 8));
  }

  #[test]
  fn writers_count_for_as_long_as_readers_wait() {
    let mut writers = Writers::default();
    writers.note(FILE, 7, ms(0), MEMORY);
    writers.note(FILE, 8, ms(1999), MEMORY);
    assert!(!is_only(&writers, 8, 1999));
    assert!(is_only(&writers, 8, 2000));
    assert!(!is_only(&writers, 8, 4000));
  }

  #[test]
  fn one_without_a_number_is_nobody() {
    let mut writers = Writers::default();
    writers.note(FILE, 0, ms(0), MEMORY);
    assert!(!is_only(&writers, 0, 1));
  }

  #[test]
  fn what_was_forgotten_too_early_makes_everybody_wait() {
    let mut writers = Writers::default();
    for n in 0..MAX_FILES as u64 {
      writers.note((0, n), 7, ms(1), MEMORY);
    }
    writers.note(FILE, 8, ms(1), MEMORY);
    assert!(!is_only(&writers, 8, 2000));
    writers.note(FILE, 8, ms(2001), MEMORY);
    assert!(is_only(&writers, 8, 2002));
    // Expired records make room without that.
    for n in 0..MAX_FILES as u64 {
      writers.note((1, n), 7, ms(2002), MEMORY);
    }
    writers.note(FILE, 8, ms(9000), MEMORY);
    assert!(is_only(&writers, 8, 9001));
  }
}
