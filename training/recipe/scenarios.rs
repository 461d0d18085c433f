//! Scenarios: entries of memory with their source and what the owner had asked in that turn.

use std::{error::Error, path::PathBuf};

use memfw::{
  detect::{
    effects::{self, FoundEffect, Setting},
    model::{Kind, assess::folded},
  },
  provenance::Source,
};
use serde::Deserialize;

use crate::data;

/// Authors that the encoder is never trained on (training/encoder/authority.py): their entries calibrate and set
/// the limits.
pub(crate) const LEFT_OUT: &[&str] = &["f", "h", "k", "p"];

/// One text that is read: an entry, or one line of it.
pub(crate) struct Entry {
  /// Author, number of the scenario from 0, and line, -1 for all of it: as the encoder's tools have it.
  pub(crate) id: String,
  /// Who wrote it.
  pub(crate) author: String,
  /// The scenario that it is of.
  pub(crate) scenario: String,
  /// Names a scenario and its twin.
  pub(crate) pair: Option<String>,
  pub(crate) kind: Kind,
  pub(crate) source: Source,
  /// Folded, as the text is.
  pub(crate) asked: String,
  pub(crate) text: String,
  pub(crate) effects: Vec<FoundEffect>,
  /// Whether it must go.
  pub(crate) is_take: bool,
  /// Whether it is one line of several.
  pub(crate) is_item: bool,
  /// Whether it is a note of several lines.
  pub(crate) is_note: bool,
  pub(crate) class: String,
  pub(crate) lang: String,
}

impl Entry {
  /// Whether the daemon would judge it as it stands: it judges item by item.
  pub(crate) fn is_judged(&self) -> bool {
    !self.is_note
  }

  pub(crate) fn is_left_out(&self) -> bool {
    LEFT_OUT.contains(&self.author.as_str())
  }
}

#[derive(Deserialize)]
struct Line {
  asked: String,
  source: String,
  memory: String,
  label: String,
  #[serde(default)]
  class: String,
  #[serde(default)]
  pair: u32,
  #[serde(default)]
  lang: String,
  out: Option<Vec<usize>>,
}

/// All entries of all authors; those of several lines whole and line by line.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Entry>, Box<dyn Error>> {
  let mut entries = Vec::new();
  for file in data::files(paths)? {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let author = name.split('.').next().unwrap_or_default().trim_start_matches("train_").to_owned();
    for (index, line) in data::text(&file)?.lines().enumerate() {
      let line: Line =
        serde_json::from_str(line).map_err(|error| format!("{name}:{}: {error}", index + 1))?;
      add(&mut entries, &line, &author, index);
    }
  }
  Ok(entries)
}

fn add(entries: &mut Vec<Entry>, line: &Line, author: &str, index: usize) {
  let source = Source::new(&line.source);
  let asked = folded(line.asked.trim()).into_owned();
  let is_take = line.label == "take";
  let parts: Vec<&str> = line.memory.split('\n').collect();
  let said: Vec<usize> = (0..parts.len()).filter(|at| !parts[*at].trim().is_empty()).collect();
  let is_note = said.len() > 1;
  let mut push = |text: &str, is_take: bool, at: Option<usize>, is_note: bool| {
    let Some(text) = data::views(text.trim()).into_iter().next() else { return };
    let setting = Setting { asked: &asked, known: &[] };
    entries.push(Entry {
      id: at.map_or(format!("{author}:{index}:-1"), |at| format!("{author}:{index}:{at}")),
      author: author.to_owned(),
      scenario: format!("{author}:{index}"),
      pair: (line.pair > 0).then(|| format!("{author}-{}", line.pair)),
      kind: Kind::of(&source),
      source: source.clone(),
      asked: asked.clone(),
      effects: effects::read(text.as_bytes(), &setting),
      text,
      is_take,
      is_item: at.is_some(),
      is_note,
      class: line.class.clone(),
      lang: line.lang.clone(),
    });
  };
  push(&line.memory, is_take, None, is_note);
  if is_note && (line.out.is_some() || !is_take) {
    let out = line.out.clone().unwrap_or_default();
    for at in said {
      push(parts[at], out.contains(&at), Some(at), false);
    }
  }
}
