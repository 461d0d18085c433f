//! The content of the screen, without its layout.
//!
//! Text from files, from the ledger or from the agent is not escaped here: [`super::layout`] escapes it.
#![forbid(unsafe_code)]

use crate::{
  engine::EventKind, memory::BlockId, provenance::Trust, stats::Counts, terminal::table::Piece,
};

/// Everything that is shown.
#[derive(Clone, Debug)]
pub(super) struct View {
  /// When it was read, microseconds UTC.
  pub(super) now: i64,
  /// The program and whether it guards.
  pub(super) title: [Piece; 3],
  /// The name of the line about the extent of memory, and its text.
  pub(super) extent: (&'static str, String),
  /// How many items wait for a person; `None` if none does.
  pub(super) waiting: Option<String>,
  /// How protection is reduced.
  pub(super) problems: Vec<String>,
  /// How long poison was readable.
  pub(super) exposure: String,
  /// The last 24 hours.
  pub(super) day: Day,
  /// The newest items that wait for a person, the newest first.
  pub(super) items: Vec<WaitingItem>,
  /// How many items wait.
  pub(super) n_items: usize,
  /// The latest events, the newest first.
  pub(super) events: Vec<EventLine>,
}

/// The outcomes of blocks in the last 24 hours.
#[derive(Clone, Debug, Default)]
pub(super) struct Day {
  /// The sums.
  pub(super) counts: Counts,
  /// Whether there was more than is counted.
  pub(super) is_cut: bool,
  /// By source, those with the most findings first.
  pub(super) sources: Vec<SourceLine>,
}

/// An item or a loss that waits for a person.
#[derive(Clone, Debug)]
pub(super) struct WaitingItem {
  pub(super) id: BlockId,
  /// A loss is shown, not reviewed.
  pub(super) is_loss: bool,
  pub(super) why: String,
  /// Its file, and the line if there is one.
  pub(super) place: String,
  /// Its source; empty for a loss.
  pub(super) source: String,
  pub(super) status: &'static str,
  pub(super) at: i64,
  /// The beginning of its text, without links; of a loss, how much is gone.
  pub(super) words: String,
}

/// One event, or several alike ones without another event between them.
#[derive(Clone, Debug)]
pub(super) struct EventLine {
  /// When the latest one happened.
  pub(super) at: i64,
  pub(super) event: EventKind,
  /// How many there were.
  pub(super) n: usize,
  pub(super) source: String,
  pub(super) file: String,
  /// The block, if there was one event.
  pub(super) block: String,
  pub(super) what: String,
}

/// The outcomes of the blocks of one source.
#[derive(Clone, Debug)]
pub(super) struct SourceLine {
  pub(super) name: String,
  pub(super) trust: Option<Trust>,
  pub(super) counts: Counts,
}
