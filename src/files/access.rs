//! What may be done with a file: the rules of invariant I6, by the facts about it.
#![forbid(unsafe_code)]

use super::{
  fs::{Kind, Reason, Refusal, TargetRules, Touch},
  resolve::Facts,
};
use crate::os::user;

/// Whether an entry with these facts may be opened, and for what. The resolver has checked that it is on
/// the mount of the root; its device does not show that, because on an overlay it is that of a layer.
pub(super) fn judge(facts: &Facts, rules: &TargetRules) -> Result<Touch, Refusal> {
  match facts.kind {
    Kind::File => {}
    Kind::Symlink => return Err(Refusal::Symlink),
    kind => return Err(Refusal::NotRegular(kind)),
  }
  if facts.stamp.size > rules.max_bytes {
    return Err(Refusal::TooLarge { size: facts.stamp.size, limit: rules.max_bytes });
  }
  if facts.uid != user::effective_uid() && !rules.owners.contains(&facts.uid) {
    return Ok(Touch::ReadOnly(Reason::ForeignOwner(facts.uid)));
  }
  if facts.links > 1 {
    return Ok(Touch::ReadOnly(Reason::HardLinked(facts.links)));
  }
  Ok(Touch::Full)
}

/// The lesser of two permissions.
pub(super) fn lower(one: Touch, other: Touch) -> Touch {
  if one == Touch::Full { other } else { one }
}
