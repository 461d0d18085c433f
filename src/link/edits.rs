//! What the tool `edit` would leave in a file, as the agent's tool does it.
//!
//! All edits are matched against the content before the call, first exactly and then without regard to the kind of
//! quotes, dashes and blanks, to blanks at line ends and to compatible characters. Line ends are kept.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use super::outcome::{Edit, Version};

/// The byte order mark, which the tool keeps and does not match.
const MARK: char = '\u{feff}';

/// What the edits may leave; empty if they change nothing.
///
/// Where the tool would fail, or where it is not sure what it would do, each new text counts as added to the file:
/// a text that would be written must be judged, and one that would not be is refused for nothing.
pub(super) fn versions(before: &[u8], edits: &[Edit]) -> Vec<Version> {
  let real: Vec<&Edit> = edits.iter().filter(|edit| edit.old != edit.new).collect();
  if real.is_empty() {
    return vec![];
  }
  let Some((after, is_exact)) =
    std::str::from_utf8(before).ok().and_then(|text| apply(text, &real))
  else {
    return apart(&real);
  };
  let mut versions = vec![Version::Content(after.into_bytes())];
  if !is_exact {
    versions.extend(apart(&real));
  }
  versions
}

/// Each new text as added to the file.
fn apart(edits: &[&Edit]) -> Vec<Version> {
  let mut texts: Vec<Cow<'_, str>> = edits.iter().map(|edit| to_lf(&edit.new)).collect();
  texts.sort_unstable();
  texts.dedup();
  texts.into_iter().flat_map(|text| Version::added(&text)).collect()
}

/// The content after the edits, and whether each of them was found exactly; `None` where the tool would fail.
fn apply(before: &str, edits: &[&Edit]) -> Option<(String, bool)> {
  let body = before.strip_prefix(MARK).unwrap_or(before);
  let base = Base::new(body);
  let mut loose: Option<Loose> = None;
  let mut found: Vec<(Range<usize>, Cow<'_, str>)> = Vec::with_capacity(edits.len());
  let mut is_exact = true;
  for edit in edits {
    let old = to_lf(&edit.old);
    let span = if let Some(span) = once(&base.text, &old)? {
      span
    } else {
      is_exact = false;
      if loose.is_none() {
        loose = Some(Loose::new(&base.text)?);
      }
      loose.as_ref()?.find(&old)?
    };
    found.push((span, to_lf(&edit.new)));
  }
  found.sort_by_key(|(span, _)| span.start);
  let is_apart = |pair: &[(Range<usize>, Cow<'_, str>)]| match pair {
    [(first, _), (second, _)] => first.end <= second.start,
    _ => true,
  };
  if !found.windows(2).all(is_apart) {
    return None;
  }
  let end = if body
    .split('\n')
    .next()
    .is_some_and(|line| line.ends_with('\r') && line.len() < body.len())
  {
    "\r\n"
  } else {
    "\n"
  };
  let mut after = before.get(..before.len() - body.len())?.to_owned();
  let mut at = 0;
  for (span, new) in &found {
    let span = base.original(span.start)..base.original(span.end);
    after.push_str(body.get(at..span.start)?);
    after.push_str(&new.replace('\n', end));
    at = span.end;
  }
  after.push_str(body.get(at..)?);
  Some((after, is_exact))
}

/// Where a text is that occurs once; the inner `None` if it does not occur, the outer one where the tool would fail.
#[expect(clippy::option_option, reason = "a failure, and a text that is not there")]
fn once(text: &str, old: &str) -> Option<Option<Range<usize>>> {
  let mut places = text.match_indices(old).filter(|_| !old.is_empty());
  let first = places.next().map(|(at, found)| at..at + found.len());
  (!old.is_empty() && places.next().is_none()).then_some(first)
}

fn to_lf(text: &str) -> Cow<'_, str> {
  if text.contains('\r') {
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
  } else {
    Cow::Borrowed(text)
  }
}

/// A content with plain line ends.
struct Base<'a> {
  text: Cow<'a, str>,
  /// Where the line ends are that had two bytes.
  long: Vec<usize>,
}

