//! The sessions of the agent that have read a text, by what the plugin has reported.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::Page;
use crate::{
  command::link::reads::hashes,
  store::{BlockRow, Item, Ledger, ReadBy, StoreError},
  terminal::{escape::terminal, failure::Failure, output::count, time},
};

/// The most sessions that are named to a person.
const MAX_NAMED: usize = 5;

/// The sessions.
pub(super) struct Readers(Vec<ReadBy>);

impl Readers {
  /// Those that have read the text of an item; none if its bytes were deleted or cannot be unsealed.
  pub(super) fn of_item(ledger: &Ledger, item: &Item) -> Result<Self, StoreError> {
    let Ok(text) = ledger.unseal(&item.id) else { return Ok(Self(vec![])) };
    Ok(Self(ledger.read_by(&telling(&text))?))
  }

  /// Those that have read any line of a block.
  pub(super) fn of_block(ledger: &Ledger, block: &BlockRow) -> Result<Self, StoreError> {
    let lines: Vec<[u8; 8]> = block.lines.iter().map(|line| line.hash.short()).collect();
    Ok(Self(ledger.read_by(&lines)?))
  }

  pub(super) fn to_json(&self) -> Value {
    let one = |one: &ReadBy| {
      json!({
        "session": one.session,
        "agent": one.agent,
        "runs": one.runs,
        "first": time::rfc3339(one.first),
        "last": time::rfc3339(one.last),
      })
    };
    self.0.iter().map(one).collect()
  }

  /// Nothing if no session is on record: without the plugin nothing is known.
  pub(super) fn print(&self, page: &Page<'_>) -> Result<(), Failure> {
    let Some(first) = self.0.first() else { return Ok(()) };
    let runs = self.0.iter().map(|one| one.runs).sum::<usize>() as u64;
    let last = self.0.iter().map(|one| one.last).max().unwrap_or(first.last);
    page.row(
      "read by",
      &format!(
        "{} of {}, first {}, last {}",
        count(runs, "run"),
        count(self.0.len() as u64, "session"),
        time::rfc3339(first.first),
        time::rfc3339(last)
      ),
    )?;
    for one in self.0.iter().take(MAX_NAMED) {
      page.row("", &format!("{} ({})", terminal(&one.session), count(one.runs as u64, "run")))?;
    }
    match self.0.len().saturating_sub(MAX_NAMED) {
      0 => Ok(()),
      more => page.row("", &format!("and {more} more; --json names all")),
    }
  }
}

/// The lines by which a text is known: headings are in many texts, and count only if there is nothing else.
fn telling(text: &[u8]) -> Vec<[u8; 8]> {
  let body: Vec<u8> = text
    .split_inclusive(|b| *b == b'\n')
    .filter(|line| !line.starts_with(b"#"))
    .collect::<Vec<_>>()
    .concat();
  let lines = hashes(&body);
  if lines.is_empty() { hashes(text) } else { lines }
}
