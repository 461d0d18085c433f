//! Recovery: completes the edits that a crash interrupted, in order.
//!
//! A redaction needs no undo: its range holds the poison, the placeholder or a mixture, and the next
//! scan finds remaining poison. A change of length is redone from its images. If the file is gone,
//! linked, or open in another program, the edit waits for `PATIENCE`. Then text that only its journal
//! holds becomes an item that waits for a person. Text that exists only in the journal is never
//! dropped.
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  edit::{Durable, Edit, Lease, Locked, Sync, lease_within},
  pending::target_of,
  stamp::doubt_stamp,
};
use crate::{
  detect::{KeptFindings, Layer},
  failpoint::{Point, hit},
  files::{
    Fs, FsError, MemoryFile, Refusal, Touch, lease,
    overwrite::{Change, Left, find_torn, left},
    rewrite::{Recovery, recover_reshape},
  },
  judging::{origin::Origin, text::BlockText},
  memory::{BlockId, ContentHash, Document, placeholder},
  os::WriteLock,
  provenance::{Attestation, State},
  store::{Images, NewItem, Op, OpKind, OriginRecord},
};

/// How long to wait for the lease of a file with an interrupted edit at a time. A program that opens
/// the file briefly is done by then, and all other files wait meanwhile (a choice).
const LEASE_WAIT: Duration = Duration::from_millis(20);
/// How long an interrupted edit waits for its file: longer than an editor's renames, a backup's hard
/// link and most readers take. The file is not guarded meanwhile, so the wait is limited (a choice).
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The result for an interrupted edit.
enum Recovered {
  /// It is completed, or nothing had to be done; with the detail for its event.
  Done(Durable, String),
  /// The necessary change cannot be determined; with the detail for its event.
  Unreadable(&'static str),
  /// Nothing can be done now, because of `why`. `current` is the content of the file, if it could be
  /// read.
  Later { why: String, current: Option<Vec<u8>>, for_good: bool },
}

impl Recovered {
  fn later(why: impl Into<String>) -> Self {
    Self::Later { why: why.into(), current: None, for_good: false }
  }
}

impl<F: Fs> Engine<F> {
  /// Completes all interrupted edits; returns how many there were. An edit whose file cannot be read or
  /// written now stays open until that file is scanned.
  pub fn recover(&mut self) -> Result<usize, EngineError> {
    self.recover_outside(&[])
  }

  /// Completes interrupted edits like [`Engine::recover`], except those below `roots`.
  pub fn recover_outside(&mut self, roots: &[PathBuf]) -> Result<usize, EngineError> {
    let writing = self.files.lock()?;
    let is_outside = |op: &Op| !roots.iter().any(|root| op.path.starts_with(root));
    let (n, failed) = self.recover_where(&writing, is_outside)?;
    if let Some((op, error)) = failed {
      let path = super::event::shown(&op.path);
      tracing::warn!(target: "memfw", file = path, %error, "an interrupted edit waits");
    }
    Ok(n)
  }

  /// Completes the edits of one file that a dead process left open. Without open edits it does not wait
  /// for the lock.
  pub(super) fn recover_file(&mut self, path: &Path) -> Result<(), EngineError> {
    if self.ledger.has_open_ops()? {
      self.lock_file(path)?;
    }
    Ok(())
  }

  /// Acquires the write lock and completes the edits of a file that a dead process left open. The journal is
  /// read under the lock: the process that held the lock may have died in the middle of a write.
  pub(super) fn lock_file(&mut self, path: &Path) -> Result<WriteLock, EngineError> {
    let writing = self.files.lock()?;
    if self.ledger.has_open_ops()?
      && let (_, Some((_, error))) = self.recover_where(&writing, |op| op.path == path)?
    {
      return Err(error);
    }
    Ok(writing)
  }

