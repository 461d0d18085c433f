//! The name that a skill gives itself, in the front matter of its main file.
#![forbid(unsafe_code)]

/// The most characters of a name; a longer one is no name.
const MAX_CHARS: usize = 64;
/// The most lines of front matter that are read.
const MAX_LINES: usize = 200;

/// The value of `name:` between the two lines `---` at the start of a main file. It may be any text: it is escaped
/// wherever it is shown, and never becomes part of a path.
pub fn declared_name(bytes: &[u8]) -> Option<String> {
  let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
  let mut lines = bytes.split(|byte| *byte == b'\n').take(MAX_LINES).map(<[u8]>::trim_ascii_end);
  if lines.next()? != b"---" {
    return None;
  }
  let value =
    lines.take_while(|line| *line != b"---").find_map(|line| line.strip_prefix(b"name:"))?;
  let value = std::str::from_utf8(value).ok()?.trim();
  let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
  let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
  (!name.is_empty() && name.chars().count() <= MAX_CHARS).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[test]
  fn the_name_is_in_the_front_matter() {
    let name = |text: &str| declared_name(text.as_bytes());
    assert_eq!(name("---\nname: weather\n---\n").as_deref(), Some("weather"));
    assert_eq!(
      name("---\r\ndescription: x\r\nname: \"my skill\"\r\n---\r\n").as_deref(),
      Some("my skill")
    );
    assert_eq!(name("\u{feff}---\nname: 'a'\n").as_deref(), Some("a"));
    assert_eq!(name("---\nx: y\n---\nname: outside\n"), None);
    assert_eq!(name("name: no front matter\n"), None);
    assert_eq!(name("---\n name: nested\nname:\n---\n"), None);
    assert_eq!(name(&format!("---\nname: {}\n", "x".repeat(65))), None);
  }

  proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..80), text in "(---\n|name: ?|\\PC|\n){0,20}") {
      for bytes in [bytes.as_slice(), text.as_bytes()] {
        prop_assert!(declared_name(bytes).is_none_or(|name| !name.is_empty() && !name.contains('\n')));
      }
    }
  }
}
