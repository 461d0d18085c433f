//! Whether the owner's words ask to keep something.
#![forbid(unsafe_code)]

use super::frame::builtin;

/// Bytes of the owner's words that are read.
const MAX_ASKED: usize = 16 * 1024;

/// Whether the owner asked to keep, note or learn what a source says, in any of the languages of
/// `rules/effects`.
pub fn asks_to_keep(asked: &str) -> bool {
  let frames = builtin();
  let mut end = asked.len().min(MAX_ASKED);
  while !asked.is_char_boundary(end) {
    end -= 1;
  }
  let words = frames.lexicon.scan(asked.get(..end).unwrap_or_default());
  // "Is the note ready?" asks for a note, and "the saved one" says which.
  let overruled = |start: u32, end: u32| {
    words.iter().any(|one| one.class == frames.keep_not && one.start <= start && one.end >= end)
  };
  words.iter().any(|one| one.class == frames.keep && !overruled(one.start, one.end))
}
