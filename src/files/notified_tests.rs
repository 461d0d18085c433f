//! The mapping of `notify`'s events, and that they arrive.

use std::{fs, io, path::PathBuf};

use notify::event::{
  AccessKind, AccessMode, DataChange,
  EventKind::{Access, Any, Create, Modify, Other, Remove},
  Flag, MetadataKind, RemoveKind,
};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

fn path(text: &str) -> PathBuf {
  PathBuf::from(text)
}

fn map(kind: EventKind, paths: &[&str]) -> Vec<Meaning> {
  let event = paths.iter().fold(Event::new(kind), |event, text| event.add_path(path(text)));
  translate(event, |path| path.ends_with("dir"))
}

#[test]
fn each_kind_of_event_has_one_meaning() {
  let event = |event| vec![Meaning::Event(event)];
  let dirty = |text| event(WatchEvent::Dirty(path(text)));
  let x = "/w/x.md";
  let name = |mode| Modify(ModifyKind::Name(mode));
  let cases = [
    (Access(AccessKind::Open(AccessMode::Any)), x, vec![]),
    (Access(AccessKind::Close(AccessMode::Write)), x, vec![]),
    (Modify(ModifyKind::Data(DataChange::Any)), x, dirty(x)),
    (Modify(ModifyKind::Metadata(MetadataKind::Any)), x, dirty(x)),
    (Create(CreateKind::File), x, dirty(x)),
    (Create(CreateKind::Folder), "/w/new", event(WatchEvent::DirAdded(path("/w/new")))),
    (Create(CreateKind::Any), "/w/dir", event(WatchEvent::DirAdded(path("/w/dir")))),
    (name(RenameMode::To), x, event(WatchEvent::Closed(path(x)))),
    (name(RenameMode::To), "/w/dir", event(WatchEvent::DirAdded(path("/w/dir")))),
    (name(RenameMode::From), x, vec![Meaning::Gone(path(x))]),
    (Remove(RemoveKind::Folder), "/w2", vec![Meaning::Gone(path("/w2"))]),
    (Any, x, dirty(x)),
    (Other, x, dirty(x)),
  ];
  for (kind, text, expected) in cases {
    assert_eq!(map(kind, &[text]), expected, "{kind:?} {text}");
  }
  assert_eq!(map(name(RenameMode::Both), &["/w/a", "/w/dir"]).len(), 2);
  let rescan = [Meaning::Event(WatchEvent::Rescan)];
  assert_eq!(map(Modify(ModifyKind::Any), &[]), rescan);
  let overflow = Event::new(Other).set_flag(Flag::Rescan);
  assert_eq!(translate(overflow, |_| false), rescan);
}

proptest! {
  /// No event is dropped: each path of a change gives an event.
  #[test]
  fn every_path_of_a_change_is_reported(
    kind in prop_oneof![
      Just(Any), Just(Other),
      Just(Create(CreateKind::Any)), Just(Create(CreateKind::Other)),
      Just(Remove(RemoveKind::Any)), Just(Remove(RemoveKind::Other)),
      Just(Modify(ModifyKind::Any)), Just(Modify(ModifyKind::Other)),
      Just(Modify(ModifyKind::Name(RenameMode::Any))),
    ],
    names in prop::collection::vec("/(w|w2|w/memory|w/dir|w/x\\.md|else)", 1..4),
  ) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let seen = map(kind, &names);
    for name in names {
      let about = |seen: &Meaning| match seen {
        Meaning::Event(WatchEvent::Dirty(p) | WatchEvent::DirAdded(p)) | Meaning::Gone(p) => {
          p == Path::new(name)
        }
        Meaning::Event(_) => false,
      };
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

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is the writer")]
fn the_bell_rings_for_a_write_and_is_silent_once_it_was_heard() {
  let dir = tempfile::tempdir().unwrap();
  let mut queue = Queue::new().unwrap();
  let bell = queue.descriptor();
  let rings = |within: i64| {
    let wait = Timespec { tv_sec: within, tv_nsec: 0 };
    poll(&mut [PollFd::new(&*bell, PollFlags::IN)], Some(&wait)).unwrap() == 1
  };
  queue.add(dir.path()).unwrap();
  queue.add_ends(dir.path()).unwrap();
  let file = dir.path().join("a.md");
  fs::write(&file, "- a\n").unwrap();
  let mut seen = Vec::new();
  while !seen.contains(&Meaning::Event(WatchEvent::Dirty(file.clone()))) {
    assert!(rings(10), "the write is not seen: {seen:?}");
    for raw in queue.read().0 {
      seen.extend(queue.meaning(raw));
    }
  }
  queue.remove(dir.path());
  queue.read();
  assert!(!rings(0));
}

#[test]
fn nothing_more_is_reported_of_a_file_and_the_end_of_a_directory_always_is() {
  let mut queue = Queue::new().unwrap();
  assert!(queue.has(Path::new("/w")));
  queue.add_file(Path::new("/w/MEMORY.md")).unwrap();
  assert!(queue.read().0.is_empty());
}
