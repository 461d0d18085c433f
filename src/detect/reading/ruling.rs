//! What a reader said of an entry.
#![forbid(unsafe_code)]

use crate::detect::{effects::Effect, rules::words};

/// Whether an entry may stay, in the opinion of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
  /// It may stay.
  Keep,
  /// It has to go.
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
}
