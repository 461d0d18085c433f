//! `memfw service` as clap reads it.
#![forbid(unsafe_code)]

use clap::{Args, Subcommand};

use super::supervisor::Supervisor;

/// `memfw service`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: memfw service install")]
pub struct ServiceArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: ServiceCommand,
}

/// What to do about the service.
#[derive(Clone, Debug, Subcommand)]
pub enum ServiceCommand {
  /// Have the service manager start memfw before the agent, now and at each login or boot
  #[command(after_help = "Example: memfw service install --print")]
  Install(ChangeArgs),
  /// Stop the service and remove what `install` wrote; memory, ledger and configuration stay
  #[command(after_help = "Example: memfw service uninstall")]
  Uninstall(ChangeArgs),
  /// Show whether the service is installed, up to date and running
  #[command(after_help = "Example: memfw service status --json")]
  Status(StatusArgs),
}

/// Which service is meant.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
  /// Which service manager: user or system (both systemd), or launchd
  #[arg(long, value_name = "MANAGER", default_value_t = Supervisor::native(), hide_possible_values = true)]
  pub manager: Supervisor,

  /// With `--manager system`: the user whose memory is guarded
  #[arg(long, value_name = "NAME")]
  pub user: Option<String>,
}

/// `memfw service install|uninstall`
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
  /// Which service is meant.
  #[command(flatten)]
  pub target: TargetArgs,

  /// Change nothing; show the file and the commands
  #[arg(long)]
  pub print: bool,
}

/// `memfw service status`
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
  /// Which service is meant.
  #[command(flatten)]
  pub target: TargetArgs,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}
