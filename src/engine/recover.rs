//! After a crash: edits that were begun and not finished are completed, in order.
//!
//! A redaction needs no undo, for its range holds the poison, the placeholder or a mixture of both, and the
//! scan that follows finds the first. A change of length is redone from its images. Where the file is gone,
//! linked, or open in another program, the edit waits, for [`PATIENCE`]; then what only its journal holds
//! becomes an item that waits for a person. Nothing is dropped that is nowhere else.
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  edit::{Durable, Edit, Lease, Locked, Sync, lease_within},
  judge::{BlockText, Origin},
};
use crate::{
  detect::Layer,
  failpoint::{Point, hit},
  files::{
    Fs, FsError, MemoryFile, Refusal, Touch, lease,
    overwrite::{Change, Left, find_torn, left},
    rewrite::{Recovery, recover_reshape},
  },
  memory::{BlockId, ContentHash, Document, placeholder},
  os::WriteLock,
  provenance::{Attestation, State},
  store::{Images, NewItem, Op, OpKind, OriginRecord},
};

/// How long the lease of a file with an interrupted edit is waited for at a time: whoever has it open for a
/// moment only is gone by then, and all other files wait meanwhile (a choice).
const LEASE_WAIT: Duration = Duration::from_millis(20);
/// How long an interrupted edit waits for its file: longer than an editor's renames, a backup's hard link and
/// most readers take. The file is not guarded meanwhile, so it is not waited for without end (a choice).
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What became of an interrupted edit.
enum Recovered {
  /// It is completed, or nothing of it was to be done; what to say.
  Done(Durable, String),
  /// It cannot be known what is to be done; what to say.
  Unreadable(&'static str),
  /// Nothing can be done now, and `why`; `current` is what is in the file, where that could be read.
  Later { why: String, current: Option<Vec<u8>>, for_good: bool },
}

impl Recovered {
  fn later(why: impl Into<String>) -> Self {
    Self::Later { why: why.into(), current: None, for_good: false }
  }
}

impl<F: Fs> Engine<F> {
  /// Ends what was interrupted; returns how many edits there were. One whose file cannot be read or written
  /// now stays open until that file is looked at.
  pub fn recover(&mut self) -> Result<usize, EngineError> {
    let (n, failed) = self.recover_where(|_| true)?;
    if let Some((op, error)) = failed {
      let path = super::event::shown(&op.path);
      tracing::warn!(target: "memfw", file = path, %error, "an interrupted edit waits");
    }
    Ok(n)
  }

  /// Ends what another process left open in one file when it died. Nothing is waited for where nothing is
  /// open.
  pub(super) fn recover_file(&mut self, path: &Path) -> Result<(), EngineError> {
    if self.ledger.has_open_ops()?
      && let (_, Some((_, error))) = self.recover_where(|op| op.path == path)?
    {
      return Err(error);
    }
    Ok(())
  }

