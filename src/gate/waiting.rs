//! Which readers wait for which file, and until when. Pure: time is a parameter, readers are
//! returned.
//!
//! All readers of one file wait for one question. A reader leaves when the question is answered, at
//! its deadline, or when no daemon is connected. A daemon that sends nothing until a deadline is
//! not asked again until it sends something, so that its silence costs one wait and not one per
//! reader; for a file that was not passed in time no reader waits for the length of the bound.
#![forbid(unsafe_code)]

use std::{collections::HashMap, time::Duration};

use super::Why;

/// Device and inode number.
pub type FileId = (u64, u64);

/// Readers that wait at once; each holds a descriptor. Ten times what an agent was seen to open.
pub const MAX_WAITING: usize = 256;

/// What to do about a new reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<R> {
  /// Ask the daemon about the file, under this number.
  Ask(u32),
  /// The question was already sent.
  Waits,
  /// Waiting is not possible.
  LetThrough(R, Why),
}

/// All waiting readers.
#[derive(Debug)]
pub struct Waiting<R> {
  max_wait: Duration,
  files: HashMap<FileId, File<R>>,
  questions: HashMap<u32, FileId>,
  next_id: u32,
  n_readers: usize,
  /// When the daemon last sent a message.
  heard_at: Duration,
  silent: bool,
  /// Files for which no reader waits until the given time.
  given_up: HashMap<FileId, Duration>,
}

#[derive(Debug)]
struct File<R> {
  asked_at: Duration,
  readers: Vec<(Duration, R)>,
}

impl<R> Waiting<R> {
  /// No readers; each would wait for at most `max_wait`.
  pub fn new(max_wait: Duration) -> Self {
    Self {
      max_wait,
      files: HashMap::new(),
      questions: HashMap::new(),
      next_id: 0,
      n_readers: 0,
      heard_at: Duration::ZERO,
      silent: false,
      given_up: HashMap::new(),
    }
  }

  /// Sets the longest wait of new readers.
  pub fn set_max_wait(&mut self, max_wait: Duration) {
    self.max_wait = max_wait;
  }

  /// The longest wait of a reader.
  pub fn max_wait(&self) -> Duration {
    self.max_wait
  }

  /// Adds a reader of a file. `until` is the deadline of a reader that waited for another question.
  pub fn arrive(
    &mut self,
    file: FileId,
    reader: R,
    until: Option<Duration>,
    now: Duration,
  ) -> Arrival<R> {
    if self.silent {
      return Arrival::LetThrough(reader, Why::Silent);
    }
    if self.n_readers >= MAX_WAITING {
      return Arrival::LetThrough(reader, Why::Crowd);
    }
    if let Some(end) = self.given_up.get(&file) {
      if now < *end {
        return Arrival::LetThrough(reader, Why::Slow);
      }
      self.given_up.remove(&file);
    }
    self.n_readers += 1;
    let deadline = until.unwrap_or(now + self.max_wait);
    if let Some(known) = self.files.get_mut(&file) {
      known.readers.push((deadline, reader));
      return Arrival::Waits;
    }
    self.next_id = self.next_id.wrapping_add(1);
    self.questions.insert(self.next_id, file);
    self.files.insert(file, File { asked_at: now, readers: vec![(deadline, reader)] });
    Arrival::Ask(self.next_id)
  }

  /// Records a message of the daemon; returns whether it ends a silence.
  pub fn heard(&mut self, now: Duration) -> bool {
    self.heard_at = now;
    std::mem::take(&mut self.silent)
  }

  /// Ends a question: returns its readers, with their deadlines.
  pub fn answered(&mut self, id: u32) -> Vec<(Duration, R)> {
    let Some(file) = self.questions.remove(&id) else { return Vec::new() };
    let readers = self.files.remove(&file).map(|file| file.readers).unwrap_or_default();
    self.n_readers -= readers.len();
    readers
  }

  /// Records that the bytes of a file were passed, for any question.
  pub fn passed(&mut self, file: FileId) {
    self.given_up.remove(&file);
  }

  /// Readers whose deadline has passed, and why they waited in vain.
  pub fn overdue(&mut self, now: Duration) -> Vec<(R, Why)> {
    let mut gone = Vec::new();
    self.given_up.retain(|_, end| now < *end);
    for (id, file) in &mut self.files {
      let late: Vec<R> =
        file.readers.extract_if(.., |(end, _)| *end <= now).map(|(_, r)| r).collect();
      if late.is_empty() {
        continue;
      }
      let why = if self.heard_at < file.asked_at { Why::Silent } else { Why::Slow };
      if why == Why::Silent {
        self.silent = true;
      } else {
        self.given_up.insert(*id, now + self.max_wait);
      }
      gone.extend(late.into_iter().map(|reader| (reader, why)));
    }
    self.n_readers -= gone.len();
    if self.silent {
      gone.extend(self.leave().into_iter().map(|reader| (reader, Why::Silent)));
    }
    let files = &mut self.files;
    files.retain(|_, file| !file.readers.is_empty());
    self.questions.retain(|_, file| files.contains_key(file));
    gone
  }

