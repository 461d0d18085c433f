//! `memfw skills` as clap reads it.
#![forbid(unsafe_code)]

use clap::{Args, Subcommand};

use crate::command::shared::args::JsonArgs;

/// `memfw skills`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: memfw skills list")]
pub struct SkillsArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: SkillsCommand,
}

/// What to do with skills.
#[derive(Clone, Debug, Subcommand)]
pub enum SkillsCommand {
  /// List the skills and what the last check has found
  #[command(after_help = "Example: memfw skills list --json")]
  List(JsonArgs),
  /// Check skills now: their files, their text and their signatures
  #[command(after_help = "Example: memfw skills verify weather")]
  Verify(SkillsVerifyArgs),
  /// Trust the present files of skills, or withdraw that
  #[command(after_help = "Example: memfw skills trust weather")]
  Trust(SkillsTrustArgs),
  /// Choose whose signatures of skills count
  #[command(after_help = "Example: memfw skills key list")]
  Key(SkillKeyArgs),
}

/// `memfw skills verify`
///
/// Compares the files with those that you trusted, or else with those that were first seen. Exit status: 0 if all are
/// new or trusted, 1 if one is changed, flagged or gone, or if not all skills can be found, 2 if there is no skill of
/// that name. Nothing is changed.
#[derive(Clone, Debug, Args)]
pub struct SkillsVerifyArgs {
  /// Names of skills, or their directories; without any, all skills
  #[arg(value_name = "NAME")]
  pub names: Vec<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw skills trust`
///
/// Records the files as they are now as your decision: a later change is reported, and findings in them no longer count.
#[derive(Clone, Debug, Args)]
pub struct SkillsTrustArgs {
  /// Names of skills, or their directories
  #[arg(value_name = "NAME", required = true)]
  pub names: Vec<String>,

  /// Withdraw the trust in these skills
  #[arg(long)]
  pub withdraw: bool,
}

/// `memfw skills key`
#[derive(Clone, Debug, Args)]
pub struct SkillKeyArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: SkillKeyCommand,
}

/// What to do with keys.
#[derive(Clone, Debug, Subcommand)]
pub enum SkillKeyCommand {
  /// Trust the signatures of a public key of minisign
  #[command(
    after_help = "Example: memfw skills key add RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
  )]
  Add(SkillKeyAddArgs),
  /// List the trusted keys
  #[command(after_help = "Example: memfw skills key list --json")]
  List(JsonArgs),
  /// Trust the signatures of a key no longer
  #[command(after_help = "Example: memfw skills key remove E7620F1842B4E81F")]
  Remove(SkillKeyRemoveArgs),
}

/// `memfw skills key add`
#[derive(Clone, Debug, Args)]
pub struct SkillKeyAddArgs {
  /// The key, or a file of minisign with the key
  #[arg(value_name = "PUBLIC_KEY")]
  pub key: String,

  /// Whose key it is, in your words
  #[arg(long, value_name = "TEXT", default_value = "")]
  pub name: String,
}

/// `memfw skills key remove`
#[derive(Clone, Debug, Args)]
pub struct SkillKeyRemoveArgs {
  /// The id of the key, or its beginning
  #[arg(value_name = "KEY_ID")]
  pub id: String,
}
