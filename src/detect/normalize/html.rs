//! HTML as far as it decides what a reader of the rendered page sees: comments, tags, entities and
//! elements that a style hides. Not a parser: markdown memory holds fragments, not pages.
//!
//! Invariant: every search forward is either bounded or remembered, so a text full of openers costs
//! linear time.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A tag longer than this is text.
const MAX_TAG: usize = 4096;
/// Hidden elements that are looked into, at most.
const MAX_HIDDEN: usize = 64;
/// How far the end of a hidden element is looked for, in bytes.
const MAX_ELEMENT: usize = 65_536;

/// One construct at a `<`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Construct {
  /// A comment: what it says, and where it ends.
  Comment { inner: Range<usize>, end: usize },
  /// A tag to leave out.
  Tag { end: usize, inline: bool, hidden: Option<Range<usize>> },
}

/// Reads constructs of one text from front to back.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
  text: &'a str,
  /// No comment ends after this offset.
  no_comment_end: usize,
  /// The next `>` at or after the offset that was asked for last.
  next_close: Option<usize>,
  hidden_seen: usize,
}

impl<'a> Scanner<'a> {
  /// A scanner at the start of `text`.
  pub(super) fn new(text: &'a str) -> Self {
    Self { text, no_comment_end: usize::MAX, next_close: Some(0), hidden_seen: 0 }
  }

  /// The construct that begins at the `<` at `at`, if there is one. Offsets asked for must ascend.
  pub(super) fn at(&mut self, at: usize) -> Option<Construct> {
    let rest = self.text.get(at..)?;
    if rest.starts_with("<!--") {
      return Some(self.comment(at));
    }
    let second = *rest.as_bytes().get(1)?;
    if !(second.is_ascii_alphabetic() || second == b'/' || second == b'!' || second == b'?') {
      return None;
    }
    let end = self.close_after(at)? + 1;
    if end - at > MAX_TAG {
      return None;
    }
    let body = self.text.get(at + 1..end - 1)?;
    let closing = body.starts_with('/');
    let name_text = body.strip_prefix('/').unwrap_or(body);
    let name_len =
      name_text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
    let name = name_text.get(..name_len)?;
    let attributes = name_text.get(name_len..)?;
    let after_name = attributes.bytes().next();
    if !matches!(after_name, None | Some(b' ' | b'\t' | b'\n' | b'\r' | b'/')) && second != b'!' {
      // `<https://...>`, `<a@b.c>`, `<T::new>`: not a tag.
      return None;
    }
    let inline = is_inline(name);
    let mut hidden = None;
    if !closing && is_hiding(attributes) && self.hidden_seen < MAX_HIDDEN {
      self.hidden_seen += 1;
      hidden = Some(end..self.element_end(end, name));
    }
    Some(Construct::Tag { end, inline, hidden })
  }

  fn comment(&mut self, at: usize) -> Construct {
    let start = at + 4;
    if at < self.no_comment_end
      && let Some(length) = self.text.get(start..).and_then(|rest| rest.find("-->"))
    {
      return Construct::Comment { inner: start..start + length, end: start + length + 3 };
    }
    self.no_comment_end = self.no_comment_end.min(at);
    Construct::Comment { inner: start..self.text.len(), end: self.text.len() }
  }

  fn close_after(&mut self, at: usize) -> Option<usize> {
    match self.next_close {
      Some(close) if close > at => Some(close),
      None => None,
      Some(_) => {
        self.next_close = self.text.get(at..)?.find('>').map(|length| at + length);
        self.next_close
      }
    }
  }