impl<'a> Base<'a> {
  fn new(body: &'a str) -> Self {
    let long = body.match_indices("\r\n").enumerate().map(|(n, (at, _))| at - n).collect();
    Self { text: to_lf(body), long }
  }

  /// The place in the original content.
  fn original(&self, at: usize) -> usize {
    at + self.long.partition_point(|long| *long < at)
  }
}

/// A content without the differences that the tool overlooks, and the places where its parts come from.
struct Loose {
  text: String,
  /// Sorted by the place in `text`.
  bounds: Vec<Bound>,
}

/// A place in a loose text.
struct Bound {
  at: usize,
  /// Where a match that begins here begins.
  start: usize,
  /// Where a match that ends here ends; `None` if that is ambiguous.
  end: Option<usize>,
}

impl Loose {
  /// `None` where the parts of a line do not show how the whole of it is composed.
  fn new(text: &str) -> Option<Self> {
    let mut loose = Self { text: String::with_capacity(text.len()), bounds: vec![] };
    let mut start = 0;
    for (n, line) in text.split('\n').enumerate() {
      if n > 0 {
        loose.text.push('\n');
      }
      loose.line(line, start)?;
      start += line.len() + 1;
    }
    Some(loose)
  }

  fn line(&mut self, line: &str, start: usize) -> Option<()> {
    let begin = self.text.len();
    let mut bounds = vec![Bound { at: begin, start, end: Some(start) }];
    let mut starts: Vec<usize> =
      line.char_indices().filter(|(_, c)| !is_combining_mark(*c)).map(|(at, _)| at).collect();
    if starts.first() != Some(&0) && !line.is_empty() {
      starts.insert(0, 0);
    }
    starts.push(line.len());
    let mut whole = String::with_capacity(line.len());
    for part in starts.windows(2) {
      let [from, to] = *part else { continue };
      let composed: String = line.get(from..to)?.nfkc().collect();
      let last = bounds.last_mut()?;
      if composed.is_empty() {
        last.start = start + to;
        continue;
      }
      whole.push_str(&composed);
      self.text.extend(composed.chars().map(folded));
      bounds.push(Bound { at: self.text.len(), start: start + to, end: Some(start + to) });
    }
    if !line.nfkc().eq(whole.chars()) {
      return None;
    }
    let kept = begin + trimmed(self.text.get(begin..)?).len();
    if kept < self.text.len() {
      self.text.truncate(kept);
      bounds.retain(|bound| bound.at <= kept);
      let line_end = start + line.len();
      match bounds.last_mut().filter(|bound| bound.at == kept) {
        Some(bound) => bound.start = line_end,
        None => bounds.push(Bound { at: kept, start: line_end, end: None }),
      }
    }
    self.bounds.append(&mut bounds);
    Some(())
  }

  /// Where a text is in the original that occurs once; `None` where the tool would fail.
  fn find(&self, old: &str) -> Option<Range<usize>> {
    let lines: Vec<String> = (old.split('\n'))
      .map(|line| {
        let line: String = line.nfkc().map(folded).collect();
        trimmed(&line).to_owned()
      })
      .collect();
    let span = once(&self.text, &lines.join("\n"))??;
    let bound = |at: usize| {
      let found = self.bounds.binary_search_by_key(&at, |bound| bound.at).ok()?;
      self.bounds.get(found)
    };
    let span = bound(span.start)?.start..bound(span.end)?.end?;
    (span.start <= span.end).then_some(span)
  }
}

/// What the tool takes off the end of a line.
fn trimmed(line: &str) -> &str {
  line.trim_end_matches(|c: char| c == MARK || c.is_whitespace() && c != '\u{85}')
}

