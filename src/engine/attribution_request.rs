//! The questions about one file to the agent's records, and what an answer says.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use crate::{
  config::Config,
  judging::origin::Origin,
  memory::{BlockId, ContentHash},
  provenance::{AgentRecords, Answer, Attribution, Outlook, Question, Remembered},
  store::{OriginRecord, Sighting},
};

/// How long to wait for an answer; then the available one is taken (a choice: markers wait for it). An agent
/// records its tool calls within seconds, and the result of a slow call at its end.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait when no recorded call explains the write and no call is in progress: an agent
/// records its calls before it makes them.
pub(super) const PATIENCE_UNSEEN: Duration = Duration::from_secs(4);

/// An attribution request: all questions about one file that are due together.
#[derive(Debug)]
pub struct AttributionRequest {
  pub(super) root: PathBuf,
  pub(super) rel: PathBuf,
  /// The hash of the file's version, with its bytes; `None` where no text in the file is due.
  pub(super) file: Option<(ContentHash, Arc<Vec<u8>>)>,
  pub(super) queries: Vec<VersionQuery>,
  /// The other memory of the workspace whose origin is known.
  pub(super) memory: Vec<Remembered>,
  /// The owner's devices.
  pub(super) owner_devices: Vec<String>,
  /// Items whose bytes are not available any more.
  pub(super) lost: Vec<BlockId>,
}

/// The texts that were first seen in one version.
#[derive(Debug)]
pub(super) struct VersionQuery {
  pub(super) sighting: Sighting,
  pub(super) on_record: ContentHash,
  pub(super) seen_at: i64,
  pub(super) pieces: Vec<Piece>,
}

/// One text of a question.
#[derive(Debug)]
pub(super) struct Piece {
  pub(super) of: Subject,
  /// Whether it has an answer that is only inferred.
  pub(super) is_again: bool,
  pub(super) text: Zeroizing<Vec<u8>>,
}

/// Where a text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
  /// In its file: a block, and the number of a revision.
  Revision(BlockId, u32),
  /// In quarantine.
  Item(BlockId),
}

impl AttributionRequest {
  /// Whether it is about text that has no answer so far.
  pub fn has_new(&self) -> bool {
    self.queries.iter().flat_map(|query| &query.pieces).any(|piece| !piece.is_again)
  }

  /// Asks the records; returns one answer for each version.
  pub fn ask(&self, agent: &dyn AgentRecords) -> Vec<Answer> {
    let ask = |query: &VersionQuery| {
      let texts: Vec<&[u8]> = query.pieces.iter().map(|piece| piece.text.as_slice()).collect();
      agent.attribute(&Question {
        workspace: &self.root,
        file: &self.rel,
        version: query.sighting.version,
        on_record: query.on_record,
        seen_at: query.seen_at,
        changed_at: query.sighting.changed_at,
        memory: &self.memory,
        owner_devices: &self.owner_devices,
        texts: &texts,
      })
    };
    self.queries.iter().map(ask).collect()
  }

  /// The answers for records that could not be read; `why` gives the reason.
  pub fn unreadable(&self, why: &str) -> Vec<Answer> {
    let answer = |_: &VersionQuery| Answer {
      attributions: vec![],
      outlook: Outlook::Unreadable(why.to_owned()),
      clean_turn: None,
      replaced: vec![],
    };
    self.queries.iter().map(answer).collect()
  }

  pub(super) fn push(&mut self, sighting: Sighting, seen_at: i64, piece: Piece) {
    if let Some(query) = self.queries.iter_mut().find(|query| query.sighting == sighting) {
      // The oldest text decides how long the question has waited.
      query.seen_at = query.seen_at.min(seen_at);
      query.pieces.push(piece);
      return;
    }
    // The same version, until `with_records` finds that an edit of memfw has replaced it on record.
    let on_record = sighting.version;
    self.queries.push(VersionQuery { sighting, on_record, seen_at, pieces: vec![piece] });
  }
}

/// The final attribution of a text.
pub(super) struct Attributed {
  pub(super) of: Subject,
  pub(super) sighting: Sighting,
  pub(super) attribution: Attribution,
  /// Whether the text has an answer that is only inferred.
  pub(super) is_again: bool,
  /// Whether a better answer is expected soon, so that the question stays open.
  pub(super) is_early: bool,
}

pub(super) fn origin_of(config: &Config, said: &Attributed) -> Origin {
  let trail = OriginRecord::asked(said.sighting);
  let mut origin = Origin::attributed(config, &said.attribution, &trail);
  origin.trail.due = said.is_early && origin.observed;
  origin
}

/// Whether the patience for a text that was seen at `seen_at` is over.
pub(super) fn is_overdue(now: i64, seen_at: i64, waited: Duration, patience: Duration) -> bool {
  match u64::try_from(now.saturating_sub(seen_at)) {
    Ok(age) => Duration::from_micros(age) >= patience,
    // The clock was set back.
    Err(_) => waited >= patience,
  }
}
