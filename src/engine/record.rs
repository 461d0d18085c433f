//! Records the result of a pass: the blocks of the file, the work that is still due, and the events.
#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc, time::Duration};

use super::{
  Engine, EngineError, Event, EventKind, Outcome, TAIL_COMPLETE_AFTER, Target, degraded,
  edit::Durable,
  event::adopted,
  pending,
  scoring::{MOST_BYTES, MOST_TEXTS},
  view::Marking,
};
use crate::{
  detect::{Action, Code, Verdict},
  failpoint::{Point, hit},
  files::{Fs, MemoryFile, Stamp, Touch},
  judging::{
    judgement::BlockJudgement,
    slices::LARGE,
    view::{COARSE, View},
  },
  memory::MarkerMode,
  store::{BlockRow, FileStatus, PartKind, Pending, ScanRecord},
};

impl<F: Fs> Engine<F> {
  /// Writes a version to the ledger. It gets its stamp only if no program could be writing it: without
  /// a lease the file stays dirty until it has been idle for a while.
  pub(super) fn record(
    &mut self,
    target: &Target,
    file: &F::File,
    view: &View,
    seen: &ScannedVersion,
  ) -> Result<Outcome, EngineError> {
    let ScannedVersion {
      leased,
      stamp,
      stamped_at,
      age,
      adopting,
      started,
      waited,
      pending: known,
    } = *seen;
    let at = self.now();
    let mut rows = view.rows(at, || self.new_id())?;
    let writable = matches!(file.access(), Touch::Full);
    if !writable {
      note_left(view, &mut rows);
    }
    let (reshape, marking) = if writable && !adopting && self.files.may_reshape(&target.root) {
      // The fresh text is known from now on, and may get markers.
      let renewed = View::renewed(Arc::clone(&view.bytes), rows, &view.facts);
      let due = self.reshape_of(target, &renewed, &renewed.facts.rows);
      rows = renewed.facts.rows;
      due
    } else {
      let why = view.document.is_coarse().then(|| COARSE.to_owned());
      (None, Marking { mode: MarkerMode::None, why })
    };
    let settled =
      leased || !writable || self.files.since_change(&stamp, waited) >= TAIL_COMPLETE_AFTER;
    let took_ms = (self.clock.monotonic().saturating_sub(started)).as_secs_f64() * 1e3;
    let path = target.path();
    let mut events = block_events(&path, view, &rows, adopting);
    let before = self.ledger.file(&path)?;
    let judging = if adopting { Pending::NONE } else { self.judging_due(target, view) };
    let note = match file.access() {
      Touch::Full => None,
      Touch::ReadOnly(reason) => Some(format!("scanned, not written: {reason}")),
    };
    if let Some(note) = &note {
      let known = before.is_some_and(|row| row.note.as_deref() == Some(note));
      if !known {
        events.push(Event::new(EventKind::Unguarded).path(&path).detail(note.clone()));
      }
    }
    // Approved text whose placeholder came back is restored when the file is idle.
    let reshape_due =
      reshape.is_some() || (writable && self.approvals().has_returned(&path, &view.document)?);
    // If the clock was set back since the read, the stamp only seems to be old enough.
    let was_set_back = age.is_some() && stamp.is_ahead(at);
    let due = Due { reshape: reshape_due, recheck: was_set_back || !stamp.is_settled(stamped_at) };
    let event_rows: Vec<_> = events.iter().map(|event| event.row_in(took_ms)).collect();
    hit(Point::PassBeforeRecord);
    self.ledger.record(&ScanRecord {
      path: &path,
      workspace: &target.root,
      // Without a stamp, the next pass reads the file again.
      stamp: settled.then_some(super::stamp_row(&stamp)),
      hash: Some(view.hash),
      status: FileStatus::Watched,
      note: note.as_deref(),
      blocks: &rows,
      adopted: true,
      known,
      pending: due.pending()
        | pending::attribution_of(&self.ledger, &path, &rows)?
        | view.reading_due()
        | judging,
      marker_mode: marking.mode.as_str(),
      unmarked: marking.why.as_deref(),
      events: &event_rows,
      at,
    })?;
    hit(Point::PassAfterRecord);
    if view.bytes.len() >= LARGE {
      // The judgement is complete, so its partial results are not needed.
      self.judge.forget_slices();
    }
    if rows.len() <= MOST_TEXTS && view.bytes.len() <= MOST_BYTES {
      // A file of this size has no text that the encoder leaves out.
      degraded::recovered(&mut self.ledger, target.part(PartKind::Encoder), at)?;
    }
    for key in view.judgements.iter().flatten().flat_map(|judgement| &judgement.excused_by) {
      self.ledger.use_exception(key, at)?;
    }
    for event in &events {
      event.log(Some(took_ms));
    }
    // The agent's record and the kept versions wait until no program can be writing.
    if !settled {
      return Ok(Outcome::HeldOpen);
    }
    self.link.note_write(&mut self.ledger, target, view, at)?;
    // Baselines are kept later.
    if !adopting {
      let compact = self.files.may_reshape(&target.root);
      self.versions.note(&self.ledger, path, view, compact);
    }
    Ok(due.done())
  }

