//! The changes of a patch in one file, as the agent's tool `apply_patch` finds their places.
#![forbid(unsafe_code)]

use super::edits::folded;

/// One change: the lines that go, and those that come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
  /// A line after which the place is.
  after: Option<&'a str>,
  old: Vec<&'a str>,
  /// Each new line, and for one that stays its index in `old`.
  new: Vec<(&'a str, Option<usize>)>,
  is_at_end: bool,
}

impl<'a> Chunk<'a> {
  /// Reads a change, and returns the lines after it; `None` where the tool would fail.
  pub(super) fn read<'l>(lines: &'l [&'a str], is_first: bool) -> Option<(Self, &'l [&'a str])> {
    let mut chunk = Self::default();
    let mut rest = lines;
    match lines.first()? {
      &"@@" => rest = lines.get(1..)?,
      line if line.starts_with("@@ ") => {
        chunk.after = line.get(3..);
        rest = lines.get(1..)?;
      }
      _ if is_first => {}
      _ => return None,
    }
    let mut n = 0;
    while let [line, after @ ..] = rest {
      if *line == "*** End of File" {
        chunk.is_at_end = true;
        return (n > 0).then_some((chunk, after));
      }
      match line.split_at_checked(1) {
        None if line.is_empty() => {
          chunk.new.push(("", Some(chunk.old.len())));
          chunk.old.push("");
        }
        Some((" ", text)) => {
          chunk.new.push((text, Some(chunk.old.len())));
          chunk.old.push(text);
        }
        Some(("+", text)) => chunk.new.push((text, None)),
        Some(("-", text)) => chunk.old.push(text),
        _ => break,
      }
      n += 1;
      rest = after;
    }
    (n > 0).then_some((chunk, rest))
  }

  /// The lines that it brings, with those between them.
  pub(super) fn new_text(&self) -> String {
    self.new.iter().flat_map(|(line, _)| [line, "\n"]).collect()
  }
}

/// A line and its end.
type Line<'a> = (&'a str, &'a str);

/// The content after the changes; `None` where the tool would fail.
pub(super) fn apply(content: &str, chunks: &[Chunk<'_>]) -> Option<String> {
  let body = content.strip_prefix('\u{feff}').unwrap_or(content);
  let source = lines(body);
  let usual = source.iter().map(|(_, end)| *end).find(|end| !end.is_empty()).unwrap_or("\n");
  let mut places: Vec<(usize, usize, Vec<Line<'_>>)> = Vec::with_capacity(chunks.len());
  let mut at = 0;
  for chunk in chunks {
    if let Some(after) = chunk.after {
      at = seek(&source, &[after], at, false)? + 1;
    }
    if chunk.old.is_empty() {
      let place = if chunk.after.is_some() && !chunk.is_at_end { at } else { source.len() };
      let end = ends_near(&source, place, 0, usual);
      let mut new: Vec<Line<'_>> = chunk.new.iter().map(|(text, _)| (*text, end)).collect();
      let is_open = source.last().is_some_and(|(_, end)| end.is_empty());
      if let Some(last) = new.last_mut().filter(|_| is_open && place == source.len()) {
        last.1 = "";
      }
      places.push((place, 0, new));
      at = place;
      continue;
    }
    let (mut old, mut new) = (chunk.old.as_slice(), chunk.new.as_slice());
    let place = if let Some(place) = seek(&source, old, at, chunk.is_at_end) {
      place
    } else {
      // A blank line at the end may mean the end of the file.
      old = old.strip_suffix(&[""])?;
      if new.last().is_some_and(|(text, _)| text.is_empty()) {
        new = new.get(..new.len() - 1)?;
      }
      if old.is_empty() { at } else { seek(&source, old, at, chunk.is_at_end)? }
    };
    places.push((place, old.len(), changed(&source, place, old.len(), new, usual)));
    at = place + old.len();
  }
  places.sort_by_key(|(place, ..)| *place);
  let mut result: Vec<Line<'_>> = source.clone();
  for (place, n, new) in places.into_iter().rev() {
    let end = (place + n).min(result.len());
    result.splice(place.min(end)..end, new);
  }
  let mut after = content.get(..content.len() - body.len())?.to_owned();
  let n = result.len();
  for (index, (text, end)) in result.into_iter().enumerate() {
    after.push_str(text);
    after.push_str(if end.is_empty() && index + 1 < n { usual } else { end });
  }
  Some(after)
}

/// The new lines in the place of old ones. A line that stays is that of the file, not that of the patch.
fn changed<'a>(
  source: &[Line<'a>],
  place: usize,
  n_old: usize,
  new: &[(&'a str, Option<usize>)],
  usual: &'a str,
) -> Vec<Line<'a>> {
  let mut lines = Vec::with_capacity(new.len());
  let mut run: Vec<&'a str> = Vec::new();
  let mut old = 0;
  let flush = |run: &mut Vec<&'a str>, lines: &mut Vec<Line<'a>>, from: usize, to: usize| {
    let gone = source.get(place + from..place + to).unwrap_or_default();
    let near = ends_near(source, place + from, to - from, usual);
    let n = run.len();
    for (index, text) in run.drain(..).enumerate() {
      let own = if gone.len() == n || index + 1 < gone.len() {
        gone.get(index)
      } else if index + 1 == n {
        gone.last()
      } else {
        None
      };
      lines.push((text, own.map_or(near, |(_, end)| *end)));
    }
  };
  for (text, stays) in new {
    match stays.filter(|index| *index < n_old && *index >= old) {
      Some(index) => {
        flush(&mut run, &mut lines, old, index);
        lines.extend(source.get(place + index));
        old = index + 1;
      }
      None => run.push(text),
    }
  }
  flush(&mut run, &mut lines, old, n_old.max(old));
  lines
}

/// The line end of new lines in this place.
fn ends_near<'a>(source: &[Line<'a>], place: usize, n_old: usize, usual: &'a str) -> &'a str {
  let gone = source.get(place..place + n_old).unwrap_or_default();
  let before = place.checked_sub(1).and_then(|before| source.get(before));
  let near = gone.iter().chain(source.get(place)).chain(before);
  near.map(|(_, end)| *end).find(|end| !end.is_empty()).unwrap_or(usual)
}

fn lines(text: &str) -> Vec<Line<'_>> {
  let mut lines = Vec::new();
  let mut rest = text;
  while !rest.is_empty() {
    let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
    let (line, after) = rest.split_at(end);
    let n = if after.starts_with("\r\n") { 2 } else { after.len().min(1) };
    let (end, after) = after.split_at(n);
    lines.push((line, end));
    rest = after;
  }
  lines
}

/// Whether two lines are the same for the tool.
type Same<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Where these lines are, looked for more and more loosely; `None` where they are missing or not in one place only.
fn seek(source: &[Line<'_>], wanted: &[&str], from: usize, is_at_end: bool) -> Option<usize> {
  let last = source.len().checked_sub(wanted.len())?;
  let from = if is_at_end { from.max(last) } else { from };
  let punctuation = |text: &str| text.trim().chars().map(folded).collect::<String>();
  let same: [Same<'_>; 4] = [
    &|a, b| a == b,
    &|a, b| a.trim_end() == b.trim_end(),
    &|a, b| a.trim() == b.trim(),
    &|a, b| punctuation(a) == punctuation(b),
  ];
  for is_same in same {
    let is_here = |at: &usize| {
      let here = source.get(*at..at + wanted.len()).unwrap_or_default();
      here.iter().zip(wanted).all(|((line, _), wanted)| is_same(line, wanted))
    };
    let mut found = (from..=last).filter(is_here);
    if let Some(first) = found.next() {
      return found.next().is_none().then_some(first);
    }
  }
  None
}

#[cfg(test)]
mod tests {
  use super::*;

  fn after(content: &str, text: &str) -> Option<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut rest = lines.as_slice();
    let mut chunks = Vec::new();
    while !rest.is_empty() {
      let (chunk, after) = Chunk::read(rest, chunks.is_empty())?;
      chunks.push(chunk);
      rest = after;
    }
    apply(content, &chunks)
  }

  #[test]
  fn places_are_found_as_the_tool_finds_them() {
    for (content, text, expected) in [
      ("a\nb\nc\n", "@@\n a\n-b\n+B", Some("a\nB\nc\n")),
      ("a\nb\nc\n", "@@ b\n+x", Some("a\nb\nx\nc\n")),
      ("a\nb", "@@\n+x", Some("a\nb\nx")),
      ("a\r\nb\r\n", "@@\n-a\n+x\n+y", Some("x\r\ny\r\nb\r\n")),
      // A line that stays is the one of the file.
      ("- \u{2018}a\u{2019}  \nb\n", "@@\n - 'a'\n-b\n+x", Some("- \u{2018}a\u{2019}  \nx\n")),
      ("a\nb\na\n", "@@\n-a\n+x", None),
      ("a\nb\na\n", "@@\n-a\n+x\n*** End of File", Some("a\nb\nx\n")),
      ("a\n", "@@\n-z\n+x", None),
      ("a\n", "@@\n-a\n+x\n", Some("x\n")),
    ] {
      assert_eq!(after(content, text).as_deref(), expected, "{content:?} {text:?}");
    }
  }
}
