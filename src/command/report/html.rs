//! A page under construction: only this program writes markup, and text is always escaped.
//!
//! Invariant: only `'static` markup and numbers enter the page unescaped, so no name and no text of
//! memory can open a tag, end an attribute or reorder the text beside it.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::terminal::escape::Escape;

/// The most columns of one text; a source may be 200 characters long, a path 4,096 bytes.
const MAX_COLUMNS: usize = 400;

/// The page so far.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
  /// Adds markup of memfw.
  pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
    self.0.push_str(markup);
    self
  }

  /// Adds text from any source, escaped, between tags or between double quotes.
  pub(super) fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
    // First make characters visible that move, hide or reorder text, as on a terminal.
    for c in Escape::default().max_width(MAX_COLUMNS).apply(text).chars() {
      match c {
        '<' => self.0.push_str("&lt;"),
        '>' => self.0.push_str("&gt;"),
        '&' => self.0.push_str("&amp;"),
        '"' => self.0.push_str("&quot;"),
        '\'' => self.0.push_str("&#39;"),
        '`' => self.0.push_str("&#96;"),
        c => self.0.push(c),
      }
    }
    self
  }

  /// Adds a whole number.
  pub(super) fn number(&mut self, n: u64) -> &mut Self {
    // Writing to a string cannot fail.
    write!(self.0, "{n}").ok();
    self
  }

  /// Adds a coordinate of a drawing.
  pub(super) fn place(&mut self, x: f64) -> &mut Self {
    write!(self.0, "{x:.2}").ok();
    self
  }

  /// Adds an element without attributes around escaped text: `tag("h2", "Sources")`.
  pub(super) fn tag(&mut self, tag: &'static str, text: impl AsRef<[u8]>) -> &mut Self {
    self.markup("<").markup(tag).markup(">").text(text).markup("</").markup(tag).markup(">")
  }

  /// The whole page.
  pub(super) fn finish(self) -> String {
    self.0
  }
}

/// The name of a style sheet in a content security policy: `sha256-` and its hash in base64.
pub(super) fn policy_hash(style: &str) -> String {
  format!("sha256-{}", base64(&Sha256::digest(style.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
  const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  let mut out = String::new();
  for chunk in bytes.chunks(3) {
    let bits =
      chunk.iter().zip([16, 8, 0]).fold(0, |bits, (byte, by)| bits | (u32::from(*byte) << by));
    for (n, by) in [18, 12, 6, 0].into_iter().enumerate() {
      let digit = DIGITS.get(((bits >> by) & 63) as usize).copied().unwrap_or(b'A');
      out.push(if n > chunk.len() { '=' } else { char::from(digit) });
    }
  }
  out
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn shown(text: impl AsRef<[u8]>) -> String {
    let mut html = Html::default();
    html.text(text);
    html.finish()
  }

  #[test]
  fn hostile_text_stays_text() {
    assert_eq!(shown("<b onclick=\"x\">&'`"), "&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;&#96;");
    assert_eq!(shown("a\n\u{202e}\0\x1b"), "a\\n\\u{202e}\\u{0}\\u{1b}");
    assert_eq!(shown(b"\xff".as_slice()), "\\xff");
    assert_eq!(shown("Zürich 日本"), "Zürich 日本");
    assert!(shown("x".repeat(9_999)).chars().count() <= MAX_COLUMNS);
    let mut html = Html::default();
    html.tag("h2", "</h2>").number(7).place(1.0 / 3.0);
    assert_eq!(html.finish(), "<h2>&lt;/h2&gt;</h2>70.33");
  }

  #[test]
  fn the_hash_is_the_one_that_browsers_compute() {
    assert_eq!(base64(b""), "");
    for (text, expected) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
      assert_eq!(base64(text.as_bytes()), expected);
    }
    // printf '' | openssl dgst -sha256 -binary | base64
    assert_eq!(policy_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  }

  proptest! {
    #[test]
    fn whatever_comes_opens_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
      let text = shown(&bytes);
      prop_assert!(!text.contains(['<', '>', '"', '\'', '`']));
      prop_assert!(!text.chars().any(char::is_control));
      for part in text.split('&').skip(1) {
        let name = part.split(';').next().unwrap_or_default();
        prop_assert!(["lt", "gt", "amp", "quot", "#39", "#96"].contains(&name), "{}", name);
      }
    }
  }
}
