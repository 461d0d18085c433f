//! Brings an earlier version of a file back when a person asks for it.
//!
//! The current content is kept as a version first, so a restore can be undone. The version is written
//! like any reshape: under the write lock and a lease, journalled, in place. It is then judged by the
//! normal pass under the same lease, so quarantined text is taken out again before other programs can
//! read it, and known lines keep their provenance.
//!
//! A file that is gone is created again as an empty one, and only here; see docs/versions.md.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
  Engine, EngineError, Event, EventKind, Hint, MAX_TAIL_WAIT, Outcome, Target,
  decisions::by_whom,
  edit::{Edit, Locked, Replacement, Sync},
  event::shown,
  prepare::{ATTEMPTS, MOMENT, PATIENCE, is_judged},
  verifying_read::Sight,
};
use crate::{
  failpoint::Plan,
  files::{Fs, MemoryFile},
  memory::{BlockId, ContentHash},
  store::{ItemFilter, Ledger, NewVersion, Writer},
};

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
  /// Whether the file had this content already, so that nothing was done.
  pub unchanged: bool,
  /// Whether the file was gone and was created again.
  pub created: bool,
  /// The former content, which is kept as a version, so that the restore can be undone.
  pub before: Option<ContentHash>,
  /// The items that were taken out of the restored version.
  pub quarantined: Vec<BlockId>,
  /// The version that the file had when memfw released it.
  pub left: Option<ContentHash>,
}

impl<F: Fs> Engine<F> {
  /// The current content of a file, in the form of versions; `None` without a file. Changes by others
  /// are judged first.
  pub fn present(&mut self, target: &Target) -> Result<Option<Vec<u8>>, EngineError> {
    self.catch_up(target)?;
    if self.files.stamp(target)?.is_none() {
      return Ok(None);
    }
    let file = self
      .files
      .open_within(target, PATIENCE)?
      .map_err(|error| EngineError::refused(error.to_string()))?;
    let bytes = file.read_all()?;
    drop(file);
    self.bare(target, bytes).map(Some)
  }

  /// Restores a version of a file.
  pub fn restore(
    &mut self,
    target: &Target,
    version: ContentHash,
    by: &str,
  ) -> Result<Restored, EngineError> {
    if self.config.version_mb == 0 {
      return Err(EngineError::refused_with(
        "versions are switched off",
        "`versions.max_mb` sets how much space they may take",
      ));
    }
    let text = self.ledger.version_bytes(version)?;
    let mut made = false;
    for _ in 0..ATTEMPTS {
      // Changes by others are judged and kept first.
      self.catch_up(target)?;
      self.keep_present(target)?;
      let began = self.now();
      let created = self.files.stamp(target)?.is_none();
      if created {
        self.create(target)?;
        made = true;
      }
      if let Some(done) = self.restore_once(target, version, &text, created, by)? {
        // Completes what the pass under the lease could not do.
        self.catch_up(target)?;
        let (done, mut left) = done;
        if left.is_none() {
          left = self.chosen_version(&target.path())?;
        }
        let (unchanged, before) = match done {
          Put::Unchanged => (true, None),
          Put::Over(before) => (false, Some(before).filter(|_| !made)),
        };
        let quarantined =
          if unchanged { vec![] } else { taken_since(&self.ledger, target, began)? };
        return Ok(Restored { unchanged, created: made, before, quarantined, left });
      }
    }
    Err(EngineError::refused_with("others keep writing to the file", "try it once more"))
  }

