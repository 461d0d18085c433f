//! One journalled edit of a memory file, as a type that can only move to the next step.
//!
//! Every edit of memfw takes these steps, in this order (docs/adr/0014):
//!
//! 1. [`Locked`]: the write lock is held, so no other process of memfw edits a file.
//! 2. [`Leased`]: the lease was requested: no other program has the file open, or the edit is one that needs
//!    no lease.
//! 3. [`Journalled`]: the images of the edit survive a power cut. Meanwhile the lease is released.
//! 4. [`Written`]: the bytes were compared again and overwritten.
//! 5. [`Followed`]: the agent's own record of the file is about the new bytes.
//! 6. [`Durable`]: the lease is released, and the new bytes survive a power cut.
//! 7. Finished: the journal forgets the edit. Before this, the ledger records the new content of the
//!    file; callers whose edit a pass follows leave the recording to that pass.
//!
//! Redaction, markers, approval, restore and recovery are callers with a [`Plan`] of their own. A step
//! that fails leaves the journal unchanged, and [`super::recover`] continues the edit from there.
#![forbid(unsafe_code)]

use std::{path::Path, time::Duration};

use super::{Engine, EngineError, Target, stamp::doubt_stamp};
use crate::{
  failpoint::{Plan, Point, Step, hit, tear},
  files::{
    Fs, FsError, MemoryFile, Stamp, lease,
    overwrite::{Change, Overwritten, overwrite},
    rewrite::{Reshaped, reshape},
  },
  memory::ContentHash,
  os::{Clock, WriteLock},
  store::{NewOp, OpId, OpKind},
};

/// The pause before the second request for a lease, and the longest pause between two requests
/// (docs/adr/0002: 0.2 to 5 ms; a reader has closed the file after 0.3 ms).
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LAST_PAUSE: Duration = Duration::from_millis(2);

/// The answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
  /// The lease is held, and is young enough to write under it.
  Held,
  /// Another program has the file open.
  Busy,
  /// The file does not support leases.
  Unsupported,
}

/// Requests the lease of a file until it is granted or `patience` is over, at least once.
///
/// A lease that is about to expire is released and requested again. Others may write in between, so the
/// caller must compare the content before it writes.
pub(super) fn lease_within<M: MemoryFile>(
  file: &mut M,
  clock: &dyn Clock,
  patience: Duration,
) -> Result<Lease, FsError> {
  let until = clock.monotonic() + patience;
  let mut pause = FIRST_PAUSE;
  if file.leased_for().is_some_and(|age| age > lease::LIMIT / 2) {
    file.release();
  }
  loop {
    match file.try_lease() {
      Ok(true) => return Ok(Lease::Held),
      Ok(false) => {}
      Err(FsError::LeaseUnsupported { .. }) => return Ok(Lease::Unsupported),
      Err(error) => return Err(error),
    }
    if clock.monotonic() >= until {
      return Ok(Lease::Busy);
    }
    clock.pause(pause);
    pause = pause.saturating_mul(2).min(LAST_PAUSE);
  }
}

/// Step 1: the write lock is held. The caller takes the lock, requests the lease, and notes the answer
/// here.
#[derive(Clone, Copy)]
pub(super) struct Locked<'l> {
  _lock: &'l WriteLock,
  /// Whether the lease was granted. Without a lease only a redaction is written, after a comparison.
  pub leased: bool,
}

impl<'l> Locked<'l> {
  pub(super) const fn new(lock: &'l WriteLock, leased: bool) -> Self {
    Self { _lock: lock, leased }
  }
}

/// Step 2: the lease was requested, and nothing is in the journal yet.
pub(super) struct Leased;
/// Step 3: the images are durable.
pub(super) struct Journalled(Vec<OpId>);
/// Step 4: the new bytes are in the file.
pub(super) struct Written(Vec<OpId>);
/// Step 5: the agent's record has followed.
pub(super) struct Followed(Vec<OpId>);

