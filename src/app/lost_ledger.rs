//! Tells a ledger that is missing from one that was never made.
//!
//! Without the ledger, its directory often is gone, too. The daemon therefore notes in the configuration
//! directory where its ledger is. The key and the number of the newest event, beside the ledger, also say
//! that there was one.
#![forbid(unsafe_code)]

use std::{
  fmt,
  os::unix::ffi::OsStrExt as _,
  path::{Path, PathBuf},
};

use super::{
  context::Context,
  paths::{KEY, LEDGER},
};
use crate::{
  engine::event::shown,
  os::{
    Home, WorkspaceLock,
    paths::{read_own, write_private},
  },
  store::newest,
  terminal::failure::Failure,
};

/// The name of the note in the configuration directory.
const NOTE: &str = "ledger.path";
/// Longest note that is read: a path of the system's longest length, and a line end.
const MAX_NOTE: u64 = 4096 + 1;

/// A ledger that was at its path and is not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLedger {
  /// Where it was.
  pub path: PathBuf,
  /// What shows that it was there.
  trace: String,
  /// The process id of a daemon that still guards a workspace.
  pid: Option<i32>,
}

impl LostLedger {
  /// What to do.
  pub fn advice(&self) -> String {
    let start = "only if it is lost for good, `memfw run` begins a new one, which knows neither what is in \
                 quarantine nor what was approved";
    format!("put its directory back from where it was moved, or from a backup; {start}")
  }

  /// Why it must have been there, and what follows from its absence.
  pub fn reason(&self) -> String {
    let left = match self.pid {
      Some(pid) => format!("; a daemon (pid {pid}) still runs and takes nothing out without it"),
      None => String::new(),
    };
    format!("{}{left}", self.trace)
  }
}

impl fmt::Display for LostLedger {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the ledger is missing: it was at `{}`", shown(&self.path))
  }
}

impl From<LostLedger> for Failure {
  fn from(lost: LostLedger) -> Self {
    Self::unavailable(lost.to_string()).hint(lost.reason()).hint(lost.advice())
  }
}

impl Context {
  /// The ledger that was here before; `None` where there is one, or where memfw has never run.
  pub fn lost_ledger(&self) -> Result<Option<LostLedger>, Failure> {
    let home = self.home()?;
    let path = home.data.join(LEDGER);
    if path.metadata().is_ok_and(|found| found.len() > 0) {
      return Ok(None);
    }
    let Some(trace) = trace(&home, &path) else { return Ok(None) };
    let config = self.config().unwrap_or_default().config;
    let roots = self.workspaces(&config, &[]).unwrap_or_default();
    let pid = roots.iter().find_map(|root| WorkspaceLock::taken(root, None)?.pid);
    Ok(Some(LostLedger { path, trace, pid }))
  }
}

fn trace(home: &Home, ledger: &Path) -> Option<String> {
  if newest::last_written(ledger).is_some() {
    return Some("its newest event is noted beside it".to_owned());
  }
  if home.data.join(KEY).exists() {
    return Some(format!("its key `{KEY}` is still there"));
  }
  let note = home.config.join(NOTE);
  let bytes = read_own(&note, MAX_NOTE).ok().flatten()?;
  let is_here = bytes.trim_ascii_end() == ledger.as_os_str().as_bytes();
  is_here.then(|| format!("memfw noted its place in `{}`", shown(&note)))
}

/// Notes where the ledger is. A note that cannot be written, as in the sandbox of a service, costs no
/// protection.
pub fn note_place(home: &Home) {
  let (note, ledger) = (home.config.join(NOTE), home.data.join(LEDGER));
  let text = [ledger.as_os_str().as_bytes(), b"\n"].concat();
  if read_own(&note, MAX_NOTE).ok().flatten().as_ref() == Some(&text) {
    return;
  }
  if let Err(error) = write_private(&note, &text) {
    tracing::debug!(target: "memfw", %error, "the place of the ledger is not noted");
  }
}
