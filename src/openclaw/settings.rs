//! OpenClaw's configuration file: JSON5 with includes and variables, read as OpenClaw reads it.
//!
//! Credentials in it are never read: only the keys that are asked for are. A missing file has no
//! values; a broken file has none either, and a reason, because OpenClaw then keeps its last valid
//! values.
#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use super::file;

/// OpenClaw reads no larger include (`MAX_INCLUDE_FILE_BYTES`); configurations are some kilobytes.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// Includes inside includes (`MAX_INCLUDE_DEPTH`).
const MAX_INCLUDE_DEPTH: usize = 10;
/// Files in all; OpenClaw has no such limit, and a configuration has a handful.
const MAX_FILES: usize = 64;
/// Brackets inside brackets: the parser works by recursion. Configurations have about ten.
const MAX_NESTING: usize = 64;
/// The key that includes other files.
const INCLUDE: &str = "$include";

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
  root: Value,
  /// Whether there is a file at all.
  pub exists: bool,
  /// Why the file says nothing, where it is broken.
  pub broken: Option<String>,
  /// All files that were read or looked for; a change of any of them changes the configuration.
  pub files: Vec<PathBuf>,
}

impl Settings {
  /// Reads the file at `path` and what it includes from its own directory.
  pub fn read(path: &Path) -> Self {
    let mut reader = Reader { dir: path.parent().unwrap_or(path).to_owned(), files: vec![] };
    match reader.file(path, &[]) {
      Ok(found) => Self {
        exists: found.is_some(),
        root: found.unwrap_or_default(),
        broken: None,
        files: reader.files,
      },
      Err(why) => Self { root: Value::Null, exists: true, broken: Some(why), files: reader.files },
    }
  }

  /// The value at a path of keys.
  pub fn at(&self, keys: &[&str]) -> Option<&Value> {
    keys.iter().try_fold(&self.root, |value, key| value.get(key))
  }

  /// A text with its variables put in: `${NAME}` by `lookup`, or by the `env` of the configuration
  /// itself; `$${NAME}` is `${NAME}`. The error names an unknown variable.
  pub fn expand(
    &self,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
  ) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
      out.push_str(before);
      let (escaped, braced) = match after.strip_prefix("${") {
        Some(braced) => (true, Some(braced)),
        None => (false, after.strip_prefix('{')),
      };
      let name = braced.and_then(|braced| braced.split_once('}')).filter(|(name, _)| is_name(name));
      match name {
        Some((name, behind)) if escaped => {
          out.extend(["${", name, "}"]);
          rest = behind;
        }
        Some((name, behind)) => {
          let value =
            lookup(name).or_else(|| self.variable(name)).filter(|value| !value.is_empty());
          out.push_str(&value.ok_or_else(|| name.to_owned())?);
          rest = behind;
        }
        None => {
          out.push('$');
          rest = after;
        }
      }
    }
    out.push_str(rest);
    Ok(out)
  }

  /// A variable that the configuration itself sets.
  fn variable(&self, name: &str) -> Option<String> {
    let value = self.at(&["env", "vars", name]).or_else(|| self.at(&["env", name]))?;
    value.as_str().map(str::to_owned)
  }
}

