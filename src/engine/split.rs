//! Approves a part of an item: the item is divided, the approved parts return, and the rest stays sealed.
//!
//! Each part is an item of its own, with the bytes that it has in the text of the whole. One journalled edit replaces
//! the placeholder of the whole by the approved bytes and the placeholders of the rest, in their order. The decision is
//! durable before the file is changed; until then a crash leaves the item as it was, and after that the daemon
//! completes the edit.
//!
//! Invariant: the parts in their order are the bytes of the item.
#![forbid(unsafe_code)]

use std::{cell::Cell, ops::Range, time::Duration};

use super::{
  Engine, EngineError, Event, EventKind, Target,
  decisions::{Approval, Placed, already, by_whom},
  edit::{Edit, Locked, Replacement},
  event::shown,
  landing::{Restore, beside_in, misplaced},
  pending::target_of,
  pieces::{
    Piece, codes_of, fill, findings_of, forms, mark_ends, pieces_of, placed, read, redacted,
    refuse_divided,
  },
  prepare::{ATTEMPTS, MOMENT, PATIENCE, is_judged},
  record::ScannedVersion,
};
use crate::{
  detect::Layer,
  failpoint::{Plan, Point, hit},
  files::{Fs, MemoryFile, overwrite::Change},
  judging::{
    approved::{hashes, lines_at},
    claim::claims,
    judge_context::RestoredText,
    origin::Origin,
    precedent::{context, contexts},
    spans::overlaps,
    view::View,
  },
  memory::{
    Around, BlockId, ContentHash, Document, consecutive, line,
    parts::{self, Numbers, Part, Undivided, Unit},
    placeholder,
  },
  provenance::State,
  store::{Item, NewApproval, NewItem, NewPart, PartOf, Writer},
};

/// A person's choice about an item that waits.
struct Choice<'a> {
  parts: &'a [Part],
  word: Approval<'a>,
  /// Whether an earlier attempt has made it durable.
  decided: Cell<bool>,
}

impl<F: Fs> Engine<F> {
  /// Restores the chosen lines or sentences of an item that waits. Returns the item and its parts, in order.
  pub fn approve_parts(
    &mut self,
    id: &str,
    (unit, chosen): (Unit, &Numbers),
    word: Approval<'_>,
  ) -> Result<(Item, Vec<Item>), EngineError> {
    let item = self.ledger.item(id)?;
    refuse_whole(&item)?;
    let plain = self.ledger.unseal(&item.id)?;
    let parts = parts::divide(&plain, unit, chosen).map_err(|why| undivided(&item, unit, &why))?;
    let place = shown(&item.path);
    let Some(target) = target_of(&self.ledger, &item.path)? else {
      return Err(EngineError::refused_with(
        format!("`{place}` is in no guarded workspace"),
        format!("take the text from `memfw show {}`", item.id),
      ));
    };
    if self.files.stamp(&target)?.is_none() {
      return Err(EngineError::refused_with(
        format!("`{place}` does not exist any more"),
        format!("restore the file first: `memfw restore {place}`"),
      ));
    }
    let choice = Choice { parts: &parts, word, decided: Cell::new(false) };
    for _ in 0..ATTEMPTS {
      // Text that others wrote meanwhile is judged first, so that the approval does not cover it.
      self.catch_up(&target)?;
      match self.split_once(&target, &item.id, Some(&choice)) {
        Ok(true) => {
          return Ok((self.ledger.item(item.id.as_str())?, self.ledger.parts_of(&item.id)?));
        }
        Ok(false) => {}
        Err(error) => return Err(self.not_back_yet(&item, error, choice.decided.get())?),
      }
    }
    let error = EngineError::refused_with("others keep writing to the file", "try again");
    Err(self.not_back_yet(&item, error, choice.decided.get())?)
  }

  /// Brings the parts of a divided item back whose placeholder is in the file: the edit was interrupted, or an older
  /// version was saved over it. Returns whether this is done.
  pub(super) fn split_again(&mut self, target: &Target, item: &Item) -> Result<bool, EngineError> {
    self.split_once(target, &item.id, None)
  }

