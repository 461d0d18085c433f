//! Labelled lines, as they are read from the files and as the product would see them.

use std::{
  collections::BTreeSet,
  error::Error,
  fs,
  path::{Path, PathBuf},
  process::{Command, Stdio},
};

use memfw::detect::normalize::{ViewKind, normalize};
use serde::Deserialize;
use serde_json::Value;

/// One labelled line.
#[derive(Clone, Debug)]
pub(crate) struct Item {
  /// The set and the number of the line in its file, from 0: the same in every tool of `training/`.
  pub(crate) id: String,
  /// Whether it would steer an agent against its user.
  pub(crate) is_attack: bool,
  /// The set it belongs to.
  pub(crate) set: String,
  /// In what way it harms, or what kind of harmless it is.
  pub(crate) kind: String,
  /// The language.
  pub(crate) lang: String,
  /// The name that it shares with its twin.
  pub(crate) pair: Option<String>,
  /// The author, or the repository that it comes from: never on both sides of a split.
  pub(crate) group: String,
  /// The text as it stands.
  pub(crate) text: String,
  /// What it reads, then what it hides and encodes.
  pub(crate) views: Vec<String>,
}

impl Item {
  /// Whether it is written for this project: a line of memory, and not taken from a public set.
  pub(crate) fn is_written(&self) -> bool {
    self.set.starts_with("written")
  }
}

#[derive(Deserialize)]
struct Line {
  text: String,
  label: u8,
  /// The files of single authors do not say theirs.
  set: Option<String>,
  #[serde(default)]
  kind: String,
  #[serde(default)]
  lang: String,
  #[serde(default)]
  source: String,
  pair: Option<Value>,
}

/// All lines of the files and directories, in the order of their names.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Item>, Box<dyn Error>> {
  let mut items = Vec::new();
  for file in files(paths)? {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    for (index, line) in text(&file)?.lines().enumerate() {
      let line: Line =
        serde_json::from_str(line).map_err(|error| format!("{name}:{}: {error}", index + 1))?;
      items.push(item(line, stem, index));
    }
  }
  Ok(items)
}

/// The files, and those in the directories, in the order of their names.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Box<dyn Error>> {
  let mut files = Vec::new();
  for path in paths {
    if path.is_dir() {
      let mut found = Vec::new();
      for entry in fs::read_dir(path)? {
        found.push(entry?.path());
      }
      found.sort();
      files.extend(found.into_iter().filter(|path| is_data(path)));
    } else {
      files.push(path.clone());
    }
  }
  Ok(files)
}

fn is_data(path: &Path) -> bool {
  let name = path.to_string_lossy();
  name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
}

/// The text of a file; a compressed one is read by `gzip`.
pub(crate) fn text(file: &Path) -> Result<String, Box<dyn Error>> {
  if file.extension().is_some_and(|extension| extension == "gz") {
    let output =
      Command::new("gzip").arg("-dc").arg("--").arg(file).stdin(Stdio::null()).output()?;
    if !output.status.success() {
      return Err(format!("gzip cannot read {}", file.display()).into());
    }
    return Ok(String::from_utf8(output.stdout)?);
  }
  Ok(fs::read_to_string(file)?)
}

fn item(line: Line, stem: &str, index: usize) -> Item {
  // The files of single authors are named by a number alone.
  let set = line.set.unwrap_or_else(|| match stem.parse::<u32>() {
    Ok(number) => format!("written_{number:02}"),
    Err(_) => stem.to_owned(),
  });
  let pair = match line.pair {
    Some(Value::String(name)) => Some(name),
    Some(Value::Number(number)) if number.as_u64() != Some(0) => Some(format!("{set}-{number}")),
    _ => None,
  };
  let repository = line.source.split('@').next().unwrap_or_default();
  let group = if set.starts_with("written") || repository.is_empty() {
    set.clone()
  } else {
    repository.to_owned()
  };
  let views = views(&line.text);
  Item {
    id: format!("{set}:{index}"),
    is_attack: line.label == 1,
    set,
    kind: line.kind,
    lang: line.lang,
    pair,
    group,
    text: line.text,
    views,
  }
}

/// What the model is given: the folded view, or the text itself where folding changes nothing, then
/// what is hidden and what is encoded.
pub(crate) fn views(text: &str) -> Vec<String> {
  let normalized = normalize(text.as_bytes());
  let of = |kind| normalized.views.iter().filter(move |view| view.kind == kind);
  let seen = of(ViewKind::Folded).chain(of(ViewKind::Raw)).take(1);
  let out_of_sight = of(ViewKind::Hidden).chain(of(ViewKind::Decoded));
  seen.chain(out_of_sight).map(|view| view.text.to_string()).collect()
}

/// The authors and sources.
pub(crate) fn groups(items: &[Item]) -> BTreeSet<&str> {
  items.iter().map(|item| item.group.as_str()).collect()
}
