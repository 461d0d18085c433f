//! Hostile text made safe for a terminal.
//!
//! Everything that could move the cursor, change colours, reorder, hide or forge text becomes a
//! visible escape: control characters, invisible and reordering characters, tag characters, towers
//! of combining marks, invalid bytes. Printable text of any script is unchanged, and so is the
//! backslash: people read the output, and no program parses it.
//!
//! Invariant: the output holds no control character (except line ends, on request), no ESC
//! and no bidirectional control, and is never wider than the cap.
#![forbid(unsafe_code)]

use {std::fmt::Write as _, unicode_width::UnicodeWidthChar as _};

/// Combining marks that one character may carry: Vietnamese, Hebrew and Thai text needs up to
/// three; more are only used to paint over neighbouring lines.
const MAX_MARKS: usize = 4;

/// The sign at the end of a text that was cut.
const CUT: char = '…';

/// Text or bytes on one line, without a limit.
pub fn terminal(text: impl AsRef<[u8]>) -> String {
  Escape::default().apply(text)
}

/// The settings of escaping.
#[derive(Clone, Copy, Debug, Default)]
pub struct Escape {
  keep_lines: bool,
  max_width: Option<usize>,
}

impl Escape {
  /// Keeps line feeds, for previews of several lines.
  #[must_use]
  pub const fn keep_lines(self) -> Self {
    Self { keep_lines: true, ..self }
  }

  /// Cuts the text after this number of terminal columns, of which the final `…` takes one.
  #[must_use]
  pub const fn max_width(self, columns: usize) -> Self {
    Self { max_width: Some(columns), ..self }
  }

  /// Escapes text or bytes, in time linear in the output and not in the input.
  pub fn apply(self, text: impl AsRef<[u8]>) -> String {
    let mut line = Line { escape: self, out: String::new(), width: 0, fits: 0, marks: MAX_MARKS };
    for chunk in text.as_ref().utf8_chunks() {
      for c in chunk.valid().chars() {
        if !line.push(c) {
          return line.out;
        }
      }
      for byte in chunk.invalid() {
        if !line.push_piece(&format!("\\x{byte:02x}")) {
          return line.out;
        }
      }
    }
    line.out
  }
}

/// The bytes as text for places that need no escaping, such as JSON; invalid UTF-8 becomes U+FFFD.
pub fn lossy(bytes: &[u8]) -> String {
  let mut text = String::new();
  for chunk in bytes.utf8_chunks() {
    text.push_str(chunk.valid());
    if !chunk.invalid().is_empty() {
      text.push(char::REPLACEMENT_CHARACTER);
    }
  }
  text
}

