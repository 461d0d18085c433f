//! `memfw explain`: why an item has its state, where the text inside a marker came from, or what a
//! finding code means.
#![forbid(unsafe_code)]

mod marker;
mod readers;

use clap::Args as ClapArgs;
use readers::Readers;
use serde_json::{Value, json};

use super::shared::{
  evidence, finding,
  json::{object, of_item},
  lookup::{self, find_item},
  pages,
};
use crate::{
  app::{context::Context, exit::Status},
  config::Config,
  detect::{Code, Decision, Finding, PolicyInput, Verdict, policy},
  engine::event::shown,
  judging::treatment::Treatment,
  os::{Clock as _, SystemClock},
  provenance::{Attestation, Request, trust_of},
  store::{Exception, Item, Ledger},
  terminal::{
    escape::{Escape, terminal},
    failure::Failure,
    output::Style,
    preview::prose,
    time,
  },
};

/// `memfw explain`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw explain a1b2c3")]
pub struct ExplainArgs {
  /// An id (of an item or in a marker) or the beginning of one, a place in a file, or a finding code
  #[arg(value_name = "ID|FILE:LINE|CODE")]
  pub name: String,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: &ExplainArgs) -> Result<Status, Failure> {
  if let Some(code) = code_of(&args.name)? {
    return of_code(context, code, args.json);
  }
  // Without the key only the request of the owner cannot be read.
  let ledger = match context.ledger_with_key().or_else(|_| context.ledger()) {
    Ok(ledger) => ledger,
    // The argument may also be a misspelt code, which needs no ledger.
    Err(failure) => return Err(failure.maybe_hint(nearest_code(&args.name))),
  };
  let name = lookup::bare_id(&args.name);
  if let Some((id, places)) = lookup::find_marked(&ledger, name)? {
    return marker::explain(context, &ledger, (&id, &places), args.json);
  }
  let item =
    find_item(&ledger, name).map_err(|failure| failure.maybe_hint(nearest_code(&args.name)))?;
  let config = context.config().unwrap_or_default().config;
  let case = Case::of(&ledger, item, &config)?;
  if args.json {
    context.out.json(&case.to_json())?;
  } else {
    context.out.page();
    case.print(context)?;
  }
  Ok(Status::Yes)
}

/// The code with this name or, where no id can begin like that, with this beginning.
fn code_of(name: &str) -> Result<Option<Code>, Failure> {
  if let Ok(code) = name.parse::<Code>() {
    return Ok(Some(code));
  }
  let is_id = name.bytes().all(|byte| byte.is_ascii_hexdigit());
  if is_id {
    return Ok(None);
  }
  let like = Code::ALL.iter().copied().filter(|code| code.as_str().starts_with(name));
  match like.collect::<Vec<_>>()[..] {
    [] => Ok(None),
    [code] => Ok(Some(code)),
    ref codes => {
      let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
      Err(Failure::usage(format!("several codes begin with `{name}`")).hint(words.join(", ")))
    }
  }
}

fn nearest_code(name: &str) -> Option<String> {
  let nearest = crate::config::nearest(name, Code::ALL.iter().map(|code| code.as_str()));
  nearest.map(|code| format!("did you mean the code `{code}`?"))
}

/// An item with everything on which a decision about it depends.
struct Case {
  item: Item,
  found: Vec<Finding>,
  /// Whether the source was observed. This field and the next three are inputs of the policy, as far as
  /// they can still be known.
  observed: bool,
  sensitivity: crate::detect::Sensitivity,
  baseline_action: crate::detect::BaselineAction,
  is_instructions: bool,
  /// The trust of the source under the current rules.
  by_rules: crate::provenance::Trust,
  /// Why, and until when, this exact text is approved.
  excused: Option<String>,
  /// Codes that are allowed for the source.
  allowed: Vec<Code>,
  /// The sessions that have read it.
  readers: Readers,
  /// The request of the owner for which the text was written, if it is known and can be read.
  request: Option<Request>,
}

