//! Reads and checks the configuration file, and lists its errors.
#![forbid(unsafe_code)]

use std::{
  fs,
  hash::{DefaultHasher, Hash as _, Hasher as _},
  io::{self, Read as _},
  path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
  config::{ConfigProblem, Effective, JudgeVia, Preset, ValueOrigin, find},
  net::check_url,
  os::strangers::who_may_write,
  terminal::failure::{Failure, reason},
};

/// Largest configuration file that memfw reads, in bytes; a hundred times the size of all keys.
pub const MAX_BYTES: u64 = 1 << 20;

/// Why a configuration file may not be the owner's, and the consequence; `None` where it is.
pub fn distrust(file: &Path) -> Option<String> {
  let why = who_may_write(file)?;
  Some(format!(
    "other users can change the configuration: {why}; its programs and addresses are not used"
  ))
}

/// How to repair a file that others can write.
pub const DISTRUST_HINT: &str =
  "check its content, then make it and its directory writable by you alone: `chmod go-w`, `chown`";

/// Reads and checks a configuration file under the preset of a flag; also says whether there is a file.
/// `home` replaces `~`. If others can write the file, keys that start programs or reach the network are ignored.
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

/// The configuration in a text, or all its errors.
pub fn parse(
  text: &str,
  preset: Option<Preset>,
  home: Option<&Path>,
  is_ours: bool,
) -> Result<Effective, Vec<ConfigProblem>> {
  let effective = Effective::parse_under(preset, text, home, is_ours)?;
  check_addresses(&effective).map_err(|problem| vec![problem])?;
  Ok(effective)
}

/// Refuses addresses that are missing, or that would send text unencrypted, as early as any other
/// error.
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
      ("judge.url", &config.judge_url, "name its address: `url = \"https://host/v1\"`"),
      ("judge.model", &config.judge_model, "name its model: `model = \"...\"`"),
    ] {
      if value.is_empty() {
        let message = format!("`judge.via` is `endpoint` and `{name}` is empty");
        return Err(problem("judge.via", message, hint));
      }
    }
  }
  Ok(())
}

/// The text of one of the files of memfw, or why memfw cannot read it; `None` where there is no file.
pub fn read(file: &Path, max_bytes: u64) -> Result<Option<String>, String> {
  let metadata = match fs::metadata(file) {
    Ok(metadata) => metadata,
    // A dangling link is an error to report; it is not an absent file.
    Err(error) if error.kind() == io::ErrorKind::NotFound => {
      return match fs::symlink_metadata(file) {
        Ok(_) => Err("it is a link to a file that does not exist".to_owned()),
        Err(_) => Ok(None),
      };
    }
    Err(error) => return Err(reason(&error)),
  };
  // Opening a pipe would wait for a writer.
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

/// What tells one content of the configuration file from another: a hash, or why it cannot be read. The hash is for
/// programs of one version, and against no attacker: who can write the file needs no collision.
pub fn version(file: &Path) -> String {
  match read(file, MAX_BYTES) {
    Ok(Some(text)) => {
      let mut hasher = DefaultHasher::new();
      text.hash(&mut hasher);
      format!("{:016x}", hasher.finish())
    }
    Ok(None) => "absent".to_owned(),
    Err(why) => why,
  }
}

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
  /// The file is there, but cannot be read.
  Unreadable {
    /// The path of the configuration file.
    file: PathBuf,
    /// The reason, in lower case.
    why: String,
  },
  /// The file is readable and has errors.
  Broken {
    /// The path of the configuration file.
    file: PathBuf,
    /// All errors.
    problems: Vec<ConfigProblem>,
  },
}

impl ConfigError {
  /// All errors as JSON; an unreadable file has no line.
  pub fn problems(&self) -> Vec<Value> {
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
