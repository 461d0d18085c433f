//! Lines with texts that are no Unicode: an agent whose strings are UTF-16 may have half of a pair.
//!
//! Such a line must not escape the check. A file cannot have half of a pair either: what is written is U+FFFD.
#![forbid(unsafe_code)]

use super::outcome::lossy;

/// The line with U+FFFD in place of what is no character: the escapes of half a pair, and bytes that are no UTF-8.
/// `None` if there is nothing of it.
pub(super) fn mended(line: &[u8]) -> Option<String> {
  let text = lossy(line);
  let mut out = String::with_capacity(text.len());
  let mut rest = &*text;
  while let Some((before, tail)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
    out.push_str(before);
    let n = match (unit(tail), tail.get(6..).and_then(unit)) {
      (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
      (Some(0xd800..=0xdfff), _) => {
        out.push_str("\\ufffd");
        rest = tail.get(6..).unwrap_or_default();
        continue;
      }
      // The escaped character may be a backslash.
      _ => 1 + tail.chars().nth(1).map_or(0, char::len_utf8),
    };
    let (escape, after) = tail.split_at_checked(n).unwrap_or((tail, ""));
    out.push_str(escape);
    rest = after;
  }
  out.push_str(rest);
  (out.as_bytes() != line).then_some(out)
}

/// The UTF-16 unit that an escape at the beginning stands for.
fn unit(text: &str) -> Option<u16> {
  let digits = text.strip_prefix("\\u")?.get(..4)?;
  let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
  if is_hex { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn half_of_a_pair_is_replaced() {
    for (line, expected) in [
      (r#""a\ud800b""#, r#""a\ufffdb""#),
      (r#""\uDFFF""#, r#""\ufffd""#),
      (r#""\ud800\ud83d\ude00\ud800""#, r#""\ufffd\ud83d\ude00\ufffd""#),
      (r#""\ud800\n\udc00""#, r#""\ufffd\n\ufffd""#),
      (r#""\\\ud800""#, r#""\\\ufffd""#),
    ] {
      assert_eq!(mended(line.as_bytes()).as_deref(), Some(expected), "{line}");
    }
    assert_eq!(mended(b"\"\xed\xa0\x80\"").as_deref(), Some("\"\u{fffd}\u{fffd}\u{fffd}\""));
  }

  #[test]
  fn what_is_whole_stays() {
    for line in
      [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\n\\""#, "\"ä\\", "\\u", "\\ud8", "\\uä", ""]
    {
      assert_eq!(mended(line.as_bytes()), None, "{line}");
    }
  }
}
