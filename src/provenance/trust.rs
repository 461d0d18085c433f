//! The trust in a source.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

/// Trust in the source of a block, from the least to the most, so that `min` is the safe choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
  /// Assume an adversary (anonymous posts, agent social networks).
  Hostile,
  /// Could be manipulated (web, unknown senders, files, tools, anything unknown).
  Untrusted,
  /// Known first-party source (own mail and calendar, the agent itself, text older than memfw).
  Verified,
  /// The user said it directly.
  Trusted,
}

impl Trust {
  /// All levels, least trusted first.
  pub const ALL: [Self; 4] = [Self::Hostile, Self::Untrusted, Self::Verified, Self::Trusted];

  /// The word used in markers, JSON, logs and configuration.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Hostile => "hostile",
      Self::Untrusted => "untrusted",
      Self::Verified => "verified",
      Self::Trusted => "trusted",
    }
  }
}

impl fmt::Display for Trust {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

/// The text is not one of the four words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trust `{0}`, expected `trusted`, `verified`, `untrusted` or `hostile`")]
pub struct UnknownTrust(pub String);

impl FromStr for Trust {
  type Err = UnknownTrust;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    Self::ALL
      .into_iter()
      .find(|trust| trust.as_str() == text)
      .ok_or_else(|| UnknownTrust(text.to_owned()))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_least_trusted_is_the_minimum() {
    assert_eq!(Trust::ALL.into_iter().min(), Some(Trust::Hostile));
    assert!(Trust::Untrusted < Trust::Verified);
  }

  #[test]
  fn words_round_trip() {
    for trust in Trust::ALL {
      assert_eq!(trust.as_str().parse(), Ok(trust));
    }
    assert!("quarantined".parse::<Trust>().is_err());
  }
}
