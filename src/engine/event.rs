//! What memfw reports to an operator: a closed list of events, each a row in the ledger and a line in the
//! log.
//!
//! The fields never hold memory text, only ids, codes, paths, lengths and memfw's own words.
#![forbid(unsafe_code)]

use std::{fmt::Write as _, path::Path};

use tracing::Level;

use crate::{
  detect::{Code, Layer},
  judging::origin::Origin,
  memory::BlockId,
  plural,
  provenance::{Attestation, Source, Trust},
  store::{EventAction, Ledger, NewEvent, StoreError},
};

pub use crate::store::EventKind;

impl EventKind {
  /// The level of an event, in the log and in every other output.
  pub fn level(self) -> Level {
    match self {
      Self::Degraded | Self::Unguarded => Level::ERROR,
      Self::Rescanned | Self::Recovered => Level::WARN,
      kind if Self::ROUTINE.contains(&kind) => Level::DEBUG,
      _ => Level::INFO,
    }
  }
}

/// Builds an event.
#[derive(Clone, Debug)]
pub struct Event(NewEvent);

impl Event {
  /// An event with only its kind.
  pub fn new(kind: EventKind) -> Self {
    Self(NewEvent::new(kind))
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

  /// Sets the known part of the origin.
  #[must_use]
  pub fn of(self, origin: &Origin) -> Self {
    let mut event = self.origin(&origin.source, origin.trust);
    event.0.attestation = Some(origin.attestation);
    event.0.session.clone_from(&origin.session);
    event
  }

  /// Sets the agent's session.
  #[must_use]
  pub fn session(mut self, session: &str) -> Self {
    self.0.session = Some(session.to_owned());
    self
  }

  /// Sets the layer, the codes, the score, and the action.
  #[must_use]
  pub fn decided(
    mut self,
    layer: Layer,
    codes: &[Code],
    score: f32,
    action: impl Into<EventAction>,
  ) -> Self {
    self.0.layer = Some(layer);
    self.0.codes = codes.to_vec();
    self.0.score = Some(score);
    self.0.action = Some(action.into());
    self
  }

  /// Sets the detail, in memfw's own words.
  #[must_use]
  pub fn detail(mut self, detail: impl Into<String>) -> Self {
    self.0.detail = detail.into();
    self
  }

  /// Sets how many blocks the event is about.
  #[must_use]
  pub fn count(mut self, n: usize) -> Self {
    self.0.count = u64::try_from(n).ok();
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

  /// Writes the event to the ledger and to the log.
  pub fn tell(&self, ledger: &mut Ledger, at: i64) -> Result<(), StoreError> {
    ledger.append_events(&[self.row()], at)?;
    self.log(None);
    Ok(())
  }

  /// The level of the log line. What a first scan finds is one line for each workspace, which the daemon writes.
  fn log_level(&self) -> Level {
    let is_baseline = self.0.source.as_ref().is_some_and(Source::is_baseline);
    match self.0.event {
      EventKind::Adopted => Level::DEBUG,
      EventKind::Flagged | EventKind::Cleared if is_baseline => Level::DEBUG,
      kind => kind.level(),
    }
  }

  /// Writes the log line. `took_ms` is how long the decision took.
  pub fn log(&self, took_ms: Option<f64>) {
    let event = &self.0;
    let kind = event.event;
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
          action = event.action.map(EventAction::as_str),
          took_ms = took_ms.map(|took| (took * 1e3).round() / 1e3),
          detail = (!event.detail.is_empty()).then_some(event.detail.as_str()),
          "{}", kind.message()
        )
      };
    }
    match self.log_level() {
      Level::ERROR => line!(error),
      Level::WARN => line!(warn),
      Level::DEBUG => line!(debug),
      _ => line!(info),
    }
  }
}

/// The detail of the event that `n` blocks from before memfw were adopted.
pub fn adopted(n: usize) -> String {
  format!("{} adopted unchanged", plural::count(n as u64, "block"))
}

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
  fn a_row_has_whole_microseconds_and_a_count() {
    let event = Event::new(EventKind::Kept);
    assert_eq!((event.row().took_us, event.row_in(1.2346).took_us), (None, Some(1_235)));
    assert_eq!(event.row_in(-1.0).took_us, Some(0));
    assert_eq!(event.count(3).row().count, Some(3));
  }

  #[test]
  fn a_hostile_file_name_stays_on_one_line() {
    let name = std::ffi::OsStr::from_bytes(b"a\nb\x1b[31m\xff.md");
    assert_eq!(shown(Path::new(name)), "a\\nb\\u{1b}[31m\\xff.md");
  }
}
