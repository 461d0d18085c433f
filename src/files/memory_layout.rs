//! Which files below a guarded directory are memory. The directory may be an agent's workspace, or contain
//! additional notes that an agent searches.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  ffi::OsString,
  os::unix::ffi::OsStrExt as _,
  path::{Component, Path, PathBuf},
};

use super::workspace::{is_memory, is_memory_dir};

/// Which files of a directory are memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
  /// Those of a workspace.
  #[default]
  Workspace,
  /// All markdown files in it and below it.
  Notes,
  /// Only files in it with these names.
  Files(BTreeSet<OsString>),
}

/// The directories that are not workspaces, and which of their files are memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes(BTreeMap<PathBuf, Shape>);

impl Shape {
  /// Whether a relative path is the name of a memory file.
  pub fn has(&self, rel: &Path) -> bool {
    match self {
      Self::Workspace => is_memory(rel),
      Self::Notes => is_plain(rel) && rel.as_os_str().as_bytes().ends_with(b".md"),
      Self::Files(names) => names.iter().any(|name| rel.as_os_str() == name),
    }
  }

  /// Whether a relative path may be that of a directory with memory files.
  pub fn has_dir(&self, rel: &Path) -> bool {
    match self {
      Self::Workspace => is_memory_dir(rel),
      Self::Notes => is_plain(rel),
      Self::Files(_) => rel.as_os_str().is_empty(),
    }
  }
}

impl Shapes {
  /// Which files of a directory are memory.
  pub fn of(&self, root: &Path) -> &Shape {
    self.0.get(root).unwrap_or(&Shape::Workspace)
  }

  /// Whether a directory is not a workspace.
  pub fn is_elsewhere(&self, root: &Path) -> bool {
    self.0.contains_key(root)
  }

  /// Adds all notes below a directory.
  pub fn add_notes(&mut self, root: PathBuf) {
    self.0.insert(root, Shape::Notes);
  }

  /// Adds one file.
  pub fn add_file(&mut self, dir: PathBuf, name: OsString) {
    match self.0.entry(dir).or_insert_with(|| Shape::Files(BTreeSet::new())) {
      Shape::Files(names) => drop(names.insert(name)),
      // The whole directory is guarded already.
      Shape::Notes | Shape::Workspace => {}
    }
  }

  /// The directories.
  pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
    self.0.keys()
  }

  /// Forgets all but some.
  pub fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
    self.0.retain(|root, _| keep(root));
  }

  /// Adds the directories of `others` that are not known yet.
  pub fn extend(&mut self, others: &Self) {
    for (root, shape) in &others.0 {
      self.0.entry(root.clone()).or_insert_with(|| shape.clone());
    }
  }
}

/// Whether a path stays below its root.
fn is_plain(rel: &Path) -> bool {
  rel.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn notes_are_all_markdown_files_and_single_files_are_alone() {
    let mut shapes = Shapes::default();
    shapes.add_notes("/n".into());
    shapes.add_file("/f".into(), "a.md".into());
    shapes.add_file("/f".into(), "b.txt".into());
    shapes.add_file("/n".into(), "c.txt".into());
    let has = |root: &str, rel: &str| shapes.of(Path::new(root)).has(Path::new(rel));
    for (root, rel, expected) in [
      ("/n", "a.md", true),
      ("/n", "x/y/MEMORY.md", true),
      ("/n", "x/.git/y.md", true),
      ("/n", ".a.md", true),
      ("/n", "c.txt", false),
      ("/n", "../a.md", false),
      ("/f", "a.md", true),
      ("/f", "b.txt", true),
      ("/f", "c.md", false),
      ("/f", "x/a.md", false),
      ("/w", "MEMORY.md", true),
      ("/w", "x.md", false),
    ] {
      assert_eq!(has(root, rel), expected, "{root} {rel}");
    }
    assert!(shapes.is_elsewhere(Path::new("/n")) && !shapes.is_elsewhere(Path::new("/w")));
    let dir = |root: &str, rel: &str| shapes.of(Path::new(root)).has_dir(Path::new(rel));
    assert!(dir("/n", "x/y") && dir("/f", "") && !dir("/f", "x") && dir("/n", ".git"));
  }
}
