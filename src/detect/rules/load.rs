//! From rule files to a rule set. All problems of all files are reported at once.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
  RuleSet,
  lexicon::{Class, Classes, Kind, LexiconBuilder},
  rule::{Guards, Mode, Pattern, Reach, Rule, RuleError, Scope, kind, parse, severity},
};
use crate::detect::{Code, RuleKind};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
  #[serde(default)]
  class: Vec<RawClass>,
  #[serde(default)]
  rule: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
  name: String,
  words: Vec<String>,
  confirm: Option<String>,
  #[serde(default)]
  prose: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
  id: String,
  code: String,
  severity: String,
  kind: String,
  #[serde(default = "relaxed")]
  scope: String,
  #[serde(default)]
  modes: Vec<String>,
  why: String,
  #[serde(default)]
  all: Vec<String>,
  #[serde(default)]
  any: Vec<String>,
  #[serde(default)]
  not: Vec<String>,
  #[serde(default)]
  words: Vec<Vec<String>>,
  pattern: Option<String>,
  #[serde(default)]
  reach: Option<String>,
  guards: Option<Vec<String>>,
  over: Option<usize>,
  #[serde(default)]
  hits: Vec<String>,
  #[serde(default)]
  misses: Vec<String>,
}

fn relaxed() -> String {
  Scope::Relaxed.as_str().to_owned()
}

/// Names of the classes that the engine itself asks for.
pub(super) const NEGATOR: &str = "negator";
pub(super) const UNNEGATE: &str = "unnegate";
pub(super) const FORBIDDEN: &str = "forbidden";
pub(super) const REPORT: &str = "report";

/// Loads `files` (name, text) as one rule set; classes of one file are known in the others.
pub fn load(files: &[(&str, &str)]) -> Result<RuleSet, Vec<RuleError>> {
  load_with(files, true)
}

/// The same; without `check`, patterns are compiled when they are first needed.
pub(super) fn load_with(files: &[(&str, &str)], check: bool) -> Result<RuleSet, Vec<RuleError>> {
  let mut errors = Vec::new();
  let mut lexicon = LexiconBuilder::default();
  let mut parsed = Vec::new();
  for (file, text) in files {
    match toml::from_str::<RawFile>(text) {
      Ok(raw) => parsed.push((*file, raw)),
      Err(error) => errors.push(problem(file, None, error.to_string().trim().to_owned())),
    }
  }
  for (file, raw) in &parsed {
    for class in &raw.class {
      if let Err(reason) = add_class(&mut lexicon, class, check) {
        errors.push(problem(file, Some(&class.name), reason));
      }
    }
  }
  let mut rules: Vec<Rule> = Vec::new();
  for (file, raw) in parsed {
    for raw in raw.rule {
      let id = raw.id.clone();
      if rules.iter().any(|rule| rule.id == id) {
        errors.push(problem(file, Some(&id), "the id is used twice".to_owned()));
        continue;
      }
      match compile(file, raw, &mut lexicon, check) {
        Ok(rule) => rules.push(rule),
        Err(reason) => errors.push(problem(file, Some(&id), reason)),
      }
    }
  }
  let mut special = |name: &str| match lexicon.named(name) {
    Some(class) => class,
    None => lexicon.class(Some(name), Kind::default()).unwrap_or_default(),
  };
  let (negator, unnegate) = (special(NEGATOR), special(UNNEGATE));
  let (forbidden, report) = (special(FORBIDDEN), special(REPORT));
  if !errors.is_empty() {
    return Err(errors);
  }
  match lexicon.build() {
    Ok(lexicon) => Ok(RuleSet::new(lexicon, rules, [negator, unnegate, forbidden, report])),
    Err(reason) => Err(vec![problem("rules", None, reason)]),
  }
}

fn problem(file: &str, rule: Option<&str>, reason: String) -> RuleError {
  RuleError { file: file.to_owned(), rule: rule.map(str::to_owned), reason }
}

fn pattern(source: &str, check: bool) -> Result<Pattern, String> {
  let pattern = Pattern::new(ascii_shorthands(source));
  if check {
    pattern.check()?;
  }
  Ok(pattern)
}

fn add_class(lexicon: &mut LexiconBuilder, raw: &RawClass, check: bool) -> Result<(), String> {
  let confirm = raw.confirm.as_deref().map(|source| pattern(source, check)).transpose()?;
  // A file of the user's may add words to a class that is there.
  let class = match lexicon.named(&raw.name) {
    Some(class) if confirm.is_none() => class,
    Some(_) => return Err("the class is there already and cannot get another pattern".to_owned()),
    None => lexicon
      .class(Some(&raw.name), Kind { confirm, prose: raw.prose })
      .ok_or("there are too many word classes")?,
  };
  for word in &raw.words {
    lexicon.word(class, word)?;
  }
  Ok(())
}

/// In a pattern of ASCII alone, `\b`, `\w`, `\s` and `\d` mean ASCII: the Unicode tables behind them
/// would make each pattern a hundred times larger, for words that it does not look for.
fn ascii_shorthands(pattern: &str) -> String {
  if !pattern.is_ascii() {
    return pattern.to_owned();
  }
  let mut out = String::with_capacity(pattern.len() * 2);
  let mut chars = pattern.chars();
  while let Some(c) = chars.next() {
    if c != '\\' {
      out.push(c);
      continue;
    }
    match chars.next() {
      Some('b') => out.push_str(r"(?-u:\b)"),
      Some('w') => out.push_str(r"[0-9A-Za-z_]"),
      Some('s') => out.push_str(r"[\x20\t\r\n]"),
      Some('d') => out.push_str("[0-9]"),
      Some(other) => out.extend(['\\', other]),
      None => out.push('\\'),
    }
  }
  out
}

