//! A user's rules and exemplars: the files `rules.d/*.toml` and `exemplars.toml` beside the configuration,
//! read and compiled.
//!
//! All errors in them are reported at once, with file and line. The daemon goes on with the rules that it has;
//! every other command refuses to run, as with an invalid configuration.
#![forbid(unsafe_code)]

use std::{
  fs, io,
  path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{configuration::read, context::Context};
use crate::{
  detect::{
    exemplar::Exemplars,
    rules::{
      RuleError, Rules,
      caps::{MAX_USER_BYTES, MAX_USER_FILES},
    },
  },
  terminal::failure::{Failure, reason},
};

/// The name of the directory; findings print it before the name of a rule file.
const DIR: &str = "rules.d";

/// The user's exemplars in the configuration directory.
pub const EXEMPLARS: &str = "exemplars.toml";
/// The largest file of exemplars that memfw reads, in bytes.
const MAX_EXEMPLAR_BYTES: u64 = 256 * 1024;

/// A user's rules.
pub struct Loaded {
  /// The user's rules together with the built-in rules.
  pub rules: Rules,
  /// The rule files, sorted by name, with the number of rules in each.
  pub files: Vec<(PathBuf, usize)>,
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
  /// The file, or the directory.
  pub file: PathBuf,
  /// Line and column, from 1; `None` where the file cannot be read.
  pub place: Option<(usize, usize)>,
  /// What was found and what was expected.
  pub message: String,
  /// How to repair it.
  pub hint: Option<String>,
}

impl RuleProblem {
  fn unreadable(file: &Path, why: impl Into<String>) -> Self {
    Self { file: file.to_owned(), place: None, message: why.into(), hint: None }
  }

  /// The error in the form of `config check --json`.
  pub fn to_json(&self) -> Value {
    let Self { file, place, message, hint } = self;
    json!({
      "file": file.display().to_string(),
      "line": place.map(|(line, _)| line),
      "column": place.map(|(_, column)| column),
      "message": message,
      "hint": hint,
    })
  }
}

impl From<RuleProblem> for Failure {
  fn from(problem: RuleProblem) -> Self {
    let RuleProblem { file, place, message, hint } = problem;
    let file = file.display();
    let error = match place {
      Some((line, column)) => format!("{file}:{line}:{column}: {message}"),
      None => format!("cannot read the rules `{file}`: {message}"),
    };
    Self::config(error).maybe_hint(hint)
  }
}

impl Context {
  /// The rules in force: the built-in rules and the user's.
  pub fn rules(&self) -> Result<Rules, Failure> {
    match load(&self.home()?.config) {
      Ok(loaded) => Ok(loaded.rules),
      Err(problems) => Err(
        Failure::all(problems.into_iter().map(Failure::from))
          .unwrap_or_else(|| Failure::internal("broken rules without a problem")),
      ),
    }
  }
}

/// Reads and compiles the rules below the configuration directory.
pub fn load(config: &Path) -> Result<Loaded, Vec<RuleProblem>> {
  let dir = config.join(DIR);
  let paths = paths(&dir).map_err(|problem| vec![problem])?;
  let mut problems = Vec::new();
  let mut texts: Vec<(String, String)> = Vec::new();
  for path in &paths {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match read(path, MAX_USER_BYTES) {
      Ok(text) => texts.push((format!("{DIR}/{name}"), text.unwrap_or_default())),
      Err(why) => problems.push(RuleProblem::unreadable(path, why)),
    }
  }
  let files: Vec<(&str, &str)> =
    texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
  let rules = Rules::with(&files).unwrap_or_else(|errors| {
    problems.extend(errors.into_iter().map(|error| problem(config, error)));
    Rules::default()
  });
  if !problems.is_empty() {
    return Err(problems);
  }
  let n_of = |name: &str| rules.set().rules().iter().filter(|rule| rule.name.file == name).count();
  let counted = files.iter().map(|(name, _)| n_of(name)).collect::<Vec<_>>();
  Ok(Loaded { rules, files: paths.into_iter().zip(counted).collect() })
}

/// Reads and compiles the rules, and also checks their examples and the user's exemplars.
pub fn check(config: &Path) -> Result<Loaded, Vec<RuleProblem>> {
  let loaded = load(config);
  let mut problems = exemplars(config).err().unwrap_or_default();
  let loaded = loaded.inspect_err(|wrong| problems.extend(wrong.iter().cloned()));
  if let Ok(loaded) = &loaded {
    let wrong = loaded.rules.set().wrong_examples(&format!("{DIR}/"));
    problems.extend(wrong.into_iter().map(|error| problem(config, error)));
  }
  if problems.is_empty() { loaded } else { Err(problems) }
}

/// The built-in exemplars and the user's.
pub fn exemplars(config: &Path) -> Result<Exemplars, Vec<RuleProblem>> {
  let path = config.join(EXEMPLARS);
  let text =
    read(&path, MAX_EXEMPLAR_BYTES).map_err(|why| vec![RuleProblem::unreadable(&path, why)])?;
  let built_in = Exemplars::built_in();
  match text {
    Some(text) => built_in
      .with((EXEMPLARS, &text))
      .map_err(|errors| errors.into_iter().map(|error| problem(config, error)).collect()),
    None => Ok(built_in),
  }
}

fn problem(config: &Path, error: RuleError) -> RuleProblem {
  let RuleError { file, line, column, message, hint } = error;
  RuleProblem { file: config.join(file), place: Some((line, column)), message, hint }
}

/// The rule files of a directory, sorted by name; the directory may be absent.
fn paths(dir: &Path) -> Result<Vec<PathBuf>, RuleProblem> {
  let unreadable = |error: &io::Error| RuleProblem::unreadable(dir, reason(error));
  let entries = match fs::read_dir(dir) {
    Ok(entries) => entries,
    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
    Err(error) => return Err(unreadable(&error)),
  };
  let mut paths = Vec::new();
  for entry in entries {
    let entry = entry.map_err(|error| unreadable(&error))?;
    let name = entry.file_name();
    let name = name.as_encoded_bytes();
    // Editors use names that begin with a dot.
    if name.ends_with(b".toml") && !name.starts_with(b".") {
      paths.push(entry.path());
    }
    if paths.len() > MAX_USER_FILES {
      let why = format!("there are more than {MAX_USER_FILES} files in it");
      let hint = Some("put the rules into fewer files".to_owned());
      return Err(RuleProblem { hint, ..RuleProblem::unreadable(dir, why) });
    }
  }
  paths.sort();
  Ok(paths)
}
