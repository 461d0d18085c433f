//! `memfw scan`: what layer 1 says about a text, a file or a tree, without changing anything.
#![forbid(unsafe_code)]

use std::{
  io::{self, BufRead, Read as _},
  path::{Path, PathBuf},
  time::Duration,
};

use serde_json::{Value, json};

use super::{
  Status,
  args::{ScanArgs, ScanMode},
  context::Context,
  escape::terminal,
  failure::Failure,
  output::{Style, count},
};
use crate::{
  config::Config,
  detect::{self, Decision, Finding, JudgeOptions, Mode, PolicyInput, RuleKind, Verdict, policy},
  engine::{
    event::{rounded, shown},
    judge::BlockText,
  },
  memory::{Document, Known},
  os::{Clock as _, SystemClock, paths},
  provenance::{Source, Trust},
  store::Ledger,
};

/// Longest line of `--jsonl`, in bytes: a text of the largest size, escaped.
const MAX_LINE: u64 = 64 << 20;
/// Most files of one scan; a bound on memory, not a limit that a memory tree meets.
const MAX_FILES: usize = 1_000_000;

/// How texts are judged.
struct Judge<'a> {
  options: JudgeOptions<'a>,
  source: Source,
  trust: Trust,
  config: Config,
}

impl Judge<'_> {
  fn decide(&self, findings: &[Finding], source: &Source, trust: Trust) -> Decision {
    let observed = !matches!(source.kind(), "unknown" | "external-edit");
    let input = PolicyInput {
      trust,
      source_observed: observed,
      sensitivity: self.config.sensitivity,
      baseline: false,
      baseline_action: self.config.baseline_action,
      instructions: false,
      excused: &[],
    };
    policy::decide(findings, &input)
  }
}

/// Carries the command out.
pub fn run(context: &Context, args: ScanArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  let rules = context.rules()?;
  let judge = Judge {
    options: JudgeOptions {
      scope: args.scope.unwrap_or(config.scope),
      mode: match args.mode {
        ScanMode::Write => Mode::Write,
        ScanMode::Recall => Mode::Recall,
        ScanMode::Document => Mode::Document,
      },
      rules: Some(rules.set()),
      ..JudgeOptions::default()
    },
    source: args.source.as_deref().map_or_else(Source::unknown, Source::new),
    trust: args.trust.unwrap_or(Trust::Untrusted),
    config,
  };
  if args.jsonl {
    return jsonl(context, &judge, &args.paths);
  }
  let ledger = context.ledger_to_read().unwrap_or(None);
  let mut report = Report {
    context,
    json: args.json,
    n_files: 0,
    n_blocks: 0,
    worst: Verdict::Pass,
    values: vec![],
  };
  if args.paths.is_empty() || args.paths == [PathBuf::from("-")] {
    let bytes = stdin(judge.config.max_file_bytes)?;
    report.file("-", &bytes, &judge, &Known::default())?;
  } else {
    for path in &args.paths {
      for file in files(path)? {
        let bytes = paths::read_own(&file, judge.config.max_file_bytes)
          .map_err(|error| Failure::unavailable(error.to_string()))?
          .ok_or_else(|| Failure::unavailable(format!("`{}` does not exist", shown(&file))))?;
        report.file(&shown(&file), &bytes, &judge, &known(ledger.as_ref(), &file))?;
      }
    }
  }
  report.finish()
}

/// Markers and placeholders that memfw wrote into this file are no text of its author.
fn known(ledger: Option<&Ledger>, file: &Path) -> Known {
  let path = super::guarded::resolved(file);
  let Some(ledger) = ledger else { return Known::default() };
  let markers = ledger.marker_ids(&path).unwrap_or_default();
  let placeholders = ledger.placeholder_ids(&path).unwrap_or_default();
  Known { markers, placeholders: placeholders.into_keys().collect(), ..Known::default() }
}

