//! The closed list of kinds of events.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

/// The kind of an event. Its word is the same in the ledger, JSON, log and on the command line.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  Hash,
  strum::EnumMessage,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum EventKind {
  /// The daemon is guarding.
  #[strum(message = "started")]
  Started,
  /// The daemon stopped in an orderly way.
  #[strum(message = "stopped")]
  Stopped,
  /// A file was seen for the first time, and its content was adopted unchanged.
  #[strum(message = "baseline adopted")]
  Adopted,
  /// Fresh lines were judged and stay.
  #[strum(message = "block kept")]
  Kept,
  /// Fresh lines stay, with findings.
  #[strum(message = "block flagged")]
  Flagged,
  /// The encoder has read a flagged block and finds it harmless.
  #[strum(message = "flag withdrawn")]
  Cleared,
  /// A block went into quarantine.
  #[strum(message = "block quarantined")]
  Quarantined,
  /// Policy took a block out of its file, and the block waits for review.
  #[strum(message = "block held")]
  Held,
  /// A quarantined block was written again and taken out again.
  #[strum(message = "quarantined block came back and was taken out again")]
  Returned,
  /// A write of a text that waits already was refused.
  #[strum(message = "write of text that waits was refused again")]
  RefusedAgain,
  /// Refused texts were not sealed, because too many were.
  #[strum(message = "refused text not kept")]
  NotKept,
  /// A plugin got the verdict on a poisoned write too late to refuse it.
  #[strum(message = "poisoned write not refused in time")]
  LetThrough,
  /// The agent framework asks the owner before a poisoned write.
  #[strum(message = "owner asked before a poisoned write")]
  OwnerAsked,
  /// The owner answered, or did not in time.
  #[strum(message = "answer of the owner about a poisoned write")]
  OwnerAnswered,
  /// The placeholder of approved text returned with an older version, and the text was restored again.
  #[strum(message = "approved text restored once more")]
  BroughtBack,
  /// A marker that memfw did not write was neutralised.
  #[strum(message = "forged marker neutralised")]
  ForgedMarker,
  /// The source of a text became known.
  #[strum(message = "source known")]
  Attributed,
  /// A text that was taken out of a file came from a trusted source; it stays out until a person
  /// decides.
  #[strum(message = "source found trusted after a redaction")]
  FoundTrusted,
  /// A person approved a block.
  #[strum(message = "block approved")]
  Approved,
  /// A person excused codes for all text of a source.
  #[strum(message = "source allowed")]
  Allowed,
  /// A person withdrew an approval.
  #[strum(message = "approval withdrawn")]
  Withdrawn,
  /// A person rejected a block.
  #[strum(message = "block rejected")]
  Rejected,
  /// A person took a decision back.
  #[strum(message = "decision undone")]
  Undone,
  /// A person had the sealed bytes of an item deleted.
  #[strum(message = "quarantined bytes deleted")]
  Deleted,
  /// A person restored an earlier version of a file.
  #[strum(message = "earlier version restored")]
  RestoredVersion,
  /// A memory file has lost much of its text, by another program.
  #[strum(message = "memory file lost text")]
  Lost,
  /// A person accepts that a memory file has lost text.
  #[strum(message = "loss of text accepted")]
  LossApproved,
  /// A person had the lost text of a memory file restored.
  #[strum(message = "lost text restored")]
  LossRejected,
  /// Text that a memory file had lost is in memory again.
  #[strum(message = "lost text is back")]
  LossEnded,
  /// A person made the agent framework trust a file again.
  #[strum(message = "file trusted again")]
  Retrusted,
  /// A skill was seen for the first time.
  #[strum(message = "skill seen for the first time")]
  SkillNew,
  /// The files of a skill changed.
  #[strum(message = "skill changed")]
  SkillChanged,
  /// The text of a skill has findings, its signature is broken, or not all of it can be checked.
  #[strum(message = "skill flagged")]
  SkillFlagged,
  /// A skill is gone.
  #[strum(message = "skill is gone")]
  SkillGone,
  /// A person trusts a skill.
  #[strum(message = "skill trusted")]
  SkillTrusted,
  /// A person withdrew the trust in a skill.
  #[strum(message = "trust in a skill withdrawn")]
  SkillWithdrawn,
  /// A person changed which keys may sign skills.
  #[strum(message = "key for skills changed")]
  SkillKey,
  /// Entries of memory were handed to a run of the agent.
  #[strum(message = "memory handed to a run")]
  Injected,
  /// Markers were written or placeholders compacted.
  #[strum(message = "markers renewed")]
  Reshaped,
  /// An interrupted operation was completed or dropped.
  #[strum(message = "interrupted operation recovered")]
  Recovered,
  /// A file is gone.
  #[strum(message = "memory file is gone")]
  Vanished,
  /// A file has a new name, and the ledger's knowledge about it moves along.
  #[strum(message = "memory file was renamed")]
  Renamed,
  /// A file is not fully guarded.
  #[strum(message = "file is not fully guarded")]
  Unguarded,
  /// Protection is reduced.
  #[strum(message = "protection is reduced")]
  Degraded,
  /// A reduction of protection has ended.
  #[strum(message = "protection is complete again")]
  Restored,
  /// A changed configuration took effect.
  #[strum(message = "configuration reloaded")]
  Reloaded,
  /// All files are scanned again, because the watcher may have missed a change.
  #[strum(message = "rescanned everything")]
  Rescanned,
  /// Old records were removed.
  #[strum(message = "old records pruned")]
  Pruned,
  /// The summary of a day.
  #[strum(message = "daily summary")]
  Summary,
}

impl EventKind {
  /// All kinds.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The kebab-case word.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// The constant message of the log line.
  pub fn message(self) -> &'static str {
    strum::EnumMessage::get_message(&self).unwrap_or_default()
  }
}

impl EventKind {
  /// Frequent events that need no attention: if there are too many events, these are removed first.
  pub const ROUTINE: &'static [Self] =
    &[Self::Kept, Self::Attributed, Self::Injected, Self::Reshaped, Self::Vanished];
}

impl fmt::Display for EventKind {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

impl FromStr for EventKind {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, String> {
    Self::ALL
      .iter()
      .copied()
      .find(|kind| kind.as_str() == text)
      .ok_or_else(|| format!("unknown event `{text}`"))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn every_kind_is_in_the_glossary_of_the_book() {
    let page = include_str!("../../docs/how-it-works.md");
    let (_, events) = page.split_once("\n## Events\n").unwrap();
    let rows: Vec<&str> = events.lines().filter_map(|line| line.strip_prefix("| `")).collect();
    let named: Vec<&str> =
      rows.iter().filter_map(|row| row.split_once("` | ")).map(|row| row.0).collect();
    let kinds: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(named, kinds, "in the order of the type");
  }

  #[test]
  fn words_round_trip_and_are_unique() {
    for kind in EventKind::ALL {
      assert_eq!(kind.as_str().parse(), Ok(*kind));
    }
  }
}
