//! Layer 3 in the engine: which entries the judge is asked about, and what follows from its answers.
//!
//! Nothing waits for the judge: an entry is judged without it, the question waits in the ledger, and
//! the entry is judged again when the answer has come. So each question is asked once, by any process,
//! and a crash in between needs no recovery. A file with work for layer 3 has [`Pending::JUDGE`].
//!
//! A question is put about each entry that was written since the judge was configured, whose source is
//! known and not excluded, and whose decision an answer could change ([`crate::detect::policy::wants_reading`]). The
//! caller decides which judge is asked.
#![forbid(unsafe_code)]

use std::{ops::Range, path::Path};

use super::{
  Engine, EngineError, Reading as Stage, Target, decisions::Approval, judge_queue::JudgeQueue,
  layer2::Gathered, pending,
};
use crate::{
  detect::{Code, reading::Ruling},
  files::Fs,
  judging::{
    approvals::plain_of,
    judge::Beside,
    judgement::{BlockJudgement, Consulted},
    origin::Origin,
    precedent::allowed_to,
    unit::Brought,
  },
  memory::{ContentHash, Document, Known, line::LineKind},
  provenance::State,
  store::{FileStatus, ItemFilter, NewQuestion, Pending, StateKey},
};

/// The most quarantined entries that one call of [`Engine::consult`] asks about; a bound on its work.
const MAX_HELD: usize = 100;

/// The state of the questions about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consulting {
  /// Something else must be known or done first: try again soon.
  NotNow,
  /// The questions are put, and the answers so far are applied.
  Done {
    /// Markers are to be renewed when the file is idle.
    reshape_due: bool,
  },
}

impl<F: Fs> Engine<F> {
  /// Puts the questions about the new text of a file, and applies the answers.
  pub fn consult(&mut self, target: &Target) -> Result<Consulting, EngineError> {
    let path = target.path();
    let nothing = |reshape_due| Ok(Consulting::Done { reshape_due });
    let Some(row) = self.ledger.file(&path)? else { return nothing(false) };
    let reshape_due = row.pending.contains(Pending::RESHAPE);
    if !row.pending.contains(Pending::JUDGE) {
      return nothing(reshape_due);
    }
    let since = self.ledger.state(&StateKey::JudgedSince)?.map(|(_, at)| at);
    let is_asked = self.is_judged_by_model(target) && self.ledger.has_key();
    let (true, true, Some(since)) = (row.status == FileStatus::Watched, is_asked, since) else {
      pending::remove(&mut self.ledger, &target.path(), Pending::JUDGE)?;
      return nothing(reshape_due);
    };
    // A question contains the source, and is asked only if the encoder has not settled the
    // decision.
    if row.pending.contains(Pending::ATTRIBUTE) || row.pending.contains(Pending::MODEL) {
      return Ok(Consulting::NotNow);
    }
    let Some(mut gathered) = self.gather_units(target)? else { return Ok(Consulting::NotNow) };
    let Gathered { rows, units, .. } = &mut gathered;
    units.retain(|unit| {
      let of = rows.get(unit.index).and_then(|row| row.revision(unit.number));
      of.is_some_and(|revision| revision.at >= since) && self.judge.may_send(&unit.origin)
    });
    let version = gathered.row.hash;
    let (stage, mut judgements) =
      self.judge_units(target, gathered, Pending::JUDGE, &mut |_| true)?;
    let Stage::Nothing { reshape_due } = stage else {
      put(&mut self.judge_queue(), &path, judgements, None)?;
      return Ok(Consulting::NotNow);
    };
    let (held, is_left) = self.consult_held(target, since)?;
    judgements.extend(held);
    let is_done = put(&mut self.judge_queue(), &path, judgements, version.filter(|_| !is_left))?;
    Ok(if is_done { Consulting::Done { reshape_due } } else { Consulting::NotNow })
  }

  /// Puts the questions about items that a probability alone took out of the file, up to the limit of
  /// one turn; also says whether more are left.
  fn consult_held(
    &mut self,
    target: &Target,
    since: i64,
  ) -> Result<(Vec<BlockJudgement>, bool), EngineError> {
    // Each turn continues after the last item of the previous one.
    let from = self.file_memory.take_consulted(target);
    if !self.config.judge_may_release {
      return Ok((vec![], false));
    }
    let path = target.path();
    let filter = ItemFilter { statuses: vec![State::Held], path: Some(path.clone()) };
    let mut items = self.ledger.items(&filter)?;
    items.retain(|item| !item.in_file && item.quarantined_at >= since && !item.trail.due);
    // If the last item is gone by now, start from the beginning.
    let last = from.and_then(|from| items.iter().position(|item| item.id == from));
    items.drain(..last.map_or(0, |last| last + 1));
    let mut is_left = items.len() > MAX_HELD;
    items.truncate(MAX_HELD);
    let Some(last) = items.last() else { return Ok((vec![], false)) };
    let last = last.id.clone();
    let Some(gathered) = self.gather_units(target)? else { return Ok((vec![], true)) };
    let slots = self.trusted_slots(target, &gathered.rows, &gathered.view, None)?;
    if is_left {
      self.file_memory.note_consulted(target, last);
    }
    let mut judgements = Vec::new();
    for item in &items {
      let Some(bytes) = plain_of(&self.ledger, &item.id)? else { continue };
      let origin = Origin::of_held(item).with_request(&self.ledger);
      let document = Document::parse(&bytes, &Known::default());
      let [block] = document.blocks() else { continue };
      let fresh: Vec<Range<usize>> = block.lines.iter().map(|line| line.span.clone()).collect();
      let brought: Vec<Option<Brought>> = block
        .lines
        .iter()
        .map(|line| (line.kind != LineKind::Blank).then(|| Brought::judged(&origin)))
        .collect();
      let allowed = allowed_to(&self.ledger, &origin, self.now())?;
      let beside = Beside { origin: &origin, allowed: &allowed, slots: &slots, is_out: true };
      let judgement =
        self.judge_lines(target, (&bytes, &document), (block, &fresh, &brought), &beside)?;
      // The item may have been quarantined for what it says together with other blocks, which is not
      // known here.
      let is_all = |code: &Code| judgement.findings.iter().any(|finding| finding.code == *code);
      let is_kept = judgement.consulted == Consulted::Answer(Ruling::Keep);
      if is_kept && !judgement.decision.leaves() && item.codes.iter().all(is_all) {
        let reason = Some("the judge, who read it with its source, lets it stay");
        let word = Approval { by: "judge", reason, until: None, at_end: false };
        is_left |= self.release(target, item, word)?;
      } else {
        judgements.push(judgement);
      }
    }
    Ok((judgements, is_left))
  }
}

/// Puts the questions that have no answer yet; says whether the file is done, where they cover all of
/// a version.
fn put(
  queue: &mut JudgeQueue<'_>,
  path: &Path,
  judgements: Vec<BlockJudgement>,
  all_of: Option<ContentHash>,
) -> Result<bool, EngineError> {
  let questions: Vec<NewQuestion> = judgements
    .into_iter()
    .filter_map(|judgement| match judgement.consulted {
      Consulted::Question(hash, kept) => {
        let source = kept.question().source.to_owned();
        Some(NewQuestion { hash, source, bytes: kept.to_bytes() })
      }
      Consulted::Nobody | Consulted::Answer(_) => None,
    })
    .collect();
  queue.put(path, &questions, all_of)
}
