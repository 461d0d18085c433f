//! The mapping of events, and what the kernel really sends.

use std::{
  fs::{self, File, OpenOptions},
  sync::mpsc::{self, Receiver},
  time::Duration,
};

use notify::event::{
  DataChange,
  EventKind::{Access, Any, Create, Modify, Other, Remove},
  Flag, MetadataKind, RemoveKind,
};
use proptest::prelude::*;

use super::*;
use crate::os::{Clock as _, SystemClock};

const DEADLINE: Duration = Duration::from_secs(10);

fn path(text: &str) -> PathBuf {
  PathBuf::from(text)
}

fn map(kind: EventKind, paths: &[&str]) -> Vec<WatchEvent> {
  let mut watched = BTreeSet::from(["/w", "/w/memory", "/w/memory/sub", "/w2"].map(path));
  let event = paths.iter().fold(Event::new(kind), |event, text| event.add_path(path(text)));
  translate(event, &mut watched, |path| path.ends_with("dir"))
}

#[test]
fn each_kind_of_event_has_one_meaning() {
  let dirty = |text| vec![WatchEvent::Dirty(path(text))];
  let added = |text| vec![WatchEvent::DirAdded(path(text))];
  let x = "/w/x.md";
  let name = |mode| Modify(ModifyKind::Name(mode));
  let cases = [
    (Access(AccessKind::Open(AccessMode::Any)), x, vec![WatchEvent::Opened(path(x))]),
    (Access(AccessKind::Open(AccessMode::Any)), "/w", vec![]),
    (Access(AccessKind::Close(AccessMode::Write)), x, vec![WatchEvent::Closed(path(x))]),
    (Access(AccessKind::Close(AccessMode::Read)), x, dirty(x)),
    (Modify(ModifyKind::Data(DataChange::Any)), x, dirty(x)),
    (Modify(ModifyKind::Metadata(MetadataKind::Any)), x, dirty(x)),
    (Create(CreateKind::File), x, dirty(x)),
    (Create(CreateKind::Folder), "/w/new", added("/w/new")),
    (Create(CreateKind::Any), "/w/dir", added("/w/dir")),
    (name(RenameMode::To), x, vec![WatchEvent::Closed(path(x))]),
    (name(RenameMode::To), "/w/dir", added("/w/dir")),
    (name(RenameMode::From), x, dirty(x)),
    (Remove(RemoveKind::File), x, dirty(x)),
    (Remove(RemoveKind::Folder), "/w2", vec![WatchEvent::RootGone(path("/w2"))]),
    (
      name(RenameMode::From),
      "/w/memory",
      ["/w/memory", "/w/memory/sub"].map(|dir| WatchEvent::RootGone(path(dir))).to_vec(),
    ),
    (Any, x, dirty(x)),
    (Other, x, dirty(x)),
  ];
  for (kind, text, expected) in cases {
    assert_eq!(map(kind, &[text]), expected, "{kind:?} {text}");
  }
  assert_eq!(map(name(RenameMode::Both), &["/w/a", "/w/dir"]).len(), 2);
  assert_eq!(map(Modify(ModifyKind::Any), &[]), [WatchEvent::Rescan]);
  let overflow = Event::new(Other).set_flag(Flag::Rescan);
  assert_eq!(translate(overflow, &mut BTreeSet::new(), |_| false), [WatchEvent::Rescan]);
}

proptest! {
  /// Nothing is dropped: each path of an event leads somewhere, watched or not.
  #[test]
  fn every_path_of_a_change_is_reported(
    kind in prop_oneof![
      Just(Any), Just(Other),
      Just(Create(CreateKind::Any)), Just(Create(CreateKind::Other)),
      Just(Remove(RemoveKind::Any)), Just(Remove(RemoveKind::Other)),
      Just(Modify(ModifyKind::Any)), Just(Modify(ModifyKind::Other)),
      Just(Modify(ModifyKind::Name(RenameMode::Any))),
      Just(Access(AccessKind::Any)), Just(Access(AccessKind::Read)),
    ],
    names in prop::collection::vec("/(w|w2|w/memory|w/dir|w/x\\.md|else)", 1..4),
  ) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let seen = map(kind, &names);
    for name in names {
      let about = |event: &WatchEvent| matches!(event, WatchEvent::Dirty(p)
        | WatchEvent::DirAdded(p) | WatchEvent::RootGone(p) if p == Path::new(name));
      prop_assert!(seen.iter().any(about), "{kind:?} {name}: {seen:?}");
    }
  }
}

