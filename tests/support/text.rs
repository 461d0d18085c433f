//! Comparing and rewriting text for the builder.

/// `text` without its first line end and the indentation that all its lines share, when it begins
/// with a line end; else unchanged.
pub(super) fn unindent(text: &str) -> String {
  let Some(text) = text.strip_prefix('\n') else { return text.to_owned() };
  let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
  let shared = text.lines().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
  let mut lines: Vec<&str> =
    text.split('\n').map(|line| line.get(shared..).unwrap_or("")).collect();
  // The line of the closing quote.
  if lines.last().is_some_and(|line| line.trim().is_empty()) {
    lines.pop();
    lines.push("");
  }
  lines.join("\n")
}

/// Fails with both texts and the first line that differs.
#[track_caller]
pub(super) fn compare(what: &str, expected: &str, found: &str) {
  if expected == found {
    return;
  }
  let mut lines = expected.split('\n').zip(found.split('\n')).enumerate();
  let first = lines.find(|(_, (expected, found))| expected != found);
  let at = first.map_or_else(
    || "one is longer".to_owned(),
    |(at, (expected, found))| {
      format!("line {}:\n  expected {expected:?}\n  found    {found:?}", at + 1)
    },
  );
  panic!("{what} differs, {at}\n--- expected\n{expected}\n--- found\n{found}\n---");
}

/// `bytes` with every `from` replaced.
pub(super) fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
  let mut out = Vec::with_capacity(bytes.len());
  let mut rest = bytes;
  while let Some(&byte) = rest.first() {
    if let Some(after) = rest.strip_prefix(from) {
      out.extend_from_slice(to);
      rest = after;
    } else {
      out.push(byte);
      rest = &rest[1..];
    }
  }
  out
}

/// Bytes for a message: line ends stay, unprintable characters are escaped.
pub(super) fn visible(bytes: &[u8]) -> String {
  bytes
    .split(|&byte| byte == b'\n')
    .map(|line| line.escape_ascii().to_string())
    .collect::<Vec<_>>()
    .join("\n")
}

#[test]
fn indented_literals_lose_their_indentation() {
  assert_eq!(unindent("a\n  b"), "a\n  b");
  assert_eq!(unindent("\n    a\n      b\n\n    c\n  "), "a\n  b\n\nc\n");
  assert_eq!(unindent("\n    a\n    b\n    "), "a\nb\n");
}

#[test]
fn every_occurrence_is_replaced() {
  assert_eq!(replace(b"xabab\xff", b"ab", b"[T]"), b"x[T][T]\xff");
}

#[test]
#[should_panic(expected = "line 2")]
fn a_difference_is_reported_with_its_line() {
  compare("text", "a\nb\n", "a\nc\n");
}
