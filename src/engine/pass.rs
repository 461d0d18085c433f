//! The urgent pass: reads a dirty file under a lease, judges it, and takes poison out at once.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  CLOSE_TICK, Engine, EngineError, Event, EventKind, Hint, MAX_TAIL_WAIT, MAX_VERIFY_WAIT, Outcome,
  TAIL_COMPLETE_AFTER, TAIL_GRACE, Target, UNLEASED_AFTER, VERIFY_WITHIN,
  agent_link::AgentLink,
  degraded,
  edit::{Lease, Locked, lease_within},
  pending,
  record::{Due, ScannedVersion},
  redact::Redacted,
  stamp::doubt_stamp,
  verifying_read::{Sight, came_and_went},
};
use crate::{
  failpoint::{Point, hit},
  files::{Fs, FsError, MemoryFile, OpenError, Refusal, Stamp, Touch},
  judging::{origin::Origin, read_version::whole_hashes, view::View},
  memory::ContentHash,
  store::{FileRow, FileStatus, PartKind, Pending, Writer},
};

/// How long another program may have a lease on a file before it is reported. memfw itself holds one for at most
/// half a second, and so does a program that takes a lease to wait for readers (a choice).
const LEASED_LONG: Duration = Duration::from_secs(10);

impl<F: Fs> Engine<F> {
  /// Processes one file. Errors are about the ledger or the machine, never about the text.
  pub fn pass(&mut self, target: &Target, hint: &Hint) -> Result<Outcome, EngineError> {
    self.pass_with(target, hint, Sight::default())
  }

  /// Notes that another installation of memfw has guarded a file until now, so that comments of memfw in it that
  /// the ledger does not know are not forged. It applies to the next version that is processed.
  pub fn take_over(&mut self, target: &Target) {
    self.file_memory.take_over(target);
  }

  /// Processes one file like [`Engine::pass`]. `was_read` says whether another program has opened the
  /// file since a writer closed it; its argument is the number of memfw's own opens since
  /// [`super::files::Files::take_opens`]. Under a lease its answer is about the current bytes; that of the hint may
  /// be about earlier ones.
  pub fn pass_seen_by(
    &mut self,
    target: &Target,
    hint: &Hint,
    was_read: &mut dyn FnMut(u32) -> bool,
  ) -> Result<Outcome, EngineError> {
    self.pass_with(target, hint, Sight { was_read: Some(was_read), ..Sight::default() })
  }

