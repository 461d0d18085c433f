//! The findings of an item.
#![forbid(unsafe_code)]

use crate::{detect::Finding, store::Item};

/// The findings because of which an item was taken out: without those that a person has excused.
pub fn counted(item: &Item) -> Vec<Finding> {
  let mut found = Finding::list_from_json(&item.findings_json);
  found.retain(|finding| item.codes.contains(&finding.code));
  found
}