impl Case {
  fn of(ledger: &Ledger, item: Item, config: &Config) -> Result<Self, Failure> {
    let now = SystemClock.now();
    let is_of = |one: &Exception| one.key.item.as_ref().is_none_or(|of| *of == item.id);
    let mut exceptions = ledger.exceptions_of(item.hash)?.into_iter();
    let excused = exceptions.rfind(|one| is_of(one) && one.holds(now)).map(|one| {
      let until =
        one.expires_at.map_or_else(String::new, |at| format!(", until {}", time::rfc3339(at)));
      let why = if one.reason.is_empty() { "no reason given" } else { &one.reason };
      format!("{why}{until}")
    });
    let allowed =
      ledger.exceptions_for(&item.source, now)?.into_iter().map(|one| one.code).collect();
    let workspace = ledger.file(&item.path)?.map(|row| row.workspace);
    let rel = workspace.as_deref().and_then(|root| item.path.strip_prefix(root).ok());
    Ok(Self {
      found: finding::counted(&item),
      observed: item.attestation >= Attestation::ToolObserved
        && crate::judging::origin::can_be_allowed(&item.source),
      sensitivity: config.sensitivity,
      baseline_action: config.baseline_action,
      is_instructions: rel
        .is_some_and(|rel| Treatment::of(rel, false, config) == Treatment::Report),
      by_rules: trust_of(&config.trust_rules, &item.source, &[]),
      excused,
      allowed,
      readers: Readers::of_item(ledger, &item)?,
      request: item.trail.request.and_then(|hash| ledger.request(hash).ok().flatten()),
      item,
    })
  }

  fn input(&self) -> PolicyInput<'_> {
    PolicyInput {
      trust: self.item.trust,
      source_observed: self.observed,
      sensitivity: self.sensitivity,
      baseline: self.item.source.is_baseline(),
      baseline_action: self.baseline_action,
      instructions: self.is_instructions,
      ..PolicyInput::default()
    }
  }

  fn to_json(&self) -> Value {
    let item = &self.item;
    let input = self.input();
    let finding = |one: &Finding| {
      json!({
        "code": one.code.as_str(),
        "layer": one.layer.as_str(),
        "severity": one.severity.as_str(),
        "kind": one.kind.as_str(),
        "why": one.why,
        "rule": one.rule.as_ref().map(|rule| &rule.id),
        "rule_file": one.rule.as_ref().map(|rule| &rule.file),
        "alone": policy::decide(std::slice::from_ref(one), &input).verdict.as_str(),
      })
    };
    let mut value = of_item(item);
    value.extend(object(json!({
      "trust_by_rules": self.by_rules.as_str(),
      "observed": self.observed,
      "asked": self.request.as_ref().map(|request| &request.asked),
      "passage": self.request.as_ref().map(|request| &request.passage),
      "findings": self.found.iter().map(finding).collect::<Vec<_>>(),
      "sensitivity": self.sensitivity.as_str(),
      "instructions": self.is_instructions,
      "read_by": self.readers.to_json(),
      "excused": self.excused,
      "allowed": self.allowed.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
    })));
    value.into()
  }

  fn print(&self, context: &Context) -> Result<(), Failure> {
    let item = &self.item;
    let page = Page { context };
    let source = terminal(item.source.as_str());
    page.head(item.id.as_str(), item.status.as_str())?;
    page.row("where", &format!("{}:{}", terminal(shown(&item.path)), item.line))?;
    page.row("when", &time::rfc3339(item.quarantined_at))?;
    page.row("source", &evidence::origin(&item.source, item.trust, item.attestation))?;
    let line = evidence::line(&item.trail.evidence_json);
    page.row("how", &terminal(line.unwrap_or_else(|| "nothing on record".to_owned())))?;
    if let Some(request) = &self.request {
      let words = |text: &str| Escape::default().max_width(MAX_WORDS).apply(text);
      let asked = match request.asked.as_str() {
        "" => "nobody asked for anything in that turn".to_owned(),
        asked => words(asked),
      };
      page.row("asked", &asked)?;
      if !request.passage.is_empty() {
        page.row("passage", &words(&request.passage))?;
      }
    }
    if self.by_rules != item.trust {
      let why = "lowered because untrusted content was in the session";
      page.row("trust", &format!("the rules say {} for {source}; {why}", self.by_rules))?;
    }
    for one in &self.found {
      let place = one
        .rule
        .as_ref()
        .map_or_else(String::new, |rule| format!(", rule {}", terminal(rule.shown())));
      let decision = policy::decide(std::slice::from_ref(one), &self.input());
      page.row(
        "found",
        &format!(
          "{}: a {} of severity {}{place}; {}",
          one.code,
          one.kind.as_str(),
          one.severity,
          alone(&decision)
        ),
      )?;
      page.row("", &terminal(&one.why))?;
    }
    for code in item.codes.iter().filter(|code| self.found.iter().all(|one| one.code != **code)) {
      page.row("found", &format!("{code}: {}", code.title()))?;
    }
    page.row("score", &format!("{:.2}", item.score))?;
    let seen = if self.observed {
      "the agent's records identify the source"
    } else {
      "no record identifies the source"
    };
    let special =
      if self.is_instructions { "; findings in an instruction file are only reported" } else { "" };
    let trust = if item.source.is_baseline() {
      "text from before memfw".to_owned()
    } else {
      format!("trust {}, {seen}", item.trust)
    };
    page.row("policy", &format!("{trust}, sensitivity {}{special}", self.sensitivity.as_str()))?;
    page.row("", "`memfw explain CODE` says what a code means")?;
    if let Some(excused) = &self.excused {
      page.row("excused", &format!("this text: {}", terminal(excused)))?;
    }
    if !self.allowed.is_empty() {
      let codes: Vec<&str> = self.allowed.iter().map(|code| code.as_str()).collect();
      page.row("allowed", &format!("its source: {}", codes.join(" ")))?;
    }
    self.readers.print(&page)?;
    if let (Some(at), Some(by)) = (item.reviewed_at, &item.reviewed_by) {
      page.row("review", &format!("{} by {}", time::rfc3339(at), terminal(by)))?;
    }
    page.row("next", &self.next())
  }

  fn next(&self) -> String {
    let id = &self.item.id;
    if self.item.status.is_waiting() {
      format!("memfw review {id}")
    } else if let Some(code) = self.item.codes.first() {
      format!("memfw show {id} | memfw explain {code}")
    } else {
      format!("memfw show {id}")
    }
  }
}

