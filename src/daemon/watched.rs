//! Handling the events of watched directories: an event only marks a file as dirty.
#![forbid(unsafe_code)]

use std::{os::fd::OwnedFd, path::Path, sync::Arc};

use super::Guard;
use crate::files::WatchEvent;

/// The key of the degradation when events are not available.
const WATCH: &str = "watch";

impl Guard {
  /// Handles all events so far. Returns `false` if more may be waiting.
  pub fn listen(&mut self) -> bool {
    // memfw's own opens must be counted before their events are handled.
    self.count_opens();
    let taken = self.watcher.take();
    self.heard.extend(taken.events);
    let was_deaf = std::mem::take(&mut self.is_deaf);
    for event in std::mem::take(&mut self.heard) {
      self.seen(&event);
    }
    if was_deaf && !self.is_deaf {
      self.report(|guard| guard.engine.recovered(WATCH));
    }
    if taken.is_all {
      self.readers.heard_all();
    }
    taken.is_all
  }

  /// The descriptor that is readable while [`Self::listen`] has events to take; `None` without inotify.
  pub fn watched_by(&self) -> Option<Arc<OwnedFd>> {
    self.watcher.descriptor()
  }

  /// Handles one event without opening any file.
  pub fn seen(&mut self, event: &WatchEvent) {
    match event {
      WatchEvent::Dirty(path) => {
        self.note_source(path);
        self.mark(path);
      }
      WatchEvent::Closed(path) => {
        self.note_close(path);
        self.note_source(path);
        self.mark(path);
      }
      WatchEvent::Opened(path) => self.note_open(path),
      WatchEvent::Released(path) => {
        if let Some(target) = self.target(path)
          && let Some(kind) = self.held.kept(&target)
        {
          self.try_held(kind, target);
        }
      }
      WatchEvent::DirAdded(path) => self.look_again(Some(path)),
      WatchEvent::RootGone(path) => {
        self.watcher.remove(path);
        self.engine.forget_root(path);
        self.locks.release(path);
        self.look_again(None);
      }
      WatchEvent::Rescan => {
        self.readers.lost_some();
        self.rescan("the watcher lost events");
      }
      WatchEvent::Limit(limit) => {
        let text = limit.to_string();
        self.report(|guard| guard.engine.degrade(WATCH, &text));
      }
      WatchEvent::Error(text) => {
        self.is_deaf = true;
        self.readers.lost_some();
        let why = format!("changes of directories cannot be read from the system: {text}");
        self.report(|guard| guard.engine.degrade(WATCH, &why));
        // The rescan finds what was lost, and by then events may be readable again.
        self.look_again(None);
      }
    }
  }

  pub(super) fn mark(&mut self, path: &Path) {
    let now = self.now();
    if let Some(target) = self.target(path) {
      self.queue.dirty(target, now);
    } else if path.is_symlink() != self.links.contains(path) || self.unreadable.contains(path) {
      // A link in place of a directory is reported, and so is its end.
      self.look_again(Some(path));
    }
  }

  /// A program opened a file.
  fn note_open(&mut self, path: &Path) {
    let Some(target) = self.target(path) else { return };
    let now = self.now();
    let is_waiting = self.queue.is_known(&target);
    let is_foreign = self.readers.opened(&target, is_waiting.then_some(now));
    self.note_reader(&target, is_foreign);
    // memfw also keeps an open file open; the next program may need memfw to close it.
    let is_held = is_foreign && self.held.kept(&target).is_some();
    if is_held || (self.readers.was_read(&target) && self.queue.is_dirty(&target)) {
      self.queue.dirty(target, now);
    }
  }
}
