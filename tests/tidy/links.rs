//! Links and headings of Markdown, as far as memfw's pages use them.

use std::{
  collections::BTreeSet,
  path::{Component, Path, PathBuf},
};

/// A link to another place of the repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
  /// The target, as written in the page.
  pub(crate) target: String,
  /// The line, from 1.
  pub(crate) line: usize,
}

/// Lines outside fences, each with its number and without its code spans.
pub(crate) fn prose(page: &str) -> Vec<(usize, String)> {
  let mut lines = Vec::new();
  let mut fenced = false;
  for (index, line) in page.lines().enumerate() {
    if line.trim_start().starts_with("```") {
      fenced = !fenced;
    } else if !fenced && !line.starts_with("    ") {
      let outside: Vec<&str> = line.split('`').step_by(2).collect();
      lines.push((index + 1, outside.join("")));
    }
  }
  lines
}

/// The links of a page that do not leave the repository.
pub(crate) fn links(page: &str) -> Vec<Link> {
  let mut links = Vec::new();
  for (line, text) in prose(page) {
    for (at, _) in text.match_indices("](") {
      let Some(target) = text.get(at + 2..).and_then(|rest| rest.split(')').next()) else {
        continue;
      };
      let leaves = target.contains("://") || target.starts_with("mailto:");
      if !leaves {
        links.push(Link { target: target.to_owned(), line });
      }
    }
  }
  links
}

/// The anchors of the headings of a page, as the usual viewers make them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
  let mut fenced = false;
  let mut anchors = BTreeSet::new();
  for line in page.lines() {
    fenced ^= line.trim_start().starts_with("```");
    if fenced || !line.starts_with('#') {
      continue;
    }
    let heading = line.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
  }
  anchors
}

/// A relative link from a page in `dir`, without `.` and `..`.
pub(crate) fn join(dir: &Path, link: &str) -> PathBuf {
  let mut path = PathBuf::new();
  for part in dir.join(link).components() {
    match part {
      Component::ParentDir => drop(path.pop()),
      Component::CurDir => {}
      other => path.push(other),
    }
  }
  path
}
