//! `memfw eval`: measures detection on labelled text.
//!
//! It judges every line with the function that `memfw scan` uses, and counts the results; `crate::eval`
//! defines what is counted. No memory and no ledger is changed.
#![forbid(unsafe_code)]

mod args;
mod judge;
mod text;

pub use args::EvalArgs;

use std::{
  fs::OpenOptions,
  io::Write as _,
  path::{Path, PathBuf},
};

use crate::{
  app::{context::Context, exit::Status},
  config::Config,
  detect::{
    JudgeOptions, PolicyInput, Sensitivity,
    model::{self, Assessor as _, Model},
  },
  engine::{bulk, event::shown},
  eval::{Case, Floors, Outcome, Setup, Tally, mistakes::Place, svg},
  judging::assess::{Assessed, Layers, Reads, Referral, Sample, assess, facts_of},
  os::{Clock as _, SystemClock, paths},
  provenance::{Source, Trust, trust_of},
  terminal::{
    failure::{Failure, reason},
    lines::{Line, Lines},
    progress::Progress,
  },
};

/// Longest line, in bytes; labelled blocks are kilobytes.
const MAX_LINE: u64 = 1 << 20;
/// Lines of one evaluation, at most: a bound on memory (about 100 bytes each, pairs more).
const MAX_CASES: u64 = 2_000_000;
/// Files of one evaluation, at most; a bound on memory.
const MAX_FILES: usize = 10_000;
/// Largest file with floors, in bytes.
const MAX_FLOORS: u64 = 1 << 20;

/// Carries the command out.
pub fn run(context: &Context, args: EvalArgs) -> Result<Status, Failure> {
  let layers = args.layers.layers();
  if let Some(svg) = &args.svg
    && svg.extension().is_none_or(|extension| extension != "svg")
  {
    // A typing error must not overwrite a memory file.
    return Err(Failure::usage(format!("`{}` does not end in `.svg`", shown(svg))));
  }
  let floors = args.floors.as_deref().map(floors).transpose()?.unwrap_or_default();
  let config =
    Config { sensitivity: args.sensitivity.unwrap_or(Sensitivity::Medium), ..Config::default() };
  let source = args.source.as_deref().map(Source::named);
  let judge = judge::Recorded::of(&args)?;
  let may_release = args.judge_may_release;
  let n_threads = bulk::cores();
  let settings =
    Settings { trust: args.trust, source, layers, n_threads, config, judge, may_release };
  let setup = Setup {
    inputs: args.paths.iter().map(|path| shown(path)).collect(),
    layers: layers.as_str(),
    model: layers != Layers::Rules,
    trust: args.trust.map(Trust::as_str),
    source: settings.source.as_ref().map(ToString::to_string),
    sensitivity: settings.config.sensitivity.as_str(),
  };
  let mut tally = Tally::new(floors, args.mistakes);
  let start = SystemClock.monotonic();
  let mut progress = Progress::new("line", start).unless(context.out.is_quiet());
  for (index, file) in files(&args.paths)?.iter().enumerate() {
    read(index, file, &settings, &mut tally, &mut progress)?;
  }
  drop(progress);
  // Figures of a damaged model would be taken for figures of the whole model.
  let health = Model::embedded().health().degradation();
  if let Some(why) = health.filter(|_| layers != Layers::Rules) {
    return Err(Failure::unavailable(why).hint("memfw eval --layers rules"));
  }
  let mut report = tally.report(setup, SystemClock.monotonic().saturating_sub(start));
  report.judge = settings.judge.as_ref().map(judge::Recorded::counts);
  if report.all.n() == 0 {
    let first = report.cases.bad_lines.first();
    let why = first.map(|bad| format!(": {}:{}: {}", bad.place.file, bad.place.line, bad.why));
    return Err(Failure::unavailable(format!(
      "the input has no labelled line{}",
      why.unwrap_or_default()
    )));
  }
  if let (Some(file), Some(judge)) = (&args.judge_dump, &settings.judge) {
    overwrite(file, &judge.dump())?;
  }
  if let Some(file) = &args.svg {
    overwrite(file, &svg::draw(&report))?;
  }
  if args.json {
    context.out.json(&report)?;
  } else {
    text::write(&context.out, &report)?;
  }
  Ok(if report.is_met() { Status::Yes } else { Status::No })
}

/// How lines are judged.
struct Settings {
  /// The trust of all lines, which overrides their own.
  trust: Option<Trust>,
  /// The source of all lines without an origin.
  source: Option<Source>,
  layers: Layers,
  n_threads: usize,
  config: Config,
  judge: Option<judge::Recorded>,
  may_release: bool,
}

impl Settings {
  fn trust(&self, case: &Case) -> Trust {
    let own = || match (&case.scenario, &self.source) {
      (None, None) => Trust::Untrusted,
      _ => trust_of(&self.config.trust_rules, &self.source(case), &[]),
    };
    self.trust.or(case.trust).unwrap_or_else(own)
  }

  fn source(&self, case: &Case) -> Source {
    let own = case.scenario.as_ref().map(|scenario| scenario.source.clone());
    own.or_else(|| self.source.clone()).unwrap_or_else(Source::unknown)
  }

