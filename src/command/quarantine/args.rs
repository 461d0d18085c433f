//! The arguments of `memfw quarantine`.
#![forbid(unsafe_code)]

use clap::{Args as ClapArgs, Subcommand};

use super::filter::FilterArgs;
use crate::memory::parts::Numbers;

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
  Review(ReviewArgs),
  /// List the items that wait for you, oldest first
  #[command(after_help = "Example: memfw quarantine list --status flagged")]
  List(QuarantineListArgs),
  /// Show items with their text and why they were taken out
  #[command(after_help = "Example: memfw quarantine show a1b2c3")]
  Show(QuarantineShowArgs),
  /// Take blocks out of their file
  #[command(after_help = "Example: memfw quarantine add ~/notes/MEMORY.md:12")]
  Add(QuarantineAddArgs),
  /// Restore the exact bytes, and accept this text from now on
  #[command(after_help = "Example: memfw quarantine approve a1b2c3 --reason \"my own note\"")]
  Approve(QuarantineApproveArgs),
  /// Refuse items and remove their placeholders
  #[command(after_help = "Example: memfw quarantine reject a1b2c3")]
  Reject(QuarantineChooseArgs),
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

/// `memfw list` and `memfw quarantine list`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw list --file MEMORY.md --since 2d")]
pub struct QuarantineListArgs {
  /// Which items.
  #[command(flatten)]
  pub filter: FilterArgs,

  /// Give each item a row of its own, however alike they are
  #[arg(long)]
  pub each: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw show` and `memfw quarantine show`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw show a1b2c3")]
pub struct QuarantineShowArgs {
  /// Ids, beginnings of ids, or places in files
  #[arg(value_name = "ID|FILE:LINE", required = true)]
  pub items: Vec<String>,

  /// Number the lines and sentences, for `approve --lines` and `--sentences`
  #[arg(long)]
  pub parts: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw approve` and `memfw quarantine approve`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw approve a1b2c3 --reason \"my own note\"")]
pub struct QuarantineApproveArgs {
  /// The arguments of a decision about chosen items.
  #[command(flatten)]
  pub choose: QuarantineChooseArgs,

  /// Accept it for N days only, if it reappears
  #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
  pub days: Option<u32>,

  /// Append it where its place is gone or has changed
  #[arg(long)]
  pub at_end: bool,

  /// Restore only these lines of one item, such as `1,3-4`
  #[arg(long, value_name = "NUMBERS", conflicts_with_all = ["at_end", "sentences"])]
  pub lines: Option<Numbers>,

  /// Restore only these sentences of one item
  #[arg(long, value_name = "NUMBERS", conflicts_with = "at_end")]
  pub sentences: Option<Numbers>,
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

/// `memfw approve`, `memfw reject` and their long forms.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw reject a1b2c3")]
pub struct QuarantineChooseArgs {
  /// Ids or places in files; else what the filters choose
  #[arg(value_name = "ID|FILE:LINE")]
  pub items: Vec<String>,

  /// Which items, if none is named.
  #[command(flatten)]
  pub filter: FilterArgs,

  /// Decide about several items without asking
  #[arg(long)]
  pub yes: bool,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw quarantine add`
#[derive(Clone, Debug, ClapArgs)]
pub struct QuarantineAddArgs {
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

/// `memfw review` and `memfw quarantine review`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw review --file MEMORY.md")]
pub struct ReviewArgs {
  /// Ids or places in files; else what the filters choose
  #[arg(value_name = "ID|FILE:LINE")]
  pub items: Vec<String>,

  /// Which items, if none is named.
  #[command(flatten)]
  pub filter: FilterArgs,
}
