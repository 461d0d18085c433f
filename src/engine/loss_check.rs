//! Finds memory files from which another program has removed much: a loss, about which a person decides.
//!
//! memfw cannot undo the write without a race against its program, so the version from before is kept, and the loss
//! waits. Only versions in the ledger are compared, no file is read. A file is compared with what it had within a day,
//! so many small steps are one loss; from a person's decision on it is compared with what the person has seen.
//!
//! Text that is in another guarded file was moved, and is not lost as long as it is there. Text that memfw took out is
//! in quarantine.
#![forbid(unsafe_code)]

use std::{collections::HashSet, path::Path};

use super::{Engine, EngineError, Event, EventKind};
use crate::{
  config::Config,
  files::Fs,
  judging::approvals::plain_of,
  memory::{
    ContentHash, LineHash,
    loss::{Tolerance, readable_lines},
  },
  plural,
  provenance::State,
  store::{ItemFilter, Ledger, Loss, LossState, Measured, Span, StoreError},
};

/// Within this time, in microseconds, all that a file loses is one loss (a choice: sweeps of an agent run at night).
const WINDOW: i64 = 86_400_000_000;
/// How many bytes of other files are searched for lost lines, the latest first: 0.1 s of the thread that guards. What is
/// not found is lost.
const MAX_BESIDE: u64 = 4_000_000;
/// The most losses that are measured again because another file has changed (a choice).
const MAX_AGAIN: usize = 32;

/// How much a file may lose.
pub const fn tolerance(config: &Config) -> Tolerance {
  Tolerance { max_percent: config.loss_percent, min_lines: config.loss_lines }
}

/// A version, and what its file has lost of it.
struct Base {
  hash: ContentHash,
  n_lines: usize,
  lost: HashSet<LineHash>,
}

impl Base {
  fn exceeds(&self, tolerance: Tolerance) -> bool {
    tolerance.is_exceeded(self.lost.len(), self.n_lines)
  }
}

impl<F: Fs> Engine<F> {
  /// Measures the next file that has changed. Returns `false` if there was none.
  pub fn measure_next(&mut self) -> Result<bool, EngineError> {
    let Some(due) = self.ledger.next_unmeasured()? else { return Ok(false) };
    if tolerance(&self.config).is_off() || !self.versions.are_kept(&self.ledger) {
      self.ledger.forget_unmeasured()?;
      return Ok(false);
    }
    self.measure(due.file)?;
    self.measure_again(due.file)?;
    self.ledger.set_measured(&due)?;
    Ok(true)
  }

  /// Compares a file with what it had.
  fn measure(&mut self, file: i64) -> Result<(), EngineError> {
    let since = self.now().saturating_sub(WINDOW);
    let mut known = self.ledger.open_loss(file)?;
    // What was in another file for a whole day was moved.
    if let Some(moved) =
      known.take_if(|loss| loss.found.state == LossState::Moved && loss.found_at < since)
    {
      let at = self.now();
      self.ledger.end_loss(&moved, &[], at)?;
    }
    let Some(span) = self.ledger.loss_span(file, since)? else { return Ok(()) };
    // Without its text nothing new can be said about it.
    let Some(after) = lines(&self.ledger, span.after)? else { return Ok(()) };
    if let Some(known) = &known
      && lines(&self.ledger, Some(known.found.base))?.is_none()
    {
      return Ok(());
    }
    let tolerance = tolerance(&self.config);
    let found = find(&self.ledger, tolerance, (file, &span, &after), known.as_ref())?;
    match (known, found) {
      (None, None) => Ok(()),
      (None, Some(found)) => self.note_loss(file, &span.path, &found),
      (Some(known), found) => self.renew_loss(known, &span, found),
    }
  }

  fn note_loss(&mut self, file: i64, path: &Path, found: &Measured) -> Result<(), EngineError> {
    let id = self.new_id()?;
    let at = self.now();
    let event = Event::new(EventKind::Lost).path(path).block(&id).detail(extent(found));
    let events = if found.state == LossState::Lost { vec![event.row()] } else { vec![] };
    self.ledger.add_loss(&id, file, found, &events, at)?;
    if !events.is_empty() {
      event.log(None);
    }
    Ok(())
  }

  fn renew_loss(
    &mut self,
    known: Loss,
    span: &Span,
    found: Option<Measured>,
  ) -> Result<(), EngineError> {
    let at = self.now();
    let event =
      |kind, detail: String| Event::new(kind).path(&known.path).block(&known.id).detail(detail);
    let (changed, event) = match (known.found.state, found) {
      // A command restores it.
      (LossState::Restoring, Some(_)) => return Ok(()),
      (LossState::Restoring, None) => {
        let mut loss = known.clone();
        loss.found.state = LossState::Rejected;
        loss.restored = span.after;
        let by = loss.reviewed.clone().map(|(_, by)| by).unwrap_or_default();
        let event = event(EventKind::LossRejected, format!("by {by}"));
        (self.ledger.change_loss(&loss, &[event.row()], at)?, Some(event))
      }
      (state, None) => {
        let event = event(EventKind::LossEnded, "in its file".to_owned());
        let event = (state == LossState::Lost).then_some(event);
        let rows: Vec<_> = event.iter().map(Event::row).collect();
        (self.ledger.end_loss(&known, &rows, at)?, event)
      }
      (_, Some(found)) if found == known.found => return Ok(()),
      (state, Some(found)) => {
        let event = match (state, found.state) {
          (LossState::Moved, LossState::Lost) => Some(event(EventKind::Lost, extent(&found))),
          (LossState::Lost, LossState::Moved) => {
            Some(event(EventKind::LossEnded, "in other files".to_owned()))
          }
          _ => None,
        };
        let rows: Vec<_> = event.iter().map(Event::row).collect();
        let mut loss = known.clone();
        loss.found = found;
        (self.ledger.change_loss(&loss, &rows, at)?, event)
      }
    };
    // Where a person has decided meanwhile, that counts.
    if let Some(event) = event.filter(|_| changed) {
      event.log(None);
    }
    Ok(())
  }

