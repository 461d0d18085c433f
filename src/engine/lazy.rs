//! The lazy pass: markers are written and placeholders compacted when a file is idle.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Engine, EngineError, Event, EventKind, Target, VERIFIED_AFTER,
  edit::{Edit, Lease, Locked, Replacement, Rewritten, Sync, lease_within},
  marker_preference, pending,
  record::Due,
};
use crate::{
  failpoint::Plan,
  files::{Fs, FsError, MemoryFile, Touch},
  judging::view::View,
  memory::ContentHash,
  store::{FileStatus, Pending, ScanRecord, Writer},
};

/// The result of a lazy pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LazyOutcome {
  /// Nothing was due, or the work is done.
  Done,
  /// The file has not been idle for long enough: try again after this time.
  NotIdle(Duration),
  /// Another program has the file open: try again later.
  Busy,
  /// The file differs from what the ledger knows: an urgent pass must come first.
  Dirty,
  /// The markers are done, but approved text is not back, because another program has the file open or wrote to it:
  /// try again later.
  NotBack,
}

impl<F: Fs> Engine<F> {
  /// Writes all that is due in an idle file: approved text returns first, then the markers are renewed. The mark stays as
  /// long as text has to return.
  pub fn write_due(&mut self, target: &Target, idle: Duration) -> Result<LazyOutcome, EngineError> {
    let is_left = self.bring_back_again(target)?;
    if is_left {
      pending::add(&mut self.ledger, &target.path(), Pending::RESHAPE)?;
    }
    match self.lazy(target, idle, is_left)? {
      LazyOutcome::Done if is_left => Ok(LazyOutcome::NotBack),
      outcome => Ok(outcome),
    }
  }

