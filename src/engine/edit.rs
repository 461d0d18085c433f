//! One journalled edit of a memory file, as a type that can only move forward.
//!
//! Every change that memfw makes to a file takes these steps, in this order (docs/adr/0014):
//!
//! 1. [`Locked`]: the write lock is held, so no other process of memfw edits a file.
//! 2. [`Leased`]: nobody else has the file open, or it is known that no lease can be had.
//! 3. [`Journalled`]: the images of the edit survive a power cut. Meanwhile the lease is given back.
//! 4. [`Written`]: the bytes were compared once more and overwritten.
//! 5. [`Followed`]: the agent's own record of the file is about the new bytes.
//! 6. [`Durable`]: the lease is given back, and the new bytes survive a power cut.
//! 7. Finished: what the ledger says about the file is recorded, and the journal forgets the edit.
//!
//! Redaction, markers, approval, restore and recovery are callers with a [`Plan`] of their own. A step that
//! fails leaves the journal as it is, and [`super::recover`] takes the edit up from there.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  time::Duration,
};

use super::{Engine, EngineError, Target};
use crate::{
  failpoint::{Plan, Point, Step, hit, tear},
  files::{
    Fs, FsError, MemoryFile, Stamp, lease,
    overwrite::{Change, Overwritten, overwrite},
    rewrite::{Reshaped, reshape},
  },
  memory::ContentHash,
  os::{Clock, WriteLock},
  store::{NewOp, OpId},
};

/// Pause before the second try for a lease, and the longest one between two tries (docs/adr/0002: 0.2 to
/// 5 ms; a reader has closed the file after 0.3 ms).
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LAST_PAUSE: Duration = Duration::from_millis(2);

/// The answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
  /// The lease is held, and is young enough to write under it.
  Held,
  /// Another program has the file open.
  Busy,
  /// No lease will ever be had on this file.
  Unsupported,
}

/// Asks for the lease of a file until it is granted or `patience` is over; at least once.
///
/// A lease that is about to be too old is given back and asked for anew: others may write in between, so
/// whoever goes on compares first.
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

/// The write lock is held, and a lease was asked for.
#[derive(Clone, Copy)]
pub(super) struct Locked<'l> {
  _lock: &'l WriteLock,
  /// Whether the lease was granted. Without one a redaction compares before it overwrites, and nothing else
  /// is written.
  pub leased: bool,
}

impl<'l> Locked<'l> {
  pub(super) const fn new(lock: &'l WriteLock, leased: bool) -> Self {
    Self { _lock: lock, leased }
  }
}

/// Step 2: nothing is journalled yet.
pub(super) struct Leased;
/// Step 3: the images are durable.
pub(super) struct Journalled(Vec<OpId>);
/// Step 4: the new bytes are in the file.
pub(super) struct Written(Vec<OpId>);
/// Step 5: the agent's record follows.
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

/// What a change of length came to.
pub(super) enum Rewritten<E> {
  /// It is done.
  Done(E),
  /// The file is not what the edit was made from. Nothing was written, and the journal has forgotten it.
  Changed,
  /// A write failed, as on a full disk, and was taken back; the journal has forgotten it.
  Failed(FsError),
}

/// What becomes of the lease while the disk is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
  /// Nobody is kept waiting (docs/adr/0008).
  GiveBack,
  /// The new bytes are judged under the same lease, before anybody can read them.
  KeepLease,
}

impl<'e, F: Fs, S> Edit<'e, F, S> {
  fn at<T>(self, step: impl FnOnce(S) -> T) -> Edit<'e, F, T> {
    let Self { plan, locked, target, file, step: old } = self;
    Edit { plan, locked, target, file, step: step(old) }
  }

  /// The file, to be read.
  pub(super) fn file(&self) -> &F::File {
    self.file
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

  /// Gives the lease back while the journal is written: what follows compares again before it writes. Of a
  /// version that the agent has on record it is kept, for a tool that reads in between would write from a
  /// version that is not on record any more (docs/adr/0008).
  pub(super) fn give_way(&mut self, engine: &Engine<F>, version: ContentHash) {
    if !engine.is_on_record(self.target, version) {
      self.file.release();
    }
  }

  /// Makes the edit durable in the journal; `None` when `journal` finds that it is not wanted any more.
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

  /// The same for an edit that is one operation and always wanted.
  pub(super) fn begun(
    mut self,
    engine: &mut Engine<F>,
    version: ContentHash,
    op: &NewOp<'_>,
  ) -> Result<Edit<'e, F, Journalled>, EngineError> {
    self.give_way(engine, version);
    self.plan.hit(Step::BeforeJournal);
    let at = engine.now();
    let op = engine.ledger.begin(op, at)?;
    self.plan.hit(Step::AfterJournal);
    Ok(self.at(|Leased| Journalled(vec![op])))
  }
}

impl<'e, F: Fs> Edit<'e, F, Journalled> {
  /// An edit that was interrupted: it is in the journal already.
  pub(super) fn resumed(
    locked: Locked<'e>,
    target: &'e Target,
    file: &'e mut F::File,
    op: OpId,
  ) -> Self {
    Self { plan: Plan::Recover, locked, target, file, step: Journalled(vec![op]) }
  }

  /// Asks for the lease again, where one could be had before.
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

  /// The journal forgets an edit of which nothing was written.
  pub(super) fn given_up(self, engine: &mut Engine<F>) -> Result<(), EngineError> {
    strike_out(engine, &self.step.0)
  }

