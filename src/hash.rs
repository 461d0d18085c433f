//! The hash of content: the name that blocks, versions and records have in the ledger and in the agent's records.
#![forbid(unsafe_code)]

use std::{fmt, fmt::Write as _};

use sha2::{Digest, Sha256};

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
