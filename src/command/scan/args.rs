//! `memfw scan` as clap reads it.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint, builder::Resettable};

use crate::{command::shared::args::PresetArgs, config::Scope, provenance::Trust};

/// How a text is judged by `memfw scan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScanMode {
  /// As a new block of memory
  #[value(help = Resettable::Reset)]
  Write,
  /// As memory that is about to be shown to the agent
  #[value(help = Resettable::Reset)]
  Recall,
  /// As a document from outside
  #[value(help = Resettable::Reset)]
  Document,
}

/// What `memfw scan` calls a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
  /// Anything that is found
  #[value(help = Resettable::Reset)]
  Flag,
  /// Only what would be quarantined
  #[value(help = Resettable::Reset)]
  Quarantine,
}

/// `memfw scan`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw scan ~/notes/MEMORY.md")]
pub struct ScanArgs {
  /// Files or directories; `-`, or nothing in a pipe, is standard input
  #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
  pub paths: Vec<PathBuf>,

  /// Source of the text, such as `web_fetch:example.com`
  #[arg(long, value_name = "SOURCE")]
  pub source: Option<String>,

  /// Its trust: trusted, verified, untrusted or hostile
  #[arg(long, value_name = "TRUST")]
  pub trust: Option<Trust>,

  /// Which rules judge: strict or relaxed
  #[arg(long, value_name = "SCOPE")]
  pub scope: Option<Scope>,

  /// Judge as write, recall or document
  #[arg(long, value_name = "MODE", default_value = "write", hide_possible_values = true)]
  pub mode: ScanMode,

  /// Print JSON
  #[arg(long, conflicts_with_all = ["jsonl", "sarif"])]
  pub json: bool,

  /// Read and write one JSON object per line
  #[arg(long, conflicts_with = "sarif")]
  pub jsonl: bool,

  /// A preset of the configuration.
  #[command(flatten)]
  pub preset: PresetArgs,

  /// Print SARIF 2.1.0, for code scanning
  #[arg(long)]
  pub sarif: bool,

  /// Verdict that fails: flag, quarantine
  #[arg(
    long,
    value_name = "VERDICT",
    default_value = "flag",
    conflicts_with = "jsonl",
    hide_possible_values = true
  )]
  pub fail_on: FailOn,

  /// Findings that need no answer: see docs/review.md
  #[arg(long, value_name = "FILE", conflicts_with = "jsonl", value_hint = ValueHint::FilePath)]
  pub ignore: Option<PathBuf>,

  /// Count only what this `scan --json` output lacks
  #[arg(long, value_name = "FILE", conflicts_with = "jsonl", value_hint = ValueHint::FilePath)]
  pub baseline: Option<PathBuf>,
}
