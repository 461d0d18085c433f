//! The stamp of a file in the ledger.
#![forbid(unsafe_code)]

use std::path::Path;

use super::EngineError;
use crate::{
  files::Stamp,
  store::{self, Ledger},
};

/// A stamp in the form that the ledger stores.
pub fn stamp_row(stamp: &Stamp) -> store::Stamp {
  store::Stamp {
    dev: stamp.dev,
    ino: stamp.ino,
    size: stamp.size,
    mtime_ns: stamp.mtime_ns,
    ctime_ns: stamp.ctime_ns,
  }
}

/// The stamp that the ledger has stored.
pub(super) const fn stamp_of(row: &store::Stamp) -> Stamp {
  let store::Stamp { dev, ino, size, mtime_ns, ctime_ns } = *row;
  Stamp { dev, ino, size, mtime_ns, ctime_ns }
}

/// Removes the stamp of a file from the ledger, so that the next pass reads the file.
pub(super) fn doubt_stamp(ledger: &mut Ledger, path: &Path, at: i64) -> Result<(), EngineError> {
  if ledger.file(path)?.is_some() {
    ledger.set_stamp(path, None, None, at)?;
  }
  Ok(())
}