  /// Whether a version that was just judged contains something that the judge may have to be asked
  /// about.
  fn judging_due(&self, target: &Target, view: &View) -> Pending {
    let is_out = || self.config.judge_may_release && view.document.placeholders().next().is_some();
    let is_new = view.judgements.iter().any(Option::is_some) || is_out();
    if is_new && self.is_judged_by_model(target) { Pending::JUDGE } else { Pending::NONE }
  }
}

/// The work that is still due for a recorded version.
#[derive(Clone, Copy)]
pub(super) struct Due {
  /// Whether markers or placeholders are to be renewed.
  pub reshape: bool,
  /// Whether its stamp is too young to be trusted.
  pub recheck: bool,
}

impl Due {
  pub(super) fn pending(self) -> Pending {
    let reshape = if self.reshape { Pending::RESHAPE } else { Pending::NONE };
    if self.recheck { reshape | Pending::RETRY } else { reshape }
  }

  pub(super) const fn done(self) -> Outcome {
    Outcome::Done { reshape_due: self.reshape, recheck: self.recheck }
  }
}

/// Notes in the rows what would be taken out of a file that may not be written. Thus it is taken out
/// when that becomes possible, even if the file, its row or the place of the text has changed.
fn note_left(view: &View, rows: &mut [BlockRow]) {
  for (judgement, row) in view.judgements.iter().zip(rows) {
    let leaves = |judgement: &BlockJudgement| judgement.decision.leaves();
    if judgement.as_ref().is_some_and(leaves) && !row.codes.contains(&Code::LeftInPlace) {
      row.codes.push(Code::LeftInPlace);
      row.codes.sort_unstable();
    }
  }
}

/// The events for those blocks of a version that stay.
pub(super) fn block_events(
  path: &Path,
  view: &View,
  rows: &[BlockRow],
  adopting: bool,
) -> Vec<Event> {
  let mut events = Vec::new();
  for (judgement, row) in view.judgements.iter().zip(rows) {
    let Some(judgement) = judgement else { continue };
    let decision = &judgement.decision;
    let kind = match decision.verdict {
      Verdict::Pass if adopting => continue,
      Verdict::Pass => EventKind::Kept,
      _ => EventKind::Flagged,
    };
    let event = Event::new(kind)
      .path(path)
      .block(&row.id)
      .of(judgement.origin.as_ref().unwrap_or(&view.origin))
      .decided(judgement.layer(), &decision.codes, decision.score, Action::Keep);
    events.push(event);
  }
  if adopting {
    events.push(
      Event::new(EventKind::Adopted).path(path).count(rows.len()).detail(adopted(rows.len())),
    );
  }
  events
}

/// How a version was read.
#[derive(Clone, Copy)]
pub(super) struct ScannedVersion {
  /// Whether a lease was held.
  pub leased: bool,
  /// The stamp, taken before the content was read, or after memfw's last write.
  pub stamp: Stamp,
  /// When it was taken, in microseconds UTC. The content may have changed since then in the same step of the file's
  /// times, however long ago that is when the version is recorded.
  pub stamped_at: i64,
  /// How long ago the file had changed when it was read; `None` if its stamp was from the future.
  pub age: Option<Duration>,
  /// Whether the content is the baseline.
  pub adopting: bool,
  /// When the read began, on the monotonic clock.
  pub started: Duration,
  /// How long the file had waited for it.
  pub waited: Duration,
  /// The work that was pending when it was read.
  pub pending: Pending,
}

impl ScannedVersion {
  /// A version that memfw has just written.
  pub(super) const fn written(edit: &Durable, leased: bool, started: Duration) -> Self {
    let (stamp, stamped_at) = (edit.stamp(), edit.stamped_at());
    let (age, adopting, waited) = (None, false, Duration::ZERO);
    // It was written under the write lock, under which decisions are made.
    Self { leased, stamp, stamped_at, age, adopting, started, waited, pending: Pending::ALL }
  }
}
