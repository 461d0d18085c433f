//! `memfw config`: where the configuration is, what it says, whether it is right, and changing it.
#![forbid(unsafe_code)]

pub mod args;
mod set;

pub use args::{ConfigArgs, PresetArgs};

use {
  super::{
    Status,
    args::JsonArgs,
    context::Context,
    escape::terminal,
    failure::{Failure, reason},
    output::{Style, count},
    rules,
    table::{Cell, Column, Table},
  },
  crate::{
    config::{
      Config, ConfigProblem, Effective, JudgeVia, KEYS, Key, Preset, ValueOrigin, edit, example,
      find, nearest,
    },
    net::check_url,
    os::strangers::who_may_write,
  },
  args::{ConfigCommand, ShowArgs},
  serde_json::{Value, json},
  std::{
    fs,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
  },
};

/// Largest configuration file that is read, in bytes; a hundred times what all keys need.
const MAX_BYTES: u64 = 1 << 20;

/// Carries the command out.
pub fn run(context: &Context, args: ConfigArgs) -> Result<Status, Failure> {
  match args.command {
    ConfigCommand::Path(args) => path(context, args),
    ConfigCommand::Show(args) => show(context, &args),
    ConfigCommand::Set(args) => set::run(context, &args),
    ConfigCommand::Check(args) => check(context, args),
    ConfigCommand::Example(args) => print_example(context, args),
  }
}

fn path(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  if args.json {
    context.out.json(&json!({ "file": shown(&file), "exists": file.exists() }))?;
  } else if context.out.is_terminal() {
    context.out.line(&terminal(file.as_os_str().as_bytes()))?;
  } else {
    // To a program the very bytes, so that `"$(memfw config path)"` is the file.
    context.out.bytes(file.as_os_str().as_bytes())?;
    context.out.text("\n")?;
  }
  Ok(Status::Yes)
}

fn show(context: &Context, args: &ShowArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  let wanted = wanted(&args.keys)?;
  let effective = context.config()?;
  let values = effective.values().filter(|(key, ..)| wanted.contains(&key.name));
  if args.json {
    let values: Vec<Value> = values
      .map(|(key, value, origin)| {
        let (origin, line, name) = match origin {
          ValueOrigin::Default => ("default", None, None),
          ValueOrigin::Preset(preset) => ("preset", None, Some(preset.as_str())),
          ValueOrigin::File { line } => ("file", Some(line), None),
          ValueOrigin::Flag(name) => ("flag", None, Some(name)),
          ValueOrigin::Environment(name) => ("environment", None, Some(name)),
        };
        json!({ "key": key.name, "value": value, "origin": origin, "line": line, "name": name })
      })
      .collect();
    let exists = file.exists();
    context.out.json(&json!({ "file": shown(&file), "exists": exists, "values": values }))?;
    return Ok(Status::Yes);
  }
  context.out.page();
  let mut table = Table::new([
    Column::new("KEY"),
    Column::new("VALUE").cut_end(16),
    Column::new("ORIGIN").cut_start(16),
  ]);
  for (key, value, origin) in values {
    let origin = match origin {
      ValueOrigin::Default => Cell::styled("default", Style::Dim),
      ValueOrigin::Preset(preset) => Cell::styled(format!("preset {preset}"), Style::Cyan),
      ValueOrigin::File { line } => Cell::from(format!("{}:{line}", file.display())),
      ValueOrigin::Flag(name) | ValueOrigin::Environment(name) => Cell::styled(name, Style::Cyan),
    };
    table.row([Cell::from(key.name), Cell::from(value.to_string()), origin]);
  }
  table.write(&context.out)?;
  Ok(Status::Yes)
}

/// The keys that are named, by their names or by their tables; all where none is.
fn wanted(names: &[String]) -> Result<Vec<&'static str>, Failure> {
  if names.is_empty() {
    return Ok(KEYS.iter().map(|key| key.name).collect());
  }
  let mut wanted = Vec::new();
  for name in names {
    let of_table = KEYS.iter().filter(|key| !name.is_empty() && key.section() == name);
    let found: Vec<&str> = find(name).into_iter().chain(of_table).map(|key| key.name).collect();
    if found.is_empty() {
      let tables = KEYS.iter().map(Key::section).filter(|table| !table.is_empty());
      return Err(unknown(name, nearest(name, tables)));
    }
    wanted.extend(found);
  }
  Ok(wanted)
}