/// What is written and counted while files are scanned.
struct Report<'a> {
  context: &'a Context,
  json: bool,
  n_files: usize,
  n_blocks: usize,
  worst: Verdict,
  values: Vec<Value>,
}

impl Report<'_> {
  fn file(
    &mut self,
    name: &str,
    bytes: &[u8],
    judge: &Judge<'_>,
    known: &Known,
  ) -> Result<(), Failure> {
    self.n_files += 1;
    let document = Document::parse(bytes, known);
    for block in document.blocks() {
      self.n_blocks += 1;
      let text = BlockText::new(bytes, block);
      let findings = detect::judge(text.bytes(), &judge.options);
      let decision = judge.decide(&findings, &judge.source, judge.trust);
      if decision.verdict == Verdict::Pass {
        continue;
      }
      self.worst = self.worst.max(decision.verdict);
      if self.json {
        self.values.push(json!({
          "file": name,
          "start_line": block.start_line,
          "end_line": block.end_line,
          "verdict": decision.verdict.as_str(),
          "score": rounded(decision.score),
          "action": decision.action.as_str(),
          "codes": words(&decision),
          "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
        }));
        continue;
      }
      let out = &self.context.out;
      let style = if decision.verdict == Verdict::Quarantine { Style::Red } else { Style::Yellow };
      let verdict = out.paint(style, decision.verdict.as_str());
      out.line(&format!(
        "{}:{}: {verdict} {}",
        terminal(name),
        block.start_line,
        words(&decision).join(" ")
      ))?;
      let mut told: Vec<&str> = Vec::new();
      for finding in findings.iter().filter(|finding| decision.codes.contains(&finding.code)) {
        if !told.contains(&finding.why.as_str()) {
          told.push(&finding.why);
          out.line(&format!("    {}: {}", finding.code, finding.why))?;
        }
      }
    }
    Ok(())
  }

  fn finish(self) -> Result<Status, Failure> {
    let out = &self.context.out;
    if self.json {
      out.json(&self.values)?;
    } else if self.worst == Verdict::Pass {
      out.line(&format!(
        "clean: {} in {}",
        count(self.n_blocks as u64, "block"),
        count(self.n_files as u64, "file")
      ))?;
    }
    Ok(if self.worst == Verdict::Pass { Status::Yes } else { Status::No })
  }
}

/// One JSON object a line in, one a line out, in order; a bad line is answered on its line.
fn jsonl(context: &Context, judge: &Judge<'_>, inputs: &[PathBuf]) -> Result<Status, Failure> {
  if !(inputs.is_empty() || inputs == [PathBuf::from("-")]) {
    return Err(Failure::usage("`--jsonl` reads standard input").hint("memfw scan --jsonl < FILE"));
  }
  let mut input = io::stdin().lock();
  let mut line = Vec::new();
  loop {
    line.clear();
    let n = (&mut input)
      .take(MAX_LINE)
      .read_until(b'\n', &mut line)
      .map_err(|error| Failure::unavailable(format!("cannot read standard input: {error}")))?;
    if n == 0 {
      return Ok(Status::Yes);
    }
    let cut = line.last() != Some(&b'\n') && n as u64 == MAX_LINE;
    if cut {
      // The rest of a line that is too long is not a line of its own.
      input.skip_until(b'\n').map_err(|error| Failure::unavailable(error.to_string()))?;
    }
    let answer = if cut {
      json!({ "error": format!("the line has more than {MAX_LINE} bytes") })
    } else {
      answer(&line, judge).unwrap_or_else(|error| json!({ "error": error }))
    };
    context.out.json_line(&answer)?;
  }
}