  /// Completes the `concerned` edits. Also returns the first edit that has to wait, with the reason;
  /// later edits of the same file wait with it.
  fn recover_where(
    &mut self,
    writing: &WriteLock,
    concerned: impl Fn(&Op) -> bool,
  ) -> Result<(usize, Option<(Op, EngineError)>), EngineError> {
    // Edits are begun and finished under this lock, so no process works on an edit that is open now.
    // In the order in which they were begun: a later edit is based on the result of an earlier one.
    let ops: Vec<Op> = self.ledger.open_ops()?.into_iter().filter(concerned).collect();
    let n = ops.len();
    let mut failed = None;
    let mut waiting: HashSet<PathBuf> = HashSet::new();
    for op in ops {
      if waiting.contains(&op.path) {
        // All edits of a file wait for it together, not one after the other.
        self.open_edits.waited(op.id, self.clock.monotonic());
        continue;
      }
      hit(Point::RecoverBefore);
      let (edit, said) = match self.recover_one(writing, &op) {
        Err(error @ (EngineError::Fs(_) | EngineError::Open(_) | EngineError::Root(_))) => {
          doubt_stamp(&mut self.ledger, &op.path, self.clock.now())?;
          waiting.insert(op.path.clone());
          failed.get_or_insert((op, error));
          continue;
        }
        Err(error) => return Err(error),
        Ok(Recovered::Done(edit, said)) => (Some(edit), said),
        Ok(Recovered::Unreadable(said)) => (None, said.to_owned()),
        Ok(Recovered::Later { why, current, for_good }) => {
          let (waited, is_first) = self.open_edits.waited(op.id, self.clock.monotonic());
          if is_first {
            // The file must be scanned again in any case.
            doubt_stamp(&mut self.ledger, &op.path, self.clock.now())?;
          }
          if !for_good && waited < PATIENCE {
            waiting.insert(op.path.clone());
            let error = EngineError::Interrupted { path: op.path.clone(), why };
            failed.get_or_insert((op, error));
            continue;
          }
          (None, self.give_up_on(&op, &why, &current.unwrap_or_default())?)
        }
      };
      // The bytes may be older than the stamp shows, so they are read again.
      doubt_stamp(&mut self.ledger, &op.path, self.clock.now())?;
      if let Some(edit) = edit {
        edit.finish(self)?;
      } else {
        self.ledger.finish(op.id)?;
        self.open_edits.forget(op.id);
      }
      self.tell(Event::new(EventKind::Recovered).path(&op.path).detail(said))?;
    }
    Ok((n, failed))
  }

  fn recover_one(&mut self, writing: &WriteLock, op: &Op) -> Result<Recovered, EngineError> {
    let Some(images) = &op.images else {
      return Ok(Recovered::Unreadable("its sealed images cannot be opened; dropped"));
    };
    let Some(target) = target_of(&self.ledger, &op.path)? else {
      let why = "the file is no longer guarded".to_owned();
      return Ok(Recovered::Later { why, current: None, for_good: true });
    };
    let stamp = match self.files.stamp(&target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) => return Ok(Recovered::later(GONE)),
      // A link or a mount is in its path now.
      Err(EngineError::Fs(FsError::Refused { refusal, .. })) => {
        return Ok(Recovered::later(refusal.to_string()));
      }
      Err(error) => return Err(error),
    };
    // An open file of this process would prevent a lease on another descriptor.
    let kept = self
      .files
      .take_open(&target)
      .filter(|file| file.stamp().is_ok_and(|kept| kept.same_file(&stamp)));
    let rules = self.files.rules();
    // Closing a file that was opened in vain would cause an event, and the next attempt would follow at once.
    if stamp.size > rules.max_bytes {
      let refusal = Refusal::TooLarge { size: stamp.size, limit: rules.max_bytes };
      return Ok(Recovered::later(refusal.to_string()));
    }
    let kept = kept.and_then(|mut file| file.recheck(&rules).is_ok().then_some(file));
    let opened = match kept {
      Some(file) => Ok(file),
      None => self.files.open(&target)?,
    };
    let mut file = match opened {
      Ok(file) => file,
      Err(error) => match error.refusal {
        Refusal::Absent => return Ok(Recovered::later(GONE)),
        Refusal::Io(_) | Refusal::Busy | Refusal::Replaced => return Err(EngineError::Open(error)),
        refusal => return Ok(Recovered::later(refusal.to_string())),
      },
    };
    if let Touch::ReadOnly(reason) = file.access() {
      let (why, current) = (reason.to_string(), Some(file.read_all()?));
      return Ok(Recovered::Later { why, current, for_good: false });
    }
    let done = self.complete(writing, &target, &mut file, op, images);
    file.release();
    // Closing the file would cause an event, and another open would conflict with this descriptor.
    self.files.keep_open(&target, file);
    done
  }

