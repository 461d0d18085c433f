//! Detects the agent's verifying read by the lease: while another program has the file open, no lease
//! is granted.
//!
//! Events come late, and equal ones are merged. So while the read is expected (measured: it opens 0.22
//! to 0.41 ms after the writer's close and is done after 0.34 to 0.55 ms), memfw requests the lease
//! repeatedly instead. It holds each lease only briefly, because the reader would have to wait.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::Hint;
use crate::{
  files::{MemoryFile, Stamp},
  os::Clock,
};

/// The pause between two requests.
const PROBE: Duration = Duration::from_micros(200);
/// How long requests are repeated: four times the measured time. Later reads are detected by their
/// event.
const WATCH: Duration = Duration::from_millis(2);

/// What was observed about a file when it was read.
#[derive(Default)]
pub(super) struct Sight<'w> {
  /// Its stamp; `None` if it was not read.
  pub stamp: Option<Stamp>,
  /// Whether another program waited for the lease.
  pub awaited: bool,
  /// Says whether another program has opened the file since a writer closed it.
  pub was_read: Option<&'w mut dyn FnMut(u32) -> bool>,
}

impl Sight<'_> {
  /// Whether another program has read this version; the lease shows that it has closed the file again.
  /// `n_opens` is the number of memfw's own opens.
  pub(super) fn was_read(&mut self, hint: &Hint, n_opens: usize) -> bool {
    let Some(was_read) = &mut self.was_read else { return hint.opened_since_close };
    was_read(u32::try_from(n_opens).unwrap_or(u32::MAX))
  }
}

/// Waits until another program has opened and closed the file, and says whether one did. Then the lease
/// is held again.
///
/// `free`: no other program had the file open at some time after its last change. `awaited`: another
/// program waited for the lease under which the file was read.
pub(super) fn came_and_went<M: MemoryFile>(
  file: &mut M,
  clock: &dyn Clock,
  free: bool,
  awaited: bool,
) -> bool {
  let (mut free, mut here) = (free, awaited);
  let end = clock.monotonic() + WATCH;
  while clock.monotonic() < end {
    clock.pause(PROBE);
    match file.try_lease() {
      // A program whose open waited for the last lease may not have come to it yet, and waits again.
      Ok(true) if here && !file.is_awaited() => return true,
      Ok(true) => {
        // A program that opens the file at this moment can be detected only now.
        here |= file.is_awaited();
        file.release();
        free = true;
      }
      Ok(false) => here |= free,
      Err(_) => return false,
    }
  }
  false
}
