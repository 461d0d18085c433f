//! Carries out a person's decision about one item, and describes the result.
#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::json;

use super::{done::Done, loss};
use crate::{
  command::shared::lookup::{GUARDED, find_file, find_item, typed_place},
  engine::{
    Engine, Target,
    event::shown,
    pending,
    review::{Approval, Placed},
    undo::Undone,
  },
  files::RealFs,
  memory::BlockId,
  terminal::{escape::terminal, failure::Failure},
};

/// Approves an item: puts it back into its file, or clears the flag of a block.
pub(in crate::command) fn approve(
  engine: &mut Engine<RealFs>,
  name: &str,
  word: Approval<'_>,
) -> Result<Done, Failure> {
  if let Some(loss) = loss::find(engine.ledger(), name)? {
    return loss::approve(engine, &loss, word);
  }
  let item = find_item(engine.ledger(), name)?;
  let (item, placed) = engine.approve_as(item.id.as_str(), word)?;
  let place = terminal(shown(&item.path));
  let (line, word) = match placed {
    Placed::AtPlaceholder => (format!("{}: approved, back in {place}", item.id), "placeholder"),
    Placed::Appended => (
      format!("{}: approved; its place was gone, so it was appended to {place}", item.id),
      "appended",
    ),
    Placed::Elsewhere => {
      (format!("{}: approved, appended to {place}, where its context differs", item.id), "appended")
    }
    Placed::InPlace => (format!("{}: approved, it stays in {place}", item.id), "in-place"),
    Placed::NextWrite => (
      format!(
        "{}: approved; memfw knows no file {place} and creates none: the next write of this text there goes \
         through",
        item.id
      ),
      "next-write",
    ),
  };
  Ok(Done {
    line,
    value: json!({ "id": item.id.as_str(), "status": "approved", "placed": word }),
    id: item.id.clone(),
    // A part that is back in its line is taken back with the others.
    undoable: match item.part {
      Some(part) if part.is_inline && placed == Placed::AtPlaceholder => Some(part.id),
      _ => Some(item.id),
    },
  })
}

/// Rejects an item.
pub(in crate::command) fn reject(
  engine: &mut Engine<RealFs>,
  name: &str,
  word: Approval<'_>,
) -> Result<Done, Failure> {
  if let Some(loss) = loss::find(engine.ledger(), name)? {
    return loss::reject(engine, &loss, word);
  }
  let item = find_item(engine.ledger(), name)?;
  let item = engine.reject(item.id.as_str(), word.by, word.reason)?;
  let line =
    format!("{}: rejected; its sealed text is kept for `quarantine.rejected_days`", item.id);
  Ok(Done {
    line,
    value: json!({ "id": item.id.as_str(), "status": "rejected" }),
    id: item.id.clone(),
    undoable: Some(item.id),
  })
}

/// Takes the decision about an item back, or the last decision.
pub(in crate::command) fn take_back(
  engine: &mut Engine<RealFs>,
  name: Option<&str>,
  by: &str,
  reason: Option<&str>,
) -> Result<Done, Failure> {
  let loss = match name {
    Some(name) => loss::find(engine.ledger(), name)?,
    None => loss::last_decided(engine.ledger())?,
  };
  if let Some(loss) = loss {
    return loss::take_back(engine, &loss, by, reason);
  }
  let id = match name {
    Some(name) => Some(find_item(engine.ledger(), name)?.id),
    None => None,
  };
  let (item, undone) = engine.undo(id.as_ref().map(BlockId::as_str), by, reason)?;
  let (id, status, place) = (&item.id, item.status, terminal(shown(&item.path)));
  let (line, word) = match undone {
    Undone::TakenOut => (format!("{id}: undone, {status} again, out of {place}"), "taken-out"),
    Undone::Waits => {
      (format!("{id}: undone, {status} again, its placeholder is in {place}"), "placeholder")
    }
    Undone::WaitsWithoutPlace => {
      (format!("{id}: undone, {status} again; it has no place in {place}"), "none")
    }
    Undone::InFile => (format!("{id}: undone, {status} again in {place}"), "in-place"),
  };
  Ok(Done {
    line,
    value: json!({ "id": id.as_str(), "status": status.as_str(), "placed": word }),
    id: item.id.clone(),
    undoable: None,
  })
}

/// Takes a block out of its file.
pub(super) fn add(
  engine: &mut Engine<RealFs>,
  name: &str,
  word: Approval<'_>,
) -> Result<Done, Failure> {
  let (path, line, was) = if let (file, Some(line)) = typed_place(name) {
    (find_file(engine.ledger(), Path::new(file))?, line, None)
  } else {
    let item = engine.ledger().item(name)?;
    if !item.in_file {
      return Err(
        Failure::usage(format!("`{}` is already {}", item.id, item.status))
          .hint("only a block in a file can be quarantined"),
      );
    }
    (item.path, item.line as usize, Some(item.id))
  };
  let target = target_of(engine, &path)?;
  let id = engine.quarantine_line(&target, line, word.by, word.reason)?;
  // The quarantined item may have another id than the block had.
  let was = was.filter(|was| *was != id).map(|was| format!(" (was {was})")).unwrap_or_default();
  let line = format!("{id}: in quarantine, out of {}{was}", terminal(shown(&target.path())));
  let value = json!({ "id": id.as_str(), "status": "quarantined" });
  let undoable = engine.ledger().taken_out(&id)?.map(|_| id.clone());
  Ok(Done { id, line, value, undoable })
}

fn target_of(engine: &Engine<RealFs>, path: &Path) -> Result<Target, Failure> {
  pending::target_of(engine.ledger(), path)?.ok_or_else(|| {
    Failure::unavailable(format!("`{}` is not a guarded memory file", shown(path))).hint(GUARDED)
  })
}