/// The outcome of the finding alone.
fn alone(decision: &Decision) -> &'static str {
  match decision.verdict {
    Verdict::Quarantine => "enough on its own to quarantine",
    Verdict::Flag if decision.leaves() => "enough on its own to hold",
    Verdict::Flag => "enough on its own to flag",
    Verdict::Pass => "not enough on its own",
  }
}

/// Prints rows: a name, and a text that is wrapped.
struct Page<'c> {
  context: &'c Context,
}

/// The most columns of a quoted text.
const MAX_WORDS: usize = 600;
/// The width of the column of names.
const NAMES: usize = 10;

impl Page<'_> {
  fn head(&self, name: &str, what: &str) -> Result<(), Failure> {
    let out = &self.context.out;
    out.line(&format!("{}  {what}", out.paint(Style::Bold, name)))
  }

  /// `text` must already be escaped.
  fn row(&self, name: &str, text: &str) -> Result<(), Failure> {
    let out = &self.context.out;
    let columns = out.columns().clamp(40, 100) - NAMES;
    for (index, row) in prose(text, columns).iter().enumerate() {
      let name = if index == 0 { format!("  {name:<8}") } else { " ".repeat(NAMES) };
      out.line(format!("{}{row}", out.paint(Style::Dim, &name)).trim_end())?;
    }
    Ok(())
  }
}

fn of_code(context: &Context, code: Code, as_json: bool) -> Result<Status, Failure> {
  let rules = context.rules()?;
  let mine: Vec<_> = rules.set().rules().iter().filter(|rule| rule.code == code).collect();
  let text = pages::page(code).unwrap_or(code.title());
  if as_json {
    let rule = |rule: &&crate::detect::rules::Rule| {
      json!({
        "rule": rule.name.id,
        "rule_file": rule.name.file,
        "kind": rule.kind.as_str(),
        "severity": rule.severity.as_str(),
        "why": rule.why,
      })
    };
    context.out.json(&json!({
      "code": code.as_str(),
      "title": code.title(),
      "text": text,
      "rules": mine.iter().map(rule).collect::<Vec<_>>(),
    }))?;
    return Ok(Status::Yes);
  }
  context.out.page();
  let page = Page { context };
  page.head(code.as_str(), code.title())?;
  for line in text.lines().filter(|line| !line.is_empty()) {
    for row in prose(line, context.out.columns().clamp(40, 100) - 2) {
      context.out.line(&format!("  {row}"))?;
    }
  }
  for rule in mine {
    let name = terminal(rule.name.shown());
    page.row(
      "rule",
      &format!("{name}: {} {}; {}", rule.severity, rule.kind.as_str(), terminal(&rule.why)),
    )?;
  }
  Ok(Status::Yes)
}
