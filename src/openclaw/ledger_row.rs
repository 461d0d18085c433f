//! A row of OpenClaw's ledger of memory files, as far as memfw uses it.
#![forbid(unsafe_code)]

use crate::memory::ContentHash;

/// The class of a file that OpenClaw loads.
pub const TRUSTED: &str = "agent";
/// The class of one that it does not.
pub const DROPPED: &str = "untrusted";

/// What OpenClaw noted about the last write of its own tools to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRow {
  /// SHA-256 of the whole file after that write.
  pub hash: ContentHash,
  /// How far OpenClaw trusts the file since then.
  pub class: Option<String>,
  /// The session that wrote.
  pub session_id: Option<String>,
  /// The key of that session, such as `agent:main:main`.
  pub session_key: Option<String>,
  /// When the write was noted, just before it was made, in microseconds UTC.
  pub observed_at: Option<i64>,
  /// The row as in the database: JSON, for a copy and for a comparison.
  pub json: String,
}
