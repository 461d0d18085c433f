//! Reads the lines of the plugin in a thread of its own, so that the time when a line came is known even while
//! another one is judged.
#![forbid(unsafe_code)]

use std::{
  io,
  sync::mpsc::{Receiver, sync_channel},
  thread,
  time::Duration,
};

use crate::{
  link::limits::MAX_LINE_BYTES,
  os::{Clock as _, SystemClock},
  terminal::{
    failure::{Failure, reason},
    lines::{Line, Lines},
  },
};

/// The most chunks of lines that wait (a choice: a plugin bounds the number of calls that wait itself).
const MAX_CHUNKS: usize = 8;

/// Lines, and when they came.
pub(super) type Chunk = Result<(Duration, Vec<Line>), Failure>;

/// The lines of standard input until its end.
pub(super) fn chunks() -> Result<Receiver<Chunk>, Failure> {
  let (sender, receiver) = sync_channel(MAX_CHUNKS);
  let read = move || {
    // One byte more shows that a line is too long.
    let mut lines = Lines::new(io::stdin().lock(), MAX_LINE_BYTES as u64 + 1);
    loop {
      let chunk = lines.chunk().map_err(|error| {
        Failure::unavailable(format!("cannot read standard input: {}", reason(&error)))
      });
      let is_end = chunk.as_ref().is_ok_and(Vec::is_empty);
      let is_over = chunk.is_err();
      let chunk = chunk.map(|lines| (SystemClock.monotonic(), lines));
      if is_end || sender.send(chunk).is_err() || is_over {
        return;
      }
    }
  };
  start("link-reader", read)?;
  Ok(receiver)
}

/// Starts a thread.
pub(super) fn start(
  name: &str,
  work: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Failure> {
  let begun = thread::Builder::new().name(name.to_owned()).spawn(work);
  begun.map_err(|error| Failure::unavailable(format!("no thread starts: {}", reason(&error))))
}
