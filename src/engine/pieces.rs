//! The parts of an item, and what its file gets for each of them: the text, or a placeholder. Pure.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::EngineError;
use crate::{
  detect::{Code, Finding, KeptFindings},
  judging::{spans::overlaps, view::View},
  memory::{BlockId, Document, line, placeholder},
  provenance::State,
  store::Item,
};

/// A part of an item, and what the file gets for it.
pub(super) struct Piece {
  pub(super) id: BlockId,
  /// Bytes of the whole text.
  pub(super) span: Range<usize>,
  /// Whether its text returns.
  pub(super) is_back: bool,
  pub(super) is_inline: bool,
  /// The bytes in the file: its text, or its placeholder.
  pub(super) form: Vec<u8>,
}

/// The parts of a divided item.
pub(super) fn pieces_of(parts: &[Item]) -> Vec<Piece> {
  let mut pieces = Vec::with_capacity(parts.len());
  for (part, of) in parts.iter().filter_map(|part| Some((part, part.part.as_ref()?))) {
    let start = of.offset as usize;
    pieces.push(Piece {
      id: part.id.clone(),
      span: start..start + part.len.unwrap_or_default() as usize,
      is_back: part.status == State::Approved,
      is_inline: of.is_inline,
      form: vec![],
    });
  }
  pieces
}

/// The forms that each part may have in the file, where the text of `back` is there as well.
pub(super) fn forms_of(parts: &[Item], plain: &[u8], back: Option<&BlockId>) -> Vec<Vec<Vec<u8>>> {
  let mut pieces = pieces_of(parts);
  for piece in &mut pieces {
    piece.is_back |= back == Some(&piece.id);
  }
  let mut forms = forms(&pieces, plain);
  for (part, forms) in parts.iter().zip(&mut forms) {
    if matches!(part.status, State::Rejected | State::Forgotten) {
      forms.push(vec![]);
    }
  }
  forms
}

pub(super) fn forms(pieces: &[Piece], plain: &[u8]) -> Vec<Vec<Vec<u8>>> {
  let of = |piece: &Piece| {
    let text = line::slice(plain, piece.span.clone());
    if piece.is_back {
      return vec![text.to_vec()];
    }
    let mut forms = vec![placeholder::redact(text, &piece.id)];
    forms.extend((!piece.is_inline).then(|| compact(text, &piece.id)));
    forms
  };
  pieces.iter().map(of).collect()
}

/// The placeholder of whole lines on one line.
fn compact(text: &[u8], id: &BlockId) -> Vec<u8> {
  [placeholder::compact(id).as_bytes(), line::eol(text)].concat()
}

/// Marks the first and the last part as inline where the place of the whole begins or ends within a line.
pub(super) fn mark_ends(pieces: &mut [Piece], file: &[u8], (offset, placeholder): (usize, &[u8])) {
  let before = offset.checked_sub(1).and_then(|at| file.get(at));
  let after = file.get(offset + placeholder.len());
  if let Some(first) = pieces.first_mut() {
    first.is_inline |= !matches!(before, None | Some(b'\n' | b'\r'));
  }
  let ends = line::eol(placeholder).is_empty() && !matches!(after, None | Some(b'\n' | b'\r'));
  if let Some(last) = pieces.last_mut() {
    last.is_inline |= ends;
  }
}

/// The placeholder by which the file is read. That of a part of a line leaves the line end to the line: otherwise the
/// next entry would continue the text before it.
pub(super) fn redacted(piece: &Piece, plain: &[u8]) -> Vec<u8> {
  let mut form = placeholder::redact(line::slice(plain, piece.span.clone()), &piece.id);
  if piece.is_inline {
    form.truncate(line::content(&form).len());
  }
  form
}

/// Sets what the file gets for each part. The placeholder of the whole has its full length, or is compact; lengths may
/// change, or not.
pub(super) fn fill(
  pieces: &mut [Piece],
  plain: &[u8],
  (is_full, may_reshape): (bool, bool),
) -> Result<(), ()> {
  for piece in pieces {
    let text = line::slice(plain, piece.span.clone());
    let padded = placeholder::redact(text, &piece.id);
    let is_named = placeholder::offset_in(&padded, &piece.id).is_some();
    piece.form = if piece.is_back {
      text.to_vec()
    } else if is_named && (is_full || piece.is_inline) {
      padded
    } else if may_reshape && !piece.is_inline {
      compact(text, &piece.id)
    } else {
      return Err(());
    };
  }
  Ok(())
}

/// The spans of the pieces in the file, from `offset` on.
pub(super) fn placed(pieces: &[Piece], offset: usize) -> Vec<Range<usize>> {
  let mut at = offset;
  let span = |piece: &Piece| {
    let start = at;
    at += piece.form.len();
    start..at
  };
  pieces.iter().map(span).collect()
}

/// Reads a version with the placeholders of these pieces.
pub(super) fn read<'p>(
  view: &View,
  bytes: &[u8],
  pieces: impl IntoIterator<Item = &'p Piece>,
  plain: &[u8],
) -> Document {
  let out = pieces.into_iter().filter(|piece| !piece.is_back);
  let forms: Vec<(&BlockId, Vec<u8>)> =
    out.map(|piece| (&piece.id, redacted(piece, plain))).collect();
  view.facts.read_redacted(bytes, forms.iter().map(|(id, form)| (*id, &form[..])))
}

/// The findings in a part.
fn within<'f>(found: &'f [Finding], piece: &Piece) -> impl Iterator<Item = &'f Finding> {
  let span = piece.span.clone();
  found.iter().filter(move |one| overlaps(&one.span, &span))
}

pub(super) fn findings_of(found: &[Finding], piece: &Piece) -> KeptFindings {
  let within: Vec<Finding> = within(found, piece).cloned().collect();
  KeptFindings::within(&within, piece.span.start, piece.span.len())
}

/// The codes of a part: those found in it, or, if none was, those of the whole.
pub(super) fn codes_of(item: &Item, found: &[Finding], piece: &Piece) -> Vec<Code> {
  let is_in = |code: &Code| within(found, piece).any(|one| one.code == *code);
  let codes: Vec<Code> = item.codes.iter().copied().filter(is_in).collect();
  if codes.is_empty() { item.codes.clone() } else { codes }
}

/// Refuses a decision about an item whose parts are items of their own.
pub(super) fn refuse_divided(item: &Item) -> Result<(), EngineError> {
  if item.status != State::Split {
    return Ok(());
  }
  Err(EngineError::refused_with(
    format!("`{}` is divided already", item.id),
    format!("decide about its parts, which `memfw show {0}` names, or `memfw undo {0}`", item.id),
  ))
}
