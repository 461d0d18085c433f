//! How memfw knows the source of a block.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

/// How memfw knows a source, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attestation {
  /// Not observed; the default.
  SelfReported,
  /// The agent's records show the write and the sources that fed it.
  ToolObserved,
  /// The file hash matches the agent's ledger row, or the text matches the fetched material.
  ContentHashed,
  /// A person named the source.
  HumanConfirmed,
  /// Its audit entry is covered by a signed checkpoint that is kept elsewhere.
  Anchored,
}

impl Attestation {
  /// All levels, weakest first.
  pub const ALL: [Self; 5] = [
    Self::SelfReported,
    Self::ToolObserved,
    Self::ContentHashed,
    Self::HumanConfirmed,
    Self::Anchored,
  ];

  /// The word used in markers, JSON, logs and configuration.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::SelfReported => "self-reported",
      Self::ToolObserved => "tool-observed",
      Self::ContentHashed => "content-hashed",
      Self::HumanConfirmed => "human-confirmed",
      Self::Anchored => "anchored",
    }
  }
}

impl fmt::Display for Attestation {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

impl FromStr for Attestation {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    Self::ALL
      .into_iter()
      .find(|level| level.as_str() == text)
      .ok_or_else(|| format!("unknown attestation `{text}`"))
  }
}
