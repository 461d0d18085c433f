//! `memfw gate`: the optional process at which readers of memory wait.
//!
//! It reads no configuration and no ledger: the daemon tells it what to gate.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use crate::{
  app::{context::Context, exit::Status},
  terminal::failure::Failure,
};

/// `memfw gate`
///
/// Makes readers of memory wait until the daemon has passed the bytes that they would see.
///
/// Needs `CAP_SYS_ADMIN` at its start, and drops all privileges directly afterwards. The daemon listens
/// for the gate if `gate.enabled = true`, and sends it the guarded directories. A reader that waits too
/// long is let through, and `memfw status` says so.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: sudo MEMFW_HOME=\"$MEMFW_HOME\" memfw gate")]
pub struct GateArgs {
  /// Gate only this workspace, even if another user owns it; may be
  /// repeated
  #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub workspace: Vec<PathBuf>,
}

/// The wanted limit of open files: what [`crate::gate::waiting`] needs, and some more.
#[cfg(linux)]
const WANTED_DESCRIPTORS: u64 = 4096;

/// Carries the command out.
#[cfg(linux)]
pub fn run(context: &Context, args: GateArgs) -> Result<Status, Failure> {
  use crate::app::paths::resolved;
  use crate::{
    config::Config,
    files::gate::{Barrier, GateError, MAX_BATCH, give_up_rights, owner_of},
    gate::{
      event_loop::{self, Options},
      waiting::MAX_WAITING,
    },
    os::{descriptors, socket, user},
  };

  let failed = |error: GateError| {
    let text = error.to_string();
    let mut lines = text.lines();
    let failure = Failure::unavailable(lines.next().unwrap_or_default());
    lines.fold(failure, |failure, line| failure.hint(line.trim_start_matches("hint: ")))
  };
  let mut config = Config::default();
  config.log_level = context.log_level.unwrap_or(config.log_level);
  context.start_log(&config)?;
  let data = context.home()?.data;
  let (uid, gid) = owner_of(&data).map_err(|error| {
    Failure::unavailable(format!(
      "cannot find memfw's data directory `{}`: {error}",
      data.display()
    ))
    .hint("start the daemon of the same user first: `memfw run`")
    .hint("under sudo, name the directory: `sudo MEMFW_HOME=... memfw gate`")
  })?;
  let own = user::effective_uid();
  if own != 0 && own != uid {
    return Err(
      Failure::unavailable(format!("`{}` belongs to uid {uid}, not to this user", data.display()))
        .hint("start the gate as that user, or as root"),
    );
  }
  let barrier = Barrier::new().map_err(failed)?;
  // The kernel refuses a reader if the process has no descriptor left for its event.
  let n_descriptors = descriptors::raise(WANTED_DESCRIPTORS);
  // The readers that wait, one batch in progress, and the files that the process itself has open.
  if n_descriptors < (MAX_WAITING + 2 * MAX_BATCH) as u64 {
    return Err(
      Failure::unavailable(format!("{n_descriptors} open files are too few for the gate"))
        .hint("raise the limit: `ulimit -n 4096`, or `LimitNOFILE=4096` in its unit"),
    );
  }
  give_up_rights(uid, gid).map_err(failed)?;
  let only = args.workspace.iter().map(|dir| resolved(dir)).collect();
  let options = Options { socket: socket::address(&data), data, only };
  event_loop::run(barrier, options).map_err(failed)?;
  Ok(Status::Yes)
}

/// Only Linux has a gate.
#[cfg(not(linux))]
pub fn run(_context: &Context, _args: GateArgs) -> Result<Status, Failure> {
  Err(
    Failure::unavailable("only Linux can make readers wait")
      .hint("`memfw status` shows how long poison was readable"),
  )
}
