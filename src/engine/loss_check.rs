//! Finds memory files from which another program has removed much: a loss, about which a person decides.
//!
//! memfw cannot undo the write without a race against its program, so the version from before is kept, and the loss
//! waits. Only versions in the ledger are compared, no file is read. A file is compared with what it had within a day,
//! so many small steps are one loss; from a person's decision on it is compared with what it had then.
//!
//! Text that is in another guarded file was moved, and is not lost as long as it is there. Text that memfw took out is
//! in quarantine.
#![forbid(unsafe_code)]

use std::{cmp::Reverse, collections::HashSet, path::Path};

use super::{
  Engine, EngineError, Event, EventKind,
  loss_round::{LossCheck, Round},
};
use crate::{
  config::Config,
  files::Fs,
  judging::approvals::plain_of,
  memory::{
    BlockId, ContentHash, LineHash,
    loss::{Tolerance, readable_lines},
  },
  plural,
  provenance::State,
  store::{ItemFilter, Ledger, Loss, LossState, Measured, Span, StoreError, Unmeasured},
};

/// Within this time, in microseconds, all that a file loses is one loss (a choice: sweeps of an agent run at night).
const WINDOW: i64 = 86_400_000_000;
/// How many bytes of other files are searched for lost lines, the latest first: 0.1 s of the thread that guards. What is
/// not found is lost.
const MAX_BESIDE: u64 = 4_000_000;
/// The most losses of a file that wait at a time (a choice: each keeps a version).
const MAX_OPEN: usize = 8;

/// How much a file may lose.
pub const fn tolerance(config: &Config) -> Tolerance {
  Tolerance { max_percent: config.loss_percent, min_lines: config.loss_lines }
}

/// A version, and what its file has lost of it.
struct Base {
  hash: ContentHash,
  n_lines: usize,
  /// The lines that are not in the file.
  gone: HashSet<LineHash>,
  /// Those of them that are in no other file either.
  lost: HashSet<LineHash>,
}

impl Base {
  /// What was found; `None` if it is not too much.
  fn measured(&self, tolerance: Tolerance, span: &Span) -> Option<Measured> {
    let measured = |n: usize, state| {
      tolerance.is_exceeded(n, self.n_lines).then_some(Measured {
        state,
        base: self.hash,
        after: span.after,
        since: span.since,
        newest: span.newest,
        lost: n as u64,
        lines: self.n_lines as u64,
      })
    };
    measured(self.lost.len(), LossState::Lost)
      .or_else(|| measured(self.gone.len(), LossState::Moved))
  }
}

impl<F: Fs> Engine<F> {
  /// Measures the next file that has changed, or the next loss that a change concerns. Returns `false` if there was
  /// none.
  pub fn measure_next(&mut self) -> Result<bool, EngineError> {
    if tolerance(&self.config).is_off() || !self.versions.are_kept(&self.ledger) {
      self.losses = LossCheck::default();
      if self.ledger.next_unmeasured(0)?.is_some() {
        self.ledger.forget_unmeasured()?;
      }
      return Ok(false);
    }
    // After an error the file is measured once more.
    let Some(mut round) = self.losses.round.take() else {
      let Some(due) = self.ledger.next_unmeasured(self.losses.last)? else { return Ok(false) };
      self.losses.last = due.file;
      self.measure(due.file)?;
      self.losses.round = Some(self.round_of(due)?);
      return Ok(true);
    };
    match round.left.pop() {
      None => self.ledger.set_measured(&round.due)?,
      Some(id) => {
        if let Some(file) = self.concerned(&id, &round.changed)? {
          self.measure(file)?;
        }
        self.losses.round = Some(round);
      }
    }
    Ok(true)
  }

