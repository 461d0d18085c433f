//! Who wrote a new piece of memory: the engine's question and the answer.
//!
//! An answer uses observations, never what the text says about itself. Where several
//! origins would explain a text, the answer is the least trusted one; where none does, the source is
//! `external-edit` (the agent keeps records, and this write is not in them) or `unknown`.
#![forbid(unsafe_code)]

use std::{
  fmt,
  path::{Path, PathBuf},
};

use super::{Attestation, Evidence, Request, Source};
use crate::hash::ContentHash;

/// New text in a memory file.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
  /// The workspace, without links in its path.
  pub workspace: &'a Path,
  /// The file, relative to the workspace.
  pub file: &'a Path,
  /// SHA-256 of the whole file as its writer left it, when the text was first seen in it.
  pub version: ContentHash,
  /// The hash of that version in the current records; it differs after edits by memfw
  /// that the records have followed.
  pub on_record: ContentHash,
  /// When memfw first saw that version, in microseconds UTC.
  pub seen_at: i64,
  /// The modification time of the file at that moment, in microseconds UTC.
  pub changed_at: i64,
  /// Other text of the workspace's memory whose origin is known, without the baseline.
  pub memory: &'a [Remembered],
  /// Devices, by the ids of the framework, that count as the owner where the framework names no owner.
  pub owner_devices: &'a [String],
  /// The pieces of new text, each the fresh lines of one block, as raw bytes.
  pub texts: &'a [&'a [u8]],
}

/// Text in memory and its origin.
#[derive(Clone, PartialEq)]
pub struct Remembered {
  /// The file, relative to the workspace.
  pub file: PathBuf,
  /// The lines of one write.
  pub text: String,
  /// Their source.
  pub source: Source,
  /// Sources that also limit their trust.
  pub fed_by: Vec<Source>,
  /// How memfw knows the source.
  pub attestation: Attestation,
  /// The owner's request when the foreign text came; empty where it is not known.
  pub asked: String,
}

/// Omits the text: a log must not hold it.
impl fmt::Debug for Remembered {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut shown = f.debug_struct("Remembered");
    shown.field("file", &self.file).field("source", &self.source).field("fed_by", &self.fed_by);
    shown.finish_non_exhaustive()
  }
}

/// Whether a later question can get a better answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
  /// The records about this write are complete.
  Final,
  /// The records lack this write, or a part of it: ask again.
  Later,
  /// The records explain nothing, and no call is running that may have written it: ask again for a short time.
  Unseen,
  /// Records that should exist cannot be read; the text says why, for `status`. Ask again.
  Unreadable(String),
}

/// The answer of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
  /// One for each text of the question, in order.
  pub attributions: Vec<Attribution>,
  /// Whether a later question can get a better answer.
  pub outlook: Outlook,
  /// Whether the framework itself saw nothing foreign in the turn that made this version, so that
  /// only an edit by another program can have cost the file its class; `None` where that is not known.
  pub clean_turn: Option<bool>,
  /// Whole lines that calls of the framework's tools removed from the file at about that time, in turns in
  /// which the framework saw nothing foreign; without line ends.
  pub replaced: Vec<String>,
}

/// The origin of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
  /// Where the text came from; `unknown` if no record explains it.
  pub source: Source,
  /// Sources that also limit the trust of the text: those that fed the sub-agent that wrote it.
  pub fed_by: Vec<Source>,
  /// How memfw knows the source.
  pub attestation: Attestation,
  /// The agent's session that wrote it.
  pub session: Option<String>,
  /// The records that show it.
  pub evidence: Evidence,
  /// The owner's request in that turn, and the passage of the source that explains the text.
  pub request: Option<Request>,
}

impl Attribution {
  /// A source without evidence.
  pub fn without_evidence(source: Source) -> Self {
    Self {
      source,
      fed_by: vec![],
      attestation: Attestation::SelfReported,
      session: None,
      evidence: Evidence::default(),
      request: None,
    }
  }
}

impl Answer {
  /// One source for all texts, without evidence.
  pub fn all(question: &Question<'_>, source: &Source, outlook: Outlook) -> Self {
    let attribution = Attribution::without_evidence(source.clone());
    let attributions = vec![attribution; question.texts.len()];
    Self { attributions, outlook, clean_turn: None, replaced: vec![] }
  }

  /// No agent keeps records: the source stays unknown.
  pub fn nothing_on_record(question: &Question<'_>) -> Self {
    Self::all(question, &Source::unknown(), Outlook::Final)
  }
}
