//! Where a placeholder was between its neighbours, so that it can return after it was removed.
//!
//! Neighbours are the nearest lines of text above and below; blank lines and memfw's comments are none. A
//! placeholder returns only if exactly one place in the file has both neighbours next to each other.
#![forbid(unsafe_code)]

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::memory::{
  BlockId, LineHash, line,
  marker::{self, CLOSER},
  placeholder,
};

/// The beginning of the hash of a line without memfw's comment at its end ([`line::line_hash`]).
type ShortHash = [u8; LineHash::SHORT];

/// The place of a removed placeholder. It has no text, only hashes of lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
  /// The line of text above; `None` at the beginning of the file.
  above: Option<ShortHash>,
  /// The line of text below; `None` at the end of the file.
  below: Option<ShortHash>,
  /// How many blank lines follow the line above before the placeholder.
  n_blank: usize,
}

/// A line of text in a file.
struct Neighbour {
  span: Range<usize>,
  hash: ShortHash,
}

impl Gap {
  /// The place of the placeholder at `span`.
  pub fn around(bytes: &[u8], span: &Range<usize>) -> Self {
    let neighbours = neighbours(bytes);
    let above = neighbours.iter().rfind(|one| one.span.end <= span.start);
    let below = neighbours.iter().find(|one| one.span.start >= span.end);
    let from = above.map_or(0, |above| above.span.end);
    let between = lines(bytes, from..span.start);
    let n_blank = between.filter(|one| line::is_blank(line::slice(bytes, one.clone()))).count();
    Self { above: above.map(|one| one.hash), below: below.map(|one| one.hash), n_blank }
  }

  /// `bytes` with the placeholder of `id` in this place; `None` if it is there already, or if the file has
  /// no such place, or several.
  pub fn insert(&self, bytes: &[u8], id: &BlockId) -> Option<Vec<u8>> {
    if marker::find(bytes, placeholder::short(id).as_bytes(), 0).is_some() {
      return None;
    }
    let neighbours = neighbours(bytes);
    let mut places = (0..=neighbours.len()).filter_map(|below| {
      let above = below.checked_sub(1).and_then(|above| neighbours.get(above));
      let below = neighbours.get(below);
      let is_here = above.map(|one| one.hash) == self.above
        && below.map(|one| one.hash) == self.below
        && (above.is_some() || below.is_some());
      is_here.then(|| {
        above.map_or(0, |one| one.span.end)..below.map_or(bytes.len(), |one| one.span.start)
      })
    });
    let place = places.next().filter(|_| places.next().is_none())?;
    let at = self.within(bytes, place)?;
    let (head, tail) = bytes.split_at_checked(at)?;
    let eol: &[u8] = if bytes.windows(2).any(|pair| pair == b"\r\n") { b"\r\n" } else { b"\n" };
    Some([head, placeholder::compact(id).as_bytes(), eol, tail].concat())
  }

  /// The offset in the space between two neighbours at which a line may begin: after as many blank lines as
  /// before, and never between the lines of a pair of markers and their text.
  fn within(&self, bytes: &[u8], place: Range<usize>) -> Option<usize> {
    let mut at = place.start;
    let mut n_blank = 0;
    for one in lines(bytes, place) {
      let text = line::slice(bytes, one.clone());
      let is_closer = line::content(text).trim_ascii() == CLOSER.as_bytes();
      if !is_closer && (n_blank >= self.n_blank || !line::is_blank(text)) {
        break;
      }
      n_blank += usize::from(!is_closer);
      at = one.end;
    }
    // A line begins only after a line end.
    (at == 0 || bytes.get(at - 1) == Some(&b'\n')).then_some(at)
  }
}

fn lines(bytes: &[u8], within: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
  let mut at = within.start;
  std::iter::from_fn(move || {
    let start = at;
    at = line::line_end(bytes, at).min(within.end);
    (start < at).then_some(start..at)
  })
}

/// The lines that are text: neither blank nor a comment of memfw.
fn neighbours(bytes: &[u8]) -> Vec<Neighbour> {
  let mut found = Vec::new();
  for span in lines(bytes, 0..bytes.len()) {
    let content = line::content(line::slice(bytes, span.clone())).trim_ascii_end();
    let text = without_id(content);
    let is_comment = text.trim_ascii_start().starts_with(b"<!-- memfw:")
      || text.trim_ascii() == CLOSER.as_bytes()
      || placeholder::short_id(text.trim_ascii()).is_some();
    if !line::is_blank(text) && !is_comment {
      found.push(Neighbour { span, hash: line::line_hash(text).short() });
    }
  }
  found
}