/// An edit of one file at one of its steps.
#[must_use = "an edit that is dropped stays in the journal"]
pub(super) struct Edit<'e, F: Fs, S> {
  plan: Plan,
  locked: Locked<'e>,
  target: &'e Target,
  file: &'e mut F::File,
  step: S,
}

/// The result of an attempt to write an edit.
pub(super) enum Rewritten<E> {
  /// The edit was written.
  Done(E),
  /// Another program has the file open. Nothing was written, and the journal has forgotten the edit.
  Busy,
  /// The content is not the one that the edit is based on. Nothing was written, and the journal has
  /// forgotten the edit.
  Changed,
  /// A write failed, as on a full disk, and was undone. The journal has forgotten the edit.
  Failed(FsError),
}

impl<E> Rewritten<E> {
  /// The edit, if it was written; `None` if other programs use the file.
  pub(super) fn done(self) -> Result<Option<E>, EngineError> {
    match self {
      Self::Done(edit) => Ok(Some(edit)),
      Self::Busy | Self::Changed => Ok(None),
      Self::Failed(error) => Err(error.into()),
    }
  }
}

/// A new content of a file, which is written only over the content that it is based on.
pub(super) struct Replacement<'r> {
  /// The content of the file, and its hash.
  pub before: (&'r [u8], ContentHash),
  /// Its new content.
  pub after: &'r [u8],
  /// The only part that differs, if it is known. It is overwritten in place if it keeps its length.
  pub part: Option<Change<'r>>,
}

impl<'r> Replacement<'r> {
  /// The part, if it keeps its length.
  fn in_place(&self) -> Option<Change<'r>> {
    self.part.filter(|part| part.expected.len() == part.replacement.len())
  }

  /// Whether no text is shifted.
  pub(super) fn is_in_place(&self) -> bool {
    self.in_place().is_some()
  }

  /// The operation for the journal.
  fn op<'o>(&'o self, path: &'o Path, stamp: &Stamp) -> NewOp<'o> {
    let (kind, offset, before, after) = match self.in_place() {
      Some(part) => (OpKind::Restore, part.offset, part.expected, part.replacement),
      None => (OpKind::Reshape, 0, self.before.0, self.after),
    };
    NewOp { kind, path, dev: stamp.dev, ino: stamp.ino, offset, before, after }
  }
}

/// What happens to the lease while memfw waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
  /// It is released first, so no other program has to wait (docs/adr/0008).
  GiveBack,
  /// It is kept, because the new bytes are judged before other programs can read them.
  KeepLease,
}

impl<'e, F: Fs, S> Edit<'e, F, S> {
  fn at<T>(self, step: impl FnOnce(S) -> T) -> Edit<'e, F, T> {
    let Self { plan, locked, target, file, step: old } = self;
    Edit { plan, locked, target, file, step: step(old) }
  }
}

impl<'e, F: Fs> Edit<'e, F, Leased> {
  pub(super) const fn new(
    plan: Plan,
    locked: Locked<'e>,
    target: &'e Target,
    file: &'e mut F::File,
  ) -> Self {
    Self { plan, locked, target, file, step: Leased }
  }

  /// Releases the lease while the journal is written; the next step compares again before it writes.
  /// The lease of a version that the agent has on record is kept: a tool that reads in between would
  /// write from a version that is not on record any more (docs/adr/0008).
  pub(super) fn give_way(&mut self, engine: &Engine<F>, version: ContentHash) {
    if !engine.link.is_on_record(self.target, version) {
      self.file.release();
    }
  }

