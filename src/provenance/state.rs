//! The state of a block between the first sight of it and the decision about it.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

/// The state of a block in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
  /// Seen, not completely judged.
  Unvalidated,
  /// Judged, without findings.
  Validated,
  /// Judged, with findings, and still in the file.
  Flagged,
  /// Taken out because of its content; waits for a person.
  Quarantined,
  /// Taken out because of the policy; waits for a person.
  Held,
  /// A person restored it.
  Approved,
  /// A person rejected it.
  Rejected,
  /// A person replaced it by a correct text.
  Corrected,
  /// Its bytes were deleted on request.
  Forgotten,
}

impl State {
  /// All states.
  pub const ALL: [Self; 9] = [
    Self::Unvalidated,
    Self::Validated,
    Self::Flagged,
    Self::Quarantined,
    Self::Held,
    Self::Approved,
    Self::Rejected,
    Self::Corrected,
    Self::Forgotten,
  ];

  /// The word used in JSON, logs and on the command line.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Unvalidated => "unvalidated",
      Self::Validated => "validated",
      Self::Flagged => "flagged",
      Self::Quarantined => "quarantined",
      Self::Held => "held",
      Self::Approved => "approved",
      Self::Rejected => "rejected",
      Self::Corrected => "corrected",
      Self::Forgotten => "forgotten",
    }
  }

  /// Whether the bytes are out of the file and wait for a decision of a person.
  pub const fn is_waiting(self) -> bool {
    matches!(self, Self::Quarantined | Self::Held)
  }
}

impl fmt::Display for State {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

impl FromStr for State {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    Self::ALL
      .into_iter()
      .find(|state| state.as_str() == text)
      .ok_or_else(|| format!("unknown state `{text}`"))
  }
}