  /// One attempt; `None` if another program wrote meanwhile. `fresh` says whether memfw has just
  /// created the file.
  fn restore_once(
    &mut self,
    target: &Target,
    version: ContentHash,
    text: &[u8],
    fresh: bool,
    by: &str,
  ) -> Result<Option<(Put, Option<ContentHash>)>, EngineError> {
    let path = target.path();
    let (writing, mut file) = self.lock_leased(target, PATIENCE)?;
    if !self.files.is_on_path(target, &file)? {
      return Ok(None);
    }
    let bytes = file.read_all()?;
    let row = self.ledger.file(&path)?;
    let file_hash = ContentHash::of(&bytes);
    if !(fresh && bytes.is_empty()
      || is_judged(&mut self.ledger, row.as_ref(), file_hash, self.clock.now())?)
    {
      return Ok(None);
    }
    let before = self.bare(target, bytes.clone())?;
    if before == text && !fresh {
      return Ok(Some((Put::Unchanged, self.chosen_version(&path)?)));
    }
    if file.leased_for().is_none() {
      return Err(EngineError::refused_with(
        "this file system gives no lease, and without one a file is not rewritten",
        format!("write it yourself: `memfw restore {} --print > FILE`", shown(&path)),
      ));
    }
    // Neither form shifts text that other programs have positions in.
    let fits = text.len() == bytes.len() || text.starts_with(&bytes);
    if !fits && !self.files.may_reshape(&target.root) {
      return Err(EngineError::refused_with(
        "this file system allows no change of length except an addition at the end",
        format!("write it yourself: `memfw restore {} --print > FILE`", shown(&path)),
      ));
    }
    let locked = Locked::new(&writing, true);
    let mut edit = Edit::<F, _>::new(Plan::Restore, locked, target, &mut file);
    edit.give_way(self, file_hash);
    if !fresh {
      // The restore can then be undone, even if the daemon has not processed the file yet.
      let seen_at = self.now();
      let writer = Writer::Other;
      let new = NewVersion { path: &path, file_hash, bytes: &before, writer, seen_at };
      self.versions.keep(&mut self.ledger, &new, seen_at)?;
    }
    let what = Replacement { before: (&bytes, file_hash), after: text, part: None };
    let written = edit.replaced(self, &what, MOMENT, |_| Ok(()))?;
    let Some(edit) = written.done()? else { return Ok(None) };
    let Some(edit) = edit.on_path(self)? else { return Ok(None) };
    // If the file was gone, the agent's record is not about the content that memfw found.
    let versions = (!fresh).then(|| (file_hash, ContentHash::of(text)));
    let edit = edit.followed(self, versions)?.durable(self, Sync::KeepLease)?;
    let name: String = version.to_hex().chars().take(8).collect();
    self.tell(
      Event::new(EventKind::RestoredVersion)
        .path(&path)
        .detail(format!("version {name}, {}", by_whom(by, None))),
    )?;
    // The journal forgets the version before anything is taken out of it. A power cut may undo this only together with
    // that redaction: with both in the journal, the file could be one that neither image explains.
    edit.finish_unrecorded(self, &path)?;
    // No reader and no writer has to be waited for, so poison is taken out at once.
    let hint =
      Hint { waited: MAX_TAIL_WAIT, opened_since_close: true, adopting: false, is_restored: true };
    let outcome =
      self.process(target, row.as_ref(), &mut file, locked, &hint, &mut Sight::default())?;
    file.release();
    let mut left = None;
    if matches!(outcome, Outcome::Done { .. }) {
      self.versions.keep_noted(&mut self.ledger, Writer::Memfw, self.clock.now())?;
      // Under the lock: what another program writes from here on is measured.
      left = self.chosen_version(&path)?;
    }
    drop(file);
    drop(writing);
    Ok(Some((Put::Over(ContentHash::of(&before)), left)))
  }

  /// Measures losses of a file from its newest version on: what a person chooses is none, however short it is.
  fn chosen_version(&mut self, path: &Path) -> Result<Option<ContentHash>, EngineError> {
    self.ledger.measure_from_here(path)?;
    Ok(self.ledger.versions(path)?.first().map(|version| version.hash))
  }

  /// Creates an empty file in the place of one that is gone.
  fn create(&mut self, target: &Target) -> Result<(), EngineError> {
    self.files.create(target)?.map_err(|error| {
      let hint = match target.rel.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => format!(
          "create its directory first if it is missing: `mkdir -p {}`",
          shown(&target.root.join(dir))
        ),
        None => format!("write it elsewhere: `memfw restore {} --print`", shown(&target.path())),
      };
      EngineError::refused_with(error.to_string(), hint)
    })
  }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Put {
  /// The file had this content already.
  Unchanged,
  /// The version was written over the content with this hash.
  Over(ContentHash),
}

/// The items that were taken out of a file since `began`, by id.
fn taken_since(ledger: &Ledger, target: &Target, began: i64) -> Result<Vec<BlockId>, EngineError> {
  let filter = ItemFilter { path: Some(target.path()), ..ItemFilter::default() };
  let items = ledger.items(&filter)?.into_iter();
  Ok(
    items
      .filter(|item| !item.in_file && item.status.is_waiting() && item.seen_at >= began)
      .map(|item| item.id)
      .collect(),
  )
}
