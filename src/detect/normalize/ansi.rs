//! Terminal escape sequences: what they do to a terminal that prints the text.
#![forbid(unsafe_code)]

/// What a sequence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
  /// Colours and weight, as in a pasted log.
  Colour,
  /// Moves, erases, conceals, renames, writes the clipboard: changes what a reader sees or has.
  Control,
}

/// A sequence longer than this is cut: the rest is text.
const MAX_SEQUENCE: usize = 1024;

/// The escape sequence that `text` starts with: its length in bytes and effect. `text` starts with
/// ESC or a C1 control sequence introducer.
pub(super) fn sequence(text: &str) -> (usize, Effect) {
  let bytes = text.as_bytes();
  let (intro, kind) = match bytes {
    [0x1b, kind @ 0x20..=0x7e, ..] => (2, *kind),
    [0xc2, 0x9b, ..] => (2, b'['),
    [0x1b, ..] => return (1, Effect::Control),
    _ => return (0, Effect::Control),
  };
  match kind {
    b'[' => {
      let parameters = bytes
        .iter()
        .skip(intro)
        .take(MAX_SEQUENCE)
        .take_while(|b| (0x20..=0x3f).contains(*b))
        .count();
      let end = intro + parameters;
      match bytes.get(end) {
        Some(b'm') => {
          let conceals = text.get(intro..end).is_some_and(|list| {
            list.split(';').any(|number| number == "8" || number == "08")
              && !list.contains("38")
              && !list.contains("48")
          });
          (end + 1, if conceals { Effect::Control } else { Effect::Colour })
        }
        Some(0x40..=0x7e) => (end + 1, Effect::Control),
        _ => (end, Effect::Control),
      }
    }
    b']' | b'P' | b'X' | b'^' | b'_' => {
      let mut end = intro;
      while let Some(byte) = bytes.get(end) {
        match byte {
          0x07 => return (end + 1, Effect::Control),
          0x1b => {
            let closes = bytes.get(end + 1) == Some(&b'\\');
            return (end + if closes { 2 } else { 0 }, Effect::Control);
          }
          b'\n' => break,
          _ if end >= MAX_SEQUENCE => break,
          _ => end += 1,
        }
      }
      // Without an end it is no command: only the introducer goes.
      (intro, Effect::Control)
    }
    _ => (2, Effect::Control),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn sequences_are_measured() {
    assert_eq!(sequence("\u{1b}[31mred"), (5, Effect::Colour));
    assert_eq!(sequence("\u{1b}[38;5;208mx"), (11, Effect::Colour));
    assert_eq!(sequence("\u{1b}[8mhidden"), (4, Effect::Control));
    assert_eq!(sequence("\u{1b}[2J\u{1b}[H"), (4, Effect::Control));
    assert_eq!(sequence("\u{1b}]52;c;aGk=\u{7}x"), (12, Effect::Control));
    assert_eq!(sequence("\u{1b}]0;t\u{1b}\\x"), (7, Effect::Control));
    assert_eq!(sequence("\u{1b}]never closed"), (2, Effect::Control));
    assert_eq!(sequence("\u{9b}1A"), (4, Effect::Control));
    assert_eq!(sequence("\u{1b}"), (1, Effect::Control));
  }
}
