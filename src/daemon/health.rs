//! What the daemon writes about itself into the ledger, for `status`, `settle` and `doctor`.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  os::unix::ffi::{OsStrExt as _, OsStringExt as _},
  path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::memory::id::{from_hex, hex};

/// What a path starts with that is not UTF-8.
const HEX: &str = "hex:";
/// The key of the row in the ledger.
pub const KEY: &str = "daemon";
/// Keys of workspaces whose baseline was adopted start with this.
pub const ADOPTED: &str = "adopted:";

/// How far the daemon has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
  /// The start-up scan is under way.
  Starting,
  /// The start-up scan is done; changes are seen.
  Guarding,
  /// Ended in order.
  Stopped,
}

/// The row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
  /// Process id.
  pub pid: u32,
  /// Version of memfw.
  pub version: String,
  /// How far it has come.
  pub phase: Phase,
  /// Which start of the machine it runs in; `None` where the system does not tell.
  #[serde(default)]
  pub boot: Option<String>,
  /// When it started, microseconds since the epoch.
  pub started_at: i64,
  /// When its start-up scan was done.
  pub scanned_at: Option<i64>,
  /// What it guards: paths as text, or as `hex:` and hex digits where they are not UTF-8.
  pub workspaces: Vec<String>,
}

impl Health {
  /// The paths that it guards.
  pub fn roots(&self) -> Vec<PathBuf> {
    self.workspaces.iter().map(|text| decode(text)).collect()
  }
}

/// A path as text that gives the same path back.
pub fn encode(path: &Path) -> String {
  match path.to_str() {
    Some(text) if !text.starts_with(HEX) => text.to_owned(),
    _ => format!("{HEX}{}", hex(path.as_os_str().as_bytes())),
  }
}

fn decode(text: &str) -> PathBuf {
  let Some(digits) = text.strip_prefix(HEX) else { return PathBuf::from(text) };
  PathBuf::from(OsString::from_vec(from_hex(digits).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
  use std::ffi::OsStr;

  use super::*;

  #[test]
  fn paths_come_back_whatever_their_bytes() {
    for bytes in [&b"/home/ann/w"[..], b"/w/\xff\n", b"hex:00", "/w/\u{fc}".as_bytes()] {
      let path = Path::new(OsStr::from_bytes(bytes));
      assert_eq!(decode(&encode(path)), path);
    }
  }
}
