//! What a person in a chat decides about: an item, or a loss of text.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::{
  store::{Item, Ledger, Loss, StoreError},
  terminal::failure::Failure,
};

/// An item or a loss, by an id that a person typed.
pub(super) enum Subject {
  /// A block that was taken out, or is flagged.
  Item(Item),
  /// Text that another program removed.
  Loss(Loss),
}

impl Subject {
  /// The one that has this id, or whose id begins so.
  pub(super) fn of(ledger: &Ledger, id: &str) -> Result<Self, Failure> {
    let found = match ledger.loss(id) {
      Ok(Some(loss)) => return Ok(Self::Loss(loss)),
      Ok(None) => ledger.item(id),
      Err(error) => Err(error),
    };
    match found {
      Ok(item) => Ok(Self::Item(item)),
      Err(StoreError::UnknownId { .. }) => Err(Failure::usage("no item has this id")),
      Err(StoreError::AmbiguousId { .. }) => {
        Err(Failure::usage("several ids begin like this: type more of it"))
      }
      Err(error) => Err(error.into()),
    }
  }

  /// The whole id.
  pub(super) fn id(&self) -> &str {
    match self {
      Self::Item(item) => item.id.as_str(),
      Self::Loss(loss) => loss.id.as_str(),
    }
  }

  /// The file.
  pub(super) fn path(&self) -> &Path {
    match self {
      Self::Item(item) => &item.path,
      Self::Loss(loss) => &loss.path,
    }
  }
}
