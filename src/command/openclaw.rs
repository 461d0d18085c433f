//! `memfw openclaw`: shows what OpenClaw does with memory, installs the plugin, and makes OpenClaw load a file
//! that it has dropped.
#![forbid(unsafe_code)]

pub mod args;
mod choice;
mod plugin;
mod plugin_files;
mod plugin_state;
mod policy;
mod retrust;
mod state;

pub(super) use {plugin_files::installed as plugin_dir, plugin_state::PluginState};

pub use args::{AgentArgs, AgentStatusArgs, InstallArgs, NAME, RetrustArgs, UninstallArgs};

use crate::{
  app::{context::Context, exit::Status},
  terminal::failure::Failure,
};

/// Carries the command out.
pub fn run(context: &Context, args: &AgentArgs) -> Result<Status, Failure> {
  match &args.command {
    args::AgentCommand::Status(args) => state::run(context, args),
    args::AgentCommand::Install(args) => plugin::install(context, args),
    args::AgentCommand::Uninstall(args) => plugin::uninstall(context, args),
    args::AgentCommand::Policy => policy::run(context),
    args::AgentCommand::Retrust(args) => retrust::run(context, args),
  }
}
