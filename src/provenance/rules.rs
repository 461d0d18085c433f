//! The trust in a source: rules by pattern, the user's before the defaults; the first match wins.
//!
//! The sources that fed a source can lower its trust and never raise it. A source without a rule is untrusted.
#![forbid(unsafe_code)]

use std::fmt;

use super::{MAX_SOURCE_CHARS, Source, Trust};

/// A pattern of sources: `*` matches any characters, also none; every other character matches itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourcePattern(String);

/// A text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
  /// Nothing but white space.
  #[error("it is empty")]
  Empty,
  /// Longer than any source.
  #[error("it is longer than {MAX_SOURCE_CHARS} characters, and no source is")]
  TooLong,
  /// It has a character that no source can have.
  #[error("it holds the character `{}`, and no source does", .0.escape_debug())]
  Character(char),
}

impl SourcePattern {
  /// A pattern from text.
  pub fn new(text: &str) -> Result<Self, PatternError> {
    if text.trim().is_empty() {
      return Err(PatternError::Empty);
    }
    if text.chars().count() > MAX_SOURCE_CHARS {
      return Err(PatternError::TooLong);
    }
    match text.chars().find(|c| c.is_control()) {
      Some(control) => Err(PatternError::Character(control)),
      None => Ok(Self(text.to_owned())),
    }
  }

  /// The text.
  pub fn as_str(&self) -> &str {
    &self.0
  }

  /// Whether the pattern matches this source.
  pub fn matches(&self, source: &Source) -> bool {
    matches_pattern(self.0.as_bytes(), source.as_str().as_bytes())
  }
}

impl fmt::Display for SourcePattern {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(&self.0)
  }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrustRule {
  /// The sources that it matches.
  pub source: SourcePattern,
  /// The trust in these sources.
  pub trust: Trust,
}

/// The defaults where none of the user's rules matches; the first match wins, and any other source is untrusted.
///
/// From the specification of memfw: the owner's direct messages are trusted, also from a paired device;
/// the owner's own mail and calendar and the agent itself are known first parties; text that anybody can
/// write is untrusted; where adversaries are likely it is hostile.
pub const DEFAULTS: &[(&str, Trust)] = &[
  ("user:owner", Trust::Trusted),
  ("email:owner", Trust::Verified),
  ("calendar:owner", Trust::Verified),
  ("agent", Trust::Verified),
  ("baseline", Trust::Verified),
  ("moltbook", Trust::Hostile),
  ("moltbook:*", Trust::Hostile),
  ("anonymous", Trust::Hostile),
  ("anonymous:*", Trust::Hostile),
  ("user:anonymous", Trust::Hostile),
  ("user:anonymous:*", Trust::Hostile),
  ("*", Trust::Untrusted),
];

/// The kind of source that has the trust of its least trusted feeder.
const HEIR: &str = "subagent";

/// The trust in a source that others fed: never more than in the least trusted of them.
///
/// A sub-agent has no trust of its own; where its feeders were not observed, it is untrusted.
pub fn trust_of(rules: &[TrustRule], source: &Source, fed_by: &[Source]) -> Trust {
  let own = match rules.iter().find(|rule| rule.source.matches(source)) {
    Some(rule) => rule.trust,
    None if source.kind() == HEIR && !fed_by.is_empty() => Trust::Trusted,
    None => default_trust(source),
  };
  fed_by.iter().map(|fed| trust_of(rules, fed, &[])).fold(own, Trust::min)
}

fn default_trust(source: &Source) -> Trust {
  let found = DEFAULTS
    .iter()
    .find(|(pattern, _)| matches_pattern(pattern.as_bytes(), source.as_str().as_bytes()));
  found.map_or(Trust::Untrusted, |(_, trust)| *trust)
}