  /// Makes the edit durable in the journal; `None` if `journal` finds that the edit is not needed any
  /// more.
  pub(super) fn journalled(
    mut self,
    engine: &mut Engine<F>,
    version: ContentHash,
    journal: impl FnOnce(&mut Engine<F>, &F::File) -> Result<Option<Vec<OpId>>, EngineError>,
  ) -> Result<Option<Edit<'e, F, Journalled>>, EngineError> {
    self.give_way(engine, version);
    self.plan.hit(Step::BeforeJournal);
    let Some(ops) = journal(engine, self.file)? else { return Ok(None) };
    self.plan.hit(Step::AfterJournal);
    Ok(Some(self.at(|Leased| Journalled(ops))))
  }

  /// Journals a new content, and writes it if the file still has the old one.
  ///
  /// `decide` makes the decision durable that the edit carries out: after the journal, and before anything is
  /// written. `patience` limits the wait for another program that has opened the file meanwhile.
  pub(super) fn replaced(
    mut self,
    engine: &mut Engine<F>,
    what: &Replacement<'_>,
    patience: Duration,
    decide: impl FnOnce(&mut Engine<F>) -> Result<(), EngineError>,
  ) -> Result<Rewritten<Edit<'e, F, Written>>, EngineError> {
    let (before, version) = what.before;
    self.give_way(engine, version);
    self.plan.hit(Step::BeforeJournal);
    let (path, stamp, at) = (self.target.path(), self.file.stamp()?, engine.now());
    let op = engine.ledger.begin(&what.op(&path, &stamp), at)?;
    self.plan.hit(Step::AfterJournal);
    let mut edit = self.at(|Leased| Journalled(vec![op]));
    if let Err(error) = decide(engine) {
      edit.given_up(engine)?;
      return Err(error);
    }
    let leased = edit.locked.leased;
    if leased && edit.lease_again(engine, patience)? != Lease::Held {
      edit.given_up(engine)?;
      return Ok(Rewritten::Busy);
    }
    match what.in_place() {
      // The caller records the whole version, so all of it must be unchanged.
      Some(_) if leased && edit.file.read_all()? != before => {
        edit.given_up(engine)?;
        Ok(Rewritten::Changed)
      }
      Some(part) => {
        engine.ledger.check_place()?;
        let (edit, done) = edit.overwrite(&[part])?;
        let edit = if done.stale.is_empty() { Some(edit) } else { edit.nothing_written(engine)? };
        Ok(edit.map_or(Rewritten::Changed, Rewritten::Done))
      }
      None if leased => edit.reshape(engine, before, what.after),
      None => edit.append(engine, before, what.after),
    }
  }
}

impl<'e, F: Fs> Edit<'e, F, Journalled> {
  /// The file, for reading.
  pub(super) fn file(&self) -> &F::File {
    self.file
  }

  /// An interrupted edit, which is in the journal already.
  pub(super) fn resumed(
    locked: Locked<'e>,
    target: &'e Target,
    file: &'e mut F::File,
    op: OpId,
  ) -> Self {
    Self { plan: Plan::Recover, locked, target, file, step: Journalled(vec![op]) }
  }

  /// Requests the lease again, if the edit had one before.
  pub(super) fn lease_again(
    &mut self,
    engine: &Engine<F>,
    patience: Duration,
  ) -> Result<Lease, EngineError> {
    if !self.locked.leased {
      return Ok(Lease::Unsupported);
    }
    Ok(lease_within(self.file, &*engine.clock, patience)?)
  }

  /// Removes an edit from the journal of which nothing was written.
  pub(super) fn given_up(self, engine: &mut Engine<F>) -> Result<(), EngineError> {
    strike_out(engine, &self.step.0)
  }

