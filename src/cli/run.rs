//! `memfw run`: the daemon, in the foreground.
#![forbid(unsafe_code)]

use super::{Status, args::RunArgs, context::Context, failure::Failure};
use crate::{
  daemon::{self, DaemonError, Options},
  os::DaemonLock,
};

/// Carries the command out.
pub fn run(context: &Context, args: RunArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  let workspaces = context.workspaces(&config, &args.workspace)?;
  context.start_log(&config)?;
  let home = context.home()?;
  home.create().map_err(|error| Failure::unavailable(error.to_string()))?;
  let _alone = DaemonLock::acquire(&home.data, env!("CARGO_PKG_VERSION"))
    .map_err(|error| Failure::unavailable(error.to_string()))?;
  let engine = context.engine(&config)?;
  daemon::run(engine, Options { workspaces, once: args.once }).map_err(|error| match error {
    DaemonError::Engine(error) => error.into(),
    error => Failure::unavailable(error.to_string()),
  })?;
  Ok(Status::Yes)
}
