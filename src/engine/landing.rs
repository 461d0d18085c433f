//! Where approved bytes are inserted, and whether their meaning there is that of before they were taken
//! out.
#![forbid(unsafe_code)]

use std::{fmt, ops::Range, path::Path};

use zeroize::Zeroizing;

use super::{Engine, EngineError, Target, decisions::Placed, event::shown, pieces::forms_of};
use crate::{
  files::Fs,
  judging::{
    approvals::{Approvals, plain_of},
    claim::claims,
    spans,
  },
  memory::{
    Around, BlockId, ContentHash, Document, Known, consecutive, line,
    placeholder::{self, FoundAt},
  },
  store::{Item, StoreError},
};

/// How many copies of a placeholder are examined (a choice: more copies give no useful place).
const MAX_PLACES: usize = 16;

/// An edit that inserts bytes again.
pub(super) struct Restore {
  pub(super) placed: Placed,
  /// The offset of `before`.
  pub(super) offset: usize,
  pub(super) before: Vec<u8>,
  pub(super) after: Vec<u8>,
  /// The whole file after the edit.
  pub(super) new: Vec<u8>,
  /// How many bytes of it follow the text: the line end of a part of a line that is added to the end.
  behind: usize,
}

impl Restore {
  /// The edit that restores `plain` into `bytes`: at the most certain place, or at the end.
  pub(super) fn find(bytes: &[u8], id: &BlockId, plain: &[u8]) -> Self {
    placeholder::find(bytes, id, plain).map_or_else(
      || Self::at_end(bytes, plain, (false, b"")),
      |found| Self::into_place(bytes, found, plain),
    )
  }

  /// The edits for all possible places of `plain`.
  fn places(bytes: &[u8], id: &BlockId, plain: &[u8]) -> Vec<Self> {
    let found = placeholder::candidates(bytes, id, plain).into_iter();
    found.take(MAX_PLACES).map(|found| Self::into_place(bytes, found, plain)).collect()
  }

  fn into_place(bytes: &[u8], found: FoundAt, plain: &[u8]) -> Self {
    let head = bytes.get(..found.span.start).unwrap_or_default();
    let tail = bytes.get(found.span.end..).unwrap_or_default();
    Self {
      placed: Placed::AtPlaceholder,
      offset: found.span.start,
      before: bytes.get(found.span).unwrap_or_default().to_vec(),
      after: plain.to_vec(),
      new: [head, plain, tail].concat(),
      behind: 0,
    }
  }

  /// The edit that adds `plain` to the end of `bytes`, as a block of its own if `apart`, with a line `end` of its own.
  fn at_end(bytes: &[u8], plain: &[u8], (apart, end): (bool, &[u8])) -> Self {
    let mut tail = Vec::new();
    // Otherwise the text would continue the last line.
    if !bytes.is_empty() && bytes.last() != Some(&b'\n') {
      tail.push(b'\n');
    }
    if apart {
      tail.push(b'\n');
    }
    tail.extend_from_slice(plain);
    tail.extend_from_slice(end);
    Self {
      placed: Placed::Appended,
      offset: bytes.len(),
      before: vec![],
      new: [bytes, &tail].concat(),
      after: tail,
      behind: end.len(),
    }
  }

  /// The context of `plain` after the edit.
  fn around(&self, plain: &[u8], ids: &Known) -> Around {
    self.around_without(plain, ids, &[])
  }

  /// The context of `plain` after the edit, without the lines in `absent`.
  fn around_without(&self, plain: &[u8], ids: &Known, absent: &[Range<usize>]) -> Around {
    Around::without(&self.new, &Document::parse(&self.new, ids), &self.span(plain), absent)
  }

  /// The code or HTML around the place, if any.
  fn inside(&self, plain: &[u8], ids: &Known) -> Option<Inside> {
    let document = Document::parse(&self.new, ids);
    let found = document.enclosure(self.span(plain).start)?;
    let above = self.new.get(..found.span.start).unwrap_or_default();
    Some(Inside { is_html: found.is_html, line: line::newlines(above) + 1 })
  }