  fn pass_with(
    &mut self,
    target: &Target,
    hint: &Hint,
    mut sight: Sight<'_>,
  ) -> Result<Outcome, EngineError> {
    // What the caller's hint says about readers is from before this moment.
    let asked = self.clock.monotonic();
    let path = target.path();
    // An operation in the journal describes the content only until the next edit.
    self.recover_file(&path)?;
    let stamp = self.files.stamp(target);
    let stamped_at = self.now();
    let row = self.ledger.file(&path)?;
    let stamp = match stamp {
      Ok(Some(stamp)) => stamp,
      Ok(None) => return self.vanished(target, row.as_ref()),
      // A link or a mount is in its path now.
      Err(EngineError::Fs(FsError::Refused { path, refusal })) => {
        return self.refused(target, row.as_ref(), None, OpenError { path, refusal });
      }
      Err(error) => return Err(error),
    };
    if let Some(outcome) = unchanged(row.as_ref(), &stamp, self.now()) {
      self.files.close(target);
      return Ok(outcome);
    }
    // Opening the file again would cause another event, and so on without end.
    if !self.ledger.has_key()
      && self.file_memory.is_unsealed(target, &stamp)
      && stamp.is_settled(self.now())
    {
      return Ok(Outcome::Unsealed);
    }
    let writing = self.lock_file(&path)?;
    // The other process may have finished this file while this one waited for the lock.
    let row = self.ledger.file(&path)?;
    if let Some(outcome) = unchanged(row.as_ref(), &stamp, self.now()) {
      self.files.close(target);
      return Ok(outcome);
    }
    let mut file = match self.files.take_open(target) {
      // The file may have been linked or given to another user since.
      Some(mut file) if file.stamp()?.ino == stamp.ino => match file.recheck(&self.files.rules()) {
        Ok(_) => file,
        Err(refusal) => {
          return self.refused(target, row.as_ref(), Some((&stamp, stamped_at)), refusal);
        }
      },
      _ => match self.files.open(target)? {
        Ok(file) => file,
        Err(refusal) => {
          return self.refused(target, row.as_ref(), Some((&stamp, stamped_at)), refusal);
        }
      },
    };
    let (leased, held_open) = match file.access() {
      Touch::Full => match lease_within(&mut file, &*self.clock, Duration::ZERO)? {
        Lease::Held => (true, false),
        Lease::Busy => (false, true),
        // The file system has no leases: compare and overwrite, and never reshape.
        Lease::Unsupported => (false, false),
      },
      Touch::ReadOnly(_) => (false, false),
    };
    let writable = matches!(file.access(), Touch::Full);
    // Without a lease, a writer may be in the middle of a write, so it gets a moment to finish.
    if writable && !leased && hint.waited < UNLEASED_AFTER {
      self.files.keep_open(target, file);
      return Ok(Outcome::Busy);
    }
    let unchanged = file.stamp()? == stamp;
    // The file may have become writable for memfw since it was opened, and its stamp would not show it.
    if !writable && !unchanged {
      return Ok(Outcome::Changed);
    }
    // A reader before the last change has read another version, and the answer about readers does not
    // cover a change after the question. With coarse file times, that change may seem older than it is.
    let since_asked =
      self.clock.monotonic().saturating_sub(asked) + self.files.time_step(target, &stamp);
    let opened_since_close = hint.opened_since_close
      && unchanged
      && self.files.since_change(&stamp, Duration::ZERO) >= since_asked;
    let hint = Hint { opened_since_close, ..*hint };
    if opened_since_close {
      self.files.opened_by_reader(target);
    }
    let locked = Locked::new(&writing, leased);
    let mut outcome = self.process(target, row.as_ref(), &mut file, locked, &hint, &mut sight);
    sight.awaited = file.is_awaited();
    file.release();
    hit(Point::PassAfterRelease);
    if matches!(outcome, Ok(Outcome::HoldOff(wait)) if wait > TAIL_GRACE)
      && came_and_went(&mut file, &*self.clock, leased, sight.awaited)
    {
      // A program that wrote was not a reader, and its own reader may still come.
      let opened_since_close = hint.opened_since_close || Some(file.stamp()?) == sight.stamp;
      let hint = Hint { opened_since_close, ..hint };
      let locked = Locked::new(&writing, true);
      outcome = self.process(target, row.as_ref(), &mut file, locked, &hint, &mut sight);
      file.release();
    }
    let mut outcome = match outcome {
      Ok(outcome) => outcome,
      Err(error) => {
        // Closing the file would cause an event, and the file would be scanned again at once. Only a
        // writable file is kept: memfw may gain write access to another one, but not through this
        // handle.
        if matches!(file.access(), Touch::Full) {
          self.files.keep_open(target, file);
        }
        return Err(error);
      }
    };
    // It may have become writable after that as well, and the version was recorded with its new stamp.
    if !writable && sight.stamp.is_some_and(|seen| seen != stamp) {
      doubt_stamp(&mut self.ledger, &path, self.clock.now())?;
      outcome = Outcome::Changed;
    }
    if matches!(outcome, Outcome::Done { .. }) {
      self.file_memory.note_processed(target);
    }
    self.versions.keep_noted(&mut self.ledger, Writer::Other, self.clock.now())?;
    if let (true, Outcome::Done { reshape_due, .. }) = (held_open, outcome) {
      // A change through a mapping may not change the stamp, so without a lease the stamp is not trusted.
      pending::add(&mut self.ledger, &path, Pending::RETRY)?;
      outcome = Outcome::StillOpen { reshape_due };
    }
    // Closing the file would cause an event, and the file would be due at once.
    let gave_way = writable && outcome == Outcome::Busy;
    if gave_way
      || matches!(outcome, Outcome::HoldOff(_) | Outcome::HeldOpen | Outcome::StillOpen { .. })
    {
      self.files.keep_open(target, file);
    }
    Ok(outcome)
  }

