//! Hostile text for a person to read: escaped, with addresses that no terminal turns into links,
//! the dangerous part marked, wrapped to the width of the terminal. Pure.
//!
//! Invariant: for any bytes, the output is safe for a terminal, and no row is wider than
//! allowed.
#![forbid(unsafe_code)]

use std::ops::Range;

use unicode_width::UnicodeWidthChar as _;

use super::{escape::terminal, output::Style};

/// Bytes of a text that are shown: more than a person reads, and few enough to be fast.
const MAX_BYTES: usize = 64 << 10;
/// The signs around the dangerous part where colours are off.
const OPEN: &str = ">>";
const CLOSE: &str = "<<";

/// One character, and whether it belongs to the dangerous part.
type Marked = (char, bool);

/// A text, ready to be shown at any width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
  lines: Vec<Vec<Marked>>,
  is_cut: bool,
}

impl Preview {
  /// A text with its dangerous parts, in bytes; a range outside of the text marks nothing.
  pub fn new(text: &[u8], spans: &[Range<usize>]) -> Self {
    let shown = text.get(..text.len().min(MAX_BYTES)).unwrap_or_default();
    let (shown, marks) = defang(shown, spans);
    let mut lines = Vec::new();
    let mut start = 0;
    for line in shown.split_inclusive(|&byte| byte == b'\n') {
      let end = start + line.len();
      let bare = line.strip_suffix(b"\n").unwrap_or(line);
      let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
      lines.push(marked(bare, start, &marks));
      start = end;
    }
    Self { lines, is_cut: text.len() > MAX_BYTES }
  }

  /// Its rows at this width, up to `max_rows` of them, and the number of rows left out. Without colours the dangerous
  /// part is between `>>` and `<<`.
  pub fn rows(&self, columns: usize, max_rows: usize, colour: bool) -> (Vec<String>, usize) {
    let mut rows: Vec<String> =
      self.laid_out(columns, colour).into_iter().map(|(row, _)| row).collect();
    let left = rows.len().saturating_sub(max_rows) + usize::from(self.is_cut);
    rows.truncate(max_rows);
    (rows, left)
  }

  /// Like [`Preview::rows`], but the rows begin just before the dangerous part if that would not be among the
  /// first ones; returns also the number of rows left out above.
  pub fn window(&self, columns: usize, max_rows: usize, colour: bool) -> Window {
    let laid_out = self.laid_out(columns, colour);
    let first = laid_out.iter().position(|(_, is_marked)| *is_marked).unwrap_or(0);
    let latest = laid_out.len().saturating_sub(max_rows);
    let above = if first < max_rows { 0 } else { first.saturating_sub(1).min(latest) };
    let below = latest.saturating_sub(above) + usize::from(self.is_cut);
    let rows = laid_out.into_iter().skip(above).take(max_rows).map(|(row, _)| row).collect();
    Window { rows, above, below }
  }

  /// All rows, and whether each has a dangerous part.
  fn laid_out(&self, columns: usize, colour: bool) -> Vec<(String, bool)> {
    let mut rows = Vec::new();
    for line in &self.lines {
      let line = if colour { line.clone() } else { bracketed(line) };
      let laid_out = |row: &[Marked]| (painted(row, colour), row.iter().any(|(_, marked)| *marked));
      rows.extend(wrapped(&line, columns).into_iter().map(laid_out));
    }
    rows
  }
}

/// Some rows of a text, and how many are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
  /// The rows.
  pub rows: Vec<String>,
  /// Rows left out above.
  pub above: usize,
  /// Rows left out below.
  pub below: usize,
}

/// Prose wrapped to a width; safe text in, safe text out.
pub fn prose(text: &str, columns: usize) -> Vec<String> {
  let line: Vec<Marked> = text.chars().map(|c| (c, false)).collect();
  wrapped(&line, columns).into_iter().map(|row| painted(row, false).trim_end().to_owned()).collect()
}

/// One line of hostile text, safe and without links.
pub fn one_line(text: &[u8]) -> String {
  terminal(defang(text.get(..text.len().min(MAX_BYTES)).unwrap_or_default(), &[]).0)
}

/// The escaped characters of a line that begins at `start`.
fn marked(line: &[u8], start: usize, marks: &[Range<usize>]) -> Vec<Marked> {
  let mut cuts: Vec<usize> = vec![0, line.len()];
  for mark in marks {
    let inside = |at: usize| at.saturating_sub(start).min(line.len());
    cuts.extend([inside(mark.start), inside(mark.end)]);
  }
  cuts.sort_unstable();
  cuts.dedup();
  let mut chars = Vec::new();
  for pair in cuts.windows(2) {
    let &[from, to] = pair else { continue };
    let is_marked = marks.iter().any(|mark| mark.start < start + to && start + from < mark.end);
    let safe = terminal(line.get(from..to).unwrap_or_default());
    chars.extend(safe.chars().map(|c| (c, is_marked)));
  }
  chars
}

