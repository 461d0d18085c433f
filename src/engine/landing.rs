//! Where approved bytes come to stand, and whether they say there what they said when they were taken out.
#![forbid(unsafe_code)]

use std::{fmt, ops::Range};

use super::{
  Engine, EngineError, Target,
  claim::claims,
  event::shown,
  judge::{self, Origin},
  review::Placed,
};
use crate::{
  files::{Fs, MemoryFile},
  memory::{
    Around, BlockId, ContentHash, Document, Known, line, placeholder, placeholder::FoundAt,
  },
  store::{Item, NewOp, OpKind},
};

/// How many copies of a placeholder are looked at (a choice: whoever copies more of them has no place in mind).
const MAX_PLACES: usize = 16;

/// An edit that brings bytes back.
pub(super) struct Restore {
  pub(super) placed: Placed,
  /// Where `before` stands.
  pub(super) offset: usize,
  pub(super) before: Vec<u8>,
  pub(super) after: Vec<u8>,
  /// The whole file afterwards.
  pub(super) new: Vec<u8>,
}

impl Restore {
  /// What brings `plain` back into `bytes`: into the place that is the most certain, or to the end.
  pub(super) fn find(bytes: &[u8], id: &BlockId, plain: &[u8]) -> Self {
    placeholder::find(bytes, id, plain).map_or_else(
      || Self::at_end(bytes, plain, false),
      |found| Self::into_place(bytes, found, plain),
    )
  }

  /// All places into which `plain` could come back.
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
    }
  }

  /// What adds `plain` to the end of `bytes`, where wanted as a block of its own.
  fn at_end(bytes: &[u8], plain: &[u8], apart: bool) -> Self {
    let mut tail = Vec::new();
    if !bytes.is_empty() && bytes.last() != Some(&b'\n') {
      tail.push(b'\n');
    }
    if apart {
      tail.push(b'\n');
    }
    tail.extend_from_slice(plain);
    Self {
      placed: Placed::Appended,
      offset: bytes.len(),
      before: vec![],
      new: [bytes, &tail].concat(),
      after: tail,
    }
  }

  /// What stands around `plain` once it is back.
  fn around(&self, plain: &[u8], ids: &Known) -> Around {
    self.around_without(plain, ids, &[])
  }

  /// The same as if the lines in `absent` were not there.
  fn around_without(&self, plain: &[u8], ids: &Known, absent: &[Range<usize>]) -> Around {
    Around::without(&self.new, &Document::parse(&self.new, ids), &self.span(plain), absent)
  }

  /// The code or the HTML that it comes to stand in.
  fn inside(&self, plain: &[u8], ids: &Known) -> Option<Inside> {
    let document = Document::parse(&self.new, ids);
    let found = document.enclosure(self.span(plain).start)?;
    let above = self.new.get(..found.span.start).unwrap_or_default();
    Some(Inside { is_html: found.is_html, line: line::newlines(above) + 1 })
  }

  /// `bytes` without the placeholder that would be replaced.
  fn dropped(&self, bytes: &[u8]) -> Vec<u8> {
    let head = bytes.get(..self.offset).unwrap_or_default();
    let tail = bytes.get(self.offset + self.before.len()..).unwrap_or_default();
    [head, tail].concat()
  }

  /// Where `plain` will stand.
  pub(super) fn span(&self, plain: &[u8]) -> Range<usize> {
    let end = self.new.len().min(self.offset + self.after.len());
    end.saturating_sub(plain.len())..end
  }

  /// Where lengths may not change, the same length and an addition at the end are still safe.
  pub(super) fn may_be_written(&self, any_length: bool) -> bool {
    any_length || self.is_equal_length() || self.placed != Placed::AtPlaceholder
  }

  pub(super) fn is_equal_length(&self) -> bool {
    self.before.len() == self.after.len()
  }
}

