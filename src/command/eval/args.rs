//! The command line of `memfw eval`.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum, ValueHint, builder::Resettable};

use crate::{detect::Sensitivity, judging::assess::Layers, provenance::Trust};

/// `memfw eval`
///
/// Judges labelled lines as `memfw scan` does, and says how many attacks were found and how many
/// harmless lines were flagged, with 95 % intervals (Wilson).
///
/// A line is a JSON object with `text` and `label` (1 for an attack, 0 for harmless text); `set`, `kind`,
/// `form`, `lang`, `transform`, `pair` and `trust` are optional. An entry of memory with its origin has `memory`,
/// `source`, `asked`, `origin`, `class`, and the label `take` or `keep`. The exit status is 1 if a floor is missed.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw eval fixtures/eval --floors fixtures/eval/floors.toml")]
pub struct EvalArgs {
  /// Files of labelled lines, or directories with `*.jsonl`
  #[arg(value_name = "DIR|FILE", required = true, value_hint = ValueHint::AnyPath)]
  pub paths: Vec<PathBuf>,

  /// Judge all lines as from a source of this trust; otherwise as each line says, or untrusted
  #[arg(long, value_name = "TRUST")]
  pub trust: Option<Trust>,

  /// Judge all lines that have no origin of their own as from this source
  #[arg(long, value_name = "SOURCE")]
  pub source: Option<String>,

  /// The sensitivity: low, medium or high
  #[arg(long, value_name = "SENSITIVITY")]
  pub sensitivity: Option<Sensitivity>,

  /// Which layers judge
  #[arg(long, value_name = "LAYERS", default_value = "all")]
  pub layers: LayersArg,

  /// Compare the figures with the limits in this file
  #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub floors: Option<PathBuf>,

  /// Show the N worst mistakes of each kind
  #[arg(long, value_name = "N", default_value_t = 5, value_parser = mistakes)]
  pub mistakes: usize,

  /// Draw the curves into this file
  #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub svg: Option<PathBuf>,

  /// Write the prompts for a judge into this file (`*.jsonl`)
  #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "judge")]
  pub judge_dump: Option<PathBuf>,

  /// Use the answers of a judge in this file: lines with `id` and `answer`
  #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "judge")]
  pub judge_answers: Option<PathBuf>,

  /// Let answers release entries that are held by a probability alone
  #[arg(long, requires = "judge")]
  pub judge_may_release: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Parses a number from 0 to 1,000; the limit exists because the texts are kept in memory.
fn mistakes(word: &str) -> Result<usize, String> {
  let number = word.parse().ok().filter(|number| *number <= 1_000);
  number.ok_or_else(|| "expected a number from 0 to 1000".to_owned())
}

/// Which layers judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayersArg {
  /// The normaliser and the rules
  #[value(help = Resettable::Reset)]
  Rules,
  /// The model alone
  #[value(help = Resettable::Reset)]
  Model,
  /// All layers
  #[value(help = Resettable::Reset)]
  All,
}

impl LayersArg {
  /// The layers as the engine names them.
  pub const fn layers(self) -> Layers {
    match self {
      Self::Rules => Layers::Rules,
      Self::Model => Layers::Model,
      Self::All => Layers::All,
    }
  }
}
