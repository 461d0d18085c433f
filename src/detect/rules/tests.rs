//! Every rule hits what it says it hits, and the engine finds it in every view.

use super::*;
use crate::detect::{JudgeOptions, judge, normalize::normalize};

fn hits(rule: &Rule, text: &str) -> bool {
  let mode = Mode::ALL.iter().copied().find(|mode| rule.applies(Scope::Strict, *mode));
  let rules = builtin();
  let index = rules.rules().iter().position(|other| other.id == rule.id).unwrap();
  normalize(text.as_bytes()).views.iter().any(|view| {
    rules
      .scan(&view.text, Scope::Strict, mode.unwrap_or_default())
      .iter()
      .any(|hit| hit.rule == index && !hit.excused)
  })
}

#[test]
fn every_embedded_file_loads() {
  if let Err(errors) = load(FILES) {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    panic!("{}", errors.join("\n"));
  }
}

#[test]
fn every_rule_hits_and_misses_what_it_says() {
  let mut wrong = Vec::new();
  for rule in builtin().rules() {
    assert!(!rule.hits.is_empty() && !rule.misses.is_empty(), "`{}` has no examples", rule.id);
    for text in &rule.hits {
      if !hits(rule, text) {
        wrong.push(format!("{}: `{}` should hit: {text}", rule.file, rule.id));
      }
    }
    for text in &rule.misses {
      if hits(rule, text) {
        wrong.push(format!("{}: `{}` should miss: {text}", rule.file, rule.id));
      }
    }
  }
  assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn relaxed_scope_finds_no_more_than_strict() {
  for rule in builtin().rules() {
    for text in rule.hits.iter().chain(&rule.misses) {
      let strict = judge(text.as_bytes(), &JudgeOptions::default());
      let relaxed =
        judge(text.as_bytes(), &JudgeOptions { scope: Scope::Relaxed, ..Default::default() });
      assert!(relaxed.len() <= strict.len(), "{text}");
    }
  }
}
