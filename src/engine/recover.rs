//! After a crash: operations that were begun and not finished are completed or dropped, in order.
//!
//! docs/adr/0002, recover(): a redaction needs no undo, for its range holds the poison, the
//! placeholder or a mixture of both, and the full scan that follows finds the first; a reshape is
//! redone from its images, or, where the file is neither, left to a person.
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  judge::{BlockText, Origin},
};
use crate::{
  detect::Layer,
  failpoint::{Point, hit, tear},
  files::{
    Fs, FsError, MemoryFile, Refusal, Touch, lease,
    overwrite::{Left, find_torn, left},
    rewrite::{Recovery, recover_reshape},
  },
  memory::{BlockId, ContentHash, Document, placeholder},
  provenance::{Attestation, State},
  store::{Images, NewItem, Op, OpKind, OriginRecord},
};

/// How long the lease of a file with an interrupted operation is waited for.
const LEASE_WAIT: Duration = Duration::from_secs(2);

impl<F: Fs> Engine<F> {
  /// Ends what was interrupted; returns how many operations there were. One whose file cannot be read now
  /// stays open until that file is looked at.
  pub fn recover(&mut self) -> Result<usize, EngineError> {
    let (n, failed) = self.recover_where(|_| true)?;
    if let Some((op, error)) = failed {
      let path = super::event::shown(&op.path);
      tracing::warn!(target: "memfw", file = path, %error, "an interrupted operation waits");
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

  /// Also the first operation that has to wait, and for what: later ones of the same file wait with it.
  fn recover_where(
    &mut self,
    concerned: impl Fn(&Op) -> bool,
  ) -> Result<(usize, Option<(Op, EngineError)>), EngineError> {
    // Operations are begun and finished under this lock: what is open now has nobody any more.
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
      let what = match self.recover_one(&op) {
        Err(error @ (EngineError::Fs(_) | EngineError::Open(_))) => {
          waiting.insert(op.path.clone());
          failed.get_or_insert((op, error));
          continue;
        }
        answer => answer?,
      };
      // Whatever the stamp says, the bytes may be older: they are read again.
      if self.ledger.file(&op.path)?.is_some() {
        let at = self.now();
        self.ledger.set_stamp(&op.path, None, None, at)?;
      }
      hit(Point::RecoverBeforeFinish);
      self.ledger.finish(op.id)?;
      hit(Point::RecoverAfterFinish);
      self.tell(Event::new(EventKind::Recovered).path(&op.path).detail(what))?;
    }
    drop(writing);
    Ok((n, failed))
  }

  fn recover_one(&mut self, op: &Op) -> Result<String, EngineError> {
    let Some(target) = self.target_of(&op.path)? else {
      return Ok("the file is not guarded any more; dropped".to_owned());
    };
    let Some(images) = &op.images else {
      return Ok("its sealed images do not open; dropped".to_owned());
    };
    match self.stamp(&target) {
      Ok(Some(_)) => {}
      // What may pass is no reason to give the images up.
      Err(error @ EngineError::Fs(FsError::Io { .. })) => return Err(error),
      Ok(None) | Err(_) => return Ok("the file is gone; dropped".to_owned()),
    }
    let mut file = match self.open(&target)? {
      Ok(file) if matches!(file.access(), Touch::Full) => file,
      Err(error) if matches!(error.refusal, Refusal::Io(_)) || error.refusal.is_transient() => {
        return Err(EngineError::Open(error));
      }
      _ => return Ok("the file may not be written any more; dropped".to_owned()),
    };
    let deadline = self.clock.monotonic() + LEASE_WAIT;
    while !matches!(file.try_lease(), Ok(true) | Err(FsError::LeaseUnsupported { .. })) {
      if self.clock.monotonic() >= deadline {
        break;
      }
      self.clock.pause(Duration::from_millis(5));
    }
    let current = file.read_all()?;
    // Nothing is written late; the next pass over the file tries again.
    if file.leased_for().is_some_and(|age| age >= lease::LIMIT) {
      return Err(FsError::NotLeased { path: op.path.clone() }.into());
    }
    let outcome = match op.kind {
      OpKind::Redact | OpKind::Neutralise | OpKind::Restore => untear(&file, &current, op, images)?,
      OpKind::Reshape => {
        let leased = file.leased_for().is_some();
        match recover_reshape(&current, &images.before, &images.after) {
          Recovery::Done => "already complete".to_owned(),
          Recovery::NotApplied => "not begun; dropped".to_owned(),
          Recovery::Rewrite(bytes) if leased => {
            hit(Point::RecoverBeforeWrite);
            tear(Point::RecoverTorn, 0, &bytes, current.len(), |part| file.pwrite(0, part))?;
            file.pwrite(0, &bytes)?;
            hit(Point::RecoverAfterWrite);
            if bytes.len() < current.len() {
              file.truncate(bytes.len() as u64)?;
              hit(Point::RecoverAfterCut);
            }
            self.follow(&target, ContentHash::of(&images.before), ContentHash::of(&bytes))?;
            "torn; completed".to_owned()
          }
          // Somebody else wrote since. Their text stands; what is gone is kept for a person to look at.
          Recovery::Rewrite(_) | Recovery::Foreign => {
            let what = "the file was rewritten by somebody else meanwhile; left as it is";
            match self.keep_lost(&target, &current, &images.before)? {
              Some(id) => format!("{what}; what is gone from it waits in quarantine as {id}"),
              None => what.to_owned(),
            }
          }
        }
      }
    };
    file.release();
    file.sync()?;
    hit(Point::RecoverAfterSync);
    Ok(outcome)
  }
}

impl<F: Fs> Engine<F> {
  /// Seals the blocks of an image that a file does not hold any more, as one item that waits for a
  /// person: whoever wrote the file may have read a half-done change of ours, or may have meant it.
  fn keep_lost(
    &mut self,
    target: &Target,
    current: &[u8],
    base: &[u8],
  ) -> Result<Option<BlockId>, EngineError> {
    let path = target.path();
    let row = self.ledger.file(&path)?;
    let view = self.view(target, row.as_ref(), base.to_vec(), Origin::unknown(), None)?;
    let standing: HashSet<ContentHash> = Document::parse(current, &view.facts.ids)
      .blocks()
      .iter()
      .map(|block| block.norm_hash)
      .collect();
    let gone = view.document.blocks().iter().filter(|block| !standing.contains(&block.norm_hash));
    let bytes: Vec<u8> =
      gone.flat_map(|block| BlockText::new(base, block).bytes().to_vec()).collect();
    if bytes.is_empty() {
      return Ok(None);
    }
    let id = self.new_id()?;
    let item = NewItem {
      redacted: &placeholder::redact(&bytes, &id),
      id,
      path: &path,
      line: 1,
      bytes: &bytes,
      n: 0,
      terminated: bytes.last() == Some(&b'\n'),
      status: State::Held,
      source: view.origin.source.clone(),
      trust: view.origin.trust,
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

/// Completes a torn range: where each byte is that of before or of after, it becomes that of after.
/// An approval that was not begun is carried out, for a person has decided it.
fn untear<M: MemoryFile>(
  file: &M,
  current: &[u8],
  op: &Op,
  images: &Images,
) -> Result<String, EngineError> {
  let mut start = usize::try_from(op.offset).unwrap_or(usize::MAX);
  let range = current.get(start..start.saturating_add(images.after.len()));
  let found = range.map_or(Left::Foreign, |range| left(range, &images.before, &images.after));
  let wanted = match found {
    Left::After => return Ok("already complete".to_owned()),
    Left::Before => op.kind == OpKind::Restore,
    Left::Torn => true,
    Left::Foreign => match find_torn(current, &images.before, &images.after) {
      Some(moved) => {
        start = moved;
        true
      }
      None => return Ok("the place was rewritten meanwhile; dropped".to_owned()),
    },
  };
  if !wanted {
    return Ok("not begun; dropped".to_owned());
  }
  let (at, new) = (start as u64, &images.after);
  hit(Point::RecoverBeforeWrite);
  tear(Point::RecoverTorn, start, new, new.len(), |part| file.pwrite(at, part))?;
  file.pwrite(at, new)?;
  hit(Point::RecoverAfterWrite);
  Ok("completed".to_owned())
}
