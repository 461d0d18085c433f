//! The arguments of `memfw quarantine`.
#![forbid(unsafe_code)]

use clap::{Args as ClapArgs, Subcommand};

use crate::provenance::State;

/// `memfw quarantine`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw quarantine approve a1b2c3")]
pub struct QuarantineArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: QuarantineCommand,
}

/// What to do with quarantined blocks.
#[derive(Clone, Debug, Subcommand)]
pub enum QuarantineCommand {
  /// Decide about waiting items, one after the other
  #[command(after_help = "Example: memfw quarantine review")]
  Review(super::review::ReviewArgs),
  /// List the items that wait for you, oldest first
  #[command(after_help = "Example: memfw quarantine list --status flagged")]
  List(QuarantineListArgs),
  /// Show items with their text and why they were taken out
  #[command(after_help = "Example: memfw quarantine show a1b2c3")]
  Show(QuarantineShowArgs),
  /// Take blocks out of their file
  #[command(after_help = "Example: memfw quarantine add ~/notes/MEMORY.md:12")]
  Add(QuarantineDecideArgs),
  /// Restore the exact bytes, and accept this text from now on
  #[command(after_help = "Example: memfw quarantine approve a1b2c3 --reason \"my own note\"")]
  Approve(QuarantineApproveArgs),
  /// Refuse items and remove their placeholders
  #[command(after_help = "Example: memfw quarantine reject a1b2c3")]
  Reject(QuarantineDecideArgs),
  /// Take decisions back, exactly
  #[command(after_help = "Example: memfw quarantine undo a1b2c3")]
  Undo(QuarantineUndoArgs),
  /// Delete the sealed text of items for good; their records are kept
  #[command(after_help = "Example: memfw quarantine delete a1b2c3 --yes")]
  Delete(super::DeleteArgs),
  /// Export items to other programs, as JSON or SARIF
  #[command(after_help = "Example: memfw quarantine export --format sarif > memfw.sarif")]
  Export(super::ExportArgs),
}

/// `memfw quarantine list`
#[derive(Clone, Debug, ClapArgs)]
pub struct QuarantineListArgs {
  /// Only items of this state, such as quarantined, held, flagged, approved or rejected
  #[arg(long, value_name = "STATUS")]
  pub status: Vec<State>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw quarantine show`
#[derive(Clone, Debug, ClapArgs)]
pub struct QuarantineShowArgs {
  /// Ids, beginnings of ids, or places in files
  #[arg(value_name = "ID|FILE:LINE", required = true)]
  pub items: Vec<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw quarantine approve`
#[derive(Clone, Debug, ClapArgs)]
pub struct QuarantineApproveArgs {
  /// The arguments of all decisions.
  #[command(flatten)]
  pub decide: QuarantineDecideArgs,

  /// Accept the text for N days only, if it reappears in its file
  #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
  pub days: Option<u32>,

  /// If its place is gone or the surrounding text changed, add it to the end of the file
  #[arg(long)]
  pub at_end: bool,
}

/// `memfw undo` and `memfw quarantine undo`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw undo a1b2c3")]
pub struct QuarantineUndoArgs {
  /// Ids or beginnings of ids; without one, the last decision
  #[arg(value_name = "ID")]
  pub items: Vec<String>,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw quarantine add|approve|reject`
#[derive(Clone, Debug, ClapArgs)]
pub struct QuarantineDecideArgs {
  /// Ids, beginnings of ids, or places in files
  #[arg(value_name = "ID|FILE:LINE", required = true)]
  pub items: Vec<String>,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}
