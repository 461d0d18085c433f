//! Lines of which only the list marker has changed: another bullet, or another number. Programs
//! write a list again with markers of their own, and renumber the items after a new one; the items
//! are still the known ones.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::memory::{
  Block, BlockKind, LineHash,
  line::{self, Line, LineKind, line_hash},
};

const BULLETS: [u8; 3] = *b"-*+";
/// How far an item may have moved for its number to be recognised (a choice: as many as are added or removed
/// at a time).
const MAX_STEPS: u64 = 5;
/// The longest number of an item, in digits (a choice: a longer one is a year or an amount, which
/// has a meaning).
const MAX_DIGITS: usize = 3;

/// The blocks with the known hashes of lines that differ from a known line by their list marker alone; `None`
/// if there are none. `free` says which blocks are not known as a whole, `known` holds the hashes of the lines
/// that may have become theirs.
pub(super) fn relisted(
  bytes: &[u8],
  blocks: &[Block],
  free: impl Fn(usize) -> bool,
  known: &HashSet<LineHash>,
) -> Option<Vec<Block>> {
  let mut changed: Option<Vec<Block>> = None;
  // In code, a sign at the start of a line has a meaning.
  let of_lists = |(index, block): &(usize, &Block)| block.kind == BlockKind::Item && free(*index);
  for (index, block) in blocks.iter().enumerate().filter(of_lists) {
    for (at, one) in block.lines.iter().enumerate() {
      let Some(hash) = before(bytes, one, known) else { continue };
      let all = changed.get_or_insert_with(|| blocks.to_vec());
      if let Some(one) = all.get_mut(index).and_then(|block| block.lines.get_mut(at)) {
        one.hash = hash;
      }
    }
  }
  changed
}

/// The hash of the known line that this line may have been.
fn before(bytes: &[u8], one: &Line, known: &HashSet<LineHash>) -> Option<LineHash> {
  let text = line::content(line::slice(bytes, one.span.clone()));
  // The hash of a line in which there are comments of memfw is not that of its bytes.
  if one.kind != LineKind::Text || known.contains(&one.hash) || line_hash(text) != one.hash {
    return None;
  }
  let (indent, marker, rest) = item(text)?;
  let hashes = others(marker).into_iter().map(|other| line_hash(&[indent, &other, rest].concat()));
  hashes.into_iter().find(|hash| known.contains(hash))
}

/// The indentation, the list marker and the rest of a line that begins an item.
fn item(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
  let indent = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
  let (indent, body) = text.split_at_checked(indent)?;
  let digits = body.iter().take_while(|byte| byte.is_ascii_digit()).count();
  let length = match (digits, body.get(digits)?) {
    (0, first) if BULLETS.contains(first) => 1,
    (1..=MAX_DIGITS, b'.' | b')') => digits + 1,
    _ => return None,
  };
  let (marker, rest) = body.split_at_checked(length)?;
  rest.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')).then_some((indent, marker, rest))
}

/// The markers that a line may have had instead of this one.
fn others(marker: &[u8]) -> Vec<Vec<u8>> {
  let Some((number, [end])) = marker.split_last_chunk::<1>() else { return vec![] };
  let Some(number) = str::from_utf8(number).ok().and_then(|digits| digits.parse::<u64>().ok())
  else {
    return BULLETS.iter().filter(|other| *other != end).map(|other| vec![*other]).collect();
  };
  // The nearest number first: of several equal items, the one that moved least.
  let near = (1..=MAX_STEPS).flat_map(|step| [number.checked_sub(step), number.checked_add(step)]);
  near.flatten().map(|number| [number.to_string().as_bytes(), &[*end]].concat()).collect()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_marker_of_an_item_is_distinguished_from_its_text() {
    for (text, marker) in [
      ("- a", Some("-")),
      ("  * a", Some("*")),
      ("\t+\ta", Some("+")),
      ("12. a", Some("12.")),
      ("3) a", Some("3)")),
      ("-a", None),
      ("-", None),
      ("1.a", None),
      ("2026. a", None),
      ("a - b", None),
      ("", None),
    ] {
      let found = item(text.as_bytes()).map(|(_, marker, _)| marker);
      assert_eq!(found, marker.map(str::as_bytes), "{text}");
    }
  }

  #[test]
  fn other_markers_are_bullets_or_near_numbers() {
    let of = |marker: &str| -> Vec<String> {
      let others = others(marker.as_bytes()).into_iter();
      others.map(|other| String::from_utf8(other).unwrap()).collect()
    };
    assert_eq!(of("*"), ["-", "+"]);
    assert_eq!(of("2."), ["1.", "3.", "0.", "4.", "5.", "6.", "7."]);
    assert_eq!(of("999)").first().map(String::as_str), Some("998)"));
    assert!(of("").is_empty());
  }
}