  /// One attempt; false if another program wrote the file or replaced it meanwhile. Without a choice, the item must be
  /// divided already.
  fn split_once(
    &mut self,
    target: &Target,
    id: &BlockId,
    choice: Option<&Choice<'_>>,
  ) -> Result<bool, EngineError> {
    let patience = if choice.is_some() { PATIENCE } else { Duration::ZERO };
    let (writing, mut file) = self.lock_leased(target, patience)?;
    if !self.files.is_on_path(target, &file)? {
      return Ok(false);
    }
    let leased = file.leased_for().is_some();
    // Another process may have decided while this one waited for the lock, or between two attempts.
    let item = self.ledger.item(id.as_str())?;
    let is_decided = item.status == State::Split;
    match choice {
      None if !is_decided => return Ok(true),
      None => {}
      Some(choice) if choice.decided.get() && !is_decided => {
        choice.decided.set(false);
        let why = format!("the approval of parts of `{id}` was taken back meanwhile");
        return Err(EngineError::refused(why));
      }
      Some(choice) if choice.decided.get() => {}
      Some(_) => refuse_whole(&item)?,
    }
    let plain = self.ledger.unseal(&item.id)?;
    let bytes = file.read_all()?;
    let row = self.ledger.file(&item.path)?;
    // The edit records the whole version, and must not record text that was not judged.
    if !is_judged(&mut self.ledger, row.as_ref(), ContentHash::of(&bytes), self.clock.now())? {
      return Ok(false);
    }
    let restore = Restore::find(&bytes, &item.id, &plain);
    if restore.placed != Placed::AtPlaceholder {
      if is_decided {
        // The placeholder was deleted, or the parts are back.
        self.ledger.restored(&item.id)?;
        return Ok(true);
      }
      return Err(EngineError::refused_with(
        format!("the placeholder of `{}` is not in `{}` any more", item.id, shown(&item.path)),
        format!("add its whole text to the end: `memfw approve {} --at-end`", item.id),
      ));
    }
    let landing = self.lands(target, &item, &plain, bytes.clone(), restore, false)?;
    if !landing.is_right {
      return if is_decided { Ok(true) } else { Err(misplaced(&item, landing.place)) };
    }
    let restore = landing.restore;
    let view = self.view_known(target, row.as_ref(), bytes)?;
    let may_reshape = leased && self.files.may_reshape(&target.root);
    let is_full = restore.before == placeholder::redact(&plain, &item.id);
    let mut pieces = match choice {
      Some(choice) if !is_decided => self.new_pieces(&item, &plain, choice.parts)?,
      _ => pieces_of(&self.ledger.parts_of(&item.id)?),
    };
    if is_decided
      && consecutive::find(&view.bytes, &view.document, &forms(&pieces, &plain)).is_some()
    {
      // It is a copy of the placeholder.
      return Ok(true);
    }
    mark_ends(&mut pieces, &view.bytes, (restore.offset, &restore.before));
    fill(&mut pieces, &plain, (is_full, may_reshape)).map_err(|()| too_short(&item))?;
    let after: Vec<u8> = pieces.iter().flat_map(|piece| piece.form.iter().copied()).collect();
    let end = restore.offset + restore.before.len();
    let new = [
      view.bytes.get(..restore.offset).unwrap_or_default(),
      &after,
      view.bytes.get(end..).unwrap_or_default(),
    ]
    .concat();
    let offset = restore.offset as u64;
    let part = Change { offset, expected: &restore.before, replacement: &after };
    let replacement =
      Replacement { before: (&view.bytes, view.hash), after: &new, part: Some(part) };
    if !replacement.is_in_place() && !may_reshape {
      return Err(EngineError::refused_with(
        "the placeholder was changed, and this file system allows no change of length",
        format!("take the text from `memfw show {}`", item.id),
      ));
    }
    let edit = Edit::<F, _>::new(Plan::Approve, Locked::new(&writing, leased), target, &mut file);
    let written = edit.replaced(self, &replacement, patience.min(MOMENT), |engine| {
      if let Some(choice) = choice.filter(|_| !is_decided) {
        let place = (&view, &new[..], restore.offset);
        engine.decide_parts(&item, (&pieces, &plain), place, choice.word)?;
        choice.decided.set(true);
      } else if !item.awaited {
        // Recovery drops an edit that was not begun.
        engine.ledger.await_restore(&item.id)?;
      }
      hit(Point::ApproveAfterDecision);
      Ok(())
    })?;
    let Some(edit) = written.done()? else { return Ok(false) };
    let versions = (view.hash, ContentHash::of(&new));
    let Some(edit) = edit.landed(self, versions)? else { return Ok(false) };
    let seen = ScannedVersion::written(&edit, leased, self.clock.monotonic());
    let origin = Origin::of_item(&item).with_request(&self.ledger);
    let restored = RestoredText { span: restore.offset..restore.offset + after.len(), origin };
    let row = self.ledger.file(&item.path)?;
    let view = self.view(target, row.as_ref(), new, Origin::unknown(), Some(&restored))?;
    self.record(target, &file, &view, &seen)?;
    edit.finish(self)?;
    self.ledger.restored(&item.id)?;
    self.versions.keep_noted(&mut self.ledger, Writer::Memfw, self.clock.now())?;
    Ok(true)
  }

