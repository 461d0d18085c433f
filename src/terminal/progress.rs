//! The progress of a long command, on standard error, for a person who watches.
//!
//! It appears only on a terminal and only after a while: scripts, logs and fast commands do not show it. It
//! is one line that is painted over, and removed before other output is written.
#![forbid(unsafe_code)]

use std::{
  io::{self, IsTerminal as _, Write as _},
  time::Duration,
};

use super::output::count;

/// The time from the start until the line of a command that works appears; before that no person misses it.
const AFTER: Duration = Duration::from_secs(2);
/// This time for a command that only waits, where a person wonders sooner what for.
const AFTER_WAITING: Duration = Duration::from_millis(500);
/// How often the line is painted.
const EVERY: Duration = Duration::from_millis(200);

/// The progress of a long command.
#[derive(Debug)]
pub struct Progress {
  what: &'static str,
  after: Duration,
  is_watched: bool,
  start: Duration,
  painted: Option<Duration>,
  is_shown: bool,
}

impl Progress {
  /// The progress of a command that begins now, on a monotonic clock, and counts `what`.
  pub fn new(what: &'static str, now: Duration) -> Self {
    let is_watched = io::stderr().is_terminal();
    Self { what, after: AFTER, is_watched, start: now, painted: None, is_shown: false }
  }

  /// The progress of a command that waits from now on, for what its lines say.
  pub fn waiting(now: Duration) -> Self {
    Self { after: AFTER_WAITING, ..Self::new("", now) }
  }

  /// Shows nothing if `is_quiet`.
  #[must_use]
  pub fn unless(self, is_quiet: bool) -> Self {
    Self { is_watched: self.is_watched && !is_quiet, ..self }
  }

  /// Shows a line about what is waited for; the line is made only if it is due.
  pub fn say(&mut self, line: impl FnOnce() -> String, now: Duration) {
    if self.is_due(now) {
      self.painted = Some(now);
      self.is_shown = true;
      paint(&line());
    }
  }

  /// Records the number that is done.
  pub fn at(&mut self, done: u64, now: Duration) {
    if let Some(line) = self.line(done, now) {
      self.is_shown = true;
      paint(&line);
    }
  }

  /// Removes the line before other output is written.
  pub fn clear(&mut self) {
    if std::mem::take(&mut self.is_shown) {
      paint("");
    }
  }

  fn is_due(&self, now: Duration) -> bool {
    let is_late = now.saturating_sub(self.start) >= self.after;
    let is_old = self.painted.is_none_or(|painted| now.saturating_sub(painted) >= EVERY);
    self.is_watched && is_late && is_old
  }

  /// The line to paint now, if any.
  fn line(&mut self, done: u64, now: Duration) -> Option<String> {
    if !self.is_due(now) {
      return None;
    }
    let elapsed = now.saturating_sub(self.start);
    self.painted = Some(now);
    let rate = (done as f64 / elapsed.as_secs_f64()).round();
    Some(format!("{}, {rate:.0} a second", count(done, self.what)))
  }
}

impl Drop for Progress {
  fn drop(&mut self) {
    self.clear();
  }
}

/// Replaces the line; a failure to write it is ignored.
fn paint(line: &str) {
  io::stderr().write_all(format!("\r\x1b[K{line}").as_bytes()).unwrap_or_default();
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn it_begins_late_and_is_painted_now_and_then() {
    let at = Duration::from_millis;
    let mut progress = Progress::new("line", at(1_000));
    progress.is_watched = true;
    assert_eq!(progress.line(10, at(2_999)), None);
    assert_eq!(progress.line(500, at(3_000)).as_deref(), Some("500 lines, 250 a second"));
    assert_eq!(progress.line(600, at(3_100)), None);
    assert_eq!(progress.line(800, at(3_200)).as_deref(), Some("800 lines, 364 a second"));
    progress.is_watched = false;
    assert_eq!(progress.line(900, at(9_000)), None);
  }

  #[test]
  fn what_is_waited_for_is_said_sooner() {
    let at = Duration::from_millis;
    let mut progress = Progress::waiting(at(1_000));
    progress.is_watched = true;
    assert!(!progress.is_due(at(1_499)));
    assert!(progress.is_due(at(1_500)));
    progress.is_watched = false;
    progress.say(|| unreachable!("nobody watches"), at(9_000));
  }
}