  /// Completes an interrupted edit of a file that can be written.
  fn complete(
    &mut self,
    writing: &WriteLock,
    target: &Target,
    file: &mut F::File,
    op: &Op,
    images: &Images,
  ) -> Result<Recovered, EngineError> {
    let lease = lease_within(file, &*self.clock, LEASE_WAIT)?;
    let current = file.read_all()?;
    // Nothing is written after the lease's limit; the next pass over the file tries again.
    if file.leased_for().is_some_and(|age| age >= lease::LIMIT) {
      return Err(FsError::NotLeased { path: op.path.clone() }.into());
    }
    // A ledger that was removed or replaced meanwhile contains neither image, and a later start would not find them.
    self.ledger.check_place()?;
    let locked = Locked::new(writing, lease == Lease::Held);
    let edit = Edit::<F, _>::resumed(locked, target, file, op.id);
    let later = |why: &str, current| {
      let open = match lease {
        Lease::Unsupported => "no lease is available on it",
        Lease::Held | Lease::Busy => "another program has it open",
      };
      let why = format!("{why}, and {open}");
      Ok(Recovered::Later { why, current: Some(current), for_good: lease == Lease::Unsupported })
    };
    let (edit, versions, said) = match op.kind {
      OpKind::Redact | OpKind::Neutralise | OpKind::Restore => {
        let (edit, said) = match torn_range(&current, op, images) {
          Range::Write { at, expected, said } => {
            let change =
              Change { offset: at as u64, expected, replacement: images.after.as_slice() };
            let (edit, done) = edit.complete_range(change)?;
            if !done {
              // Another program is writing to the file now.
              return Ok(Recovered::later("another program is writing to it"));
            }
            (edit, said)
          }
          Range::Leave(said) => (edit.unwritten(), said),
        };
        (edit, None, said.to_owned())
      }
      OpKind::Reshape => match recover_reshape(&current, &images.before, &images.after) {
        // The text is in the file; after a failed `fsync` it may not be on the disk.
        Recovery::Done if lease == Lease::Held => {
          (edit.rewrite(&current, &current)?, None, COMPLETE.to_owned())
        }
        Recovery::Done if self.open_edits.is_unsynced(op.id) && lease == Lease::Busy => {
          return later("it could not be made durable", current);
        }
        Recovery::Done => (edit.unwritten(), None, COMPLETE.to_owned()),
        // The write was undone, and the disk may have half of it.
        Recovery::NotApplied if lease == Lease::Held && self.open_edits.is_unsynced(op.id) => {
          (edit.rewrite(&current, &current)?, None, "not begun; dropped".to_owned())
        }
        Recovery::NotApplied => (edit.unwritten(), None, "not begun; dropped".to_owned()),
        Recovery::Rewrite(bytes) if lease == Lease::Held => {
          let versions = (ContentHash::of(&images.before), ContentHash::of(&bytes));
          (edit.rewrite(&current, &bytes)?, Some(versions), "torn; completed".to_owned())
        }
        Recovery::Rewrite(_) => return later("it is half changed", current),
        // Another program wrote since. Its text stays; the lost text is kept for a person to review.
        Recovery::Foreign => {
          let said = "another program has rewritten the file; left unchanged";
          let lost = self.keep_lost(&op.path, &current, &images.before)?;
          (edit.unwritten(), None, with_lost(said, lost.as_ref()))
        }
      },
    };
    let edit = edit.followed(self, versions)?.durable(self, Sync::GiveBack)?;
    Ok(Recovered::Done(edit, said))
  }

  /// Gives up an edit whose file is not available: text that only its journal holds becomes an item
  /// that waits for a person. The text of a redaction is in quarantine already, and that of an approval
  /// still is.
  fn give_up_on(&mut self, op: &Op, why: &str, current: &[u8]) -> Result<String, EngineError> {
    let lost = match &op.images {
      Some(images) if op.kind == OpKind::Reshape => {
        self.keep_lost(&op.path, current, &images.before)?
      }
      _ => None,
    };
    Ok(with_lost(&format!("given up: {why}"), lost.as_ref()))
  }
}