  /// The code or HTML around the end of the file, if any, also where only a comment of memfw closes it: the file
  /// means the same with and without markers.
  fn open_at_end(&self, plain: &[u8], ids: &Known) -> Option<Inside> {
    self.inside(plain, &Known::default()).or_else(|| {
      let bare = Document::parse(&self.new, ids).strip(&self.new);
      let offset = bare.len().checked_sub(plain.len() + self.behind)?;
      let (placed, after) = (self.placed, plain.to_vec());
      let new = Self { placed, offset, before: vec![], after, new: bare, behind: 0 };
      new.inside(plain, &Known::default())
    })
  }

  /// `bytes` without the placeholder that the edit would replace.
  fn dropped(&self, bytes: &[u8]) -> Vec<u8> {
    let head = bytes.get(..self.offset).unwrap_or_default();
    let tail = bytes.get(self.offset + self.before.len()..).unwrap_or_default();
    [head, tail].concat()
  }

  /// The span of `plain` after the edit.
  pub(super) fn span(&self, plain: &[u8]) -> Range<usize> {
    let end = self.new.len().min(self.offset + self.after.len()).saturating_sub(self.behind);
    end.saturating_sub(plain.len())..end
  }

  /// Whether the edit may be written. If lengths may not change, an edit of equal length and an
  /// addition at the end are still safe.
  pub(super) fn may_be_written(&self, any_length: bool) -> bool {
    any_length || self.is_equal_length() || self.placed != Placed::AtPlaceholder
  }

  pub(super) fn is_equal_length(&self) -> bool {
    self.before.len() == self.after.len()
  }
}

/// The place where approved bytes are inserted.
pub(super) struct Landing {
  pub(super) restore: Restore,
  pub(super) around: Around,
  /// Whether their meaning there is that at their former place.
  pub(super) is_right: bool,
  /// Earlier approved texts nearby, each with its new context.
  pub(super) beside: Vec<(ContentHash, Around)>,
  /// The state of their former place.
  pub(super) place: Place,
  /// The code or HTML that is open at the end of the file, where they are appended.
  pub(super) open: Option<Inside>,
}

/// The state of a text's former place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
  /// It exists, in any context.
  Here,
  /// It exists, but is in code or in HTML now.
  Inside(Inside),
  Gone,
}

/// Code or HTML, in which a text has another meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
  is_html: bool,
  /// The line of the file at which it begins, counted from 1.
  line: usize,
}

impl fmt::Display for Inside {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let what = if self.is_html { "HTML or a comment" } else { "a code block" };
    write!(f, "{what} that begins at line {}", self.line)
  }
}

impl<F: Fs> Engine<F> {
  /// Finds the place for approved bytes, and whether their meaning there is that of before they were taken
  /// out. If not, they become a block of their own at the end.
  pub(super) fn lands(
    &mut self,
    target: &Target,
    item: &Item,
    plain: &[u8],
    bytes: Vec<u8>,
    restore: Restore,
    may_drop: bool,
  ) -> Result<Landing, EngineError> {
    let row = self.ledger.file(&item.path)?;
    let view = self.view_known(target, row.as_ref(), bytes)?;
    let (bytes, ids) = (&view.bytes, &view.facts.ids);
    let is_gone = restore.placed != Placed::AtPlaceholder;
    let mut restore = if is_gone { ending(item, bytes, plain, ids).0 } else { restore };
    // Of several copies of a placeholder, those with the former context are preferred, and of these the
    // one nearest to the former place of the text.
    let places = if is_gone { vec![] } else { Restore::places(bytes, &item.id, plain) };
    if places.len() > 1 {
      let mut best = None;
      for other in places {
        let line = line::newlines(bytes.get(..other.offset).unwrap_or_default()) + 1;
        // An edit of equal length is possible even where lengths may not change.
        let key = (!other.is_equal_length(), line.abs_diff(item.line as usize));
        let is_better = best.as_ref().is_none_or(|(best, _)| key < *best);
        if is_better && is_as_before(&self.approvals(), item, &other, (plain, ids))? {
          best = Some((key, other));
        }
      }
      if let Some((_, other)) = best {
        restore = other;
      }
    }
    // A text that never left the file is not inserted again.
    let is_there = is_gone && placeholder::has_lines(bytes, plain);
    if is_there || is_as_before(&self.approvals(), item, &restore, (plain, ids))? {
      let beside = beside(&self.approvals(), item, &restore, (plain, ids))?;
      let around = restore.around(plain, ids);
      let is_appended = restore.placed != Placed::AtPlaceholder;
      let open = if is_appended { restore.open_at_end(plain, ids) } else { None };
      return Ok(Landing { restore, around, is_right: true, beside, place: Place::Here, open });
    }
    let place = match restore.inside(plain, ids) {
      _ if is_gone => Place::Gone,
      Some(inside) => Place::Inside(inside),
      None => Place::Here,
    };
    // The text must not return at its old place, too.
    let rest = if may_drop { restore.dropped(bytes) } else { bytes.to_vec() };
    let (mut restore, around) = ending(item, &rest, plain, ids);
    if !is_as_before(&self.approvals(), item, &restore, (plain, ids))? {
      restore.placed = Placed::Elsewhere;
    }
    let open = restore.open_at_end(plain, ids);
    Ok(Landing { restore, around, is_right: false, beside: vec![], place, open })
  }
}

