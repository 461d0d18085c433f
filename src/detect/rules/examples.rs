//! Rules against their own examples.
#![forbid(unsafe_code)]

use super::{Mode, Rule, RuleError, RuleSet, Scope};
use crate::detect::normalize::normalize;

/// Characters of an example that a message repeats.
const SHOWN: usize = 60;

impl RuleSet {
  /// The examples that do not do what they say, of the rules in files whose name begins with `files`.
  pub fn wrong_examples(&self, files: &str) -> Vec<RuleError> {
    let mut wrong = Vec::new();
    for (index, rule) in self.rules().iter().enumerate() {
      if !rule.name.file.starts_with(files) {
        continue;
      }
      let hits = rule.hits.iter().map(|text| (text, true));
      for (text, should) in hits.chain(rule.misses.iter().map(|text| (text, false))) {
        if self.is_hit(index, rule, text) != should {
          wrong.push(wrong_example(rule, text, should));
        }
      }
    }
    wrong
  }

  /// Whether a rule hits a text in any of its views, and nothing excuses that.
  fn is_hit(&self, index: usize, rule: &Rule, text: &str) -> bool {
    let mode = Mode::ALL.iter().copied().find(|mode| rule.applies(Scope::Strict, *mode));
    normalize(text.as_bytes()).views.iter().any(|view| {
      self
        .scan(&view.text, Scope::Strict, mode.unwrap_or_default())
        .hits
        .iter()
        .any(|hit| hit.rule == index && !hit.excused)
    })
  }
}

fn wrong_example(rule: &Rule, text: &str, should: bool) -> RuleError {
  let start: String = text.chars().take(SHOWN).collect();
  let dots = if start.len() < text.len() { " ..." } else { "" };
  let (what, hint) = if should {
    ("misses what it should hit", "change the rule, or take the example out of `hits`")
  } else {
    ("hits what it should miss", "change the rule, or take the example out of `misses`")
  };
  RuleError {
    file: rule.name.file.clone(),
    line: rule.line,
    column: 1,
    message: format!("rule `{}` {what}: `{start}{dots}`", rule.name.id),
    hint: Some(hint.to_owned()),
  }
}
