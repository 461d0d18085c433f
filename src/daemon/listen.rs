//! Handling the events of watched directories: an event only marks a file as dirty.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{core::Core, open_files::OpenFiles, rescan::Rescans, skills::Skills};
use crate::{files::WatchEvent, store::PartKind};

/// Handles all events so far. Returns `false` if more may be waiting.
pub(super) fn listen(
  core: &mut Core,
  rescans: &mut Rescans,
  skills: &mut Skills,
  open_files: &OpenFiles,
) -> bool {
  // memfw's own opens must be counted before their events are handled.
  core.count_opens();
  let taken = core.watching.watcher.take();
  core.watching.heard.extend(taken.events);
  let was_deaf = std::mem::take(&mut core.watching.is_deaf);
  for event in std::mem::take(&mut core.watching.heard) {
    if let WatchEvent::Dirty(path) | WatchEvent::DirAdded(path) = &event {
      skills.note(path, core.now());
    }
    seen(core, rescans, open_files, &event);
  }
  if was_deaf && !core.watching.is_deaf {
    core.report(|core| core.engine.recovered(PartKind::Watch));
  }
  if taken.is_all {
    core.watching.readers.heard_all();
  }
  taken.is_all
}

/// Handles one event without opening any file.
fn seen(core: &mut Core, rescans: &mut Rescans, open_files: &OpenFiles, event: &WatchEvent) {
  match event {
    WatchEvent::Dirty(path) => {
      rescans.sources.note(path, core.now());
      rescans.mark(core, path);
    }
    WatchEvent::Closed(path) => {
      note_close(core, path);
      rescans.sources.note(path, core.now());
      rescans.mark(core, path);
    }
    WatchEvent::Opened(path) => note_open(core, open_files, path),
    WatchEvent::Released(path) => {
      if let Some(target) = core.directories.target(path)
        && let Some(kind) = open_files.kept(&target)
      {
        core.enqueue(kind, target);
      }
    }
    WatchEvent::DirAdded(path) => rescans.rescan_later(core, Some(path)),
    WatchEvent::RootGone(path) => {
      core.watching.watcher.remove(path);
      core.engine.files().forget_root(path);
      core.directories.locks.release(path);
      rescans.rescan_later(core, None);
    }
    WatchEvent::Rescan => {
      core.watching.readers.lost_some();
      rescans.rescan(core, "the watcher lost events");
    }
    WatchEvent::Limit(limit) => {
      let text = limit.to_string();
      core.report(|core| core.engine.degrade(PartKind::Watch, &text));
    }
    WatchEvent::Error(text) => {
      core.watching.is_deaf = true;
      core.watching.readers.lost_some();
      let why = format!("changes of directories cannot be read from the system: {text}");
      core.report(|core| core.engine.degrade(PartKind::Watch, &why));
      // The rescan finds what was lost, and by then events may be readable again.
      rescans.rescan_later(core, None);
    }
  }
}

/// A program opened a file.
fn note_open(core: &mut Core, open_files: &OpenFiles, path: &Path) {
  let Some(target) = core.directories.target(path) else { return };
  let now = core.now();
  let is_waiting = core.queue.is_known(&target);
  let is_foreign = core.watching.readers.opened(&target, is_waiting.then_some(now));
  if is_foreign {
    core.engine.files().opened_by_reader(&target);
  }
  // memfw also keeps an open file open; the next program may need memfw to close it.
  let is_held = is_foreign && open_files.kept(&target).is_some();
  if is_held || (core.watching.readers.was_read(&target) && core.queue.is_dirty(&target)) {
    core.queue.dirty(target, now);
  }
}

/// A writer closed a file.
fn note_close(core: &mut Core, path: &Path) {
  if let Some(target) = core.directories.target(path) {
    core.engine.files().closed_by_writer(&target);
    core.watching.readers.closed(target);
  }
}
