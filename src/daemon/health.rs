//! What the daemon reports about itself in the ledger, for `status`, `settle` and `doctor`.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  fmt,
  os::unix::ffi::{OsStrExt as _, OsStringExt as _},
  path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
  files::Probe,
  memory::id::{from_hex, hex},
  plural::{grouped, large},
};

/// The prefix of a path that is not UTF-8.
const HEX: &str = "hex:";

/// How many problems of one directory are reported (a choice); a tree can be made to have any number.
const MAX_TOLD: usize = 20;

/// The phase of the daemon's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
  /// The start-up scan is in progress.
  Starting,
  /// The start-up scan is done, and changes are seen.
  Guarding,
  /// The daemon stopped in order.
  Stopped,
}

/// The content of the row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
  /// Process id.
  pub pid: u32,
  /// Version of memfw.
  pub version: String,
  /// The daemon's phase.
  pub phase: Phase,
  /// The boot id of the machine; `None` if the system has none.
  #[serde(default)]
  pub boot: Option<String>,
  /// When it started, microseconds since the epoch.
  pub started_at: i64,
  /// Which content of the configuration file is in use.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub configuration: Option<String>,
  /// How far its start-up scan is; `None` before the first report and after the scan.
  #[serde(default, skip_serializing_if = "Option::is_none")]
  pub scan: Option<ScanProgress>,
  /// When its start-up scan was done, microseconds since the epoch.
  pub scanned_at: Option<i64>,
  /// The guarded directories: paths as text, or `hex:` and hex digits if a path is not UTF-8.
  pub workspaces: Vec<String>,
  /// Whether a person named the directories.
  #[serde(default)]
  pub is_named: bool,
  /// The state of each directory.
  #[serde(default)]
  pub rooms: Vec<Room>,
  /// What wakes the daemon while nothing happens, a sentence each.
  #[serde(default)]
  pub wakeups: Vec<String>,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanProgress {
  /// Files that were read.
  pub done: u64,
  /// All files.
  pub total: u64,
}

impl fmt::Display for ScanProgress {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} of {}", grouped(self.done), large(self.total, "file"))
  }
}

/// One guarded directory as the daemon found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
  /// Its path, as in [`Health::workspaces`].
  pub path: String,
  /// The type of the file system and its rung, and why the rung is not the highest.
  pub file_system: String,
  /// The rung of the fallback ladder: `lease`, `equal-length-only` or `no-lease`.
  pub protocol: String,
  /// Whether two successive changes can have equal file times.
  pub coarse_times: bool,
  /// Why its stamps are polled, if they are.
  pub polled: Option<String>,
}

impl Room {
  /// From a probe, and the reason why the directory is polled, if it is.
  pub fn of(root: &Path, probe: &Probe, polled: Option<String>) -> Self {
    Self {
      path: encode(root),
      file_system: probe.description.clone(),
      protocol: probe.rung.as_str().to_owned(),
      coarse_times: probe.coarse_times,
      polled,
    }
  }
}

impl Room {
  /// A directory that does not exist yet.
  pub fn awaited(root: &Path) -> Self {
    Self {
      path: encode(root),
      file_system: "it does not exist yet, and is guarded once it is created".to_owned(),
      protocol: "none".to_owned(),
      coarse_times: false,
      polled: None,
    }
  }
}

impl Health {
  /// The paths of the guarded directories.
  pub fn roots(&self) -> Vec<PathBuf> {
    self.workspaces.iter().map(|text| decode(text)).collect()
  }

  /// The state of one directory.
  pub fn room(&self, root: &Path) -> Option<&Room> {
    self.rooms.iter().find(|room| decode(&room.path) == root)
  }
}

/// A path as text, from which `decode` gets the path back.
pub fn encode(path: &Path) -> String {
  match path.to_str() {
    Some(text) if !text.starts_with(HEX) => text.to_owned(),
    _ => format!("{HEX}{}", hex(path.as_os_str().as_bytes())),
  }
}

/// The path that [`encode`] has written as text.
pub(super) fn decode(text: &str) -> PathBuf {
  let Some(digits) = text.strip_prefix(HEX) else { return PathBuf::from(text) };
  PathBuf::from(OsString::from_vec(from_hex(digits).unwrap_or_default()))
}

/// Problems as one text of bounded length; `None` if there are none.
pub fn joined(mut problems: Vec<String>) -> Option<String> {
  problems.sort();
  problems.dedup();
  let more = problems.len().saturating_sub(MAX_TOLD);
  problems.truncate(MAX_TOLD);
  if more > 0 {
    problems.push(format!("and {more} more"));
  }
  (!problems.is_empty()).then(|| problems.join("; "))
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

  #[test]
  fn problems_are_reported_once_and_not_without_end() {
    assert_eq!(joined(vec![]), None);
    let twice = ["b", "a", "b"].map(str::to_owned);
    assert_eq!(joined(twice.to_vec()).as_deref(), Some("a; b"));
    let many = joined((0..1000).map(|n| format!("{n:04}")).collect()).unwrap();
    assert!(many.starts_with("0000; 0001; ") && many.ends_with("; 0019; and 980 more"), "{many}");
  }
}