  /// The parts of an item that is not divided yet, with their ids. A part that was joined again gets its id back.
  fn new_pieces(
    &self,
    item: &Item,
    plain: &[u8],
    parts: &[Part],
  ) -> Result<Vec<Piece>, EngineError> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(parts.len());
    for part in parts {
      let text = line::slice(plain, part.span.clone());
      let before = self.ledger.joined_parts(&item.path, ContentHash::of(text))?;
      let before = before.into_iter().find(|id| pieces.iter().all(|other| other.id != *id));
      pieces.push(Piece {
        id: before.map_or_else(|| self.new_id(), Ok)?,
        span: part.span.clone(),
        is_back: part.is_chosen,
        is_inline: part.is_inline,
        form: vec![],
      });
    }
    Ok(pieces)
  }

  /// Makes the decision durable. `new` is the file after the edit, with the pieces from `offset` on.
  fn decide_parts(
    &mut self,
    item: &Item,
    (pieces, plain): (&[Piece], &[u8]),
    (view, new, offset): (&View, &[u8], usize),
    word: Approval<'_>,
  ) -> Result<(), EngineError> {
    let text = |piece: &Piece| line::slice(plain, piece.span.clone());
    let spans = placed(pieces, offset);
    let own: Vec<Range<usize>> = pieces
      .iter()
      .zip(&spans)
      .filter(|(piece, _)| piece.is_back)
      .map(|(_, span)| span.clone())
      .collect();
    let document = read(view, new, pieces, plain);
    let has_inline = pieces.iter().any(|piece| piece.is_inline);
    let (beside, contexts) = {
      let beside = beside_in(&self.approvals(), (&item.path, new), &document, &own)?;
      let beside = contexts(&self.ledger, &item.path, &beside)?;
      let contexts = pieces
        .iter()
        .zip(&spans)
        .map(|(piece, span)| {
          if piece.is_back {
            return Ok(Some(self.around(item, (new, &document), span, &[])?));
          }
          // The lines change with each part of them that returns; the context of the whole counts.
          if has_inline {
            return Ok(None);
          }
          // As the file will be when the text is back, without what was approved before.
          let tail = new.get(span.end..).unwrap_or_default();
          let back = [new.get(..span.start).unwrap_or_default(), text(piece), tail].concat();
          let others: Vec<&Piece> = pieces.iter().filter(|other| other.id != piece.id).collect();
          let document = read(view, &back, others, plain);
          let moved = |other: &Range<usize>| {
            let shift = |at: usize| (at + text(piece).len()).saturating_sub(piece.form.len());
            if other.start < span.end {
              other.clone()
            } else {
              shift(other.start)..shift(other.end)
            }
          };
          let here = span.start..span.start + text(piece).len();
          let mut absent: Vec<Range<usize>> = claims(&back).collect();
          absent.extend(own.iter().map(moved));
          let known = self.approvals().places_in(&item.path, &back)?;
          absent.extend(known.into_iter().map(|(_, span)| span));
          absent.retain(|span| !overlaps(span, &here));
          Ok(Some(self.around(item, (&back, &document), &here, &absent)?))
        })
        .collect::<Result<Vec<Option<ContentHash>>, EngineError>>()?;
      (beside, contexts)
    };
    let (found, whole) = (item.findings.read(), item.id.clone());
    let redacted: Vec<Vec<u8>> = pieces.iter().map(|piece| redacted(piece, plain)).collect();
    let mut new_parts = Vec::with_capacity(pieces.len());
    for (((piece, span), here), redacted) in pieces.iter().zip(&spans).zip(contexts).zip(&redacted)
    {
      let approval = match here.filter(|_| piece.is_back) {
        Some(here) => {
          let mut approval: Vec<_> = hashes(text(piece)).map(|hash| (hash, here)).to_vec();
          if piece.is_inline {
            approval.extend(self.line_approvals(item, (new, &document), span)?);
          }
          Some(approval)
        }
        None => None,
      };
      let above = line::newlines(plain.get(..piece.span.start).unwrap_or_default());
      let bytes = text(piece);
      let item = NewItem {
        id: piece.id.clone(),
        path: &item.path,
        line: item.line.saturating_add(u32::try_from(above).unwrap_or(u32::MAX)),
        bytes,
        redacted,
        n: 0,
        // Text that follows an inline part in its line does not continue it.
        terminated: piece.is_inline || bytes.ends_with(b"\n"),
        status: item.status,
        source: item.source.clone(),
        trust: item.trust,
        attestation: item.attestation,
        session: item.session.clone(),
        score: item.score,
        layer: item.layer.unwrap_or(Layer::Rules),
        codes: codes_of(item, &found, piece),
        findings: findings_of(&found, piece),
        trail: item.trail.clone(),
        context: here,
      };
      let offset = piece.span.start as u64;
      let of = PartOf { id: whole.clone(), offset, is_inline: piece.is_inline };
      new_parts.push(NewPart { item, of, approval });
    }
    let ids = |is_back: bool| {
      let ids =
        pieces.iter().filter(|piece| piece.is_back == is_back).map(|piece| piece.id.as_str());
      ids.collect::<Vec<_>>().join(" ")
    };
    let detail =
      format!("a part of {}, {} stays out, {}", item.id, ids(false), by_whom(word.by, word.reason));
    let events: Vec<Event> = pieces
      .iter()
      .filter(|piece| piece.is_back)
      .map(|piece| {
        Event::new(EventKind::Approved)
          .path(&item.path)
          .block(&piece.id)
          .origin(&item.source, item.trust)
          .detail(detail.clone())
      })
      .collect();
    let rows: Vec<_> = events.iter().map(Event::row).collect();
    let decision = NewApproval {
      by: word.by,
      reason: word.reason.unwrap_or_default(),
      codes: &item.codes,
      at: self.now(),
      until: word.until,
      beside: &beside,
    };
    self.ledger.split(&item.id, &new_parts, &decision, &rows)?;
    for event in &events {
      event.log(None);
    }
    Ok(())
  }

  fn around(
    &self,
    item: &Item,
    (file, document): (&[u8], &Document),
    span: &Range<usize>,
    absent: &[Range<usize>],
  ) -> Result<ContentHash, EngineError> {
    Ok(context(&self.ledger, &item.path, &Around::without(file, document, span, absent))?)
  }

  /// The hashes of the lines of which an approved text is a part, each with its context.
  pub(super) fn line_approvals(
    &self,
    item: &Item,
    (file, document): (&[u8], &Document),
    span: &Range<usize>,
  ) -> Result<Vec<(ContentHash, ContentHash)>, EngineError> {
    let mut found = Vec::new();
    for (line, hashes) in lines_at(file, document, span) {
      let here = self.around(item, (file, document), &line, &[])?;
      found.extend(hashes.map(|hash| (hash, here)));
    }
    Ok(found)
  }
}

