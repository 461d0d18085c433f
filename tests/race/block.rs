//! The blocks that are written: each has a number, and its text follows from it.
#![forbid(unsafe_code)]

use {
  super::way::Way,
  crate::support::{clean, poison},
};

/// The text of a file before the first block. It ends with an entry, because a heading belongs to
/// the text after it.
pub(crate) const HEADER: &str = "# Notes\n\n- Begun in spring.\n";
/// A part of every poison.
pub(crate) const NEEDLE: &[u8] = b".evil.com";

/// Whether the block with this number is poison: one in eight.
pub(crate) fn is_poison(n: usize) -> bool {
  n % 8 == 3
}

/// The text of a block; every third has a second line, where others never see only the first. A
/// poison has no second line: only the line with the effect is taken out.
pub(crate) fn text(way: Way, n: usize) -> String {
  let first = if is_poison(n) { poison(n) } else { clean(n) };
  if n % 3 == 1 && !is_poison(n) && !way.tears_lines() {
    format!("{first}\n  She said so on day {n}.\n")
  } else {
    format!("{first}\n")
  }
}