  pub(super) fn process(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    file: &mut F::File,
    locked: Locked<'_>,
    hint: &Hint,
    sight: &mut Sight<'_>,
  ) -> Result<Outcome, EngineError> {
    let started = self.clock.monotonic();
    let leased = locked.leased;
    let before = file.stamp()?;
    let mut stamped_at = self.now();
    let bytes = file.read_all()?;
    let on_path = self.files.stamp(target)?;
    // The path was renamed over during the read: the new file counts.
    if on_path.map(|stamp| stamp.ino) != Some(before.ino) {
      return Ok(Outcome::Changed);
    }
    let age = self.files.age(&before);
    let quiet = age.unwrap_or(hint.waited);
    if !leased && (quiet < CLOSE_TICK || file.stamp()? != before) {
      return Ok(Outcome::Busy);
    }
    sight.stamp = Some(before);
    // Without a lease the last line may be incomplete, but only for a limited time. An empty file was
    // probably just truncated by its writer.
    let is_cut = bytes.last() != Some(&b'\n') && hint.waited < MAX_TAIL_WAIT;
    if !leased && quiet < TAIL_COMPLETE_AFTER && (bytes.is_empty() || is_cut) {
      return Ok(Outcome::Busy);
    }
    let hash = ContentHash::of(&bytes);
    // Without a lease, bytes that were just read may already be old.
    let still = leased || quiet >= TAIL_COMPLETE_AFTER;
    if let Some(row) = row.filter(|row| {
      still && row.status == FileStatus::Watched && row.hash == Some(hash) && row.note.is_none()
    }) {
      file.release();
      self.file_memory.release(target);
      return self.same_version(target, row, (&before, stamped_at), bytes);
    }
    let renamed;
    let row = if self.follow_rename(target, row, (hash, &bytes), &before)? {
      renamed = self.ledger.file(&target.path())?;
      renamed.as_ref()
    } else {
      row
    };
    let adopting = hint.adopting && row.is_none_or(|row| row.adopted_at.is_none());
    // The agent's records are not asked about text from before memfw.
    let sighting =
      if adopting { None } else { self.link.sighting(&self.ledger, target, hash, &before)? };
    let is_taken_over = self.file_memory.is_taken_over(target);
    let origin = Origin { is_taken_over, ..Origin::seen(&self.config, adopting, sighting) };
    let writable = matches!(file.access(), Touch::Full);
    // Nothing was written yet, so the rest of a large file can wait.
    self.judge.allow_interrupt(true);
    let view = self.view_as(target, row, bytes, origin, None, writable);
    self.judge.allow_interrupt(false);
    let mut view = view?;
    if hint.is_restored {
      self.keep_out(target, &mut view)?;
    }
    let known = view.facts.rows.iter().zip(&view.facts.known).filter(|(_, known)| !known.former);
    self.replaced.note_version(
      &self.ledger,
      self.clock.now(),
      target,
      known.map(|(row, _)| row),
      Some(&view.document),
    )?;
    let mut stamp = before;
    let mut edit = None;
    if writable {
      let plan = view.urgent();
      if plan.redactions.is_empty() {
        // A version that waited for its reader and comes back later is a new write, with a reader of its own.
        self.file_memory.release(target);
      } else {
        if !self.ledger.has_key() {
          self.file_memory.note_unsealed(target, before);
          return self.report_unsealed(target, &view);
        }
        if quiet < VERIFY_WITHIN
          && self.file_memory.held_for(target, view.hash, self.clock.monotonic()) < MAX_VERIFY_WAIT
          && self.link.is_on_record(target, view.hash)
          && !AgentLink::is_own(&self.ledger, target, view.hash)?
          && !(leased && sight.was_read(hint, self.files.n_opens(target)))
        {
          return Ok(Outcome::HoldOff(VERIFY_WITHIN.saturating_sub(quiet)));
        }
        // A placeholder in the middle of an unfinished line would split the writer's text.
        let unfinished = view.bytes.last() != Some(&b'\n')
          && plan.redactions.iter().any(|one| one.span.end == view.bytes.len());
        if unfinished && quiet < TAIL_GRACE && hint.waited < MAX_TAIL_WAIT {
          return Ok(Outcome::HoldOff(TAIL_GRACE.saturating_sub(quiet)));
        }
        self.file_memory.release(target);
        match self.redact(target, file, locked, &view, &plan.redactions, started)? {
          Redacted::Changed => return Ok(Outcome::Changed),
          Redacted::Done { bytes, ids, edit: written } => {
            self.exposures.push(self.files.since_change(&before, hint.waited));
            (stamp, stamped_at) = (written.stamp(), written.stamped_at());
            // The rest is judged again, because its rows describe the current version of the file.
            let row = self.ledger.file(&target.path())?;
            let origin = view.origin.clone();
            view = self.view(target, row.as_ref(), bytes, origin, None)?;
            // One reason to take lines out may hide another one in the same block, and a recorded
            // version is not judged again. Approved text stays, so it cannot cause a loop.
            if !ids.is_empty() && !view.urgent().redactions.is_empty() {
              written.finish_unrecorded(self, &target.path())?;
              return Ok(Outcome::Changed);
            }
            edit = Some(written);
          }
        }
      }
    }
    // From here on the stamp shows whether this is still the current version, so no program has to wait
    // for the disk.
    file.release();
    let pending = row.map_or(Pending::NONE, |row| row.pending);
    let waited = hint.waited;
    let seen =
      ScannedVersion { leased, stamp, stamped_at, age, adopting, started, waited, pending };
    let outcome = self.record(target, file, &view, &seen)?;
    if let Some(edit) = edit {
      edit.finish(self)?;
    }
    Ok(outcome)
  }

