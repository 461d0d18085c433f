//! Lapsed approvals: approved text whose meaning has changed, because it is under another heading,
//! after other introducing words, or part of another sentence. It is judged as if no person had read
//! it.
#![forbid(unsafe_code)]

use std::{ops::Range, path::Path};

use zeroize::Zeroizing;

use super::{
  Engine, EngineError, Target, approved,
  claim::claims,
  judge::{self, BlockJudgement, JudgeContext, Origin},
  precedent::context,
  together,
  unit::Brought,
  view::View,
};
use crate::{
  files::Fs,
  memory::{
    Around, BlockId, Comparison, ContentHash, Document, Fate, line::LineKind, marker, placeholder,
  },
  provenance::State,
  store::{Exception, Item, ItemFilter, StoreError},
};

/// How many approved items of a file are searched for, the newest first (a choice: as many as are
/// decided in one sitting).
const MAX_APPROVED: usize = 200;

/// An item that a person has approved, with its text.
type Approved = (Item, Zeroizing<Vec<u8>>);

/// A version of a file.
pub(super) struct Version<'a> {
  pub(super) path: &'a Path,
  pub(super) bytes: &'a [u8],
  pub(super) document: &'a Document,
}

impl<F: Fs> Engine<F> {
  /// Adds the judgements on approved text whose approval has lapsed. Fresh text has its own judgements
  /// already.
  pub(super) fn lapse(
    &self,
    version: &Version<'_>,
    comparison: &Comparison,
    judgements: &mut [Option<BlockJudgement>],
    court: &mut JudgeContext<'_>,
  ) -> Result<(), EngineError> {
    let &Version { path, bytes, document } = version;
    if !court.known.iter().any(|row| row.revisions.iter().any(|one| one.approved)) {
      return Ok(());
    }
    let fresh = fresh(document, comparison);
    let leaving = leaving(document, comparison, judgements);
    let mut absent: Vec<Range<usize>> = claims(bytes).collect();
    absent.extend(leaving.iter().cloned());
    let mut lapsed = Vec::new();
    let mut standing = None;
    for run in approved::runs(document, comparison, court, &[&fresh[..], &leaving].concat()) {
      let is_known = |text: &[u8]| self.was_approved(path, text);
      for part in approved::parts(bytes, document, &run, is_known)? {
        let now = [&[][..], &absent].map(|gone| Around::without(bytes, document, &part.span, gone));
        let is_lapsed = if part.is_known {
          self.lapses(path, &part.hashes, &now)?
        } else {
          let standing = match &mut standing {
            Some(standing) => standing,
            none => none.insert(self.approved_texts(path)?),
          };
          !self.stands_within(version, standing, &part.span, &absent)?
        };
        if is_lapsed {
          lapsed.extend(part.by_block());
        }
      }
    }
    for (index, lines, by) in lapsed {
      let Some(block) = document.blocks().get(index) else { continue };
      let spans: Vec<Range<usize>> =
        lines.iter().filter_map(|&at| Some(block.lines.get(at)?.span.clone())).collect();
      let row = court.known.get(by.0);
      let Some(revision) = row.and_then(|row| row.revision(by.1)) else { continue };
      let origin = self.with_request(Origin::of_revision(revision));
      let allowed = self.allowed_to(&origin)?;
      let mut court = JudgeContext {
        slice: court.slice,
        origin: &origin,
        treatment: court.treatment,
        config: court.config,
        rules: court.rules,
        known: court.known,
        continued: &[],
        restored: None,
        allowed: &allowed,
        slots: court.slots,
        precedent: None,
        assess: &mut *court.assess,
        reads_on: court.reads_on,
        consult: None,
      };
      let mut brought = together::brought(block, index, comparison, &court);
      // No person has read the lines in their current context.
      for &at in &lines {
        if let Some(one) = brought.get_mut(at) {
          *one = Some(Brought::judged(&origin));
        }
      }
      let mut judgement = judge::judge_lines(bytes, block, &spans, &brought, &mut court);
      let Some(slot) = judgements.get_mut(index).filter(|_| judgement.decision.leaves()) else {
        continue;
      };
      judgement.lines.get_or_insert(lines);
      judgement.origin.get_or_insert(origin);
      *slot = Some(match slot.take() {
        Some(other) if other.decision.leaves() => {
          judgement.beside(other, || lines_in(document, index, &fresh))
        }
        _ => judgement,
      });
    }
    Ok(())
  }