/// Whether a text has the same context after the edit as when it was taken out, or the text of which it is a part has.
fn is_as_before(
  approvals: &Approvals<'_>,
  item: &Item,
  restore: &Restore,
  (plain, ids): (&[u8], &Known),
) -> Result<bool, StoreError> {
  match &item.part {
    _ if has_own_context(approvals, item, restore, (plain, ids))? => Ok(true),
    Some(part) => is_whole_as_before(approvals, (item, &part.id), restore, ids),
    None => Ok(false),
  }
}

/// Whether a text has the same context after the edit as when it was taken out. A part of a line has no context of
/// its own.
fn has_own_context(
  approvals: &Approvals<'_>,
  item: &Item,
  restore: &Restore,
  (plain, ids): (&[u8], &Known),
) -> Result<bool, StoreError> {
  let before = approvals.ledger.existing_item(&item.path, item.hash, item.n)?;
  let Some(before) = before.and_then(|before| before.context) else {
    return Ok(item.part.is_none());
  };
  // Text that was approved meanwhile was taken out in the same edit, or was read in its place.
  let comments: Vec<Range<usize>> = claims(&restore.new).collect();
  let mut absent: Vec<Range<usize>> =
    back(approvals, item, restore)?.into_iter().map(|(_, span)| span).collect();
  absent.extend(comments.iter().cloned());
  let mut now = [comments, absent].into_iter();
  let file = approvals.ledger.known_as(&item.path)?;
  if now.any(|absent| restore.around_without(plain, ids, &absent).is_of(&file, &before)) {
    return Ok(true);
  }
  // A piece of a line was taken out when those before it were in quarantine, and those after it not written.
  let line = pieces(approvals, item, restore, plain, ids)?;
  let span = restore.span(plain);
  if line.span == span {
    return Ok(false);
  }
  let mut ids = ids.clone();
  let mut new = restore.new.get(..span.end).unwrap_or_default().to_vec();
  for (other, text, span) in &line.pieces {
    let form = placeholder::redact(text, &other.id);
    if let Some(place) = new.get_mut(span.clone()).filter(|place| place.len() == form.len()) {
      place.copy_from_slice(&form);
    }
    ids.placeholders.insert(other.id.clone());
    ids.redacted.insert(other.id.clone(), form);
  }
  let gone = restore.new.get(span.end..line.span.end).unwrap_or_default();
  new.extend_from_slice(if gone.ends_with(b"\n") { b"\n" } else { b"" });
  new.extend_from_slice(restore.new.get(line.span.end..).unwrap_or_default());
  let absent: Vec<Range<usize>> = claims(&new).collect();
  let document = Document::parse(&new, &ids);
  Ok(Around::without(&new, &document, &span, &absent).is_of(&file, &before))
}