  /// Measures other files again whose lost lines have come into this one, or have left it.
  fn measure_again(&mut self, file: i64) -> Result<(), EngineError> {
    let since = self.now().saturating_sub(WINDOW);
    let open = self.ledger.open_losses(since, MAX_AGAIN)?;
    let mut others = open.into_iter().filter(|loss| loss.file != file).peekable();
    if others.peek().is_none() {
      return Ok(());
    }
    let Some(span) = self.ledger.loss_span(file, since)? else { return Ok(()) };
    let lines = |version| Ok::<_, StoreError>(lines(&self.ledger, version)?.unwrap_or_default());
    let (before, after) = (lines(span.before.first().copied())?, lines(span.after)?);
    let changed: HashSet<&LineHash> = before.symmetric_difference(&after).collect();
    let mut again = Vec::new();
    for loss in others {
      let after = lines(loss.found.after)?;
      let base = lines(Some(loss.found.base))?;
      if base.difference(&after).any(|line| changed.contains(line)) {
        again.push(loss.file);
      }
    }
    again.into_iter().try_for_each(|file| self.measure(file))
  }
}

/// How much a loss is, for the log.
pub(super) fn extent(found: &Measured) -> String {
  let what = if found.after.is_some() { "" } else { ", the file is gone" };
  format!("{} of {}{what}", found.lost, plural::count(found.lines, "line"))
}

/// The largest loss of a file, if it is too large.
fn find(
  ledger: &Ledger,
  tolerance: Tolerance,
  (file, span, after): (i64, &Span, &HashSet<LineHash>),
  known: Option<&Loss>,
) -> Result<Option<Measured>, EngineError> {
  let mut bases: Vec<Base> = Vec::new();
  // That of a loss which waits remains, however long ago it was.
  for &hash in known.iter().map(|loss| &loss.found.base).chain(&span.before) {
    if bases.iter().any(|base| base.hash == hash) || span.after == Some(hash) {
      continue;
    }
    let Some(before) = lines(ledger, Some(hash))? else { continue };
    let lost = before.difference(after).copied().collect();
    bases.push(Base { hash, n_lines: before.len(), lost });
  }
  bases.retain(|base| base.exceeds(tolerance));
  if bases.is_empty() {
    return Ok(None);
  }
  for line in taken_out(ledger, &span.path)? {
    for base in &mut bases {
      base.n_lines -= usize::from(base.lost.remove(&line));
    }
  }
  bases.retain(|base| base.exceeds(tolerance));
  let measured = |base: &Base, state| Measured {
    state,
    base: base.hash,
    after: span.after,
    since: span.since,
    newest: span.newest,
    lost: base.lost.len() as u64,
    lines: base.n_lines as u64,
  };
  let Some(moved) = largest(&bases).map(|base| measured(base, LossState::Moved)) else {
    return Ok(None);
  };
  remove_elsewhere(ledger, tolerance, file, &mut bases)?;
  bases.retain(|base| base.exceeds(tolerance));
  let lost = largest(&bases).map(|base| measured(base, LossState::Lost));
  Ok(Some(lost.unwrap_or(moved)))
}

/// The base of which most is lost; of several the first.
fn largest(bases: &[Base]) -> Option<&Base> {
  bases.iter().rev().max_by_key(|base| base.lost.len())
}

/// Removes the lines that are in other guarded files, until little enough is left.
fn remove_elsewhere(
  ledger: &Ledger,
  tolerance: Tolerance,
  file: i64,
  bases: &mut [Base],
) -> Result<(), EngineError> {
  let mut left = MAX_BESIDE;
  for (hash, len) in ledger.contents_beside(file)? {
    if !bases.iter().any(|base| base.exceeds(tolerance)) {
      return Ok(());
    }
    if len > left {
      continue;
    }
    left -= len;
    for line in lines(ledger, Some(hash))?.unwrap_or_default() {
      for base in &mut *bases {
        base.lost.remove(&line);
      }
    }
  }
  Ok(())
}

/// The lines of a version, and none of a file that is gone; `None` if the version cannot be read.
fn lines(
  ledger: &Ledger,
  version: Option<ContentHash>,
) -> Result<Option<HashSet<LineHash>>, StoreError> {
  let Some(hash) = version else { return Ok(Some(HashSet::new())) };
  match ledger.version_bytes(hash) {
    Ok(text) => Ok(Some(readable_lines(&text))),
    Err(StoreError::NoKey | StoreError::Unsealable { .. } | StoreError::UnknownVersion { .. }) => {
      Ok(None)
    }
    Err(error) => Err(error),
  }
}

/// The lines that memfw took out of a file and that are not back in it.
fn taken_out(ledger: &Ledger, path: &Path) -> Result<HashSet<LineHash>, EngineError> {
  let out = [State::Quarantined, State::Held, State::Rejected, State::Approved];
  let filter = ItemFilter { statuses: out.to_vec(), path: Some(path.to_owned()) };
  let mut lines = HashSet::new();
  for item in ledger.items(&filter)? {
    if !item.in_file && (item.status != State::Approved || item.awaited) {
      lines.extend(plain_of(ledger, &item.id)?.iter().flat_map(|text| readable_lines(text)));
    }
  }
  Ok(lines)
}