/// Refuses to divide an item that does not wait, or that is in its file.
fn refuse_whole(item: &Item) -> Result<(), EngineError> {
  let id = &item.id;
  if item.in_file && item.status == State::Flagged {
    return Err(EngineError::refused_with(
      format!("`{id}` is flagged, and all of it is in `{}`", shown(&item.path)),
      format!(
        "approve it as it is: `memfw approve {id}`, or take it out first: `memfw quarantine add {id}`"
      ),
    ));
  }
  match item.status {
    status if status.is_waiting() => Ok(()),
    State::Split => refuse_divided(item),
    _ => Err(already(item)),
  }
}

/// The error that says why a text is not divided.
fn undivided(item: &Item, unit: Unit, why: &Undivided) -> EngineError {
  let (id, unit) = (&item.id, unit.as_str());
  match why {
    Undivided::NoSuch { number, count } => {
      let what = crate::plural::count(*count as u64, unit);
      EngineError::refused_with(
        format!("`{id}` has {what}, and no {unit} {number}"),
        format!("see them with their numbers: `memfw show {id} --parts`"),
      )
    }
    Undivided::All => EngineError::refused_with(
      format!("these are all {unit}s of `{id}`"),
      format!("approve it as a whole: `memfw approve {id}`"),
    ),
  }
}

fn too_short(item: &Item) -> EngineError {
  EngineError::refused_with(
    format!("what would stay out of `{}` is too short for a placeholder in its place", item.id),
    format!("choose whole lines: `memfw approve {} --lines`", item.id),
  )
}