/// Whether the text of which an item is a part has the same context after the edit as when it was taken out.
fn is_whole_as_before(
  approvals: &Approvals<'_>,
  (item, whole): (&Item, &BlockId),
  restore: &Restore,
  ids: &Known,
) -> Result<bool, StoreError> {
  let ledger = approvals.ledger;
  let (whole, parts) = (ledger.item(whole.as_str())?, ledger.parts_of(whole)?);
  let before = ledger.existing_item(&whole.path, whole.hash, whole.n)?;
  let Some(before) = before.and_then(|before| before.context) else { return Ok(true) };
  // Without the bytes of another part the text is not compared.
  let Some(plain) = plain_of(ledger, &whole.id)? else { return Ok(true) };
  let document = Document::parse(&restore.new, ids);
  let forms = forms_of(&parts, &plain, Some(&item.id));
  let Some(span) = consecutive::find(&restore.new, &document, &forms) else { return Ok(false) };
  let file = ledger.known_as(&item.path)?;
  let comments: Vec<Range<usize>> = claims(&restore.new).collect();
  let mut absent: Vec<Range<usize>> =
    back(approvals, item, restore)?.into_iter().map(|(_, span)| span).collect();
  absent.retain(|other| !spans::overlaps(other, &span));
  absent.extend(comments.iter().cloned());
  let around = |gone: &[Range<usize>]| Around::without(&restore.new, &document, &span, gone);
  Ok([comments, absent].iter().any(|gone| around(gone).is_of(&file, &before)))
}

/// The approved texts that are parts of the same line as the text that returns: a writer wrote the line in
/// pieces, and each was taken out alone. Pieces that are still out may be between them.
fn pieces(
  approvals: &Approvals<'_>,
  item: &Item,
  restore: &Restore,
  plain: &[u8],
  ids: &Known,
) -> Result<PiecesOfLine, StoreError> {
  let Range { start: mut from, end: mut to } = restore.span(plain);
  let new = &restore.new[..];
  let slice = |span: Range<usize>| new.get(span).unwrap_or_default();
  let is_inside = |at: usize| at > 0 && at < new.len() && slice(at - 1..at) != b"\n";
  let mut found = Vec::new();
  if !is_inside(from) && !is_inside(to) {
    return Ok(PiecesOfLine { pieces: found, span: from..to });
  }
  let mut texts = approvals.texts(&item.path)?;
  texts.retain(|(other, text)| other.id != item.id && !text.is_empty());
  let forms: Vec<&Vec<u8>> = ids.redacted.values().filter(|form| !form.is_empty()).collect();
  while is_inside(from) {
    let above = slice(0..from);
    if let Some((other, text)) = texts.iter().find(|(_, text)| above.ends_with(text)) {
      found.push((other.clone(), text.clone(), from - text.len()..from));
      from -= text.len();
    } else if let Some(form) = forms.iter().find(|form| above.ends_with(form)) {
      from -= form.len();
    } else {
      break;
    }
  }
  while is_inside(to) {
    let below = slice(to..new.len());
    if let Some((other, text)) = texts.iter().find(|(_, text)| below.starts_with(text)) {
      found.push((other.clone(), text.clone(), to..to + text.len()));
      to += text.len();
    } else if let Some(form) = forms.iter().find(|form| below.starts_with(form)) {
      to += form.len();
    } else {
      break;
    }
  }
  Ok(PiecesOfLine { pieces: found, span: from..to })
}

/// The other approved texts in the file after the edit.
fn back(
  approvals: &Approvals<'_>,
  item: &Item,
  restore: &Restore,
) -> Result<Vec<(Item, Range<usize>)>, StoreError> {
  let mut back = approvals.places_in(&item.path, &restore.new)?;
  back.retain(|(other, _)| other.id != item.id);
  Ok(back)
}

