//! Takes back that a part of an item was approved: the parts are one item again, and all of it is out of the file.
//!
//! The file comes first: until the ledger has joined the parts, a crash brings the approved ones back.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  Engine, EngineError, Event, EventKind, Target,
  decisions::{by_whom, refuse_undone},
  edit::{Durable, Edit, Locked, Replacement},
  event::shown,
  pending::{self, target_of},
  pieces::forms_of,
  prepare::{ATTEMPTS, MOMENT, PATIENCE, is_judged},
  record::ScannedVersion,
};
use crate::{
  failpoint::Plan,
  files::{Fs, MemoryFile, overwrite::Change},
  memory::{ContentHash, consecutive, line, marker, placeholder},
  provenance::State,
  store::{Item, Pending, Writer},
};

/// Whether the parts of an item are out of its file.
enum Joined {
  Out,
  /// They are not next to each other in the file.
  Apart,
  /// Another program wrote the file meanwhile.
  Changed,
}

impl<F: Fs> Engine<F> {
  /// Joins the parts of a divided item, and takes them out of the file. Returns whether its placeholder is there.
  pub(super) fn undo_split(
    &mut self,
    item: &Item,
    by: &str,
    reason: Option<&str>,
  ) -> Result<bool, EngineError> {
    refuse_parts(item, &self.ledger.parts_of(&item.id)?)?;
    let target = target_of(&self.ledger, &item.path)?;
    for _ in 0..ATTEMPTS {
      // Without a file there is nothing to take out.
      let present = match &target {
        Some(target) => self.files.stamp(target)?.map(|_| target),
        None => None,
      };
      let Some(target) = present else {
        let _writing = self.files.lock()?;
        let parts = self.parts_to_join(item)?;
        self.join_rows(item, &parts, (by, reason))?;
        return Ok(false);
      };
      // Text that others wrote meanwhile is judged by itself.
      self.catch_up(target)?;
      match self.join_once(target, item, (by, reason))? {
        Joined::Out => {
          self.renew(&item.path)?;
          return Ok(true);
        }
        Joined::Apart => {
          let parts = self.ledger.parts_of(&item.id)?;
          let back = parts.iter().filter(|part| part.status == State::Approved);
          // A part of a line is taken back only with the others.
          let lines = back.filter(|part| !part.is_inline());
          let ids: Vec<&str> = lines.map(|part| part.id.as_str()).collect();
          let hint = if ids.is_empty() {
            format!("take their line out: `memfw quarantine add {}:LINE`", shown(&item.path))
          } else {
            format!("take single parts back: `memfw undo {}`", ids.join(" "))
          };
          return Err(EngineError::refused_with(
            format!(
              "the parts of `{}` are not next to each other in `{}` any more",
              item.id,
              shown(&item.path)
            ),
            hint,
          ));
        }
        Joined::Changed => {
          if !item.awaited {
            self.ledger.restored(&item.id)?;
          }
        }
      }
    }
    Err(EngineError::refused_with("others keep writing to the file", "try again"))
  }

  /// The parts of an item that is still divided, if none of them was rejected or deleted. Under the write lock they
  /// stay so.
  fn parts_to_join(&self, item: &Item) -> Result<Vec<Item>, EngineError> {
    refuse_undone(&self.ledger, item)?;
    let parts = self.ledger.parts_of(&item.id)?;
    refuse_parts(item, &parts)?;
    Ok(parts)
  }

  fn join_once(
    &mut self,
    target: &Target,
    item: &Item,
    said: (&str, Option<&str>),
  ) -> Result<Joined, EngineError> {
    let (writing, mut file) = self.lock_leased(target, PATIENCE)?;
    if !self.files.is_on_path(target, &file)? {
      return Ok(Joined::Changed);
    }
    let parts = &self.parts_to_join(item)?[..];
    let leased = file.leased_for().is_some();
    let started = self.clock.monotonic();
    let bytes = file.read_all()?;
    let plain = self.ledger.unseal(&item.id)?;
    let row = self.ledger.file(&item.path)?;
    if !is_judged(&mut self.ledger, row.as_ref(), ContentHash::of(&bytes), self.clock.now())? {
      return Ok(Joined::Changed);
    }
    let view = self.view_known(target, row.as_ref(), bytes)?;
    let forms = forms_of(parts, &plain, None);
    let Some(span) = consecutive::find(&view.bytes, &view.document, &forms) else {
      // The edit that divides it was not written, or the placeholder came back. A quoted one proves nothing.
      let is_back = parts
        .iter()
        .any(|part| part.status == State::Approved && is_in_file(part, &plain, &view.bytes));
      let is_awaited = self.ledger.item(item.id.as_str())?.awaited;
      if (is_awaited || !is_back) && placeholder::find(&view.bytes, &item.id, &plain).is_some() {
        self.join_rows(item, parts, said)?;
        pending::add(&mut self.ledger, &item.path, Pending::RESHAPE)?;
        return Ok(Joined::Out);
      }
      return Ok(Joined::Apart);
    };
    let may_reshape = leased && self.files.may_reshape(&target.root);
    let before = line::slice(&view.bytes, span.clone());
    let padded = placeholder::redact(&plain, &item.id);
    let form = if may_reshape && is_whole(&view.bytes, &span) {
      [placeholder::compact(&item.id).as_bytes(), line::eol(before)].concat()
    } else {
      padded
    };
    let after = view.document.with_pairs(&view.bytes, &span, form);
    if !may_reshape && after.len() != before.len() {
      return Err(EngineError::refused_with(
        format!("this file system allows no change of length of `{}`", shown(&item.path)),
        format!("the parts are on their own: `memfw show {}` names them", item.id),
      ));
    }
    let head = view.bytes.get(..span.start).unwrap_or_default();
    let tail = view.bytes.get(span.end..).unwrap_or_default();
    let new = [head, &after, tail].concat();
    let part = Change { offset: span.start as u64, expected: before, replacement: &after };
    let replacement =
      Replacement { before: (&view.bytes, view.hash), after: &new, part: Some(part) };
    let edit = Edit::<F, _>::new(Plan::Approve, Locked::new(&writing, leased), target, &mut file);
    // A process that dies before the ledger joins the parts leaves them approved: they are restored again.
    self.ledger.await_restore(&item.id)?;
    let written = edit.replaced(self, &replacement, MOMENT, |_| Ok(()))?;
    let Some(edit) = written.done()? else { return Ok(Joined::Changed) };
    let versions = (view.hash, ContentHash::of(&new));
    let Some(edit) = edit.landed(self, versions)? else { return Ok(Joined::Changed) };
    self.join_rows(item, parts, said)?;
    let seen = ScannedVersion::written(&edit, leased, started);
    self.record_taken_out(target, (&file, new), edit, &seen)?;
    Ok(Joined::Out)
  }