  /// Also the first edit that has to wait, and for what: later ones of the same file wait with it.
  fn recover_where(
    &mut self,
    concerned: impl Fn(&Op) -> bool,
  ) -> Result<(usize, Option<(Op, EngineError)>), EngineError> {
    // Edits are begun and finished under this lock: what is open now has nobody any more.
    let writing = self.lock()?;
    let ops: Vec<Op> = self.ledger.open_ops()?.into_iter().filter(concerned).collect();
    let n = ops.len();
    let mut failed = None;
    let mut waiting: HashSet<PathBuf> = HashSet::new();
    for op in ops {
      if waiting.contains(&op.path) {
        continue;
      }
      hit(Point::RecoverBefore);
      let (edit, said) = match self.recover_one(&writing, &op) {
        Err(error @ (EngineError::Fs(_) | EngineError::Open(_) | EngineError::Root(_))) => {
          self.doubt_stamp(&op.path)?;
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
            // So that the file is looked at again, whatever becomes of it.
            self.doubt_stamp(&op.path)?;
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
      // Whatever the stamp says, the bytes may be older: they are read again.
      self.doubt_stamp(&op.path)?;
      match edit {
        Some(edit) => edit.finish(self)?,
        None => {
          self.ledger.finish(op.id)?;
          self.open_edits.forget(op.id);
        }
      }
      self.tell(Event::new(EventKind::Recovered).path(&op.path).detail(said))?;
    }
    drop(writing);
    Ok((n, failed))
  }

  /// The stamp of a file vouches for nothing any more.
  fn doubt_stamp(&mut self, path: &Path) -> Result<(), EngineError> {
    if self.ledger.file(path)?.is_some() {
      let at = self.now();
      self.ledger.set_stamp(path, None, None, at)?;
    }
    Ok(())
  }

  fn recover_one(&mut self, writing: &WriteLock, op: &Op) -> Result<Recovered, EngineError> {
    let Some(images) = &op.images else {
      return Ok(Recovered::Unreadable("its sealed images do not open; dropped"));
    };
    let Some(target) = self.target_of(&op.path)? else {
      let why = "the file is not guarded any more".to_owned();
      return Ok(Recovered::Later { why, current: None, for_good: true });
    };
    let stamp = match self.stamp(&target) {
      Ok(Some(stamp)) => stamp,
      Ok(None) => return Ok(Recovered::later(GONE)),
      // A link or a mount has come on its way.
      Err(EngineError::Fs(FsError::Refused { refusal, .. })) => {
        return Ok(Recovered::later(refusal.to_string()));
      }
      Err(error) => return Err(error),
    };
    // One that is kept open would keep us from a lease on a second one.
    let kept =
      self.hot.remove(&target).filter(|file| file.stamp().is_ok_and(|kept| kept.same_file(&stamp)));
    let rules = self.rules();
    let kept = kept.and_then(|mut file| file.recheck(&rules).is_ok().then_some(file));
    let opened = match kept {
      Some(file) => Ok(file),
      None => self.open(&target)?,
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
    // Closing it would be an event, and opening it once more would wait for this descriptor.
    self.hot.insert(target, file);
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
    // Nothing is written late; the next pass over the file tries again.
    if file.leased_for().is_some_and(|age| age >= lease::LIMIT) {
      return Err(FsError::NotLeased { path: op.path.clone() }.into());
    }
    let locked = Locked::new(writing, lease == Lease::Held);
    let edit = Edit::<F, _>::resumed(locked, target, file, op.id);
    let later = |why: &str, current| {
      let open = match lease {
        Lease::Unsupported => "no lease can be had on it",
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
              // Somebody is writing there at this moment.
              return Ok(Recovered::later("another program is writing to it"));
            }
            (edit, said)
          }
          Range::Leave(said) => (edit.unwritten(), said),
        };
        (edit, None, said.to_owned())
      }
      OpKind::Reshape => match recover_reshape(&current, &images.before, &images.after) {
        // It is in the file, and where its `fsync` failed it may be there only.
        Recovery::Done if lease == Lease::Held => {
          (edit.rewrite(&current, &current)?, None, COMPLETE.to_owned())
        }
        Recovery::Done if self.open_edits.is_unsynced(op.id) && lease == Lease::Busy => {
          return later("it could not be made durable", current);
        }
        Recovery::Done => (edit.unwritten(), None, COMPLETE.to_owned()),
        // A write that was taken back, and the disk may have half of it.
        Recovery::NotApplied if lease == Lease::Held && self.open_edits.is_unsynced(op.id) => {
          (edit.rewrite(&current, &current)?, None, "not begun; dropped".to_owned())
        }
        Recovery::NotApplied => (edit.unwritten(), None, "not begun; dropped".to_owned()),
        Recovery::Rewrite(bytes) if lease == Lease::Held => {
          let versions = (ContentHash::of(&images.before), ContentHash::of(&bytes));
          (edit.rewrite(&current, &bytes)?, Some(versions), "torn; completed".to_owned())
        }
        Recovery::Rewrite(_) => return later("it is half changed", current),
        // Somebody else wrote since. Their text stays; what is gone is kept for a person to look at.
        Recovery::Foreign => {
          let said = "the file was rewritten by somebody else meanwhile; left as it is";
          let lost = self.keep_lost(&op.path, &current, &images.before)?;
          (edit.unwritten(), None, with_lost(said, lost.as_ref()))
        }
      },
    };
    let edit = edit.followed(self, versions)?.durable(self, Sync::GiveBack)?;
    Ok(Recovered::Done(edit, said))
  }

