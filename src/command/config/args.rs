//! `memfw config` as clap reads it.
#![forbid(unsafe_code)]

use clap::{Args as ClapArgs, Subcommand};

use crate::{
  command::shared::args::{JsonArgs, PresetArgs},
  config::Preset,
};

/// `memfw config`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw config check")]
pub struct ConfigArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: ConfigCommand,
}

impl ConfigArgs {
  /// The preset that the flags of the command select, if any.
  pub const fn preset(&self) -> Option<Preset> {
    match &self.command {
      ConfigCommand::Show(args) => args.preset.preset,
      _ => None,
    }
  }
}

/// What to do with the configuration.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
  /// Print where the configuration file is, or would be
  #[command(after_help = "Example: $EDITOR \"$(memfw config path)\"")]
  Path(JsonArgs),
  /// Print every value and where it comes from
  #[command(after_help = "Example: memfw config show detection --preset strict")]
  Show(ShowArgs),
  /// Change one value in the file and keep its comments
  #[command(after_help = "Example: memfw config set preset strict")]
  Set(SetArgs),
  /// Check the configuration file
  #[command(after_help = "Example: memfw config check && systemctl --user restart memfw")]
  Check(JsonArgs),
  /// Print a commented file with every key and its default
  #[command(after_help = "Example: memfw config example > \"$(memfw config path)\"")]
  Example(JsonArgs),
}

/// `memfw config show`
#[derive(Clone, Debug, ClapArgs)]
pub struct ShowArgs {
  /// Only these keys, or the keys of these tables
  #[arg(value_name = "KEY")]
  pub keys: Vec<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,

  /// A preset of the configuration.
  #[command(flatten)]
  pub preset: PresetArgs,
}

/// `memfw config set`
#[derive(Clone, Debug, ClapArgs)]
pub struct SetArgs {
  /// The key, as `memfw config show` names it
  #[arg(value_name = "KEY")]
  pub key: String,

  /// Its value: TOML or plain text; several values make an array
  #[arg(value_name = "VALUE", required_unless_present = "default")]
  pub values: Vec<String>,

  /// Remove the key from the file, so that its default applies
  #[arg(long, conflicts_with = "values")]
  pub default: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}
