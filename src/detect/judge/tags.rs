//! Tags: those that came beside the text, `tags` in front matter, and hashtags.
//!
//! A tag is read as the words that it is made of (`#ignore-all-rules`), so that an instruction
//! cannot hide in metadata that no person reads.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::Arc};

use super::JudgeOptions;
use crate::detect::{Code, Finding, Layer, Severity, normalize::Normalized, rules::RuleSet};

/// Tags that are read, at most.
const MAX_TAGS: usize = 256;
/// A longer tag is cut.
const MAX_TAG: usize = 512;
/// Lines of front matter that are read, at most.
const MAX_FRONT_MATTER: usize = 256;

/// Adds a finding for each tag that holds an instruction.
pub(super) fn judge_tags(
  rules: &RuleSet,
  normalized: &Normalized<'_>,
  options: &JudgeOptions<'_>,
  findings: &mut Vec<Finding>,
) {
  for tag in options.tags.iter().take(MAX_TAGS) {
    findings.extend(judge_tag(rules, tag, options, 0..0));
  }
  let Some(raw) = normalized.views.first() else { return };
  for (tag, span) in tags_of(&raw.text) {
    findings.extend(judge_tag(rules, &tag, options, normalized.raw.span(&span)));
  }
}

fn judge_tag(
  rules: &RuleSet,
  tag: &str,
  options: &JudgeOptions<'_>,
  span: Range<usize>,
) -> Option<Finding> {
  let phrase = words_of(tag);
  let worst = rules
    .scan(&phrase, options.scope, options.mode)
    .hits
    .into_iter()
    .filter(|hit| !hit.excused)
    .filter_map(|hit| rules.rules().get(hit.rule))
    .filter(|rule| rule.severity >= Severity::Medium || rule.code == Code::StandingInstruction)
    .max_by_key(|rule| (rule.kind, rule.severity))?;
  Some(Finding {
    code: Code::TagInstruction,
    layer: Layer::Rules,
    severity: worst.severity.max(Severity::Medium),
    kind: worst.kind,
    span,
    why: "a tag holds an instruction".to_owned(),
    rule: Some(Arc::clone(&worst.name)),
  })
}

/// `ignoreAllRules`, `ignore-all-rules`, `ignore_all_rules` as words.
fn words_of(tag: &str) -> String {
  let mut out = String::with_capacity(tag.len() + 8);
  let mut lower = false;
  for c in tag.trim_start_matches('#').chars().take(MAX_TAG) {
    if matches!(c, '-' | '_' | '/' | '+') {
      out.push(' ');
      lower = false;
      continue;
    }
    if lower && c.is_uppercase() {
      out.push(' ');
    }
    lower = c.is_lowercase();
    out.push(c);
  }
  out
}

/// Tags in the text, with their places.
fn tags_of(text: &str) -> Vec<(String, Range<usize>)> {
  let mut tags = Vec::new();
  front_matter(text, &mut tags);
  for (at, _) in text.match_indices('#') {
    if tags.len() >= MAX_TAGS {
      break;
    }
    let before = at.checked_sub(1).and_then(|index| text.as_bytes().get(index));
    if before.is_some_and(|b| !b.is_ascii_whitespace() && *b != b'(' && *b != b',') {
      continue;
    }
    let Some(rest) = text.get(at + 1..) else { continue };
    let length = rest
      .char_indices()
      .find(|(index, c)| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '/')) || *index > MAX_TAG)
      .map_or(rest.len(), |(index, _)| index);
    if let Some(tag) = rest.get(..length)
      && length >= 8
    {
      tags.push((tag.to_owned(), at..at + 1 + length));
    }
  }
  tags
}

/// The `tags` entry of front matter: `tags: [a, b]`, `tags: a, b` or one a line.
fn front_matter(text: &str, tags: &mut Vec<(String, Range<usize>)>) {
  let body = text.trim_start_matches('\u{feff}');
  let mut at = text.len() - body.len();
  let mut lines = body.split_inclusive('\n').take(MAX_FRONT_MATTER);
  match lines.next() {
    Some(first) if first.trim_end() == "---" => at += first.len(),
    _ => return,
  }
  let mut inside = false;
  for line in lines {
    let span = at..at + line.trim_end().len();
    at += line.len();
    let trimmed = line.trim();
    if trimmed == "---" || trimmed == "..." {
      return;
    }
    let lower = trimmed.to_ascii_lowercase();
    let listed = match lower.split_once(':') {
      Some(("tags" | "tag" | "keywords" | "labels" | "categories", _)) => {
        inside = true;
        trimmed.split_once(':').map_or("", |(_, list)| list)
      }
      _ if inside && trimmed.starts_with('-') => trimmed.trim_start_matches('-'),
      _ => {
        inside = false;
        continue;
      }
    };
    for tag in listed.split([',', '[', ']']).map(|tag| tag.trim_matches([' ', '"', '\''])) {
      if !tag.is_empty() && tags.len() < MAX_TAGS {
        tags.push((tag.to_owned(), span.clone()));
      }
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn tags_are_read_as_words() {
    assert_eq!(words_of("#ignore-all_rules"), "ignore all rules");
    assert_eq!(words_of("ignoreAllRules"), "ignore All Rules");
  }

  #[test]
  fn tags_are_found_where_they_are() {
    let text =
      "---\ntitle: x\ntags: [a, always-run]\nmore:\n  - no\n---\n# Title\n\n#some-hashtag x#y\n";
    let tags = tags_of(text);
    let names: Vec<&str> = tags.iter().map(|(tag, _)| tag.as_str()).collect();
    assert_eq!(names, ["a", "always-run", "some-hashtag"]);
    assert_eq!(text.get(tags[2].1.clone()), Some("#some-hashtag"));
  }
}