#[test]
fn limits_name_the_setting_to_raise() {
  let watches = failure(Path::new("/w"), &notify::Error::new(notify::ErrorKind::MaxFilesWatch));
  assert!(watches.to_string().contains("fs.inotify.max_user_watches"), "{watches}");
  let full = io::Error::from_raw_os_error(libc::EMFILE);
  let instances = failure(Path::new(""), &notify::Error::io(full));
  assert!(matches!(instances, WatchError::Limit(Limit::Instances)));
  assert!(instances.to_string().contains("fs.inotify.max_user_instances"), "{instances}");
}

fn watcher() -> (Watcher, Receiver<WatchEvent>) {
  let (sender, events) = mpsc::channel();
  // The test may have ended, and with it the receiver.
  let watcher = Watcher::new(Box::new(move |event| drop(sender.send(event)))).unwrap();
  (watcher, events)
}

/// All events up to the one that was waited for.
#[track_caller]
fn until(events: &Receiver<WatchEvent>, last: &WatchEvent) -> Vec<WatchEvent> {
  let mut seen = Vec::new();
  let deadline = SystemClock.monotonic() + DEADLINE;
  while seen.last() != Some(last) {
    let left = deadline.saturating_sub(SystemClock.monotonic());
    match events.recv_timeout(left) {
      Ok(event) => seen.push(event),
      Err(error) => panic!("no {last:?}: {error}; seen: {seen:?}"),
    }
  }
  seen
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer and the reader")]
fn open_and_writers_close_are_reported_by_default() {
  let dir = tempfile::tempdir().unwrap();
  let file = dir.path().join("MEMORY.md");
  let (mut watcher, events) = watcher();
  watcher.add(dir.path()).unwrap();
  fs::write(&file, "- a\n").unwrap();
  let seen = until(&events, &WatchEvent::Closed(file.clone()));
  assert!(seen.contains(&WatchEvent::Dirty(file.clone())), "{seen:?}");
  fs::read(&file).unwrap();
  let seen = until(&events, &WatchEvent::Opened(file.clone()));
  // A reader's close changes nothing, and is not reported.
  assert!(!seen.contains(&WatchEvent::Closed(file)), "{seen:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn a_file_that_lands_by_rename_and_one_that_goes_are_reported() {
  let dir = tempfile::tempdir().unwrap();
  let outside = tempfile::tempdir().unwrap();
  let (mut watcher, events) = watcher();
  watcher.add(dir.path()).unwrap();
  let file = dir.path().join("MEMORY.md");
  fs::write(outside.path().join("t"), "- a\n").unwrap();
  fs::rename(outside.path().join("t"), &file).unwrap();
  until(&events, &WatchEvent::Closed(file.clone()));
  fs::remove_file(&file).unwrap();
  until(&events, &WatchEvent::Dirty(file));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn directories_are_reported_when_they_come_go_and_come_back() {
  let dir = tempfile::tempdir().unwrap();
  let memory = dir.path().join("memory");
  let (mut watcher, events) = watcher();
  watcher.add(dir.path()).unwrap();
  fs::create_dir(&memory).unwrap();
  until(&events, &WatchEvent::DirAdded(memory.clone()));
  watcher.add(&memory).unwrap();
  watcher.add(&memory).unwrap();
  assert_eq!(watcher.watched(), [dir.path(), &memory]);

  // Moved away, with the watch still on it under its old name, and another one put in its place.
  fs::rename(&memory, dir.path().join("old")).unwrap();
  until(&events, &WatchEvent::RootGone(memory.clone()));
  assert_eq!(watcher.watched(), [dir.path()]);
  until(&events, &WatchEvent::DirAdded(dir.path().join("old")));
  // The queue is in order: what the kernel says about the move has all been read after this.
  File::create(dir.path().join("mark")).unwrap();
  until(&events, &WatchEvent::Closed(dir.path().join("mark")));
  fs::create_dir(&memory).unwrap();
  until(&events, &WatchEvent::DirAdded(memory.clone()));
  watcher.add(&memory).unwrap();
  let note = memory.join("a.md");
  File::create(&note).unwrap();
  until(&events, &WatchEvent::Closed(note.clone()));

  // What happens in the old one is no longer taken for the new one's.
  File::create(dir.path().join("old/b.md")).unwrap();
  OpenOptions::new().append(true).open(&note).unwrap();
  let seen = until(&events, &WatchEvent::Closed(note));
  assert!(!seen.contains(&WatchEvent::Dirty(memory.join("b.md"))), "{seen:?}");

  fs::remove_dir_all(&memory).unwrap();
  until(&events, &WatchEvent::RootGone(memory));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the mover and the writer")]
fn a_root_that_is_moved_or_deleted_is_gone() {
  let dir = tempfile::tempdir().unwrap();
  let (mut watcher, events) = watcher();
  let root = dir.path().join("workspace");
  fs::create_dir(&root).unwrap();
  watcher.add(&root).unwrap();
  let moved = dir.path().join("moved");
  fs::rename(&root, &moved).unwrap();
  until(&events, &WatchEvent::RootGone(root.clone()));

  // Only the moved directory itself said so, and it still carries the watch under the old name.
  fs::create_dir(&root).unwrap();
  watcher.add(&root).unwrap();
  File::create(moved.join("old.md")).unwrap();
  File::create(root.join("new.md")).unwrap();
  let seen = until(&events, &WatchEvent::Closed(root.join("new.md")));
  assert!(!seen.contains(&WatchEvent::Dirty(root.join("old.md"))), "{seen:?}");
  watcher.remove(&root);
  watcher.remove(&root);
  fs::remove_file(moved.join("old.md")).unwrap();

  watcher.add(&moved).unwrap();
  fs::remove_dir(&moved).unwrap();
  until(&events, &WatchEvent::RootGone(moved));
}

/// Does as the caller has to, until `wanted` was seen by an event or by listing.
#[track_caller]
fn guard(watcher: &mut Watcher, events: &Receiver<WatchEvent>, wanted: &Path) {
  let deadline = SystemClock.monotonic() + DEADLINE;
  loop {
    let left = deadline.saturating_sub(SystemClock.monotonic());
    match events.recv_timeout(left).expect("the file was not seen in time") {
      WatchEvent::RootGone(dir) | WatchEvent::DirAdded(dir)
        if watcher.add(&dir).is_ok() && wanted.exists() =>
      {
        return;
      }
      WatchEvent::Dirty(path) | WatchEvent::Closed(path) if path == wanted => return,
      _ => {}
    }
  }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn a_directory_that_is_replaced_again_and_again_is_not_lost() {
  let dir = tempfile::tempdir().unwrap();
  let memory = dir.path().join("memory");
  let (mut watcher, events) = watcher();
  watcher.add(dir.path()).unwrap();
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
  guard(&mut watcher, &events, &memory.join("last.md"));
  replacing.join().unwrap();
  for name in ["b.md", "c.md", "d.md"] {
    fs::write(memory.join(name), "- a\n").unwrap();
    guard(&mut watcher, &events, &memory.join(name));
  }
}

#[test]
fn only_real_directories_are_watched() {
  let dir = tempfile::tempdir().unwrap();
  let (mut watcher, _events) = watcher();
  let link = dir.path().join("link");
  std::os::unix::fs::symlink(dir.path(), &link).unwrap();
  for target in [&link, &dir.path().join("absent")] {
    let error = watcher.add(target).unwrap_err();
    assert!(matches!(error, WatchError::NotADirectory(_)), "{error}");
  }
  assert!(watcher.watched().is_empty());
}

#[test]
fn an_overflow_is_a_rescan() {
  let dir = tempfile::tempdir().unwrap();
  let (sender, events) = mpsc::channel();
  let (open_gate, gate) = mpsc::channel::<()>();
  let gate = Mutex::new(gate);
  let (at_gate, arrived) = mpsc::channel();
  let stalling = move |event| {
    // The first event stalls the watcher, until the kernel's queue is full.
    at_gate.send(()).ok();
    gate.lock().unwrap().recv().ok();
    drop(sender.send(event));
  };
  let mut watcher = Watcher::new(Box::new(stalling)).unwrap();
  watcher.add(dir.path()).unwrap();
  let file = dir.path().join("a.md");
  let touch = || drop(OpenOptions::new().create(true).append(true).open(&file).unwrap());
  touch();
  arrived.recv_timeout(DEADLINE).unwrap();
  // Each touch makes two events that are not merged; the queue holds 16,384 by default.
  for _ in 0..10_000 {
    touch();
  }
  drop(open_gate);
  until(&events, &WatchEvent::Rescan);
}