  /// Compares a file with what it had.
  pub(super) fn measure(&mut self, file: i64) -> Result<(), EngineError> {
    let since = self.now().saturating_sub(WINDOW);
    let mut known = Vec::new();
    for loss in self.ledger.open_losses_of(file)? {
      // What was in another file for a whole day was moved.
      if loss.found.state == LossState::Moved && loss.found_at < since {
        let at = self.now();
        self.ledger.end_loss(&loss, &[], at)?;
      } else {
        known.push(loss);
      }
    }
    let Some(span) = self.ledger.loss_span(file, since)? else { return Ok(()) };
    // Without its text nothing new can be said about it.
    let Some(after) = lines(&self.ledger, span.after)? else { return Ok(()) };
    let tolerance = tolerance(&self.config);
    let bases = bases(&self.ledger, tolerance, (file, &span, &after), &known)?;
    let base_of = |hash| bases.iter().find(|base| base.hash == hash);
    let mut n_open = known.len();
    let mut covered: HashSet<LineHash> = HashSet::new();
    for loss in known {
      // That of a loss which waits remains, however long ago it was. It is known only if it can be read.
      let Some(own) = base_of(loss.found.base) else { continue };
      // All of it is lost by an older one as well.
      if loss.found.state != LossState::Restoring
        && !own.gone.is_empty()
        && own.gone.is_subset(&covered)
      {
        let at = self.now();
        self.ledger.end_loss(&loss, &[], at)?;
        continue;
      }
      // A version that has lost the same lines and more tells more.
      let more = bases.iter().filter(|base| own.gone.is_subset(&base.gone));
      let base = more.rev().max_by_key(|base| base.gone.len()).unwrap_or(own);
      covered.extend(&base.gone);
      self.renew_loss(loss, &span, base.measured(tolerance, &span))?;
    }
    let mut others: Vec<&Base> = bases.iter().collect();
    others.sort_by_key(|base| Reverse(base.gone.len()));
    for base in others {
      if n_open >= MAX_OPEN {
        break;
      }
      // Lines of which a person decides already are no second loss.
      let n_more = base.gone.difference(&covered).count();
      if let (true, Some(found)) =
        (tolerance.is_exceeded(n_more, base.n_lines), base.measured(tolerance, &span))
      {
        n_open += 1;
        covered.extend(&base.gone);
        self.note_loss(file, &span.path, &found)?;
      }
    }
    Ok(())
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

  /// The open losses of other files, and the lines that a file has now and had not, or had.
  fn round_of(&self, due: Unmeasured) -> Result<Round, EngineError> {
    let since = self.now().saturating_sub(WINDOW);
    let mut round = Round { due, changed: HashSet::new(), left: vec![] };
    let open = self.ledger.open_losses(since)?;
    round.left =
      open.into_iter().filter(|loss| loss.file != round.due.file).map(|loss| loss.id).collect();
    if !round.left.is_empty()
      && let Some(span) = self.ledger.loss_span(round.due.file, since)?
    {
      let after = lines(&self.ledger, span.after)?.unwrap_or_default();
      // It may have changed several times since it was last measured.
      let mut before = HashSet::new();
      for &hash in &span.before {
        before.extend(lines(&self.ledger, Some(hash))?.unwrap_or_default());
      }
      round.changed = before.symmetric_difference(&after).copied().collect();
    }
    // The oldest first.
    round.left.reverse();
    Ok(round)
  }

  /// The file of an open loss, if one of these lines is lost in it.
  fn concerned(
    &self,
    id: &BlockId,
    changed: &HashSet<LineHash>,
  ) -> Result<Option<i64>, EngineError> {
    let Some(loss) = self.ledger.loss(id.as_str())? else { return Ok(None) };
    let after = lines(&self.ledger, loss.found.after)?.unwrap_or_default();
    let base = lines(&self.ledger, Some(loss.found.base))?.unwrap_or_default();
    let is_concerned = base.difference(&after).any(|line| changed.contains(line));
    Ok(is_concerned.then_some(loss.file))
  }
}

/// How much a loss is, for the log.
pub(super) fn extent(found: &Measured) -> String {
  let what = if found.after.is_some() { "" } else { ", the file is gone" };
  format!("{} of {}{what}", found.lost, plural::count(found.lines, "line"))
}

/// The versions of which a file has lost too much, and those of its known losses.
fn bases(
  ledger: &Ledger,
  tolerance: Tolerance,
  (file, span, after): (i64, &Span, &HashSet<LineHash>),
  known: &[Loss],
) -> Result<Vec<Base>, EngineError> {
  let is_known = |hash| known.iter().any(|loss| loss.found.base == hash);
  let exceeds = |base: &Base| tolerance.is_exceeded(base.gone.len(), base.n_lines);
  let mut bases: Vec<Base> = Vec::new();
  for hash in known.iter().map(|loss| loss.found.base).chain(span.before.iter().copied()) {
    if bases.iter().any(|base| base.hash == hash) {
      continue;
    }
    let Some(before) = lines(ledger, Some(hash))? else { continue };
    let gone = before.difference(after).copied().collect();
    let base = Base { hash, n_lines: before.len(), gone, lost: HashSet::new() };
    if is_known(hash) || exceeds(&base) {
      bases.push(base);
    }
  }
  if !bases.iter().any(exceeds) {
    return Ok(bases);
  }
  for line in taken_out(ledger, &span.path)? {
    for base in &mut bases {
      base.n_lines -= usize::from(base.gone.remove(&line));
    }
  }
  bases.retain(|base| is_known(base.hash) || exceeds(base));
  for base in &mut bases {
    base.lost.clone_from(&base.gone);
  }
  remove_elsewhere(ledger, tolerance, file, &mut bases)?;
  Ok(bases)
}

/// Removes the lost lines that are in other guarded files, until little enough is left.
fn remove_elsewhere(
  ledger: &Ledger,
  tolerance: Tolerance,
  file: i64,
  bases: &mut [Base],
) -> Result<(), EngineError> {
  let mut left = MAX_BESIDE;
  for (hash, len) in ledger.contents_beside(file)? {
    if !bases.iter().any(|base| tolerance.is_exceeded(base.lost.len(), base.n_lines)) {
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
  let out = [State::Quarantined, State::Held, State::Rejected, State::Approved, State::Split];
  let filter = ItemFilter { statuses: out.to_vec(), path: Some(path.to_owned()) };
  let mut lines = HashSet::new();
  for item in ledger.items(&filter)? {
    if !item.in_file && (!matches!(item.status, State::Approved | State::Split) || item.awaited) {
      lines.extend(plain_of(ledger, &item.id)?.iter().flat_map(|text| readable_lines(text)));
    }
  }
  Ok(lines)
}
