//! The lazy pass: markers are written and placeholders compacted when a file is idle.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Engine, EngineError, Event, EventKind, Target, VERIFIED_AFTER, judge::Origin, record::Due,
  view::View,
};
use crate::{
  failpoint::{Point, hit},
  files::{
    Fs, FsError, MemoryFile, Touch,
    rewrite::{Reshaped, reshape},
  },
  memory::ContentHash,
  store::{FileStatus, NewOp, OpKind, Pending, ScanRecord, Writer},
};

/// What became of a lazy pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LazyOutcome {
  /// Nothing was due, or it is done.
  Done,
  /// Not idle for long enough: again after this time.
  NotIdle(Duration),
  /// Somebody else has the file open: again later.
  Busy,
  /// The file is not what the ledger knows: an urgent pass comes first.
  Dirty,
}

impl<F: Fs> Engine<F> {
  /// Renews the markers of one file, if that is due and the file has been idle for `idle`.
  pub fn lazy(&mut self, target: &Target, idle: Duration) -> Result<LazyOutcome, EngineError> {
    let path = target.path();
    // What an error interrupted is ended first: an operation tells what stands in the file only as long as
    // none comes after it.
    self.recover_file(&path)?;
    let stamp = match self.stamp(target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) => return Ok(LazyOutcome::Done),
      // A link or a mount has come on its way; the urgent pass says so.
      Err(EngineError::Fs(FsError::Refused { .. })) => return Ok(LazyOutcome::Dirty),
      Err(error) => return Err(error),
    };
    let Some(row) = self.ledger.file(&path)? else { return Ok(LazyOutcome::Dirty) };
    // A marker says where its text came from, so that has to be known first, where markers are wanted.
    let awaited = row.pending.contains(Pending::ATTRIBUTE) && !self.is_unmarked(&path)?;
    if !row.pending.contains(Pending::RESHAPE) || awaited {
      return Ok(LazyOutcome::Done);
    }
    if row.stamp != Some(super::stamp_row(&stamp)) {
      return Ok(LazyOutcome::Dirty);
    }
    // Nothing can be journalled without a key; the markers stay due.
    if !self.ledger.has_key() {
      return Ok(LazyOutcome::Done);
    }
    if !self.may_reshape(&target.root) {
      return self.give_up(target);
    }
    let idle = if self.is_recorded(target)? { idle.max(VERIFIED_AFTER) } else { idle };
    // The queue has waited for as long already, whatever the clock says.
    let quiet = self.since_change(&stamp, idle);
    if quiet < idle {
      return Ok(LazyOutcome::NotIdle(idle.saturating_sub(quiet)));
    }
    let _writing = self.lock()?;
    let kept = self.hot.remove(target);
    let kept = kept.filter(|file| file.stamp().is_ok_and(|found| found.same_file(&stamp)));
    let mut file = match kept {
      Some(file) => file,
      None => match self.open(target)? {
        Ok(file) => file,
        // The pass says why, and that nothing can be due then.
        Err(_) => return self.doubt(target),
      },
    };
    // One that was kept may have been linked or given away since.
    if !matches!(file.recheck(&self.rules()), Ok(Touch::Full)) {
      return self.doubt(target);
    }
    match file.try_lease() {
      Ok(true) => {}
      Ok(false) => {
        // Closing it would be an event that wakes ourselves.
        self.hot.insert(target.clone(), file);
        return Ok(LazyOutcome::Busy);
      }
      // Without leases nothing is ever reshaped; the markers live in the ledger alone.
      Err(FsError::LeaseUnsupported { .. }) => return self.give_up(target),
      Err(error) => return Err(error.into()),
    }
    let outcome = self.reshape_leased(target, &mut file);
    file.release();
    outcome
  }

  /// Whether the version that the ledger knows is the one that the agent has on record: its tools then
  /// verify what they wrote, and compare what they read with their record.
  pub fn is_recorded(&self, target: &Target) -> Result<bool, EngineError> {
    let hash = self.ledger.file(&target.path())?.and_then(|row| row.hash);
    let standing = || self.agent.standing(&target.root, &target.rel);
    Ok(hash.is_some_and(|hash| standing().is_about(hash)))
  }

  fn reshape_leased(
    &mut self,
    target: &Target,
    file: &mut F::File,
  ) -> Result<LazyOutcome, EngineError> {
    let path = target.path();
    let row = self.ledger.file(&path)?;
    let before = file.stamp()?;
    let on_path = self.stamp(target)?;
    if on_path.map(|stamp| stamp.ino) != Some(before.ino) {
      return Ok(LazyOutcome::Dirty);
    }
    let bytes = file.read_all()?;
    // Nobody is kept waiting while the journal is written; the reshape compares before it writes. Only
    // a tool that compares what it read with a record must not read in between.
    if !self.is_recorded(target)? {
      file.release();
    }
    let mut view = self.view(target, row.as_ref(), bytes, Origin::unknown(), None)?;
    // What was scanned when it could not be written is judged again first.
    if row.as_ref().is_none_or(|row| row.hash != Some(view.hash) || row.note.is_some()) {
      return self.doubt(target);
    }
    // The pass has judged this very version, and what it left in its place stays.
    view.judgements.iter_mut().for_each(|judgement| *judgement = None);
    let at = self.now();
    let rows = view.rows(at, || self.new_id())?;
    let (new, marking) = self.reshape_of(target, &view, &rows);
    let Some(new) = new else { return self.give_up(target) };
    let image = NewOp {
      kind: OpKind::Reshape,
      path: &path,
      dev: before.dev,
      ino: before.ino,
      offset: 0,
      before: &view.bytes,
      after: &new,
    };
    hit(Point::LazyBeforeBegin);
    let op = self.ledger.begin(&image, at)?;
    hit(Point::LazyAfterBegin);
    if !super::lease_anew(file)? {
      self.ledger.finish(op)?;
      return Ok(LazyOutcome::Busy);
    }
    self.ledger.check_place()?;
    if reshape(file, &view.bytes, &new)? == Reshaped::Changed {
      self.ledger.finish(op)?;
      return Ok(LazyOutcome::Dirty);
    }
    hit(Point::LazyBeforeFollow);
    self.follow(target, view.hash, ContentHash::of(&new))?;
    hit(Point::LazyAfterFollow);
    let stamp = file.stamp()?;
    file.release();
    hit(Point::LazyAfterRelease);
    // The rows of the new version: the same blocks at other lines.
    let renewed = View::renewed(new, &rows, &view.facts);
    let rows = renewed.rows(at, || self.new_id())?;
    // A torn region is whole only after one step, and compact after another.
    let more = self.reshape_of(target, &renewed, &rows).0.is_some();
    // By a clock read after the write: to an older one the stamp would be from the future, and settled.
    let at = self.now();
    let due = Due { reshape: more, recheck: !stamp.is_settled(at) };
    // What was to be asked about before still is.
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
      pending,
      marker_mode: marking.mode.as_str(),
      unmarked: marking.why.as_deref(),
      events: &[event.row()],
      at,
    })?;
    hit(Point::LazyAfterRecord);
    file.sync()?;
    hit(Point::LazyAfterSync);
    self.ledger.finish(op)?;
    hit(Point::LazyAfterFinish);
    self.note_version(target, &renewed, false);
    self.keep_noted(Writer::Memfw)?;
    Ok(if more { LazyOutcome::NotIdle(Duration::ZERO) } else { LazyOutcome::Done })
  }

  /// The file is not what its stamp told, so that must not vouch for it any longer.
  fn doubt(&mut self, target: &Target) -> Result<LazyOutcome, EngineError> {
    let at = self.now();
    self.ledger.set_stamp(&target.path(), None, None, at)?;
    Ok(LazyOutcome::Dirty)
  }

  /// Nothing to reshape after all, or nothing that may be.
  fn give_up(&mut self, target: &Target) -> Result<LazyOutcome, EngineError> {
    // A stamp that is too young to be trusted stays so.
    self.no_longer_due(target, Pending::RESHAPE)?;
    Ok(LazyOutcome::Done)
  }
}
