//! The findings of an item, read back from the ledger.
#![forbid(unsafe_code)]

use crate::{detect::Finding, store::Item};

/// The findings that count for the item: the ledger also has excused ones, which do not.
pub fn counted(item: &Item) -> Vec<Finding> {
  let mut found = item.findings.read();
  found.retain(|finding| item.codes.contains(&finding.code));
  found
}
