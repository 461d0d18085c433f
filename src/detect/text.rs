//! A text that several layers read: it is normalised once for all of them.
#![forbid(unsafe_code)]

use std::cell::OnceCell;

use super::normalize::{Normalized, normalize};

/// Text beyond this size is not read; [`super::judge_text`] reports the rest. Memory files are kilobytes.
pub const MAX_TEXT: usize = 8 * 1024 * 1024;

/// A text, and its views as soon as a layer has read it.
#[derive(Debug)]
pub struct Text<'a> {
  bytes: &'a [u8],
  normalized: OnceCell<Normalized<'a>>,
}

impl<'a> Text<'a> {
  /// A text that no layer has read yet.
  pub const fn new(bytes: &'a [u8]) -> Self {
    Self { bytes, normalized: OnceCell::new() }
  }

  /// All of its bytes.
  pub const fn bytes(&self) -> &'a [u8] {
    self.bytes
  }

  /// Its views, of the first [`MAX_TEXT`] bytes.
  pub fn normalized(&self) -> &Normalized<'a> {
    self.normalized.get_or_init(|| normalize(self.bytes.get(..MAX_TEXT).unwrap_or(self.bytes)))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_text_is_normalised_once_and_up_to_its_limit() {
    let bytes = vec![b'a'; MAX_TEXT + 1];
    let text = Text::new(&bytes);
    let first = text.normalized();
    assert!(std::ptr::eq(first, text.normalized()));
    assert_eq!(first.views.first().map(|view| view.text.len()), Some(MAX_TEXT));
    assert_eq!(text.bytes().len(), MAX_TEXT + 1);
  }
}
