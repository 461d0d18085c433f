//! `memfw scan --jsonl`: one JSON object per line in, one per line out, in order.
//!
//! A line that cannot be read is answered by an error. A program that sends one line and waits gets the
//! answer at once; faster input is answered in chunks, on all cores.
#![forbid(unsafe_code)]

use std::io;

use serde_json::{Value, json};

use super::{Judge, warn_of_damage, words};
use crate::{
  app::{context::Context, exit::Status},
  detect::{
    JudgeOptions, Layer, RuleKind,
    model::{Kind, Model},
  },
  engine::{bulk, event::rounded},
  judging::assess::{Assessed, Layers, Reads, Sample, assess, facts_of},
  os::{Clock as _, SystemClock},
  provenance::{Request, Source, Trust, trust_of},
  terminal::{
    failure::{Failure, reason},
    lines::{Line, Lines},
    output::one_line,
    progress::Progress,
  },
};

/// Longest line, in bytes: a text of the largest size, escaped.
const MAX_LINE: u64 = 64 << 20;

/// Answers standard input until it ends.
pub(super) fn run(context: &Context, judge: &Judge<'_>) -> Result<Status, Failure> {
  let mut lines = Lines::new(io::stdin().lock(), MAX_LINE);
  let mut progress = Progress::new("line", SystemClock.monotonic()).unless(context.out.is_quiet());
  let mut n_lines = 0;
  loop {
    let chunk = lines.chunk().map_err(|error| {
      Failure::unavailable(format!("cannot read standard input: {}", reason(&error)))
    })?;
    if chunk.is_empty() {
      warn_of_damage();
      return Ok(Status::Yes);
    }
    let answers =
      bulk::in_order(&chunk, Line::len, judge.n_threads, |batch| answer_all(batch, judge));
    let answers: Vec<String> = answers.into_iter().collect::<Result<_, _>>()?;
    progress.clear();
    context.out.lines(&answers)?;
    n_lines += chunk.len() as u64;
    progress.at(n_lines, SystemClock.monotonic());
  }
}

/// One answer for each line.
fn answer_all(lines: &[&Line], judge: &Judge<'_>) -> Vec<Result<String, Failure>> {
  let asked: Vec<Result<Question, String>> =
    lines.iter().map(|line| question(line, judge)).collect();
  let samples: Vec<Sample<'_>> =
    asked.iter().flatten().map(|question| question.sample(judge)).collect();
  let mut assessed = assess(&samples, Model::embedded(), &SystemClock).into_iter();
  let answers = asked.iter().map(|asked| match asked {
    Ok(_) => assessed.next().map_or_else(|| error("it was not judged"), |one| answer(&one)),
    Err(why) => error(why),
  });
  answers.map(|answer| one_line(&answer)).collect()
}

fn error(why: &str) -> Value {
  json!({ "error": why })
}

/// A text to be judged.
struct Question {
  text: String,
  source: Option<Source>,
  trust: Trust,
  asked: String,
  tags: Vec<String>,
}

impl Question {
  fn sample<'q>(&'q self, judge: &'q Judge<'_>) -> Sample<'q> {
    let source = self.source.as_ref().unwrap_or(&judge.source);
    Sample {
      text: self.text.as_bytes(),
      options: JudgeOptions { tags: &self.tags, ..judge.options },
      facts: facts_of(source, self.trust, &self.asked, &judge.config),
      kind: Kind::of(source),
      layers: Layers::All,
      // A question about a single text gets the answer that the daemon would give.
      reads: Reads::New,
      asked: &self.asked,
      referral: None,
    }
  }
}

fn question(line: &Line, judge: &Judge<'_>) -> Result<Question, String> {
  let Line::Whole(line) = line else {
    return Err(format!("the line has more than {MAX_LINE} bytes"));
  };
  let mut value: Value =
    serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
  let object = value.as_object_mut().ok_or("expected a JSON object")?;
  let Some(Value::String(text)) = object.remove("text") else {
    return Err("expected a string `text`".to_owned());
  };
  let source = match object.get("source") {
    None | Some(Value::Null) => None,
    Some(Value::String(source)) => Some(Source::named(source)),
    Some(_) => return Err("expected a string `source`".to_owned()),
  };
  let trust = match object.get("trust") {
    None | Some(Value::Null) => match &source {
      Some(source) => trust_of(&judge.config.trust_rules, source, &[]),
      None => judge.trust,
    },
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
  let words = |key: &str| match object.get(key) {
    None | Some(Value::Null) => Ok(String::new()),
    Some(Value::String(words)) => Ok(words.clone()),
    Some(_) => Err(format!("expected a string `{key}`")),
  };
  let (asked, passage) = (words("asked")?, words("origin")?);
  let asked = Request::new(&asked, &passage).asked;
  Ok(Question { text, source, trust, asked, tags })
}

fn answer(assessed: &Assessed) -> Value {
  let Assessed { findings, decision, model, out, times } = assessed;
  let kinds = |kind: RuleKind| {
    findings.iter().filter(|finding| finding.layer == Layer::Rules && finding.kind == kind).count()
  };
  json!({
    "verdict": decision.verdict.as_str(),
    "score": rounded(decision.score),
    "action": decision.action.as_str(),
    "codes": words(decision),
    "out": out.iter().map(|span| [span.start, span.end]).collect::<Vec<_>>(),
    "layers": {
      "rules": { "signatures": kinds(RuleKind::Signature), "triggers": kinds(RuleKind::Trigger) },
      "model": { "score": model.map(rounded) },
    },
    "us": u64::try_from(times.total().as_micros()).unwrap_or(u64::MAX),
  })
}