/// Where approved bytes come to stand.
pub(super) struct Landing {
  pub(super) restore: Restore,
  pub(super) around: Around,
  /// Whether they say there what they said where they stood.
  pub(super) is_right: bool,
  /// What was approved before and stands beside them, with what stands around that from now on.
  pub(super) beside: Vec<(ContentHash, Around)>,
  /// What became of the place where they stood.
  pub(super) place: Place,
}

/// What became of the place of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
  /// It is there, whatever stands around it.
  Here,
  /// It is there, in code or in HTML by now.
  Inside(Inside),
  Gone,
}

/// Code or HTML, in which a text is something else than it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
  is_html: bool,
  /// The line of the file at which it begins, from 1.
  line: usize,
}

impl fmt::Display for Inside {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let what = if self.is_html { "HTML or a comment" } else { "a code block" };
    write!(f, "{what} that begins at line {}", self.line)
  }
}

impl<F: Fs> Engine<F> {
  /// Where approved bytes come to stand, and whether they say there what they said when they were taken out.
  /// Where they do not, they become a block of their own at the end.
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
    let view = self.view(target, row.as_ref(), bytes, Origin::unknown(), None)?;
    let (bytes, ids) = (&view.bytes, &view.facts.ids);
    let is_gone = restore.placed != Placed::AtPlaceholder;
    let mut restore = if is_gone { ending(bytes, plain, ids).0 } else { restore };
    // Of several copies of a placeholder the one counts that has around it what it had, and of those the one
    // that is nearest to where the text was.
    let places = if is_gone { vec![] } else { Restore::places(bytes, &item.id, plain) };
    if places.len() > 1 {
      let mut best = None;
      for other in places {
        let line = line::newlines(bytes.get(..other.offset).unwrap_or_default()) + 1;
        let key = (!other.is_equal_length(), line.abs_diff(item.line as usize));
        let is_better = best.as_ref().is_none_or(|(best, _)| key < *best);
        if is_better && self.is_as_before(item, &other, (plain, ids))? {
          best = Some((key, other));
        }
      }
      if let Some((_, other)) = best {
        restore = other;
      }
    }
    // Of what never left the file nothing comes back.
    let is_there = is_gone && placeholder::stands(bytes, plain);
    if is_there || self.is_as_before(item, &restore, (plain, ids))? {
      let beside = self.beside(item, &restore, (plain, ids))?;
      let around = restore.around(plain, ids);
      return Ok(Landing { restore, around, is_right: true, beside, place: Place::Here });
    }
    let place = match restore.inside(plain, ids) {
      _ if is_gone => Place::Gone,
      Some(inside) => Place::Inside(inside),
      None => Place::Here,
    };
    // It must not come back at its old place as well.
    let rest = if may_drop { restore.dropped(bytes) } else { bytes.clone() };
    let (mut restore, around) = ending(&rest, plain, ids);
    if !self.is_as_before(item, &restore, (plain, ids))? {
      restore.placed = Placed::Elsewhere;
    }
    Ok(Landing { restore, around, is_right: false, beside: vec![], place })
  }

  /// Whether the same stands around a text once it is back as did when it was taken out.
  fn is_as_before(
    &self,
    item: &Item,
    restore: &Restore,
    (plain, ids): (&[u8], &Known),
  ) -> Result<bool, EngineError> {
    let before = self.ledger.existing_item(&item.path, item.hash, item.n)?;
    let Some(before) = before.and_then(|before| before.context) else { return Ok(true) };
    // What was approved meanwhile left in the same edit, or was read where it stood.
    let claims: Vec<Range<usize>> = claims(&restore.new).collect();
    let mut absent: Vec<Range<usize>> =
      self.back(item, restore)?.into_iter().map(|(_, span)| span).collect();
    absent.extend(claims.iter().cloned());
    let mut now = [claims, absent].into_iter();
    let file = self.ledger.known_as(&item.path)?;
    Ok(now.any(|absent| restore.around_without(plain, ids, &absent).is_of(&file, &before)))
  }

  /// What else was approved and stands in the file once a text is back.
  fn back(&self, item: &Item, restore: &Restore) -> Result<Vec<(Item, Range<usize>)>, EngineError> {
    let mut back = self.approved_in(&item.path, &restore.new)?;
    back.retain(|(other, _)| other.id != item.id);
    Ok(back)
  }

  /// What was approved and has another context from now on: what is part of the text that comes back, and that
  /// of which this changes the context.
  fn beside(
    &self,
    item: &Item,
    restore: &Restore,
    (plain, ids): (&[u8], &Known),
  ) -> Result<Vec<(ContentHash, Around)>, EngineError> {
    let document = Document::parse(&restore.new, ids);
    let own = [restore.span(plain)];
    let mut beside = Vec::new();
    for (other, span) in self.back(item, restore)? {
      let around = Around::of(&restore.new, &document, &span);
      let without = Around::without(&restore.new, &document, &span, &own);
      let is_part = own.iter().any(|own| judge::overlaps(own, &span));
      let is_changed = around != without && !self.has_lapsed(&item.path, other.hash, &[without])?;
      if is_part || is_changed {
        let same_text = line::norm_hash(line::slice(&restore.new, span));
        beside.extend([(other.hash, around.clone()), (same_text, around)]);
      }
    }
    Ok(beside)
  }
}

