//! Renamed files: the ledger's knowledge about their text moves along, so that their markers and
//! placeholders remain valid.
#![forbid(unsafe_code)]

use std::{collections::HashSet, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
  Engine, EngineError, Target,
  event::{Event, EventKind, shown},
  marker_preference, pending,
  trusted::LONG_TERM,
};
use crate::{
  files::{Fs, Stamp, Workspace},
  judging::read_version::ids_in,
  memory::{BlockId, ContentHash},
  store::{FileRow, Ledger, Pending, Rename},
};

/// The most files with the same content that are examined (a choice: templates may have many copies).
const MAX_ALIKE: usize = 16;

/// The most files in a chain of renames; a longer chain is followed up to this length.
const MAX_CHAIN: usize = 64;

impl<F: Fs> Engine<F> {
  /// Whether a file with unknown content was renamed from another path in the workspace; if so, the
  /// ledger is updated. A copy does not count, because the original still exists.
  ///
  /// The content must be that of the last version, and the file must have the same inode or contain an
  /// id of the old file: two files that are equal by chance stay two. If another file has the old path
  /// now, the inode alone decides. The ledger's knowledge about the new path moves along with its own
  /// file.
  pub(super) fn follow_rename(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    (hash, bytes): (ContentHash, &[u8]),
    stamp: &Stamp,
  ) -> Result<bool, EngineError> {
    if row.is_some_and(|row| row.hash == Some(hash)) {
      return Ok(false);
    }
    if bytes.is_empty() {
      return self.follow_replaced(target, row, stamp);
    }
    let (here, ids) = (super::stamp_row(stamp), ids_in(bytes));
    let alike = self.ledger.files_of(&target.root, hash, MAX_ALIKE)?;
    if alike.iter().any(|(path, _)| *path == target.path()) {
      return Ok(false);
    }
    for (path, inode) in alike {
      // Another workspace has other owners and records, so a file there is a new one.
      let Ok(rel) = path.strip_prefix(&target.root) else { continue };
      let before = Target::new(&target.root, rel);
      let is_same = inode == Some((here.dev, here.ino));
      let has_left = match self.files.stamp(&before) {
        Ok(None) => true,
        Ok(Some(found)) => is_same && !found.same_file(stamp),
        Err(_) => false,
      };
      let is_it = is_same || has_id_of(&self.ledger, &path, &ids)?;
      if !(has_left && is_it && self.may_follow(&before, target)?) {
        continue;
      }
      let renames = self.chain(&before, target, row)?;
      if self.rename(&target.root, &renames)? {
        return Ok(true);
      }
    }
    Ok(false)
  }

  /// Whether an empty file has the path of a file that was moved within the workspace. If so, the
  /// ledger is updated: it knows the moved file by its new path, and nothing by the old one.
  fn follow_replaced(
    &mut self,
    target: &Target,
    row: Option<&FileRow>,
    stamp: &Stamp,
  ) -> Result<bool, EngineError> {
    let here = super::stamp_row(stamp);
    let is_other = |was: &crate::store::Stamp| (was.dev, was.ino) != (here.dev, here.ino);
    let Some(row) = row.filter(|row| row.stamp.as_ref().is_some_and(is_other)) else {
      return Ok(false);
    };
    let Some(found) = self.whereabouts(&target.root, row)? else { return Ok(false) };
    if !self.may_follow(target, &found)? {
      return Ok(false);
    }
    let known = self.ledger.file(&found.path())?;
    let renames = self.chain(target, &found, known.as_ref())?;
    self.rename(&target.root, &renames)
  }

  /// The renames that follow from one: the former file at the new path may have been renamed, too.
  fn chain(
    &mut self,
    from: &Target,
    to: &Target,
    row: Option<&FileRow>,
  ) -> Result<Vec<Rename>, EngineError> {
    let mut renames = vec![Rename { from: from.path(), to: to.path() }];
    let mut displaced = row.cloned();
    while let Some(row) = displaced.take().filter(|_| renames.len() < MAX_CHAIN) {
      let Some(found) = self.whereabouts(&to.root, &row)? else { break };
      let before = row.path.strip_prefix(&to.root).unwrap_or(&row.path);
      if !self.may_follow(&Target::new(&to.root, before), &found)? {
        break;
      }
      let now = found.path();
      // Two files never have one path.
      if renames.iter().any(|one| one.to == now) {
        break;
      }
      let is_cycle = now == from.path();
      renames.push(Rename { from: row.path, to: now.clone() });
      if !is_cycle {
        displaced = self.ledger.file(&now)?;
      }
    }
    Ok(renames)
  }

