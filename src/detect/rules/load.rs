//! From rule files to a rule set. All problems of all files are reported at once.
#![forbid(unsafe_code)]

use serde::Deserialize;
use toml::Spanned;

use super::{
  RuleSet,
  caps::{MAX_EXAMPLE_BYTES, MAX_EXAMPLES, MAX_USER_RULES, MAX_WHY_CHARS, MAX_WORDS},
  lexicon::{Class, Classes, Kind, LexiconBuilder},
  rule::{Guards, Mode, Pattern, Reach, Rule, RuleError, Scope, kind, severity},
};
use crate::detect::{Code, RuleKind, RuleName};

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
  name: Spanned<String>,
  words: Vec<String>,
  confirm: Option<Spanned<String>>,
  #[serde(default)]
  prose: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
  id: Spanned<String>,
  code: Spanned<String>,
  severity: Spanned<String>,
  kind: Spanned<String>,
  scope: Option<Spanned<String>>,
  #[serde(default)]
  modes: Vec<Spanned<String>>,
  why: Spanned<String>,
  #[serde(default)]
  all: Vec<Spanned<String>>,
  #[serde(default)]
  any: Vec<Spanned<String>>,
  #[serde(default)]
  not: Vec<Spanned<String>>,
  #[serde(default)]
  words: Vec<Vec<String>>,
  pattern: Option<Spanned<String>>,
  reach: Option<Spanned<String>>,
  guards: Option<Vec<Spanned<String>>>,
  over: Option<usize>,
  #[serde(default)]
  hits: Vec<String>,
  #[serde(default)]
  misses: Vec<String>,
}

/// Names of the classes that the engine itself asks for.
pub(super) const NEGATOR: &str = "negator";
pub(super) const UNNEGATE: &str = "unnegate";
pub(super) const FORBIDDEN: &str = "forbidden";
pub(super) const REPORT: &str = "report";
pub(super) const CONCEAL: &str = "conceal";

/// A rule file: what it is called in messages, and its text.
pub type NamedText<'a> = (&'a str, &'a str);

/// What is wrong, at a byte of the file.
struct Complaint {
  at: usize,
  message: String,
  hint: Option<String>,
}

impl Complaint {
  fn new(at: usize, message: impl Into<String>) -> Self {
    Self { at, message: message.into(), hint: None }
  }

  fn hint(mut self, hint: impl Into<String>) -> Self {
    self.hint = Some(hint.into());
    self
  }

  fn of(self, what: &str, name: &str) -> Self {
    Self { message: format!("{what} `{name}`: {}", self.message), ..self }
  }
}

/// One file on its way.
struct Parsed<'a> {
  file: NamedText<'a>,
  raw: RawFile,
  /// Whether it is a user's: patterns are compiled now, and caps hold.
  checked: bool,
}

