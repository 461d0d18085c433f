//! Who wrote a new piece of memory: the question that the engine asks, and the answer.
//!
//! An answer rests on what was observed, never on what the text says about itself. Where several
//! origins would explain a text, the least trusted one is answered; where none does, the source is
//! `external-edit` (the agent keeps records, and they know nothing of this write) or `unknown`.
#![forbid(unsafe_code)]

use std::{
  fmt,
  path::{Path, PathBuf},
};

use super::{Attestation, Evidence, Request, Source};
use crate::memory::ContentHash;

/// New text in a memory file.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
  /// The workspace, without links in its path.
  pub workspace: &'a Path,
  /// The file, relative to the workspace.
  pub file: &'a Path,
  /// SHA-256 of the whole file as its writer left it, when the text was first seen in it.
  pub version: ContentHash,
  /// The hash under which a record about that version is found by now: another one after edits of ours
  /// that the record has followed.
  pub on_record: ContentHash,
  /// When memfw first saw that version, in microseconds UTC.
  pub seen_at: i64,
  /// When the file had been changed then by its own time stamp, in microseconds UTC.
  pub changed_at: i64,
  /// Other text of the same workspace's memory whose origin is known, what was there before memfw left out.
  pub memory: &'a [Remembered],
  /// Devices whose words are the owner's where the framework does not say who the owner is, by its ids.
  pub owner_devices: &'a [String],
  /// The pieces of new text, each the fresh lines of one block, as raw bytes.
  pub texts: &'a [&'a [u8]],
}

/// Text that stands in memory, and where it came from.
#[derive(Clone, PartialEq)]
pub struct Remembered {
  /// The file, relative to the workspace.
  pub file: PathBuf,
  /// The lines that came together.
  pub text: String,
  /// Their source.
  pub source: Source,
  /// Sources whose trust they cannot exceed either.
  pub fed_by: Vec<Source>,
  /// How that is known.
  pub attestation: Attestation,
  /// What the owner had asked for when somebody else's text came; empty where that is not known.
  pub asked: String,
}

/// Without the text: a log must not hold it.
impl fmt::Debug for Remembered {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut shown = f.debug_struct("Remembered");
    shown.field("file", &self.file).field("source", &self.source).field("fed_by", &self.fed_by);
    shown.finish_non_exhaustive()
  }
}

/// Whether asking again later can bring more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
  /// The records about this write are complete.
  Final,
  /// The write is not on record yet, or not all of it: ask again.
  Later,
  /// Nothing on record did it, and no call is under way that may have: ask again, but not for long.
  Unseen,
  /// Records that should be there cannot be read; the text says why, for `status`. Ask again.
  Unreadable(String),
}

/// What the records say.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
  /// One for each text of the question, in order.
  pub attributions: Vec<Attribution>,
  /// Whether asking again can bring more.
  pub outlook: Outlook,
  /// Whether the framework itself saw nothing foreign in the turn that made this very version, so that
  /// only an edit by somebody else can have cost the file its class; `None` where that is not known.
  pub clean_turn: Option<bool>,
  /// Whole lines that calls of the framework's own tools took out of the file around then, in turns in
  /// which the framework saw nothing foreign; without line ends.
  pub replaced: Vec<String>,
}

/// Where one text came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
  /// The source.
  pub source: Source,
  /// Sources whose trust the text cannot exceed either: what fed the sub-agent that wrote it.
  pub fed_by: Vec<Source>,
  /// How that is known.
  pub attestation: Attestation,
  /// The agent's session that wrote it.
  pub session: Option<String>,
  /// What it rests on.
  pub evidence: Evidence,
  /// What the owner had asked for in that turn, and what of the source explains the text.
  pub request: Option<Request>,
}

impl Attribution {
  /// A source that nothing speaks for.
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
  /// The same source for each text, without evidence.
  pub fn all(question: &Question<'_>, source: &Source, outlook: Outlook) -> Self {
    let attribution = Attribution::without_evidence(source.clone());
    let attributions = vec![attribution; question.texts.len()];
    Self { attributions, outlook, clean_turn: None, replaced: vec![] }
  }

  /// There is no agent with records: the source stays unknown.
  pub fn nothing_on_record(question: &Question<'_>) -> Self {
    Self::all(question, &Source::unknown(), Outlook::Final)
  }
}
