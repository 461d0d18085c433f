//! The events that the kernel really sends.

use std::{
  fs::{self, File, OpenOptions},
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
  },
  time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::os::{Clock as _, SystemClock};

const DEADLINE: Duration = Duration::from_secs(10);

/// A watcher, and the events that were taken from it and not checked yet.
struct Watch {
  watcher: Watcher,
  events: Vec<WatchEvent>,
}

impl Watch {
  fn new() -> Self {
    Self { watcher: Watcher::new().unwrap(), events: Vec::new() }
  }

  fn add(&mut self, dir: &Path) {
    self.watcher.add(dir).unwrap();
  }

  /// The next event; `None` when none comes in time.
  fn next(&mut self) -> Option<WatchEvent> {
    let deadline = SystemClock.monotonic() + DEADLINE;
    while self.events.is_empty() {
      let left = deadline.saturating_sub(SystemClock.monotonic());
      let wait = Timespec::try_from(left).unwrap();
      let descriptor = self.watcher.descriptor().unwrap();
      if poll(&mut [PollFd::new(&*descriptor, PollFlags::IN)], Some(&wait)).unwrap() == 0 {
        return None;
      }
      self.events = self.watcher.take().events;
    }
    Some(self.events.remove(0))
  }

  /// All events up to the one that is waited for.
  #[track_caller]
  fn until(&mut self, last: &WatchEvent) -> Vec<WatchEvent> {
    let mut seen = Vec::new();
    while seen.last() != Some(last) {
      let Some(event) = self.next() else { panic!("no {last:?}; seen: {seen:?}") };
      seen.push(event);
    }
    seen
  }

