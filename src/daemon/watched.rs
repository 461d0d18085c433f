//! Taking in what has happened in the watched directories: an event only marks a file as dirty.
#![forbid(unsafe_code)]

use std::{os::fd::OwnedFd, path::Path, sync::Arc};

use super::Guard;
use crate::files::WatchEvent;

/// The key under which stands that events cannot be had.
const WATCH: &str = "watch";

impl Guard {
  /// Takes in what has happened in the directories; whether that is all, or nearly endless.
  pub fn listen(&mut self) -> bool {
    // Opens of our own are known before their events.
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

  /// Readable while there is something to [`Self::listen`] to; `None` while nothing can be watched.
  pub fn watched_by(&self) -> Option<Arc<OwnedFd>> {
    self.watcher.descriptor()
  }

  /// Takes an event in; nothing is opened here.
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
        // What was lost is found by looking, and by then it is known whether they can be read again.
        self.look_again(None);
      }
    }
  }

  pub(super) fn mark(&mut self, path: &Path) {
    let now = self.now();
    if let Some(target) = self.target(path) {
      self.queue.dirty(target, now);
    } else if path.is_symlink() != self.links.contains(path) || self.unreadable.contains(path) {
      // A link where a directory could be is told, and that it is gone is, too.
      self.look_again(Some(path));
    }
  }

  /// Somebody opened a file.
  fn note_open(&mut self, path: &Path) {
    let Some(target) = self.target(path) else { return };
    let now = self.now();
    let is_waiting = self.queue.is_known(&target);
    let is_foreign = self.readers.opened(&target, is_waiting.then_some(now));
    self.note_reader(&target, is_foreign);
    // A file that somebody keeps open is open here as well; whoever comes may need it to be closed.
    let is_held = is_foreign && self.held.kept(&target).is_some();
    if is_held || (self.readers.was_read(&target) && self.queue.is_dirty(&target)) {
      self.queue.dirty(target, now);
    }
  }
}
