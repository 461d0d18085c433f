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

/// The flags of the commands that judge by the configuration.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
#[group(multiple = false)]
pub struct PresetArgs {
  /// Preset: only strong evidence, few messages
  #[arg(long)]
  pub quiet: bool,

  /// Preset: the defaults
  #[arg(long)]
  pub balanced: bool,

  /// Preset: little evidence is enough, more files
  #[arg(long)]
  pub strict: bool,
}

impl PresetArgs {
  /// The preset that the flags select, if any.
  pub const fn preset(self) -> Option<Preset> {
    match (self.quiet, self.balanced, self.strict) {
      (true, ..) => Some(Preset::Quiet),
      (_, true, _) => Some(Preset::Balanced),
      (.., true) => Some(Preset::Strict),
      _ => None,
    }
  }
}
