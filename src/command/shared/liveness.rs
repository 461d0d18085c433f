//! Whether a daemon that holds its lock guards: a lock says only that there is one.
#![forbid(unsafe_code)]

use std::{os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use crate::{
  app::{context::Context, daemon_state::DaemonState},
  engine::{
    event::shown,
    settled::{self, Unsettled},
  },
  files::RealFs,
  os::{Clock as _, SystemClock, is_halted, key},
  store::Ledger,
  terminal::failure::Failure,
};

/// After this time a change that was not processed is reported (a choice: exposure is milliseconds, and an 8 MiB file
/// takes seconds).
const STALLED: Duration = Duration::from_secs(30);

/// Why a daemon that holds its lock guards no file now, if so: it is stopped, or has not processed
/// changes that were made a while ago.
pub fn stalled(
  context: &Context,
  daemon: &DaemonState,
  ledger: &Ledger,
) -> Result<Option<String>, Failure> {
  let Some(pid) = daemon.pid.filter(|_| daemon.is_guarding()) else { return Ok(None) };
  if is_halted(pid) {
    let why = format!(
      "the daemon (pid {pid}) was stopped and guards nothing; `kill -CONT {pid}` continues it"
    );
    return Ok(Some(why));
  }
  let shapes = context.shapes(&context.config().unwrap_or_default().config);
  let roots = daemon.workspaces(context)?;
  let unsettled = settled::unsettled(&RealFs::default(), ledger, &roots, &shapes)?;
  let now = SystemClock.now() / 1_000_000;
  let waits = |one: &Unsettled| match one {
    Unsettled::Dirty(path) => {
      let changed = path.symlink_metadata().ok()?.ctime();
      let waited =
        u64::try_from(now - changed).ok().filter(|waited| *waited >= STALLED.as_secs())?;
      Some((waited, path.clone()))
    }
    _ => None,
  };
  let longest = unsettled.iter().filter_map(waits).max();
  Ok(longest.map(|(waited, path)| {
    format!(
      "changes of `{}` have waited for {waited} s: the daemon has not processed them",
      shown(&path)
    )
  }))
}

/// The problem of the key file while only the daemon's memory has the key.
pub fn lost_key(path: &Path) -> Option<String> {
  let why = match key::load(path) {
    Ok(Some(_)) => return None,
    Ok(None) => format!("the key file `{}` is missing", shown(path)),
    Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
  };
  Some(format!("{why}: once the daemon stops, no seal can be opened without it; restore it"))
}