  /// Ends an edit whose file cannot be had: what only its journal holds becomes an item that waits for a
  /// person. What a redaction takes out is in quarantine already, and what an approval brings back is still.
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

/// Why an edit of a file waits that is not there.
const GONE: &str = "the file is gone";
/// What is said of an edit that was done when it was interrupted.
const COMPLETE: &str = "already complete";

fn with_lost(said: &str, lost: Option<&BlockId>) -> String {
  match lost {
    Some(id) => format!("{said}; what is gone from it waits in quarantine as {id}"),
    None => said.to_owned(),
  }
}

impl<F: Fs> Engine<F> {
  /// Seals the blocks of an image that a file does not hold any more, as one item that waits for a
  /// person: whoever wrote the file may have read a half-done change of ours, or may have meant it.
  fn keep_lost(
    &mut self,
    path: &Path,
    current: &[u8],
    base: &[u8],
  ) -> Result<Option<BlockId>, EngineError> {
    let origin = Origin::unknown();
    let bytes = match self.target_of(path)? {
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
    let id = self.new_id()?;
    let item = NewItem {
      redacted: &placeholder::redact(&bytes, &id),
      id,
      path,
      line: 1,
      bytes: &bytes,
      n: 0,
      terminated: bytes.last() == Some(&b'\n'),
      status: State::Held,
      source: origin.source.clone(),
      trust: origin.trust,
      attestation: Attestation::SelfReported,
      session: None,
      score: 0.0,
      layer: Layer::Rules,
      codes: vec![],
      findings_json: "[]".to_owned(),
      trail: OriginRecord::default(),
      context: None,
    };
    let at = self.now();
    let admission = self.ledger.quarantine(&[item], &[], &[], at)?;
    Ok(admission.items.into_iter().next().map(|item| item.id))
  }
}

/// What is to be done about a range of an interrupted edit at equal length.
enum Range<'c> {
  /// `expected` is there, at this offset, and is to be replaced by the image after.
  Write { at: usize, expected: &'c [u8], said: &'static str },
  /// Nothing.
  Leave(&'static str),
}

/// Where each byte of a range is that of before or of after, it becomes that of after; also where all of them
/// are that of after already, for they may not be on the disk. An approval that was not begun is carried out,
/// for a person has decided it.
fn torn_range<'c>(current: &'c [u8], op: &Op, images: &Images) -> Range<'c> {
  let start = usize::try_from(op.offset).unwrap_or(usize::MAX);
  let len = images.after.len();
  let range = |at: usize| current.get(at..at.saturating_add(len));
  let found = range(start).map(|range| (range, left(range, &images.before, &images.after)));
  match found {
    Some((expected, Left::After)) => Range::Write { at: start, expected, said: COMPLETE },
    Some((_, Left::Before)) if op.kind != OpKind::Restore => Range::Leave("not begun; dropped"),
    Some((expected, Left::Before | Left::Torn)) => {
      Range::Write { at: start, expected, said: "completed" }
    }
    None | Some((_, Left::Foreign)) => {
      let moved = find_torn(current, &images.before, &images.after);
      match moved.and_then(|at| range(at).map(|expected| (at, expected))) {
        Some((at, expected)) => Range::Write { at, expected, said: "completed" },
        None => Range::Leave("the place was rewritten meanwhile; dropped"),
      }
    }
  }
}
