//! What the engine asks of an agent framework's own records, whichever framework it is.
//!
//! The framework stands behind this trait so that a second one can be put beside the first, and so
//! that the engine can be tested with records that are made up.
#![forbid(unsafe_code)]

use std::path::Path;

use super::attribution::{Answer, Question};
use crate::memory::ContentHash;

/// What the framework has on record about one memory file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
  /// No record: an edit of ours changes nothing for the framework.
  NoRecord,
  /// The framework recorded a write of its own tools that left the file with this hash.
  Recorded {
    /// SHA-256 of the whole file after that write.
    hash: ContentHash,
    /// How far the framework trusts the file since then, in its own word; `None` where it has none.
    class: Option<String>,
  },
  /// There are records that we cannot read; the text says why, for `status`.
  Unreadable(String),
}

impl Standing {
  /// Whether the framework's record is about a file with this hash.
  pub fn is_about(&self, version: ContentHash) -> bool {
    matches!(self, Self::Recorded { hash, .. } if *hash == version)
  }
}

/// What became of the wish that the framework's record follows an edit of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
  /// The record now has the hash of the edited bytes.
  Yes,
  /// There is no record, or it was not about the bytes that we edited: nothing may be changed.
  NotOurs,
  /// It should have followed and could not; the text says why, for `status`.
  Failed(String),
}

/// The framework's own words for how far it trusts a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
  /// It loads the file; a first write of its own tools gives it this one.
  pub full: &'static str,
  /// It does not load the file any more.
  pub dropped: &'static str,
}

/// The records of an agent framework about the memory files of its workspaces.
/// They are asked from several threads. Where a method has a body, that is what holds for a framework
/// that keeps nothing of the kind.
pub trait AgentRecords: Send + Sync {
  /// What is on record about `file` (relative to `workspace`).
  fn standing(&self, _workspace: &Path, _file: &Path) -> Standing {
    Standing::NoRecord
  }

  /// Lets the record follow an edit of ours from `before` to `after`, if and only if it was about
  /// `before`: nothing that somebody else wrote may be laundered. With `class`, the file's class becomes
  /// that one in the same transaction; only a class that was on record for this file before may be given.
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

  /// The words for its classes; `None` where it has none, or none that are known.
  fn classes(&self) -> Option<Classes> {
    None
  }

  /// Whether there is anything to ask: where nobody keeps records, nothing is asked.
  fn keeps_records(&self) -> bool {
    true
  }

  /// Who wrote new text, as far as the records tell by now.
  fn attribute(&self, question: &Question<'_>) -> Answer;

  /// How many characters of `file` the framework puts before its model, where it injects the file
  /// whole: its own limit, or what the files before it leave of the limit for all together. `None` where
  /// the file is only searched.
  fn injection_limit(&self, _workspace: &Path, _file: &Path) -> Option<usize> {
    None
  }

  /// Whether the framework's own index of `file` holds any of these texts; `None` where there is no index
  /// that could be read.
  fn still_indexed(&self, _workspace: &Path, _file: &Path, _texts: &[&[u8]]) -> Option<bool> {
    None
  }
}

/// No framework: nothing on record, nothing injected.
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
