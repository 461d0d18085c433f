//! The source of a block: `kind[:detail]`.
#![forbid(unsafe_code)]

use std::fmt;

/// Longest source that is stored, in characters; longer details are cut, because they may come from a page.
pub const MAX_SOURCE_CHARS: usize = 200;

/// The observed origin of a block: `user:owner`, `web_fetch:example.com`, `exec`, `baseline`,
/// `external-edit`, `unknown`, ...
///
/// Control characters are refused so that a source fits on one line; everything else that a
/// marker cannot hold is percent-encoded there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(String);

impl Source {
  /// The text is older than memfw.
  pub fn baseline() -> Self {
    Self("baseline".to_owned())
  }

  /// The origin is not known.
  pub fn unknown() -> Self {
    Self("unknown".to_owned())
  }

  /// A source from text: trimmed, control characters replaced, cut to [`MAX_SOURCE_CHARS`]; empty is
  /// `unknown`.
  pub fn new(text: &str) -> Self {
    let clean: String = text
      .trim()
      .chars()
      .map(|c| if c.is_control() { '\u{fffd}' } else { c })
      .take(MAX_SOURCE_CHARS)
      .collect();
    if clean.is_empty() { Self::unknown() } else { Self(clean) }
  }

  /// A source as people write it in labelled lines: `chat:owner` is the owner, `chat:NAME` another person on a
  /// channel, `mail:ADDRESS` an e-mail; every other source is unchanged.
  pub fn named(text: &str) -> Self {
    match text.trim().split_once(':') {
      Some(("chat", "owner")) => Self::new("user:owner"),
      Some(("chat", name)) => Self::new(&format!("user:chat:{name}")),
      Some(("mail", address)) => Self::new(&format!("email:{address}")),
      _ => Self::new(text),
    }
  }

  /// The part before the first colon.
  pub fn kind(&self) -> &str {
    self.0.split_once(':').map_or(self.0.as_str(), |(kind, _)| kind)
  }

  /// The part after the first colon.
  pub fn detail(&self) -> Option<&str> {
    self.0.split_once(':').map(|(_, detail)| detail)
  }

  /// The whole text.
  pub fn as_str(&self) -> &str {
    &self.0
  }

  /// Whether the text is older than memfw.
  pub fn is_baseline(&self) -> bool {
    self.0 == "baseline"
  }
}

impl fmt::Display for Source {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(&self.0)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn kind_and_detail_split_at_the_first_colon() {
    let source = Source::new("user:telegram:@ann");
    assert_eq!(source.kind(), "user");
    assert_eq!(source.detail(), Some("telegram:@ann"));
    assert_eq!(Source::new("exec").detail(), None);
  }

  #[test]
  fn people_say_mail_and_chat() {
    let named = |text| Source::named(text).as_str().to_owned();
    assert_eq!(named("chat:owner"), "user:owner");
    assert_eq!(named(" chat:other "), "user:chat:other");
    assert_eq!(named("mail:a@b.example"), "email:a@b.example");
    assert_eq!(named("web_fetch:a.example"), "web_fetch:a.example");
    assert_eq!(named("chat"), "chat");
  }

  #[test]
  fn hostile_text_stays_on_one_line_and_short() {
    let source = Source::new(&format!("a\n\u{1b}[31m{}", "x".repeat(10_000)));
    assert!(!source.as_str().chars().any(char::is_control));
    assert_eq!(source.as_str().chars().count(), MAX_SOURCE_CHARS);
    assert_eq!(Source::new("  "), Source::unknown());
  }
}
