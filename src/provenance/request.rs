//! The owner's request, and the passage of the origin that explains a text.
#![forbid(unsafe_code)]

use std::fmt;

use zeroize::Zeroizing;

use crate::hash::ContentHash;

/// The bytes of the owner's words that are stored for one turn; a choice, far above any request in a chat.
pub const MAX_ASKED_BYTES: usize = 2048;
/// The bytes that are stored of the passage of the origin that explains a text.
pub const MAX_PASSAGE_BYTES: usize = 2048;

/// The owner's request in the turn that wrote a text, and the passage of the origin that explains the text.
///
/// Both are private words: the ledger seals them, `memfw explain` shows them, and no log holds them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Request {
  /// The owner's words; empty for a background run.
  pub asked: String,
  /// The passage of the origin that explains the text; empty where there is none.
  pub passage: String,
}

impl Request {
  /// Both, cut to the stored lengths.
  pub fn new(asked: &str, passage: &str) -> Self {
    Self { asked: cut(asked, MAX_ASKED_BYTES), passage: cut(passage, MAX_PASSAGE_BYTES) }
  }

  /// The hash of both, by which rows name it.
  pub fn hash(&self) -> ContentHash {
    ContentHash::of(&self.to_bytes())
  }

  /// Both as bytes, to be sealed: four for the length of the first, then one after the other.
  pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4 + self.asked.len() + self.passage.len());
    bytes.extend_from_slice(&(self.asked.len() as u32).to_be_bytes());
    bytes.extend_from_slice(self.asked.as_bytes());
    bytes.extend_from_slice(self.passage.as_bytes());
    Zeroizing::new(bytes)
  }

  /// Reads such bytes; `None` for other bytes.
  pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (asked, passage) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(Self { asked: text(asked)?, passage: text(passage)? })
  }

  /// Whether both are empty.
  pub fn is_empty(&self) -> bool {
    self.asked.is_empty() && self.passage.is_empty()
  }
}

/// Their lengths alone: a log must not hold them.
impl fmt::Debug for Request {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct("Request")
      .field("asked_bytes", &self.asked.len())
      .field("passage_bytes", &self.passage.len())
      .finish()
  }
}

/// The text without white space around it, cut at a character.
fn cut(text: &str, most: usize) -> String {
  let text = text.trim();
  let end = text.floor_char_boundary(most);
  text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn long_words_are_cut_at_a_character_and_never_shown() {
    let long = "ä".repeat(MAX_ASKED_BYTES);
    let request = Request::new(&format!("  x{long}"), "the page");
    assert_eq!(request.asked.len(), MAX_ASKED_BYTES - 1);
    assert!(!request.is_empty() && Request::default().is_empty());
    assert!(!format!("{request:?}").contains("page"));
    assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
    assert_eq!(Request::from_bytes(b"\0\0\0\x09x"), None);
    let (one, other) = (Request::new("ab", "c"), Request::new("a", "bc"));
    assert_ne!(one.hash(), other.hash());
  }
}