fn answer(line: &[u8], judge: &Judge<'_>) -> Result<Value, String> {
  let value: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
  let object = value.as_object().ok_or("expected a JSON object")?;
  let text = object.get("text").and_then(Value::as_str).ok_or("expected a string `text`")?;
  let source = match object.get("source") {
    None | Some(Value::Null) => judge.source.clone(),
    Some(Value::String(source)) => Source::new(source),
    Some(_) => return Err("expected a string `source`".to_owned()),
  };
  let trust = match object.get("trust") {
    None | Some(Value::Null) => judge.trust,
    Some(Value::String(trust)) => trust.parse::<Trust>().map_err(|error| error.to_string())?,
    Some(_) => return Err("expected a string `trust`".to_owned()),
  };
  let tags: Vec<String> = match object.get("tags") {
    None | Some(Value::Null) => vec![],
    Some(Value::Array(tags)) => tags
      .iter()
      .map(|tag| tag.as_str().map(str::to_owned).ok_or("expected strings in `tags`"))
      .collect::<Result<_, _>>()?,
    Some(_) => return Err("expected an array `tags`".to_owned()),
  };
  let options = JudgeOptions { tags: &tags, ..judge.options };
  let start = SystemClock.monotonic();
  let findings = detect::judge(text.as_bytes(), &options);
  let decision = judge.decide(&findings, &source, trust);
  let took: Duration = SystemClock.monotonic().saturating_sub(start);
  let kinds = |kind: RuleKind| findings.iter().filter(|finding| finding.kind == kind).count();
  Ok(json!({
    "verdict": decision.verdict.as_str(),
    "score": rounded(decision.score),
    "action": decision.action.as_str(),
    "codes": words(&decision),
    "layers": {
      "rules": { "signatures": kinds(RuleKind::Signature), "triggers": kinds(RuleKind::Trigger) },
      "model": { "score": null },
    },
    "us": u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
  }))
}

fn finding_json(finding: &Finding) -> Value {
  json!({
    "code": finding.code.as_str(),
    "layer": finding.layer.as_str(),
    "severity": finding.severity.as_str(),
    "kind": finding.kind.as_str(),
    "start": finding.span.start,
    "end": finding.span.end,
    "why": finding.why,
    "rule": finding.rule.as_ref().map(|rule| &rule.id),
    "rule_file": finding.rule.as_ref().map(|rule| &rule.file),
  })
}

fn words(decision: &Decision) -> Vec<&'static str> {
  decision.codes.iter().map(|code| code.as_str()).collect()
}

fn stdin(max_bytes: u64) -> Result<Vec<u8>, Failure> {
  let mut bytes = Vec::new();
  io::stdin()
    .lock()
    .take(max_bytes.saturating_add(1))
    .read_to_end(&mut bytes)
    .map_err(|error| Failure::unavailable(format!("cannot read standard input: {error}")))?;
  if bytes.len() as u64 > max_bytes {
    return Err(Failure::unavailable(format!("standard input has more than {max_bytes} bytes")));
  }
  Ok(bytes)
}

/// The file itself, or the markdown files below a directory, sorted; links are not followed.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
  let unreadable = |path: &Path, error: &io::Error| {
    Failure::unavailable(format!(
      "cannot read `{}`: {}",
      shown(path),
      super::failure::reason(error)
    ))
  };
  if !path.metadata().map_err(|error| unreadable(path, &error))?.is_dir() {
    return Ok(vec![path.to_owned()]);
  }
  let mut found = Vec::new();
  let mut dirs = vec![path.to_owned()];
  while let Some(dir) = dirs.pop() {
    for entry in std::fs::read_dir(&dir).map_err(|error| unreadable(&dir, &error))? {
      let entry = entry.map_err(|error| unreadable(&dir, &error))?;
      let kind = entry.file_type().map_err(|error| unreadable(&dir, &error))?;
      let name = entry.file_name();
      if name.as_encoded_bytes().starts_with(b".") {
        continue;
      }
      if kind.is_dir() {
        dirs.push(entry.path());
      } else if kind.is_file() && name.as_encoded_bytes().ends_with(b".md") {
        found.push(entry.path());
      }
      if found.len() > MAX_FILES {
        return Err(Failure::unavailable(format!(
          "more than {MAX_FILES} files in `{}`",
          shown(path)
        )));
      }
    }
  }
  found.sort();
  Ok(found)
}