/// A line without the id comment at its end.
fn without_id(content: &[u8]) -> &[u8] {
  let mut at = 0;
  while let Some(word) = marker::find(content, b"memfw:", at) {
    at = word + 1;
    if let Some((span, _)) = placeholder::id_comment_at(content, word)
      && span.end == content.len()
    {
      return line::slice(content, 0..span.start).trim_ascii_end();
    }
  }
  content
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn id() -> BlockId {
    "a1b2c3".parse().unwrap()
  }

  /// The file without its placeholder, and with the placeholder in the place that was noted.
  fn moved(before: &str, change: impl Fn(String) -> String) -> (String, Option<String>) {
    let word = placeholder::compact(&id());
    let (head, rest) = before.split_once(&word).unwrap();
    let tail = rest.split_once('\n').map_or("", |(_, tail)| tail);
    let span = head.len()..before.len() - tail.len();
    let gap = Gap::around(before.as_bytes(), &span);
    let without = change([head, tail].concat());
    let back = gap.insert(without.as_bytes(), &id());
    (without, back.map(|bytes| String::from_utf8(bytes).unwrap()))
  }

  fn returns(before: &str) {
    let (_, back) = moved(before, |text| text);
    assert_eq!(back.as_deref(), Some(before));
  }

  #[test]
  fn a_placeholder_returns_between_its_neighbours() {
    let word = placeholder::compact(&id());
    for form in [
      "- a\nP\n- b\n",
      "P\n- b\n",
      "- a\nP\n",
      "# Notes\n\nP\n\n- b\n",
      "a\n\nP\n\nb\n",
      "a\r\n\r\nP\r\n\r\nb\r\n",
      "a\n\n\nP\nb\n",
      "<!-- memfw:d4e5f6 source=exec trust=untrusted ts=2026-11-21T14:32:00Z -->\na\n<!-- /memfw -->\nP\nb\n",
      "a <!-- memfw:d4e5f6 -->\nP\nb\n",
      "a\nP\n<!-- memfw:d4e5f6 quarantined -->\nb\n",
    ] {
      returns(&form.replace('P', &word));
    }
  }

  #[test]
  fn neighbours_are_found_when_other_lines_and_markers_have_changed() {
    let before = format!("# Notes\n- a\n{}\n- b\n", placeholder::compact(&id()));
    let (_, back) = moved(&before, |text| {
      text.replace("# Notes", "# New\n- first").replace("- a\n", "- a <!-- memfw:d4e5f6 -->\n")
    });
    let expected =
      before.replace("# Notes", "# New\n- first").replace("- a\n", "- a <!-- memfw:d4e5f6 -->\n");
    assert_eq!(back.as_deref(), Some(expected.as_str()));
  }

  #[test]
  fn without_one_certain_place_nothing_is_inserted() {
    let before = format!("- a\n{}\n- b\n", placeholder::compact(&id()));
    let gone = |change: fn(String) -> String| moved(&before, change).1;
    assert_eq!(gone(|text| text.replace("- b\n", "")), None, "a neighbour is gone");
    assert_eq!(gone(|text| text.repeat(2)), None, "there are two such places");
    assert_eq!(gone(|text| text.replace("- b", "- c\n- b")), None, "a line is in between");
    assert_eq!(gone(|_| String::new()), None, "the file is empty");
    let there = |text: String| format!("{text}{}\n", placeholder::compact(&id()));
    assert_eq!(moved(&before, there).1, None, "it is there already");
    let end = format!("- a\n{}\n", placeholder::compact(&id()));
    assert_eq!(moved(&end, |text| text.trim_end().to_owned()).1, None, "there is no line end");
  }

  proptest! {
    #[test]
    fn any_file_with_a_placeholder_between_different_lines_gets_it_back(
      above in "(- [a-m]{1,6}\n|\n){0,6}",
      below in "(- [n-z]{1,6}\n|\n){0,6}",
    ) {
      let lines = [above.as_str(), below.as_str()].concat();
      prop_assume!(!lines.trim().is_empty());
      let mut different: Vec<&str> = lines.lines().filter(|one| !one.is_empty()).collect();
      different.sort_unstable();
      different.dedup();
      prop_assume!(different.len() == lines.lines().filter(|one| !one.is_empty()).count());
      returns(&format!("{above}{}\n{below}", placeholder::compact(&id())));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..220) {
      let span = at..at + 10;
      let gap = Gap::around(&bytes, &span);
      if let Some(new) = gap.insert(&bytes, &id()) {
        prop_assert!(new.len() > bytes.len());
      }
    }
  }
}
