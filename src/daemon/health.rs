//! What the daemon writes about itself into the ledger, for `status`, `settle` and `doctor`.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  os::unix::ffi::{OsStrExt as _, OsStringExt as _},
  path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
  files::Probe,
  memory::id::{from_hex, hex},
};

/// What a path starts with that is not UTF-8.
const HEX: &str = "hex:";

/// Problems of one workspace that are told; a tree can be made to have any number.
const MAX_TOLD: usize = 20;

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
  /// Whether a person has named these.
  #[serde(default)]
  pub is_named: bool,
  /// What it found out about each of them.
  #[serde(default)]
  pub rooms: Vec<Room>,
  /// What wakes it although nothing happens, a sentence each.
  #[serde(default)]
  pub wakeups: Vec<String>,
}

/// One workspace as the daemon found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
  /// Its path, as in [`Health::workspaces`].
  pub path: String,
  /// One line about type and rung, and why it is not the highest.
  pub file_system: String,
  /// The rung of the fallback ladder: `lease`, `equal-length-only` or `no-lease`.
  pub protocol: String,
  /// Whether two changes in a row can carry the same file times.
  pub coarse_times: bool,
  /// Why its stamps are polled, if they are.
  pub polled: Option<String>,
}

impl Room {
  /// What a probe found, and why the workspace is polled, if it is.
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
  /// One that is not there yet.
  pub fn awaited(root: &Path) -> Self {
    Self {
      path: encode(root),
      file_system: "it is not there yet, and is guarded when it comes".to_owned(),
      protocol: "none".to_owned(),
      coarse_times: false,
      polled: None,
    }
  }
}

impl Health {
  /// The paths that it guards.
  pub fn roots(&self) -> Vec<PathBuf> {
    self.workspaces.iter().map(|text| decode(text)).collect()
  }

  /// What was found out about a workspace.
  pub fn room(&self, root: &Path) -> Option<&Room> {
    self.rooms.iter().find(|room| decode(&room.path) == root)
  }
}

/// A path as text that gives the same path back.
pub fn encode(path: &Path) -> String {
  match path.to_str() {
    Some(text) if !text.starts_with(HEX) => text.to_owned(),
    _ => format!("{HEX}{}", hex(path.as_os_str().as_bytes())),
  }
}

/// The path that [`encode`] has made text of.
pub(super) fn decode(text: &str) -> PathBuf {
  let Some(digits) = text.strip_prefix(HEX) else { return PathBuf::from(text) };
  PathBuf::from(OsString::from_vec(from_hex(digits).unwrap_or_default()))
}

/// Problems as one text of bounded length; `None` where there are none.
pub fn told(mut problems: Vec<String>) -> Option<String> {
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
  fn problems_are_told_once_and_not_without_end() {
    assert_eq!(told(vec![]), None);
    let twice = ["b", "a", "b"].map(str::to_owned);
    assert_eq!(told(twice.to_vec()).as_deref(), Some("a; b"));
    let many = told((0..1000).map(|n| format!("{n:04}")).collect()).unwrap();
    assert!(many.starts_with("0000; 0001; ") && many.ends_with("; 0019; and 980 more"), "{many}");
  }
}