  /// The current target of a row's file, if the file is at another path in the workspace.
  fn whereabouts(&mut self, root: &Path, row: &FileRow) -> Result<Option<Target>, EngineError> {
    let Some(was) = row.stamp else { return Ok(None) };
    let rules = self.files.rules();
    let Ok(workspace) = Workspace::open(self.files.fs(), root) else { return Ok(None) };
    let files = workspace.walk_as(self.files.fs(), self.files.shapes().of(root)).files;
    for rel in files {
      let target = Target::new(root, &rel);
      let Ok(Some(found)) = self.files.fs().stamp(workspace.root(), &rel) else { continue };
      if (found.dev, found.ino) != (was.dev, was.ino) || target.path() == row.path {
        continue;
      }
      if (found.size, found.mtime_ns) == (was.size, was.mtime_ns) {
        return Ok(Some(target));
      }
      // Inode numbers are used again, so the content must match, too.
      self.files.note_open(&target);
      let Some((bytes, _)) = self.files.fs().glance(workspace.root(), &rel, &rules) else {
        continue;
      };
      if row.hash == Some(ContentHash::of(&bytes))
        || has_id_of(&self.ledger, &row.path, &ids_in(&bytes))?
      {
        return Ok(Some(target));
      }
    }
    Ok(None)
  }

  fn rename(&mut self, root: &Path, renames: &[Rename]) -> Result<bool, EngineError> {
    let event = |one: &Rename| {
      let detail = format!("from `{}`", shown(&one.from));
      Event::new(EventKind::Renamed).path(&one.to).detail(detail)
    };
    let events: Vec<Event> = renames.iter().map(event).collect();
    let rows: Vec<_> = events.iter().map(Event::row).collect();
    let at = self.now();
    if !self.ledger.rename_files(renames, &rows, at)? {
      return Ok(false);
    }
    for event in &events {
      event.log(None);
    }
    marker_preference::rename(&mut self.ledger, renames)?;
    for Rename { from, to } in renames {
      for path in [from, to] {
        let rel = path.strip_prefix(root).unwrap_or(path);
        self.files.close(&Target::new(root, rel));
      }
      // Text that was still to be read is read now. Nothing is read twice, because results are kept by
      // content.
      let target = Target::new(root, to.strip_prefix(root).unwrap_or(to));
      let model = if self.judge.model().is_some() { Pending::MODEL } else { Pending::NONE };
      let judge = if self.is_judged_by_model(&target) { Pending::JUDGE } else { Pending::NONE };
      pending::add(&mut self.ledger, to, model | judge)?;
    }
    Ok(true)
  }

  /// Whether text that was judged in one file may be in another one without a new judgement.
  fn may_follow(&self, before: &Target, target: &Target) -> Result<bool, EngineError> {
    // A note is only searched, but the agent reads this file at every start, so text from a note is
    // judged again.
    let is_promoted = target.rel == Path::new(LONG_TERM)
      && self.ledger.known_as(&before.path())? != target.path().as_os_str().as_bytes();
    // Text that is only reported in one of the files may have to be taken out of the other.
    let is_alike = self.treatment(before) == self.treatment(target)
      && self.is_judged_by_model(before) == self.is_judged_by_model(target);
    Ok(is_alike && !is_promoted)
  }
}

fn has_id_of(ledger: &Ledger, path: &Path, ids: &HashSet<BlockId>) -> Result<bool, EngineError> {
  if ids.is_empty() {
    return Ok(false);
  }
  let (placeholders, markers) = (ledger.placeholder_ids(path)?, ledger.marker_ids(path)?);
  Ok(ids.iter().any(|id| placeholders.contains_key(id) || markers.contains(id)))
}
