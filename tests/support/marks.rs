//! memfw's comments in files, read by the grammar of their contract and not by memfw.

use {
  regex::bytes::Regex,
  std::{path::Path, sync::LazyLock},
};

/// Characters of a file that the agent injects whole.
const INJECTED: usize = 20_000;
/// The most characters that wrappers add to a file of these tests.
const SLACK: usize = 4_000;

static OPENER: LazyLock<Regex> = LazyLock::new(|| {
  let value = r"(?:[A-Za-z0-9\-._~:/@]|%[0-9A-F]{2})+";
  let text = format!(
    r"(?m-u)^<!-- memfw:id=[0-9a-f]{{6,16}} source={value} trust=(?:trusted|verified|untrusted|hostile) ts=\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?: [a-z][a-z_-]*={value})* -->\r?\n"
  );
  Regex::new(&text).unwrap()
});
static CLOSER: LazyLock<Regex> =
  LazyLock::new(|| Regex::new(r"(?m-u)^<!-- /memfw -->\r?\n").unwrap());
static ID: LazyLock<Regex> =
  LazyLock::new(|| Regex::new(r"(?-u) <!-- memfw:[0-9a-f]{6,16} -->").unwrap());
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
  Regex::new(r"(?-u)<!-- memfw:[0-9a-f]{6,16} quarantined {1,}-->|memfw:[0-9a-f]{6,16}").unwrap()
});

/// The file without marker lines and id comments.
pub(crate) fn strip(bytes: &[u8]) -> Vec<u8> {
  let mut bytes = bytes.to_vec();
  for mark in [&OPENER, &CLOSER, &ID] {
    bytes = mark.replace_all(&bytes, &b""[..]).into_owned();
  }
  bytes
}

/// The number of placeholders in the file.
pub(crate) fn placeholders(bytes: &[u8]) -> usize {
  PLACEHOLDER.find_iter(&strip(bytes)).count()
}

/// Fails unless openers and closers alternate and the file has no other comment of memfw.
#[track_caller]
pub(crate) fn assert_well_formed(bytes: &[u8]) {
  let mut marks: Vec<(usize, bool)> = OPENER.find_iter(bytes).map(|m| (m.start(), true)).collect();
  marks.extend(CLOSER.find_iter(bytes).map(|m| (m.start(), false)));
  marks.sort_unstable();
  let alternate = marks.iter().enumerate().all(|(at, (_, opens))| *opens == (at % 2 == 0));
  assert!(alternate && marks.len().is_multiple_of(2), "unpaired markers in:\n{}", show(bytes));
  let rest = PLACEHOLDER.replace_all(&strip(bytes), &b""[..]).into_owned();
  let left = Regex::new(r"(?-u)<!-- /?memfw").unwrap();
  assert!(!left.is_match(&rest), "a broken marker in:\n{}", show(bytes));
}

/// Whether `text` is inside a pair of markers.
pub(crate) fn is_wrapped(bytes: &[u8], text: &str) -> bool {
  let at = find(bytes, text.as_bytes()).expect("the text is not in the file");
  let last =
    |mark: &Regex| mark.find_iter(bytes).map(|m| m.end()).take_while(|end| *end <= at).last();
  let next = |mark: &Regex| mark.find_at(bytes, at).map(|m| m.start());
  let opened =
    last(&OPENER).is_some_and(|opened| last(&CLOSER).is_none_or(|closed| closed < opened));
  opened && next(&CLOSER).is_some_and(|closed| next(&OPENER).is_none_or(|opened| closed < opened))
}

