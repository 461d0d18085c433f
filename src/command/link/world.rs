//! The files that a call can reach, read while it is known that somebody waits for the verdict.
#![forbid(unsafe_code)]

use std::{
  cell::{Cell, OnceCell, RefCell},
  path::{Path, PathBuf},
};

use crate::{
  app::agent::call::Places,
  engine::{Engine, EngineError, Target},
  files::RealFs,
  link::{Call, Files, limits::MAX_JUDGED_FILE_BYTES},
};

/// The files that a call can reach.
pub(super) struct World<'a> {
  pub(super) call: &'a Call,
  pub(super) places: &'a Places,
  pub(super) engine: RefCell<&'a mut Engine<RealFs>>,
  /// Whether the plugin does not wait any more: a patch may name many files.
  pub(super) is_late: &'a dyn Fn() -> bool,
  /// Why a file could not be read, if that is no fault of the file.
  pub(super) failed: OnceCell<EngineError>,
  /// Whether a file is too long to judge what a call would leave in it.
  pub(super) is_long: Cell<bool>,
}

impl Files for World<'_> {
  fn place(&self, named: &str) -> Option<PathBuf> {
    if (self.is_late)() {
      return None;
    }
    match self.places.memory_file(self.call, named) {
      Some((root, rel)) => Some(root.join(rel)),
      None => self.places.place(self.call, named),
    }
  }

  fn content(&self, file: &Path) -> Option<Vec<u8>> {
    let (root, rel) = self.places.below(file).filter(|_| !(self.is_late)())?;
    match self.engine.borrow_mut().current(&Target::new(&root, &rel)) {
      Ok(bytes) if bytes.as_ref().is_some_and(|one| one.len() > MAX_JUDGED_FILE_BYTES) => {
        self.is_long.set(true);
        None
      }
      Ok(bytes) => bytes,
      Err(error) => {
        self.failed.set(error).ok();
        None
      }
    }
  }
}
