//! What the watcher tells, and what is known from that about readers.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::readers::Readers;
use crate::{
  engine::Target,
  files::{WatchEvent, Watcher},
};

/// What the watcher tells, and what is known from that about readers.
pub(super) struct Watching {
  pub(super) watcher: Watcher,
  /// Events that were taken from the watcher during a pass and are not handled yet.
  pub(super) heard: VecDeque<WatchEvent>,
  /// Whether the last attempt to read events failed.
  pub(super) is_deaf: bool,
  /// Which files were opened by a reader after their last close by a writer.
  pub(super) readers: Readers,
  /// Grows with each directory that is watched from then on.
  pub(super) generation: u64,
}

impl Watching {
  pub(super) fn by(watcher: Watcher) -> Self {
    Self {
      watcher,
      heard: VecDeque::new(),
      is_deaf: false,
      readers: Readers::default(),
      generation: 1,
    }
  }

  /// Whether a reader has read a file since its last close by a writer, by the events so far; `own_opens` is
  /// how often memfw itself has opened it. The events are handled after the pass.
  pub(super) fn was_read(&mut self, target: &Target, own_opens: u32) -> bool {
    let taken = self.watcher.take();
    self.heard.extend(taken.events);
    taken.is_all && self.readers.would_be_read(target, own_opens, &self.heard)
  }
}
