//! `memfw openclaw`: shows what OpenClaw does with memory, and makes it load a file that it has dropped.
#![forbid(unsafe_code)]

pub mod args;
mod retrust;
mod state;

pub use args::{AgentArgs, AgentStatusArgs, NAME, RetrustArgs};

use crate::{
  app::{context::Context, exit::Status},
  terminal::failure::Failure,
};

/// Carries the command out.
pub fn run(context: &Context, args: &AgentArgs) -> Result<Status, Failure> {
  match &args.command {
    args::AgentCommand::Status(args) => state::run(context, args),
    args::AgentCommand::Retrust(args) => retrust::run(context, args),
  }
}