  /// Overwrites ranges at equal length, each after a comparison; also returns which ranges were as
  /// expected.
  pub(super) fn overwrite(
    self,
    changes: &[Change<'_>],
  ) -> Result<(Edit<'e, F, Written>, Overwritten), EngineError> {
    let done = overwrite(self.file, changes)?;
    self.plan.hit(Step::AfterWrite);
    Ok((self.at(|Journalled(ops)| Written(ops)), done))
  }

  /// Replaces the content `base` by `new`, under a lease.
  fn reshape(
    self,
    engine: &mut Engine<F>,
    base: &[u8],
    new: &[u8],
  ) -> Result<Rewritten<Edit<'e, F, Written>>, EngineError> {
    // A ledger that was removed or replaced meanwhile does not contain the bytes that would be
    // overwritten.
    engine.ledger.check_place()?;
    let done = reshape(self.file, base, new);
    if done.is_err() {
      // The undone write may not be on the disk.
      engine.open_edits.note_unsynced(&self.step.0);
    }
    let failed = match done? {
      Reshaped::Done => {
        self.plan.hit(Step::AfterWrite);
        return Ok(Rewritten::Done(self.at(|Journalled(ops)| Written(ops))));
      }
      Reshaped::Changed => None,
      Reshaped::Undone(error) => Some(error),
    };
    self.given_up(engine)?;
    Ok(failed.map_or(Rewritten::Changed, Rewritten::Failed))
  }

  /// Appends the part of `new` after `base` to a file whose content is still `base`. Needs no lease.
  fn append(
    self,
    engine: &mut Engine<F>,
    base: &[u8],
    new: &[u8],
  ) -> Result<Rewritten<Edit<'e, F, Written>>, EngineError> {
    match new.strip_prefix(base) {
      Some(more) if self.file.read_all()? == base => {
        engine.ledger.check_place()?;
        self.file.append(more)?;
        self.plan.hit(Step::AfterWrite);
        Ok(Rewritten::Done(self.at(|Journalled(ops)| Written(ops))))
      }
      _ => {
        self.given_up(engine)?;
        Ok(Rewritten::Changed)
      }
    }
  }

  /// Completes an interrupted change of length: writes the whole file again, under the lease under
  /// which `current` was read. Bytes that seem to be in the file already are written, too: after a
  /// failed `fsync` the kernel may mark pages as clean that never reached the disk.
  pub(super) fn rewrite(
    self,
    current: &[u8],
    bytes: &[u8],
  ) -> Result<Edit<'e, F, Written>, EngineError> {
    self.plan.hit(Step::AfterJournal);
    let write = |part: &[u8]| self.file.pwrite(0, part);
    tear(Point::RecoverTorn, 0, bytes, current.len(), write)?;
    if !bytes.is_empty() {
      write(bytes)?;
    }
    self.plan.hit(Step::AfterWrite);
    if bytes.len() < current.len() {
      self.file.truncate(bytes.len() as u64)?;
      hit(Point::RecoverAfterCut);
    }
    Ok(self.at(|Journalled(ops)| Written(ops)))
  }

  /// Overwrites a range of an interrupted edit after another comparison; also returns whether it was as
  /// expected.
  pub(super) fn complete_range(
    self,
    change: Change<'_>,
  ) -> Result<(Edit<'e, F, Written>, bool), EngineError> {
    self.plan.hit(Step::AfterJournal);
    let (at, new) = (change.offset, change.replacement);
    tear(Point::RecoverTorn, at as usize, new, new.len(), |part| self.file.pwrite(at, part))?;
    let (edit, done) = self.overwrite(&[change])?;
    Ok((edit, done.stale.is_empty()))
  }

  /// Writes nothing, because the text is in the file already, or has no place in it any more.
  pub(super) fn unwritten(self) -> Edit<'e, F, Written> {
    self.at(|Journalled(ops)| Written(ops))
  }
}

impl<'e, F: Fs> Edit<'e, F, Written> {
  /// Removes the edit from the journal because the bytes were not as expected and nothing was
  /// overwritten.
  pub(super) fn nothing_written(self, engine: &mut Engine<F>) -> Result<Option<Self>, EngineError> {
    strike_out(engine, &self.step.0)?;
    Ok(None)
  }