/// Whether `pattern` matches `text`. Greedy with one backtracking point, so the work is at most the product of both
/// lengths, which are capped.
pub fn matches_pattern(pattern: &[u8], text: &[u8]) -> bool {
  let (mut p, mut t) = (0, 0);
  // Where to continue when the text after the last star does not match: one byte further in the text.
  let mut retry: Option<(usize, usize)> = None;
  loop {
    match (pattern.get(p), text.get(t)) {
      (Some(b'*'), _) => {
        p += 1;
        retry = Some((p, t));
      }
      (None, None) => return true,
      (Some(wanted), Some(found)) if wanted == found => (p, t) = (p + 1, t + 1),
      _ => match retry {
        Some((after, from)) if from < text.len() => {
          retry = Some((after, from + 1));
          (p, t) = (after, from + 1);
        }
        _ => return false,
      },
    }
  }
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn rule(source: &str, trust: Trust) -> TrustRule {
    TrustRule { source: SourcePattern::new(source).unwrap(), trust }
  }

  fn trust(source: &str) -> Trust {
    trust_of(&[], &Source::new(source), &[])
  }

  #[test]
  fn the_defaults_are_those_of_the_specification() {
    for (source, expected) in [
      ("user:owner", Trust::Trusted),
      ("user:owner:telegram", Trust::Untrusted),
      ("user:ownerx", Trust::Untrusted),
      ("user:telegram:@ann", Trust::Untrusted),
      ("user:anonymous", Trust::Hostile),
      ("email:owner", Trust::Verified),
      ("email:a@b.example", Trust::Untrusted),
      ("calendar:owner", Trust::Verified),
      ("agent", Trust::Verified),
      ("baseline", Trust::Verified),
      ("web_fetch:example.com", Trust::Untrusted),
      ("web_search", Trust::Untrusted),
      ("file:docs/vendor.txt", Trust::Untrusted),
      ("exec", Trust::Untrusted),
      ("mcp:server", Trust::Untrusted),
      ("webhook:gmail", Trust::Untrusted),
      ("import:codex", Trust::Untrusted),
      ("moltbook:user123", Trust::Hostile),
      ("anonymous", Trust::Hostile),
      ("external-edit", Trust::Untrusted),
      ("unknown", Trust::Untrusted),
      ("something:new", Trust::Untrusted),
      ("subagent:researcher", Trust::Untrusted),
    ] {
      assert_eq!(trust(source), expected, "{source}");
    }
  }

  #[test]
  fn the_first_rule_wins_and_the_users_come_before_the_defaults() {
    let rules = [
      rule("web_fetch:evil.example.com", Trust::Hostile),
      rule("web_fetch:*.example.com", Trust::Verified),
      rule("user:owner", Trust::Untrusted),
    ];
    let of = |source| trust_of(&rules, &Source::new(source), &[]);
    assert_eq!(of("web_fetch:evil.example.com"), Trust::Hostile);
    assert_eq!(of("web_fetch:docs.example.com"), Trust::Verified);
    assert_eq!(of("web_fetch:example.com"), Trust::Untrusted);
    assert_eq!(of("web_fetch:docs.example.com.evil.example"), Trust::Untrusted);
    assert_eq!(of("user:owner"), Trust::Untrusted);
  }

  #[test]
  fn a_source_is_never_more_trusted_than_what_fed_it() {
    let (owner, web) = (Source::new("user:owner"), Source::new("web_fetch:a.example"));
    let (sub, bad) = (Source::new("subagent:r"), Source::new("moltbook:x"));
    assert_eq!(trust_of(&[], &sub, std::slice::from_ref(&owner)), Trust::Trusted);
    assert_eq!(trust_of(&[], &sub, &[owner.clone(), web.clone()]), Trust::Untrusted);
    assert_eq!(trust_of(&[], &sub, &[web, bad]), Trust::Hostile);
    assert_eq!(trust_of(&[], &owner, std::slice::from_ref(&sub)), Trust::Untrusted);
    let rules = [rule("subagent:*", Trust::Hostile)];
    assert_eq!(trust_of(&rules, &sub, &[owner]), Trust::Hostile, "a rule lowers it, too");
  }

  #[test]
  fn what_is_no_pattern_says_why() {
    assert_eq!(SourcePattern::new(" "), Err(PatternError::Empty));
    assert_eq!(SourcePattern::new("a\nb"), Err(PatternError::Character('\n')));
    assert_eq!(SourcePattern::new(&"x".repeat(201)), Err(PatternError::TooLong));
  }

  #[test]
  fn many_stars_cost_no_exponential_time() {
    assert!(!matches_pattern("*a".repeat(100).as_bytes(), "a".repeat(99).as_bytes()));
    assert!(matches_pattern("*a".repeat(100).as_bytes(), "a".repeat(200).as_bytes()));
  }

  /// The definition, for comparison.
  fn slowly(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
      None => text.is_empty(),
      Some((b'*', rest)) => (0..=text.len()).any(|at| slowly(rest, &text[at..])),
      Some((c, rest)) => text.split_first().is_some_and(|(d, text)| c == d && slowly(rest, text)),
    }
  }

  proptest! {
    #[test]
    fn stars_stand_for_anything(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
      let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
      prop_assert_eq!(matches_pattern(pattern, text), slowly(pattern, text));
    }

    #[test]
    fn feeding_never_raises(fed in proptest::collection::vec("[a-z]{1,8}(:[a-z]{1,4})?", 1..4)) {
      let fed: Vec<Source> = fed.iter().map(|text| Source::new(text)).collect();
      let whole = trust_of(&[], &Source::new("subagent:x"), &fed);
      prop_assert!(fed.iter().all(|one| whole <= trust_of(&[], one, &[])));
    }
  }
}
