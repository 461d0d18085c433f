//! `memfw scan`: judges a text, a file or a tree, without changing anything.
//!
//! Files are read in chunks: the files of a chunk are parsed, then all their blocks are judged, on all
//! cores; answers come in the order of files and blocks. A signal may end the scan at any time: only
//! whole lines are written, and nothing is left behind.
#![forbid(unsafe_code)]

mod args;
mod known;
mod stream;

pub use args::{FailOn, ScanArgs, ScanMode};

use std::{
  collections::HashSet,
  io::{self, IsTerminal as _, Read as _},
  path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::shared::sarif::{self, Level, Lines, Place};
use crate::{
  app::{context::Context, exit::Status},
  config::Config,
  detect::{
    Decision, JudgeOptions, Mode, Severity, Verdict,
    model::{Assessor as _, Kind, Model},
  },
  engine::{
    bulk,
    event::{rounded, shown},
  },
  judging::{
    assess::{Assessed, Layers, Reads, Sample, assess, facts_of},
    text::BlockText,
  },
  memory::{ContentHash, Document, Known},
  os::{Clock as _, SystemClock, paths},
  provenance::{Source, Trust},
  store::Ledger,
  terminal::{
    escape::terminal,
    failure::{Failure, complain},
    lines::CHUNK_LINES,
    output::{Style, count},
    preview::prose,
    progress::Progress,
    time,
  },
};
use known::{Excuse, Excuses};

/// The indentation of what is printed about a finding.
const INDENT: &str = "    ";
/// The most files of one scan; a bound on memory that no real memory tree reaches.
const MAX_FILES: usize = 1_000_000;
/// The most files that are read before their blocks are judged: a choice.
const MAX_CHUNK_FILES: usize = 512;
/// The bytes after which no further file is read first: a choice, small compared with the rest.
const MAX_CHUNK_BYTES: usize = 8 << 20;

/// How texts are judged.
struct Judge<'a> {
  options: JudgeOptions<'a>,
  source: Source,
  trust: Trust,
  config: Config,
  n_threads: usize,
}

impl Judge<'_> {
  fn sample<'t>(&'t self, text: &'t [u8]) -> Sample<'t> {
    Sample {
      text,
      options: self.options,
      facts: facts_of(&self.source, self.trust, "", &self.config),
      kind: Kind::of(&self.source),
      layers: Layers::All,
      reads: Reads::Notable,
      asked: "",
      referral: None,
    }
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
    source: args.source.as_deref().map_or_else(Source::unknown, Source::named),
    trust: args.trust.unwrap_or(Trust::Untrusted),
    config,
    n_threads: bulk::cores(),
  };
  if args.jsonl {
    if !(args.paths.is_empty() || args.paths == [PathBuf::from("-")]) {
      return Err(
        Failure::usage("`--jsonl` reads standard input").hint("memfw scan --jsonl < FILE"),
      );
    }
    return stream::run(context, &judge);
  }
  let today = time::date(SystemClock.now());
  let excuses = Excuses::read(args.ignore.as_deref(), args.baseline.as_deref(), &today)?;
  let mut report = ScanReport {
    context,
    judge: &judge,
    progress: Progress::new("block", SystemClock.monotonic()).unless(context.out.is_quiet()),
    form: match (args.json, args.sarif) {
      (true, _) => Form::Json,
      (_, true) => Form::Sarif(sarif::SarifLog::default()),
      _ => Form::Text,
    },
    excuses,
    scanned: HashSet::new(),
    n_files: 0,
    n_blocks: 0,
    tally: Tally::default(),
    worst: Verdict::Pass,
    fail_on: match args.fail_on {
      FailOn::Flag => Verdict::Flag,
      FailOn::Quarantine => Verdict::Quarantine,
    },
    values: vec![],
  };
  if args.paths.is_empty() && io::stdin().is_terminal() {
    // Nobody means to type memory; who does says so with `-`.
    return Err(
      Failure::usage("`memfw scan` needs something to judge")
        .hint("a file or a directory: `memfw scan ~/notes`")
        .hint("what a program writes: `git diff | memfw scan`")
        .hint("what you type, up to Ctrl-D: `memfw scan -`"),
    );
  }
  if args.paths.is_empty() || args.paths == [PathBuf::from("-")] {
    let bytes = stdin(judge.config.max_file_bytes)?;
    let (name, path) = ("-".to_owned(), PathBuf::from("-"));
    report.files(&[Read { name, path, bytes, known: Known::default() }])?;
  } else {
    let ledger = context.ledger_to_read().unwrap_or(None);
    let mut chunk = Vec::new();
    let mut n_bytes = 0;
    for path in &args.paths {
      // Files that were read before an unreadable one are answered first.
      let found = match files(path) {
        Ok(found) => found,
        Err(failure) => return report.files(&chunk).and(Err(failure)),
      };
      for file in found {
        let bytes = match read(&file, &judge) {
          Ok(bytes) => bytes,
          Err(failure) => return report.files(&chunk).and(Err(failure)),
        };
        n_bytes += bytes.len();
        let (name, known) = (shown(&file), known(ledger.as_ref(), &file));
        chunk.push(Read { name, path: file, bytes, known });
        if chunk.len() >= MAX_CHUNK_FILES || n_bytes >= MAX_CHUNK_BYTES {
          report.files(&std::mem::take(&mut chunk))?;
          n_bytes = 0;
        }
      }
    }
    report.files(&chunk)?;
  }
  report.finish()
}