  /// When the next reader has waited for too long, by a monotonic clock; `None` without readers.
  pub fn next_deadline(&self) -> Option<Duration> {
    self.files.values().flat_map(|file| &file.readers).map(|(end, _)| *end).min()
  }

  /// No daemon is connected: returns all waiting readers.
  pub fn leave(&mut self) -> Vec<R> {
    self.questions.clear();
    self.n_readers = 0;
    self.files.drain().flat_map(|(_, file)| file.readers).map(|(_, reader)| reader).collect()
  }

  /// Starts again with a new daemon.
  pub fn restart(&mut self, now: Duration) {
    self.heard(now);
    self.given_up.clear();
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  const FILE: FileId = (1, 2);
  const OTHER: FileId = (1, 3);

  const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
  }

  fn waiting() -> Waiting<&'static str> {
    Waiting::new(ms(100))
  }

  #[test]
  fn readers_of_one_file_wait_for_one_question() {
    let mut waiting = waiting();
    assert_eq!(waiting.next_deadline(), None);
    assert_eq!(waiting.arrive(FILE, "a", None, ms(0)), Arrival::Ask(1));
    assert_eq!(waiting.arrive(FILE, "b", None, ms(5)), Arrival::Waits);
    assert_eq!(waiting.arrive(OTHER, "c", None, ms(6)), Arrival::Ask(2));
    assert_eq!(waiting.next_deadline(), Some(ms(100)));
    assert_eq!(waiting.answered(1), [(ms(100), "a"), (ms(105), "b")]);
    assert_eq!(waiting.answered(1), []);
    assert_eq!(waiting.answered(77), []);
    assert_eq!(waiting.next_deadline(), Some(ms(106)));
    // Bytes that have changed are asked about again, but no reader waits longer for that.
    assert_eq!(waiting.arrive(FILE, "a", Some(ms(100)), ms(90)), Arrival::Ask(3));
    waiting.heard(ms(91));
    assert_eq!(waiting.overdue(ms(100)), [("a", Why::Slow)]);
  }

  #[test]
  fn a_silent_daemon_is_waited_for_once() {
    let mut waiting = waiting();
    waiting.arrive(FILE, "a", None, ms(10));
    waiting.arrive(OTHER, "b", None, ms(50));
    assert_eq!(waiting.overdue(ms(109)), []);
    let gone = waiting.overdue(ms(110));
    assert_eq!(gone, [("a", Why::Silent), ("b", Why::Silent)]);
    assert_eq!(waiting.arrive(OTHER, "c", None, ms(111)), Arrival::LetThrough("c", Why::Silent));
    assert_eq!(waiting.next_deadline(), None);
    // A late answer shows that the daemon is alive.
    assert!(waiting.heard(ms(112)) && !waiting.heard(ms(112)));
    assert!(matches!(waiting.arrive(OTHER, "d", None, ms(113)), Arrival::Ask(_)));
  }

  #[test]
  fn a_file_that_is_not_passed_is_given_up_for_a_while_and_others_are_not() {
    let mut waiting = waiting();
    waiting.arrive(FILE, "a", None, ms(0));
    waiting.heard(ms(50));
    assert_eq!(waiting.overdue(ms(100)), [("a", Why::Slow)]);
    assert_eq!(waiting.arrive(FILE, "a", None, ms(101)), Arrival::LetThrough("a", Why::Slow));
    assert!(matches!(waiting.arrive(OTHER, "b", None, ms(102)), Arrival::Ask(_)));
    assert!(matches!(waiting.arrive(FILE, "a", None, ms(200)), Arrival::Ask(_)));
    waiting.heard(ms(200));
    assert_eq!(waiting.overdue(ms(300)).len(), 2);
    waiting.passed(FILE);
    assert!(matches!(waiting.arrive(FILE, "a", None, ms(301)), Arrival::Ask(_)));
  }

  #[test]
  fn a_crowd_is_bounded_and_room_comes_back() {
    let mut waiting = waiting();
    for n in 0..MAX_WAITING as u64 {
      assert!(!matches!(waiting.arrive((0, n % 7), "a", None, ms(0)), Arrival::LetThrough(..)));
    }
    let arrival = waiting.arrive(OTHER, "z", None, ms(1));
    assert_eq!(arrival, Arrival::LetThrough("z", Why::Crowd));
    let freed = waiting.answered(1).len();
    assert!(freed > 30);
    assert!(matches!(waiting.arrive(OTHER, "z", None, ms(1)), Arrival::Ask(_)));
    assert_eq!(waiting.leave().len(), MAX_WAITING - freed + 1);
    assert_eq!(waiting.next_deadline(), None);
  }
}
