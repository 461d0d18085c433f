//! `memfw run`: the daemon, in the foreground.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

use super::shared::args::PresetArgs;
use crate::{
  app::{context::Context, daemon, exit::Status},
  terminal::failure::Failure,
};

/// `memfw run`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw run --workspace ~/notes")]
pub struct RunArgs {
  /// Process pending changes, then exit
  #[arg(long)]
  pub once: bool,

  /// Guard this directory instead of the configured ones; may be repeated
  #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub workspace: Vec<PathBuf>,

  /// A preset of the configuration.
  #[command(flatten)]
  pub preset: PresetArgs,
}

/// Carries the command out.
pub fn run(context: &Context, args: &RunArgs) -> Result<Status, Failure> {
  daemon::guard(context, &args.workspace, args.once)?;
  Ok(Status::Yes)
}