  /// Overwrites ranges at equal length, each compared first; the answer says which were as expected.
  pub(super) fn overwrite(
    self,
    changes: &[Change<'_>],
  ) -> Result<(Edit<'e, F, Written>, Overwritten), EngineError> {
    let done = overwrite(self.file, changes)?;
    self.plan.hit(Step::AfterWrite);
    Ok((self.at(|Journalled(ops)| Written(ops)), done))
  }

  /// Replaces the content `base` by `new`, under a lease.
  pub(super) fn reshape(
    self,
    engine: &mut Engine<F>,
    base: &[u8],
    new: &[u8],
  ) -> Result<Rewritten<Edit<'e, F, Written>>, EngineError> {
    // A ledger that was removed or replaced since holds nothing of what would be overwritten.
    engine.ledger.check_place()?;
    let done = reshape(self.file, base, new);
    if done.is_err() {
      // What was taken back may not be on the disk.
      engine.open_edits.unsynced.extend(&self.step.0);
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

  /// Adds what `new` has more than `base` to the end of a file that is `base` still. Needs no lease.
  pub(super) fn append(
    self,
    engine: &mut Engine<F>,
    base: &[u8],
    new: &[u8],
  ) -> Result<Rewritten<Edit<'e, F, Written>>, EngineError> {
    match new.strip_prefix(base) {
      Some(more) if self.file.read_all()? == base => {
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

  /// Writes the whole file again, under the lease under which `current` was read: an interrupted change of
  /// length. Also what seems to be in the file already is written, for after a failed `fsync` the kernel may
  /// call pages clean that never reached the disk.
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

  /// Overwrites a range that an interrupted edit has left, compared once more; whether it was as expected.
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

  /// Nothing is to be written: it is in the file already, or has no place there any more.
  pub(super) fn unwritten(self) -> Edit<'e, F, Written> {
    self.at(|Journalled(ops)| Written(ops))
  }
}

impl<'e, F: Fs> Edit<'e, F, Written> {
  /// The bytes were not as expected, so nothing was overwritten after all: the journal forgets the edit.
  pub(super) fn nothing_written(self, engine: &mut Engine<F>) -> Result<Option<Self>, EngineError> {
    strike_out(engine, &self.step.0)?;
    Ok(None)
  }

  /// The edit, if the path still leads to the file that was written; else nothing of ours is where it was
  /// wanted, and the journal forgets it.
  pub(super) fn on_path(self, engine: &mut Engine<F>) -> Result<Option<Self>, EngineError> {
    if engine.is_on_path(self.target, self.file)? {
      return Ok(Some(self));
    }
    strike_out(engine, &self.step.0)?;
    Ok(None)
  }

  /// Lets the agent's record follow from one version to the other; `None` where the file as a whole is
  /// neither.
  pub(super) fn followed(
    self,
    engine: &mut Engine<F>,
    versions: Option<(ContentHash, ContentHash)>,
  ) -> Result<Edit<'e, F, Followed>, EngineError> {
    if let Some((before, after)) = versions {
      engine.follow(self.target, before, after)?;
    }
    self.plan.hit(Step::AfterFollow);
    Ok(self.at(|Written(ops)| Followed(ops)))
  }
}

impl<F: Fs> Edit<'_, F, Followed> {
  /// Waits for the disk. The stamp is taken before anybody else can write.
  pub(super) fn durable(self, engine: &mut Engine<F>, lease: Sync) -> Result<Durable, EngineError> {
    let Self { plan, file, step: Followed(ops), .. } = self;
    let stamp = file.stamp()?;
    if lease == Sync::GiveBack {
      file.release();
    }
    plan.hit(Step::AfterRelease);
    if let Err(error) = file.sync() {
      engine.open_edits.unsynced.extend(ops);
      return Err(error.into());
    }
    plan.hit(Step::AfterSync);
    Ok(Durable { plan, ops, stamp })
  }
}

/// Step 6: the new bytes survive a power cut. Whoever has it records what is in the file, and finishes.
#[must_use = "an edit that is not finished stays in the journal"]
pub(super) struct Durable {
  plan: Plan,
  ops: Vec<OpId>,
  stamp: Stamp,
}

impl Durable {
  /// The stamp of the new bytes: it says from here on whether they are still what is in the file.
  pub(super) const fn stamp(&self) -> Stamp {
    self.stamp
  }

  /// The journal forgets the edit, after the ledger has recorded what is in the file.
  pub(super) fn finish<F: Fs>(self, engine: &mut Engine<F>) -> Result<(), EngineError> {
    self.plan.hit(Step::AfterRecord);
    strike_out(engine, &self.ops)?;
    self.plan.hit(Step::AfterFinish);
    Ok(())
  }
}

fn strike_out<F: Fs>(engine: &mut Engine<F>, ops: &[OpId]) -> Result<(), EngineError> {
  for &op in ops {
    engine.ledger.finish(op)?;
    engine.open_edits.forget(op);
  }
  Ok(())
}

/// What this process knows about edits that are in the journal.
#[derive(Debug, Default)]
pub(super) struct OpenEdits {
  /// Since when it is tried to complete an interrupted one, on the monotonic clock.
  since: HashMap<OpId, Duration>,
  /// Those whose bytes could not be made durable.
  unsynced: HashSet<OpId>,
}

impl OpenEdits {
  /// How long an interrupted edit has waited; whether this is the first time that it does.
  pub(super) fn waited(&mut self, op: OpId, now: Duration) -> (Duration, bool) {
    let is_first = !self.since.contains_key(&op);
    (now.saturating_sub(*self.since.entry(op).or_insert(now)), is_first)
  }

  /// Whether the bytes of an edit could not be made durable.
  pub(super) fn is_unsynced(&self, op: OpId) -> bool {
    self.unsynced.contains(&op)
  }

  /// The edit is in the journal no more.
  pub(super) fn forget(&mut self, op: OpId) {
    self.since.remove(&op);
    self.unsynced.remove(&op);
  }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