  /// Parses and judges lines; an error for each line that is no valid case.
  fn judge(&self, lines: &[&Line], set: &str) -> Vec<Result<(Case, Assessed), String>> {
    let cases: Vec<Result<Case, String>> = lines
      .iter()
      .map(|line| match line {
        Line::Whole(line) => Case::parse(line, set),
        Line::TooLong => Err(format!("the line has more than {MAX_LINE} bytes")),
      })
      .collect();
    let sources: Vec<Source> = cases.iter().flatten().map(|case| self.source(case)).collect();
    let samples: Vec<Sample<'_>> = cases
      .iter()
      .flatten()
      .zip(&sources)
      .map(|(case, source)| {
        let asked = case.scenario.as_ref().map_or("", |scenario| &scenario.request.asked);
        Sample {
          text: case.text.as_bytes(),
          options: JudgeOptions { scope: self.config.scope, ..JudgeOptions::default() },
          facts: PolicyInput {
            may_release: self.may_release,
            ..facts_of(source, self.trust(case), asked, &self.config)
          },
          kind: model::Kind::of(source),
          layers: self.layers,
          reads: Reads::New,
          asked,
          referral: self.judge.as_ref().map(|judge| Referral { reader: judge, source }),
        }
      })
      .collect();
    let mut assessed = assess(&samples, Model::embedded(), &SystemClock).into_iter();
    drop(samples);
    let judged = cases.into_iter().map(|case| {
      let case = case?;
      let answer = assessed.next().ok_or("it was not judged")?;
      Ok((case, answer))
    });
    judged.collect()
  }
}

/// Judges one file and counts.
fn read(
  index: usize,
  file: &Path,
  settings: &Settings,
  tally: &mut Tally,
  progress: &mut Progress,
) -> Result<(), Failure> {
  let name = shown(file);
  let opened = paths::open_own(file)
    .map_err(|error| Failure::unavailable(error.to_string()))?
    .ok_or_else(|| Failure::unavailable(format!("`{name}` does not exist")))?;
  let set = file.file_stem().map(|stem| shown(Path::new(stem))).unwrap_or_default();
  let mut lines = Lines::new(opened, MAX_LINE);
  let mut number = 0;
  loop {
    let chunk = lines.chunk().map_err(|error| unreadable(file, &error))?;
    if chunk.is_empty() {
      return Ok(());
    }
    let judged =
      bulk::in_order(&chunk, Line::len, settings.n_threads, |batch| settings.judge(batch, &set));
    for answer in judged {
      number += 1;
      let place = Place { file: name.clone(), line: number };
      match answer {
        Ok((case, assessed)) => {
          let trust = settings.trust(&case);
          tally.add(index, place, &case, trust, outcome(&assessed));
        }
        Err(why) => tally.add_bad(place, why),
      }
    }
    progress.at(tally.n_lines(), SystemClock.monotonic());
    if tally.n_lines() > MAX_CASES {
      return Err(Failure::unavailable(format!("more than {MAX_CASES} lines")));
    }
  }
}

fn outcome(assessed: &Assessed) -> Outcome {
  Outcome {
    score: assessed.decision.score,
    model: assessed.model,
    found: assessed.is_found(),
    codes: assessed.decision.codes.iter().map(|code| code.as_str()).collect(),
    out: assessed.out.clone(),
    rules: assessed.times.rules,
    model_took: assessed.times.model,
  }
}

fn floors(file: &Path) -> Result<Floors, Failure> {
  let bytes = paths::read_own(file, MAX_FLOORS)
    .map_err(|error| Failure::unavailable(error.to_string()))?
    .ok_or_else(|| Failure::unavailable(format!("`{}` does not exist", shown(file))))?;
  let invalid = |why: String| Failure::config(format!("`{}`: {why}", shown(file)));
  let text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
  Floors::parse(&text).map_err(|error| invalid(error.to_string()))
}

/// Writes a file, and overwrites an existing one.
fn overwrite(file: &Path, text: &str) -> Result<(), Failure> {
  let opened = OpenOptions::new().write(true).create(true).truncate(true).open(file);
  opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
    Failure::unavailable(format!("cannot write `{}`: {}", shown(file), reason(&error)))
  })
}

/// The given files, and the sorted `*.jsonl` files of given directories, where links are skipped.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
  let mut found = Vec::new();
  for path in paths {
    if !path.metadata().map_err(|error| unreadable(path, &error))?.is_dir() {
      found.push(path.clone());
      continue;
    }
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| unreadable(path, &error))? {
      let entry = entry.map_err(|error| unreadable(path, &error))?;
      let is_file = entry.file_type().map_err(|error| unreadable(path, &error))?.is_file();
      if is_file && entry.file_name().as_encoded_bytes().ends_with(b".jsonl") {
        inside.push(entry.path());
      }
      if inside.len() > MAX_FILES {
        return Err(Failure::unavailable(format!(
          "more than {MAX_FILES} files in `{}`",
          shown(path)
        )));
      }
    }
    if inside.is_empty() {
      return Err(Failure::unavailable(format!("there is no `*.jsonl` in `{}`", shown(path))));
    }
    inside.sort();
    found.append(&mut inside);
  }
  Ok(found)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
  Failure::unavailable(format!("cannot read `{}`: {}", shown(path), reason(error)))
}