/// The approved texts whose context changes: the parts of the text that returns, and the texts whose
/// context it changes.
fn beside(
  approvals: &Approvals<'_>,
  item: &Item,
  restore: &Restore,
  (plain, ids): (&[u8], &Known),
) -> Result<Vec<(ContentHash, Around)>, StoreError> {
  let document = Document::parse(&restore.new, ids);
  let own = [restore.span(plain)];
  let mut beside = Vec::new();
  for (other, span) in back(approvals, item, restore)? {
    beside.extend(changed(approvals, (&other, &span), (&restore.new, &document), &own)?);
  }
  // The person has read the other pieces of the line as well.
  for (other, text, span) in pieces(approvals, item, restore, plain, ids)?.pieces {
    let around = Around::of(&restore.new, &document, &span);
    beside.extend([(other.hash, around.clone()), (line::norm_hash(&text), around)]);
  }
  Ok(beside)
}

/// The approved texts of a file of which the texts at `own`, which return, change the context.
pub(super) fn beside_in(
  approvals: &Approvals<'_>,
  (path, new): (&Path, &[u8]),
  document: &Document,
  own: &[Range<usize>],
) -> Result<Vec<(ContentHash, Around)>, StoreError> {
  let mut beside = Vec::new();
  for (other, span) in approvals.places_in(path, new)? {
    beside.extend(changed(approvals, (&other, &span), (new, document), own)?);
  }
  Ok(beside)
}

/// The new context of an approved text, by its hashes, if it is a part of the texts at `own`, or if they change its
/// context.
fn changed(
  approvals: &Approvals<'_>,
  (other, span): (&Item, &Range<usize>),
  (new, document): (&[u8], &Document),
  own: &[Range<usize>],
) -> Result<Vec<(ContentHash, Around)>, StoreError> {
  let around = Around::of(new, document, span);
  let without = Around::without(new, document, span, own);
  let is_part = own.iter().any(|own| spans::overlaps(own, span));
  let is_changed =
    around != without && !approvals.have_lapsed(&other.path, &[other.hash], &[without])?;
  if !(is_part || is_changed) {
    return Ok(vec![]);
  }
  let same_text = line::norm_hash(line::slice(new, span.clone()));
  Ok(vec![(other.hash, around.clone()), (same_text, around)])
}

/// The pieces of a line beside a text.
struct PiecesOfLine {
  /// The approved ones, each with its text and its span in the file.
  pieces: Vec<(Item, Zeroizing<Vec<u8>>, Range<usize>)>,
  /// The text with all pieces beside it, also those that are still out.
  span: Range<usize>,
}

/// Refuses to insert text at the end of a file into code or a comment that is still open there.
pub(super) fn refuse_inside(item: &Item, open: Option<Inside>) -> Result<(), EngineError> {
  match open {
    None => Ok(()),
    Some(inside) => Err(EngineError::refused_with(
      format!(
        "the end of `{}` is inside {inside}, where the text would mean something else",
        shown(&item.path)
      ),
      format!("close it there, and approve `{}` once more", item.id),
    )),
  }
}

/// The edit that adds `plain` to the end of `bytes`, separated if it would otherwise become part of
/// another block.
fn ending(item: &Item, bytes: &[u8], plain: &[u8], ids: &Known) -> (Restore, Around) {
  // The next entry would continue a part of a line.
  let end: &[u8] = if item.is_inline() && !plain.ends_with(b"\n") { b"\n" } else { b"" };
  let [joined, apart] = [false, true].map(|apart| {
    let restore = Restore::at_end(bytes, plain, (apart, end));
    let around = restore.around(plain, ids);
    (restore, around)
  });
  if joined.1.is_whole() || !apart.1.is_whole() { joined } else { apart }
}

/// The error that says why an item cannot return to its place.
pub(super) fn misplaced(item: &Item, place: Place) -> EngineError {
  let why = match place {
    Place::Inside(inside) => {
      format!(
        "the place of `{}` is inside {inside}, where the text would mean something else",
        item.id
      )
    }
    Place::Here => format!(
      "the context of the place of `{}` has changed, and the text would mean something else",
      item.id
    ),
    Place::Gone => format!(
      "the place of `{}` is gone, and its context at the end of `{}` would differ",
      item.id,
      shown(&item.path)
    ),
  };
  let hint = "add it to the end of its file: `memfw approve";
  EngineError::refused_with(why, format!("{hint} {} --at-end`", item.id))
}
