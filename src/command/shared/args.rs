//! Arguments that several commands have.
#![forbid(unsafe_code)]

use clap::Args as ClapArgs;

use crate::config::Preset;

/// A command that only answers.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct JsonArgs {
  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// The flag of the commands that judge by the configuration.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct PresetArgs {
  /// Preset: quiet, balanced or strict
  #[arg(long, value_name = "PRESET")]
  pub preset: Option<Preset>,
}
