//! What the ledger knows about approvals: which texts a person approved, in which contexts, and whether
//! they are back in their files.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  path::Path,
};

use zeroize::Zeroizing;

use super::approved;
use crate::{
  memory::{Around, BlockId, ContentHash, Document, marker, placeholder},
  provenance::State,
  store::{Exception, Item, ItemFilter, Ledger, StoreError},
};

/// How many approved items of a file are searched for, the newest first (a choice: as many as are
/// decided in one sitting).
const MAX_APPROVED: usize = 200;

/// How long after an approval its placeholder may return, in microseconds: ten minutes, within which
/// programs save what they had read before (docs/adr/0002).
pub const WATCHED_FOR: i64 = 600_000_000;

/// An item that a person has approved, with its text.
pub(super) type Approved = (Item, Zeroizing<Vec<u8>>);

/// A version of a file.
pub struct Version<'a> {
  /// The path of the file.
  pub path: &'a Path,
  /// Its content.
  pub bytes: &'a [u8],
  /// The segments and blocks of `bytes`.
  pub document: &'a Document,
}

/// Answers questions about approvals at one moment.
pub struct Approvals<'a> {
  /// The ledger, for reading.
  pub ledger: &'a Ledger,
  /// Microseconds since the epoch.
  at: i64,
}

impl<'a> Approvals<'a> {
  /// The approvals in this ledger at this moment, in microseconds since the epoch.
  pub const fn new(ledger: &'a Ledger, at: i64) -> Self {
    Self { ledger, at }
  }

  /// Whether a person approved this text, also with other line ends.
  pub(super) fn was_approved(&self, path: &Path, text: &[u8]) -> Result<bool, StoreError> {
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

  /// Whether an approved text that begins within a line is in these lines, in the context of its
  /// approval: it was appended to a line without an end.
  pub(super) fn is_within_lines(
    &self,
    version: &Version<'_>,
    approved: &[Approved],
    lines: &Range<usize>,
    absent: &[Range<usize>],
  ) -> Result<bool, StoreError> {
    let &Version { path, bytes, document } = version;
    let mut found = false;
    for (item, text) in approved {
      // A text at the start of a line is a line of its own, which the comparison finds.
      let place = marker::find(bytes, text, lines.start + 1).filter(|_| !text.is_empty());
      let Some(start) = place.filter(|start| start + text.len() <= lines.end) else { continue };
      let span = start..start + text.len();
      let now = [&[][..], absent].map(|gone| Around::without(bytes, document, &span, gone));
      if self.have_lapsed(path, &[item.hash], &now)? {
        return Ok(false);
      }
      found = true;
    }
    Ok(found)
  }

  /// Whether the approvals of a text with these hashes are bound to other contexts than these. An older
  /// approval, for which only the neighbours were recorded, never lapses this way.
  pub fn have_lapsed(
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
  pub fn still_holds(
    &self,
    path: &Path,
    hash: ContentHash,
    now: &[Around],
  ) -> Result<bool, StoreError> {
    let mut exceptions = self.ledger.exceptions_of(hash)?;
    exceptions.retain(|exception| exception.holds(self.at));
    Ok(!exceptions.is_empty() && !self.is_elsewhere(path, &exceptions, now)?)
  }

  /// The items with this text that were approved in one of these contexts, also if the approval is not
  /// valid any more.
  pub fn approved_in_context(
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
    // Narrow names are from an earlier version, which recorded only the neighbouring lines.
    if !bound.iter().any(|name| Around::is_wide(name)) {
      return Ok(false);
    }
    let file = self.ledger.known_as(path)?;
    Ok(!now.iter().any(|around| bound.iter().any(|name| around.is_of(&file, name))))
  }

  /// The approved texts of a file in `bytes`, with their spans.
  pub fn places_in(
    &self,
    path: &Path,
    bytes: &[u8],
  ) -> Result<Vec<(Item, Range<usize>)>, StoreError> {
    let mut found = Vec::new();
    for (item, plain) in self.texts(path)? {
      found.extend(placeholder::lines_equal_to(bytes, &plain).map(|span| (item.clone(), span)));
    }
    Ok(found)
  }

  /// Whether the file has as many copies of an approved text as were approved.
  pub fn is_back(&self, item: &Item, bytes: &[u8], plain: &[u8]) -> Result<bool, StoreError> {
    let count = placeholder::lines_equal_to(bytes, plain).count();
    Ok(count > 0 && count >= self.copies(&item.path, item.hash)?)
  }

  /// The placeholders of approved items whose text was restored in this version; these are copies without a
  /// function.
  pub(super) fn spare_placeholders(
    &self,
    document: &Document,
    bytes: &[u8],
    states: &HashMap<BlockId, State>,
  ) -> Result<Vec<BlockId>, StoreError> {
    let is_approved = |id: &&BlockId| states.get(*id) == Some(&State::Approved);
    let approved: HashSet<&BlockId> = document.placeholders().filter(is_approved).collect();
    let mut spare = Vec::new();
    for id in approved {
      let Some(plain) = plain_of(self.ledger, id)? else { continue };
      if self.is_back(&self.ledger.item(id.as_str())?, bytes, &plain)? {
        spare.push(id.clone());
      }
    }
    Ok(spare)
  }

  /// The approved texts of a file, the newest first.
  pub fn texts(&self, path: &Path) -> Result<Vec<Approved>, StoreError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: Some(path.to_owned()) };
    let mut found = Vec::new();
    // The ledger returns the oldest first, and a recent decision is the likeliest to be searched
    // for.
    // A part of a line is approved with the line that it is in, and would be found in others.
    let approved = self.ledger.items(&filter)?.into_iter().rev();
    let approved = approved.filter(|item| !item.in_file && !item.is_inline());
    for item in approved.take(MAX_APPROVED) {
      // Without its bytes, the text cannot be searched for.
      if let Some(plain) = plain_of(self.ledger, &item.id)? {
        found.push((item, plain));
      }
    }
    Ok(found)
  }

  /// How many copies of an approved text may be in its file: one for each time that it was approved.
  pub fn copies(&self, path: &Path, hash: ContentHash) -> Result<usize, StoreError> {
    let filter = ItemFilter { statuses: vec![State::Approved], path: Some(path.to_owned()) };
    let is_same = |other: &Item| other.hash == hash && !other.in_file;
    Ok(self.ledger.items(&filter)?.iter().filter(|other| is_same(other)).count())
  }

  /// Whether this version contains the placeholder of a recently approved item.
  pub fn has_returned(&self, path: &Path, document: &Document) -> Result<bool, StoreError> {
    let standing: HashSet<&BlockId> = document.placeholders().collect();
    if standing.is_empty() {
      return Ok(false);
    }
    let watched = self.ledger.approved_since(path, self.at.saturating_sub(WATCHED_FOR))?;
    Ok(watched.iter().any(|id| standing.contains(id)))
  }
}

/// The sealed bytes of an item; `None` if they cannot be read any more.
pub fn plain_of(ledger: &Ledger, id: &BlockId) -> Result<Option<Zeroizing<Vec<u8>>>, StoreError> {
  match ledger.unseal(id) {
    Ok(plain) => Ok(Some(plain)),
    Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. } | StoreError::NoKey) => Ok(None),
    Err(error) => Err(error),
  }
}