/// A file that was read.
struct Read {
  name: String,
  path: PathBuf,
  bytes: Vec<u8>,
  known: Known,
}

fn read(file: &Path, judge: &Judge<'_>) -> Result<Vec<u8>, Failure> {
  paths::read_own(file, judge.config.max_file_bytes)
    .map_err(|error| Failure::unavailable(error.to_string()))?
    .ok_or_else(|| Failure::unavailable(format!("`{}` does not exist", shown(file))))
}

/// The markers and placeholders that memfw wrote into this file; they are no text of its author.
fn known(ledger: Option<&Ledger>, file: &Path) -> Known {
  let path = crate::app::paths::resolved(file);
  let Some(ledger) = ledger else { return Known::default() };
  let markers = ledger.marker_ids(&path).unwrap_or_default();
  let placeholders = ledger.placeholder_ids(&path).unwrap_or_default();
  Known { markers, placeholders: placeholders.into_keys().collect(), ..Known::default() }
}

/// One block of a file that was read.
struct Item<'f> {
  file: &'f Read,
  start_line: usize,
  end_line: usize,
  text: BlockText,
}

fn items(file: &Read) -> Vec<Item<'_>> {
  let document = Document::parse(&file.bytes, &file.known);
  let blocks = document.blocks().iter();
  let item = |block| BlockText::new(&file.bytes, block);
  blocks
    .map(|block| Item {
      file,
      start_line: block.start_line,
      end_line: block.end_line,
      text: item(block),
    })
    .collect()
}

/// The form of the answers.
enum Form {
  Text,
  Json,
  Sarif(sarif::SarifLog),
}

/// How many blocks with findings there were.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
  quarantine: u64,
  flag: u64,
  ignored: u64,
  known: u64,
}

impl Tally {
  /// The last line of a scan of so many blocks and files.
  fn line(&self, n_blocks: usize, n_files: usize) -> String {
    let Self { quarantine, flag, ignored, known } = *self;
    let extent =
      format!("{} in {}", count(n_blocks as u64, "block"), count(n_files as u64, "file"));
    let list = |parts: [(u64, &str); 2]| {
      let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
      parts.collect::<Vec<_>>().join(", ")
    };
    let found = list([(quarantine, "to quarantine"), (flag, "to flag")]);
    let excused = list([(ignored, "ignored"), (known, "known")]);
    let head = if found.is_empty() {
      format!("clean: {extent}")
    } else {
      format!("found: {found}; {extent}")
    };
    if excused.is_empty() { head } else { format!("{head}; {excused}") }
  }
}

/// Output and counts of a scan.
struct ScanReport<'a> {
  context: &'a Context,
  judge: &'a Judge<'a>,
  progress: Progress,
  form: Form,
  excuses: Excuses,
  /// The files of this scan, without links.
  scanned: HashSet<PathBuf>,
  n_files: usize,
  n_blocks: usize,
  tally: Tally,
  worst: Verdict,
  fail_on: Verdict,
  values: Vec<Value>,
}