fn compile(
  file: &str,
  raw: RawRule,
  lexicon: &mut LexiconBuilder,
  check: bool,
) -> Result<Rule, String> {
  let code: Code = parse(&raw.code)?;
  let severity = severity(&raw.severity).map_err(|error| error.to_string())?;
  let kind = kind(&raw.kind).map_err(|error| error.to_string())?;
  let mut modes = 0;
  for mode in &raw.modes {
    modes |= parse::<Mode>(mode)?.bit();
  }
  if raw.modes.is_empty() {
    modes = Mode::ALL.iter().fold(0, |bits, mode| bits | mode.bit());
  }
  let reach = match raw.reach.as_deref() {
    None | Some("sentence") => Reach::Sentence,
    Some("near") => Reach::Near,
    Some(other) => return Err(format!("unknown reach `{other}`, expected `sentence` or `near`")),
  };
  if raw.why.trim().is_empty() {
    return Err("`why` is empty".to_owned());
  }
  let guards = guards(raw.guards.as_deref(), kind)?;
  let mut anchor = None;
  let mut all = Classes::default();
  for group in &raw.words {
    let class = lexicon.class(None, Kind::default()).ok_or("there are too many word classes")?;
    for word in group {
      lexicon.word(class, word)?;
    }
    all.insert(class);
    anchor.get_or_insert(class);
  }
  for name in &raw.all {
    let class = named(lexicon, name)?;
    all.insert(class);
    anchor.get_or_insert(class);
  }
  let any = set(lexicon, &raw.any)?;
  let not = set(lexicon, &raw.not)?;
  let anchor: Class =
    anchor.ok_or("`all` or `words` must name at least one class that is always there")?;
  let pattern = raw.pattern.as_deref().map(|source| pattern(source, check)).transpose()?;
  Ok(Rule {
    id: raw.id,
    file: file.to_owned(),
    code,
    severity,
    kind,
    scope: parse(&raw.scope)?,
    modes,
    why: raw.why,
    anchor,
    all,
    any,
    not,
    pattern,
    reach,
    guards,
    over: raw.over,
    hits: raw.hits,
    misses: raw.misses,
  })
}

fn guards(names: Option<&[String]>, kind: RuleKind) -> Result<Guards, String> {
  let Some(names) = names else {
    let all = kind == RuleKind::Signature;
    return Ok(Guards { negated: true, quoted: all, reported: all });
  };
  let mut guards = Guards { negated: false, quoted: false, reported: false };
  for name in names {
    match name.as_str() {
      "negated" => guards.negated = true,
      "quoted" => guards.quoted = true,
      "reported" => guards.reported = true,
      other => {
        return Err(format!("unknown guard `{other}`, expected `negated`, `quoted` or `reported`"));
      }
    }
  }
  Ok(guards)
}

fn named(lexicon: &LexiconBuilder, name: &str) -> Result<Class, String> {
  lexicon.named(name).ok_or_else(|| {
    let nearest = lexicon
      .names()
      .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    match nearest {
      Some(nearest) => format!("unknown class `{name}`, did you mean `{nearest}`?"),
      None => format!("unknown class `{name}`"),
    }
  })
}

fn set(lexicon: &LexiconBuilder, names: &[String]) -> Result<Classes, String> {
  let mut classes = Classes::default();
  for name in names {
    classes.insert(named(lexicon, name)?);
  }
  Ok(classes)
}

#[cfg(test)]
mod tests {
  use super::*;

  const RULE: &str = "[[rule]]\nid = \"a\"\ncode = \"concealment\"\nseverity = \"high\"\n\
                      kind = \"signature\"\nwhy = \"w\"\n";

  fn reasons(text: &str) -> Vec<String> {
    load(&[("user.toml", text)]).err().unwrap().iter().map(ToString::to_string).collect()
  }

  #[test]
  fn every_problem_names_file_rule_and_reason() {
    for (text, expected) in [
      (format!("{RULE}words = [[\"x\"]]\npattern = '('\n"), "rule `a`: regex parse error"),
      (format!("{RULE}all = [\"nothing\"]\n"), "rule `a`: unknown class `nothing`"),
      (RULE.to_owned(), "must name at least one class"),
      (format!("{RULE}words = [[\"\"]]\n"), "an empty word"),
      (format!("{RULE}words = [[\"x\"]]\nreach = \"far\"\n"), "unknown reach `far`"),
      (format!("{RULE}words = [[\"x\"]]\nmodes = [\"read\"]\n"), "unknown mode `read`"),
      (format!("{RULE}words = [[\"x\"]]\nguards = [\"x\"]\n"), "unknown guard `x`"),
      (RULE.replace("concealment", "nonsense"), "unknown finding code `nonsense`"),
      (format!("{RULE}colour = 1\n"), "unknown field `colour`"),
      (format!("{RULE}words = [[\"x\"]]\n{RULE}words = [[\"x\"]]\n"), "the id is used twice"),
    ] {
      let reasons = reasons(&text);
      assert!(
        reasons.iter().any(|reason| reason.contains("`user.toml`") && reason.contains(expected)),
        "{expected}: {reasons:?}"
      );
    }
  }

  #[test]
  fn all_problems_come_at_once() {
    let text = format!(
      "{}{}",
      RULE.replace("\"a\"", "\"one\""),
      RULE.replace("\"a\"", "\"two\"").replace("high", "worst")
    );
    assert_eq!(reasons(&text).len(), 2);
  }
}