/// The character that the tool compares.
pub(super) const fn folded(c: char) -> char {
  match c {
    '\u{2018}'..='\u{201b}' => '\'',
    '\u{201c}'..='\u{201f}' => '"',
    '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
    '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
    c => c,
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned() }
  }

  /// The content that is known for sure or supposed, and how many other versions are judged.
  fn after(before: &str, edits: &[Edit]) -> (Option<String>, usize) {
    let mut versions = versions(before.as_bytes(), edits);
    let others = versions.iter().filter(|one| matches!(one, Version::Added(_))).count();
    match versions
      .is_empty()
      .then_some(())
      .map_or_else(|| versions.swap_remove(0), |()| Version::Added(String::new()))
    {
      Version::Content(bytes) => (Some(String::from_utf8(bytes).unwrap()), others),
      Version::Added(_) => (None, others),
    }
  }

  const FILE: &str = "# Memory\n\n- Ann likes tea.\n- Bob works at the library.\n";

  #[test]
  fn edits_are_matched_against_the_content_before_the_call() {
    // The second text occurs twice after the first edit.
    let edits = [
      edit("- Ann likes tea.", "- x\n- Bob works at the library."),
      edit("- Bob works at the library.", "- Bob"),
    ];
    let expected = "# Memory\n\n- x\n- Bob works at the library.\n- Bob\n";
    assert_eq!(after(FILE, &edits), (Some(expected.to_owned()), 0));
    // What only the first edit brings is not found.
    assert_eq!(after(FILE, &[edit("Ann", "Eve"), edit("Eve", "Zoe")]), (None, 2));
    // An edit that changes nothing is left out.
    let edits = [edit("Ann", "Ann"), edit("tea", "rum")];
    assert_eq!(after("- Ann likes tea.", &edits), (Some("- Ann likes rum.".to_owned()), 0));
    assert_eq!(after(FILE, &[edit("Ann", "Ann")]), (None, 0));
  }

  #[test]
  fn quotes_dashes_and_blanks_are_overlooked() {
    for (before, old, expected) in [
      ("- Ann likes tea.\n- b\n", "- Ann likes tea. ", "X\n- b\n"),
      ("- Ann likes tea.\n- b\n", "\u{2013}\u{a0}Ann likes tea.", "X\n- b\n"),
      ("- Ann\u{2019}s tea.  \n- b\n", "- Ann's tea.", "X  \n- b\n"),
      ("- Ann\u{2019}s tea.  \n- b\n", "\u{201b}s tea.\n- b", "- AnnX\n"),
      ("- \u{fb01}sh \u{2460} x\n", "fish 1", "- X x\n"),
      ("- cafe\u{301} x\n", "caf\u{e9}", "- X x\n"),
    ] {
      let (found, others) = after(before, &[edit(old, "X")]);
      assert_eq!((found.as_deref(), others > 0), (Some(expected), true), "{before:?} {old:?}");
    }
  }

  #[test]
  fn line_ends_and_the_mark_stay() {
    let before = "\u{feff}- a\r\n- b\r\n- c\r\n";
    let (found, _) = after(before, &[edit("- a\n- b", "- a\n- x"), edit("- c", "- d\r- e")]);
    assert_eq!(found.as_deref(), Some("\u{feff}- a\r\n- x\r\n- d\r\n- e\r\n"));
    let (found, _) = after("- a\n- b\n", &[edit("- a\r\n- b", "- x\r\n- y")]);
    assert_eq!(found.as_deref(), Some("- x\n- y\n"));
  }

  #[test]
  fn where_the_tool_would_fail_each_text_counts_as_added() {
    for (before, edits) in [
      (FILE, vec![edit("nowhere", "X")]),
      (FILE, vec![edit("", "X")]),
      (FILE, vec![edit("i", "X")]),
      (FILE, vec![edit("Ann likes", "X"), edit("likes tea", "Y")]),
      // The half of a character.
      ("- \u{fb01}sh\n", vec![edit("is", "X")]),
    ] {
      assert_eq!(after(before, &edits), (None, edits.len()), "{edits:?}");
    }
    let edits = [edit("a", "X")];
    assert!(matches!(&versions(b"a \xff", &edits)[..], [Version::Added(_), ..]));
  }

  #[test]
  fn any_texts_are_edited_or_not() {
    let parts = [
      "",
      "\u{301}",
      "e\u{301}\u{1100}\u{1161}",
      "\r",
      "\n",
      "\u{ad}",
      " \u{a0}",
      "\u{feff}",
      "\u{fb01}",
    ];
    for before in parts {
      for old in parts {
        versions(format!("{before}{old}{before}").as_bytes(), &[edit(old, "X"), edit(before, "Y")]);
      }
    }
  }
}
