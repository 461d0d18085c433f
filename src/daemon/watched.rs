//! Handling the events of watched directories: an event only marks a file as dirty.
#![forbid(unsafe_code)]

use std::{collections::VecDeque, os::fd::OwnedFd, path::Path, sync::Arc};

use super::{Daemon, readers::Readers};
use crate::{
  engine::Target,
  files::{WatchEvent, Watcher},
};

/// The key of the degradation when events are not available.
const WATCH: &str = "watch";

/// What the watcher tells, and what is known from that about readers.
pub(super) struct Watching {
  pub(super) watcher: Watcher,
  /// Events that were taken from the watcher during a pass and are not handled yet.
  pub(super) heard: VecDeque<WatchEvent>,
  /// Whether the last attempt to read events failed.
  pub(super) is_deaf: bool,
  /// Which files were opened by a reader after their last close by a writer.
  pub(super) readers: Readers,
}

impl Watching {
  pub(super) fn by(watcher: Watcher) -> Self {
    Self { watcher, heard: VecDeque::new(), is_deaf: false, readers: Readers::default() }
  }

  /// Whether a reader has read a file since its last close by a writer, by the events so far; `own_opens` is
  /// how often memfw itself has opened it. The events are handled after the pass.
  pub(super) fn was_read(&mut self, target: &Target, own_opens: u32) -> bool {
    let taken = self.watcher.take();
    self.heard.extend(taken.events);
    taken.is_all && self.readers.would_be_read(target, own_opens, &self.heard)
  }
}

impl Daemon {
  /// Handles all events so far. Returns `false` if more may be waiting.
  pub fn listen(&mut self) -> bool {
    // memfw's own opens must be counted before their events are handled.
    self.count_opens();
    let taken = self.watching.watcher.take();
    self.watching.heard.extend(taken.events);
    let was_deaf = std::mem::take(&mut self.watching.is_deaf);
    for event in std::mem::take(&mut self.watching.heard) {
      self.seen(&event);
    }
    if was_deaf && !self.watching.is_deaf {
      self.report(|daemon| daemon.engine.recovered(WATCH));
    }
    if taken.is_all {
      self.watching.readers.heard_all();
    }
    taken.is_all
  }

  /// The descriptor that is readable while [`Self::listen`] has events to take; `None` without inotify.
  pub fn watched_by(&self) -> Option<Arc<OwnedFd>> {
    self.watching.watcher.descriptor()
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
          && let Some(kind) = self.open_files.kept(&target)
        {
          self.enqueue(kind, target);
        }
      }
      WatchEvent::DirAdded(path) => self.rescan_later(Some(path)),
      WatchEvent::RootGone(path) => {
        self.watching.watcher.remove(path);
        self.engine.files().forget_root(path);
        self.directories.locks.release(path);
        self.rescan_later(None);
      }
      WatchEvent::Rescan => {
        self.watching.readers.lost_some();
        self.rescan("the watcher lost events");
      }
      WatchEvent::Limit(limit) => {
        let text = limit.to_string();
        self.report(|daemon| daemon.engine.degrade(WATCH, &text));
      }
      WatchEvent::Error(text) => {
        self.watching.is_deaf = true;
        self.watching.readers.lost_some();
        let why = format!("changes of directories cannot be read from the system: {text}");
        self.report(|daemon| daemon.engine.degrade(WATCH, &why));
        // The rescan finds what was lost, and by then events may be readable again.
        self.rescan_later(None);
      }
    }
  }

  pub(super) fn mark(&mut self, path: &Path) {
    let now = self.now();
    if let Some(target) = self.target(path) {
      self.queue.dirty(target, now);
    } else if path.is_symlink() != self.directories.links.contains(path)
      || self.directories.unreadable.contains(path)
    {
      // A link in place of a directory is reported, and so is its end.
      self.rescan_later(Some(path));
    }
  }

  /// A program opened a file.
  fn note_open(&mut self, path: &Path) {
    let Some(target) = self.target(path) else { return };
    let now = self.now();
    let is_waiting = self.queue.is_known(&target);
    let is_foreign = self.watching.readers.opened(&target, is_waiting.then_some(now));
    self.note_reader(&target, is_foreign);
    // memfw also keeps an open file open; the next program may need memfw to close it.
    let is_held = is_foreign && self.open_files.kept(&target).is_some();
    if is_held || (self.watching.readers.was_read(&target) && self.queue.is_dirty(&target)) {
      self.queue.dirty(target, now);
    }
  }
}
