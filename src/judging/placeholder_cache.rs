//! The placeholders of items, cached so that an item is unsealed once and not for each change of a file
//! with many placeholders.
//!
//! The placeholder of an item follows from its bytes and its id. It never changes, so entries are
//! dropped only to limit the size.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::{memory::BlockId, store::Ledger};

/// The most bytes that are kept; beyond them the cache is cleared.
const ROOM: usize = 1 << 20;

/// Placeholders by id.
#[derive(Debug, Default)]
pub struct PlaceholderCache {
  known: HashMap<BlockId, Vec<u8>>,
  bytes: usize,
}

impl PlaceholderCache {
  /// The placeholder of an item; `None` if its seal cannot be opened.
  pub(super) fn of(&mut self, ledger: &Ledger, id: &BlockId) -> Option<Vec<u8>> {
    if let Some(form) = self.known.get(id) {
      return Some(form.clone());
    }
    let form = ledger.redacted_form(id).ok()?;
    if self.bytes + form.len() > ROOM {
      self.known.clear();
      self.bytes = 0;
    }
    if form.len() <= ROOM {
      self.bytes += form.len();
      self.known.insert(id.clone(), form.clone());
    }
    Some(form)
  }
}