/// The columns that a text takes without further escaping; for escaped text.
pub fn width(text: &str) -> usize {
  text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Whether a character must be escaped.
pub fn is_hidden(c: char) -> bool {
  !is_plain(c)
}

struct Line {
  escape: Escape,
  out: String,
  width: usize,
  /// The length of `out` up to which the cut sign still fits.
  fits: usize,
  /// Combining marks after the last visible character; none is allowed at the start.
  marks: usize,
}

impl Line {
  /// Adds one character; `false` when the text had to be cut.
  fn push(&mut self, c: char) -> bool {
    if c == '\n' && self.escape.keep_lines {
      self.marks = MAX_MARKS;
      self.out.push('\n');
      return true;
    }
    let mut buffer = [0; 4];
    // One emoji selector after a visible character is usual; without a character, or twice, it hides data.
    let emoji = c == '\u{fe0f}' && self.marks == 0 && !self.out.ends_with(|c: char| c.is_ascii());
    if emoji || (is_plain(c) && c.width() == Some(0) && self.marks < MAX_MARKS) {
      self.marks = if emoji { MAX_MARKS } else { self.marks + 1 };
      return self.push_columns(c.encode_utf8(&mut buffer), 0);
    }
    if is_plain(c) && c.width().is_some_and(|columns| columns > 0) {
      self.marks = 0;
      return self.push_columns(c.encode_utf8(&mut buffer), c.width().unwrap_or(1));
    }
    match c {
      '\n' => self.push_piece("\\n"),
      '\r' => self.push_piece("\\r"),
      '\t' => self.push_piece("\\t"),
      _ => {
        let mut piece = String::new();
        // Writing to a string cannot fail.
        if write!(piece, "\\u{{{:x}}}", u32::from(c)).is_err() {
          return false;
        }
        self.push_piece(&piece)
      }
    }
  }

  /// Adds an escape, which is never cut in the middle.
  fn push_piece(&mut self, piece: &str) -> bool {
    self.marks = MAX_MARKS;
    self.push_columns(piece, piece.len())
  }

  fn push_columns(&mut self, piece: &str, columns: usize) -> bool {
    if let Some(max) = self.escape.max_width {
      if self.width + columns > max {
        self.out.truncate(self.fits);
        if max > 0 {
          self.out.push(CUT);
        }
        return false;
      }
      self.out.push_str(piece);
      self.width += columns;
      if self.width < max {
        self.fits = self.out.len();
      }
      return true;
    }
    self.out.push_str(piece);
    self.width += columns;
    true
  }
}

/// Whether a character may be shown unescaped; its width does not matter here.
///
/// The list is Unicode's general categories Cc and Cf, the default-ignorable characters, those that
/// render as nothing, and the two separators that some terminals take for line ends.
fn is_plain(c: char) -> bool {
  !c.is_control()
    && !matches!(c,
      '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
      | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
      | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
      | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
      | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{110bd}' | '\u{110cd}'
      | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
      | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*};

  #[test]
  fn honest_text_stays() {
    for text in
      ["plain text, 100 % & C:\\x", "Zürich – „ja“", "Привет", "日本語", "שלום", "สวัสดี", "☕ ❤️"]
    {
      assert_eq!(terminal(text), text);
    }
    assert_eq!(terminal("e\u{301}"), "e\u{301}");
  }

  #[test]
  fn what_moves_hides_or_reorders_becomes_visible() {
    assert_eq!(terminal("a\x1b[31mb\x07\x7f\u{9b}2J"), "a\\u{1b}[31mb\\u{7}\\u{7f}\\u{9b}2J");
    assert_eq!(terminal("one\r\ntwo\t."), "one\\r\\ntwo\\t.");
    assert_eq!(terminal("\u{202e}gpj.\u{2066}"), "\\u{202e}gpj.\\u{2066}");
    assert_eq!(terminal("ig\u{200b}no\u{feff}re\u{ad}"), "ig\\u{200b}no\\u{feff}re\\u{ad}");
    assert_eq!(terminal("x\u{e0041}\u{e007f}"), "x\\u{e0041}\\u{e007f}");
    assert_eq!(terminal("a\u{2028}b\u{3164}"), "a\\u{2028}b\\u{3164}");
  }

  #[test]
  fn invalid_bytes_become_visible() {
    assert_eq!(terminal(b"a\xff\xc3(\xe2\x82".as_slice()), "a\\xff\\xc3(\\xe2\\x82");
  }

  #[test]
  fn towers_of_marks_are_cut_down() {
    let tower = format!("a{}", "\u{301}".repeat(6));
    assert_eq!(terminal(tower), format!("a{}\\u{{301}}\\u{{301}}", "\u{301}".repeat(4)));
    assert_eq!(terminal("\u{301}a"), "\\u{301}a", "no mark is painted on the text before it");
    assert_eq!(terminal("a\u{fe0f}"), "a\\u{fe0f}");
    assert_eq!(terminal("❤\u{fe0f}\u{fe0f}"), "❤\u{fe0f}\\u{fe0f}");
  }

  #[test]
  fn the_cap_counts_columns_and_the_cut_sign() {
    let cap = |text: &str, columns| Escape::default().max_width(columns).apply(text);
    assert_eq!(cap("abcdef", 6), "abcdef");
    assert_eq!(cap("abcdef", 5), "abcd…");
    assert_eq!(cap("日本語", 6), "日本語");
    assert_eq!(cap("日本語", 5), "日本…");
    assert_eq!(cap("日本語", 4), "日…");
    assert_eq!(cap("a\x1bbcdefgh", 6), "a…", "an escape is never cut in two");
    assert_eq!(cap("abc", 0), "");
    assert_eq!(cap("", 0), "");
  }

  #[test]
  fn lines_are_kept_on_request() {
    assert_eq!(Escape::default().keep_lines().apply("a\r\nb"), "a\\r\nb");
  }

  fn is_safe(text: &str) -> bool {
    text.chars().all(|c| is_plain(c) || c == '\u{fe0f}')
  }

  proptest! {
    #[test]
    fn whatever_comes_is_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
      prop_assert!(is_safe(&terminal(&bytes)));
    }

    #[test]
    fn whatever_text_comes_is_safe_and_fits(text in any::<String>(), columns in 0_usize..30) {
      let shown = Escape::default().max_width(columns).apply(&text);
      prop_assert!(is_safe(&shown));
      prop_assert!(width(&shown) <= columns);
      prop_assert!(columns == 0 || text.is_empty() == shown.is_empty());
    }

    #[test]
    fn what_was_escaped_once_stays(text in any::<String>()) {
      let once = terminal(&text);
      prop_assert_eq!(terminal(&once), once);
    }
  }
}