  /// Whether an approved text that begins within a line is in these lines, in the context of its
  /// approval: it was appended to a line without an end.
  fn stands_within(
    &self,
    version: &Version<'_>,
    approved: &[Approved],
    lines: &Range<usize>,
    absent: &[Range<usize>],
  ) -> Result<bool, StoreError> {
    let &Version { path, bytes, document } = version;
    let mut found = false;
    for (item, text) in approved {
      let place = marker::find(bytes, text, lines.start + 1).filter(|_| !text.is_empty());
      let Some(start) = place.filter(|start| start + text.len() <= lines.end) else { continue };
      let span = start..start + text.len();
      let now = [&[][..], absent].map(|gone| Around::without(bytes, document, &span, gone));
      if self.has_lapsed(path, item.hash, &now)? {
        return Ok(false);
      }
      found = true;
    }
    Ok(found)
  }

  /// Whether a person approved this text, also with other line ends.
  fn was_approved(&self, path: &Path, text: &[u8]) -> Result<bool, StoreError> {
    let [exact, same] = approved::hashes(text);
    Ok(
      !self.ledger.exceptions_of(exact)?.is_empty()
        || !self.ledger.exceptions_of(same)?.is_empty()
        // If an approval was withdrawn, the text stays in its place.
        || self
          .ledger
          .existing_item(path, exact, 0)?
          .is_some_and(|item| item.status == State::Approved),
    )
  }

  /// Whether the approval of a text is bound to other contexts than these. An older approval, for which
  /// only the neighbours were recorded, never lapses this way.
  pub(super) fn has_lapsed(
    &self,
    path: &Path,
    hash: ContentHash,
    now: &[Around],
  ) -> Result<bool, StoreError> {
    self.lapses(path, &[hash], now)
  }

  /// Whether the approval of a text with several hashes has lapsed.
  fn lapses(
    &self,
    path: &Path,
    hashes: &[ContentHash],
    now: &[Around],
  ) -> Result<bool, StoreError> {
    let mut exceptions = Vec::new();
    for &hash in hashes {
      exceptions.extend(self.ledger.exceptions_of(hash)?);
    }
    self.is_elsewhere(path, &exceptions, now)
  }

  /// Whether an approval of a text is still valid, and valid in these contexts.
  pub(super) fn may_stand(
    &self,
    path: &Path,
    hash: ContentHash,
    now: &[Around],
  ) -> Result<bool, StoreError> {
    let at = self.now();
    let mut exceptions = self.ledger.exceptions_of(hash)?;
    exceptions.retain(|exception| exception.holds(at));
    Ok(!exceptions.is_empty() && !self.is_elsewhere(path, &exceptions, now)?)
  }

  /// The items with this text that were approved in one of these contexts, also if the approval is not
  /// valid any more.
  pub(super) fn approved_here(
    &self,
    path: &Path,
    hash: ContentHash,
    now: &[Around],
  ) -> Result<Vec<BlockId>, StoreError> {
    let file = self.ledger.known_as(path)?;
    let is_here = |one: &Exception| {
      now.iter().any(|around| one.contexts.iter().any(|name| around.is_of(&file, name)))
    };
    let exceptions = self.ledger.exceptions_of(hash)?.into_iter().filter(is_here);
    Ok(exceptions.filter_map(|one| one.key.item).collect())
  }

  /// Whether these approvals are bound to contexts, but to none of these.
  fn is_elsewhere(
    &self,
    path: &Path,
    exceptions: &[Exception],
    now: &[Around],
  ) -> Result<bool, StoreError> {
    let bound: Vec<&ContentHash> = exceptions.iter().flat_map(|one| &one.contexts).collect();
    if !bound.iter().any(|name| Around::is_wide(name)) {
      return Ok(false);
    }
    let file = self.ledger.known_as(path)?;
    Ok(!now.iter().any(|around| bound.iter().any(|name| around.is_of(&file, name))))
  }

  /// The approved texts of a file in `bytes`, with their spans.
  pub(super) fn approved_in(
    &self,
    path: &Path,
    bytes: &[u8],
  ) -> Result<Vec<(Item, Range<usize>)>, StoreError> {
    let mut found = Vec::new();
    for (item, plain) in self.approved_texts(path)? {
      found.extend(placeholder::standing(bytes, &plain).map(|span| (item.clone(), span)));
    }
    Ok(found)
  }