/// Why an edit of a missing file waits.
const GONE: &str = "the file is gone";
/// The detail for an edit that was complete when it was interrupted.
const COMPLETE: &str = "already complete";

fn with_lost(said: &str, lost: Option<&BlockId>) -> String {
  match lost {
    Some(id) => format!("{said}; the text that only the journal held waits in quarantine as {id}"),
    None => said.to_owned(),
  }
}

impl<F: Fs> Engine<F> {
  /// Seals the blocks of an image that the file does not contain any more, as one item that waits for a
  /// person. The writer of the file may have read an incomplete edit of memfw, or may have deleted the
  /// text on purpose.
  fn keep_lost(
    &mut self,
    path: &Path,
    current: &[u8],
    base: &[u8],
  ) -> Result<Option<BlockId>, EngineError> {
    // The journal does not store who wrote the text.
    let origin = Origin::unknown();
    let bytes = match target_of(&self.ledger, path)? {
      Some(target) => {
        let row = self.ledger.file(path)?;
        let view = self.view(&target, row.as_ref(), base.to_vec(), origin.clone(), None)?;
        let present: HashSet<ContentHash> = Document::parse(current, &view.facts.ids)
          .blocks()
          .iter()
          .map(|block| block.norm_hash)
          .collect();
        let gone =
          view.document.blocks().iter().filter(|block| !present.contains(&block.norm_hash));
        gone.flat_map(|block| BlockText::new(base, block).bytes().to_vec()).collect()
      }
      None => base.to_vec(),
    };
    if bytes.is_empty() {
      return Ok(None);
    }
    // Equal text may have been approved or rejected before: it keeps that decision, and this is another copy.
    let hash = ContentHash::of(&bytes);
    let mut n = 0;
    while self.ledger.existing_item(path, hash, n)?.is_some_and(|old| !old.status.is_waiting()) {
      n += 1;
    }
    let id = self.new_id()?;
    let item = NewItem {
      redacted: &placeholder::redact(&bytes, &id),
      id,
      path,
      line: 1,
      bytes: &bytes,
      n,
      terminated: bytes.last() == Some(&b'\n'),
      // Held, not quarantined: nothing was found in the text, and only a person can say where it
      // belongs.
      status: State::Held,
      source: origin.source.clone(),
      trust: origin.trust,
      attestation: Attestation::SelfReported,
      session: None,
      score: 0.0,
      layer: Layer::Rules,
      codes: vec![],
      findings: KeptFindings::new(&[]),
      trail: OriginRecord::default(),
      context: None,
    };
    let at = self.now();
    let admission = self.ledger.quarantine(&[item], &[], &[], at)?;
    Ok(admission.items.into_iter().next().map(|item| item.id))
  }
}

/// What must be done about a range of an interrupted edit of equal length.
enum Range<'c> {
  /// Replace `expected` at this offset by the image after.
  Write { at: usize, expected: &'c [u8], said: &'static str },
  /// Nothing.
  Leave(&'static str),
}

/// If each byte of a range equals that of the image before or after, the range becomes the image after.
/// This includes a range that equals it already, because it may not be on the disk. An edit that was not
/// begun is dropped: a text that a person has approved is awaited, and one that is not approved yet stays out.
fn torn_range<'c>(current: &'c [u8], op: &Op, images: &Images) -> Range<'c> {
  let start = usize::try_from(op.offset).unwrap_or(usize::MAX);
  let len = images.after.len();
  let range = |at: usize| current.get(at..at.saturating_add(len));
  let found = range(start).map(|range| (range, left(range, &images.before, &images.after)));
  match found {
    Some((expected, Left::After)) => Range::Write { at: start, expected, said: COMPLETE },
    Some((_, Left::Before)) => Range::Leave("not begun; dropped"),
    Some((expected, Left::Torn)) => Range::Write { at: start, expected, said: "completed" },
    None | Some((_, Left::Foreign)) => {
      let moved = find_torn(current, &images.before, &images.after);
      match moved.and_then(|at| range(at).map(|expected| (at, expected))) {
        Some((at, expected)) => Range::Write { at, expected, said: "completed" },
        None => Range::Leave("another program has rewritten the place; dropped"),
      }
    }
  }
}
