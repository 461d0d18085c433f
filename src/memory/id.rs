//! The short random id of a block; its other name is the hash of its bytes.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

pub use crate::hash::{ContentHash, from_hex, hex};

/// Fewest hex digits of a block id.
pub const MIN_ID_DIGITS: usize = 6;
/// Most hex digits of a block id; ids grow only where shorter ones are taken.
pub const MAX_ID_DIGITS: usize = 16;

/// A short random id: 6 to 16 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(String);

impl BlockId {
  /// The id made of the first `digits` hex digits of `random`; `digits` is brought into 6..=16.
  pub fn from_random(random: [u8; 8], digits: usize) -> Self {
    let mut text = hex(&random);
    text.truncate(digits.clamp(MIN_ID_DIGITS, MAX_ID_DIGITS));
    Self(text)
  }

  /// The digits.
  pub fn as_str(&self) -> &str {
    &self.0
  }
}

impl fmt::Display for BlockId {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(&self.0)
  }
}

/// The text is not 6 to 16 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a block id (6 to 16 lower-case hex digits)")]
pub struct NotAnId;

impl FromStr for BlockId {
  type Err = NotAnId;

  fn from_str(text: &str) -> Result<Self, NotAnId> {
    let digits = (MIN_ID_DIGITS..=MAX_ID_DIGITS).contains(&text.len())
      && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if digits { Ok(Self(text.to_owned())) } else { Err(NotAnId) }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn ids_are_lower_case_hex_of_six_to_sixteen_digits() {
    assert!("a1b2c3".parse::<BlockId>().is_ok());
    for bad in ["", "a1b2c", "A1B2C3", "a1b2cg", "0123456789abcdef0", "a1b2c3 "] {
      assert_eq!(bad.parse::<BlockId>(), Err(NotAnId), "{bad}");
    }
    let id = BlockId::from_random([0xab, 0xcd, 0xef, 1, 2, 3, 4, 5], 0);
    assert_eq!(id.as_str(), "abcdef");
  }
}