  /// Reports poison when there is no key, so that nothing can be sealed or taken out. The version is
  /// not recorded, so its fresh lines stay fresh until they can be taken out.
  fn report_unsealed(&mut self, target: &Target, view: &View) -> Result<Outcome, EngineError> {
    let mut codes: Vec<&str> = view
      .judgements
      .iter()
      .flatten()
      .filter(|judgement| judgement.decision.leaves())
      .flat_map(|judgement| judgement.decision.codes.iter().map(|code| code.as_str()))
      .collect();
    codes.sort_unstable();
    codes.dedup();
    let path = super::event::shown(&target.path());
    let why = format!("poison is in `{path}` ({}) and cannot be sealed", codes.join(", "));
    self.degrade(target.part(PartKind::File), &why)?;
    Ok(Outcome::Unsealed)
  }

  /// Whether the file is the version that the ledger knows, by its stamp alone.
  pub fn is_current(&mut self, target: &Target, row: &FileRow) -> Result<bool, EngineError> {
    let Some(stamp) = self.files.stamp(target)? else { return Ok(false) };
    let is_same = row.stamp == Some(super::stamp_row(&stamp));
    Ok(is_same && !row.pending.contains(Pending::RETRY) && !may_recur(row, &stamp, self.now()))
  }

  /// Records a new stamp for the version that the ledger knows.
  fn same_version(
    &mut self,
    target: &Target,
    row: &FileRow,
    (stamp, stamped_at): (&Stamp, i64),
    bytes: Vec<u8>,
  ) -> Result<Outcome, EngineError> {
    // Without a stamp the ledger may be of an older version.
    if row.stamp.is_none() && self.ledger.has_short_hashes(row.id)? {
      let read = {
        let _snapshot = self.ledger.snapshot()?;
        self.read_version(target, Some(row), bytes, true)?
      };
      self.ledger.complete_hashes(row.id, &whole_hashes(&read.document))?;
    }
    let at = self.now();
    let (reshape, recheck) =
      (row.pending.contains(Pending::RESHAPE), !stamp.is_settled(stamped_at));
    let due = Due { reshape, recheck };
    let stamp = super::stamp_row(stamp);
    // Questions to the records remain due.
    let asked = row.pending.and(Pending::ATTRIBUTE);
    let pending = (row.pending, due.pending() | asked);
    self.ledger.set_seen(&target.path(), (stamp, row.hash), pending, at)?;
    Ok(due.done())
  }