  /// Records the content of a file out of which text was taken again, and finishes the edit. Its markers are due.
  pub(super) fn record_taken_out(
    &mut self,
    target: &Target,
    (file, new): (&F::File, Vec<u8>),
    edit: Durable,
    seen: &ScannedVersion,
  ) -> Result<(), EngineError> {
    let path = target.path();
    let row = self.ledger.file(&path)?;
    let view = self.view_known(target, row.as_ref(), new)?;
    self.record(target, file, &view, seen)?;
    pending::add(&mut self.ledger, &path, Pending::RESHAPE)?;
    edit.finish(self)?;
    self.versions.keep_noted(&mut self.ledger, Writer::Memfw, self.clock.now())
  }

  /// Joins the parts in the ledger.
  fn join_rows(
    &mut self,
    item: &Item,
    parts: &[Item],
    (by, reason): (&str, Option<&str>),
  ) -> Result<(), EngineError> {
    let (plain, former) = (self.ledger.unseal(&item.id)?, self.ledger.former_state(&item.id)?);
    let undone = |id, detail| {
      let event = Event::new(EventKind::Undone).path(&item.path).block(id);
      event.origin(&item.source, item.trust).detail(detail)
    };
    let approved = parts.iter().filter(|part| part.status == State::Approved);
    let mut events: Vec<Event> =
      approved.map(|part| undone(&part.id, format!("a part of {} again", item.id))).collect();
    events.push(undone(&item.id, format!("{former} again, in one piece, {}", by_whom(by, reason))));
    let rows: Vec<_> = events.iter().map(Event::row).collect();
    let at = self.now();
    self.ledger.join(&item.id, &plain, former, &rows, at)?;
    for event in &events {
      event.log(None);
    }
    Ok(())
  }
}

/// Whether the text of a part is in its file.
fn is_in_file(part: &Item, whole: &[u8], file: &[u8]) -> bool {
  let Some(of) = &part.part else { return false };
  let start = of.offset as usize;
  let text = line::slice(whole, start..start + part.len.unwrap_or_default() as usize);
  if part.is_inline() {
    !line::is_blank(text) && marker::find(file, text.trim_ascii(), 0).is_some()
  } else {
    placeholder::has_lines(file, text)
  }
}

/// Whether a span begins and ends with a line.
fn is_whole(bytes: &[u8], span: &Range<usize>) -> bool {
  let before = span.start.checked_sub(1).and_then(|at| bytes.get(at));
  let ends = !line::eol(line::slice(bytes, span.clone())).is_empty();
  let after = bytes.get(span.end);
  matches!(before, None | Some(b'\n' | b'\r'))
    && (ends || matches!(after, None | Some(b'\n' | b'\r')))
}

/// Refuses where a part is neither back nor out with a placeholder.
fn refuse_parts(item: &Item, parts: &[Item]) -> Result<(), EngineError> {
  for part in parts {
    let id = &part.id;
    match part.status {
      State::Approved => {}
      status if status.is_waiting() => {}
      State::Forgotten => {
        return Err(EngineError::refused_with(
          format!("`{id}`, a part of `{}`, was deleted, and cannot be restored", item.id),
          "take single parts back: `memfw undo ID`",
        ));
      }
      status => {
        return Err(EngineError::refused_with(
          format!("`{id}`, a part of `{}`, is {status}", item.id),
          format!("take that back first: `memfw undo {id}`"),
        ));
      }
    }
  }
  Ok(())
}