  /// Renews the markers of one file, if that is due and the file has been idle for `idle`. If text `is_left` that has to
  /// return, the file keeps its mark.
  fn lazy(
    &mut self,
    target: &Target,
    idle: Duration,
    is_left: bool,
  ) -> Result<LazyOutcome, EngineError> {
    let path = target.path();
    // Edits that an error interrupted are completed first: an operation describes the content of the
    // file only until the next one.
    self.recover_file(&path)?;
    let stamp = match self.files.stamp(target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) => return Ok(LazyOutcome::Done),
      // A link or a mount is in its path now; the urgent pass reports it.
      Err(EngineError::Fs(FsError::Refused { .. })) => return Ok(LazyOutcome::Dirty),
      Err(error) => return Err(error),
    };
    let Some(row) = self.ledger.file(&path)? else { return Ok(LazyOutcome::Dirty) };
    // A marker shows the source of its text, so the source must be known first if markers are wanted.
    let awaited = row.pending.contains(Pending::ATTRIBUTE)
      && !marker_preference::is_unmarked(&self.ledger, &path)?;
    if !row.pending.contains(Pending::RESHAPE) || awaited {
      return Ok(LazyOutcome::Done);
    }
    if row.stamp != Some(super::stamp_row(&stamp)) {
      return Ok(LazyOutcome::Dirty);
    }
    // Without a key nothing can be journalled; the markers stay due.
    if !self.ledger.has_key() {
      return Ok(LazyOutcome::Done);
    }
    if !self.files.may_reshape(&target.root) {
      return self.give_up(target, is_left);
    }
    // A marker between a tool's read and its write would make the tool fail.
    let idle = if self.is_recorded(target)? { idle.max(VERIFIED_AFTER) } else { idle };
    // With coarse file times a change may be younger than it seems.
    let step = self.files.time_step(target, &stamp);
    // The queue has waited for this long already, whatever the clock shows: a clock that was set back shows nothing, so
    // that nothing may be subtracted from the wait.
    let quiet = self.files.since_change(&stamp, idle.saturating_add(step)).saturating_sub(step);
    if quiet < idle {
      return Ok(LazyOutcome::NotIdle(idle.saturating_sub(quiet)));
    }
    let writing = self.lock_file(&path)?;
    let kept = self.files.take_open(target);
    let kept = kept.filter(|file| file.stamp().is_ok_and(|found| found.same_file(&stamp)));
    let mut file = match kept {
      Some(file) => file,
      None => match self.files.open(target)? {
        Ok(file) => file,
        // The urgent pass reports the reason, and that nothing can be due.
        Err(_) => return self.doubt(target),
      },
    };
    // A file that was kept open may have been linked or given to another user since.
    if !matches!(file.recheck(&self.files.rules()), Ok(Touch::Full)) {
      return self.doubt(target);
    }
    match lease_within(&mut file, &*self.clock, Duration::ZERO)? {
      Lease::Held => {}
      Lease::Busy => {
        // Closing the file would cause an event that wakes memfw.
        self.files.keep_open(target, file);
        return Ok(LazyOutcome::Busy);
      }
      // Without leases nothing is ever reshaped; the ledger alone has the provenance.
      Lease::Unsupported => return self.give_up(target, is_left),
    }
    let outcome = self.reshape_leased(target, Locked::new(&writing, true), &mut file, is_left);
    file.release();
    outcome
  }

  /// Whether the agent has the version on record that the ledger knows. If so, the agent's tools verify
  /// their writes, and compare their reads with their record.
  pub fn is_recorded(&self, target: &Target) -> Result<bool, EngineError> {
    let hash = self.ledger.file(&target.path())?.and_then(|row| row.hash);
    Ok(hash.is_some_and(|hash| self.link.is_on_record(target, hash)))
  }

  fn reshape_leased(
    &mut self,
    target: &Target,
    locked: Locked<'_>,
    file: &mut F::File,
    is_left: bool,
  ) -> Result<LazyOutcome, EngineError> {
    let path = target.path();
    let row = self.ledger.file(&path)?;
    let before = file.stamp()?;
    // The path may lead to another file since the file was opened.
    let on_path = self.files.stamp(target)?;
    if on_path.map(|stamp| stamp.ino) != Some(before.ino) {
      return Ok(LazyOutcome::Dirty);
    }
    let bytes = file.read_all()?;
    let mut edit = Edit::<F, _>::new(Plan::Mark, locked, target, file);
    edit.give_way(self, ContentHash::of(&bytes));
    let mut view = self.view_known(target, row.as_ref(), bytes)?;
    // A version that was scanned while the file was not writable is judged again first.
    if row.as_ref().is_none_or(|row| row.hash != Some(view.hash) || row.note.is_some()) {
      return self.doubt(target);
    }
    // The urgent pass has judged this version already, and its decisions remain.
    view.judgements.iter_mut().for_each(|judgement| *judgement = None);
    let at = self.now();
    let rows = view.rows(at, || self.new_id())?;
    let (new, marking) = self.reshape_of(target, &view, &rows);
    let Some(new) = new else {
      self.ledger.forget_gaps(view.facts.gaps.iter().map(|(id, _)| id))?;
      return self.give_up(target, is_left);
    };
    let what = Replacement { before: (&view.bytes, view.hash), after: &new, part: None };
    let edit = match edit.replaced(self, &what, Duration::ZERO, |_| Ok(()))? {
      Rewritten::Done(edit) => edit,
      Rewritten::Busy => return Ok(LazyOutcome::Busy),
      // On a full disk the markers stay due, and the file stays guarded.
      Rewritten::Changed | Rewritten::Failed(_) => return Ok(LazyOutcome::Dirty),
    };
    let edit = edit.followed(self, Some((view.hash, ContentHash::of(&new))))?;
    let edit = edit.durable(self, Sync::GiveBack)?;
    let stamp = edit.stamp();
    // The rows of the new version: the same blocks on other lines.
    let renewed = View::renewed(new, rows, &view.facts);
    let rows = renewed.rows(at, || self.new_id())?;
    // A torn region needs one step to become whole, and another to become compact.
    let more = self.reshape_of(target, &renewed, &rows).0.is_some();
    let at = self.now();
    let due = Due { reshape: more || is_left, recheck: !stamp.is_settled(edit.stamped_at()) };
    // Questions that were due before are still due.
    let asked = row.as_ref().map_or(Pending::NONE, |row| row.pending.and(Pending::ATTRIBUTE));
    let pending = due.pending() | asked;
    let event = Event::new(EventKind::Reshaped).path(&path);
    self.ledger.record(&ScanRecord {
      path: &path,
      workspace: &target.root,
      stamp: Some(super::stamp_row(&stamp)),
      hash: Some(renewed.hash),
      status: FileStatus::Watched,
      note: None,
      blocks: &rows,
      adopted: true,
      known: Pending::ALL,
      pending,
      marker_mode: marking.mode.as_str(),
      unmarked: marking.why.as_deref(),
      events: &[event.row()],
      at,
    })?;
    edit.finish(self)?;
    // Each returns once: a person may remove the placeholder again.
    self.ledger.forget_gaps(renewed.facts.gaps.iter().map(|(id, _)| id))?;
    let compact = self.files.may_reshape(&target.root);
    self.versions.note(&self.ledger, path, &renewed, compact);
    // After the edit is finished, because keeping a version is not urgent.
    self.versions.keep_noted(&mut self.ledger, Writer::Memfw, self.clock.now())?;
    Ok(if more { LazyOutcome::NotIdle(Duration::ZERO) } else { LazyOutcome::Done })
  }

  /// Removes the stamp from the ledger, because it does not describe the file correctly.
  fn doubt(&mut self, target: &Target) -> Result<LazyOutcome, EngineError> {
    let at = self.now();
    // Without a stamp the next urgent pass opens the file in any case.
    self.ledger.set_stamp(&target.path(), None, None, at)?;
    Ok(LazyOutcome::Dirty)
  }

  /// Clears the mark of a file in which nothing is to be reshaped, or nothing may be, unless text `is_left`.
  fn give_up(&mut self, target: &Target, is_left: bool) -> Result<LazyOutcome, EngineError> {
    if !is_left {
      // A stamp that is too young to be trusted keeps its mark.
      pending::remove(&mut self.ledger, &target.path(), Pending::RESHAPE)?;
    }
    Ok(LazyOutcome::Done)
  }
}