/// Loads rule files as one set; classes of one file are known in the others. Patterns of `trusted`
/// files are compiled when they are first needed, those of `checked` ones now, and these have caps.
pub(super) fn load(
  trusted: &[NamedText<'_>],
  checked: &[NamedText<'_>],
) -> Result<RuleSet, Vec<RuleError>> {
  let mut errors = Vec::new();
  let mut lexicon = LexiconBuilder::default();
  let mut parsed = Vec::new();
  let files = trusted.iter().map(|file| (*file, false));
  for (file, checked) in files.chain(checked.iter().map(|file| (*file, true))) {
    match toml::from_str::<RawFile>(file.1) {
      Ok(raw) => parsed.push(Parsed { file, raw, checked }),
      Err(error) => {
        let at = error.span().map_or(file.1.len(), |span| span.start);
        let message = error.message().trim().replace('\n', ", ");
        errors.push(problem(file, Complaint::new(at, message)));
      }
    }
  }
  for Parsed { file, raw, checked } in &parsed {
    for class in &raw.class {
      if let Err(complaint) = add_class(&mut lexicon, class, *checked) {
        errors.push(problem(*file, complaint.of("class", class.name.get_ref())));
      }
    }
  }
  let mut rules: Vec<Rule> = Vec::new();
  let mut n_checked = 0;
  for Parsed { file, raw, checked } in parsed {
    for raw in raw.rule {
      let (at, id) = (raw.id.span().start, raw.id.get_ref().clone());
      n_checked += usize::from(checked);
      let complaint = if let Some(other) = rules.iter().find(|rule| rule.name.id == id) {
        let place = format!("`{}`, line {}", other.name.file, other.line);
        let complaint = Complaint::new(at, format!("the id is used already, in {place}"));
        Some(complaint.hint("choose another id; a rule cannot be replaced"))
      } else if checked && n_checked > MAX_USER_RULES {
        (n_checked == MAX_USER_RULES + 1).then(|| {
          Complaint::new(at, format!("there are more than {MAX_USER_RULES} rules in all files"))
        })
      } else {
        match compile(file, raw, &mut lexicon, checked) {
          Ok(rule) => {
            rules.push(rule);
            None
          }
          Err(complaint) => Some(complaint),
        }
      };
      errors.extend(complaint.map(|complaint| problem(file, complaint.of("rule", &id))));
    }
  }
  let mut special = |name: &str| match lexicon.named(name) {
    Some(class) => class,
    None => lexicon.class(Some(name), Kind::default()).unwrap_or_default(),
  };
  let special = [NEGATOR, UNNEGATE, FORBIDDEN, REPORT, CONCEAL].map(&mut special);
  if !errors.is_empty() {
    return Err(errors);
  }
  match lexicon.build() {
    Ok(lexicon) => Ok(RuleSet::new(lexicon, rules, special)),
    Err(reason) => {
      let file = checked.last().or(trusted.last()).copied().unwrap_or_default();
      Err(vec![problem(file, Complaint::new(0, reason))])
    }
  }
}

fn problem((file, text): NamedText<'_>, complaint: Complaint) -> RuleError {
  let (line, column) = place(text, complaint.at);
  let Complaint { message, hint, .. } = complaint;
  RuleError { file: file.to_owned(), line, column, message, hint }
}

/// Line and column, both from 1, of a byte; columns count characters.
pub(in crate::detect) fn place(text: &str, at: usize) -> (usize, usize) {
  let before = text.get(..at).unwrap_or(text);
  let line = before.rsplit('\n').next().unwrap_or_default();
  (before.matches('\n').count() + 1, line.chars().count() + 1)
}

fn pattern(source: &Spanned<String>, check: bool) -> Result<Pattern, Complaint> {
  let pattern = Pattern::new(ascii_shorthands(source.get_ref()));
  if check {
    pattern.check().map_err(|error| {
      // The engine prints a drawing of several lines; its last line says what is wrong.
      let last = error.lines().next_back().unwrap_or_default();
      let reason = last.trim_start_matches("error: ").to_owned();
      Complaint::new(source.span().start, format!("the pattern does not compile: {reason}"))
        .hint("patterns are regular expressions without look-around and back-references")
    })?;
  }
  Ok(pattern)
}

fn add_class(lexicon: &mut LexiconBuilder, raw: &RawClass, check: bool) -> Result<(), Complaint> {
  let at = raw.name.span().start;
  if check {
    cap_words(at, raw.words.len())?;
  }
  let confirm = raw.confirm.as_ref().map(|source| pattern(source, check)).transpose()?;
  // A file of the user's may add words to a class that is there.
  let class = match lexicon.named(raw.name.get_ref()) {
    Some(class) if confirm.is_none() => class,
    Some(_) => {
      let message = "the class is there already and cannot get another pattern";
      return Err(Complaint::new(at, message).hint("leave `confirm` out, or choose another name"));
    }
    None => lexicon
      .class(Some(raw.name.get_ref()), Kind { confirm, prose: raw.prose })
      .ok_or_else(|| no_room(at))?,
  };
  for word in &raw.words {
    lexicon.word(class, word).map_err(|reason| Complaint::new(at, reason))?;
  }
  Ok(())
}

fn no_room(at: usize) -> Complaint {
  Complaint::new(at, "there are too many word classes")
    .hint("put words that mean the same into one class")
}

fn cap_words(at: usize, n_words: usize) -> Result<(), Complaint> {
  if n_words > MAX_WORDS {
    return Err(Complaint::new(at, format!("it has {n_words} words, at most {MAX_WORDS} may be")));
  }
  Ok(())
}

/// Checks the limits that apply only to rules of users.
fn cap_rule(raw: &RawRule) -> Result<(), Complaint> {
  let at = raw.id.span().start;
  cap_words(at, raw.words.iter().map(Vec::len).sum())?;
  if raw.why.get_ref().chars().count() > MAX_WHY_CHARS {
    let message = format!("`why` has more than {MAX_WHY_CHARS} characters");
    return Err(Complaint::new(raw.why.span().start, message));
  }
  if raw.why.get_ref().contains(char::is_control) {
    return Err(Complaint::new(raw.why.span().start, "`why` must be one line of plain text"));
  }
  let examples = raw.hits.len() + raw.misses.len();
  if examples > MAX_EXAMPLES {
    let message = format!("it has {examples} examples, at most {MAX_EXAMPLES} may be");
    return Err(Complaint::new(at, message));
  }
  if raw.hits.iter().chain(&raw.misses).any(|example| example.len() > MAX_EXAMPLE_BYTES) {
    let message = format!("an example has more than {MAX_EXAMPLE_BYTES} bytes");
    return Err(Complaint::new(at, message));
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

/// A word of a closed set.
fn word<T, E: std::fmt::Display>(
  text: &Spanned<String>,
  read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Complaint> {
  read(text.get_ref()).map_err(|error| Complaint::new(text.span().start, error.to_string()))
}

fn code(text: &Spanned<String>) -> Result<Code, Complaint> {
  word(text, str::parse).map_err(|complaint| {
    let words = Code::ALL.iter().map(|code| code.as_str());
    match nearest(text.get_ref(), words) {
      Some(code) => complaint.hint(format!("did you mean `{code}`?")),
      None => complaint,
    }
  })
}

fn compile(
  file: NamedText<'_>,
  raw: RawRule,
  lexicon: &mut LexiconBuilder,
  check: bool,
) -> Result<Rule, Complaint> {
  let at = raw.id.span().start;
  if check {
    cap_rule(&raw)?;
  }
  let code = code(&raw.code)?;
  let severity = word(&raw.severity, severity)?;
  let kind = word(&raw.kind, kind)?;
  let scope = raw.scope.as_ref().map(|scope| word(scope, str::parse::<Scope>)).transpose()?;
  let modes = if raw.modes.is_empty() { Mode::ALL.to_vec() } else { modes(&raw.modes)? };
  let reach = match raw.reach.as_ref().map(|reach| (reach.get_ref().as_str(), reach.span())) {
    None | Some(("sentence", _)) => Reach::Sentence,
    Some(("near", _)) => Reach::Near,
    Some((other, span)) => {
      let message = format!("unknown reach `{other}`, expected `sentence` or `near`");
      return Err(Complaint::new(span.start, message));
    }
  };
  if raw.why.get_ref().trim().is_empty() {
    return Err(Complaint::new(raw.why.span().start, "`why` is empty"));
  }
  let guards = guards(raw.guards.as_deref(), kind)?;
  let mut anchor = None;
  let mut all = Classes::default();
  for group in &raw.words {
    let class = lexicon.class(None, Kind::default()).ok_or_else(|| no_room(at))?;
    for word in group {
      lexicon.word(class, word).map_err(|reason| Complaint::new(at, reason))?;
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
  let anchor: Class = anchor.ok_or_else(|| {
    Complaint::new(at, "`all` or `words` must name at least one class that is always there")
      .hint("words = [[\"one\", \"another\"]]")
  })?;
  let pattern = raw.pattern.as_ref().map(|source| pattern(source, check)).transpose()?;
  let id = raw.id.into_inner();
  Ok(Rule {
    name: RuleName { id, file: file.0.to_owned() }.into(),
    line: place(file.1, at).0,
    code,
    severity,
    kind,
    scope: scope.unwrap_or(Scope::Relaxed),
    modes: modes.into_iter().fold(0, |bits, mode| bits | mode.bit()),
    why: raw.why.into_inner(),
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

fn modes(words: &[Spanned<String>]) -> Result<Vec<Mode>, Complaint> {
  words.iter().map(|text| word(text, str::parse)).collect()
}

fn guards(names: Option<&[Spanned<String>]>, kind: RuleKind) -> Result<Guards, Complaint> {
  let Some(names) = names else {
    let all = kind == RuleKind::Signature;
    return Ok(Guards { negated: true, quoted: all, reported: all });
  };
  let mut guards = Guards { negated: false, quoted: false, reported: false };
  for name in names {
    match name.get_ref().as_str() {
      "negated" => guards.negated = true,
      "quoted" => guards.quoted = true,
      "reported" => guards.reported = true,
      other => {
        let message =
          format!("unknown guard `{other}`, expected `negated`, `quoted` or `reported`");
        return Err(Complaint::new(name.span().start, message));
      }
    }
  }
  Ok(guards)
}

fn named(lexicon: &LexiconBuilder, name: &Spanned<String>) -> Result<Class, Complaint> {
  lexicon.named(name.get_ref()).ok_or_else(|| {
    let complaint =
      Complaint::new(name.span().start, format!("unknown class `{}`", name.get_ref()));
    match nearest(name.get_ref(), lexicon.names()) {
      Some(nearest) => complaint.hint(format!("did you mean `{nearest}`?")),
      None => complaint,
    }
  })
}

/// The word that looks most like `text`, if any looks like it at all.
fn nearest<'a>(text: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
  /// Below this two words have little more in common than letters (a choice).
  const ALIKE: f64 = 0.75;
  let near = words.map(|word| (strsim::jaro_winkler(word, text), word));
  // By the word as well: names come in no order.
  let best = near.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)));
  best.filter(|(alike, _)| *alike >= ALIKE).map(|(_, word)| word)
}

fn set(lexicon: &LexiconBuilder, names: &[Spanned<String>]) -> Result<Classes, Complaint> {
  let mut classes = Classes::default();
  for name in names {
    classes.insert(named(lexicon, name)?);
  }
  Ok(classes)
}

#[cfg(test)]
mod tests;
