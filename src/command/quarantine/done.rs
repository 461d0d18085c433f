//! The result of one decision of a person, about an item or a loss.
#![forbid(unsafe_code)]

use serde_json::Value;

use crate::memory::BlockId;

/// The result of one decision.
pub(in crate::command) struct Done {
  /// The item, under its present id.
  pub(in crate::command) id: BlockId,
  /// The line for people.
  pub(in crate::command) line: String,
  /// The value for programs.
  pub(in crate::command) value: Value,
  /// The item whose decision `memfw undo` takes back.
  pub(in crate::command) undoable: Option<BlockId>,
}
