//! The keys of the screen, from the bytes that a terminal sends. Pure.
#![forbid(unsafe_code)]

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
  /// Selects the item above.
  Up,
  /// Selects the item below.
  Down,
  /// Selects the first item.
  First,
  /// Selects the last item.
  Last,
  /// Reviews the selected item.
  Review,
  /// Shows the help.
  Help,
  /// Draws the screen again.
  Redraw,
  /// Ends the command.
  Quit,
  /// Any other key.
  Other,
}

/// The keys of bytes that were read at once. ESC is a key of its own only as the last byte: with more bytes after it,
/// it begins the sequence of another key.
pub(super) fn keys(mut bytes: &[u8]) -> Vec<Key> {
  let mut found = Vec::new();
  while let Some((key, n)) = first(bytes) {
    found.push(key);
    bytes = bytes.get(n..).unwrap_or_default();
  }
  found
}

/// The first key, and the number of its bytes.
fn first(bytes: &[u8]) -> Option<(Key, usize)> {
  Some(match bytes {
    [] => return None,
    [0x1b] => (Key::Quit, 1),
    [0x1b, b'[' | b'O', rest @ ..] => {
      // Parameters, then one final byte (ECMA-48, 5.4).
      let n = rest.iter().take_while(|byte| !(0x40..=0x7e).contains(*byte)).count();
      let key = match rest.get(..=n) {
        Some(b"A") => Key::Up,
        Some(b"B") => Key::Down,
        Some(b"H" | b"1~" | b"7~") => Key::First,
        Some(b"F" | b"4~" | b"8~") => Key::Last,
        _ => Key::Other,
      };
      (key, n + 3)
    }
    [0x1b, _, ..] => (Key::Other, 2),
    [byte, ..] => (
      match byte {
        b'k' => Key::Up,
        b'j' => Key::Down,
        b'g' => Key::First,
        b'G' => Key::Last,
        b'\r' | b'\n' | b'r' => Key::Review,
        b'?' | b'h' => Key::Help,
        // Ctrl-L.
        0x0c => Key::Redraw,
        // Ctrl-C and Ctrl-D cause no signal in raw mode.
        b'q' | 3 | 4 => Key::Quit,
        _ => Key::Other,
      },
      1,
    ),
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn keys_are_single_bytes_or_sequences() {
    use Key::{Down, First, Last, Other, Quit, Review, Up};
    for (bytes, expected) in [
      (b"".as_slice(), &[][..]),
      (b"jk\r", &[Down, Up, Review]),
      (b"\x1b[A\x1bOB\x1b[Aq", &[Up, Down, Up, Quit]),
      (b"\x1b[1~\x1b[F", &[First, Last]),
      (b"\x1b", &[Quit]),
      (b"\x03", &[Quit]),
      // F5, Alt-q, and a sequence that is cut off quit nothing.
      (b"\x1b[15~j", &[Other, Down]),
      (b"\x1bqj", &[Other, Down]),
      (b"\x1b[", &[Other]),
      (b"\x1b[1", &[Other]),
      ("ä".as_bytes(), &[Other, Other]),
    ] {
      assert_eq!(keys(bytes), expected, "{bytes:?}");
    }
  }
}
