//! What a reader said of an entry.
#![forbid(unsafe_code)]

use std::ops::{Range, RangeInclusive};

use crate::detect::{effects::Effect, rules::words};

/// Whether an entry may stay, in the opinion of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
  /// It may stay.
  Keep,
  /// It must be taken out.
  Take,
}

words!(Ruling, "ruling", "`take` or `keep`", Keep = "keep", Take = "take");

/// A whole answer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
  /// Whether the entry may stay.
  pub ruling: Ruling,
  /// What the entry would do.
  pub effect: Option<Effect>,
  /// The words of the entry on which it rests, as they were sent: secrets masked.
  pub quote: String,
  /// The lines of the entry of these words, from 0; `None` if that is ambiguous.
  pub lines: Option<RangeInclusive<u32>>,
}

impl Reading {
  /// The place of the named lines, in bytes of the entry.
  pub fn place_in(&self, entry: &str) -> Option<Range<usize>> {
    let lines = self.lines.as_ref()?;
    let mut at = 0;
    let spans = entry.split_inclusive('\n').zip(0..).map(|(line, number)| {
      let start = at;
      at += line.len();
      (number, start..at)
    });
    let mut named = spans.filter(|(number, _)| lines.contains(number)).map(|(_, span)| span);
    let first = named.next()?;
    let end = named.last().map_or(first.end, |last| last.end);
    Some(first.start..end)
  }
}