/// The names that OpenClaw puts values in for: `[A-Z_][A-Z0-9_]*`.
fn is_name(name: &str) -> bool {
  name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
    && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

struct Reader {
  /// Nothing outside of it is included.
  dir: PathBuf,
  files: Vec<PathBuf>,
}

impl Reader {
  /// A file with its includes put in; `chain` is what includes it.
  fn file(&mut self, path: &Path, chain: &[PathBuf]) -> Result<Option<Value>, String> {
    let shown = path.display();
    if chain.len() > MAX_INCLUDE_DEPTH || self.files.len() >= MAX_FILES {
      return Err(format!("`{shown}`: too many includes"));
    }
    if chain.iter().any(|above| above == path) {
      return Err(format!("`{shown}` includes itself"));
    }
    if !self.files.iter().any(|known| known == path) {
      self.files.push(path.to_owned());
    }
    let bytes = file::read(path, MAX_FILE_BYTES).map_err(|error| format!("`{shown}`: {error}"))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let value = parse(&bytes).map_err(|why| format!("`{shown}`: {why}"))?;
    let chain: Vec<PathBuf> = chain.iter().cloned().chain([path.to_owned()]).collect();
    self.included(value, path, &chain).map(Some)
  }

  fn included(&mut self, value: Value, from: &Path, chain: &[PathBuf]) -> Result<Value, String> {
    match value {
      Value::Array(items) => {
        let items = items.into_iter().map(|item| self.included(item, from, chain));
        items.collect::<Result<Vec<_>, _>>().map(Value::Array)
      }
      Value::Object(mut object) => {
        let include = object.remove(INCLUDE);
        let mut rest = Map::new();
        for (key, value) in object {
          rest.insert(key, self.included(value, from, chain)?);
        }
        let paths: Vec<String> = match include {
          None => return Ok(Value::Object(rest)),
          Some(Value::String(path)) => vec![path],
          Some(Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
          }
          Some(_) => return Err(format!("`{}`: an include is not a path", from.display())),
        };
        let mut base = Value::Object(Map::new());
        for path in paths {
          merge(&mut base, self.include(&path, from, chain)?);
        }
        merge(&mut base, Value::Object(rest));
        Ok(base)
      }
      value => Ok(value),
    }
  }

  fn include(&mut self, text: &str, from: &Path, chain: &[PathBuf]) -> Result<Value, String> {
    let path = normal(&from.parent().unwrap_or(from).join(text));
    let real = path.canonicalize().unwrap_or_else(|_error| path.clone());
    let dir = self.dir.canonicalize().unwrap_or_else(|_error| self.dir.clone());
    if !path.starts_with(&self.dir) || !real.starts_with(&dir) {
      return Err(format!("`{}` includes a file outside of its directory", from.display()));
    }
    self.file(&path, chain)?.ok_or_else(|| format!("`{}` does not exist", path.display()))
  }
}

/// Objects join, arrays follow each other, and otherwise the later value counts.
fn merge(base: &mut Value, over: Value) {
  match (base, over) {
    (Value::Object(base), Value::Object(over)) => {
      for (key, value) in over {
        match base.get_mut(&key) {
          Some(known) => merge(known, value),
          None => drop(base.insert(key, value)),
        }
      }
    }
    (Value::Array(base), Value::Array(over)) => base.extend(over),
    (base, over) => *base = over,
  }
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
  let text = std::str::from_utf8(bytes).map_err(|_error| "it is not UTF-8".to_owned())?;
  let text = text.strip_prefix('\u{feff}').unwrap_or(text);
  // Brackets within strings count, too: a bound is enough.
  let mut depth = 0_usize;
  for byte in text.bytes() {
    match byte {
      b'{' | b'[' => depth += 1,
      b'}' | b']' => depth = depth.saturating_sub(1),
      _ => {}
    }
    if depth > MAX_NESTING {
      return Err(format!("it is nested more than {MAX_NESTING} levels deep"));
    }
  }
  // The place only: the error's text may repeat the content, which may be a secret.
  json5::from_str(text).map_err(|_error| "it is not valid JSON5".to_owned())
}

/// A path without `.` and `..`, by its text alone.
pub(super) fn normal(path: &Path) -> PathBuf {
  let mut normal = PathBuf::new();
  for part in path.components() {
    match part {
      Component::ParentDir => drop(normal.pop()),
      Component::CurDir => {}
      part => normal.push(part),
    }
  }
  normal
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[expect(clippy::disallowed_methods, reason = "a test's own files")]
  fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
      let path = dir.path().join(name);
      std::fs::create_dir_all(path.parent().unwrap()).unwrap();
      std::fs::write(path, text).unwrap();
    }
    dir
  }

  fn read(files: &[(&str, &str)]) -> Settings {
    Settings::read(&dir(files).path().join("openclaw.json"))
  }

  #[test]
  fn json5_is_read_and_what_is_missing_says_nothing() {
    let settings =
      read(&[("openclaw.json", "{ // why\n agents: {defaults: {workspace: '~/a',}},}")]);
    assert_eq!(settings.at(&["agents", "defaults", "workspace"]), Some(&"~/a".into()));
    assert_eq!(settings.at(&["agents", "entries"]), None);
    assert!(settings.exists && settings.broken.is_none());
    let settings = read(&[]);
    assert!(!settings.exists && settings.broken.is_none() && settings.files.len() == 1);
  }

  #[test]
  fn includes_are_merged_as_openclaw_merges_them() {
    let settings = read(&[
      ("openclaw.json", r#"{$include: ["inc/a.json5", "b.json"], x: {p: 1}, list: [3]}"#),
      ("inc/a.json5", "{x: {p: 9, q: 2}, list: [1], y: {$include: './c.json'}}"),
      ("inc/c.json", r#"{"deep": true}"#),
      ("b.json", r#"{"list": [2]}"#),
    ]);
    assert_eq!(settings.at(&["x"]), Some(&serde_json::json!({"p": 1, "q": 2})));
    assert_eq!(settings.at(&["list"]), Some(&serde_json::json!([1, 2, 3])));
    assert_eq!(settings.at(&["y", "deep"]), Some(&true.into()));
    assert_eq!(settings.files.len(), 4);
  }

  #[test]
  fn what_is_broken_is_reported_without_its_text() {
    for files in [
      &[("openclaw.json", "{secret: 'sk-1'")][..],
      &[("openclaw.json", "{$include: '../x.json'}")],
      &[("openclaw.json", "{$include: 'gone.json'}")],
      &[("openclaw.json", "{$include: 'openclaw.json'}")],
      &[("openclaw.json", "{$include: 7}")],
    ] {
      let why = read(files).broken.unwrap();
      assert!(!why.contains("sk-1"), "{why}");
    }
    let deep = "[".repeat(100_000);
    assert!(read(&[("openclaw.json", &deep)]).broken.unwrap().contains("nested"));
  }

  #[test]
  fn variables_are_put_in() {
    let settings = read(&[("openclaw.json", "{env: {vars: {A: '/a'}, B: '/b'}}")]);
    let home = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
    let expand = |text: &str| settings.expand(text, &home);
    assert_eq!(expand("${HOME}/x${A}${B}").unwrap(), "/home/ann/x/a/b");
    assert_eq!(expand("$HOME $5 ${home} ${} $").unwrap(), "$HOME $5 ${home} ${} $");
    assert_eq!(expand("$${A}/${A}").unwrap(), "${A}//a");
    assert_eq!(expand("${GONE}").unwrap_err(), "GONE");
  }

  proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,60}|[\\[\\]{}:,'\"$a-c/ *\n]{0,80}") {
      let _value = parse(text.as_bytes());
      let settings = Settings::default();
      let _expanded = settings.expand(&text, &|_| Some("x".to_owned()));
    }
  }
}
