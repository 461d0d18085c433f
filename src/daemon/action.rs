//! What a part of the daemon wants done. Parts read the engine and decide; the daemon alone changes it.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use super::{
  directories::Directories,
  queue::{Kind, Waiting},
  watching::Watching,
};
use crate::{
  engine::{
    Engine, Event, EventKind, Target, attribution_request::AttributionRequest,
    judge_queue::JudgeRequest,
  },
  files::RealFs,
  memory::ContentHash,
  provenance::Answer,
  store::{Part, SkillCheck, StateKey},
};

/// What a part reads to decide.
pub(super) struct Surroundings<'a> {
  pub(super) engine: &'a Engine<RealFs>,
  pub(super) directories: &'a Directories,
  pub(super) watching: &'a Watching,
  /// The time on the monotonic clock.
  pub(super) now: Duration,
  /// Whether the agent's records are busy with another question.
  pub(super) records_are_busy: bool,
  /// When the daemon started, in microseconds UTC.
  pub(super) started_at: i64,
}

/// What a part wants done.
pub(super) enum Action {
  /// Report reduced protection under a key, and why.
  Degrade(Part, String),
  /// Report that the protection under this key is whole again.
  Recover(Part),
  /// Store a row of state, as JSON.
  Store(StateKey, String),
  /// Remove a row of state.
  Remove(StateKey),
  /// Record an event with this text, and log it.
  Tell(EventKind, String),
  /// Record what a check of a skill has found, with the events.
  RecordSkill(Box<SkillCheck>, Vec<Event>),
  /// Record that the skill in a directory is gone.
  LoseSkill(PathBuf),
  /// Queue a step of a file, if the file is still guarded.
  Queue(Kind, Target),
  /// Ask the agent's records whether its index holds these texts of a file; `true` where the agent was told to
  /// renew the index already.
  AskIndex(Target, bool, Vec<Zeroizing<Vec<u8>>>),
  /// Use the answer about the index: `None` where there is none.
  UseIndexAnswer(Target, bool, Option<bool>),
  /// Record who wrote the new text of a file; without answers, the reader of the records has failed.
  RecordOrigin(Target, Waiting, Arc<AttributionRequest>, Option<Vec<Answer>>),
  /// Take the next question from the judge's queue.
  NextQuestion,
  /// Record what the judge said.
  RecordAnswer(Box<JudgeRequest>, String),
  /// Record that a question has no answer.
  RecordSilence(ContentHash, Silent),
  /// Let all questions be asked again.
  WakeQuestions,
  /// Check a file for which a reader waits at the gate.
  CheckForGate(PathBuf),
}

/// Why a question to the judge has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silent {
  /// No judge was reached.
  Unreached,
  /// A judge may have been reached, and answered nothing.
  Reached,
  /// The judge does not answer this question; it is not asked again soon.
  ToThis,
}