/// Refuses what would come to stand at the end of a file in code or in a comment that is still open there.
pub(super) fn refuse_inside(
  item: &Item,
  restore: &Restore,
  plain: &[u8],
) -> Result<(), EngineError> {
  match restore.inside(plain, &Known::default()).filter(|_| restore.placed != Placed::AtPlaceholder)
  {
    None => Ok(()),
    Some(inside) => Err(EngineError::refused_with(
      format!(
        "the end of `{}` is inside {inside}, where the text would be something else than it was",
        shown(&item.path)
      ),
      format!("close it there, and approve `{}` once more", item.id),
    )),
  }
}

/// What adds `plain` to the end of `bytes`, apart where it would else become part of what stands there.
fn ending(bytes: &[u8], plain: &[u8], ids: &Known) -> (Restore, Around) {
  let [joined, apart] = [false, true].map(|apart| {
    let restore = Restore::at_end(bytes, plain, apart);
    let around = restore.around(plain, ids);
    (restore, around)
  });
  if joined.1.is_whole() || !apart.1.is_whole() { joined } else { apart }
}

/// Why an item cannot come back to where it stood.
pub(super) fn misplaced(item: &Item, place: Place) -> EngineError {
  let why = match place {
    Place::Inside(inside) => {
      format!("the place of `{}` is inside {inside}, where it would say something else", item.id)
    }
    Place::Here => format!(
      "other words stand around the place of `{}` by now, and it would say something else",
      item.id
    ),
    Place::Gone => format!(
      "the place of `{}` is gone, and at the end of `{}` other words stand around it than before",
      item.id,
      shown(&item.path)
    ),
  };
  let hint = "add it to the end of its file: `memfw quarantine approve";
  EngineError::refused_with(why, format!("{hint} {} --at-end`", item.id))
}

/// The operation of a restore: a range at equal length, or images of the whole file.
pub(super) fn image<'a, M: MemoryFile>(
  item: &'a Item,
  file: &M,
  bytes: &'a [u8],
  restore: &'a Restore,
) -> Result<NewOp<'a>, EngineError> {
  let stamp = file.stamp()?;
  let equal = restore.is_equal_length();
  Ok(NewOp {
    kind: if equal { OpKind::Restore } else { OpKind::Reshape },
    path: &item.path,
    dev: stamp.dev,
    ino: stamp.ino,
    offset: if equal { restore.offset as u64 } else { 0 },
    before: if equal { &restore.before } else { bytes },
    after: if equal { &restore.after } else { &restore.new },
  })
}