fn bracketed(line: &[Marked]) -> Vec<Marked> {
  let mut out = Vec::with_capacity(line.len());
  let mut before = false;
  for &(c, is_marked) in line {
    if is_marked != before {
      out.extend(if is_marked { OPEN } else { CLOSE }.chars().map(|c| (c, false)));
    }
    before = is_marked;
    out.push((c, is_marked));
  }
  if before {
    out.extend(CLOSE.chars().map(|c| (c, false)));
  }
  out
}

/// The line in rows of limited width, broken at spaces where possible.
fn wrapped(line: &[Marked], columns: usize) -> Vec<&[Marked]> {
  let mut rows = Vec::new();
  let mut rest = line;
  loop {
    let (mut width, mut end, mut space) = (0, rest.len(), None);
    let mut before = '\0';
    for (index, &(c, _)) in rest.iter().enumerate() {
      let columns_of = c.width().unwrap_or(0);
      // No row begins with a combining mark, which would be painted over the text before it.
      if before == ' ' && columns_of > 0 {
        space = Some(index);
      }
      width += columns_of;
      if width > columns {
        end = space.unwrap_or(index).max(1);
        break;
      }
      before = c;
    }
    let (row, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
    rows.push(row);
    if tail.is_empty() {
      return rows;
    }
    rest = tail;
  }
}

fn painted(row: &[Marked], colour: bool) -> String {
  let mut out = String::new();
  for run in row.chunk_by(|one, other| one.1 == other.1) {
    let text: String = run.iter().map(|(c, _)| *c).collect();
    let is_marked = run.first().is_some_and(|(_, is_marked)| *is_marked);
    out.push_str(&if is_marked { Style::Red.paint(&text, colour) } else { text });
  }
  out
}

/// The text with harmless addresses (`hxxps://evil[.]example`), and the spans in the result.
fn defang(text: &[u8], spans: &[Range<usize>]) -> (Vec<u8>, Vec<Range<usize>>) {
  let mut out: Vec<u8> = Vec::with_capacity(text.len() + text.len() / 8);
  // The new place of each byte.
  let mut place = Vec::with_capacity(text.len() + 1);
  let mut is_host = false;
  for (index, &byte) in text.iter().enumerate() {
    place.push(out.len());
    let before = index.checked_sub(1).and_then(|at| text.get(at)).copied().unwrap_or(b' ');
    let after = text.get(index + 1).copied().unwrap_or(b' ');
    let is_link = byte == b':' && text.get(index..).is_some_and(|rest| rest.starts_with(b"://"));
    match byte {
      b':' if is_link => {
        let is_web = unlinked(&mut out, text.get(..index).unwrap_or_default());
        out.extend_from_slice(if is_web { b":" } else { b"[:]" });
        is_host = true;
      }
      b'.' if is_host || (is_name(before) && (after.is_ascii_alphabetic() || after >= 0x80)) => {
        out.extend_from_slice(b"[.]");
      }
      _ => out.push(byte),
    }
    let ends_host = !(is_name(byte) || matches!(byte, b'.' | b':' | b'@' | b'[' | b']' | b'/'));
    // The two slashes are before the host; any other slash is after it.
    is_host &= !(ends_host || byte == b'/' && before != b':' && !(before == b'/' && after != b'/'));
  }
  place.push(out.len());
  let at = |offset: usize| place.get(offset.min(text.len())).copied().unwrap_or(out.len());
  let marks = spans.iter().map(|span| at(span.start)..at(span.end)).collect();
  (out, marks)
}

/// Replaces `http` at the end by `hxxp`; returns whether it was there.
fn unlinked(out: &mut [u8], before: &[u8]) -> bool {
  let n = [5, 4].into_iter().find(|&n| {
    let word = before.len().checked_sub(n).and_then(|at| before.get(at..));
    word
      .is_some_and(|word| word.eq_ignore_ascii_case(b"https") || word.eq_ignore_ascii_case(b"http"))
  });
  let Some(start) = n.and_then(|n| out.len().checked_sub(n)) else { return false };
  if let Some(letters) = out.get_mut(start + 1..start + 3) {
    letters.fill(b'x');
  }
  true
}

const fn is_name(byte: u8) -> bool {
  byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
  #[test]
  fn a_window_has_the_dangerous_part() {
    let text: String = (0..30).fold(String::new(), |text, n| text + &format!("line {n}\n"));
    let window = |word: &str, max: usize| {
      let start = text.find(word).unwrap();
      let preview =
        Preview::new(text.as_bytes(), std::slice::from_ref(&(start..start + word.len())));
      preview.window(40, max, false)
    };
    let middle = window("line 20", 4);
    assert_eq!((middle.above, middle.rows.len(), middle.below), (19, 4, 7));
    assert_eq!(middle.rows[1], ">>line 20<<");
    let first = window("line 2\n", 4);
    assert_eq!((first.above, first.below), (0, 26));
    let last = window("line 29", 4);
    assert_eq!((last.above, last.below), (26, 0));
    assert_eq!(last.rows.last().unwrap(), ">>line 29<<");
    assert_eq!((window("line 29", 40).above, window("line 29", 40).below), (0, 0));
  }

  use proptest::prelude::*;

  use super::*;
  use crate::terminal::escape::width;

  fn rows(text: &str, spans: &[Range<usize>], columns: usize) -> Vec<String> {
    Preview::new(text.as_bytes(), spans).rows(columns, 100, false).0
  }

  #[test]
  fn addresses_are_no_links_any_more() {
    for (text, expected) in [
      ("see https://evil.example/a.b?x=1.5", "see hxxps://evil[.]example/a[.]b?x=1.5"),
      ("HTTP://10.0.0.1:80/x", "HxxP://10[.]0[.]0[.]1:80/x"),
      ("ftp://a.example and ssh://u@h.example", "ftp[:]//a[.]example and ssh[:]//u@h[.]example"),
      ("mail ann@example.com.", "mail ann@example[.]com."),
      ("It costs 3.14. Done... yes.", "It costs 3.14. Done... yes."),
      ("www.a-b.co.uk, пример.рф", "www[.]a-b[.]co[.]uk, пример[.]рф"),
      ("a://", "a[:]//"),
      ("http:// ://", "hxxp:// [:]//"),
      ("", ""),
    ] {
      assert_eq!(one_line(text.as_bytes()), expected, "{text}");
    }
  }

  #[test]
  fn the_dangerous_part_is_marked_where_it_stands() {
    let text = "- send to evil.example now\n- next\n";
    let start = text.find("evil").unwrap();
    let span = start..start + "evil.example".len();
    assert_eq!(
      rows(text, std::slice::from_ref(&span), 80),
      ["- send to >>evil[.]example<< now", "- next"]
    );
    let overlapping = [span.clone(), start + 2..start + 18];
    assert_eq!(rows(text, &overlapping, 80)[0], "- send to >>evil[.]example now<<");
    let (painted, left) = Preview::new(text.as_bytes(), &[span]).rows(80, 1, true);
    assert_eq!(painted, ["- send to \u{1b}[31mevil[.]example\u{1b}[0m now"]);
    assert_eq!(left, 1);
    assert_eq!(rows("ab", &[9..12, 1..1], 80), ["ab"], "what is not there marks nothing");
    assert_eq!(rows("ab\r\ncd", std::slice::from_ref(&(0..6)), 80), [">>ab<<", ">>cd<<"]);
  }

  #[test]
  fn rows_are_broken_at_spaces_where_there_are_any() {
    assert_eq!(rows("one two three", &[], 8), ["one two ", "three"]);
    assert_eq!(rows("abcdefghij", &[], 4), ["abcd", "efgh", "ij"]);
    assert_eq!(rows("日本語", &[], 4), ["日本", "語"]);
    assert_eq!(prose("one two three", 8), ["one two", "three"]);
    assert_eq!(prose("", 8), [""]);
  }

  #[test]
  fn a_very_long_text_is_cut_and_said_to_be() {
    let (rows, left) = Preview::new(&vec![b'a'; MAX_BYTES + 1], &[]).rows(1024, 1000, false);
    assert_eq!((rows.len(), left), (MAX_BYTES / 1024, 1));
  }

  proptest! {
    #[test]
    fn whatever_comes_is_safe_and_fits(
      bytes in proptest::collection::vec(any::<u8>(), 0..300),
      spans in proptest::collection::vec((0_usize..320, 0_usize..40), 0..4),
      columns in 12_usize..40,
    ) {
      let spans: Vec<_> = spans.into_iter().map(|(start, len)| start..start + len).collect();
      for row in Preview::new(&bytes, &spans).rows(columns, 1000, false).0 {
        prop_assert!(width(&row) <= columns, "{row:?}");
        prop_assert_eq!(terminal(&row), row.clone(), "already safe");
      }
    }

    #[test]
    fn no_link_is_left(text in "[a-z:/. ]{0,60}") {
      let text = format!("{text} http://{text}");
      let shown = one_line(text.as_bytes());
      prop_assert!(!shown.contains("http://"), "{shown}");
    }
  }
}
