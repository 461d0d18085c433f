//! The paths of memfw's files in its data directory, and paths without links.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// The name of the ledger in the data directory.
pub const LEDGER: &str = "ledger.sqlite";
/// The name of the file with the master key in the data directory.
pub const KEY: &str = "master.key";

/// The path without links where it exists, else the absolute path.
pub fn resolved(path: &Path) -> PathBuf {
  path
    .canonicalize()
    .or_else(|_error| std::path::absolute(path))
    .unwrap_or_else(|_error| path.to_owned())
}