  /// Extends approvals to the context after a redaction, because memfw's own redaction does not change
  /// the meaning of the approved text beside it: an approval that is valid in `view` is also valid in
  /// what is `left` of it. Both have the same length.
  pub(super) fn approved_beside(
    &mut self,
    target: &Target,
    view: &View,
    left: &[u8],
    redactions: &[Range<usize>],
  ) -> Result<(), StoreError> {
    if !view.facts.rows.iter().any(|row| row.revisions.iter().any(|one| one.approved)) {
      return Ok(());
    }
    let path = target.path();
    let document = view.facts.read(left);
    let [before, after] = [&view.bytes[..], left].map(|bytes| claims(bytes).collect::<Vec<_>>());
    for (item, span) in self.approved_in(&path, left)? {
      let around = |gone| Around::without(&view.bytes, &view.document, &span, gone);
      let goes = redactions.iter().any(|gone| judge::overlaps(gone, &span));
      if goes || !self.may_stand(&path, item.hash, &[around(&[]), around(&before)])? {
        continue;
      }
      let text = left.get(span.clone()).unwrap_or_default();
      let now = [&[][..], &after].map(|gone| Around::without(left, &document, &span, gone));
      for around in now {
        let here = context(&self.ledger, &path, &around)?;
        for hash in approved::hashes(text) {
          self.ledger.except_in(&path, hash, here)?;
        }
      }
    }
    Ok(())
  }

  /// The approved texts of a file, the newest first.
  fn approved_texts(&self, path: &Path) -> Result<Vec<Approved>, StoreError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: Some(path.to_owned()) };
    let mut found = Vec::new();
    let approved = self.ledger.items(&filter)?.into_iter().rev().filter(|item| !item.in_file);
    for item in approved.take(MAX_APPROVED) {
      match self.ledger.unseal(&item.id) {
        // Without its bytes, the text cannot be searched for.
        Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. } | StoreError::NoKey) => {}
        plain => found.push((item, plain?)),
      }
    }
    Ok(found)
  }

  /// How many copies of an approved text may be in its file: one for each time that it was approved.
  pub(super) fn approved_copies(&self, item: &Item) -> Result<usize, StoreError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: Some(item.path.clone()) };
    let is_same = |other: &Item| other.hash == item.hash && !other.in_file;
    Ok(self.ledger.items(&filter)?.iter().filter(|other| is_same(other)).count())
  }
}

/// The fresh lines.
fn fresh(document: &Document, comparison: &Comparison) -> Vec<Range<usize>> {
  let blocks = document.blocks().iter().zip(&comparison.fates);
  let of = |(block, fate): (&crate::memory::Block, &Fate)| -> Vec<Range<usize>> {
    let lines = block.lines.iter().enumerate();
    let is_fresh = |at: usize| match fate {
      Fate::Unchanged { .. } | Fate::Moved { .. } => false,
      Fate::Inserted => true,
      Fate::Edited { fresh, .. } => fresh.contains(&at),
    };
    lines.filter(|(at, _)| is_fresh(*at)).map(|(_, one)| one.span.clone()).collect()
  };
  blocks.flat_map(of).collect()
}

/// The lines that these judgements take out.
fn leaving(
  document: &Document,
  comparison: &Comparison,
  judgements: &[Option<BlockJudgement>],
) -> Vec<Range<usize>> {
  let fresh = fresh(document, comparison);
  let mut all = Vec::new();
  for (index, judgement) in judgements.iter().enumerate() {
    let Some(judgement) = judgement.as_ref().filter(|one| one.decision.leaves()) else { continue };
    let lines = judgement.lines.clone().unwrap_or_else(|| lines_in(document, index, &fresh));
    let Some(block) = document.blocks().get(index) else { continue };
    all.extend(lines.iter().filter_map(|&at| Some(block.lines.get(at)?.span.clone())));
  }
  all
}

/// The lines of a block that are in one of these spans and are not blank.
fn lines_in(document: &Document, index: usize, spans: &[Range<usize>]) -> Vec<usize> {
  let lines = document.blocks().get(index).into_iter().flat_map(|block| &block.lines).enumerate();
  let is_in = |span: &Range<usize>| spans.iter().any(|one| judge::overlaps(one, span));
  lines
    .filter(|(_, one)| one.kind != LineKind::Blank && is_in(&one.span))
    .map(|(at, _)| at)
    .collect()
}
