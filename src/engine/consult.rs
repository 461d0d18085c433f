//! Layer 3 in the engine: which entries the judge is asked about, and what follows from its answers.
//!
//! Nothing waits for the judge: an entry is judged without it, the question waits in the ledger, and
//! the entry is judged again when the answer has come. So each question is asked once, by any process,
//! and a crash in between needs no recovery. A file with work for layer 3 has [`Pending::JUDGE`].
//!
//! A question is put about each entry that was written since the judge was configured, whose source is
//! known and not excluded, and whose decision an answer could change ([`policy::wants_reading`]). The
//! caller decides which judge is asked.
#![forbid(unsafe_code)]

use std::{ops::Range, path::Path};

use super::{
  Engine, EngineError, Reading as Stage, Target,
  judge::{BlockJudgement, Consulted, JudgeContext},
  judge_queue::JudgeQueue,
  layer2::Gathered,
  origin::Origin,
  pending,
  precedent::allowed_to,
  rejudge::Beside,
  review::Approval,
  unit::Brought,
  view::View,
};
use crate::{
  detect::{
    Code, Finding, PolicyInput,
    effects::{FoundEffect, KnownSlot, Novelty},
    policy,
    reading::{KeptQuestion, Question, Reading, Ruling},
  },
  files::Fs,
  memory::{Block, ContentHash, Document, Known, line::LineKind},
  provenance::State,
  store::{FileStatus, ItemFilter, NewQuestion, Pending, StateKey, StoreError},
};

/// The most quarantined entries that one call of [`Engine::consult`] asks about; a bound on its work.
const MAX_HELD: usize = 100;
/// The most values of trusted memory that a question contains.
const MAX_KNOWN: usize = 4;

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
  /// The judge's answer.
  Answer(Reading),
  /// It has no answer yet.
  Ask,
  /// It has no answer, and is not asked any more.
  Silence,
}

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

/// The span of the words on which an answer about these fresh lines is based, in bytes of the file.
/// Where the answer does not say it, the span is all fresh lines without the heading, which has no
/// effect of its own.
pub(super) fn place(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  reading: &Reading,
) -> Option<Range<usize>> {
  let bytes = || {
    let of =
      |span: Range<usize>| span.clone().zip(file.get(span).unwrap_or_default().iter().copied());
    fresh.iter().cloned().flat_map(of)
  };
  let quoted = reading.lines.as_ref().and_then(|lines| {
    // The entry begins with the first line that has text.
    let mut line = 0;
    let begun = bytes().skip_while(|(_, byte)| byte.is_ascii_whitespace());
    let lines_of = begun.map(|(at, byte)| {
      let of = line;
      line += u32::from(byte == b'\n');
      (of, at)
    });
    let mut within = lines_of.filter(|(of, _)| lines.contains(of)).map(|(_, at)| at);
    let first = within.next()?;
    Some(first..within.last().unwrap_or(first) + 1)
  });
  quoted.or_else(|| {
    let (first, last) = (fresh.first()?, fresh.last()?);
    let body = block.lines.get(block.body).map_or(first.start, |line| line.span.start);
    let start = if body < last.end { first.start.max(body) } else { first.start };
    Some(start..last.end)
  })
}

/// Looks up the judge's answer about the fresh lines of a block.
pub(super) fn consult(
  file: &[u8],
  fresh: &[Range<usize>],
  findings: &[Finding],
  input: &PolicyInput<'_>,
  cx: &mut JudgeContext<'_>,
) -> (Option<Reading>, Consulted) {
  let nothing = (None, Consulted::Nobody);
  let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else { return nothing };
  let Some(hear) = cx.consult.as_mut() else { return nothing };
  if !policy::wants_reading(findings, first.start..last.end, input) {
    return nothing;
  }
  // Invalid UTF-8 is replaced, so that an entry cannot prevent its reading.
  let mut entry = String::new();
  for chunk in fresh.iter().filter_map(|span| file.get(span.clone())).flat_map(<[u8]>::utf8_chunks)
  {
    entry.push_str(chunk.valid());
    entry.extend((!chunk.invalid().is_empty()).then_some('\u{fffd}'));
  }
  let entry = entry.trim();
  if entry.is_empty() {
    return nothing;
  }
  let asked = cx.origin.request.as_ref().map_or("", |request| request.asked.as_str());
  let known = contradicted(entry, input.effects, cx.slots);
  let question = Question { asked, source: cx.origin.source.as_str(), entry, known: &known };
  match hear(&question) {
    Heard::Answer(reading) if !question.heeds(&reading) => nothing,
    Heard::Answer(reading) => {
      let ruling = reading.ruling;
      (Some(reading), Consulted::Answer(ruling))
    }
    Heard::Ask => {
      let kept = Box::new(KeptQuestion::new(&question));
      (None, Consulted::Question(question.hash(), kept))
    }
    Heard::Silence => nothing,
  }
}

/// The values of trusted memory that contradict the entry, without private ones.
fn contradicted(entry: &str, effects: &[FoundEffect], known: &[KnownSlot]) -> Vec<String> {
  let entry = entry.to_lowercase();
  let slots = effects.iter().flat_map(|effect| &effect.slots);
  let mut found = Vec::new();
  for slot in slots.filter(|slot| slot.novelty == Novelty::Contradicts) {
    let told = known.iter().filter(|one| !one.is_private);
    let same = told.filter(|one| one.kind == slot.kind && one.value != slot.value);
    for one in same.filter(|one| one.topic.iter().any(|word| entry.contains(word.as_str()))) {
      let text = format!("{}: {}", one.topic.join(" "), one.value);
      if found.len() < MAX_KNOWN && !found.contains(&text) {
        found.push(text);
      }
    }
  }
  found
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
    let from = self.consulted_to.remove(target);
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
      self.consulted_to.insert(target.clone(), last);
    }
    let mut judgements = Vec::new();
    for item in &items {
      let bytes = match self.ledger.unseal(&item.id) {
        Err(StoreError::Deleted { .. }) => continue,
        bytes => bytes?,
      };
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

  /// Whether a version that was just judged contains something that the judge may have to be asked
  /// about.
  pub(super) fn judging_due(&self, target: &Target, view: &View) -> Pending {
    let is_out = || self.config.judge_may_release && view.document.placeholders().next().is_some();
    let is_new = view.judgements.iter().any(Option::is_some) || is_out();
    if is_new && self.is_judged_by_model(target) { Pending::JUDGE } else { Pending::NONE }
  }

  /// Whether a judge is asked about text of this file.
  pub(super) fn is_judged_by_model(&self, target: &Target) -> bool {
    self.judge.asks_about(&target.rel, self.treatment(target))
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
