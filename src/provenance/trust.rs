//! The trust in a source.
#![forbid(unsafe_code)]

/// Trust in the source of a block, from the least to the most, so that `min` is the safe choice.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  strum::Display,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownTrust, parse_err_fn = UnknownTrust::new)]
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
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in markers, JSON, logs and configuration.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// The text is not one of the four words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown trust `{0}`, expected `trusted`, `verified`, `untrusted` or `hostile`")]
pub struct UnknownTrust(pub String);

impl UnknownTrust {
  fn new(text: &str) -> Self {
    Self(text.to_owned())
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_least_trusted_is_the_minimum() {
    assert_eq!(Trust::ALL.iter().min(), Some(&Trust::Hostile));
    assert!(Trust::Untrusted < Trust::Verified);
  }

  #[test]
  fn words_round_trip() {
    for trust in Trust::ALL {
      assert_eq!(trust.as_str().parse(), Ok(*trust));
    }
    assert!("quarantined".parse::<Trust>().is_err());
  }
}