/// Fails unless `text` is marked as far as the contract allows: wrapped, except in files that are
/// injected and too long for that, and on file systems where nothing may be reshaped.
#[track_caller]
pub(crate) fn assert_marked(path: &Path, bytes: &[u8], text: &str) {
  assert_well_formed(bytes);
  let bare = strip(bytes);
  assert!(find(&bare, text.as_bytes()).is_some(), "`{text}` is not in:\n{}", show(bytes));
  let injected = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("memory.md"));
  let length = String::from_utf8_lossy(&bare).encode_utf16().count();
  if !reshapes(path) || (injected && length > INJECTED) {
    assert_eq!(bytes, bare, "nothing may be marked here");
  } else if !injected || length + SLACK < INJECTED {
    assert!(is_wrapped(bytes, text), "`{text}` is not wrapped in:\n{}", show(bytes));
  }
}

/// Whether the file system lets memfw reshape files: local ones with leases that see every mapping.
pub(crate) fn reshapes(path: &Path) -> bool {
  const LOCAL: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994];
  let found = rustix::fs::statfs(path).unwrap().f_type as u64 & 0xFFFF_FFFF;
  LOCAL.contains(&found)
}

/// Whether the file ends inside an unclosed fence, so that later text is code.
pub(crate) fn ends_in_fence(bytes: &[u8]) -> bool {
  let mut open: Option<&str> = None;
  let text = String::from_utf8_lossy(bytes);
  for line in text.lines() {
    let line = line.trim_end();
    let mark = ['`', '~'].map(|c| line.len() - line.trim_start_matches(c).len());
    let length = mark[0].max(mark[1]);
    match open {
      Some(fence) if length == line.len() && line.starts_with(fence) => open = None,
      None if length >= 3 && (mark[0] == 0 || !line[length..].contains('`')) => {
        open = Some(&line[..length]);
      }
      _ => {}
    }
  }
  open.is_some()
}

/// Where `needle` begins.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
  bytes.windows(needle.len().max(1)).position(|window| window == needle)
}

/// How often `needle` occurs.
pub(crate) fn count(bytes: &[u8], needle: &[u8]) -> usize {
  bytes.windows(needle.len().max(1)).filter(|window| *window == needle).count()
}

/// Lines of a file that a message shows.
const SHOWN: usize = 40;

/// Bytes for a message; of a long file only the end, where the writers of these tests write.
pub(crate) fn show(bytes: &[u8]) -> String {
  let text = super::text::visible(bytes);
  let n_lines = text.lines().count();
  let shown: Vec<&str> = text.lines().skip(n_lines.saturating_sub(SHOWN)).collect();
  shown.join("\n")
}

/// Fails with the ends of both files when they differ.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], expected: &[u8], context: &str) {
  let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
  let from = same.saturating_sub(200);
  assert!(
    found == expected,
    "{context}: differs at byte {same}\n--- found\n{}\n--- expected\n{}",
    show(&found[from..]),
    show(&expected[from..])
  );
}

#[test]
fn marks_are_read_by_the_grammar() {
  let file = b"# Notes\r\n<!-- memfw:id=a1b2c3 source=mcp:a%20b trust=untrusted ts=2026-11-21T14:32:00Z flags=x:y -->\r\n- one\r\n\r\n- two\r\n<!-- /memfw -->\r\n- old <!-- memfw:a1b2c3 -->\r\n";
  assert_eq!(strip(file), b"# Notes\r\n- one\r\n\r\n- two\r\n- old\r\n");
  assert_well_formed(file);
  assert!(is_wrapped(file, "- two"));
  assert!(!is_wrapped(file, "- old"));
  assert!(!is_wrapped(file, "# Notes"));
  assert_eq!(placeholders(b"<!-- memfw:a1b2c3 quarantined   -->\n"), 1);
}

#[test]
fn an_open_fence_is_noticed() {
  assert!(ends_in_fence(b"a\n````sh\nls\n```\n"));
  assert!(!ends_in_fence(b"a\n```sh\nls\n````\n~~~\n```\n~~~\n``` inline ``` \n"));
}

#[test]
#[should_panic(expected = "unpaired")]
fn an_unclosed_marker_is_noticed() {
  assert_well_formed(
    b"<!-- memfw:id=a1b2c3 source=x trust=untrusted ts=2026-11-21T14:32:00Z -->\n- one\n",
  );
}
