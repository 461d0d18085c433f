//! What memfw tells an operator: a closed list of events, each a row in the ledger and a line in the
//! log.
//!
//! The fields never hold memory text, only ids, codes, paths, lengths and memfw's own words.
#![forbid(unsafe_code)]

use std::{fmt, fmt::Write as _, path::Path, str::FromStr};

use tracing::Level;

use super::origin::Origin;
use crate::{
  detect::{Code, Layer},
  memory::BlockId,
  provenance::{Attestation, Source, Trust},
  store::NewEvent,
};

macro_rules! events {
  ($($(#[$doc:meta])* $variant:ident = $word:literal, $message:literal;)*) => {
    /// The kind of an event. Its word is the same in the ledger, JSON, log and on the command line.
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
  /// A quarantined block came back and was taken out again.
  Returned = "returned", "quarantined block came back and went out again";
  /// The placeholder of approved text came back with an older version, and the text was brought back
  /// again.
  BroughtBack = "brought-back", "approved text brought back once more";
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
  RestoredVersion = "restored-version", "earlier version brought back";
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
  Restored = "restored", "protection is whole again";
  /// A changed configuration took effect.
  Reloaded = "reloaded", "configuration reloaded";
  /// All files are scanned again, because the watcher may have missed a change.
  Rescanned = "rescanned", "rescanned everything";
  /// Old records were removed.
  Pruned = "pruned", "old records taken away";
  /// The summary of a day.
  Summary = "summary", "daily summary";
}

impl EventKind {
  /// Frequent events that need no attention: if there are too many events, these are removed first.
  pub const ROUTINE: &'static [Self] =
    &[Self::Kept, Self::Attributed, Self::Reshaped, Self::Vanished];

  /// The level of an event, in the log and wherever else it is shown.
  pub fn level(self) -> Level {
    match self {
      Self::Degraded | Self::Unguarded => Level::ERROR,
      Self::Rescanned | Self::Recovered => Level::WARN,
      kind if Self::ROUTINE.contains(&kind) => Level::DEBUG,
      _ => Level::INFO,
    }
  }
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

/// Builds an event.
#[derive(Clone, Debug)]
pub struct Event(NewEvent);

impl Event {
  /// An event with only its kind.
  pub fn new(kind: EventKind) -> Self {
    Self(NewEvent { event: kind.as_str(), ..NewEvent::default() })
  }

  /// Sets the file.
  #[must_use]
  pub fn path(mut self, path: &Path) -> Self {
    self.0.path = Some(path.to_owned());
    self
  }

  /// Sets the block.
  #[must_use]
  pub fn block(mut self, id: &BlockId) -> Self {
    self.0.block = Some(id.clone());
    self
  }

  /// Sets the source and its trust.
  #[must_use]
  pub fn origin(mut self, source: &Source, trust: Trust) -> Self {
    self.0.source = Some(source.clone());
    self.0.trust = Some(trust);
    self
  }

  /// Sets the origin, as far as it is known.
  #[must_use]
  pub fn of(self, origin: &Origin) -> Self {
    let mut event = self.origin(&origin.source, origin.trust);
    event.0.attestation = Some(origin.attestation);
    event.0.session.clone_from(&origin.session);
    event
  }

  /// Sets the layer, the codes, the score, and the action.
  #[must_use]
  pub fn decided(mut self, layer: Layer, codes: &[Code], score: f32, action: &'static str) -> Self {
    self.0.layer = Some(layer);
    self.0.codes = codes.to_vec();
    self.0.score = Some(score);
    self.0.action = Some(action);
    self
  }

  /// Sets the detail, in memfw's own words.
  #[must_use]
  pub fn detail(mut self, detail: impl Into<String>) -> Self {
    self.0.detail = detail.into();
    self
  }

  /// The row for the ledger.
  pub fn row(&self) -> NewEvent {
    self.0.clone()
  }

  /// The row for the ledger, with the time that the decision took, in milliseconds.
  pub fn row_in(&self, took_ms: f64) -> NewEvent {
    // Values outside the range of a number of microseconds saturate.
    NewEvent { took_us: Some((took_ms * 1e3).round() as u64), ..self.row() }
  }

  /// Writes the log line. `took_ms` is how long the decision took.
  pub fn log(&self, took_ms: Option<f64>) {
    let event = &self.0;
    let kind = EventKind::from_str(event.event).unwrap_or(EventKind::Degraded);
    let codes = event.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",");
    macro_rules! line {
      ($level:ident) => {
        tracing::$level!(
          target: "memfw",
          event = kind.as_str(),
          file = event.path.as_deref().map(shown),
          block = event.block.as_ref().map(BlockId::as_str),
          source = event.source.as_ref().map(Source::as_str),
          trust = event.trust.map(Trust::as_str),
          attestation = event.attestation.map(Attestation::as_str),
          session = event.session.as_deref(),
          layer = event.layer.map(Layer::as_str),
          code = (!codes.is_empty()).then_some(codes.as_str()),
          score = event.score.map(rounded),
          action = event.action,
          took_ms = took_ms.map(|took| (took * 1e3).round() / 1e3),
          detail = (!event.detail.is_empty()).then_some(event.detail.as_str()),
          "{}", kind.message()
        )
      };
    }
    match kind.level() {
      Level::ERROR => line!(error),
      Level::WARN => line!(warn),
      Level::DEBUG => line!(debug),
      _ => line!(info),
    }
  }
}

/// The detail of the event that `n` blocks from before memfw were adopted.
pub fn adopted(n: usize) -> String {
  if n == 1 { ADOPTED_ONE.to_owned() } else { format!("{n}{ADOPTED}") }
}

/// The number of blocks in such a detail.
pub fn n_adopted(detail: &str) -> Option<u64> {
  if detail == ADOPTED_ONE { Some(1) } else { detail.strip_suffix(ADOPTED)?.parse().ok() }
}

const ADOPTED: &str = " blocks adopted as they are";
const ADOPTED_ONE: &str = "1 block adopted as it is";

/// A score, rounded to three digits after the point.
pub fn rounded(score: f32) -> f64 {
  (f64::from(score) * 1e3).round() / 1e3
}

/// A path for a log line, with control characters and invalid bytes escaped, so that a hostile file
/// name cannot add lines.
pub fn shown(path: &Path) -> String {
  use std::os::unix::ffi::OsStrExt as _;
  let mut text = String::new();
  for chunk in path.as_os_str().as_bytes().utf8_chunks() {
    for c in chunk.valid().chars() {
      if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
    }
    for byte in chunk.invalid() {
      // Writing to a String cannot fail.
      write!(text, "\\x{byte:02x}").ok();
    }
  }
  text
}

#[cfg(test)]
mod tests {
  use std::os::unix::ffi::OsStrExt as _;

  use super::*;

  #[test]
  fn words_round_trip_and_are_unique() {
    for kind in EventKind::ALL {
      assert_eq!(kind.as_str().parse(), Ok(*kind));
    }
  }

  #[test]
  fn a_row_has_whole_microseconds_and_a_count_comes_back() {
    let event = Event::new(EventKind::Kept);
    assert_eq!((event.row().took_us, event.row_in(1.2346).took_us), (None, Some(1_235)));
    assert_eq!(event.row_in(-1.0).took_us, Some(0));
    for n in [0, 1, 2, 1_234] {
      assert_eq!(n_adopted(&adopted(n)), Some(n as u64));
    }
    assert_eq!(n_adopted("many blocks adopted as they are"), None);
  }

  #[test]
  fn a_hostile_file_name_stays_on_one_line() {
    let name = std::ffi::OsStr::from_bytes(b"a\nb\x1b[31m\xff.md");
    assert_eq!(shown(Path::new(name)), "a\\nb\\u{1b}[31m\\xff.md");
  }
}