  fn vanished(&mut self, target: &Target, row: Option<&FileRow>) -> Result<Outcome, EngineError> {
    self.files.close(target);
    let path = target.path();
    if row.is_some_and(|row| row.status != FileStatus::Missing) {
      // The note says why the file could not be written: when it is back, flagged text is judged again.
      let note = row.and_then(|row| row.note.as_deref());
      self.ledger.set_status(&path, &target.root, FileStatus::Missing, note)?;
      if let Some(row) = row {
        let rows = self.ledger.blocks(row.id)?;
        self.replaced.note_version(&self.ledger, self.clock.now(), target, rows.iter(), None)?;
      }
      let at = self.now();
      // The retention of the last version begins when its file is gone.
      self.ledger.retire_version(&path, at)?;
      degraded::recovered(&mut self.ledger, target.part(PartKind::Encoder), at)?;
      self.tell(Event::new(EventKind::Vanished).path(&path))?;
    }
    Ok(Outcome::Gone)
  }

  /// Reports a target that may not be opened, once for each reason and version of the file.
  fn refused(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    stamp: Option<(&Stamp, i64)>,
    refusal: OpenError,
  ) -> Result<Outcome, EngineError> {
    if matches!(refusal.refusal, Refusal::Absent) {
      return self.vanished(target, row);
    }
    if matches!(refusal.refusal, Refusal::Busy) && self.files.leased_for(target) >= LEASED_LONG {
      let path = super::event::shown(&target.path());
      let why = format!("`{path}` cannot be opened: another program has a lease on it");
      self.degrade(target.part(PartKind::File), &why)?;
    }
    // The file was replaced while it was opened, so the new one is opened.
    if refusal.refusal.is_transient() {
      return Ok(Outcome::Changed);
    }
    // With too many open files or a bad sector, the file is as dirty as before.
    if matches!(refusal.refusal, Refusal::Io(_)) {
      return Err(EngineError::Open(refusal));
    }
    // The stamp may be of another file than the one that was refused.
    if let Some((stamp, _)) = stamp
      && self.files.stamp(target)? != Some(*stamp)
    {
      return Ok(Outcome::Changed);
    }
    self.files.close(target);
    let path = target.path();
    let note = refusal.refusal.to_string();
    let known = row.is_some_and(|row| row.note.as_deref() == Some(note.as_str()));
    self.ledger.set_status(&path, &target.root, FileStatus::Unscannable, Some(&note))?;
    let at = self.now();
    match stamp {
      Some((stamp, stamped_at)) => {
        let due = Due { reshape: false, recheck: !stamp.is_settled(stamped_at) };
        let stamp = super::stamp_row(stamp);
        self.ledger.set_seen(&path, (stamp, None), (Pending::ALL, due.pending()), at)?;
      }
      None => self.ledger.set_stamp(&path, None, None, at)?,
    }
    if !known {
      self.tell(Event::new(EventKind::Unguarded).path(&path).detail(note))?;
    }
    Ok(Outcome::Unscannable)
  }
}

/// Whether the stamp of a row may be that of a later change, although it was old enough when it was recorded: the
/// clock was set back since, and passes through the time of the stamp once more.
fn may_recur(row: &FileRow, stamp: &Stamp, now: i64) -> bool {
  let is_young = !row.pending.contains(Pending::RETRY) && !stamp.is_settled(now);
  is_young || row.scanned_at.is_some_and(|at| at > now)
}

/// The outcome when the ledger knows this stamp. With coarse file times, a stamp that was taken right
/// after a change may also be that of a later change; it is trusted after another scan.
fn unchanged(row: Option<&FileRow>, stamp: &Stamp, now: i64) -> Option<Outcome> {
  let row = row.filter(|row| row.stamp == Some(super::stamp_row(stamp)))?;
  let recheck = row.pending.contains(Pending::RETRY);
  if recheck && stamp.is_settled(now) || may_recur(row, stamp, now) {
    return None;
  }
  Some(Outcome::Unchanged { reshape_due: row.pending.contains(Pending::RESHAPE), recheck })
}
