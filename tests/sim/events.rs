//! The events that the kernel makes of what happens to memory files (inotify, with the mask of the watcher), and
//! nothing else: in a schedule with events the engine is asked about no file of which nothing told.
//!
//! Every event names a file in its directory as it was opened. What happens through another name of the same inode
//! makes none here, a store through a mapping makes none until it is unmapped, and the number of links makes none
//! where another name is taken away.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::{control::Control, fs::ROOT, world::World, writer::Actor};

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
  /// Something about this path may have changed.
  Dirty(PathBuf),
  /// Somebody who had it open, and wrote nothing, closed it.
  Released(PathBuf),
  /// The directory is another one: all that was known has to be compared.
  Rescan,
}

impl World {
  /// An event comes into the queue of the daemon, if it watches the directory.
  pub(crate) fn hear(&mut self, what: Heard) {
    let is_lost = self.control == Control::DeafToWrites && matches!(what, Heard::Dirty(_));
    let of_workspace = match &what {
      Heard::Dirty(path) | Heard::Released(path) => {
        path.starts_with(ROOT) && self.disk.is_away.is_none()
      }
      Heard::Rescan => true,
    };
    if let Some(heard) = self.heard.as_mut().filter(|_| of_workspace && !is_lost)
      && heard.last() != Some(&what)
    {
      heard.push(what);
    }
  }

  pub(crate) fn hear_of(&mut self, path: &Path) {
    if self.heard.is_some() {
      self.hear(Heard::Dirty(path.to_owned()));
    }
  }

  /// Something was written through a descriptor of an actor.
  pub(crate) fn hear_write(&mut self, actor: &mut Actor) {
    actor.wrote = true;
    if let Some(path) = actor.fd.and_then(|fd| self.disk.name_of(fd)) {
      self.hear_of(&path);
    }
  }

  /// A descriptor is about to be closed.
  pub(crate) fn hear_close(&mut self, fd: u64, wrote: bool) {
    if self.heard.is_none() {
      return;
    }
    if let Some(path) = self.disk.name_of(fd) {
      self.hear(if wrote { Heard::Dirty(path) } else { Heard::Released(path) });
    }
  }

  /// What a mapping was of is reported under the name under which it was opened.
  pub(crate) fn hear_mapped(&mut self, actor: &Actor) {
    if let Some(path) = actor.map_name.as_ref().filter(|path| self.disk.lookup(path) == actor.map) {
      self.hear_of(path);
    }
  }
}
