//! The pages of the documentation: complete, linked, in an index, and short where they promise it.

use std::{
  collections::BTreeSet,
  fs,
  path::{Path, PathBuf},
};

use crate::{assert_none, files, has_extension, links, root, text};

/// The most words of the README: a reader of one page must find it worth reading.
const MAX_README: usize = 1200;

/// `ForgedMarker` as `forged-marker`.
fn kebab_case(name: &str) -> String {
  let mut word = String::new();
  for (at, letter) in name.char_indices() {
    if letter.is_ascii_uppercase() && at > 0 {
      word.push('-');
    }
    word.push(letter.to_ascii_lowercase());
  }
  word
}

#[test]
fn every_finding_code_is_documented() {
  let code = text(Path::new("src/detect/code.rs")).unwrap();
  // The variants are spelled in kebab-case; the lines between them are comments and attributes.
  let variants = code.split_once("pub enum Code {").and_then(|(_, rest)| rest.split_once("\n}"));
  let variants = variants.map(|(variants, _)| variants).unwrap_or_default().lines();
  let words: BTreeSet<String> = variants
    .filter_map(|line| line.trim().strip_suffix(','))
    .filter(|name| name.chars().all(char::is_alphanumeric))
    .map(kebab_case)
    .collect();
  let words: BTreeSet<&str> = words.iter().map(String::as_str).collect();
  assert!(words.contains("forged-marker"), "the table of codes has another form now");
  let page = fs::read_to_string(root().join("docs/findings.md")).expect("docs/findings.md");
  let headings: BTreeSet<&str> = page
    .lines()
    .filter(|line| line.starts_with("##"))
    .map(|line| line.trim_start_matches('#').trim().trim_matches('`'))
    .collect();
  let mut problems: Vec<String> = words
    .difference(&headings)
    .map(|word| format!("docs/findings.md has no heading `{word}`"))
    .collect();
  let is_code = |heading: &&&str| heading.contains('-') && !heading.contains(' ');
  problems.extend(
    headings
      .difference(&words)
      .filter(is_code)
      .map(|word| format!("docs/findings.md explains `{word}`, which is no finding code")),
  );
  assert_none(&problems);
}

#[test]
fn every_configuration_key_is_documented() {
  let table = text(Path::new("src/config/key.rs")).expect("src/config/key.rs");
  // The table's lines are `"name" => field: Type = default;`.
  let keys: BTreeSet<&str> = table
    .lines()
    .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => "))
    .map(|(key, _)| key)
    .collect();
  assert!(keys.contains("files.idle_ms"), "the table of keys has another form now");
  let page = text(Path::new("docs/configuration.md")).unwrap();
  let headings: BTreeSet<&str> =
    page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
  let problems: Vec<String> = keys
    .symmetric_difference(&headings)
    .map(|key| format!("`{key}` is a key or a heading of docs/configuration.md, but not both"))
    .collect();
  assert_none(&problems);
}

#[test]
fn fixtures_say_where_they_come_from() {
  let mut problems = Vec::new();
  for path in files("fixtures") {
    let noted = path.ancestors().skip(1).take_while(|dir| dir.starts_with("fixtures")).any(|dir| {
      let note = fs::read_to_string(root().join(dir).join("README.md")).unwrap_or_default();
      note.to_lowercase().contains("licen")
    });
    if !noted {
      let path = path.display();
      problems.push(format!("{path}: no README.md beside it or above it names its licence"));
    }
  }
  assert_none(&problems);
}

#[test]
fn links_between_documents_resolve() {
  let pages: Vec<PathBuf> = files("")
    .into_iter()
    .filter(|path| has_extension(path, "md") && !path.starts_with("fixtures"))
    .collect();
  let mut problems = Vec::new();
  let mut n_links = 0;
  for page in &pages {
    for link in links::links(&text(page).unwrap()) {
      n_links += 1;
      let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
      let target =
        if file.is_empty() { page.clone() } else { links::join(page.parent().unwrap(), file) };
      let place = format!("{}:{}", page.display(), link.line);
      if !root().join(&target).exists() {
        problems.push(format!("{place}: there is no `{}`", target.display()));
      } else if !anchor.is_empty()
        && !links::anchors(&text(&target).unwrap_or_default()).contains(anchor)
      {
        problems.push(format!("{place}: `{}` has no heading `#{anchor}`", target.display()));
      }
    }
  }
  assert!(n_links > 0, "no link was found at all, so this test sees nothing");
  assert_none(&problems);
}

#[test]
fn every_page_is_in_the_index() {
  let index = text(Path::new("docs/README.md")).unwrap();
  let linked: BTreeSet<PathBuf> = links::links(&index)
    .iter()
    .map(|link| links::join(Path::new("docs"), link.target.split('#').next().unwrap()))
    .collect();
  let missing: Vec<String> = files("docs")
    .iter()
    .filter(|path| has_extension(path, "md") && !path.ends_with("docs/README.md"))
    .filter(|path| !linked.contains(*path))
    .map(|path| format!("docs/README.md does not name {}", path.display()))
    .collect();
  assert_none(&missing);
}

#[test]
fn the_readme_is_short() {
  let n_words = text(Path::new("README.md")).unwrap().split_whitespace().count();
  assert!(n_words <= MAX_README, "README.md has {n_words} words, more than {MAX_README}");
}
