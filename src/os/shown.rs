//! Displays a path: escaped, because file names are as hostile as file contents.
#![forbid(unsafe_code)]

use std::{
  fmt::{self, Write as _},
  os::unix::ffi::OsStrExt as _,
  path::Path,
};

/// A path for display: in backticks, with control and formatting characters and bytes that are not
/// UTF-8 escaped, because file names are as hostile as file contents.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a Path);

impl fmt::Display for Shown<'_> {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('`')?;
    for chunk in self.0.as_os_str().as_bytes().utf8_chunks() {
      for c in chunk.valid().chars() {
        match c {
          '\'' | '"' => f.write_char(c)?,
          '`' => f.write_str("\\`")?,
          _ => write!(f, "{}", c.escape_debug())?,
        }
      }
      for byte in chunk.invalid() {
        write!(f, "\\x{byte:02x}")?;
      }
    }
    f.write_char('`')
  }
}

#[cfg(test)]
mod tests {
  use std::ffi::OsStr;

  use super::*;

  #[test]
  fn a_name_is_shown_without_anything_that_a_terminal_obeys() {
    let path = Path::new(OsStr::from_bytes(b"memory/a\n\x1b[2J\xffit's`.md"));
    assert_eq!(Shown(path).to_string(), r"`memory/a\n\u{1b}[2J\xffit's\`.md`");
    let bidi = Path::new("a\u{202e}dm.md");
    assert_eq!(Shown(bidi).to_string(), r"`a\u{202e}dm.md`");
  }
}
