//! The records of an answer, gathered from the latest backwards, for both stores.
//!
//! Invariant: an answer holds at most `limit` records and about [`MAX_BYTES`] bytes, and looks at most
//! at a fixed number of events, whatever the store holds.
#![forbid(unsafe_code)]

use std::ops::ControlFlow;

use serde_json::Value;

use super::{
  model::{Message, Record, Window},
  parse,
};

/// Most bytes of text in one answer. The longest turns that were seen have some hundred kilobytes.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of events that are looked at for one answer.
const MAX_READ: usize = 64 * 1024 * 1024;
/// How many events are read for each record that is wanted: bookkeeping events are between the
/// records.
const EVENTS_PER_RECORD: usize = 4;
/// How many events are read at least.
const MIN_EVENTS: usize = 256;

/// An answer under way.
#[derive(Debug)]
pub(super) struct Gather {
  window: Window,
  limit: usize,
  left: usize,
  bytes: usize,
  read: usize,
  latest_first: Vec<Record>,
}

impl Gather {
  /// An answer for this window.
  pub(super) fn new(window: Window, limit: usize) -> Self {
    let left = limit.saturating_mul(EVENTS_PER_RECORD).max(MIN_EVENTS);
    Self { window, limit, left, bytes: 0, read: 0, latest_first: vec![] }
  }

  /// Takes the next older event: its bytes, or why they cannot be read. `Break` when the answer is whole
  /// or full.
  pub(super) fn take(
    &mut self,
    seq: i64,
    stored_at: Option<i64>,
    event: Result<&[u8], String>,
  ) -> ControlFlow<()> {
    if self.limit == 0 || self.left == 0 || self.read > MAX_READ {
      return ControlFlow::Break(());
    }
    self.left -= 1;
    self.read += event.as_ref().map_or(0, |bytes| bytes.len());
    let event = event.and_then(|bytes| parse::event(bytes).map_err(str::to_owned));
    let (at, message) = match event {
      Ok(event) => (event.at.or(stored_at), event.message),
      Err(why) => (stored_at, Some(Message::Unread { why })),
    };
    // An event without a time is between two that have one.
    let at = at.or_else(|| self.latest_first.last().map(|record| record.at));
    let at = at.unwrap_or(self.window.to);
    let Some(message) = message.filter(|_| at <= self.window.to) else {
      return ControlFlow::Continue(());
    };
    self.bytes = self.bytes.saturating_add(size(&message));
    if self.bytes > MAX_BYTES && !self.latest_first.is_empty() {
      return ControlFlow::Break(());
    }
    let is_whole = at < self.window.from && begins_turn(&message);
    self.latest_first.push(Record { seq, at, message });
    if is_whole || self.latest_first.len() >= self.limit {
      return ControlFlow::Break(());
    }
    ControlFlow::Continue(())
  }

  /// The records, oldest first.
  pub(super) fn finish(mut self) -> Vec<Record> {
    self.latest_first.reverse();
    self.latest_first
  }
}

/// Whether a user's message begins a turn; a message of OpenClaw to itself does not.
fn begins_turn(message: &Message) -> bool {
  matches!(message, Message::User { provenance, .. }
    if provenance.as_deref() != Some("internal_system"))
}

/// About how much memory a message takes, in bytes.
fn size(message: &Message) -> usize {
  64 + match message {
    Message::User { text, context, .. } => text.len() + context.len(),
    Message::Assistant { calls, .. } => calls.iter().map(|call| size_of(&call.arguments)).sum(),
    Message::Tool(outcome) => outcome.text.len() + size_of(&outcome.details),
    Message::Compaction { summary: text } | Message::Injected { text, .. } => text.len(),
    Message::Unread { why } => why.len(),
    Message::Reset => 0,
  }
}

fn size_of(value: &Value) -> usize {
  32 + match value {
    Value::String(text) => text.len(),
    Value::Array(items) => items.iter().map(size_of).sum(),
    Value::Object(members) => members.iter().map(|(key, value)| key.len() + size_of(value)).sum(),
    _ => 0,
  }
}
