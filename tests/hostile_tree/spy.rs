//! Which files are opened: the kernel's own account of files that memfw must not touch.

use {
  rustix::{
    fd::OwnedFd,
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
  },
  std::{
    collections::BTreeMap,
    mem::MaybeUninit,
    path::{Path, PathBuf},
  },
};

/// Watches single files for being opened, read or written.
pub(super) struct Spy {
  queue: OwnedFd,
  names: BTreeMap<i32, PathBuf>,
}

impl Spy {
  pub(super) fn new() -> Self {
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    Self { queue, names: BTreeMap::new() }
  }

  /// Watches the file at `path`; a link is followed.
  pub(super) fn watch(&mut self, path: &Path) {
    let flags = WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::MODIFY | WatchFlags::ATTRIB;
    let number = inotify::add_watch(&self.queue, path, flags).unwrap();
    self.names.insert(number, path.to_owned());
  }

  /// The events since the last call.
  pub(super) fn seen(&mut self) -> Vec<String> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(&self.queue, &mut buffer);
    let mut seen = Vec::new();
    loop {
      match reader.next() {
        Ok(event) => {
          let flags: ReadFlags = event.events();
          let name = self.names.get(&event.wd()).map(|path| path.display().to_string());
          seen.push(format!("{}: {flags:?}", name.unwrap_or_default()));
        }
        Err(Errno::AGAIN) => return seen,
        Err(error) => panic!("{error}"),
      }
    }
  }
}

#[test]
fn an_open_and_a_write_are_seen_and_a_look_is_not() {
  let dir = tempfile::tempdir().unwrap();
  let file = dir.path().join("a");
  std::fs::write(&file, "a").unwrap();
  let mut spy = Spy::new();
  spy.watch(&file);
  file.metadata().unwrap();
  assert_eq!(spy.seen(), Vec::<String>::new());
  std::fs::read(&file).unwrap();
  assert!(spy.seen().iter().any(|event| event.contains("OPEN")));
}