impl ScanReport<'_> {
  /// Judges all blocks of some files, and prints the answers in order.
  fn files(&mut self, files: &[Read]) -> Result<(), Failure> {
    let n_threads = self.judge.n_threads;
    let parsed = bulk::in_order(
      files,
      |file| file.bytes.len(),
      n_threads,
      |batch| batch.iter().map(|file| items(file)).collect(),
    );
    let items: Vec<Item<'_>> = parsed.into_iter().flatten().collect();
    for chunk in items.chunks(CHUNK_LINES) {
      let answers = bulk::in_order(
        chunk,
        |item| item.text.bytes().len(),
        n_threads,
        |batch| {
          let samples: Vec<Sample<'_>> =
            batch.iter().map(|item| self.judge.sample(item.text.bytes())).collect();
          assess(&samples, Model::embedded(), &SystemClock)
        },
      );
      self.progress.clear();
      for (item, answer) in chunk.iter().zip(&answers) {
        self.tell(item, answer)?;
      }
      self.n_blocks += chunk.len();
      self.context.out.flush()?;
      self.progress.at(self.n_blocks as u64, SystemClock.monotonic());
    }
    self.scanned.extend(files.iter().map(|file| crate::app::paths::resolved(&file.path)));
    self.n_files += files.len();
    Ok(())
  }

  fn tell(&mut self, item: &Item<'_>, answer: &Assessed) -> Result<(), Failure> {
    let Assessed { findings, decision, .. } = answer;
    if !answer.is_found() {
      return Ok(());
    }
    let hash = ContentHash::of(item.text.bytes());
    let excuse = self.excuses.of(&item.file.path, hash, &decision.codes);
    match (excuse, decision.verdict) {
      (Some(Excuse::Ignored), _) => self.tally.ignored += 1,
      (Some(Excuse::Known), _) => self.tally.known += 1,
      (None, Verdict::Quarantine) => self.tally.quarantine += 1,
      (None, _) => self.tally.flag += 1,
    }
    if excuse.is_none() {
      self.worst = self.worst.max(decision.verdict);
    }
    if let Form::Sarif(report) = &mut self.form {
      add(report, item, answer, excuse.is_some());
      return Ok(());
    }
    if excuse.is_some() {
      return Ok(());
    }
    if matches!(self.form, Form::Json) {
      self.values.push(json!({
        "file": item.file.name,
        "start_line": item.start_line,
        "end_line": item.end_line,
        "verdict": decision.verdict.as_str(),
        "score": rounded(decision.score),
        "action": decision.action.as_str(),
        "codes": words(decision),
        "findings": findings,
        "fingerprint": hash.to_string(),
      }));
      return Ok(());
    }
    let out = &self.context.out;
    let style = if decision.verdict == Verdict::Quarantine { Style::Red } else { Style::Yellow };
    let verdict = out.paint(style, decision.verdict.as_str());
    out.line(&format!(
      "{}:{}: {verdict} {}",
      terminal(&item.file.name),
      item.start_line,
      words(decision).join(" ")
    ))?;
    let mut told: Vec<&str> = Vec::new();
    for finding in findings.iter().filter(|finding| decision.codes.contains(&finding.code)) {
      if !told.contains(&finding.why.as_str()) {
        told.push(&finding.why);
        let columns = out.table_columns().saturating_sub(INDENT.len());
        for row in prose(&format!("{}: {}", finding.code, finding.why), columns) {
          out.line(&format!("{INDENT}{row}"))?;
        }
      }
    }
    out.note(&format!("{INDENT}fingerprint {hash}"))?;
    Ok(())
  }

  fn finish(mut self) -> Result<Status, Failure> {
    self.progress.clear();
    warn_of_damage();
    let out = &self.context.out;
    match self.form {
      Form::Json => out.json(&self.values)?,
      Form::Sarif(report) => out.json(&report.log())?,
      Form::Text => out.note(&self.tally.line(self.n_blocks, self.n_files))?,
    }
    for remark in self.excuses.remarks(&self.scanned) {
      complain(&format!("warning: {}\n", terminal(&remark)));
    }
    Ok(if self.worst < self.fail_on { Status::Yes } else { Status::No })
  }
}

/// Adds one result for each place of each code that counts.
fn add(report: &mut sarif::SarifLog, item: &Item<'_>, answer: &Assessed, is_suppressed: bool) {
  let Assessed { findings, decision, .. } = answer;
  let block = item.text.to_file(&(0..item.text.bytes().len()));
  let lines = Lines::of(item.file.bytes.get(block.clone()).unwrap_or_default(), item.start_line);
  for finding in findings.iter().filter(|finding| decision.codes.contains(&finding.code)) {
    let level = match (finding.severity, decision.verdict) {
      // A finding of severity `info` only supports other findings; it did not decide.
      (Severity::Info, _) => Level::Note,
      (_, Verdict::Quarantine) => Level::Error,
      _ => Level::Warning,
    };
    let span = item.text.to_file(&finding.span);
    let span = span.start.saturating_sub(block.start)..span.end.saturating_sub(block.start);
    let place = Place::span(&item.file.path, &lines, &span);
    report.add(&sarif::SarifFinding {
      code: finding.code,
      level,
      why: &finding.why,
      place: &place,
      hash: ContentHash::of(item.text.bytes()),
      properties: json!({
        "verdict": decision.verdict.as_str(),
        "score": rounded(decision.score),
        "severity": finding.severity.as_str(),
        "kind": finding.kind.as_str(),
        "rule": finding.rule.as_ref().map(|rule| &rule.id),
      }),
      is_suppressed,
    });
  }
}

/// Warns if the model is damaged, because the scan then uses only a part of it.
pub(super) fn warn_of_damage() {
  if let Some(why) = Model::embedded().health().degradation() {
    complain(&format!("warning: {why}; install memfw again\n"));
  }
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
      crate::terminal::failure::reason(error)
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
