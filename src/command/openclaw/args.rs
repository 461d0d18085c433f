//! `memfw openclaw` as clap reads it.
#![forbid(unsafe_code)]

use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// The name of the command.
pub const NAME: &str = "openclaw";

/// `memfw openclaw`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: memfw openclaw status")]
pub struct AgentArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: AgentCommand,
}

/// What can be asked and done about OpenClaw.
#[derive(Clone, Debug, Subcommand)]
pub enum AgentCommand {
  /// Show the OpenClaw installations, and which memory files OpenClaw loads
  #[command(after_help = "Example: memfw openclaw status --json")]
  Status(AgentStatusArgs),
  /// Install the plugin that asks memfw before the agent writes to its memory
  #[command(after_help = "Example: memfw openclaw install --accept-capabilities")]
  Install(InstallArgs),
  /// Remove the plugin, and restore OpenClaw's configuration
  #[command(after_help = "Example: memfw openclaw uninstall")]
  Uninstall(UninstallArgs),
  /// Answer OpenClaw, on standard input and output, before it installs a skill
  #[command(after_help = "Example: memfw openclaw policy < request.json")]
  Policy,
  /// Make OpenClaw load a memory file again that it has dropped
  #[command(after_help = "Example: memfw openclaw retrust ~/.openclaw/workspace/MEMORY.md")]
  Retrust(RetrustArgs),
}

/// `memfw openclaw status`
#[derive(Clone, Debug, Args)]
pub struct AgentStatusArgs {
  /// The OpenClaw of this profile, one of `agent.profiles`; `default` is the one without a profile
  #[arg(long, value_name = "NAME")]
  pub profile: Option<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw openclaw install`
///
/// Has OpenClaw install the plugin that is part of this program. Without `--accept-capabilities`, the command only
/// shows what OpenClaw asks you to accept. Nothing is downloaded.
#[derive(Clone, Debug, Args)]
pub struct InstallArgs {
  /// Accept what the plugin may do
  #[arg(long)]
  pub accept_capabilities: bool,

  /// The OpenClaw of this profile, one of `agent.profiles`; `default` is the one without a profile
  #[arg(long, value_name = "NAME")]
  pub profile: Option<String>,
}

/// `memfw openclaw uninstall`
///
/// Has OpenClaw remove the plugin. If nothing has changed OpenClaw's configuration since the installation, that
/// file gets the bytes that it had before.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
  /// The OpenClaw of this profile, one of `agent.profiles`; `default` is the one without a profile
  #[arg(long, value_name = "NAME")]
  pub profile: Option<String>,
}

/// `memfw openclaw retrust`
///
/// OpenClaw permanently stops loading a memory file that another program edited between two writes of
/// OpenClaw's own tools, or that was written in a turn with content from outside. This command shows the
/// text of the file, keeps a copy of OpenClaw's row about the file, and changes that row; OpenClaw does
/// not support such a change.
#[derive(Clone, Debug, Args)]
pub struct RetrustArgs {
  /// The file
  #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub file: PathBuf,

  /// Do not ask; trust the file even if parts of it are flagged or not yet judged
  #[arg(long)]
  pub yes: bool,
}

#[cfg(test)]
mod tests {
  use clap::Parser as _;

  use super::*;
  use crate::command::Args as CommandLine;

  #[test]
  fn the_contract_parses() {
    for line in [
      "status",
      "status --json",
      "retrust MEMORY.md",
      "retrust MEMORY.md --yes",
      "status --profile work",
      "install",
      "install --accept-capabilities --profile work",
      "policy",
      "uninstall",
      "uninstall --profile default",
    ] {
      let words = format!("memfw {NAME} {line}");
      assert!(CommandLine::try_parse_from(words.split(' ')).is_ok(), "{line}");
    }
    assert!(CommandLine::try_parse_from(["memfw", NAME, "retrust"]).is_err());
  }
}