  /// Has the agent's record follow from one version to the other, and waits for the disk without the lease; `None` if
  /// the path leads to another file.
  pub(super) fn landed(
    self,
    engine: &mut Engine<F>,
    versions: (ContentHash, ContentHash),
  ) -> Result<Option<Durable>, EngineError> {
    let Some(edit) = self.on_path(engine)? else { return Ok(None) };
    edit.followed(engine, Some(versions))?.durable(engine, Sync::GiveBack).map(Some)
  }

  /// The edit, if the path still leads to the file that was written. Otherwise the edit had no effect
  /// on the path, and the journal forgets it.
  pub(super) fn on_path(self, engine: &mut Engine<F>) -> Result<Option<Self>, EngineError> {
    if engine.files.is_on_path(self.target, self.file)? {
      return Ok(Some(self));
    }
    strike_out(engine, &self.step.0)?;
    Ok(None)
  }

  /// Makes the agent's record follow from one version to the other. `versions` is `None` if the whole
  /// file is neither of them.
  pub(super) fn followed(
    self,
    engine: &mut Engine<F>,
    versions: Option<(ContentHash, ContentHash)>,
  ) -> Result<Edit<'e, F, Followed>, EngineError> {
    if let Some((before, after)) = versions {
      engine.link.follow(&mut engine.ledger, self.target, before, after)?;
    }
    self.plan.hit(Step::AfterFollow);
    Ok(self.at(|Written(ops)| Followed(ops)))
  }
}

impl<F: Fs> Edit<'_, F, Followed> {
  /// Waits for the disk. The stamp is taken before other programs can write.
  pub(super) fn durable(self, engine: &mut Engine<F>, lease: Sync) -> Result<Durable, EngineError> {
    let Self { plan, file, step: Followed(ops), .. } = self;
    let stamp = file.stamp()?;
    let stamped_at = engine.now();
    if lease == Sync::GiveBack {
      file.release();
    }
    plan.hit(Step::AfterRelease);
    if let Err(error) = file.sync() {
      engine.open_edits.note_unsynced(&ops);
      return Err(error.into());
    }
    plan.hit(Step::AfterSync);
    Ok(Durable { plan, ops, stamp, stamped_at })
  }
}

/// Step 6: the new bytes survive a power cut. The caller records the content of the file and finishes, or
/// finishes and lets the following pass record the content.
#[must_use = "an edit that is not finished stays in the journal"]
pub(super) struct Durable {
  plan: Plan,
  ops: Vec<OpId>,
  stamp: Stamp,
  stamped_at: i64,
}

impl Durable {
  /// The stamp of the new bytes. A later comparison with it shows whether the file has changed.
  pub(super) const fn stamp(&self) -> Stamp {
    self.stamp
  }

  /// When that stamp was taken, in microseconds UTC.
  pub(super) const fn stamped_at(&self) -> i64 {
    self.stamped_at
  }

  /// Removes the edit from the journal: after the ledger has recorded the content of the file, or before a
  /// pass that records it.
  pub(super) fn finish<F: Fs>(self, engine: &mut Engine<F>) -> Result<(), EngineError> {
    self.plan.hit(Step::AfterRecord);
    strike_out(engine, &self.ops)?;
    self.plan.hit(Step::AfterFinish);
    Ok(())
  }

  /// Removes the edit from the journal before the ledger has recorded the content of the file: a pass that follows
  /// does. That pass reads the file whatever its stamp is. Where file times are coarse, or the clock was set back, the
  /// stamp may be that of the version before the edit.
  pub(super) fn finish_unrecorded<F: Fs>(
    self,
    engine: &mut Engine<F>,
    path: &Path,
  ) -> Result<(), EngineError> {
    doubt_stamp(&mut engine.ledger, path, engine.clock.now())?;
    self.finish(engine)
  }
}

fn strike_out<F: Fs>(engine: &mut Engine<F>, ops: &[OpId]) -> Result<(), EngineError> {
  for &op in ops {
    engine.ledger.finish(op)?;
    engine.open_edits.forget(op);
  }
  Ok(())
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
