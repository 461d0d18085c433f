//! What is asked about one entry.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Reading, Ruling, mask};
use crate::memory::ContentHash;

/// Bytes of an entry that are sent, at most: a longer one is asked about without its middle, and its answer can
/// only tighten.
pub(super) const MAX_ENTRY: usize = 8 * 1024;
/// Bytes of the owner's words that are sent, at most.
pub(super) const MAX_ASKED: usize = 2 * 1024;
/// Bytes of a source that are sent, at most.
pub(super) const MAX_SOURCE: usize = 256;
/// Known entries that are sent, at most.
pub(super) const MAX_KNOWN: usize = 4;
/// Bytes of one of them, at most.
pub(super) const MAX_KNOWN_BYTES: usize = 512;

/// Bytes of an entry that are kept, at most; far more than are sent.
const MAX_KEPT: usize = 64 * 1024;

/// An entry and the known facts about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
  /// What the owner had asked for in the turn that wrote it; empty where nothing is known of that.
  pub asked: &'a str,
  /// Where it came from.
  pub source: &'a str,
  /// The text of the entry, complete.
  pub entry: &'a str,
  /// Entries of trusted memory that it contradicts.
  pub known: &'a [String],
}

impl Question<'_> {
  /// The name of the question: an equal question needs no second answer.
  pub fn hash(&self) -> ContentHash {
    let n_known = self.known.len() as u64;
    let mut bytes = Vec::with_capacity(self.entry.len() + self.asked.len() + 512);
    let parts = [self.asked, self.source, self.entry].into_iter();
    for part in parts.chain(self.known.iter().map(String::as_str)) {
      bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
      bytes.extend_from_slice(part.as_bytes());
    }
    bytes.extend_from_slice(&n_known.to_be_bytes());
    ContentHash::of(&bytes)
  }

  /// Whether an answer is followed. A model that was not shown all of an entry may have it taken
  /// out, but not kept.
  pub fn heeds(&self, reading: &Reading) -> bool {
    reading.ruling == Ruling::Take || mask(self.entry) == self.entry
  }
}

/// A question that is kept until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptQuestion {
  asked: String,
  source: String,
  entry: String,
  known: Vec<String>,
}

impl KeptQuestion {
  /// A copy, of a long entry without its middle; its hash is another one then.
  pub fn new(question: &Question<'_>) -> Self {
    Self {
      asked: cut(question.asked, MAX_KEPT).0,
      source: cut(question.source, MAX_SOURCE).0,
      entry: cut(question.entry, MAX_KEPT).0,
      known: question.known.iter().take(MAX_KNOWN).map(|one| cut(one, MAX_KNOWN_BYTES).0).collect(),
    }
  }

  /// The stored question, borrowed.
  pub fn question(&self) -> Question<'_> {
    let Self { asked, source, entry, known } = self;
    Question { asked, source, entry, known }
  }

  /// As bytes, to be sealed.
  pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(serde_json::to_vec(self).unwrap_or_default())
  }

  /// The question in the bytes of [`Self::to_bytes`]; `None` for other bytes.
  pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
    serde_json::from_slice(bytes).ok()
  }
}

/// The beginning and the end of a text, and whether that is all of it.
pub(super) fn cut(text: &str, most: usize) -> (String, bool) {
  if text.len() <= most {
    return (text.to_owned(), true);
  }
  let start = text.get(..text.floor_char_boundary(most / 2)).unwrap_or_default();
  let end = text.get(text.ceil_char_boundary(text.len() - most / 2)..).unwrap_or_default();
  (format!("{start} [...] {end}"), false)
}