  fn element_end(&self, from: usize, name: &str) -> usize {
    let mut limit = (from + MAX_ELEMENT).min(self.text.len());
    while !self.text.is_char_boundary(limit) {
      limit -= 1;
    }
    let Some(rest) = self.text.get(from..limit) else { return from };
    rest
      .match_indices("</")
      .find(|(at, _)| {
        rest.get(at + 2..at + 2 + name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
      })
      .map_or(limit, |(at, _)| from + at)
  }
}

fn is_inline(name: &str) -> bool {
  matches!(
    name.to_ascii_lowercase().as_str(),
    "a"
      | "b"
      | "i"
      | "u"
      | "s"
      | "em"
      | "strong"
      | "span"
      | "font"
      | "code"
      | "mark"
      | "small"
      | "sub"
      | "sup"
      | "wbr"
      | "kbd"
      | "var"
      | "abbr"
      | "del"
      | "ins"
      | "bdo"
      | "bdi"
      | "tt"
  )
}

/// Styles, without white space, that keep an element from being seen.
const HIDING: &[&str] = &[
  "display:none",
  "visibility:hidden",
  "visibility:collapse",
  "font-size:0",
  "font-size:1px",
  "font-size:.",
  "line-height:0",
  "text-indent:-9",
  "left:-9",
  "top:-9",
  "clip:rect(0",
  "clip-path:inset(100%",
  "clip-path:inset(50%",
  "transform:scale(0",
  "color:transparent",
  "max-height:0",
  "mso-hide:all",
];

/// Whether these attributes keep an element from being seen.
fn is_hiding(attributes: &str) -> bool {
  if attributes.len() < 6 {
    return false;
  }
  let squeezed: String = attributes
    .chars()
    .filter(|c| !c.is_whitespace() && *c != '\\')
    .map(|c| c.to_ascii_lowercase())
    .collect();
  if attributes.split_ascii_whitespace().any(|word| word.trim_end_matches('/') == "hidden") {
    return true;
  }
  if !squeezed.contains("style=") {
    return false;
  }
  HIDING.iter().any(|style| squeezed.contains(style))
    || ["height:", "width:", "opacity:"].iter().any(|name| has_tiny(&squeezed, name))
}

/// `opacity:0`, `height:0px`, `width:1px`, but not `opacity:0.8` or `height:100px`.
fn has_tiny(style: &str, name: &str) -> bool {
  style.match_indices(name).any(|(at, _)| {
    let before = at.checked_sub(1).and_then(|index| style.as_bytes().get(index));
    let value = style.get(at + name.len()..).unwrap_or_default();
    let number: String =
      value.chars().take_while(|c| c.is_ascii_digit() || *c == '.').take(8).collect();
    // `line-height`, `border-width` and the like are other properties.
    if before == Some(&b'-') {
      return false;
    }
    let relative =
      value.get(number.len()..).is_some_and(|unit| unit.starts_with(['%', 'e', 'r', 'v']));
    let limit = if name == "opacity:" || relative { 0.0 } else { 1.0 };
    number.parse::<f32>().is_ok_and(|number| number <= limit)
  })
}

/// A character reference at the `&` that `text` starts with: the character and the length.
pub(super) fn entity(text: &str) -> Option<(char, usize)> {
  let mut limit = text.len().min(12);
  while !text.is_char_boundary(limit) {
    limit -= 1;
  }
  let window = text.get(..limit)?;
  let end = window.find(';')?;
  let body = window.get(1..end)?;
  let decoded = if let Some(number) = body.strip_prefix('#') {
    let code = match number.strip_prefix(['x', 'X']) {
      Some(hex) => u32::from_str_radix(hex, 16).ok()?,
      None => number.parse().ok()?,
    };
    char::from_u32(code).filter(|c| *c != '\0')?
  } else {
    match body {
      "amp" => '&',
      "lt" => '<',
      "gt" => '>',
      "quot" => '"',
      "apos" => '\'',
      "nbsp" | "ensp" | "emsp" | "thinsp" => ' ',
      "shy" => '\u{ad}',
      "zwnj" => '\u{200c}',
      "zwj" => '\u{200d}',
      "lrm" => '\u{200e}',
      "rlm" => '\u{200f}',
      "colon" => ':',
      "period" => '.',
      "comma" => ',',
      "commat" => '@',
      "sol" => '/',
      "lowbar" => '_',
      "hyphen" | "dash" => '-',
      _ => return None,
    }
  };
  Some((decoded, end + 1))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn comments_end_or_run_to_the_end() {
    let mut scanner = Scanner::new("<!-- a --> <!-- b");
    assert_eq!(scanner.at(0), Some(Construct::Comment { inner: 4..7, end: 10 }));
    assert_eq!(scanner.at(11), Some(Construct::Comment { inner: 15..17, end: 17 }));
  }

  #[test]
  fn tags_are_distinguished_from_text() {
    let tag = |text: &str| Scanner::new(text).at(0);
    assert_eq!(tag("<b>"), Some(Construct::Tag { end: 3, inline: true, hidden: None }));
    assert_eq!(tag("</div>"), Some(Construct::Tag { end: 6, inline: false, hidden: None }));
    for text in ["<https://a.b>", "<a@b.c>", "< b >", "<3 you>", "<b", "<|im_start|>"] {
      assert_eq!(tag(text), None, "{text}");
    }
  }

  #[test]
  fn hidden_elements_are_found_with_their_text() {
    for open in [
      "<p style=\"font-size: 0; color:white\">",
      "<div style='display : none'>",
      "<span hidden>",
      "<p style=\"opacity:0\">",
      "<p style=\"opacity:0.0;\">",
      "<p style=\"height:1px\">",
      "<p style='position:absolute; left:-9999px'>",
    ] {
      let text = format!("{open}secret</p>");
      let hidden = match Scanner::new(&text).at(0) {
        Some(Construct::Tag { hidden, .. }) => hidden,
        other => panic!("{other:?}"),
      };
      assert!(
        hidden.and_then(|range| text.get(range)).is_some_and(|part| part.starts_with("secret")),
        "{open}"
      );
    }
    for open in ["<p style=\"opacity:0.8\">", "<img height=\"10\">", "<p style=\"height:100px\">"] {
      assert!(
        matches!(Scanner::new(open).at(0), Some(Construct::Tag { hidden: None, .. })),
        "{open}"
      );
    }
  }

  #[test]
  fn entities_decode() {
    assert_eq!(entity("&#105;gnore"), Some(('i', 6)));
    assert_eq!(entity("&#x200B;"), Some(('\u{200b}', 8)));
    assert_eq!(entity("&lt;b"), Some(('<', 4)));
    assert_eq!(entity("& b;"), None);
    assert_eq!(entity("&#xD800;"), None);
  }
}
