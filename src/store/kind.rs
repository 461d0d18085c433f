//! The closed list of kinds of events.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

macro_rules! events {
  ($($(#[$doc:meta])* $variant:ident = $word:literal, $message:literal;)*) => {
    /// The kind of an event. The ledger, JSON, the log and the command line share its word.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum EventKind { $($(#[$doc])* $variant,)* }

    impl EventKind {
      /// All kinds.
      pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

      /// The kebab-case word.
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $word,)* }
      }

      /// The constant message of the log line.
      pub const fn message(self) -> &'static str {
        match self { $(Self::$variant => $message,)* }
      }
    }
  };
}

events! {
  /// The daemon is guarding.
  Started = "started", "started";
  /// The daemon stopped in an orderly way.
  Stopped = "stopped", "stopped";
  /// A file was seen for the first time, and its content was adopted unchanged.
  Adopted = "adopted", "baseline adopted";
  /// Fresh lines were judged and stay.
  Kept = "kept", "block kept";
  /// Fresh lines stay, with findings.
  Flagged = "flagged", "block flagged";
  /// A block went into quarantine.
  Quarantined = "quarantined", "block quarantined";
  /// Policy took a block out of its file, and the block waits for review.
  Held = "held", "block held";
  /// A quarantined block was written again and taken out again.
  Returned = "returned", "quarantined block came back and was taken out again";
  /// The placeholder of approved text returned with an older version, and the text was restored again.
  BroughtBack = "brought-back", "approved text restored once more";
  /// A marker that memfw did not write was neutralised.
  ForgedMarker = "forged-marker", "forged marker neutralised";
  /// The source of a text became known.
  Attributed = "attributed", "source known";
  /// A text that was taken out of a file came from a trusted source; it stays out until a person
  /// decides.
  FoundTrusted = "found-trusted", "source found trusted after a redaction";
  /// A person approved a block.
  Approved = "approved", "block approved";
  /// A person excused codes for all text of a source.
  Allowed = "allowed", "source allowed";
  /// A person withdrew an approval.
  Withdrawn = "withdrawn", "approval withdrawn";
  /// A person rejected a block.
  Rejected = "rejected", "block rejected";
  /// A person had the sealed bytes of an item deleted.
  Deleted = "deleted", "quarantined bytes deleted";
  /// A person restored an earlier version of a file.
  RestoredVersion = "restored-version", "earlier version restored";
  /// A person made the agent framework trust a file again.
  Retrusted = "retrusted", "file trusted again";
  /// Markers were written or placeholders compacted.
  Reshaped = "reshaped", "markers renewed";
  /// An interrupted operation was completed or dropped.
  Recovered = "recovered", "interrupted operation recovered";
  /// A file is gone.
  Vanished = "vanished", "memory file is gone";
  /// A file has a new name, and the ledger's knowledge about it moves along.
  Renamed = "renamed", "memory file was renamed";
  /// A file is not fully guarded.
  Unguarded = "unguarded", "file is not fully guarded";
  /// Protection is reduced.
  Degraded = "degraded", "protection is reduced";
  /// A reduction of protection has ended.
  Restored = "restored", "protection is complete again";
  /// A changed configuration took effect.
  Reloaded = "reloaded", "configuration reloaded";
  /// All files are scanned again, because the watcher may have missed a change.
  Rescanned = "rescanned", "rescanned everything";
  /// Old records were removed.
  Pruned = "pruned", "old records pruned";
  /// The summary of a day.
  Summary = "summary", "daily summary";
}

impl EventKind {
  /// Frequent events that need no attention: if there are too many events, these are removed first.
  pub const ROUTINE: &'static [Self] =
    &[Self::Kept, Self::Attributed, Self::Reshaped, Self::Vanished];
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
  fn words_round_trip_and_are_unique() {
    for kind in EventKind::ALL {
      assert_eq!(kind.as_str().parse(), Ok(*kind));
    }
  }
}