  /// Follows the rules for callers, until `wanted` was seen by an event or by listing.
  #[track_caller]
  fn guard(&mut self, wanted: &Path) {
    loop {
      match self.next().expect("the file was not seen in time") {
        WatchEvent::RootGone(dir) | WatchEvent::DirAdded(dir)
          if self.watcher.add(&dir).is_ok() && wanted.exists() =>
        {
          return;
        }
        WatchEvent::Dirty(path) | WatchEvent::Closed(path) if path == wanted => return,
        _ => {}
      }
    }
  }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer and the reader")]
fn open_and_writers_close_are_reported_by_default() {
  let dir = tempfile::tempdir().unwrap();
  let file = dir.path().join("MEMORY.md");
  let mut watch = Watch::new();
  watch.add(dir.path());
  fs::write(&file, "- a\n").unwrap();
  let seen = watch.until(&WatchEvent::Closed(file.clone()));
  assert!(seen.contains(&WatchEvent::Dirty(file.clone())), "{seen:?}");
  fs::read(&file).unwrap();
  let seen = watch.until(&WatchEvent::Opened(file.clone()));
  // A reader's close changes nothing, and is not reported.
  assert!(!seen.contains(&WatchEvent::Closed(file)), "{seen:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn a_file_that_lands_by_rename_is_whole_and_one_that_goes_is_reported() {
  let dir = tempfile::tempdir().unwrap();
  let outside = tempfile::tempdir().unwrap();
  let mut watch = Watch::new();
  watch.add(dir.path());
  let file = dir.path().join("MEMORY.md");
  fs::write(outside.path().join("t"), "- a\n").unwrap();
  fs::rename(outside.path().join("t"), &file).unwrap();
  watch.until(&WatchEvent::Closed(file.clone()));
  fs::remove_file(&file).unwrap();
  watch.until(&WatchEvent::Dirty(file));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn directories_are_reported_when_they_come_go_and_come_back() {
  let dir = tempfile::tempdir().unwrap();
  let memory = dir.path().join("memory");
  let mut watch = Watch::new();
  watch.add(dir.path());
  fs::create_dir(&memory).unwrap();
  watch.until(&WatchEvent::DirAdded(memory.clone()));
  watch.add(&memory);
  watch.add(&memory);
  assert_eq!(watch.watcher.watched(), [dir.path(), &memory]);

  // Moved away, with the watch still on it under its old name, and replaced by another one.
  fs::rename(&memory, dir.path().join("old")).unwrap();
  watch.until(&WatchEvent::RootGone(memory.clone()));
  assert_eq!(watch.watcher.watched(), [dir.path()]);
  watch.until(&WatchEvent::DirAdded(dir.path().join("old")));
  // The queue is in order: all events about the move have been read after this one.
  File::create(dir.path().join("mark")).unwrap();
  watch.until(&WatchEvent::Closed(dir.path().join("mark")));
  fs::create_dir(&memory).unwrap();
  watch.until(&WatchEvent::DirAdded(memory.clone()));
  watch.add(&memory);
  let note = memory.join("a.md");
  File::create(&note).unwrap();
  watch.until(&WatchEvent::Closed(note.clone()));

  // Events in the old directory are no longer attributed to the new one.
  File::create(dir.path().join("old/b.md")).unwrap();
  OpenOptions::new().append(true).open(&note).unwrap();
  let seen = watch.until(&WatchEvent::Closed(note));
  assert!(!seen.contains(&WatchEvent::Dirty(memory.join("b.md"))), "{seen:?}");

  fs::remove_dir_all(&memory).unwrap();
  watch.until(&WatchEvent::RootGone(memory));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the mover and the writer")]
fn a_root_that_is_moved_or_deleted_is_gone() {
  let dir = tempfile::tempdir().unwrap();
  let mut watch = Watch::new();
  let root = dir.path().join("workspace");
  fs::create_dir(&root).unwrap();
  watch.add(&root);
  let moved = dir.path().join("moved");
  fs::rename(&root, &moved).unwrap();
  watch.until(&WatchEvent::RootGone(root.clone()));

  // Only the moved directory itself reported it, and it still has the watch under the old name.
  fs::create_dir(&root).unwrap();
  watch.add(&root);
  File::create(moved.join("old.md")).unwrap();
  File::create(root.join("new.md")).unwrap();
  let seen = watch.until(&WatchEvent::Closed(root.join("new.md")));
  assert!(!seen.contains(&WatchEvent::Dirty(root.join("old.md"))), "{seen:?}");
  watch.watcher.remove(&root);
  watch.watcher.remove(&root);
  fs::remove_file(moved.join("old.md")).unwrap();

  watch.add(&moved);
  fs::remove_dir(&moved).unwrap();
  watch.until(&WatchEvent::RootGone(moved));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the mover and the agent")]
fn a_root_that_somebody_has_open_is_gone_when_it_goes() {
  let dir = tempfile::tempdir().unwrap();
  let (root, other) = (dir.path().join("workspace"), dir.path().join("other"));
  let mut watch = Watch::new();
  for dir in [&root, &other] {
    fs::create_dir(dir).unwrap();
    watch.add(dir);
    watch.watcher.watch_end(dir);
    watch.watcher.watch_end(dir);
  }
  assert_eq!(watch.watcher.watched(), [other.clone(), root.clone()]);
  // Writes, opens and new files beside it are not reported.
  File::create(dir.path().join("notes.txt")).unwrap();
  let inside = File::open(&root).unwrap();
  fs::remove_dir(&root).unwrap();
  assert_eq!(watch.next(), Some(WatchEvent::RootGone(root.clone())));
  assert_eq!(watch.watcher.watched(), [other.as_path()]);
  drop(inside);

  // They are not reported after the directory above was watched for another reason either.
  fs::create_dir(&root).unwrap();
  watch.add(&root);
  watch.watcher.watch_end(&root);
  watch.add(dir.path());
  watch.watcher.remove(dir.path());
  File::create(dir.path().join("more.txt")).unwrap();
  let inside = File::open(&root).unwrap();
  fs::remove_dir(&root).unwrap();
  assert_eq!(watch.next(), Some(WatchEvent::RootGone(root)));
  drop(inside);

  // The removal is also reported when the directory above is removed with its content.
  let moved = dir.path().with_extension("moved");
  fs::rename(dir.path(), &moved).unwrap();
  assert_eq!(watch.next(), Some(WatchEvent::RootGone(other)));
  assert!(watch.watcher.watched().is_empty());
  fs::rename(&moved, dir.path()).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn a_directory_that_is_replaced_again_and_again_is_not_lost() {
  let dir = tempfile::tempdir().unwrap();
  let memory = dir.path().join("memory");
  let mut watch = Watch::new();
  watch.add(dir.path());
  let replacing = std::thread::spawn({
    let memory = memory.clone();
    move || {
      for _ in 0..300 {
        fs::create_dir(&memory).unwrap();
        fs::write(memory.join("a.md"), "- a\n").unwrap();
        fs::remove_dir_all(&memory).unwrap();
      }
      fs::create_dir(&memory).unwrap();
      fs::write(memory.join("last.md"), "- a\n").unwrap();
    }
  });
  watch.guard(&memory.join("last.md"));
  replacing.join().unwrap();
  for name in ["b.md", "c.md", "d.md"] {
    fs::write(memory.join(name), "- a\n").unwrap();
    watch.guard(&memory.join(name));
  }
}

#[test]
fn only_real_directories_are_watched() {
  let dir = tempfile::tempdir().unwrap();
  let mut watcher = Watcher::new().unwrap();
  let link = dir.path().join("link");
  std::os::unix::fs::symlink(dir.path(), &link).unwrap();
  for target in [&link, &dir.path().join("absent")] {
    let error = watcher.add(target).unwrap_err();
    assert!(matches!(error, WatchError::NotADirectory(_)), "{error}");
  }
  assert!(watcher.watched().is_empty());
}

#[test]
fn an_overflow_is_a_rescan_and_a_flood_is_read_in_parts() {
  let dir = tempfile::tempdir().unwrap();
  let mut watch = Watch::new();
  watch.add(dir.path());
  let file = dir.path().join("a.md");
  // Each touch makes two events that are not merged; the queue holds 16,384 by default.
  for _ in 0..40_000 {
    drop(OpenOptions::new().create(true).append(true).open(&file).unwrap());
  }
  let first = watch.watcher.take();
  assert!(!first.is_all && first.events.len() < 20_000, "{}", first.events.len());
  watch.until(&WatchEvent::Rescan);
  assert!(watch.watcher.take().is_all);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer and the reader")]
fn what_is_taken_under_a_lease_is_all_that_others_did() {
  use std::os::fd::AsFd as _;
  let dir = tempfile::tempdir().unwrap();
  let file = dir.path().join("MEMORY.md");
  fs::write(&file, "- a\n").unwrap();
  let mut watch = Watch::new();
  watch.add(dir.path());
  let ours = OpenOptions::new().read(true).write(true).open(&file).unwrap();
  let is_enough = Arc::new(AtomicBool::new(false));
  let others = std::thread::spawn({
    let (file, is_enough) = (file.clone(), Arc::clone(&is_enough));
    move || {
      while !is_enough.load(Ordering::Relaxed) {
        OpenOptions::new().append(true).open(&file).unwrap();
        fs::read(&file).unwrap();
      }
    }
  });
  let mut granted = 0;
  // On a loaded machine a lease is rarely asked for between two of the others' opens.
  let deadline = Instant::now() + Duration::from_mins(1);
  while granted < 100 && Instant::now() < deadline {
    let Ok(crate::files::lease::Grant::Granted) = crate::files::lease::acquire(ours.as_fd()) else {
      // The queue of the kernel must not overflow.
      watch.watcher.take();
      continue;
    };
    granted += 1;
    let taken = watch.watcher.take();
    let whole = taken.is_all;
    // The program that had it open has closed it, and a new one waits for the lease; so there is no
    // new event.
    let later = watch.watcher.take();
    crate::files::lease::release(ours.as_fd());
    assert!(whole && later.events.is_empty(), "after {:?} came {:?}", taken.events.last(), later);
  }
  is_enough.store(true, Ordering::Relaxed);
  others.join().unwrap();
  assert_eq!(granted, 100, "leases");
}