/// There is no such key; `near` is what else could be meant.
fn unknown(name: &str, near: Option<&str>) -> Failure {
  Failure::usage(format!("unknown key `{name}`")).hint(edit::suggest(name).or(near).map_or_else(
    || "`memfw config example` prints every key".to_owned(),
    |near| format!("did you mean `{near}`?"),
  ))
}

fn check(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let file = context.config_file()?;
  let loaded = load(&file, context.preset, context.surroundings.home().as_deref());
  let rules = rules::check(&context.home()?.config);
  let distrust = distrust(&file);
  if args.json {
    let mut problems = loaded.as_ref().err().map(ConfigError::problems).unwrap_or_default();
    problems.extend(distrust.as_ref().map(|why| {
      json!({
        "file": shown(&file), "line": null, "column": null, "message": why, "hint": DISTRUST_HINT,
      })
    }));
    if let Err(wrong) = &rules {
      problems.extend(wrong.iter().map(rules::RuleProblem::to_json));
    }
    let files = rules.as_ref().map(|loaded| loaded.files.as_slice()).unwrap_or_default();
    context.out.json(&json!({
      "file": shown(&file),
      "exists": !matches!(loaded, Ok((_, false))),
      "ok": loaded.is_ok() && rules.is_ok() && distrust.is_none(),
      "problems": problems,
      "rules": files.iter().map(|(file, n)| json!({ "file": shown(file), "rules": n })).collect::<Vec<_>>(),
    }))?;
  }
  let failures = loaded.as_ref().err().map(|error| Failure::from(error.clone())).into_iter();
  let failures = failures.chain(distrust.map(|why| Failure::config(why).hint(DISTRUST_HINT)));
  let wrong = rules.as_ref().err().map(Vec::as_slice).unwrap_or_default();
  let failures = failures.chain(wrong.iter().map(|problem| Failure::from(problem.clone())));
  if let Some(failure) = Failure::all(failures) {
    return Err(failure);
  }
  if args.json {
    return Ok(Status::Yes);
  }
  let name = terminal(file.as_os_str().as_bytes());
  match loaded {
    Ok((_, true)) => context.out.line(&format!("{name}: fine"))?,
    _ => context.out.line(&format!("{name}: not there, the defaults hold"))?,
  }
  for (file, n) in rules.iter().flat_map(|loaded| &loaded.files) {
    let name = terminal(file.as_os_str().as_bytes());
    context.out.line(&format!("{name}: fine, {}", count(*n as u64, "rule")))?;
  }
  Ok(Status::Yes)
}

fn print_example(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  if args.json {
    let defaults = Config::default();
    let keys: Vec<Value> = KEYS
      .iter()
      .map(|key| {
        let about: Vec<&str> = key.about.iter().map(|line| line.trim()).collect();
        json!({ "key": key.name, "default": key.value(&defaults), "about": about.join(" ") })
      })
      .collect();
    context.out.json(&keys)?;
  } else {
    context.out.text(&example())?;
  }
  Ok(Status::Yes)
}

/// Why a configuration file is not surely ours, and what follows; `None` where it is.
pub fn distrust(file: &Path) -> Option<String> {
  let why = who_may_write(file)?;
  Some(format!(
    "the configuration may be somebody else's: {why}; its programs and addresses are not used"
  ))
}

/// What mends that.
pub const DISTRUST_HINT: &str =
  "look at what it says, then make it and its directory yours alone: `chmod go-w`, `chown`";

/// Reads and checks a configuration file, under a preset that a flag asks for; and whether there is one.
/// `home` is what `~` stands for. Of a file that others can write no key that reaches out is used.
pub fn load(
  file: &Path,
  preset: Option<Preset>,
  home: Option<&Path>,
) -> Result<(Effective, bool), ConfigError> {
  let text = match read(file, MAX_BYTES) {
    Ok(text) => text,
    Err(why) => return Err(ConfigError::Unreadable { file: file.to_path_buf(), why }),
  };
  let exists = text.is_some();
  let is_ours = who_may_write(file).is_none();
  let effective = parse(&text.unwrap_or_default(), preset, home, is_ours)
    .map_err(|problems| ConfigError::Broken { file: file.to_path_buf(), problems })?;
  Ok((effective, exists))
}

/// The configuration that a text asks for, or all that is wrong with it.
fn parse(
  text: &str,
  preset: Option<Preset>,
  home: Option<&Path>,
  is_ours: bool,
) -> Result<Effective, Vec<ConfigProblem>> {
  let effective = Effective::parse_under(preset, text, home, is_ours)?;
  check_addresses(&effective).map_err(|problem| vec![problem])?;
  Ok(effective)
}

