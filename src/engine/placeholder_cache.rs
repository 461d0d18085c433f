//! What stands in files in place of what was taken out, so that it is unsealed once and not each time
//! that a file with many placeholders changes.
//!
//! The form of an item follows from its bytes and its id, so it never changes and nothing has to be
//! forgotten but for room.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::{memory::BlockId, store::Ledger};

/// Bytes that are kept, at most; then all of it is read anew.
const ROOM: usize = 1 << 20;

/// Forms by id.
#[derive(Debug, Default)]
pub(super) struct PlaceholderCache {
  known: HashMap<BlockId, Vec<u8>>,
  bytes: usize,
}

impl PlaceholderCache {
  /// The form of an item; `None` where its seal does not open.
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
