//! What a call may leave in a file, before anybody has judged it.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One replacement.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Edit {
  /// The text that goes.
  pub old: String,
  /// The text that comes.
  pub new: String,
}

/// The files that a call can reach.
pub trait Files {
  /// The file that a name in a call means, without links.
  fn place(&self, named: &str) -> Option<PathBuf>;

  /// The content of a file; `None` if there is none, or if it cannot be read.
  fn content(&self, file: &Path) -> Option<Vec<u8>>;
}

/// What a call may leave in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
  /// The file.
  pub file: PathBuf,
  /// Each of them is judged.
  pub versions: Vec<Version>,
}

/// What a call may leave in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
  /// The whole content.
  Content(Vec<u8>),
  /// The content before the call, and this text at its end.
  Added(String),
}

impl Version {
  /// A text that may get anywhere into a file: at its end, and without the text before it, such as a code fence
  /// that is open.
  pub(super) fn added(text: &str) -> [Self; 2] {
    [Self::Added(text.to_owned()), Self::Content(text.as_bytes().to_vec())]
  }

  /// The content, if it was `before` earlier.
  pub fn over(self, before: &[u8]) -> Vec<u8> {
    match self {
      Self::Content(content) => content,
      Self::Added(text) => {
        let gap = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
        [before, gap.as_bytes(), text.as_bytes()].concat()
      }
    }
  }
}

/// The text of bytes as the agent's tools read it: what is no UTF-8 becomes a replacement character.
pub fn lossy(bytes: &[u8]) -> String {
  let mut text = String::with_capacity(bytes.len());
  for chunk in bytes.utf8_chunks() {
    text.push_str(chunk.valid());
    if !chunk.invalid().is_empty() {
      text.push(char::REPLACEMENT_CHARACTER);
    }
  }
  text
}
