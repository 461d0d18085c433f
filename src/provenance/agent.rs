//! The engine's questions to the records of an agent framework; any framework can answer them.
//!
//! The framework is behind this trait so that a second framework can be added, and so that tests of
//! the engine can use made-up records.
#![forbid(unsafe_code)]

use std::path::Path;

use super::attribution::{Answer, Question};
use crate::hash::ContentHash;

/// The framework's record about one memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
  /// No record: an edit by memfw changes nothing for the framework.
  NoRecord,
  /// The framework recorded a write of its own tools that left the file with this hash.
  Recorded {
    /// SHA-256 of the whole file after that write.
    hash: ContentHash,
    /// The trust that the framework has in the file since then, in its own word; `None` where it has no class.
    class: Option<String>,
  },
  /// memfw cannot read the records; the text says why, for `status`.
  Unreadable(String),
}

impl Standing {
  /// Whether the framework's record is about a file with this hash.
  pub fn is_about(&self, version: ContentHash) -> bool {
    matches!(self, Self::Recorded { hash, .. } if *hash == version)
  }
}

/// The result when the framework's record should follow an edit by memfw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
  /// The record now has the hash of the edited bytes.
  Yes,
  /// There is no record, or it was about other bytes than memfw edited: it must not be changed.
  NotOurs,
  /// The record should have followed and could not; the text says why, for `status`.
  Failed(String),
}

/// The framework's own words for its trust in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
  /// The framework loads the file; the first write by its own tools gives it this class.
  pub full: &'static str,
  /// The framework no longer loads the file.
  pub dropped: &'static str,
}

/// The records of an agent framework about the memory files of its workspaces.
/// Several threads call these methods. A default body is right for a framework
/// without records of that kind.
pub trait AgentRecords: Send + Sync {
  /// The record about `file` (relative to `workspace`).
  fn standing(&self, _workspace: &Path, _file: &Path) -> Standing {
    Standing::NoRecord
  }

  /// Makes the record follow an edit by memfw from `before` to `after`, if and only if it was about
  /// `before`: text by another program must not gain trust this way. With `class`, the file's class becomes
  /// that one in the same transaction; only a class that the record of this file had before may be given.
  fn follow(
    &self,
    _workspace: &Path,
    _file: &Path,
    _before: ContentHash,
    _after: ContentHash,
    _class: Option<&str>,
  ) -> Followed {
    Followed::NotOurs
  }

  /// The words for its classes; `None` where it has no classes, or none that memfw knows.
  fn classes(&self) -> Option<Classes> {
    None
  }

  /// Whether the framework keeps records at all; otherwise memfw asks no questions.
  fn keeps_records(&self) -> bool {
    true
  }

  /// Who wrote new text, according to the current records.
  fn attribute(&self, question: &Question<'_>) -> Answer;

  /// How many characters of `file` the framework puts into the prompt, where it loads the whole file:
  /// the file's own limit, or what earlier files leave of the common limit. `None` where
  /// the framework only searches the file.
  fn injection_limit(&self, _workspace: &Path, _file: &Path) -> Option<usize> {
    None
  }

  /// Whether the framework's index of `file` holds any of these texts; `None` where there is no readable
  /// index.
  fn still_indexed(&self, _workspace: &Path, _file: &Path, _texts: &[&[u8]]) -> Option<bool> {
    None
  }
}

/// No framework: no records, no loaded files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAgent;

impl AgentRecords for NoAgent {
  fn keeps_records(&self) -> bool {
    false
  }

  fn attribute(&self, question: &Question<'_>) -> Answer {
    Answer::nothing_on_record(question)
  }
}
