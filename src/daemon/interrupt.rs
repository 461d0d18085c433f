//! What interrupts the pass of a large file: the end of the process, a question of the gate, another
//! file. Each is seen without the loop, which is busy with the pass.
#![forbid(unsafe_code)]

use std::{
  os::fd::OwnedFd,
  sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
  },
  thread,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::signals::Signals;
use crate::judging::slices::Interrupt;

/// The reasons to interrupt a pass.
#[derive(Clone, Default)]
pub(super) struct Interrupts {
  terminate: Arc<AtomicBool>,
  others: Arc<AtomicBool>,
  is_asked: Arc<AtomicBool>,
  events: Arc<Mutex<Option<Arc<OwnedFd>>>>,
}

impl Interrupts {
  /// Whether the gate asked a question that was not taken yet.
  pub(super) fn is_asked(&self) -> bool {
    self.is_asked.load(SeqCst)
  }

  /// What the gate sets with each question.
  pub(super) fn gate_flag(&self) -> &Arc<AtomicBool> {
    &self.is_asked
  }

  /// Called before work on a file: whether other files wait, and the descriptor on which further events
  /// show.
  pub(super) fn set(&self, others: bool, events: Option<Arc<OwnedFd>>) {
    self.others.store(others, SeqCst);
    *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
  }

  /// The check that the engine calls during a pass.
  pub(super) fn asked(&self) -> Interrupt {
    let this = self.clone();
    Arc::new(move || this.is_wanted())
  }

  fn is_wanted(&self) -> bool {
    let flags = [&self.terminate, &self.is_asked, &self.others];
    flags.into_iter().any(|flag| flag.load(SeqCst)) || self.has_events()
  }

  fn has_events(&self) -> bool {
    let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(events) = &*events else { return false };
    let mut one = [PollFd::new(events, PollFlags::IN)];
    poll(&mut one, Some(&Timespec::default())).is_ok_and(|n| n > 0)
  }

  /// Waits for signals on a thread of its own, because the loop sees them only between two pieces of
  /// work.
  pub(super) fn hear_signals(&self) -> std::io::Result<()> {
    let terminate = Arc::clone(&self.terminate);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let wait = move || {
      runtime.block_on(async {
        if let Ok(mut signals) = Signals::new() {
          signals.until_end().await;
          terminate.store(true, SeqCst);
        }
      });
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use std::io::Write as _;

  use super::*;

  #[test]
  fn each_of_them_interrupts() {
    let interrupts = Interrupts::default();
    let is_asked = interrupts.gate_flag();
    let asked = interrupts.asked();
    assert!(!asked());
    is_asked.store(true, SeqCst);
    assert!(asked());
    is_asked.store(false, SeqCst);
    interrupts.set(true, None);
    assert!(asked());
    let (reader, mut writer) = std::io::pipe().unwrap();
    interrupts.set(false, Some(Arc::new(reader.into())));
    assert!(!asked());
    writer.write_all(b"x").unwrap();
    assert!(asked());
    interrupts.set(false, None);
    interrupts.terminate.store(true, SeqCst);
    assert!(asked());
  }
}
