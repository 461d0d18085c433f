//! The two names of a block: a short random id and the hash of its bytes.
#![forbid(unsafe_code)]

use std::{fmt, fmt::Write as _, str::FromStr};

use sha2::{Digest, Sha256};

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

/// SHA-256 of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
  /// The hash of one run of bytes.
  pub fn of(bytes: &[u8]) -> Self {
    Self::of_parts([bytes])
  }

  /// The hash of several runs, as if they were joined.
  pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
    let mut hasher = Sha256::new();
    for part in parts {
      hasher.update(part);
    }
    Self(hasher.finalize().into())
  }

  /// 64 lower-case hex digits.
  pub fn to_hex(self) -> String {
    hex(&self.0)
  }

  /// The hash from bytes of a database column; `None` unless there are 32.
  pub fn from_slice(bytes: &[u8]) -> Option<Self> {
    bytes.try_into().ok().map(Self)
  }
}

impl fmt::Debug for ContentHash {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "ContentHash({})", self.to_hex())
  }
}

impl fmt::Display for ContentHash {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&self.to_hex())
  }
}

/// Lower-case hex digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
  bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
    // Writing to a String cannot fail.
    write!(text, "{byte:02x}").ok();
    text
  })
}

/// The bytes of hex digits in either case; `None` for anything else.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
  let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
  let nibble = |digit: u8| char::from(digit).to_digit(16);
  let byte = |[high, low]: &[u8; 2]| u8::try_from(nibble(*high)? << 4 | nibble(*low)?).ok();
  if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
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

  #[test]
  fn hex_digits_come_back() {
    assert_eq!(from_hex(&hex(&[0, 0x1f, 0xff])), Some(vec![0, 0x1f, 0xff]));
    assert_eq!(from_hex("aB"), Some(vec![0xab]));
    for bad in ["a", "+1", "0x", "g0", "é"] {
      assert_eq!(from_hex(bad), None, "{bad}");
    }
  }

  #[test]
  fn the_hash_of_parts_is_that_of_the_whole() {
    assert_eq!(ContentHash::of(b"ab"), ContentHash::of_parts([&b"a"[..], b"", b"b"]));
    assert_eq!(
      ContentHash::of(b"").to_hex(),
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
  }
}
