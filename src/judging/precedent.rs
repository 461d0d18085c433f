//! Finds an earlier decision about a text, and whether it applies in the current context.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{judge_context::Precedent, origin::Origin, origin::is_somebody};
use crate::{
  detect::{Code, policy::Party},
  memory::{Around, ContentHash},
  provenance::State,
  store::{Ledger, StoreError},
};

/// The name of the context of a text in its file.
pub fn context(ledger: &Ledger, path: &Path, around: &Around) -> Result<ContentHash, StoreError> {
  Ok(around.name(&ledger.known_as(path)?))
}

/// The contexts of several texts of a file, each with the hash of its text.
pub fn contexts(
  ledger: &Ledger,
  path: &Path,
  texts: &[(ContentHash, Around)],
) -> Result<Vec<(ContentHash, ContentHash)>, StoreError> {
  texts.iter().map(|(hash, around)| Ok((*hash, context(ledger, path, around)?))).collect()
}

/// The decision about the same text in the same place: in this file, in this context, and from the same
/// source if it is known by now. A person's rejection applies in the whole file.
pub(super) fn precedent(
  ledger: &Ledger,
  path: &Path,
  around: impl Fn() -> Around,
  hash: &ContentHash,
  origin: &Origin,
  now: i64,
) -> Result<Precedent, StoreError> {
  let mut exceptions = ledger.exceptions_of(*hash)?;
  exceptions.retain(|exception| exception.holds(now));
  if !exceptions.is_empty() {
    let (around, file) = (around(), ledger.known_as(path)?);
    exceptions.retain(|one| one.holds_in(|name| around.is_of(&file, name), around.is_whole()));
  }
  if !exceptions.is_empty() {
    let origin = match ledger.existing_item(path, *hash, 0)? {
      Some(existing) => {
        let item = ledger.item(existing.id.as_str())?;
        Some(Origin::of_item(&item).with_request(ledger))
      }
      None => None,
    };
    return Ok(Precedent::Excused(exceptions, origin));
  }
  match ledger.existing_item(path, *hash, 0)? {
    Some(found)
      if found.status.is_waiting()
        || found.status == State::Rejected
        || ledger.has_part_out(&found.id)? =>
    {
      let item = ledger.item(found.id.as_str())?;
      // A person's decision needs no equal context: the person has read these bytes.
      let is_word = matches!(found.status, State::Rejected | State::Split)
        || item.codes.contains(&Code::ManualQuarantine);
      let file = ledger.known_as(path)?;
      let is_here = found.context.is_none_or(|before| around().is_beside(&file, &before));
      let is_same =
        !is_somebody(&origin.source) || !is_somebody(&item.source) || origin.source == item.source;
      let is_bound = is_here && is_same && origin.party() != Party::Owner;
      Ok(if is_word || is_bound { Precedent::Quarantined(item.codes) } else { Precedent::None })
    }
    Some(_) => Ok(Precedent::None),
    // The file may have been renamed since the person's decision. A rejection still applies to text of
    // this file.
    None => Ok(match ledger.refused_before(path, *hash)? {
      Some(id) => Precedent::Quarantined(ledger.item(id.as_str())?.codes),
      None => Precedent::None,
    }),
  }
}

/// The codes that a person excused for text of this origin.
pub fn allowed_to(ledger: &Ledger, origin: &Origin, now: i64) -> Result<Vec<Code>, StoreError> {
  // A source that was only claimed must not gain anything.
  if !origin.observed {
    return Ok(vec![]);
  }
  let found = ledger.exceptions_for(&origin.source, now)?;
  Ok(found.into_iter().map(|one| one.code).collect())
}
