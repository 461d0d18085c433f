//! Lines of the log on their way to standard error, written by a thread of their own.
//!
//! The reader of the log may stop reading: a pager, a terminal that was halted, a collector that hangs. The daemon
//! must guard nevertheless, so nothing waits for the reader: lines that find no room are dropped and counted.
#![forbid(unsafe_code)]

use std::{
  io::{self, Write},
  sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    mpsc::{SyncSender, sync_channel},
  },
  thread,
  time::Duration,
};

use crate::os::{Clock as _, SystemClock, pause};

/// Lines that may wait: more than a first scan of a large workspace logs in a second.
const MAX_LINES: usize = 4096;
/// A longer line is cut, in bytes; a line has names and counts, and no memory text.
const MAX_LINE: usize = 16 * 1024;
/// How long the last lines are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often memfw checks whether the lines are written.
const LOOK: Duration = Duration::from_millis(1);

/// The queue; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogQueue {
  lines: SyncSender<Vec<u8>>,
  shared: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
  waiting: AtomicUsize,
  dropped: AtomicU64,
}

impl LogQueue {
  /// Starts the thread, which writes to `target`; after lines were dropped it calls `tell` with their number.
  pub fn start(
    mut target: impl Write + Send + 'static,
    tell: impl Fn(u64) + Send + 'static,
  ) -> io::Result<Self> {
    let (lines, waiting) = sync_channel::<Vec<u8>>(MAX_LINES);
    let shared = Arc::new(Counts::default());
    let counts = Arc::clone(&shared);
    thread::Builder::new().name("log".to_owned()).spawn(move || {
      while let Ok(line) = waiting.recv() {
        // A failure of standard error cannot be reported anywhere.
        target.write_all(&line).and_then(|()| target.flush()).unwrap_or_default();
        counts.waiting.fetch_sub(1, SeqCst);
        match counts.dropped.swap(0, SeqCst) {
          0 => {}
          n => tell(n),
        }
      }
    })?;
    Ok(Self { lines, shared })
  }

  /// Waits, for a moment at most, until all lines are written: the process ends.
  pub fn flush(&self) {
    let until = SystemClock.monotonic() + LAST_WORDS;
    while self.shared.waiting.load(SeqCst) > 0 && SystemClock.monotonic() < until {
      pause(LOOK);
    }
  }
}

impl Write for LogQueue {
  fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
    let line = bytes.get(..MAX_LINE).unwrap_or(bytes).to_vec();
    self.shared.waiting.fetch_add(1, SeqCst);
    if self.lines.try_send(line).is_err() {
      self.shared.waiting.fetch_sub(1, SeqCst);
      self.shared.dropped.fetch_add(1, SeqCst);
    }
    Ok(bytes.len())
  }

  fn flush(&mut self) -> io::Result<()> {
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use std::sync::Mutex;

  use super::*;

  #[derive(Clone, Default)]
  struct Slow {
    written: Arc<Mutex<Vec<u8>>>,
    gate: Arc<Mutex<()>>,
  }

  impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
      drop(self.gate.lock().unwrap());
      self.written.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
      Ok(())
    }
  }

  #[test]
  fn a_reader_that_does_not_read_stops_nobody_and_hears_what_it_missed() {
    let slow = Slow::default();
    let told = Arc::new(AtomicU64::new(0));
    let tell = Arc::clone(&told);
    let mut queue = LogQueue::start(slow.clone(), move |n| {
      tell.fetch_add(n, SeqCst);
    })
    .unwrap();
    let closed = slow.gate.lock().unwrap();
    let n_lines = MAX_LINES + 100;
    for _ in 0..n_lines {
      queue.write_all(b"line\n").unwrap();
    }
    drop(closed);
    queue.flush();
    let n_written = slow.written.lock().unwrap().len() / 5;
    let n_dropped = told.load(SeqCst) as usize;
    assert!(n_dropped >= 99, "{n_dropped}");
    assert_eq!(n_written + n_dropped, n_lines);
  }
}