/// Addresses that would carry text in the clear, or that are missing, are refused as early as any other
/// mistake.
fn check_addresses(effective: &Effective) -> Result<(), ConfigProblem> {
  let config = &effective.config;
  let problem = |name: &str, message: String, hint: &str| {
    let line = find(name).map(|key| effective.origin(key));
    ConfigProblem {
      line: if let Some(ValueOrigin::File { line }) = line { line } else { 1 },
      column: 1,
      message,
      hint: Some(hint.to_owned()),
    }
  };
  for (name, url) in
    [("detection.embedding_url", &config.embedding_url), ("judge.url", &config.judge_url)]
  {
    if !url.is_empty() {
      check_url(url).map_err(|why| {
        problem(name, format!("`{name}`: {why}"), "write it as `https://host/path`")
      })?;
    }
  }
  if config.judge_via == JudgeVia::Endpoint {
    for (name, value, hint) in [
      ("judge.url", &config.judge_url, "write where it is asked: `url = \"https://host/v1\"`"),
      ("judge.model", &config.judge_model, "write which model is asked: `model = \"...\"`"),
    ] {
      if value.is_empty() {
        let message = format!("`judge.via` is `endpoint` and `{name}` is empty");
        return Err(problem("judge.via", message, hint));
      }
    }
  }
  Ok(())
}

/// The text of a file of ours, or why it cannot be had; `None` where there is none.
pub fn read(file: &Path, max_bytes: u64) -> Result<Option<String>, String> {
  let metadata = match fs::metadata(file) {
    Ok(metadata) => metadata,
    // A dangling link is a mistake to be told, not a file that nobody wrote.
    Err(error) if error.kind() == io::ErrorKind::NotFound => {
      return match fs::symlink_metadata(file) {
        Ok(_) => Err("it is a link to a file that does not exist".to_owned()),
        Err(_) => Ok(None),
      };
    }
    Err(error) => return Err(reason(&error)),
  };
  // Opening a pipe would wait for somebody to write into it.
  if !metadata.is_file() {
    let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
    return Err(format!("it is {what}"));
  }
  #[expect(clippy::disallowed_methods, reason = "these are our own files, not memory")]
  let opened = fs::File::open(file);
  let mut bytes = Vec::new();
  opened
    .and_then(|file| file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes))
    .map_err(|error| reason(&error))?;
  if bytes.len() as u64 > max_bytes {
    return Err(format!("it has more than {max_bytes} bytes"));
  }
  String::from_utf8(bytes).map(Some).map_err(|error| {
    let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
    let line = valid.split(|&byte| byte == b'\n').count();
    format!("line {line} is not UTF-8")
  })
}

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
  /// The file is there, but cannot be read.
  Unreadable {
    /// The file.
    file: PathBuf,
    /// Why, lower case.
    why: String,
  },
  /// The file can be read, but is wrong.
  Broken {
    /// The file.
    file: PathBuf,
    /// All that is wrong.
    problems: Vec<ConfigProblem>,
  },
}

impl ConfigError {
  /// All that is wrong as JSON; a file that cannot be read has no line.
  fn problems(&self) -> Vec<Value> {
    match self {
      Self::Unreadable { file, why } => {
        let file = shown(file);
        vec![json!({ "file": file, "line": null, "column": null, "message": why, "hint": null })]
      }
      Self::Broken { file, problems } => problems
        .iter()
        .map(|ConfigProblem { line, column, message, hint }| {
          let file = shown(file);
          json!({ "file": file, "line": line, "column": column, "message": message, "hint": hint })
        })
        .collect(),
    }
  }
}

impl From<ConfigError> for Failure {
  fn from(error: ConfigError) -> Self {
    match error {
      ConfigError::Unreadable { file, why } => {
        Self::config(format!("cannot read the configuration `{}`: {why}", file.display()))
      }
      ConfigError::Broken { file, problems } => {
        let failures = problems.into_iter().map(|ConfigProblem { line, column, message, hint }| {
          Self::config(format!("{}:{line}:{column}: {message}", file.display())).maybe_hint(hint)
        });
        Self::all(failures).unwrap_or_else(|| Self::internal("a broken file without a problem"))
      }
    }
  }
}

/// A path for JSON.
fn shown(path: &Path) -> String {
  path.display().to_string()
}
