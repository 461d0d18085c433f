//! What a power loss takes from the ledger: commits at the end of the write-ahead log that nobody
//! waited for (`synchronous=NORMAL`).
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  fs::{self, OpenOptions},
  path::{Path, PathBuf},
};

use super::rng::Rng;

/// Sizes of the headers of a log and of each of its frames (SQLite file format, 4.1).
const HEAD: usize = 32;
const FRAME_HEAD: usize = 24;

fn beside(ledger: &Path, end: &str) -> PathBuf {
  let mut name = OsString::from(ledger);
  name.push(end);
  name.into()
}

/// Where the log ends now.
pub(crate) fn end(ledger: &Path) -> u64 {
  fs::metadata(beside(ledger, "-wal")).map_or(0, |found| found.len())
}

/// Takes some of the commits behind `sure` away. Nobody may have the ledger open.
pub(crate) fn lose(ledger: &Path, sure: u64, rng: &mut Rng) {
  let path = beside(ledger, "-wal");
  let Ok(log) = fs::read(&path) else { return };
  let Some(head) = log.get(..HEAD) else { return };
  let page = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
  let mut commits = Vec::new();
  let mut at = HEAD;
  while let Some(frame) = log.get(at..at + FRAME_HEAD + page) {
    // Frames of an earlier round of the log carry other salts.
    if frame[8..16] != head[16..24] {
      break;
    }
    at += FRAME_HEAD + page;
    // The size of the database after a commit; 0 in other frames.
    if frame[4..8] != [0; 4] && at as u64 >= sure {
      commits.push(at as u64);
    }
  }
  if !commits.is_empty() {
    let keep = *rng.pick(&commits);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(keep).unwrap();
    drop(fs::remove_file(beside(ledger, "-shm")));
  }
}

/// Removes a ledger with its log.
pub(crate) fn remove(ledger: &Path) {
  for end in ["", "-wal", "-shm"] {
    drop(fs::remove_file(beside(ledger, end)));
  }
}
